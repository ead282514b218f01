"""Stores comments that a forge lists by themselves: conversation comments, review comments and reviews.

Each comment is a note. Review comments that answer each other are one discussion, every other comment is one by itself.
Two ways lead here: the feed of a whole project (`CommentTable`), and the comments of one parent (`COMMENTS`,
`REVIEWS`). Whether a review thread is resolved is read apart (`THREADS`); until then it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelore.core.content import digest
from tidelore.core.model import (
    ISSUE_COMMENT,
    REVIEW_COMMENT,
    REVIEW_SUMMARY,
    ChildRecord,
    CommentRecord,
    Item,
    RemoteId,
    ReviewThreadRecord,
    Scope,
    Version,
    comment_key,
)
from tidelore.engine.ports import Parent
from tidelore.engine.whole import in_chunks
from tidelore.store.database.port import Database, Lists, Row, Transaction
from tidelore.store.mirror.child_progress import kind_params, make_due
from tidelore.store.mirror.child_writer import Changes, Read, Renewal, child_family
from tidelore.store.mirror.children import HeldRow, HeldRows, digests_of, find_gone, is_changed, thread_ids
from tidelore.store.mirror.documents import SOURCE_TYPES, mark
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST, ParentKind
from tidelore.store.mirror.parents import LinkCounts
from tidelore.store.mirror.payloads import Content, Pack, forget_payloads, store_contents

_DISCUSSION = (
    "remote_id", "project_id", "issue_id", "merge_request_id", "noteable_type", "individual_note", "last_seen_at",
    "resolvable",
)  # fmt: skip
_UPSERT_DISCUSSION = (
    f"INSERT INTO discussions ({', '.join(_DISCUSSION)}, resolved)"
    f" VALUES ({', '.join(f':{name}' for name in _DISCUSSION)}, NULL)"
    " ON CONFLICT (project_id, remote_id) DO UPDATE SET last_seen_at = excluded.last_seen_at,"
    " issue_id = excluded.issue_id, merge_request_id = excluded.merge_request_id,"
    " noteable_type = excluded.noteable_type"
)
_NOTE = (
    "remote_id", "kind", "project_id", "discussion_id", "note_type", "is_system", "author_username",
    "author_association", "is_bot", "body", "url", "created_at", "updated_at", "last_seen_at", "position", "resolvable",
    "position_old_path", "position_new_path", "position_old_line", "position_new_line", "position_line_range_start",
    "position_line_range_end", "position_head_sha", "position_side", "subject_type", "diff_hunk", "in_reply_to",
    "review_id", "review_state", "version_hash",
)  # fmt: skip
_UPSERT_NOTE = (
    f"INSERT INTO notes ({', '.join(_NOTE)}, raw_payload_id) VALUES ({', '.join(f':{name}' for name in _NOTE)},"
    " (SELECT id FROM raw_payloads WHERE remote_id = CAST(:remote_id AS TEXT) AND content_hash = :payload_hash))"
    " ON CONFLICT (project_id, kind, remote_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*_NOTE, "raw_payload_id") if name not in ("remote_id", "kind"))
)


class CommentParent(NamedTuple):
    """The issue or merge request that a comment belongs to: its kind and its row."""

    kind: ParentKind
    row_id: int


def thread_key(record: CommentRecord) -> str:
    """Return the key of the discussion a comment belongs to: answers share that of the comment they answer."""
    return comment_key(record.kind, record.in_reply_to or record.remote_id)


def find_parents(read: Read, among: str, project_id: int, numbers: object) -> dict[int, CommentParent]:
    """Return the live issue or merge request of each number that is stored; they share their numbers."""
    found: dict[int, CommentParent] = {}
    for kind in (ISSUE, MERGE_REQUEST):
        rows = read(
            f"SELECT iid, id FROM {kind.table} WHERE project_id = :project_id AND deleted_at IS NULL AND iid {among}",
            {"project_id": project_id, "numbers": numbers},
        )
        found |= {iid: CommentParent(kind, row_id) for iid, row_id in rows}
    return found


def write_comments(
    tx: Transaction,
    project_id: int,
    parents: Mapping[int, CommentParent],
    items: Sequence[Item[CommentRecord]],
    now_ms: int,
    pack: Pack,
) -> None:
    """Store new versions of comments, and mark the documents that contain them."""
    contents = [Content(str(item.record.remote_id), digest(item.payload), item.payload) for item in items]
    store_contents(tx, project_id, "note", contents, pack=pack, now_ms=now_ms)
    threads = {thread_key(item.record): item.record for item in items}
    rows = [_discussion_row(key, project_id, parents[record.number], record, now_ms) for key, record in threads.items()]
    tx.execute_rows(_UPSERT_DISCUSSION, _DISCUSSION, rows)
    ids = thread_ids(tx, project_id, threads)
    notes = [_note_row(project_id, ids[thread_key(item.record)], item, now_ms) for item in items]
    tx.execute_rows(_UPSERT_NOTE, (*_NOTE, "payload_hash"), notes)
    _refresh(tx, ids.values())
    _ask_for_states(tx, project_id, ids.values())
    mark(tx, "discussion", ids.values(), now_ms)
    for kind in (ISSUE, MERGE_REQUEST):
        # Its document contains who took part.
        touched = (parents[item.record.number] for item in items)
        changed = {parent.row_id for parent in touched if parent.kind is kind}
        mark(tx, SOURCE_TYPES[kind.table], changed, now_ms)


def _ask_for_states(tx: Transaction, project_id: int, discussions: Iterable[int]) -> None:
    """Make the threads of merge requests due that have a thread of unknown state: it may have been read before."""
    rows = tx.execute(
        "SELECT DISTINCT merge_request_id FROM discussions WHERE resolvable = 1 AND node_id IS NULL"
        f" AND merge_request_id IS NOT NULL AND id {tx.among('ids')}",
        {"ids": tx.integers(discussions)},
    )
    make_due(tx, MERGE_REQUEST, "threads", project_id, [row_id for (row_id,) in rows])


def remove_comments(tx: Transaction, project_id: int, note_ids: Sequence[int], now_ms: int) -> None:
    """Delete comments that no longer exist, and discussions that have none left."""
    params = {"ids": tx.integers(note_ids)}
    rows = tx.execute(f"SELECT discussion_id, remote_id FROM notes WHERE id {tx.among('ids')}", params)
    threads = tx.integers({discussion_id for discussion_id, _ in rows})
    mark(tx, "discussion", sorted({discussion_id for discussion_id, _ in rows}), now_ms)
    tx.execute(f"DELETE FROM notes WHERE id {tx.among('ids')}", params)
    tx.execute(
        f"DELETE FROM discussions WHERE id {tx.among('ids')}"
        " AND NOT EXISTS (SELECT 1 FROM notes n WHERE n.discussion_id = discussions.id)",
        {"ids": threads},
    )
    _refresh(tx, {discussion_id for discussion_id, _ in rows})
    forget_payloads(tx, project_id, "note", "notes", [str(remote_id) for _, remote_id in rows])


def _refresh(tx: Transaction, discussions: Iterable[int]) -> None:
    """Derive the times of discussions from their notes, and the state of the notes from their discussion."""
    params = {"ids": tx.integers(discussions)}
    of_notes = "(SELECT {0}(n.created_at) FROM notes n WHERE n.discussion_id = discussions.id)"
    tx.execute(
        f"UPDATE discussions SET first_note_at = {of_notes.format('MIN')}, last_note_at = {of_notes.format('MAX')}"
        f" WHERE id {tx.among('ids')}",
        params,
    )
    tx.execute(
        "UPDATE notes SET resolved = (SELECT d.resolved FROM discussions d WHERE d.id = notes.discussion_id)"
        f" WHERE resolvable = 1 AND discussion_id {tx.among('ids')}",
        params,
    )


def _discussion_row(key: str, project_id: int, parent: CommentParent, record: CommentRecord, now_ms: int) -> Row:
    kind, row_id = parent
    on_issue, on_diff = kind is ISSUE, record.kind == REVIEW_COMMENT
    return (
        key,
        project_id,
        row_id if on_issue else None,
        None if on_issue else row_id,
        kind.noteable_type,
        int(not on_diff),
        now_ms,
        int(on_diff),
    )


def _note_row(project_id: int, discussion_id: int, item: Item[CommentRecord], now_ms: int) -> Row:
    record = item.record
    on_left = record.side == "LEFT"
    return (
        record.remote_id,
        record.kind,
        project_id,
        discussion_id,
        "DiffNote" if record.kind == REVIEW_COMMENT else None,
        0,
        record.author,
        record.association,
        int(record.is_bot),
        record.body,
        record.url,
        record.created_at,
        record.updated_at,
        now_ms,
        # Ids grow with time, and a comment does not say where in its thread it stands.
        record.remote_id,
        int(record.kind == REVIEW_COMMENT),
        record.path,
        record.path,
        record.line if on_left else None,
        None if on_left else record.line,
        record.start_line,
        record.line if record.start_line is not None else None,
        record.commit_sha,
        record.side,
        record.subject_type,
        record.diff_hunk,
        record.in_reply_to,
        record.review_id,
        record.review_state,
        item.version.digest,
        digest(item.payload),
    )


class CommentTable:
    """The comments of one kind in a project, as the page writer stores them."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def stored(self, database: Database, project_id: int, ids: Iterable[int]) -> dict[RemoteId, Version]:
        rows = database.read(
            "SELECT remote_id, updated_at, version_hash FROM notes WHERE project_id = :project_id AND kind = :kind"
            f" AND remote_id {database.among('ids')}",
            {"project_id": project_id, "kind": self._kind, "ids": database.integers(ids)},
        )
        return {remote_id: Version(remote_id, updated_at, bytes(found)) for remote_id, updated_at, found in rows}

    def held(
        self, database: Database, project_id: int, created_from: int, created_before: int | None
    ) -> dict[RemoteId, str]:
        rows = database.read(
            "SELECT remote_id FROM notes WHERE project_id = :project_id AND kind = :kind"
            " AND created_at >= :created_from AND created_at < :created_before",
            {
                "project_id": project_id,
                "kind": self._kind,
                "created_from": created_from,
                "created_before": 2**62 if created_before is None else created_before,
            },
        )
        return {remote_id: str(remote_id) for (remote_id,) in rows}

    def write(
        self, tx: Transaction, project_id: int, items: Sequence[Item[CommentRecord]], now_ms: int, pack: Pack
    ) -> LinkCounts:
        numbers = tx.integers({item.record.number for item in items})
        parents = find_parents(tx.execute, tx.among("numbers"), project_id, numbers)
        # A parent that was deleted since takes its comments with it.
        belonging = [item for item in items if item.record.number in parents]
        write_comments(tx, project_id, parents, belonging, now_ms, pack)
        return LinkCounts()

    def bury(self, tx: Transaction, scope: Scope, ids: Iterable[int], now_ms: int) -> None:
        rows = tx.execute(
            f"SELECT id FROM notes WHERE project_id = :project_id AND kind = :kind AND remote_id {tx.among('ids')}",
            {"project_id": scope.project, "kind": self._kind, "ids": tx.integers(ids)},
        )
        remove_comments(tx, scope.project, [row_id for (row_id,) in rows], now_ms)


_SETTLE = (
    "UPDATE child_sync SET fetched_for = parent_updated_at, attempts = 0, last_error = NULL,"
    " last_attempt_at = COALESCE(last_attempt_at, :now),"
    " synced_for = CASE WHEN parent_updated_at <= :settled THEN parent_updated_at ELSE synced_for END"
    " WHERE project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind"
    " AND parent_updated_at > COALESCE(synced_for, -1) AND parent_updated_at <= :read_at"
)


def settle_comments(
    tx: Transaction, kind: ParentKind, project_id: int, *, read_at: int, settle_ms: int, now_ms: int, horizon: int = 0
) -> int:
    """Count the comments of parents as read, after all feeds of a project were read from `read_at` (server's clock).

    A parent with another number of conversation comments than its forge counts stays due and is read by itself:
    one of its comments was deleted. So does one that existed before the horizon of the feeds, until it was read once:
    the feeds leave out its older comments. Returns how many parents were due and are read now.
    """
    counted = (
        f"(SELECT COUNT(*) FROM discussions d JOIN notes n ON n.discussion_id = d.id WHERE d.{kind.column} = p.id"
        f" AND n.kind = '{ISSUE_COMMENT}')"
    )
    matching = (
        f"SELECT 1 FROM {kind.table} p WHERE p.id = child_sync.parent_id AND p.user_notes_count = {counted}"
        " AND (p.created_at >= :horizon OR child_sync.fetched_for IS NOT NULL)"
    )
    times = {"now": now_ms, "read_at": read_at, "settled": read_at - settle_ms, "horizon": horizon}
    return tx.change(f"{_SETTLE} AND EXISTS ({matching})", {**kind_params(kind, "comments", project_id), **times})


def settle_thread(
    tx: Transaction, kind: ParentKind, project_id: int, number: int, *, read_at: int, settle_ms: int, now_ms: int
) -> None:
    """Count the comments of one parent as read, after its thread was read to its end from `read_at`."""
    parent = f"SELECT p.id FROM {kind.table} p WHERE p.project_id = :project_id AND p.iid = :number"
    times = {"now": now_ms, "read_at": read_at, "settled": read_at - settle_ms}
    params = {**kind_params(kind, "comments", project_id), **times, "number": number}
    tx.execute(f"{_SETTLE} AND parent_id IN ({parent})", params)


def _held(read: Read, lists: Lists, kind: ParentKind, parents: Iterable[int], kinds: Collection[str]) -> HeldRows:
    rows = read(
        f"SELECT d.{kind.column}, n.kind, n.remote_id, n.id, n.version_hash FROM discussions d"
        f" JOIN notes n ON n.discussion_id = d.id WHERE d.{kind.column} {lists.among('parents')}"
        f" AND n.kind IN ({', '.join(f'{name!r}' for name in kinds)})",
        {"parents": lists.integers(parents)},
    )
    held: HeldRows = {}
    for parent_id, name, remote_id, row_id, found in rows:
        held.setdefault(parent_id, {})[comment_key(name, remote_id)] = HeldRow(row_id, bytes(found))
    return held


def _writer_of(*kinds: str) -> Callable[[Transaction, Renewal[CommentRecord]], Changes]:
    def write(tx: Transaction, renewal: Renewal[CommentRecord]) -> Changes:
        held = _held(tx.execute, tx, renewal.kind, renewal.children, kinds)
        base = ISSUE if renewal.kind.table == ISSUE.table else MERGE_REQUEST
        gone = find_gone(held, renewal.each())
        changes = Changes({parent_id: len(rows) for parent_id, rows in gone.items()})
        moved: set[str] = set()
        for chunk in in_chunks(renewal.each()):
            changed = [child for child in chunk if is_changed(held, child)]
            parents = {child.item.record.number: CommentParent(base, child.parent_id) for child in changed}
            if changed:
                items = [child.item for child in changed]
                write_comments(tx, renewal.project_id, parents, items, renewal.now_ms, renewal.pack)
            changes.update(child.parent_id for child in changed)
            moved.update(str(child.item.version.id) for child in changed)
        # Last, so that a discussion with another comment now keeps its row. A comment that moved has its new parent.
        left = [row_id for rows in gone.values() for key, row_id in rows.items() if key not in moved]
        if left:
            remove_comments(tx, renewal.project_id, left, renewal.now_ms)
        return changes

    return write


def _holder_of(*kinds: str) -> Callable[[Read, Lists, ParentKind, int], dict[str, bytes]]:
    def held(read: Read, lists: Lists, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
        return digests_of(_held(read, lists, kind, [parent_id], kinds), parent_id)

    return held


def _tell_comments(items: Collection[Item[CommentRecord]]) -> dict[str, int]:
    """Count comments and their discussions."""
    threads, on_diff = set(), 0
    for item in items:
        threads.add(thread_key(item.record))
        on_diff += item.record.kind == REVIEW_COMMENT
    return {"discussions": len(threads), "notes": len(items), "diff_notes": on_diff}


_TALK = (ISSUE_COMMENT, REVIEW_COMMENT)


def _itself(record: ChildRecord, _parent: Parent, _kind: ParentKind) -> Iterable[CommentRecord]:
    return (record,) if isinstance(record, CommentRecord) else ()


COMMENTS = child_family("comments", CommentRecord, _writer_of(*_TALK), _holder_of(*_TALK), _tell_comments, _itself)
REVIEWS = child_family(
    "reviews",
    CommentRecord,
    _writer_of(REVIEW_SUMMARY),
    _holder_of(REVIEW_SUMMARY),
    lambda items: {"reviews": len(items)},
    _itself,
)


def _states(read: Read, lists: Lists, kind: ParentKind, parents: Iterable[int]) -> HeldRows:
    rows = read(
        f"SELECT {kind.column}, node_id, id, state_hash FROM discussions"
        f" WHERE {kind.column} {lists.among('parents')} AND node_id IS NOT NULL",
        {"parents": lists.integers(parents)},
    )
    held: HeldRows = {}
    for parent_id, node_id, row_id, found in rows:
        held.setdefault(parent_id, {})[node_id] = HeldRow(row_id, bytes(found))
    return held


def _held_states(read: Read, lists: Lists, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
    return digests_of(_states(read, lists, kind, [parent_id]), parent_id)


def _write_states(tx: Transaction, renewal: Renewal[ReviewThreadRecord]) -> Changes:
    """Store whether the review threads of merge requests are resolved; one that is no longer listed is unknown."""
    held = _states(tx.execute, tx, renewal.kind, renewal.children)
    changed = [child for child in renewal.each() if is_changed(held, child)]
    gone = find_gone(held, renewal.each())
    if gone:
        ids = [row_id for rows in gone.values() for row_id in rows.values()]
        tx.execute(
            "UPDATE discussions SET node_id = NULL, state_hash = NULL, resolved = NULL, resolved_by = NULL,"
            f" is_outdated = NULL WHERE id {tx.among('gone')}",
            {"gone": tx.integers(ids)},
        )
    tx.execute_rows(
        "UPDATE discussions SET node_id = :node_id, state_hash = :hash, resolved = :resolved,"
        " resolved_by = :resolved_by, is_outdated = :outdated WHERE id = (SELECT discussion_id FROM notes"
        f" WHERE project_id = :project AND kind = '{REVIEW_COMMENT}' AND remote_id = :root)",
        ("node_id", "hash", "resolved", "resolved_by", "outdated", "project", "root"),
        [_state_row(renewal.project_id, child.item) for child in changed],
    )
    changes = Changes(child.parent_id for child in changed)
    changes.update({parent_id: len(rows) for parent_id, rows in gone.items()})
    if changes:
        threads = tx.execute(
            f"SELECT id FROM discussions WHERE merge_request_id {tx.among('parents')} AND (node_id {tx.among('keys')}"
            " OR (resolvable = 1 AND node_id IS NULL))",
            {
                "parents": tx.integers(changes),
                "keys": tx.texts(str(child.item.version.id) for child in changed),
            },
        )
        _refresh(tx, [row_id for (row_id,) in threads])
    return changes


def _state_row(project_id: int, item: Item[ReviewThreadRecord]) -> Row:
    record = item.record
    return (
        record.remote_id,
        item.version.digest,
        int(record.is_resolved),
        record.resolved_by,
        int(record.is_outdated),
        project_id,
        record.root_comment_id,
    )


def _tell_threads(items: Collection[Item[ReviewThreadRecord]]) -> dict[str, int]:
    return {"threads": len(items), "resolved_threads": sum(item.record.is_resolved for item in items)}


THREADS = child_family("threads", ReviewThreadRecord, _write_states, _held_states, _tell_threads)
