"""Describes the kinds of children: discussions with notes, events, closed issues, files, reviewers.

Each kind is a `ChildFamily` for `child_writer.py`. A row whose content is unchanged is not written again; one that was
not seen is removed. The payloads of a deleted note or discussion are deleted; an edited one keeps its earlier payloads.

Notes come by two ways, of which one shows milliseconds and line ranges and the other does not. A note that differs only
in that is the same note: its row keeps the finer values, and is not written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

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
    comment_of_note,
)
from tidelore.engine.ports import Parent
from tidelore.engine.whole import in_chunks
from tidelore.store.database.port import Row, Transaction
from tidelore.store.mirror.child_progress import carry_over, make_due
from tidelore.store.mirror.child_writer import ChildFamily, Read, Renewal, child_family
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


def _own_values(read: Read, kind: ParentKind, parent_id: int, project_id: int) -> dict[str, Any]:
    values: dict[str, Any] = {"project_id": project_id, "issue_id": None, "merge_request_id": None}
    values[kind.column] = parent_id
    return values | {"head_sha": _head(read, parent_id) if kind.column == "merge_request_id" else ""}


def _head(read: Read, parent_id: int) -> str:
    return str(read("SELECT COALESCE(head_sha, '') FROM merge_requests WHERE id = :id", {"id": parent_id})[0][0])


def _held(read: Read, table: ChildTable, kind: ParentKind, parent_id: int) -> dict[str, tuple[int, bytes]]:
    """Return the rows of a parent in a table; for files, only those of its newest head."""
    params: dict[str, Any] = {"parent": parent_id}
    head = ""
    if "head_sha" in table.own:
        params["head"] = _head(read, parent_id)
        head = " AND head_sha = :head"
    rows = read(
        f"SELECT id, content_hash, {', '.join(table.key)} FROM {table.table} WHERE {kind.column} = :parent{head}",
        params,
    )
    return {_key(table, key): (row_id, bytes(found)) for row_id, found, *key in rows}


def _key(table: ChildTable, values: Sequence[object]) -> str:
    return table.prefix + " -> ".join(map(str, values))


def _write(tx: Transaction, renewal: Renewal[ChildRecord], table: ChildTable) -> int:
    held = _held(tx.execute, table, renewal.kind, renewal.parent_id)
    own = _own_values(tx.execute, renewal.kind, renewal.parent_id, renewal.project_id)
    changes = 0
    seen: set[str] = set()
    for chunk in in_chunks(item for item in renewal.items if isinstance(item.record, table.record)):
        seen.update(str(item.version.id) for item in chunk)
        changed = [item for item in chunk if held.get(str(item.version.id), (0, b""))[1] != item.version.digest]
        _upsert(tx, table, [_row(table, own, item) for item in changed])
        changes += len(changed)
    gone = [row_id for key, (row_id, _) in held.items() if key not in seen]
    if gone:
        tx.execute(f"DELETE FROM {table.table} WHERE id {tx.among('ids')}", {"ids": tx.integers(gone)})
    return changes + len(gone)


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
    def write(tx: Transaction, renewal: Renewal[ChildRecord]) -> int:
        return sum(_write(tx, renewal, table) for table in tables)

    def held(read: Read, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for table in tables:
            found |= {key: value for key, (_, value) in _held(read, table, kind, parent_id).items()}
        return found

    return ChildFamily(name, write, held, _counter(word))


def _counter(word: str) -> Callable[[Collection[Item[ChildRecord]]], dict[str, int]]:
    return lambda items: {word: len(items)}


def _held_reviewers(read: Read, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
    rows = read(f"SELECT username FROM mr_reviewers WHERE {kind.column} = :parent", {"parent": parent_id})
    return {username: b"" for (username,) in rows}


def _write_reviewers(tx: Transaction, renewal: Renewal[ReviewerRecord]) -> int:
    before = set(_held_reviewers(tx.execute, renewal.kind, renewal.parent_id))
    names = [item.record.username for item in renewal.items]
    if before == set(names):
        return 0
    relink_people(tx, "mr_reviewers", renewal.kind.column, {renewal.parent_id: names}, fresh=False)
    return len(before ^ set(names))


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
_plain_values = attrgetter(*_PLAIN)
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


def held_discussions(read: Read, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
    """Return the stored discussions of a parent: remote id and content hash."""
    return {remote_id: found for remote_id, (_, found) in _held_threads(read, kind, parent_id).items()}


def write_discussions(tx: Transaction, renewal: Renewal[DiscussionRecord]) -> int:
    """Make the stored discussions and notes of a parent exactly these; return how many changed."""
    held = _held_threads(tx.execute, renewal.kind, renewal.parent_id)
    if held:
        _mark_seen(tx, renewal)
    seen = {item.record.remote_id for item in renewal.items}
    gone = {remote_id: row_id for remote_id, (row_id, _) in held.items() if remote_id not in seen}
    changes = len(gone)
    if gone:
        _remove(tx, renewal, gone)
    is_partial = False
    for chunk in in_chunks(renewal.items):
        changed = [item for item in chunk if held.get(item.record.remote_id, (0, b""))[1] != item.version.digest]
        if changed:
            known = {key: held[key][0] for item in changed if (key := item.record.remote_id) in held}
            is_partial |= _renew(tx, renewal, changed, known)
        changes += len(changed)
    if held:
        changes += fill_ranges(tx, renewal)
    if is_partial:
        make_due(tx, renewal.kind, POSITIONS, renewal.project_id, [renewal.parent_id])
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
    changed: Sequence[Item[DiscussionRecord]],
    known: Mapping[str, int],
) -> bool:
    """Write discussions that differ from the stored ones, and delete their notes that no longer exist.

    Return whether the line range of a written note is unknown.
    """
    before = _held_notes(tx, list(known.values()))
    written = _write_threads(tx, renewal, changed, before)
    notes = {note.remote_id for item in changed for note in item.record.notes}
    deleted = [remote_id for remote_id in before if remote_id not in notes]
    if deleted:
        tx.execute(
            f"DELETE FROM notes WHERE discussion_id {tx.among('known')} AND remote_id {tx.among('ids')}",
            {"known": tx.integers(known.values()), "ids": tx.integers(deleted)},
        )
        forget_payloads(tx, renewal.project_id, "note", "notes", [str(remote_id) for remote_id in deleted])
        forget_payloads(tx, renewal.project_id, "discussion", "discussions", list(known))
    return any(note.position_range_unknown for note in written)


def fill_ranges(tx: Transaction, renewal: Renewal[DiscussionRecord]) -> int:
    """Store the line ranges of notes that were read without them; return how many there were.

    The version of a note, and that of its discussion, stays the same. A note that stands at another place by now keeps
    its unknown range until its discussion is read again.
    """
    if renewal.kind.column != "merge_request_id":
        return 0
    waiting = tx.execute(
        f"SELECT n.remote_id, n.id, n.discussion_id, {', '.join(f'n.{name}' for name in _PLACE)} FROM notes n"
        " JOIN discussions d ON d.id = n.discussion_id WHERE d.merge_request_id = :parent"
        " AND n.position_range_unknown = 1",
        {"parent": renewal.parent_id},
    )
    if not waiting:
        return 0
    shown = {note.remote_id: note for item in renewal.items for note in item.record.notes}
    filled = [
        (note, row_id, discussion_id)
        for remote_id, row_id, discussion_id, *place in waiting
        if (note := shown.get(remote_id)) is not None
        and not note.position_range_unknown
        and [getattr(note, name) for name in _PLACE] == place
    ]
    tx.execute_many(
        "UPDATE notes SET position_line_range_start = :start, position_line_range_end = :end,"
        " position_range_unknown = 0 WHERE id = :id",
        [
            {"start": note.position_line_range_start, "end": note.position_line_range_end, "id": row_id}
            for note, row_id, _ in filled
        ],
    )
    # A note on one line has no range, and its text stays as it is.
    ranged = {discussion_id for note, _, discussion_id in filled if note.position_line_range_start is not None}
    mark(tx, "discussion", ranged, renewal.now_ms)
    if len(filled) == len(waiting):
        carry_over(tx, renewal.kind, POSITIONS, renewal.project_id, [renewal.parent_id])
    return len(ranged)


def tell_discussions(items: Collection[Item[DiscussionRecord]]) -> dict[str, int]:
    """Count discussions and their notes."""
    told = Counter({"discussions": len(items), "notes": 0, "system_notes": 0, "diff_notes": 0})
    for item in items:
        for note in item.record.notes:
            told["system_notes" if note.is_system else "notes"] += 1
            told["diff_notes"] += note.is_placed
    return dict(told)


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


def _held_threads(read: Read, kind: ParentKind, parent_id: int) -> dict[str, tuple[int, bytes]]:
    rows = read(
        f"SELECT remote_id, id, content_hash FROM discussions WHERE {kind.column} = :parent", {"parent": parent_id}
    )
    return {remote_id: (row_id, bytes(found)) for remote_id, row_id, found in rows}


def _mark_seen(tx: Transaction, renewal: Renewal[DiscussionRecord]) -> None:
    params = {"now": renewal.now_ms, "parent": renewal.parent_id}
    ours = f"SELECT id FROM discussions WHERE {renewal.kind.column} = :parent"
    tx.execute(f"UPDATE notes SET last_seen_at = :now WHERE discussion_id IN ({ours})", params)
    tx.execute(f"UPDATE discussions SET last_seen_at = :now WHERE {renewal.kind.column} = :parent", params)


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
    changed: Sequence[Item[DiscussionRecord]],
    before: Mapping[int, Mapping[str, Any]],
) -> list[NoteRecord]:
    """Write discussions, and those of their notes that differ from the stored ones; return these notes."""
    records = {item.record.remote_id: _merge_notes(item.record, before) for item in changed}
    contents = [Content(item.record.remote_id, digest(item.payload), item.payload) for item in changed]
    _store(tx, renewal, "discussion", contents)
    tx.execute_rows(
        _UPSERT_DISCUSSION,
        (*_DISCUSSION, "payload_hash"),
        [
            (*_discussion_row(renewal, records[item.record.remote_id]), item.version.digest, content.digest)
            for item, content in zip(changed, contents, strict=True)
        ],
    )
    ids = {
        remote_id: row_id
        for remote_id, (row_id, _) in _held_threads(tx.execute, renewal.kind, renewal.parent_id).items()
    }
    mark(tx, "discussion", [ids[item.record.remote_id] for item in changed], renewal.now_ms)
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
    return [note for _, note in notes]


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


def _discussion_row(renewal: Renewal[DiscussionRecord], record: DiscussionRecord) -> Row:
    on_issue = renewal.kind.column == "issue_id"
    return (
        record.remote_id,
        renewal.project_id,
        renewal.parent_id if on_issue else None,
        None if on_issue else renewal.parent_id,
        renewal.kind.noteable_type,
        int(record.individual_note),
        record.first_note_at,
        record.last_note_at,
        renewal.now_ms,
        int(record.resolvable),
        int(record.resolved),
    )


def _note_row(renewal: Renewal[DiscussionRecord], discussion_id: int, note: NoteRecord, stored: Content | None) -> Row:
    flags = tuple(int(getattr(note, name)) for name in _FLAGS)
    own = (renewal.project_id, discussion_id, renewal.now_ms)
    return (*_plain_values(note), *flags, *own, stored.digest if stored else None)
