"""Describes the kinds of children: discussions with notes, events, closed issues, files, reviewers.

Each kind is a `ChildFamily` for `child_writer.py`. A row whose content is unchanged is not written again; one that was
not seen is removed. The payloads of a deleted note or discussion are deleted; an edited one keeps its earlier payloads.

Notes come by two ways, of which one shows milliseconds and line ranges and the other does not. A note that differs only
in that is the same note: its row keeps the finer values, and is not written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.content import digest
from tidelore.core.model import (
    ChildRecord,
    ClosedIssueRecord,
    CommentRecord,
    DiscussionRecord,
    FileChangeRecord,
    Item,
    LabelEventRecord,
    MilestoneEventRecord,
    NoteRecord,
    ReviewerRecord,
    StateEventRecord,
    TimelineEventRecord,
    comment_of_note,
)
from tidelore.engine.ports import Parent
from tidelore.engine.whole import in_chunks
from tidelore.store.database.port import Lists, Row, Transaction
from tidelore.store.mirror.child_progress import carry_over, make_due
from tidelore.store.mirror.child_writer import Changes, Child, ChildFamily, Read, Renewal, child_family
from tidelore.store.mirror.documents import mark
from tidelore.store.mirror.kinds import POSITIONS, ParentKind
from tidelore.store.mirror.parents import relink_people
from tidelore.store.mirror.payloads import Content, forget_payloads, store_contents


class ChildTable(Struct, frozen=True):
    """One table: the record types it stores, its columns, and how a row is identified.

    `key` are the columns that, after `prefix`, make up an item's id; `unique` are the columns of its unique constraint.
    """

    table: str
    record: type[Struct]
    prefix: str
    key: tuple[str, ...]
    unique: tuple[str, ...]
    own: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        return self.record.__struct_fields__


_OF_A_PROJECT = ("project_id", "issue_id", "merge_request_id")
_EVENT = {"key": ("remote_id",), "unique": ("project_id", "remote_id"), "own": _OF_A_PROJECT}
_EVENTS = (
    ChildTable("resource_state_events", StateEventRecord, "state:", **_EVENT),
    ChildTable("resource_label_events", LabelEventRecord, "label:", **_EVENT),
    ChildTable("resource_milestone_events", MilestoneEventRecord, "milestone:", **_EVENT),
    ChildTable(
        "timeline_events",
        TimelineEventRecord,
        "timeline:",
        key=("event_key",),
        unique=("project_id", "event_key"),
        own=_OF_A_PROJECT,
    ),
)
_CLOSES = ChildTable(
    "mr_closes_issues",
    ClosedIssueRecord,
    "",
    key=("issue_key",),
    unique=("merge_request_id", "issue_key"),
    own=("merge_request_id",),
)
_FILES = ChildTable(
    "mr_file_changes",
    FileChangeRecord,
    "",
    key=("old_path", "new_path"),
    unique=("merge_request_id", "head_sha", "old_path", "new_path"),
    own=("merge_request_id", "project_id", "head_sha"),
)


class HeldRow(NamedTuple):
    """A stored child: its row id and its content hash."""

    id: int
    digest: bytes


HeldRows = dict[int, dict[str, HeldRow]]
"""The stored children of each parent that has any, by their keys."""


def _own_values(tx: Transaction, table: ChildTable, renewal: Renewal[ChildRecord]) -> dict[int, dict[str, Any]]:
    """Return the values of the columns that tell where a child belongs, for each parent."""
    heads: dict[int, str] = {}
    if "head_sha" in table.own:
        rows = tx.execute(
            f"SELECT id, COALESCE(head_sha, '') FROM merge_requests WHERE id {tx.among('ids')}",
            {"ids": tx.integers(renewal.children)},
        )
        heads = dict(rows)
    base: dict[str, Any] = {"project_id": renewal.project_id, "issue_id": None, "merge_request_id": None}
    return {
        parent_id: base | {renewal.kind.column: parent_id, "head_sha": heads.get(parent_id, "")}
        for parent_id in renewal.children
    }


def _held(read: Read, lists: Lists, table: ChildTable, kind: ParentKind, parents: Iterable[int]) -> HeldRows:
    """Return the rows of parents in a table; for files, only those of the newest head."""
    newest = ""
    if "head_sha" in table.own:
        newest = " JOIN merge_requests m ON m.id = t.merge_request_id AND t.head_sha = COALESCE(m.head_sha, '')"
    rows = read(
        f"SELECT t.{kind.column}, t.id, t.content_hash, {', '.join(f't.{name}' for name in table.key)}"
        f" FROM {table.table} t{newest} WHERE t.{kind.column} {lists.among('parents')}",
        {"parents": lists.integers(parents)},
    )
    held: HeldRows = {}
    for parent_id, row_id, found, *key in rows:
        held.setdefault(parent_id, {})[_key(table, key)] = HeldRow(row_id, bytes(found))
    return held


def is_changed(held: HeldRows, child: Child[Any]) -> bool:
    """Return whether a child differs from its stored row, or has none."""
    row = held.get(child.parent_id, {}).get(str(child.item.version.id))
    return row is None or row.digest != child.item.version.digest


def find_gone(held: HeldRows, children: Iterable[Child[Any]]) -> dict[int, dict[str, int]]:
    """Return the row ids of stored children that their parents no longer have, by parent and key."""
    if not held:
        return {}
    gone = {parent_id: {key: row.id for key, row in rows.items()} for parent_id, rows in held.items()}
    for child in children:
        gone.get(child.parent_id, {}).pop(str(child.item.version.id), None)
    return {parent_id: rows for parent_id, rows in gone.items() if rows}


def _key(table: ChildTable, values: Sequence[object]) -> str:
    return table.prefix + " -> ".join(map(str, values))


def _write(tx: Transaction, renewal: Renewal[ChildRecord], table: ChildTable) -> Changes:
    def ours() -> Iterator[Child[ChildRecord]]:
        return (child for child in renewal.each() if isinstance(child.item.record, table.record))

    held = _held(tx.execute, tx, table, renewal.kind, renewal.children)
    own = _own_values(tx, table, renewal)
    gone = find_gone(held, ours())
    changes = Changes({parent_id: len(rows) for parent_id, rows in gone.items()})
    if gone:
        # First, so that a row that moved to another parent of this renewal is inserted anew.
        ids = [row_id for rows in gone.values() for row_id in rows.values()]
        tx.execute(f"DELETE FROM {table.table} WHERE id {tx.among('ids')}", {"ids": tx.integers(ids)})
    for chunk in in_chunks(ours()):
        changed = [child for child in chunk if is_changed(held, child)]
        _upsert(tx, table, [_row(table, own[child.parent_id], child.item) for child in changed])
        changes.update(child.parent_id for child in changed)
    return changes


def _upsert(tx: Transaction, table: ChildTable, rows: Sequence[Row]) -> None:
    if not rows:
        return
    names = (*table.own, *table.fields, "content_hash")
    updates = ", ".join(f"{name} = excluded.{name}" for name in names if name not in table.unique)
    tx.execute_rows(
        f"INSERT INTO {table.table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
        f" ON CONFLICT ({', '.join(table.unique)}) DO UPDATE SET {updates}",
        names,
        rows,
    )


def _row(table: ChildTable, own: dict[str, Any], item: Item[ChildRecord]) -> Row:
    values = [getattr(item.record, name) for name in table.fields]
    # Flags are stored as integers in both databases.
    plain = [int(value) if isinstance(value, bool) else value for value in values]
    return (*[own[name] for name in table.own], *plain, item.version.digest)


def _family(name: str, word: str, *tables: ChildTable) -> ChildFamily:
    def write(tx: Transaction, renewal: Renewal[ChildRecord]) -> Changes:
        changes = Changes()
        for table in tables:
            changes += _write(tx, renewal, table)
        return changes

    def held(read: Read, lists: Lists, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for table in tables:
            found |= digests_of(_held(read, lists, table, kind, [parent_id]), parent_id)
        return found

    return ChildFamily(name, write, held, _counter(word))


def digests_of(held: HeldRows, parent_id: int) -> dict[str, bytes]:
    """Return the content hashes of the stored children of one parent."""
    return {key: row.digest for key, row in held.get(parent_id, {}).items()}


def _counter(word: str) -> Callable[[Collection[Item[ChildRecord]]], dict[str, int]]:
    return lambda items: {word: len(items)}


def _reviewers(read: Read, lists: Lists, kind: ParentKind, parents: Iterable[int]) -> dict[int, set[str]]:
    rows = read(
        f"SELECT {kind.column}, username FROM mr_reviewers WHERE {kind.column} {lists.among('parents')}",
        {"parents": lists.integers(parents)},
    )
    found: dict[int, set[str]] = {}
    for parent_id, username in rows:
        found.setdefault(parent_id, set()).add(username)
    return found


def _held_reviewers(read: Read, lists: Lists, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
    return dict.fromkeys(_reviewers(read, lists, kind, [parent_id]).get(parent_id, ()), b"")


def _write_reviewers(tx: Transaction, renewal: Renewal[ReviewerRecord]) -> Changes:
    before = _reviewers(tx.execute, tx, renewal.kind, renewal.children)
    names = {parent: [item.record.username for item in items] for parent, items in renewal.children.items()}
    changes = Changes({parent: len(before.get(parent, set()) ^ set(now)) for parent, now in names.items()})
    changed = {parent: now for parent, now in names.items() if changes[parent]}
    if changed:
        relink_people(tx, "mr_reviewers", renewal.kind.column, changed, fresh=False)
    return changes


RESOURCE_EVENTS = _family("resource_events", "events", *_EVENTS)
CLOSES_ISSUES = _family("closes_issues", "closed_issues", _CLOSES)
DIFFS = _family("diffs", "files", _FILES)
REVIEWERS = child_family("reviewers", ReviewerRecord, _write_reviewers, _held_reviewers, _counter("reviewers"))


_PAYLOAD = "(SELECT id FROM raw_payloads WHERE remote_id = CAST(:remote_id AS TEXT) AND content_hash = :payload_hash)"
_DISCUSSION = (
    "remote_id", "project_id", "issue_id", "merge_request_id", "noteable_type", "individual_note", "first_note_at",
    "last_note_at", "last_seen_at", "resolvable", "resolved", "content_hash",
)  # fmt: skip
_FLAGS = ("is_system", "is_internal", "resolvable", "resolved", "position_range_unknown")
_PLAIN = tuple(name for name in NoteRecord.__struct_fields__ if name not in (*_FLAGS, "payload"))
_NOTE = (*_PLAIN, *_FLAGS, "project_id", "discussion_id", "last_seen_at")
_plain_values, _flag_values = attrgetter(*_PLAIN), attrgetter(*_FLAGS)
_INSTANTS = ("created_at", "updated_at", "resolved_at")
_RANGE = ("position_line_range_start", "position_line_range_end", "position_range_unknown")
_PLACE = tuple(name for name in _PLAIN if name.startswith("position_") and name not in _RANGE)


def _upsert_sql(table: str, names: Sequence[str], payload: str, unique: str) -> str:
    kept = {"remote_id", "project_id"}
    updates = ", ".join(f"{name} = excluded.{name}" for name in (*names, "raw_payload_id") if name not in kept)
    return (
        f"INSERT INTO {table} ({', '.join(names)}, raw_payload_id) VALUES ({', '.join(f':{name}' for name in names)},"
        f" {payload}) ON CONFLICT ({unique}) DO UPDATE SET {updates}"
    )


_UPSERT_DISCUSSION = _upsert_sql("discussions", _DISCUSSION, _PAYLOAD, "project_id, remote_id")
_UPSERT_NOTE = _upsert_sql("notes", _NOTE, _PAYLOAD, "project_id, kind, remote_id")


def held_discussions(read: Read, lists: Lists, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
    """Return the stored discussions of a parent: remote id and content hash."""
    return digests_of(_held_threads(read, lists, kind, [parent_id]), parent_id)


def write_discussions(tx: Transaction, renewal: Renewal[DiscussionRecord]) -> Changes:
    """Make the stored discussions and notes of parents exactly these; return how many changed."""
    held = _held_threads(tx.execute, tx, renewal.kind, renewal.children)
    if held:
        _mark_seen(tx, renewal)
    gone = find_gone(held, renewal.each())
    changes = Changes({parent_id: len(rows) for parent_id, rows in gone.items()})
    if gone:
        _remove(tx, renewal, {key: row_id for rows in gone.values() for key, row_id in rows.items()})
    partial: set[int] = set()
    for chunk in in_chunks(renewal.each()):
        changed = [child for child in chunk if is_changed(held, child)]
        if changed:
            known = {
                child.item.record.remote_id: row.id
                for child in changed
                if (row := held.get(child.parent_id, {}).get(child.item.record.remote_id)) is not None
            }
            partial |= _renew(tx, renewal, changed, known)
        changes.update(child.parent_id for child in changed)
    if held:
        changes += fill_ranges(tx, renewal)
    if partial:
        make_due(tx, renewal.kind, POSITIONS, renewal.project_id, sorted(partial))
    return changes


def _remove(tx: Transaction, renewal: Renewal[DiscussionRecord], gone: Mapping[str, int]) -> None:
    """Delete discussions that the server no longer lists, with their notes and payloads."""
    notes = _note_ids(tx, list(gone.values()))
    mark(tx, "discussion", gone.values(), renewal.now_ms)
    tx.execute(f"DELETE FROM discussions WHERE id {tx.among('ids')}", {"ids": tx.integers(gone.values())})
    forget_payloads(tx, renewal.project_id, "note", "notes", [str(remote_id) for remote_id in notes])
    forget_payloads(tx, renewal.project_id, "discussion", "discussions", list(gone))


def _renew(
    tx: Transaction,
    renewal: Renewal[DiscussionRecord],
    changed: Sequence[Child[DiscussionRecord]],
    known: Mapping[str, int],
) -> set[int]:
    """Write discussions that differ from the stored ones, and delete their notes that no longer exist.

    Return the parents of written notes whose line range is unknown.
    """
    before = _held_notes(tx, list(known.values()))
    written = _write_threads(tx, renewal, changed, before)
    notes = {note.remote_id for child in changed for note in child.item.record.notes}
    deleted = [remote_id for remote_id in before if remote_id not in notes]
    if deleted:
        tx.execute(
            f"DELETE FROM notes WHERE discussion_id {tx.among('known')} AND remote_id {tx.among('ids')}",
            {"known": tx.integers(known.values()), "ids": tx.integers(deleted)},
        )
        forget_payloads(tx, renewal.project_id, "note", "notes", [str(remote_id) for remote_id in deleted])
        forget_payloads(tx, renewal.project_id, "discussion", "discussions", list(known))
    return {parent_id for parent_id, note in written if note.position_range_unknown}


def fill_ranges(tx: Transaction, renewal: Renewal[DiscussionRecord]) -> Changes:
    """Store the line ranges of notes that were read without them; return in how many discussions there were any.

    The version of a note, and that of its discussion, stays the same. A note that stands at another place by now keeps
    its unknown range until its discussion is read again.
    """
    if renewal.kind.column != "merge_request_id":
        return Changes()
    waiting = tx.execute(
        "SELECT n.remote_id, n.id, n.discussion_id, d.merge_request_id,"
        f" {', '.join(f'n.{name}' for name in _PLACE)} FROM notes n"
        f" JOIN discussions d ON d.id = n.discussion_id WHERE d.merge_request_id {tx.among('parents')}"
        " AND n.position_range_unknown = 1",
        {"parents": tx.integers(renewal.children)},
    )
    if not waiting:
        return Changes()
    shown = {note.remote_id: note for child in renewal.each() for note in child.item.record.notes}
    filled = [
        (note, row_id, discussion_id, parent_id)
        for remote_id, row_id, discussion_id, parent_id, *place in waiting
        if (note := shown.get(remote_id)) is not None
        and not note.position_range_unknown
        and [getattr(note, name) for name in _PLACE] == place
    ]
    tx.execute_many(
        "UPDATE notes SET position_line_range_start = :start, position_line_range_end = :end,"
        " position_range_unknown = 0 WHERE id = :id",
        [
            {"start": note.position_line_range_start, "end": note.position_line_range_end, "id": row_id}
            for note, row_id, _, _ in filled
        ],
    )
    # A note on one line has no range, and its text stays as it is.
    ranged = {(place[0], place[1]) for note, _, *place in filled if note.position_line_range_start is not None}
    mark(tx, "discussion", [discussion_id for discussion_id, _ in ranged], renewal.now_ms)
    left = Counter(row[3] for row in waiting) - Counter(parent_id for *_, parent_id in filled)
    complete = {row[3] for row in waiting} - left.keys()
    if complete:
        carry_over(tx, renewal.kind, POSITIONS, renewal.project_id, sorted(complete))
    return Changes(parent_id for _, parent_id in ranged)


def tell_discussions(items: Collection[Item[DiscussionRecord]]) -> dict[str, int]:
    """Count discussions and their notes."""
    notes = system = placed = 0
    for item in items:
        for note in item.record.notes:
            notes += 1
            system += note.is_system
            placed += note.is_placed
    return {"discussions": len(items), "notes": notes - system, "system_notes": system, "diff_notes": placed}


def comments_of_discussion(record: ChildRecord, parent: Parent, kind: ParentKind) -> Iterator[CommentRecord]:
    """Yield the notes of a discussion that people wrote, as comments."""
    if not isinstance(record, DiscussionRecord):
        return
    on = "issue" if kind.column == "issue_id" else "mr"
    for note in record.notes:
        if not note.is_system:
            yield comment_of_note(note, parent.iid, on)


DISCUSSIONS = child_family(
    "discussions", DiscussionRecord, write_discussions, held_discussions, tell_discussions, comments_of_discussion
)
LINE_RANGES = child_family(POSITIONS, DiscussionRecord, fill_ranges, lambda *_: {}, lambda _items: {})


def _held_threads(read: Read, lists: Lists, kind: ParentKind, parents: Iterable[int]) -> HeldRows:
    rows = read(
        f"SELECT {kind.column}, remote_id, id, content_hash FROM discussions"
        f" WHERE {kind.column} {lists.among('parents')}",
        {"parents": lists.integers(parents)},
    )
    held: HeldRows = {}
    for parent_id, remote_id, row_id, found in rows:
        held.setdefault(parent_id, {})[remote_id] = HeldRow(row_id, bytes(found))
    return held


def _mark_seen(tx: Transaction, renewal: Renewal[DiscussionRecord]) -> None:
    params = {"now": renewal.now_ms, "parents": tx.integers(renewal.children)}
    ours = f"{renewal.kind.column} {tx.among('parents')}"
    tx.execute(
        f"UPDATE notes SET last_seen_at = :now WHERE discussion_id IN (SELECT id FROM discussions WHERE {ours})", params
    )
    tx.execute(f"UPDATE discussions SET last_seen_at = :now WHERE {ours}", params)


def _note_ids(tx: Transaction, discussions: Sequence[int]) -> list[int]:
    rows = tx.execute(
        f"SELECT remote_id FROM notes WHERE discussion_id {tx.among('ids')}", {"ids": tx.integers(discussions)}
    )
    return [remote_id for (remote_id,) in rows]


def _held_notes(tx: Transaction, discussions: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the stored notes of discussions by their remote id."""
    if not discussions:
        return {}
    names = (*_PLAIN, *_FLAGS, "discussion_id")
    rows = tx.execute(
        f"SELECT {', '.join(names)} FROM notes WHERE discussion_id {tx.among('ids')}",
        {"ids": tx.integers(discussions)},
    )
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def merge_note(note: NoteRecord, held: Mapping[str, Any] | None) -> NoteRecord:
    """Return a note with what is stored more precisely: the milliseconds of an instant, the line range of its place."""
    if held is None:
        return note
    kept = {name: held[name] for name in _INSTANTS if _is_finer(held[name], getattr(note, name))}
    if note.position_range_unknown and all(held[name] == getattr(note, name) for name in _PLACE):
        kept |= {name: held[name] for name in _RANGE}
    return replace(note, **kept) if kept else note


def _is_finer(held: int | None, shown: int | None) -> bool:
    return held is not None and shown is not None and shown % 1000 == 0 and held // 1000 == shown // 1000


def is_same_note(note: NoteRecord, held: Mapping[str, Any]) -> bool:
    """Return whether a merged note is the stored one; instants are compared by their seconds."""
    names = (*_PLAIN, *_FLAGS)
    return all(_by_second(name, held[name]) == _by_second(name, getattr(note, name)) for name in names)


def _by_second(name: str, value: Any) -> Any:
    return value // 1000 if name in _INSTANTS and value is not None else value


def _write_threads(
    tx: Transaction,
    renewal: Renewal[DiscussionRecord],
    changed: Sequence[Child[DiscussionRecord]],
    before: Mapping[int, Mapping[str, Any]],
) -> list[tuple[int, NoteRecord]]:
    """Write discussions, and those of their notes that differ from the stored ones.

    Return these notes, each with the parent of its discussion.
    """
    records = {child.item.record.remote_id: _merge_notes(child.item.record, before) for child in changed}
    contents = [Content(child.item.record.remote_id, digest(child.payload), child.payload) for child in changed]
    _store(tx, renewal, "discussion", contents)
    tx.execute_rows(
        _UPSERT_DISCUSSION,
        (*_DISCUSSION, "payload_hash"),
        [
            (
                *_discussion_row(renewal, child.parent_id, records[child.item.record.remote_id]),
                child.item.version.digest,
                content.digest,
            )
            for child, content in zip(changed, contents, strict=True)
        ],
    )
    ids = thread_ids(tx, renewal.project_id, records)
    mark(tx, "discussion", ids.values(), renewal.now_ms)
    notes = [
        (ids[remote_id], note)
        for remote_id, record in records.items()
        for note in record.notes
        if (held := before.get(note.remote_id)) is None
        or held["discussion_id"] != ids[remote_id]
        or not is_same_note(note, held)
    ]
    # The discussion's payload contains every note; only user notes and diff notes are stored again separately.
    kept = {
        note.remote_id: Content(str(note.remote_id), digest(note.payload), note.payload)
        for _, note in notes
        if not note.is_system or note.is_placed
    }
    _store(tx, renewal, "note", kept.values())
    tx.execute_rows(
        _UPSERT_NOTE,
        (*_NOTE, "payload_hash"),
        [_note_row(renewal, discussion_id, note, kept.get(note.remote_id)) for discussion_id, note in notes],
    )
    parents = {ids[child.item.record.remote_id]: child.parent_id for child in changed}
    return [(parents[discussion_id], note) for discussion_id, note in notes]


def thread_ids(tx: Transaction, project_id: int, remote_ids: Iterable[str]) -> dict[str, int]:
    """Return the row id of each discussion of a project that is stored."""
    rows = tx.execute(
        f"SELECT remote_id, id FROM discussions WHERE project_id = :project_id AND remote_id {tx.among('keys')}",
        {"project_id": project_id, "keys": tx.texts(remote_ids)},
    )
    return dict(rows)


def _merge_notes(record: DiscussionRecord, before: Mapping[int, Mapping[str, Any]]) -> DiscussionRecord:
    if not before:
        return record
    notes = tuple(merge_note(note, before.get(note.remote_id)) for note in record.notes)
    written = [note.created_at for note in notes]
    return replace(
        record, notes=notes, first_note_at=min(written, default=None), last_note_at=max(written, default=None)
    )


def _store(tx: Transaction, renewal: Renewal[DiscussionRecord], kind: str, contents: Collection[Content]) -> None:
    if contents:
        store_contents(tx, renewal.project_id, kind, contents, pack=renewal.pack, now_ms=renewal.now_ms)


def _discussion_row(renewal: Renewal[DiscussionRecord], parent_id: int, record: DiscussionRecord) -> Row:
    on_issue = renewal.kind.column == "issue_id"
    return (
        record.remote_id,
        renewal.project_id,
        parent_id if on_issue else None,
        None if on_issue else parent_id,
        renewal.kind.noteable_type,
        int(record.individual_note),
        record.first_note_at,
        record.last_note_at,
        renewal.now_ms,
        int(record.resolvable),
        int(record.resolved),
    )


def _note_row(renewal: Renewal[DiscussionRecord], discussion_id: int, note: NoteRecord, stored: Content | None) -> Row:
    own = (renewal.project_id, discussion_id, renewal.now_ms, stored.digest if stored else None)
    return (*_plain_values(note), *map(int, _flag_values(note)), *own)
