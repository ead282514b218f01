"""Discussions and their notes. Owns the two tables: upsert what changed, sweep what was not seen.

A discussion whose content is stored already is not written again. What was deleted on the forge leaves no
payload behind; what was edited keeps its earlier ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter

from tidelore.core.content import digest
from tidelore.core.model import DiscussionRecord, Item, NoteRecord, Version
from tidelore.engine.whole import in_chunks
from tidelore.store.child_sync import Read, Renewal, child_family
from tidelore.store.database import Row, Transaction
from tidelore.store.dirty import mark
from tidelore.store.kinds import ParentKind
from tidelore.store.payloads import forget_payloads, store_payloads

_PAYLOAD = "(SELECT id FROM raw_payloads WHERE remote_id = CAST(:remote_id AS TEXT) AND content_hash = :content_hash)"
_DISCUSSION = (
    "remote_id", "project_id", "issue_id", "merge_request_id", "noteable_type", "individual_note", "first_note_at",
    "last_note_at", "last_seen_at", "resolvable", "resolved", "content_hash",
)  # fmt: skip
_FLAGS = ("is_system", "is_internal", "resolvable", "resolved")
_PLAIN = tuple(name for name in NoteRecord.__struct_fields__ if name not in (*_FLAGS, "payload"))
_NOTE = (*_PLAIN, *_FLAGS, "project_id", "discussion_id", "last_seen_at")
_plain_values = attrgetter(*_PLAIN)


def _upsert(table: str, names: Sequence[str], payload: str) -> str:
    kept = {"remote_id", "project_id"}
    updates = ", ".join(f"{name} = excluded.{name}" for name in (*names, "raw_payload_id") if name not in kept)
    return (
        f"INSERT INTO {table} ({', '.join(names)}, raw_payload_id) VALUES ({', '.join(f':{name}' for name in names)},"
        f" {payload}) ON CONFLICT (project_id, remote_id) DO UPDATE SET {updates}"
    )


_UPSERT_DISCUSSION = _upsert("discussions", _DISCUSSION, _PAYLOAD)
_UPSERT_NOTE = _upsert("notes", _NOTE, _PAYLOAD)


def held_discussions(read: Read, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
    """Return what a parent holds: the remote id and the content hash of each discussion."""
    return {remote_id: found for remote_id, (_, found) in _held(read, kind, parent_id).items()}


def write_discussions(tx: Transaction, renewal: Renewal[DiscussionRecord]) -> int:
    """Make a parent hold exactly these discussions with exactly these notes; return how many changed."""
    held = _held(tx.execute, renewal.kind, renewal.parent_id)
    if held:
        _mark_seen(tx, renewal)
    seen = {item.record.remote_id for item in renewal.items}
    gone = {remote_id: row_id for remote_id, (row_id, _) in held.items() if remote_id not in seen}
    changes = len(gone)
    if gone:
        _remove(tx, renewal, gone)
    for chunk in in_chunks(renewal.items):
        changed = [item for item in chunk if held.get(item.record.remote_id, (0, b""))[1] != item.version.digest]
        if changed:
            _renew(
                tx, renewal, changed, {key: held[key][0] for item in changed if (key := item.record.remote_id) in held}
            )
        changes += len(changed)
    return changes


def _remove(tx: Transaction, renewal: Renewal[DiscussionRecord], gone: Mapping[str, int]) -> None:
    """Delete discussions that the server does not list any more, their notes and what was stored of both."""
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
) -> None:
    """Write discussions that differ from the stored ones, and delete those of their notes that are gone."""
    before = _note_ids(tx, list(known.values()))
    _write(tx, renewal, changed)
    notes = {note.remote_id for item in changed for note in item.record.notes}
    deleted = [remote_id for remote_id in before if remote_id not in notes]
    if deleted:
        tx.execute(
            f"DELETE FROM notes WHERE discussion_id {tx.among('known')} AND remote_id {tx.among('ids')}",
            {"known": tx.integers(known.values()), "ids": tx.integers(deleted)},
        )
        forget_payloads(tx, renewal.project_id, "note", "notes", [str(remote_id) for remote_id in deleted])
        forget_payloads(tx, renewal.project_id, "discussion", "discussions", list(known))


def tell_discussions(items: Collection[Item[DiscussionRecord]]) -> dict[str, int]:
    """Count discussions and their notes."""
    told = Counter({"discussions": len(items), "notes": 0, "system_notes": 0, "diff_notes": 0})
    for item in items:
        for note in item.record.notes:
            told["system_notes" if note.is_system else "notes"] += 1
            told["diff_notes"] += note.is_placed
    return dict(told)


DISCUSSIONS = child_family("discussions", DiscussionRecord, write_discussions, held_discussions, tell_discussions)


def _held(read: Read, kind: ParentKind, parent_id: int) -> dict[str, tuple[int, bytes]]:
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
    if not discussions:
        return []
    rows = tx.execute(
        f"SELECT remote_id FROM notes WHERE discussion_id {tx.among('ids')}", {"ids": tx.integers(discussions)}
    )
    return [remote_id for (remote_id,) in rows]


def _write(tx: Transaction, renewal: Renewal[DiscussionRecord], changed: Sequence[Item[DiscussionRecord]]) -> None:
    if not changed:
        return
    _store(tx, renewal, "discussion", changed)
    tx.execute_rows(_UPSERT_DISCUSSION, _DISCUSSION, [_discussion_row(renewal, item) for item in changed])
    ids = {remote_id: row_id for remote_id, (row_id, _) in _held(tx.execute, renewal.kind, renewal.parent_id).items()}
    mark(tx, "discussion", [ids[item.record.remote_id] for item in changed], renewal.now_ms)
    notes = [(ids[item.record.remote_id], note) for item in changed for note in item.record.notes]
    # The discussion's payload holds every note; only what people wrote, or placed in a diff, is kept again.
    kept = {note.remote_id: _as_item(note) for _, note in notes if not note.is_system or note.is_placed}
    _store(tx, renewal, "note", list(kept.values()))
    tx.execute_rows(
        _UPSERT_NOTE,
        (*_NOTE, "content_hash"),
        [_note_row(renewal, discussion_id, note, kept.get(note.remote_id)) for discussion_id, note in notes],
    )


def _store(tx: Transaction, renewal: Renewal[DiscussionRecord], kind: str, items: Sequence[Item[object]]) -> None:
    if items:
        store_payloads(tx, renewal.project_id, kind, items, pack=renewal.pack, now_ms=renewal.now_ms)


def _as_item(note: NoteRecord) -> Item[NoteRecord]:
    version = Version(note.remote_id, note.updated_at, digest(note.payload))
    return Item(version, note.created_at, note.payload, note)


def _discussion_row(renewal: Renewal[DiscussionRecord], item: Item[DiscussionRecord]) -> Row:
    record, on_issue = item.record, renewal.kind.column == "issue_id"
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
        item.version.digest,
    )


def _note_row(
    renewal: Renewal[DiscussionRecord], discussion_id: int, note: NoteRecord, stored: Item[NoteRecord] | None
) -> Row:
    flags = tuple(int(getattr(note, name)) for name in _FLAGS)
    own = (renewal.project_id, discussion_id, renewal.now_ms)
    return (*_plain_values(note), *flags, *own, stored.version.digest if stored else None)
