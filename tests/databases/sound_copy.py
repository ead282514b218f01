"""A copy with something in every table, all of it sound: for breaking one thing at a time."""

from __future__ import annotations

import json
from typing import Any

from tests.databases.feeds import MIRA, NOOR, follow, link, post, share
from tests.databases.samples import CREATED, add_project, issue, merge_request, scope_of, topic, topic_comment
from tests.support.manual_clock import ManualClock

from tidelore.core.content import digest
from tidelore.core.model import (
    DiscussionRecord,
    FileChangeRecord,
    Item,
    LabelEventRecord,
    MilestoneEventRecord,
    NoteRecord,
    Position,
    Rejected,
    StateEventRecord,
    TimelineEventRecord,
    Version,
)
from tidelore.core.process import ProcessIdentity
from tidelore.engine.cursor import SKEW_MS, Cursor, Gap, Window
from tidelore.engine.ledger import Run
from tidelore.engine.ports import Batch, Parent
from tidelore.engine.whole import ChildReading, Children
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import Polled, note_polled
from tidelore.store.mirror.child_writer import ChildFamily, ChildWriter
from tidelore.store.mirror.children import DIFFS, DISCUSSIONS, RESOURCE_EVENTS
from tidelore.store.mirror.kinds import PARENT_KINDS, ParentKind
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.mirror.topics import TopicTable
from tidelore.store.work.runs import RunTable


def fill(database: Database, clock: ManualClock) -> None:
    for number, path in ((1, "port/harbour"), (2, "port/quay")):
        project = add_project(database, number, path)
        window = Window(instant=CREATED, since=None, token="page=2")
        issues = PageWriter(database, scope_of(project), ISSUES, clock.now_ms)
        issues.commit(
            Batch(
                [issue(number * 10 + n, labels=("bug", path), description="long " * 50) for n in range(3)],
                Cursor(watermark=Position(clock.now_ms() + SKEW_MS, 3), window=window),
                rejected=[Rejected("77", "77", b"{}", "title missing")],
                gaps=[Gap(Position(9, 1), "t", 9), Gap(None, None, 3), Gap(Position(2, 1), "t", None)],
            )
        )
        changes = PageWriter(database, scope_of(project, "gitlab.merge_requests"), MERGE_REQUESTS, clock.now_ms)
        changes.commit(Batch([merge_request(number * 10, labels=("bug",))], Cursor(watermark=Position(0, 0))))
        topics = PageWriter(database, scope_of(project, "github.topics"), TopicTable(), clock.now_ms)
        said = [topic_comment(number * 100), topic_comment(number * 100 + 1, parent_id=number * 100)]
        topics.commit(Batch([topic(number * 10), topic(number * 10 + 1, *said)], Cursor()))
        for kind in PARENT_KINDS.values():
            converse(database, clock, project, kind)
    speak(database, clock)
    Run.start(RunTable(database), clock, "lore ingest", ProcessIdentity.current())
    Run.start(RunTable(database), clock, "lore ingest", ProcessIdentity("gone", 1, "1")).finish_succeeded()


def speak(database: Database, clock: ManualClock) -> None:
    """Let two accounts post: with a link, as an answer, and a repost."""
    mira, _ = follow(database, MIRA, NOOR, now_ms=clock.now_ms())
    first = post(MIRA, "a", links=(link("https://a.test/1"),))
    answer = post(NOOR, "b", kind="reply", reply_parent=first.record.uri, reply_root=first.record.uri)
    again = post(NOOR, "r", subject_uri=first.record.uri, text="")
    # The first row is a post without links.
    share(database, answer, now_ms=clock.now_ms())
    share(database, first, again, now_ms=clock.now_ms())
    with database.transaction() as tx:
        note_polled(tx, mira.id, Polled(1, CREATED, 900, clock.now_ms()), clock.now_ms())


def converse(database: Database, clock: ManualClock, project: ProjectRow, kind: ParentKind) -> None:
    """Give the first parent of a kind something of every kind of children, as a run does."""
    query = f"SELECT MIN(id) FROM {kind.table} WHERE project_id = :project_id"
    (parent_id,) = database.read(query, {"project_id": project.id})[0]
    unique = project.remote_id * 10 + (kind.table == "issues")
    families: list[tuple[ChildFamily, list[Item[Any]]]] = [
        (DISCUSSIONS, [discussion(f"{unique}-talk", unique * 100)]),
        (RESOURCE_EVENTS, [event(family, unique) for family in (StateEventRecord, *NAMED_EVENTS)]),
    ]
    if "diffs" in kind.children:
        families.append((DIFFS, [child("a -> a", FileChangeRecord("a", "a", True, False, False))]))
    for family, items in families:
        scope = scope_of(project, f"gitlab.{kind.table}")
        child_writer = ChildWriter(database, scope, kind, family, clock.now_ms)
        parent = Parent(parent_id, 1, CREATED, None, None)
        child_writer.replace([ChildReading(parent, Children(items, (), 1, None), True)])


NAMED_EVENTS = {LabelEventRecord: "label", MilestoneEventRecord: "milestone", TimelineEventRecord: "timeline"}


def event(family: Any, unique: int) -> Item[Any]:
    extra = {
        LabelEventRecord: ("add", "bug"),
        MilestoneEventRecord: ("add", "Spring", 4),
        TimelineEventRecord: ("assigned", "jo"),
    }
    key = str(unique) if family is TimelineEventRecord else unique
    record = family(key, "mira", *extra.get(family, ("closed", None, None)), CREATED)
    return child(f"{NAMED_EVENTS.get(family, 'state')}:{unique}", record)


def child(key: str, record: Any) -> Item[Any]:
    payload = repr(record).encode()
    return Item(Version(key, CREATED, digest(payload)), CREATED, payload, record)


def discussion(remote_id: str, first: int) -> Item[DiscussionRecord]:
    """A talk of four: a person's note, one placed in a diff, the system's own, and the system's placed one."""
    notes = tuple(
        note(first + place, place, is_system=place > 1, path="dock.py" if place % 2 else None) for place in range(4)
    )
    record = DiscussionRecord(remote_id, False, CREATED, CREATED + 3, True, False, notes)
    payload = json.dumps([remote_id, first]).encode()
    return Item(Version(remote_id, CREATED, digest(payload)), CREATED, payload, record)


def note(remote_id: int, place: int, *, is_system: bool, path: str | None) -> NoteRecord:
    nowhere: dict[str, Any] = {name: None for name in NoteRecord.__struct_fields__ if name.startswith("position_")}
    return NoteRecord(
        remote_id=remote_id, note_type=None, is_system=is_system, author_username="mira", body="So it is.",
        created_at=CREATED + place, updated_at=CREATED + place, position=place, resolvable=True, resolved=True,
        resolved_by="noor", resolved_at=CREATED, payload=json.dumps({"id": remote_id}).encode(),
        **nowhere | {"position_new_path": path, "position_range_unknown": False},
    )  # fmt: skip
