"""Discussions and notes replace those we hold in one commit: linked to their parent, swept, their payloads kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.databases.samples import CREATED, add_project, issue, merge_request, scope_of, stored_payload
from tests.support.manual_clock import ManualClock

from tidelore.core.model import DiscussionRecord, Item, Rejected, Scope
from tidelore.engine import whole
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch, Parent
from tidelore.engine.whole import ChildReading, Children
from tidelore.sources.gitlab.transform import read_discussion
from tidelore.store.database.port import Database
from tidelore.store.mirror.child_writer import ChildWriter
from tidelore.store.mirror.children import DISCUSSIONS
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST, ParentKind
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.quarantine import list_quarantine

PLACE = {"old_path": "a.py", "new_path": "b.py", "position_type": "text", "old_line": 3, "new_line": 4}


def note(remote_id: int, body: str = "The brake is late.", **fields: Any) -> dict[str, Any]:
    return {
        "id": remote_id,
        "type": "DiscussionNote",
        "body": body,
        "author": {"username": "mira"},
        "created_at": "2026-03-02T09:00:00.123Z",
        "updated_at": "2026-03-02T09:00:00.123Z",
        "system": False,
        **fields,
    }


def thread(remote_id: str, *notes: dict[str, Any], **fields: Any) -> Item[DiscussionRecord]:
    return read_discussion(json.dumps({"id": remote_id, "individual_note": False, "notes": notes, **fields}).encode())


class Berth:
    """One stored parent and its discussions."""

    def __init__(self, database: Database, clock: ManualClock, kind: ParentKind) -> None:
        self.database = database
        self.clock = clock
        self.kind = kind
        self.scope: Scope = scope_of(add_project(database), f"gitlab.{kind.table}")
        self.id = self.add_parent(1)

    def add_parent(self, remote_id: int) -> int:
        if self.kind is ISSUE:
            issues = PageWriter(self.database, self.scope, ISSUES, self.clock.now_ms)
            issues.commit(Batch([issue(remote_id)], Cursor()))
        else:
            requests = PageWriter(self.database, self.scope, MERGE_REQUESTS, self.clock.now_ms)
            requests.commit(Batch([merge_request(remote_id)], Cursor()))
        return int(self.rows(f"SELECT id FROM {self.kind.table} WHERE remote_id = :id", id=remote_id)[0][0])

    def parent(self, row_id: int | None = None) -> Parent:
        return Parent(self.id if row_id is None else row_id, 1, CREATED, None, None)

    def replace(self, *items: Item[DiscussionRecord], parent: int | None = None, **options: Any) -> int:
        """Make the parent hold these; return how many discussions that changed."""
        self.clock.advance(5)
        child_writer = ChildWriter(self.database, self.scope, self.kind, DISCUSSIONS, self.clock.now_ms, **options)
        return child_writer.replace([ChildReading(self.parent(parent), Children(items, (), 1, None), True)])

    def rows(self, sql: str, **params: Any) -> list[Any]:
        return self.database.read(sql, params)

    def notes(self) -> list[tuple[str, int, str]]:
        return self.rows(
            "SELECT d.remote_id, n.remote_id, n.body FROM notes n JOIN discussions d ON d.id = n.discussion_id"
            " ORDER BY d.remote_id, n.position"
        )

    def held(self) -> dict[str, bytes]:
        return DISCUSSIONS.held(self.database.read, self.database, self.kind, self.id)

    def payloads(self, kind: str, remote_id: object) -> list[Any]:
        rows = self.rows(
            "SELECT id FROM raw_payloads WHERE resource_type = :kind AND remote_id = :id ORDER BY id",
            kind=kind,
            id=str(remote_id),
        )
        return [json.loads(stored_payload(self.database, row_id)) for (row_id,) in rows]

    def everything(self) -> Sequence[list[Any]]:
        tables = (self.kind.table, "discussions", "notes", "raw_payloads", "quarantine")
        return [sorted(self.rows(f"SELECT * FROM {table}"), key=repr) for table in tables]


@pytest.fixture(params=["in_one_chunk", "in_chunks_of_one"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Discussions are written several at a time, and many of them in several steps: the result is the same."""
    if request.param == "in_chunks_of_one":
        monkeypatch.setattr(whole, "CHUNK_BYTES", 1)


@pytest.fixture(params=[ISSUE, MERGE_REQUEST], ids=lambda kind: kind.table)
def berth(request: pytest.FixtureRequest, database: Database, clock: ManualClock, chunks: None) -> Berth:
    return Berth(database, clock, request.param)


@pytest.fixture
def review(database: Database, clock: ManualClock) -> Berth:
    return Berth(database, clock, MERGE_REQUEST)


def test_transforms_mr_discussion_with_correct_noteable_type(review: Berth) -> None:
    review.replace(thread("a", note(1, noteable_type="Issue")))
    assert review.rows("SELECT noteable_type FROM discussions") == [("MergeRequest",)]


def test_links_discussion_to_merge_request_id(review: Berth) -> None:
    other = review.add_parent(2)
    review.replace(thread("a", note(1)))
    review.replace(thread("b", note(2)), parent=other)
    linked = review.rows("SELECT remote_id, merge_request_id, issue_id FROM discussions ORDER BY remote_id")
    assert linked == [("a", review.id, None), ("b", other, None)]


def test_a_discussion_of_an_issue_is_linked_to_the_issue(database: Database, clock: ManualClock) -> None:
    berth = Berth(database, clock, ISSUE)
    berth.replace(thread("a", note(1, noteable_type="MergeRequest")))
    linked = berth.rows("SELECT noteable_type, issue_id, merge_request_id FROM discussions")
    assert linked == [("Issue", berth.id, None)]


def test_every_field_of_a_discussion_and_its_notes_is_stored(berth: Berth) -> None:
    resolved = {"resolvable": True, "resolved": True, "resolved_by": {"username": "jonas"}}
    ends = {"start": {"old_line": 1, "new_line": 2}, "end": {"old_line": 3, "new_line": 4}}
    shas = {"base_sha": "b" * 40, "start_sha": "c" * 40, "head_sha": "d" * 40}
    item = thread(
        "a",
        note(1, "100 % of :cranes 🚢", type="DiffNote", position={**PLACE, **shas, "line_range": ends}, **resolved),
        note(2, system=True, author=None, type=None),
        note(3, "For members only", internal=True),
        note(4, "The same, of a server before 15.3", confidential=True),
    )
    assert [one.is_internal for one in item.record.notes] == [False, False, True, True]
    berth.replace(item)
    plain = [name for name in item.record.__struct_fields__ if name != "notes"]
    stored = berth.rows(f"SELECT {', '.join(plain)} FROM discussions")
    assert stored == [tuple(getattr(item.record, name) for name in plain)]
    fields = [name for name in item.record.notes[0].__struct_fields__ if name != "payload"]
    stored = berth.rows(f"SELECT {', '.join(fields)} FROM notes ORDER BY position")
    assert stored == [tuple(getattr(one, name) for name in fields) for one in item.record.notes]
    assert berth.held() == {"a": item.version.digest}


def test_children_deleted_remotely_are_deleted_locally(berth: Berth) -> None:
    berth.replace(thread("a", note(1), note(2)), thread("b", note(3)), thread("c", note(4)))
    changed = berth.replace(thread("a", note(1)), thread("c", note(4)))
    assert changed == 2
    assert [(home, number) for home, number, _ in berth.notes()] == [("a", 1), ("c", 4)]
    assert berth.replace() == 2
    assert (berth.notes(), berth.held()) == ([], {})


def test_a_changed_discussion_keeps_its_row_and_those_of_its_notes(berth: Berth) -> None:
    berth.replace(thread("a", note(1), note(2)))
    before = berth.rows("SELECT id FROM discussions UNION ALL SELECT id FROM notes ORDER BY id")
    assert berth.replace(thread("a", note(1, "Edited."), note(2))) == 1
    assert berth.rows("SELECT id FROM discussions UNION ALL SELECT id FROM notes ORDER BY id") == before
    assert berth.notes() == [("a", 1, "Edited."), ("a", 2, "The brake is late.")]


def test_unchanged_discussions_are_only_marked_as_seen(berth: Berth) -> None:
    items = [thread("a", note(1)), thread("b", note(2), note(3))]
    berth.replace(*items)
    before = berth.rows("SELECT id, content_hash, raw_payload_id FROM discussions ORDER BY id")
    assert berth.replace(*items) == 0
    assert berth.rows("SELECT id, content_hash, raw_payload_id FROM discussions ORDER BY id") == before
    seen = berth.rows("SELECT last_seen_at FROM discussions UNION SELECT last_seen_at FROM notes")
    assert seen == [(berth.clock.now_ms(),)]


def test_a_note_that_moved_to_another_discussion_is_kept_once(berth: Berth) -> None:
    berth.replace(thread("a", note(1), note(2)), thread("b", note(3)))
    berth.replace(thread("a", note(1)), thread("b", note(3), note(2)))
    assert [(home, number) for home, number, _ in berth.notes()] == [("a", 1), ("b", 3), ("b", 2)]
    berth.replace(thread("c", note(1), note(3), note(2)))
    assert [(home, number) for home, number, _ in berth.notes()] == [("c", 1), ("c", 3), ("c", 2)]


def test_a_reordered_discussion_is_stored_in_its_new_order(berth: Berth) -> None:
    berth.replace(thread("a", note(1), note(2)))
    berth.replace(thread("a", note(2), note(1)))
    assert [number for _, number, _ in berth.notes()] == [2, 1]


def test_sweeping_one_parent_does_not_delete_children_of_another(berth: Berth) -> None:
    other = berth.add_parent(2)
    berth.replace(thread("a", note(1)))
    berth.replace(thread("b", note(2)), parent=other)
    berth.replace(parent=other)
    assert [(home, number) for home, number, _ in berth.notes()] == [("a", 1)]


@pytest.mark.parametrize("compress", [True, False])
def test_payloads_are_kept_for_user_notes_and_diff_notes_only(berth: Berth, compress: bool) -> None:
    written, placed, system = (
        note(1),
        note(2, system=True, type="DiffNote", position=PLACE),
        note(3, "closed", system=True),
    )
    item = thread("a", written, placed, system)
    berth.replace(item, compress=compress)
    assert berth.payloads("discussion", "a") == [json.loads(item.payload)]
    assert [berth.payloads("note", number) for number in (1, 2, 3)] == [[written], [placed], []]
    linked = berth.rows("SELECT remote_id FROM notes WHERE raw_payload_id IS NOT NULL ORDER BY remote_id")
    assert linked == [(1,), (2,)]


def test_an_edited_note_keeps_its_earlier_payload(berth: Berth) -> None:
    berth.replace(thread("a", note(1, "First.")))
    berth.replace(thread("a", note(1, "Second.")))
    assert [payload["body"] for payload in berth.payloads("note", 1)] == ["First.", "Second."]
    (row,) = berth.rows("SELECT raw_payload_id FROM notes")
    assert json.loads(stored_payload(berth.database, row[0]))["body"] == "Second."


def test_no_payload_with_the_text_of_a_deleted_note_remains(berth: Berth) -> None:
    berth.replace(thread("a", note(1), note(2, "A secret.")))
    berth.replace(thread("a", note(1), note(2, "A secret, edited.")))
    berth.replace(thread("a", note(1)))
    assert berth.payloads("note", 2) == []
    assert [[one["id"] for one in payload["notes"]] for payload in berth.payloads("discussion", "a")] == [[1]]
    assert len(berth.payloads("note", 1)) == 1


def test_a_deleted_discussion_leaves_no_payload_behind(berth: Berth) -> None:
    berth.replace(thread("a", note(1)), thread("b", note(2)))
    berth.replace(thread("b", note(2)))
    assert (berth.payloads("discussion", "a"), berth.payloads("note", 1)) == ([], [])
    assert (len(berth.payloads("discussion", "b")), len(berth.payloads("note", 2))) == (1, 1)


@pytest.mark.parametrize("failure", [RuntimeError("power"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_failure_inside_the_commit_leaves_children_and_watermark_as_they_were(
    berth: Berth, failure: BaseException
) -> None:
    berth.replace(thread("a", note(1), note(2)), thread("b", note(3)))
    before = berth.everything()

    def fail(seam: Seam) -> None:
        assert seam is Seam.INSIDE_COMMIT
        raise failure

    with pytest.raises(type(failure)):
        berth.replace(thread("a", note(1, "Edited.")), thread("c", note(4)), seam=fail)
    assert berth.everything() == before


def test_a_discussion_that_cannot_be_parsed_is_quarantined_and_stored_rows_are_kept(berth: Berth) -> None:
    berth.replace(thread("a", note(1)), thread("b", note(2)))
    held = berth.notes()
    child_writer = ChildWriter(berth.database, berth.scope, berth.kind, DISCUSSIONS, berth.clock.now_ms)
    child_writer.record_failure(berth.parent(), "1 of 2 unreadable", [Rejected("a", None, b"{}", "notes[0]: $.id")])
    assert berth.notes() == held
    assert [(row.remote_key, row.error) for row in list_quarantine(berth.database)] == [("a", "notes[0]: $.id")]
    berth.replace(thread("a", note(1)), thread("b", note(2)))
    assert list_quarantine(berth.database) == []


def test_discussions_and_notes_are_counted_by_type() -> None:
    items = [
        thread("a", note(1), note(2, type="DiffNote", position=PLACE)),
        thread("b", note(3, "closed", system=True), individual_note=True),
    ]
    assert DISCUSSIONS.tell(items) == {"discussions": 2, "notes": 2, "system_notes": 1, "diff_notes": 1}
