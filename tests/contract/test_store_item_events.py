"""The events of an item and the context of its review threads, on both databases."""

from __future__ import annotations

from typing import Any

from tests.databases.samples import CREATED, add_project, issue, merge_request
from tests.databases.talk import DISCUSSIONS, RESOURCE_EVENTS, attach, discussion, keep, note, placed, state_event

from tidelore.core.content import digest
from tidelore.core.model import Item, LabelEventRecord, MilestoneEventRecord, Version
from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.reading.item_events import EventRow, ThreadContextRow, read_events, read_thread_contexts


def event(key: str, record: Any) -> Item[Any]:
    payload = repr(record).encode()
    return Item(Version(key, 0, digest(payload)), 0, payload, record)


def test_events_of_all_kinds_are_read_in_order_and_only_those_of_the_item(database: Database) -> None:
    project = add_project(database)
    keep(database, project, ISSUES, [issue(1), issue(2)])
    label = event("label:2", LabelEventRecord(2, "noor", "add", "bug", CREATED - 5))
    milestone = event("milestone:3", MilestoneEventRecord(3, None, "remove", "Spring", 4, CREATED + 5))
    attach(database, project, "issues", 1, RESOURCE_EVENTS, milestone, state_event(1), label)
    attach(database, project, "issues", 2, RESOURCE_EVENTS, state_event(9, "reopened"))
    ids: dict[int, int] = dict(database.read("SELECT iid, id FROM issues"))
    assert read_events(database, "issue", ids[1]) == [
        EventRow("label", "add", "bug", "noor", CREATED - 5),
        EventRow("state", "closed", None, "mira", CREATED),
        EventRow("milestone", "remove", "Spring", None, CREATED + 5),
    ]
    assert [row.action for row in read_events(database, "issue", ids[2])] == ["reopened"]


def test_the_context_of_a_thread_is_that_of_its_first_placed_note(database: Database) -> None:
    project = add_project(database)
    keep(database, project, MERGE_REQUESTS, [merge_request(3)])
    threads = [
        discussion("placed", placed(1, "a", "x.py", 4), placed(2, "b", "x.py", 4)),
        discussion("plain", note(3, "c")),
    ]
    attach(database, project, "merge_requests", 3, DISCUSSIONS, *threads)
    with database.transaction() as tx:
        tx.execute("UPDATE notes SET diff_hunk = body WHERE position_new_path IS NOT NULL")
        tx.execute("UPDATE discussions SET is_outdated = 1, resolved_by = 'noor' WHERE remote_id = 'placed'")
    ((parent_id,),) = database.read("SELECT id FROM merge_requests")
    assert read_thread_contexts(database, "mr", parent_id) == [ThreadContextRow("placed", "a", 1, "noor")]
