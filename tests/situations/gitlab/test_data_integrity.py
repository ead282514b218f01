"""The data-integrity checks of the seed, one by one, on a mirrored world in each kind of database.

What it asks about failures and about later changes (nothing advances, nothing is lost, links and stale rows go) has
tests of its own beside this one: `test_mr_ingestion`, `test_mr_ingestion_discussions`, `test_silent_changes`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import DIALECTS

from tidelore.app.mirroring import mirror
from tidelore.app.wiring import App
from tidelore.core.clock import parse_instant
from tidelore.core.config_file import parse_config
from tidelore.store.database.port import Database
from tidelore.store.mirror.payloads import PayloadReader
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport
from tidelore_world.gitlab.review import image_position
from tidelore_world.server import serve
from tidelore_world.world import World

MRS = "JOIN merge_requests m ON m.id"


@dataclass
class Copy:
    """A whole world and its copy."""

    world: World
    app: App
    database: Database

    @property
    def paths(self) -> list[str]:
        return [project.path for project in self.world.gitlab.projects.values()]

    def run(self, *, full: bool = False) -> RunReport:
        """Mirror merge requests once more."""
        return asyncio.run(mirror(self.app, MirrorRequest(("merge_requests",), full=full), "ingest"))

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        return self.database.read(sql, {})

    def one(self, sql: str) -> Any:
        ((value,),) = self.read(sql)
        return value

    def requests(self) -> dict[int, dict[str, Any]]:
        """Every merge request as the server shows it, by its id."""
        forge = self.world.gitlab
        return {shown["id"]: shown for path in self.paths for shown in forge.truth_merge_requests(path)}

    def notes(self) -> dict[int, dict[str, Any]]:
        """Every note under a merge request as the server shows it, by its id."""
        forge = self.world.gitlab
        found = (forge.truth_all_discussions("merge_requests", path) for path in self.paths)
        return {
            note["id"]: note
            for by_iid in found
            for discussions in by_iid.values()
            for discussion in discussions
            for note in discussion["notes"]
        }


def build_world() -> World:
    """Three projects with half a year of history, every state of a merge request, a draft and a picture."""
    world = World()
    forge = world.gitlab
    forge.populate(0.1)
    path = next(iter(forge.projects.values())).path
    locked, drafted, pictured = (
        forge.create_merge_request(path, labels=["backend", "bug"], assignees=["ada"], reviewers=["grace", "linus"])
        for _ in range(3)
    )
    forge.lock_merge_request(path, locked.iid)
    forge.edit_merge_request(path, drafted.iid, draft=True)
    forge.add_note(pictured, "this picture", position=image_position(random.Random(1), pictured))
    forge.add_note(pictured, "changed this line", position=image_position(random.Random(1), pictured), system=True)
    world.advance(86_400)
    return world


@pytest.fixture(scope="module", params=DIALECTS)
def copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """The world mirrored once; the checks only read, or mirror again."""
    world = build_world()
    with ExitStack() as stack:
        if request.param == "postgres":
            address = stack.enter_context(request.getfixturevalue("postgres_pool").lent()).address
        else:
            address = str(Path(tmp_path_factory.mktemp("integrity")) / "lore.db")
        server = stack.enter_context(serve(world))
        projects = [project.path for project in world.gitlab.projects.values()]
        config = parse_config(
            {"gitlab": [{"base_url": server.url, "projects": projects}], "sync": {"scrub_share": 0.0}}
        )
        app = App(config, {}, address)
        report = asyncio.run(mirror(app, MirrorRequest(("issues", "merge_requests")), "ingest"))
        assert [scope.error for scope in report.scopes] == [None] * 6
        database = app.open_store()
        stack.callback(database.close)
        yield Copy(world, app, database)


def test_the_count_of_merge_requests_matches_the_server(copy: Copy) -> None:
    assert copy.one("SELECT COUNT(*) FROM merge_requests") == len(copy.requests())


def test_every_merge_request_has_its_payload(copy: Copy) -> None:
    rows = copy.read(
        "SELECT m.remote_id, r.encoding, r.payload, r.dictionary_id FROM merge_requests m"
        " JOIN raw_payloads r ON r.id = m.raw_payload_id"
    )
    reader = PayloadReader(copy.database.read)
    assert {key: json.loads(reader.unpack(*packed)) for key, *packed in rows} == copy.requests()


def test_draft_and_state_match_the_server(copy: Copy) -> None:
    held = {
        key: (state, bool(draft))
        for key, state, draft in copy.read("SELECT remote_id, state, draft FROM merge_requests")
    }
    assert held == {key: (shown["state"], shown["draft"]) for key, shown in copy.requests().items()}
    assert {state for state, _ in held.values()} == {"opened", "merged", "closed", "locked"}
    assert {draft for _, draft in held.values()} == {True, False}


def test_merge_status_head_and_references_are_populated(copy: Copy) -> None:
    rows = copy.read(
        "SELECT remote_id, detailed_merge_status, head_sha, references_short, references_full FROM merge_requests"
    )
    shown = copy.requests()
    assert {row[0]: row[1:] for row in rows} == {
        key: (m["detailed_merge_status"], m["sha"], m["references"]["short"], m["references"]["full"])
        for key, m in shown.items()
    }
    assert all(None not in row for row in rows)


def test_every_linked_label_exists(copy: Copy) -> None:
    assert copy.one("SELECT COUNT(*) FROM mr_labels j LEFT JOIN labels l ON l.id = j.label_id WHERE l.id IS NULL") == 0
    assert copy.one("SELECT COUNT(*) FROM mr_labels") > 0


@pytest.mark.parametrize("people", ["assignees", "reviewers"])
def test_people_match_the_server(copy: Copy, people: str) -> None:
    held = sorted(copy.read(f"SELECT m.remote_id, p.username FROM mr_{people} p {MRS} = p.merge_request_id"))
    assert held == sorted((key, user["username"]) for key, shown in copy.requests().items() for user in shown[people])
    assert held


def test_labels_of_each_merge_request_match_the_server(copy: Copy) -> None:
    rows = copy.read(
        f"SELECT m.remote_id, l.name FROM mr_labels j {MRS} = j.merge_request_id JOIN labels l ON l.id = j.label_id"
    )
    assert sorted(rows) == sorted((key, name) for key, shown in copy.requests().items() for name in shown["labels"])


def test_every_project_has_a_cursor(copy: Copy) -> None:
    rows = copy.read(
        "SELECT p.path, c.bootstrap_complete FROM cursors c JOIN projects p ON p.id = c.project_id"
        " WHERE c.surface = 'gitlab.merge_requests'"
    )
    assert sorted(rows) == sorted((path, 1) for path in copy.paths)


def test_a_second_run_fetches_nothing_new_and_skips_every_discussion(copy: Copy) -> None:
    copy.world.requests.clear()
    report = copy.run()
    assert [(scope.tally.created, scope.tally.changed) for scope in report.scopes] == [(0, 0)] * 3
    assert dict(copy.world.requests) == {"GET /projects/:id/merge_requests": 3}
    assert sum(scope.children["discussions"].unchanged for scope in report.scopes) == len(copy.requests())


def test_every_discussion_of_a_merge_request_has_a_note(copy: Copy) -> None:
    assert copy.one("SELECT COUNT(*) FROM discussions WHERE noteable_type = 'MergeRequest'") > 0
    assert copy.read(
        "SELECT d.remote_id FROM discussions d LEFT JOIN notes n ON n.discussion_id = d.id"
        " GROUP BY d.remote_id HAVING COUNT(n.id) = 0"
    ) == []  # fmt: skip


def test_discussions_and_notes_match_the_server(copy: Copy) -> None:
    rows = copy.read(
        "SELECT p.path, m.iid, d.remote_id, n.remote_id, n.body, n.author_username, n.is_system FROM notes n"
        " JOIN discussions d ON d.id = n.discussion_id JOIN merge_requests m ON m.id = d.merge_request_id"
        " JOIN projects p ON p.id = d.project_id"
    )
    forge = copy.world.gitlab
    shown = [
        (path, iid, found["id"], note["id"], note["body"], note["author"]["username"], int(note["system"]))
        for path in copy.paths
        for iid, discussions in forge.truth_all_discussions("merge_requests", path).items()
        for found in discussions
        for note in found["notes"]
    ]
    assert sorted(rows) == sorted(shown)


def test_diff_notes_carry_their_position(copy: Copy) -> None:
    names = ("old_path", "new_path", "old_line", "new_line", "position_type", "base_sha", "start_sha", "head_sha")
    columns = ", ".join(f"n.position_{name.removeprefix('position_')}" for name in names)
    rows = copy.read(
        f"SELECT n.remote_id, {columns}, n.position_line_range_start, n.position_line_range_end FROM notes n"
        " JOIN discussions d ON d.id = n.discussion_id"
        " WHERE d.noteable_type = 'MergeRequest' AND n.position_new_path IS NOT NULL"
    )
    placed = {key: note["position"] for key, note in copy.notes().items() if note.get("position")}
    assert len(rows) == len(placed) > 5
    for key, *values, start, end in rows:
        position = placed[key]
        assert values == [position.get(name) for name in names]
        span = position.get("line_range")
        assert (start, end) == ((_line(span["start"]), _line(span["end"])) if span else (None, None))
    assert {position["position_type"] for position in placed.values()} == {"text", "image"}
    assert sum(start is not None for *_, start, _ in rows) > 2, "some span several lines"


def test_timestamps_are_in_order_and_never_zero(copy: Copy) -> None:
    assert copy.one("SELECT COUNT(*) FROM discussions WHERE first_note_at > last_note_at OR first_note_at IS NULL") == 0
    assert copy.one("SELECT COUNT(*) FROM notes WHERE created_at <= 0 OR updated_at <= 0") == 0
    held = dict(
        copy.read(
            "SELECT n.remote_id, n.created_at FROM notes n JOIN discussions d ON d.id = n.discussion_id"
            " WHERE d.noteable_type = 'MergeRequest'"
        )
    )
    assert held == {key: parse_instant(note["created_at"]) for key, note in copy.notes().items()}


def test_only_user_notes_and_diff_notes_have_a_payload(copy: Copy) -> None:
    rows = copy.read("SELECT is_system, position_new_path IS NOT NULL, raw_payload_id IS NOT NULL FROM notes")
    kinds = Counter((bool(system), bool(placed), bool(stored)) for system, placed, stored in rows)
    assert set(kinds) == {(False, False, True), (False, True, True), (True, False, False), (True, True, True)}


def test_events_files_and_closed_issues_match_the_server(copy: Copy) -> None:
    forge = copy.world.gitlab
    for family in ("state", "label", "milestone"):
        wanted = [
            event["id"]
            for path in copy.paths
            for kind in ("issues", "merge_requests")
            for events in forge.truth_all_events(kind, path, family).values()
            for event in events
        ]
        assert sorted(key for (key,) in copy.read(f"SELECT remote_id FROM resource_{family}_events")) == sorted(wanted)
    where = "JOIN projects p ON p.id = m.project_id"
    files = copy.read(
        f"SELECT p.path, m.iid, f.old_path, f.new_path FROM mr_file_changes f {MRS} = f.merge_request_id {where}"
    )
    assert sorted(files) == sorted(
        (path, iid, diff["old_path"], diff["new_path"])
        for path in copy.paths
        for iid, diffs in forge.truth_all_diffs(path).items()
        for diff in diffs
    )
    closes = copy.read(f"SELECT p.path, m.iid, c.issue_iid FROM mr_closes_issues c {MRS} = c.merge_request_id {where}")
    assert sorted(closes) == sorted(
        (path, iid, issue["iid"])
        for path in copy.paths
        for iid, issues in forge.truth_all_closes(path).items()
        for issue in issues
    )
    assert closes


def test_a_full_sync_keeps_every_correct_row(copy: Copy) -> None:
    """Last, because it reads all again: every row stays as it is, and nothing is stored twice."""

    def everything() -> list[list[tuple[Any, ...]]]:
        tables = ("merge_requests", "discussions", "notes", "raw_payloads", "mr_file_changes", "resource_label_events")
        return [copy.read(f"SELECT id FROM {table} ORDER BY id") for table in tables]

    before = everything()
    copy.world.requests.clear()
    report = copy.run(full=True)
    assert copy.world.requests["GET /projects/:id/merge_requests/:iid/discussions"] == len(copy.requests())
    assert sum(child.tally.changed for scope in report.scopes for child in scope.children.values()) == 0
    assert everything() == before
    unread = "SELECT COUNT(*) FROM child_sync WHERE kind = 'discussions' AND synced_for IS NULL"
    assert copy.one(f"{unread} AND parent_kind = 'merge_requests'") == 0


def _line(end: dict[str, Any]) -> int | None:
    line: int | None = end["old_line"] if end["new_line"] is None else end["new_line"]
    return line
