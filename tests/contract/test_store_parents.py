"""A page becomes durable with its cursor or not at all (invariant 1), and once only (invariant 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.databases.samples import CREATED, add_project, dump, issue, merge_request, scope_of, stored_payload
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import IntegrityError, LeaseLost
from tidelore.core.model import Item, Position, Rejected, Scope
from tidelore.core.process import ProcessIdentity
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Cursor, Gap
from tidelore.engine.intake import Intake
from tidelore.engine.lease import acquire
from tidelore.engine.ports import Batch, Page
from tidelore.store.database.port import Database
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.quarantine import list_quarantine
from tidelore.store.reading.counts import count_by_state, count_deleted
from tidelore.store.work.leases import LeaseTable

CURSOR = Cursor(watermark=Position(CREATED, 1))
Make = Callable[..., Item[Any]]


class Parents:
    """One of the two families, so that every test runs on both."""

    def __init__(self, database: Database, clock: ManualClock, kind: str) -> None:
        self.table = kind
        self.family: Any = ISSUES if kind == "issues" else MERGE_REQUESTS
        self.make: Make = issue if kind == "issues" else merge_request
        self.link = "issue" if kind == "issues" else "mr"
        self.parent = "issue_id" if kind == "issues" else "merge_request_id"
        self.clock = clock
        self.scope: Scope = scope_of(add_project(database), f"gitlab.{kind}")
        self.database = database

    def writer(self, **options: Any) -> PageWriter[Any]:
        return PageWriter(self.database, self.scope, self.family, self.clock.now_ms, **options)

    def commit(self, *items: Item[Any], **batch: Any) -> PageWriter[Any]:
        writer = self.writer()
        writer.commit(Batch(items, batch.pop("cursor", CURSOR), **batch))
        return writer

    def take(self, *items: Item[Any]) -> Intake[Any]:
        intake: Intake[Any] = Intake(self.writer(), self.clock.now_ms)
        intake.take(Page(items), CURSOR)
        return intake

    def column(self, name: str, remote_id: int = 1) -> Any:
        return self.database.read(f"SELECT {name} FROM {self.table} WHERE remote_id = :id", {"id": remote_id})[0][0]

    def names(self, what: str) -> list[str]:
        column, table = ("l.name", "labels") if what == "labels" else ("k.username", what)
        join = " JOIN labels l ON l.id = k.label_id" if what == "labels" else ""
        rows = self.database.read(f"SELECT {column} FROM {self.link}_{table} k{join} ORDER BY 1")
        return [row[0] for row in rows]


@pytest.fixture(params=["issues", "merge_requests"])
def parents(request: pytest.FixtureRequest, database: Database, clock: ManualClock) -> Parents:
    return Parents(database, clock, request.param)


def without(tables: dict[str, list[Any]], *names: str) -> dict[str, list[Any]]:
    return {name: rows for name, rows in tables.items() if name not in names}


def test_a_new_item_is_stored_with_every_field_its_payload_and_the_cursor(parents: Parents) -> None:
    item = parents.make(1, title="100 % of :cranes 🚢", description=None, closed_at=CREATED + 5)
    writer = parents.commit(item)
    skipped = {"labels", "assignees", "reviewers"}
    for name in set(item.record.__struct_fields__) - skipped:
        assert parents.column(name) == getattr(item.record, name), name
    assert stored_payload(parents.database, parents.column("raw_payload_id")) == item.payload
    assert writer.load() == CURSOR
    assert writer.stored([1, 2]) == {1: item.version}


def test_a_changed_item_replaces_its_row_and_keeps_its_identity(parents: Parents) -> None:
    parents.commit(parents.make(1))
    before = parents.column("id")
    changed = parents.make(1, CREATED + 9, title="Renamed", state="closed", description=None)
    parents.clock.advance(5)
    parents.commit(changed)
    assert parents.column("id") == before
    assert (parents.column("title"), parents.column("state")) == ("Renamed", "closed")
    assert parents.column("last_seen_at") == parents.clock.now_ms()
    assert parents.writer().stored([1]) == {1: changed.version}
    assert stored_payload(parents.database, parents.column("raw_payload_id")) == changed.payload


def test_the_same_remote_id_in_two_projects_gives_two_rows(parents: Parents) -> None:
    parents.commit(parents.make(1))
    parents.scope = scope_of(add_project(parents.database, 2, "port/quay"), parents.scope.surface)
    parents.commit(parents.make(1, title="Elsewhere"))
    assert parents.database.read(f"SELECT COUNT(*) FROM {parents.table}") == [(2,)]


def test_labels_and_people_are_updated_and_deleted_with_the_item(parents: Parents) -> None:
    people: dict[str, Sequence[str]] = {"assignees": ("mira", "jonas")}
    if parents.link == "mr":
        people["reviewers"] = ("ada", "mira")
    writer = parents.commit(parents.make(1, labels=("bug", "crane"), **people))
    assert (writer.links.labels_created, writer.links.assignees) == (2, 2)
    assert parents.names("labels") == ["bug", "crane"]
    assert parents.names("assignees") == ["jonas", "mira"]
    fewer = {name: names[:1] for name, names in people.items()}
    writer = parents.commit(parents.make(1, CREATED + 1, labels=("crane", "urgent"), **fewer))
    assert writer.links.labels_created == 1
    assert parents.names("labels") == ["crane", "urgent"]
    assert parents.names("assignees") == ["mira"]
    if parents.link == "mr":
        assert parents.names("reviewers") == ["ada"]
    parents.commit(parents.make(1, CREATED + 2))
    assert (parents.names("labels"), parents.names("assignees")) == ([], [])
    assert parents.database.read("SELECT COUNT(*) FROM labels") == [(3,)], "the project keeps its labels"


def test_updating_the_links_of_one_item_does_not_change_those_of_others(parents: Parents) -> None:
    parents.commit(
        parents.make(1, labels=("bug",), assignees=("mira",)), parents.make(2, labels=("bug",), assignees=("jonas",))
    )
    parents.commit(parents.make(1, CREATED + 1), parents.make(3, labels=("bug", "new")))
    assert parents.names("labels") == ["bug", "bug", "new"]
    assert parents.names("assignees") == ["jonas"]


def test_a_name_listed_twice_is_linked_once(parents: Parents) -> None:
    parents.commit(parents.make(1, labels=("bug", "bug"), assignees=("mira", "mira")))
    assert (parents.names("labels"), parents.names("assignees")) == (["bug"], ["mira"])


def test_labels_that_differ_in_case_are_two_labels(parents: Parents) -> None:
    parents.commit(parents.make(1, labels=("bug", "Bug")))
    assert sorted(parents.names("labels")) == ["Bug", "bug"]


def test_a_replayed_page_writes_no_row_but_the_cursor(parents: Parents) -> None:
    items = [parents.make(number, labels=("bug",), assignees=("mira",)) for number in range(1, 6)]
    parents.take(*items)
    before = dump(parents.database)
    parents.clock.advance(60)
    tally = parents.take(*items, items[0]).tally
    assert (tally.created, tally.changed, tally.replayed) == (0, 0, 6)
    assert without(dump(parents.database), "cursors") == without(before, "cursors")


def test_a_replayed_page_changes_one_row_by_sqlites_change_counter(sqlite_address: str, clock: ManualClock) -> None:
    from tidelore.store.database.migrate import migrate
    from tidelore.store.database.sqlite import SqliteDatabase

    database = SqliteDatabase(sqlite_address)
    try:
        migrate(database, clock.now_ms())
        parents = Parents(database, clock, "issues")
        items = [issue(number, labels=("bug",)) for number in range(1, 6)]
        parents.take(*items)
        before = database.read("SELECT total_changes()")[0][0]
        parents.take(*items)
        assert database.read("SELECT total_changes()")[0][0] - before == 1, "the cursor and nothing else"
    finally:
        database.close()


def test_an_older_version_never_replaces_a_newer_one(parents: Parents) -> None:
    parents.take(parents.make(1, CREATED + 9, title="New"))
    before = dump(parents.database)
    tally = parents.take(parents.make(1, CREATED + 8, title="Old")).tally
    assert (tally.stale, tally.changed) == (1, 0)
    assert without(dump(parents.database), "cursors") == without(before, "cursors")


def test_a_lower_id_edited_in_the_same_instant_is_stored(parents: Parents) -> None:
    parents.take(parents.make(1), parents.make(2))
    tally = parents.take(parents.make(1, title="Edited in the same millisecond")).tally
    assert tally.changed == 1
    assert parents.column("title") == "Edited in the same millisecond"


def test_a_deleted_item_is_kept_as_tombstone_and_not_listed(parents: Parents) -> None:
    parents.commit(parents.make(1, labels=("bug",)), parents.make(2))
    parents.clock.advance(5)
    buried_at = parents.clock.now_ms()
    parents.commit(gone=[1, 99])
    assert (parents.column("deleted_at"), parents.column("deleted_at", 2)) == (buried_at, None)
    assert parents.writer().stored([1, 2]).keys() == {2}
    assert parents.writer().held(0, None).keys() == {2}
    assert count_by_state(parents.database, parents.table, None) == {"opened": 1}
    assert count_deleted(parents.database, parents.table, parents.scope.project_id) == 1
    parents.clock.advance(5)
    parents.commit(gone=[1])
    assert parents.column("deleted_at") == buried_at, "a tombstone keeps its date"


def test_a_tombstone_seen_again_is_restored_in_its_row(parents: Parents) -> None:
    item = parents.make(1)
    parents.take(item)
    row = parents.column("id")
    parents.commit(gone=[1])
    tally = parents.take(item).tally
    assert tally.created == 1
    assert (parents.column("deleted_at"), parents.column("id")) == (None, row)
    assert parents.writer().stored([1]) == {1: item.version}


def test_held_returns_items_created_in_a_half_open_interval(parents: Parents) -> None:
    parents.commit(*(parents.make(number, created_at=CREATED + number) for number in (1001, 1002, 1003)))
    writer = parents.writer()
    assert writer.held(CREATED + 1001, CREATED + 1003) == {1001: "1", 1002: "2"}
    assert writer.held(CREATED + 1002, None) == {1002: "2", 1003: "3"}
    assert writer.held(CREATED + 1004, None) == {}


def test_counts_are_by_state_and_project(parents: Parents) -> None:
    parents.commit(parents.make(1), parents.make(2, state="closed"), parents.make(3, state="closed"))
    own = parents.scope.project_id
    assert own is not None
    assert count_by_state(parents.database, parents.table, None) == {"closed": 2, "opened": 1}
    assert count_by_state(parents.database, parents.table, own) == {"closed": 2, "opened": 1}
    assert count_by_state(parents.database, parents.table, own + 1) == {}
    assert count_deleted(parents.database, parents.table, None) == 0


def test_an_item_that_could_be_read_leaves_quarantine_in_the_same_commit(parents: Parents) -> None:
    parents.commit(
        rejected=[Rejected("1", "1", b"x", "e"), Rejected("2", "2", b"x", "e"), Rejected("3", "3", b"x", "e")]
    )
    parents.commit(parents.make(1), released=["2"])
    assert [row.remote_key for row in list_quarantine(parents.database)] == ["3"]
    parents.clock.advance(60)
    assert [entry.key for entry in parents.writer().due_quarantined(10)] == ["3"]


def test_gaps_are_kept_by_a_batch_without_gaps_and_replaced_by_one_with_a_gap_list(parents: Parents) -> None:
    gaps = [Gap(Position(9, 9), "token", 3)]
    parents.commit(gaps=gaps)
    parents.commit()
    assert parents.writer().gaps() == gaps
    parents.commit(gaps=[])
    assert parents.writer().gaps() == []


@pytest.mark.parametrize("failure", [RuntimeError("power"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_an_exception_inside_the_commit_leaves_neither_rows_nor_cursor(
    parents: Parents, failure: BaseException
) -> None:
    parents.commit(parents.make(1), rejected=[Rejected("5", "5", b"x", "e")], gaps=[Gap(None, "t", 1)])
    before = dump(parents.database)

    def fail(seam: Seam) -> None:
        assert seam is Seam.INSIDE_COMMIT
        raise failure

    writer = parents.writer(seam=fail)
    parents.clock.advance(60)
    batch = Batch(
        [parents.make(1, CREATED + 1, labels=("bug",)), parents.make(2, assignees=("mira",)), parents.make(5)],
        Cursor(watermark=Position(CREATED + 1, 2)),
        rejected=[Rejected("6", "6", b"x", "e")],
        gaps=[],
        gone=[1],
    )
    with pytest.raises(type(failure)):
        writer.commit(batch)
    assert dump(parents.database) == before
    assert writer.links.labels_created == 0
    parents.writer().commit(batch)
    assert parents.writer().load() == batch.cursor
    assert parents.writer().stored([2, 5]).keys() == {2, 5}


def test_rows_are_not_stored_when_the_cursor_that_covers_them_is_refused(parents: Parents) -> None:
    parents.commit(parents.make(1))
    before = dump(parents.database)
    neither: Any = 7
    refused = Cursor(watermark=Position(CREATED + 1, 2), complete=neither)
    with pytest.raises(IntegrityError):
        parents.commit(parents.make(1, CREATED + 1), parents.make(2), gone=[1], cursor=refused)
    assert dump(parents.database) == before


def test_the_cursor_is_not_moved_when_a_row_it_covers_is_refused(parents: Parents) -> None:
    parents.commit(parents.make(1))
    before = dump(parents.database)
    nameless: Any = None
    moved = Cursor(watermark=Position(CREATED + 1, 3))
    with pytest.raises(IntegrityError):
        parents.commit(parents.make(2), parents.make(3, title=nameless), cursor=moved)
    assert dump(parents.database) == before


def test_a_process_whose_lease_was_taken_over_writes_nothing(parents: Parents) -> None:
    def take(pid: int) -> Any:
        return acquire(
            LeaseTable(parents.database), "sync", ProcessIdentity("here", pid, "1"), "lore", parents.clock,
            stale_after_ms=600_000, is_dead=lambda _: False, force=True,
        )  # fmt: skip

    first = take(1)
    writer = parents.writer(lease=first)
    writer.commit(Batch([parents.make(1)], CURSOR))
    second = take(2)
    before = dump(parents.database)
    with pytest.raises(LeaseLost):
        writer.commit(Batch([parents.make(2)], Cursor(watermark=Position(CREATED + 9, 2))))
    assert dump(parents.database) == before
    parents.writer(lease=second).commit(Batch([parents.make(2)], CURSOR))
    assert parents.writer().stored([1, 2]).keys() == {1, 2}


def test_an_invalid_cursor_is_replaced_by_a_bounded_backfill(parents: Parents) -> None:
    future = parents.clock.now_ms() + 3_600_000
    parents.commit(cursor=Cursor(watermark=Position(future, 7)))
    intake: Intake[Any] = Intake(parents.writer(), parents.clock.now_ms)
    loaded = intake.load(safe_backfill_ms=86_400_000)
    assert loaded.watermark == Position(parents.clock.now_ms() - 86_400_000, 0)
    assert "future" in (intake.tally.cursor_reset or "")
    kept = parents.database.read("SELECT set_aside FROM cursors")[0][0]
    assert str(future) in kept
