"""GitLab's discussions come by REST or by GraphQL: the path decides how many requests it takes, and nothing else."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.effort import examples
from tests.properties.inprocess import PROJECT, House, Killed, Reaper, build_config, scratch
from tests.support.deep import gate_cases

from tidelore.app.mirroring import audit, mirror
from tidelore.core.progress import Progress
from tidelore.engine.crashpoint import Seam
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport
from tidelore_world.demo.truth import true_rows
from tidelore_world.faults import FaultPlan, Kind
from tidelore_world.gitlab.state import Discussion, Item, MergeRequest, Note, Position

HOUR = 3600
DISCUSSIONS = "GET /projects/:id/merge_requests/:iid/discussions"
GRAPHQL = "POST /api/graphql"
INSTANTS = ("created_at", "updated_at", "resolved_at")
LEFT_OUT = {
    "notes": {"last_seen_at"},
    "discussions": {"last_seen_at"},
    "raw_payloads": set[str](),
    "documents": set[str](),
}


class Talk(House):
    """A project with conversations; each run takes one of the two paths."""

    def __init__(self, folder: Path, merge_requests: int = 4, issues: int = 3, **bulk: int) -> None:
        super().__init__(folder)
        made: dict[str, Any] = {"discussions": 2, "notes": 2} | bulk
        self.world.gitlab.bulk(PROJECT, issues, merge_requests, **made)
        self.world.advance(HOUR)

    def go(self, path: str, reaper: Reaper | None = None, **request: Any) -> RunReport | None:
        """Mirror once, verify everything, and make the documents."""
        self.config = build_config(graphql=path, max_retries=0, scrub_share=0.0)
        wanted = {"scrub_budget": 1000, "documents": True, "force": self.killed, **request}
        resources = ("issues", "merge_requests")
        made = mirror(self.app(reaper or Reaper()), MirrorRequest(resources, **wanted), "lore sync")
        try:
            report = asyncio.run(made)
        except Killed:
            self.killed = True
            return None
        self.killed = False
        return report

    def spent(self, path: str, **request: Any) -> Counter[str]:
        """The requests of one run by their route."""
        before = self.world.requests.copy()
        self.go(path, **request)
        return self.world.requests - before

    def notes(self) -> dict[int, dict[str, Any]]:
        """The stored notes by their number, with instants of whole seconds."""
        return {row["remote_id"]: whole_seconds(row) for row in self.rows("notes")}

    def rows(self, table: str) -> list[dict[str, Any]]:
        with self.database() as database:
            names = [name for _, name, *_ in database.read(f"PRAGMA table_info({table})", {})]
            found = database.read(f"SELECT {', '.join(names)} FROM {table} ORDER BY id", {})
            assert found, f"nothing in {table}"
            left_out = LEFT_OUT[table]
            return [{n: v for n, v in zip(names, row, strict=True) if n not in left_out} for row in found]

    def snapshot(self) -> dict[str, list[dict[str, Any]]]:
        return {table: self.rows(table) for table in LEFT_OUT}

    def check(self) -> None:
        """Every note is stored once, as the forge shows it, and no range is left unknown."""
        wanted = true_rows(self.world.gitlab, "notes", PROJECT)
        held = self.notes()
        assert held.keys() == {row["remote_id"] for row in wanted.values()}
        for row in wanted.values():
            shown = {name: value for name, value in whole_seconds(row).items() if name != "iid"}
            mine = held[row["remote_id"]]
            assert {name: mine[name] for name in shown} == shown
            assert mine["position_range_unknown"] == 0

    @property
    def items(self) -> list[Item]:
        project = self.world.gitlab.project(PROJECT)
        return [*project.merge_requests, *project.issues]


def whole_seconds(row: Any) -> dict[str, Any]:
    return {n: v // 1000 if n in INSTANTS and v is not None else v for n, v in row.items()}


def change(talk: Talk, deed: str, which: int) -> None:
    """Let something happen below one item."""
    forge, item = talk.world.gitlab, talk.items[which % len(talk.items)]
    notes = _notes(item)
    if deed == "say" or not notes:
        forge.add_note(item, f"said by {which}", thread=which % 2 == 0)
    elif deed == "reply":
        forge.add_note(item, f"reply {which}", discussion=notes[which % len(notes)][0])
    elif deed == "edit":
        forge.edit_note(item, notes[which % len(notes)][1], f"edited {which}")
    elif deed == "delete":
        forge.delete_note(item, notes[which % len(notes)][1])
    elif deed == "resolve" and isinstance(item, MergeRequest):
        home = notes[which % len(notes)][0]
        if any(note.resolvable for note in home.notes):
            forge.resolve(item, home, resolved=home.notes[0].resolved_at_us is None)


def _notes(item: Item) -> list[tuple[Discussion, Note]]:
    return [(home, note) for home in item.discussions for note in home.notes if not note.system]


FAULTS: tuple[Kind, ...] = ("status", "timeout", "disconnect", "truncated", "not_json")
DEEDS = st.sampled_from(["nothing", "say", "reply", "edit", "delete", "resolve"])
STEPS = st.lists(st.tuples(st.sampled_from(["auto", "off"]), DEEDS, st.integers(0, 40)), min_size=3, max_size=8)


@examples(2, 30)
@given(steps=STEPS)
def test_alternating_paths_give_the_same_copy_and_rewrite_nothing(steps: list[tuple[str, str, int]]) -> None:
    with scratch() as folder:
        talk = Talk(folder)
        for path, deed, which in steps:
            if deed != "nothing":
                change(talk, deed, which)
            talk.world.advance(HOUR + 0.377)
            talk.go(path)
            talk.check()
            before = talk.snapshot()
            for other in ("off", "auto") if path == "auto" else ("auto", "off"):
                talk.world.advance(HOUR)
                talk.go(other)
                assert talk.snapshot() == before, f"the path {other} rewrote rows"


@examples(2, 30)
@given(seed=st.integers(0, 2**32))
def test_the_copy_is_whole_after_faults_crashes_and_changes_between_queries(seed: int) -> None:
    rng = random.Random(seed)
    with scratch() as folder:
        talk = Talk(folder, merge_requests=12, issues=6)
        forge = talk.world.gitlab
        for _ in range(3):
            talk.world.faults = FaultPlan.random(rng, 0.4, FAULTS, route=re.compile("graphql|discussions"))
            forge.graphql_most_notes = rng.choice([None, 10, 3])
            forge.graphql_nulls = {note.id for _, note in _notes(rng.choice(talk.items))[:1]}
            for _ in range(4):
                change(talk, rng.choice(["say", "reply", "edit", "delete", "resolve"]), rng.randrange(1000))
            talk.world.advance(rng.choice([1, 100, HOUR]))
            talk.go("auto", Reaper(rng.choice([None, rng.randrange(80)])), scrub_budget=rng.choice([0, 10]))
        talk.world.faults.clear()
        for path in ("auto", rng.choice(["auto", "off"])):
            talk.world.advance(24 * HOUR)
            talk.go(path)
        talk.check()


@pytest.mark.parametrize("paths", [("off", "auto"), ("auto", "off")])
def test_reading_by_the_other_path_rewrites_nothing(tmp_path: Path, paths: tuple[str, str]) -> None:
    talk = Talk(tmp_path)
    for item in talk.items:
        talk.world.advance(0.377)
        talk.world.gitlab.add_note(item, "with milliseconds")
    talk.world.advance(HOUR)
    talk.go(paths[0])
    before = talk.snapshot()
    talk.world.advance(HOUR)
    spent = talk.spent(paths[1])
    assert spent[GRAPHQL if paths[1] == "auto" else DISCUSSIONS] > 0, "it was read again"
    assert talk.snapshot() == before


def test_a_new_note_read_by_graphql_leaves_the_milliseconds_of_its_neighbours(tmp_path: Path) -> None:
    talk = Talk(tmp_path, issues=0)
    talk.world.advance(0.377)
    thread = talk.items[0].discussions[0]
    old = talk.world.gitlab.add_note(talk.items[0], "with milliseconds", discussion=thread)
    talk.world.advance(HOUR)
    talk.go("off")
    new = talk.world.gitlab.add_note(talk.items[0], "later", discussion=thread)
    for item in talk.items[1:]:
        talk.world.gitlab.add_note(item, "elsewhere")
    talk.world.advance(HOUR)
    assert talk.spent("auto", scrub_budget=0)[GRAPHQL] == 1
    stored = {row["remote_id"]: row["created_at"] for row in talk.rows("notes")}
    assert stored[old.id] == old.created_at_us // 1000
    assert stored[old.id] % 1000 != 0
    assert stored[new.id] == new.created_at_us // 1_000_000 * 1000


def test_a_note_edited_by_graphql_keeps_the_milliseconds_of_its_creation(tmp_path: Path) -> None:
    talk = Talk(tmp_path, issues=0)
    talk.world.advance(0.377)
    note = talk.world.gitlab.add_note(talk.items[0], "with milliseconds")
    talk.world.advance(HOUR)
    talk.go("off")
    for item in talk.items:
        talk.world.gitlab.edit_note(item, item.discussions[-1].notes[-1], "edited")
    talk.world.advance(HOUR)
    assert talk.spent("auto", scrub_budget=0)[GRAPHQL] == 1
    (stored,) = (row for row in talk.rows("notes") if row["remote_id"] == note.id)
    assert (stored["body"], stored["created_at"]) == ("edited", note.created_at_us // 1000)
    assert stored["created_at"] % 1000 != 0


def test_a_reply_read_by_graphql_leaves_the_line_range_of_its_thread(tmp_path: Path) -> None:
    talk = Talk(tmp_path, issues=0)
    place = Position("b" * 40, "c" * 40, "a" * 40, "a.py", "a.py", new_line=9, first_new_line=4)
    for item in talk.items:
        talk.world.gitlab.add_note(item, "these lines", position=place)
    talk.world.advance(HOUR)
    talk.go("off")
    for item in talk.items:
        talk.world.gitlab.add_note(item, "and so?", discussion=item.discussions[-1])
    talk.world.advance(HOUR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidelore.sync.children.POSITIONS_AT_ONCE", 0)
        assert talk.spent("auto", scrub_budget=0)[GRAPHQL] == 1
    ranges = {row["body"]: row["position_line_range_start"] for row in talk.rows("notes")}
    assert (ranges["these lines"], ranges["and so?"]) == (4, None)
    talk.go("auto", scrub_budget=0)
    talk.check()


def test_the_first_sync_of_many_parents_takes_one_query_for_many(tmp_path: Path) -> None:
    talk = Talk(tmp_path, merge_requests=130, issues=60)
    spent = talk.spent("auto", scrub_budget=0)
    # Pages of 25 and 50, the rest; then 25 and 35 issues.
    assert spent[GRAPHQL] == 5
    assert spent["GET /projects/:id/issues/:iid/discussions"] == 0
    talk.check()
    assert talk.spent("auto", scrub_budget=0)[GRAPHQL] == 0


def test_verification_reads_a_hundred_parents_with_one_query(tmp_path: Path) -> None:
    talk = Talk(tmp_path, merge_requests=130, issues=0, discussions=1, notes=1)
    talk.go("auto", scrub_budget=0)
    talk.world.advance(HOUR)
    talk.world.gitlab.resolve(*_resolvable(talk))
    spent = talk.spent("auto", walk=False, scrub_budget=20)
    assert spent[GRAPHQL] <= 5
    assert spent[DISCUSSIONS] == 0
    talk.check()


def test_an_audit_by_either_path_finds_no_difference_in_a_copy_made_by_the_other(tmp_path: Path) -> None:
    for made, compared in (("off", "auto"), ("auto", "off")):
        folder = tmp_path / made
        folder.mkdir()
        talk = Talk(folder)
        talk.go(made)
        talk.config = build_config(graphql=compared)
        before = talk.world.requests.copy()
        report = asyncio.run(audit(talk.app(Reaper()), None))
        assert (report.differences, report.unread) == ([], [])
        assert (talk.world.requests - before)[GRAPHQL] == (2 if compared == "auto" else 0)


@pytest.mark.deep
def test_verification_stops_when_its_parents_must_be_read_one_by_one(tmp_path: Path) -> None:
    talk = Talk(tmp_path, merge_requests=130, issues=0, discussions=1, notes=1)
    talk.go("auto", scrub_budget=0)
    talk.world.advance(HOUR)
    talk.world.gitlab.graphql_status = 403
    spent = talk.spent("auto", walk=False, scrub_budget=4)
    assert 20 < spent[DISCUSSIONS] < 40


def _resolvable(talk: Talk) -> tuple[Any, Any]:
    return next(
        (item, home) for item in talk.items for home in item.discussions if any(note.resolvable for note in home.notes)
    )


def test_a_null_note_is_never_taken_for_an_absent_one(tmp_path: Path) -> None:
    talk = Talk(tmp_path, merge_requests=60, issues=0)
    hidden = [talk.items[place].discussions[0].notes[1].id for place in (7, 41)]
    talk.world.gitlab.graphql_nulls.update(hidden)
    spent = talk.spent("auto", scrub_budget=0)
    assert 10 < spent[GRAPHQL] < 32, "pages are halved until only these parents are left out, and grow again"
    assert set(hidden) <= talk.notes().keys()
    talk.check()


def test_pages_too_heavy_for_the_server_are_halved_and_grow_again(tmp_path: Path) -> None:
    talk = Talk(tmp_path, merge_requests=60, issues=0)
    talk.world.gitlab.graphql_most_notes = 40
    spent = talk.spent("auto", scrub_budget=0)
    assert 60 / 12 <= spent[GRAPHQL] <= 20
    talk.check()


@pytest.mark.parametrize("fault", ["timeout", "disconnect", "truncated", "not_json"])
@gate_cases(2)
def test_a_query_that_fails_otherwise_loses_nothing(tmp_path: Path, fault: Any) -> None:
    talk = Talk(tmp_path, merge_requests=20, issues=0)
    planned = talk.world.faults.add(fault, GRAPHQL, 2)
    talk.go("auto")
    assert planned.fired == 2
    talk.check()


@pytest.mark.parametrize("long", ["discussions", "notes"])
def test_a_parent_with_more_than_a_page_is_read_to_its_end(tmp_path: Path, long: str) -> None:
    talk = Talk(tmp_path, merge_requests=4, issues=0)
    item = talk.items[0]
    home = item.discussions[0] if long == "notes" else None
    for number in range(101):
        talk.world.gitlab.add_note(item, f"{number}", discussion=home)
    talk.world.advance(HOUR)
    spent = talk.spent("auto", scrub_budget=0)
    assert spent[GRAPHQL] == 1
    talk.check()


@pytest.mark.parametrize("why", ["403", "404", "missing field", "anonymous", "off"])
def test_rest_alone_serves_where_graphql_does_not(tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(tmp_path, merge_requests=6, issues=0)
    forge = talk.world.gitlab
    if why in ("403", "404"):
        forge.graphql_status = int(why)
    elif why == "missing field":
        forge.graphql_fields_missing = frozenset({"internal"})
    elif why == "anonymous":
        monkeypatch.setattr("tests.properties.inprocess.TOKEN", "")
    spent = talk.spent("off" if why == "off" else "auto", scrub_budget=0)
    assert spent[GRAPHQL] == (0 if why in ("anonymous", "off") else 1)
    assert spent[DISCUSSIONS] == 6
    talk.check()


def test_a_path_that_leads_to_another_project_is_not_read_by_graphql(tmp_path: Path) -> None:
    talk = Talk(tmp_path, merge_requests=6, issues=0)
    answer = talk.world.handle
    number = talk.world.gitlab.project(PROJECT).id

    def taken_over(request: Any) -> Any:
        response = answer(request)
        if request.path != "/api/graphql":
            return response
        body = response.body.replace(f"gid://gitlab/Project/{number}".encode(), b"gid://gitlab/Project/1")
        return type(response)(response.status, response.headers, body)

    talk.world.handle = taken_over  # type: ignore[method-assign]
    assert talk.spent("auto", scrub_budget=0)[DISCUSSIONS] == 6
    talk.check()


def test_notes_on_the_commits_of_a_merge_request_are_left_out_as_rest_does(tmp_path: Path) -> None:
    talk = Talk(tmp_path, merge_requests=4, issues=0)
    item, other = talk.world.gitlab.merge_request(PROJECT, 1), talk.world.gitlab.merge_request(PROJECT, 2)
    item.commit_discussions.append(other.discussions.pop())
    talk.world.gitlab.forget_bytes(other)
    assert talk.spent("auto", scrub_budget=0)[GRAPHQL] == 1
    talk.check()


def test_line_ranges_follow_after_the_conversations_some_merge_requests_in_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelore.sync.children.POSITIONS_AT_ONCE", 2)
    talk = Talk(tmp_path, merge_requests=5, issues=0, files=1)
    for item in talk.items:
        place = Position("b" * 40, "c" * 40, "a" * 40, "a.py", "a.py", new_line=9, first_new_line=4)
        talk.world.gitlab.add_note(item, "these lines", position=place)
    talk.world.advance(HOUR)
    unknown = []
    for _ in range(4):
        talk.go("auto", scrub_budget=0)
        talk.world.advance(HOUR)
        unknown.append(len({row["discussion_id"] for row in talk.rows("notes") if row["position_range_unknown"]}))
        documents = [row["content"] for row in talk.rows("documents")]
        ranged = sum("a.py:4-9" in text for text in documents)
        assert sum("these lines" in text for text in documents) >= 5
        assert ranged >= 1
    assert unknown[-2:] == [0, 0]
    assert unknown[0] >= 3
    talk.check()


def test_conversations_can_be_searched_before_many_other_children_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelore.sync.mirror.MANY_DUE", 10)
    talk = Talk(tmp_path, merge_requests=6, issues=0, events=1, files=1)
    talk.config = build_config(graphql="auto", scrub_share=0.0)
    seen: list[tuple[str, int]] = []

    def watch(progress: Progress) -> None:
        seen.append((progress.stage, talk.world.requests.total()))

    request = MirrorRequest(("merge_requests",), documents=True, scrub_budget=0)
    report = asyncio.run(mirror(talk.app(Reaper()), request, "lore sync", watch))
    stages = list(dict.fromkeys(stage for stage, _ in seen))
    assert stages.index("documents") < stages.index("merge_requests resource_events")
    assert stages[-2:] == ["merge_requests diffs", "merge_requests positions"]
    # The project, a page of the list (and its end), one query: everything that was said.
    assert dict(reversed(seen))["documents"] <= 4
    assert report.documents is not None
    assert report.documents.failed == 0
    talk.check()


def test_a_crash_between_two_parents_of_one_query_loses_neither(tmp_path: Path) -> None:
    for visit in range(1, 40, 5):
        folder = tmp_path / str(visit)
        folder.mkdir()
        talk = Talk(folder, merge_requests=5, issues=0, discussions=1)
        talk.go("auto", Reaper(visit, Seam.INSIDE_COMMIT), scrub_budget=0)
        with talk.database() as database:
            half = database.read(
                "SELECT COUNT(*) FROM child_sync c WHERE c.kind = 'discussions' AND c.synced_for IS NOT NULL"
                " AND NOT EXISTS (SELECT 1 FROM discussions d WHERE d.merge_request_id = c.parent_id)",
                {},
            )
            assert half == [(0,)], "a watermark without its conversation"
        done = not talk.killed
        assert talk.spent("auto", scrub_budget=0)[GRAPHQL] <= 1, "only the query that was interrupted is repeated"
        talk.check()
        if done:
            break
