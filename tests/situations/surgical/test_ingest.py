"""The items of a surgical run become rows together, each unless the copy is newer; on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from tests.databases.samples import CREATED, add_project, dump, issue, merge_request
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import LeaseLost, TideloreError
from tidelore.core.model import Item, ProjectRecord
from tidelore.core.process import ProcessIdentity
from tidelore.core.references import Kind
from tidelore.engine.lease import acquire
from tidelore.store.database.port import Database
from tidelore.store.mirror.documents import DocumentSource, marks_of
from tidelore.store.mirror.page_writer import FetchedItem, LocalRow, StoredItem, is_stale, store_fetched_items
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family
from tidelore.store.mirror.payloads import packer
from tidelore.store.mirror.projects import ProjectRow, list_projects
from tidelore.store.work.leases import LeaseTable

FAMILIES: dict[Kind, Family] = {"issue": ISSUES, "mr": MERGE_REQUESTS}
ME = ProcessIdentity("here", 10, "100")
CHILDREN = {
    "issue": ("discussions", "resource_events"),
    "mr": ("discussions", "resource_events", "closes_issues", "diffs", "reviewers"),
}


def an_item(kind: Kind, remote_id: int, updated_at: int = CREATED, **changes: Any) -> Item[Any]:
    return (
        issue(remote_id, updated_at, **changes) if kind == "issue" else merge_request(remote_id, updated_at, **changes)
    )


def primary(project: ProjectRow, kind: Kind, item: Item[Any]) -> FetchedItem:
    return FetchedItem(
        kind, FAMILIES[kind], "gitlab", f"gitlab.{FAMILIES[kind].table}", project.path, project, None, item
    )


def land(database: Database, clock: ManualClock, *primaries: FetchedItem, since: int = CREATED) -> list[StoredItem]:
    lease = acquire(
        LeaseTable(database), "sync", ME, "lore sync", clock, stale_after_ms=600_000, is_dead=lambda _: False
    )
    try:
        return store_fetched_items(
            database, lease, primaries, fetched_since=since, now_ms=clock.now_ms, pack=packer(compress=False)
        )
    finally:
        lease.release()


def pretend_synced(database: Database, kind: Kind) -> None:
    with database.transaction() as tx:
        for child in CHILDREN[kind]:
            tx.execute(
                "UPDATE child_sync SET synced_for = parent_updated_at, fetched_for = parent_updated_at, attempts = 3,"
                " last_error = 'x' WHERE parent_kind = :table AND kind = :child",
                {"table": FAMILIES[kind].table, "child": child},
            )


def health(database: Database, kind: Kind, child: str) -> tuple[Any, ...]:
    (row,) = database.read(
        "SELECT synced_for, fetched_for, attempts, last_error FROM child_sync"
        " WHERE parent_kind = :table AND kind = :child",
        {"table": FAMILIES[kind].table, "child": child},
    )
    return row


def inserts_and_marks_dirty(database: Database, clock: ManualClock, kind: Kind) -> None:
    project = add_project(database)
    (landed,) = land(database, clock, primary(project, kind, an_item(kind, 7)))
    assert landed.parent is not None
    assert database.read(f"SELECT id, iid, last_seen_at FROM {FAMILIES[kind].table}") == [
        (landed.parent.id, 7, clock.now_ms())
    ]
    source = DocumentSource("issue" if kind == "issue" else "merge_request", landed.parent.id)
    assert landed.sources == (source,)
    assert [mark.source for mark in marks_of(database, landed.sources)] == [source]


def resets_a_watermark(database: Database, clock: ManualClock, kind: Kind, child: str) -> None:
    project = add_project(database)
    item = an_item(kind, 7)
    land(database, clock, primary(project, kind, item))
    pretend_synced(database, kind)
    assert health(database, kind, child) == (CREATED, CREATED, 3, "x")
    land(database, clock, primary(project, kind, item), since=clock.now_ms())
    assert health(database, kind, child) == (None, None, 0, None)


def test_ingest_issue_by_iid_inserts_and_marks_dirty(database: Database, clock: ManualClock) -> None:
    inserts_and_marks_dirty(database, clock, "issue")


def test_ingest_mr_by_iid_inserts_and_marks_dirty(database: Database, clock: ManualClock) -> None:
    inserts_and_marks_dirty(database, clock, "mr")


def test_ingest_issue_by_iid_resets_discussion_watermark(database: Database, clock: ManualClock) -> None:
    resets_a_watermark(database, clock, "issue", "discussions")


def test_ingest_issue_by_iid_resets_event_watermark(database: Database, clock: ManualClock) -> None:
    resets_a_watermark(database, clock, "issue", "resource_events")


def test_ingest_mr_by_iid_resets_discussion_watermark(database: Database, clock: ManualClock) -> None:
    resets_a_watermark(database, clock, "mr", "discussions")


def test_ingest_mr_by_iid_resets_event_watermark(database: Database, clock: ManualClock) -> None:
    resets_a_watermark(database, clock, "mr", "resource_events")


@pytest.mark.parametrize("child", ["closes_issues", "diffs", "reviewers"])
def test_a_surgical_merge_request_makes_every_kind_of_child_due(
    database: Database, clock: ManualClock, child: str
) -> None:
    resets_a_watermark(database, clock, "mr", child)


def test_other_items_keep_their_watermarks(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    land(database, clock, primary(project, "issue", issue(7)), primary(project, "issue", issue(8)))
    pretend_synced(database, "issue")
    land(database, clock, primary(project, "issue", issue(7)), since=clock.now_ms())
    rows = database.read(
        "SELECT i.iid, c.synced_for FROM issues i JOIN child_sync c ON c.parent_id = i.id AND c.parent_kind = 'issues'"
        " AND c.kind = 'discussions' ORDER BY i.iid"
    )
    assert rows == [(7, None), (8, CREATED)]


def test_duplicate_iids_are_idempotent(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    one = primary(project, "issue", issue(7))
    first = land(database, clock, one)
    again = land(database, clock, one, one, since=clock.now_ms())
    assert [landed.parent for landed in again] == [first[0].parent, first[0].parent]
    assert database.read("SELECT COUNT(*) FROM issues") == [(1,)]
    assert database.read("SELECT COUNT(*) FROM raw_payloads") == [(1,)]
    assert database.read("SELECT COUNT(*) FROM dirty_sources") == [(1,)]


def test_unchanged_content_is_still_marked_dirty(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    one = primary(project, "issue", issue(7))
    land(database, clock, one)
    with database.transaction() as tx:
        tx.execute("DELETE FROM dirty_sources")
    (again,) = land(database, clock, one, since=clock.now_ms())
    assert [mark.source for mark in marks_of(database, again.sources)] == list(again.sources) != []


def test_stale_payload_is_skipped_when_local_updated_at_is_newer(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    land(database, clock, primary(project, "issue", issue(7, CREATED + 2000, title="fresh")))
    before = dump(database)
    stale = primary(project, "issue", issue(7, CREATED + 1000, title="stale"))
    (landed,) = land(database, clock, stale, since=clock.now_ms() + 1)
    assert (landed.parent, landed.sources) == (None, ())
    after = dump(database)
    assert {table: rows for table, rows in after.items() if table != "leases"} == {
        table: rows for table, rows in before.items() if table != "leases"
    }


def test_equal_updated_at_but_newer_last_seen_is_skipped(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    began = clock.now_ms()
    clock.advance(1)
    land(database, clock, primary(project, "issue", issue(7, title="from the other sync")), since=began)
    (landed,) = land(database, clock, primary(project, "issue", issue(7, title="ours")), since=began)
    assert landed.parent is None
    assert database.read("SELECT title FROM issues") == [("from the other sync",)]


def test_equal_updated_at_seen_before_the_preflight_is_stored(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    land(database, clock, primary(project, "issue", issue(7, title="old")))
    (landed,) = land(database, clock, primary(project, "issue", issue(7, title="now")), since=clock.now_ms())
    assert landed.parent is not None
    assert database.read("SELECT title FROM issues") == [("now",)]


@pytest.mark.parametrize(
    ("local", "stale"),
    [
        (None, False),
        (LocalRow(99, 0, None), False),
        (LocalRow(101, 0, None), True),
        (LocalRow(100, 50, None), False),
        (LocalRow(100, 51, None), True),
        (LocalRow(100, 10, 50), False),
        (LocalRow(100, 10, 51), True),
        (LocalRow(99, 51, 51), False),
    ],
)
def test_a_local_row_is_fresher_by_update_time_or_when_seen_after_the_fetch(
    local: LocalRow | None, stale: bool
) -> None:
    assert is_stale(local, 100, 50) is stale


def test_a_stale_item_does_not_prevent_storing_the_others(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    land(database, clock, primary(project, "issue", issue(7, CREATED + 2000)))
    landed = land(
        database, clock, primary(project, "issue", issue(7)), primary(project, "mr", merge_request(8)), since=0
    )
    assert [one.parent is None for one in landed] == [True, False]
    assert database.read("SELECT iid FROM merge_requests") == [(8,)]


def test_one_refused_item_rolls_back_all_items(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    before = database.read("SELECT COUNT(*) FROM raw_payloads"), database.read("SELECT COUNT(*) FROM dirty_sources")
    broken = primary(project, "issue", issue(8, title=None))
    with pytest.raises(TideloreError):
        land(database, clock, primary(project, "issue", issue(7)), broken)
    assert database.read("SELECT COUNT(*) FROM issues") == [(0,)]
    assert (
        database.read("SELECT COUNT(*) FROM raw_payloads"),
        database.read("SELECT COUNT(*) FROM dirty_sources"),
    ) == before


def test_an_unknown_project_is_stored_with_its_items_or_not_at_all(database: Database, clock: ManualClock) -> None:
    record = ProjectRecord(9, "port/quay", "quay", None, archived=False)

    def of_the_quay(item: Item[Any]) -> FetchedItem:
        return FetchedItem("issue", FAMILIES["issue"], "gitlab", "gitlab.issues", "port/quay", None, record, item)

    with pytest.raises(TideloreError):
        land(database, clock, of_the_quay(issue(8, title=None)))
    assert list_projects(database) == []
    landed = land(database, clock, of_the_quay(issue(7)), of_the_quay(issue(8)))
    (project,) = list_projects(database)
    assert [one.project for one in landed] == [project, project]


def test_a_surgical_sync_writes_nothing_without_the_lease(database: Database, clock: ManualClock) -> None:
    project = add_project(database)
    lease = acquire(
        LeaseTable(database), "sync", ME, "lore sync", clock, stale_after_ms=600_000, is_dead=lambda _: False
    )
    lease.release()
    with pytest.raises(LeaseLost):
        store_fetched_items(
            database, lease, [primary(project, "issue", issue(7))],
            fetched_since=0, now_ms=clock.now_ms, pack=packer(compress=False),
        )  # fmt: skip
    assert database.read("SELECT COUNT(*) FROM issues") == [(0,)]
