"""Tombstones: what stays of an issue or merge request that the forge deleted. Owns what is removed with it.

A tombstone keeps identity (ids, number, reference, address, state) and times. Title, description, people, labels, every
child and payload, the documents and their vectors are removed in the transaction that buries the item. The row refers
to one empty payload, because its columns demand one. An item that is seen again is written like a new one and all its
children become due (`note_parents`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tidelore.core.content import digest
from tidelore.core.model import Scope
from tidelore.store.child_progress import forget_parents
from tidelore.store.database import Transaction
from tidelore.store.dirty import SOURCE_TYPES, mark_parents
from tidelore.store.family import Family
from tidelore.store.issues import ISSUES
from tidelore.store.kinds import ParentKind
from tidelore.store.merge_requests import MERGE_REQUESTS
from tidelore.store.payloads import forget_payloads
from tidelore.store.quarantine import release, release_children

EMPTY = digest(b"")
_FAMILIES: Mapping[str, Family] = MappingProxyType({family.table: family for family in (ISSUES, MERGE_REQUESTS)})
_CHILD_TABLES = {
    "issues": ("resource_state_events", "resource_label_events", "resource_milestone_events"),
    "merge_requests": (
        "resource_state_events",
        "resource_label_events",
        "resource_milestone_events",
        "mr_closes_issues",
        "mr_file_changes",
    ),
}
_CLEARED = {
    "issues": (
        "title = '', description = NULL, author_username = NULL, milestone_title = NULL, due_date = NULL,"
        " discussion_locked = 0, issue_type = NULL, user_notes_count = 0, time_estimate_seconds = 0,"
        " time_spent_seconds = 0, status_name = NULL, status_category = NULL, status_color = NULL,"
        " status_icon_name = NULL"
    ),
    "merge_requests": (
        "title = '', description = NULL, author_username = NULL, milestone_title = NULL, draft = 0,"
        " source_branch = NULL, target_branch = NULL, head_sha = NULL, detailed_merge_status = NULL,"
        " merge_user_username = NULL, user_notes_count = 0"
    ),
}


def bury(tx: Transaction, scope: Scope, kind: ParentKind, ids: Iterable[int], now_ms: int) -> None:
    """Turn rows that the forge no longer has into tombstones, and remove everything below them."""
    rows = tx.execute(
        f"SELECT id, iid, remote_id FROM {kind.table} WHERE deleted_at IS NULL AND id {tx.among('ids')}",
        {"ids": tx.integers(ids)},
    )
    if not rows:
        return
    buried = [row_id for row_id, _, _ in rows]
    remote_ids = [remote_id for _, _, remote_id in rows]
    # Before the discussions go: a document that is being made of one of them has to go too.
    mark_parents(tx, kind, buried, now_ms)
    _remove_discussions(tx, scope.project, kind, buried)
    _remove_links(tx, scope, _FAMILIES[kind.table], buried, remote_ids)
    forget_parents(tx, kind, scope.project, buried)
    _clear(tx, kind, buried, now_ms)
    family = _FAMILIES[kind.table]
    forget_payloads(tx, scope.project, family.resource_type, kind.table, [str(key) for key in remote_ids])
    # A document that is being written at this moment is left to its mark: two that wait for each other would both fail.
    tx.execute(
        "DELETE FROM documents WHERE id IN (SELECT id FROM documents WHERE thread_type = :type"
        f" AND thread_id {tx.among('ids')}{tx.passing_locked()})",
        {"type": SOURCE_TYPES[kind.table], "ids": tx.integers(buried)},
    )
    release_children(tx, scope, [iid for _, iid, _ in rows])
    release(tx, scope, [str(key) for key in remote_ids])


def is_buried(tx: Transaction, kind: ParentKind, row_id: int) -> bool:
    """Return whether a row is a tombstone: nothing may be stored below it."""
    return bool(tx.execute(f"SELECT 1 FROM {kind.table} WHERE id = :id AND deleted_at IS NOT NULL", {"id": row_id}))


def _remove_discussions(tx: Transaction, project_id: int, kind: ParentKind, ids: Sequence[int]) -> None:
    params: dict[str, Any] = {"ids": tx.integers(ids)}
    ours = f"{kind.column} {tx.among('ids')}"
    threads = tx.execute(f"SELECT remote_id FROM discussions WHERE {ours}", params)
    notes = tx.execute(
        f"SELECT n.remote_id FROM notes n JOIN discussions d ON d.id = n.discussion_id WHERE d.{ours}", params
    )
    tx.execute(f"DELETE FROM discussions WHERE {ours}", params)
    forget_payloads(tx, project_id, "note", "notes", [str(key) for (key,) in notes])
    forget_payloads(tx, project_id, "discussion", "discussions", [key for (key,) in threads])


def _remove_links(tx: Transaction, scope: Scope, family: Family, ids: Sequence[int], remote_ids: Sequence[int]) -> None:
    for table in (*_CHILD_TABLES[family.table], family.label_table, *family.people.values()):
        tx.execute(f"DELETE FROM {table} WHERE {family.parent_column} {tx.among('ids')}", {"ids": tx.integers(ids)})
    if family is ISSUES:
        # The merge requests that close it repeat its title.
        tx.execute(
            f"DELETE FROM mr_closes_issues WHERE issue_remote_id {tx.among('ids')} AND merge_request_id IN"
            " (SELECT m.id FROM merge_requests m JOIN projects p ON p.id = m.project_id WHERE p.source = :source)",
            {"ids": tx.integers(remote_ids), "source": scope.source},
        )


def _clear(tx: Transaction, kind: ParentKind, ids: Sequence[int], now_ms: int) -> None:
    tx.execute(
        "INSERT INTO raw_payloads (content_hash, project_id, resource_type, remote_id, encoding, payload, fetched_at)"
        " VALUES (:empty, NULL, 'tombstone', '', 'identity', :payload, :now)"
        " ON CONFLICT (remote_id, content_hash) DO NOTHING",
        {"empty": EMPTY, "payload": b"", "now": now_ms},
    )
    tx.execute(
        f"UPDATE {kind.table} SET deleted_at = :now, {_CLEARED[kind.table]}, content_hash = :empty,"
        " raw_payload_id = (SELECT id FROM raw_payloads WHERE remote_id = '' AND content_hash = :empty)"
        f" WHERE id {tx.among('ids')}",
        {"now": now_ms, "empty": EMPTY, "ids": tx.integers(ids)},
    )
