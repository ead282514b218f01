"""How far the children of issues and merge requests were read: the table `child_sync`.

A row for each parent and kind of children says for which version of the parent (its `updated_at`) they were read. What
is due is found by a partial index, so that it costs what is due and not the length of history. A tombstone has no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelore.engine.ports import Parent
from tidelore.store.database import Database, Transaction
from tidelore.store.kinds import ParentKind

PATIENCE = 3
"""How many failures in a row are tried again by the next run; after that the pauses grow to a day."""
_PAUSE_MS = 600_000
_LONGEST_PAUSE_MS = 86_400_000

IS_DUE = "c.parent_updated_at > COALESCE(c.synced_for, -1)"
"""The condition under which a parent's children are not synced for its version."""
_OF_KIND = "c.project_id = :project_id AND c.parent_kind = :parent_kind AND c.kind = :kind"
_COLUMNS = ("project_id", "parent_kind", "kind", "parent_id", "parent_updated_at")
_NOTE = (
    f"INSERT INTO child_sync ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
    " ON CONFLICT (project_id, parent_kind, kind, parent_id)"
    " DO UPDATE SET parent_updated_at = excluded.parent_updated_at, attempts = 0"
)


def due_rows(database: Database) -> str:
    """Return the FROM and WHERE of the due rows of one kind in one project, as `c`."""
    return f"FROM child_sync c {database.by_index('idx_child_sync_due')} WHERE {_OF_KIND} AND {IS_DUE}"


def kind_params(kind: ParentKind, name: str, project_id: int) -> dict[str, object]:
    """Return the parameters that name one kind of children of one project."""
    return {"project_id": project_id, "parent_kind": kind.table, "kind": name}


def note_parents(tx: Transaction, kind: ParentKind, project_id: int, versions: Mapping[int, int]) -> None:
    """Record the stored version of parents (row id to `updated_at`); children read for another one become due."""
    rows = [
        (project_id, kind.table, name, parent_id, updated_at)
        for name in kind.kinds
        for parent_id, updated_at in versions.items()
    ]
    tx.execute_rows(_NOTE, _COLUMNS, rows)


def make_due(tx: Transaction, kind: ParentKind, name: str, project_id: int, parents: Iterable[int]) -> None:
    """Make one kind of children of these parents due again, whatever is known of them."""
    ids = list(parents)
    if ids:
        tx.execute(
            "UPDATE child_sync SET synced_for = NULL, fetched_for = NULL, attempts = 0, last_error = NULL"
            " WHERE project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind"
            f" AND parent_id {tx.among('ids')}",
            {**kind_params(kind, name, project_id), "ids": tx.integers(ids)},
        )


def make_all_due(tx: Transaction, kind: ParentKind, project_id: int) -> None:
    """Make all children of all parents of a project due again."""
    tx.execute(
        "UPDATE child_sync SET synced_for = NULL, fetched_for = NULL, attempts = 0, last_error = NULL"
        " WHERE project_id = :project_id AND parent_kind = :parent_kind",
        {"project_id": project_id, "parent_kind": kind.table},
    )


def forget_parents(tx: Transaction, kind: ParentKind, project_id: int, parents: Sequence[int]) -> None:
    """Remove the rows of parents that are tombstones from now on."""
    for name in kind.kinds:
        tx.execute(
            "DELETE FROM child_sync WHERE project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind"
            f" AND parent_id {tx.among('ids')}",
            {**kind_params(kind, name, project_id), "ids": tx.integers(parents)},
        )


def record_read(
    tx: Transaction, kind: ParentKind, name: str, project_id: int, parent: Parent, *, settled: bool, now_ms: int
) -> None:
    """Record that a parent's children were read for its version; only a settled reading counts as synced."""
    tx.execute(
        f"UPDATE child_sync SET {'synced_for = :version, ' if settled else ''}fetched_for = :version,"
        " last_attempt_at = :now, attempts = 0, last_error = NULL WHERE project_id = :project_id"
        " AND parent_kind = :parent_kind AND kind = :kind AND parent_id = :parent_id",
        {
            **kind_params(kind, name, project_id),
            "parent_id": parent.id,
            "version": parent.updated_at,
            "now": now_ms,
        },
    )


def record_failure(
    tx: Transaction, kind: ParentKind, name: str, project_id: int, parent_id: int, error: str, now_ms: int
) -> None:
    """Record that a parent's children could not be read."""
    tx.execute(
        "UPDATE child_sync SET last_attempt_at = :now, attempts = attempts + 1, last_error = :error"
        " WHERE project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind AND parent_id = :parent_id",
        {**kind_params(kind, name, project_id), "parent_id": parent_id, "now": now_ms, "error": error},
    )


def due_parents(
    database: Database,
    kind: ParentKind,
    name: str,
    project_id: int,
    *,
    after: tuple[int, int],
    now_ms: int,
    failed_before: int,
    limit: int,
) -> list[Parent]:
    """Return parents whose children are due, oldest change first, behind a place in that order.

    One that failed is left out if that was not before `failed_before`, or if its pause is not over.
    """
    rows = database.read(
        f"SELECT c.parent_id, p.iid, c.parent_updated_at, c.synced_for, c.fetched_for FROM child_sync c"
        f" {database.by_index('idx_child_sync_due')} JOIN {kind.table} p ON p.id = c.parent_id"
        f" WHERE {_OF_KIND} AND {IS_DUE} AND (c.attempts = 0 OR c.last_attempt_at < :failed_before)"
        " AND (c.parent_updated_at, c.parent_id) > (:at, :id)"
        f" AND (c.attempts < {PATIENCE} OR c.last_attempt_at + c.attempts * {_PAUSE_MS} <= :now"
        f" OR c.last_attempt_at + {_LONGEST_PAUSE_MS} <= :now)"
        " ORDER BY c.parent_updated_at, c.parent_id LIMIT :limit",
        {
            **kind_params(kind, name, project_id),
            "at": after[0],
            "id": after[1],
            "now": now_ms,
            "failed_before": failed_before,
            "limit": limit,
        },
    )
    return [Parent(*row) for row in rows]


def least_verified(
    database: Database, kind: ParentKind, name: str, project_id: int, *, before: int, limit: int
) -> list[tuple[int, Parent]]:
    """Return synced parents and when their children were last read, the longest ago first."""
    rows = database.read(
        "SELECT c.last_attempt_at, c.parent_id, p.iid, c.parent_updated_at, c.synced_for, c.fetched_for"
        f" FROM child_sync c {database.by_index('idx_child_sync_verified')} JOIN {kind.table} p ON p.id = c.parent_id"
        f" WHERE {_OF_KIND} AND c.last_attempt_at < :before AND c.synced_for = c.parent_updated_at"
        " ORDER BY c.last_attempt_at LIMIT :limit",
        {**kind_params(kind, name, project_id), "limit": limit, "before": before},
    )
    return [(row[0], Parent(*row[1:])) for row in rows]


def oldest_reading(database: Database, kind: ParentKind, name: str, project_id: int) -> int | None:
    """Return when the children that were not read for the longest time were read."""
    rows = database.read(
        f"SELECT c.last_attempt_at FROM child_sync c {database.by_index('idx_child_sync_verified')}"
        f" WHERE {_OF_KIND} AND c.last_attempt_at IS NOT NULL ORDER BY c.last_attempt_at LIMIT 1",
        kind_params(kind, name, project_id),
    )
    return rows[0][0] if rows else None


def last_failure(database: Database, kind: ParentKind, name: str, project_id: int, parent_id: int) -> str | None:
    """Return what the last reading of one kind of children met, if it failed."""
    rows = database.read(
        f"SELECT c.last_error FROM child_sync c WHERE {_OF_KIND} AND c.parent_id = :parent_id AND c.attempts > 0",
        {**kind_params(kind, name, project_id), "parent_id": parent_id},
    )
    return None if not rows else rows[0][0]
