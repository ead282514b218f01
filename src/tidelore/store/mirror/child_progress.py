"""Tracks which children of issues and merge requests were read, and which are due, failing or refused.

Responsible for the tables `child_sync` and `refused_children`. A row for each parent and kind of children records for
which version of the parent (its `updated_at`) they were read. Due rows are found by a partial index, so the cost
depends on how many are due and not on the length of history. A tombstone has no rows. A kind counts as unavailable in a
project when several parents in a row were refused it, or all of them if none could ever be read; one success clears
that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec
from msgspec import Struct

from tidelore.core.config import Sync
from tidelore.engine.child_sync import IN_A_ROW, pause_ms
from tidelore.engine.ports import Parent
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.kinds import ParentKind

_KEPT = 10
"""The number of refused parents to remember by id."""


class ChildRefusal(Struct, frozen=True):
    """One kind of children that is unavailable in one project."""

    project_id: int
    parent_kind: str
    kind: str
    attempts: int
    error: str
    next_attempt_at: int


_REFUSAL_COLUMNS = ", ".join(ChildRefusal.__struct_fields__)
_KEY = "project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind"


def list_refusals(database: Database, project_id: int | None = None) -> list[ChildRefusal]:
    """Return the unavailable kinds of children, by project."""
    rows = database.read(
        f"SELECT {_REFUSAL_COLUMNS} FROM refused_children WHERE attempts > 0"
        " AND (CAST(:project_id AS BIGINT) IS NULL OR project_id = :project_id)"
        " ORDER BY project_id, parent_kind, kind",
        {"project_id": project_id},
    )
    return [ChildRefusal(*row) for row in rows]


def find_refusal(database: Database, kind: ParentKind, name: str, project_id: int) -> ChildRefusal | None:
    """Return why a kind of children is unavailable, or None."""
    refusals = list_refusals(database, project_id)
    return next((one for one in refusals if (one.parent_kind, one.kind) == (kind.table, name)), None)


def record_refusal(
    tx: Transaction,
    kind: ParentKind,
    name: str,
    project_id: int,
    parents: Iterable[int],
    error: str,
    now_ms: int,
    *,
    of_all: bool = False,
) -> bool:
    """Add refused parents; return whether the kind is now unavailable. If so, its next attempt is scheduled.

    `of_all`: the server refused it for all parents at once.
    """
    key = {"project_id": project_id, "parent_kind": kind.table, "kind": name}
    rows = tx.execute(f"SELECT parents, attempts, first_refused_at FROM refused_children WHERE {_KEY}", key)
    known, attempts, since = rows[0] if rows else ("[]", 0, now_ms)
    refused = sorted({*msgspec.json.decode(known, type=list[int]), *parents})[:_KEPT]
    if of_all or attempts or len(refused) >= IN_A_ROW or _are_all(tx, kind, name, project_id, len(refused)):
        attempts += 1
    tx.execute(
        "INSERT INTO refused_children (project_id, parent_kind, kind, parents, attempts, error, first_refused_at,"
        " next_attempt_at) VALUES (:project_id, :parent_kind, :kind, :parents, :attempts, :error, :since, :next)"
        " ON CONFLICT (project_id, parent_kind, kind) DO UPDATE SET parents = excluded.parents,"
        " attempts = excluded.attempts, error = excluded.error, next_attempt_at = excluded.next_attempt_at",
        {
            **key,
            "parents": msgspec.json.encode(refused).decode(),
            "attempts": attempts,
            "error": error,
            "since": since,
            "next": now_ms + pause_ms(attempts) if attempts else None,
        },
    )
    return bool(attempts)


def has_refusals(database: Database, kind: ParentKind, name: str, project_id: int) -> bool:
    """Return whether a parent was refused this kind since the last success."""
    key = {"project_id": project_id, "parent_kind": kind.table, "kind": name}
    return bool(database.read(f"SELECT 1 FROM refused_children WHERE {_KEY}", key))


def clear_refusals(tx: Transaction, kind: ParentKind, project_id: int, name: str | None = None) -> None:
    """Delete the refusals of one kind of children, or of all kinds."""
    tx.execute(
        "DELETE FROM refused_children WHERE project_id = :project_id AND parent_kind = :parent_kind"
        " AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)",
        {"project_id": project_id, "parent_kind": kind.table, "kind": name},
    )


def _are_all(tx: Transaction, kind: ParentKind, name: str, project_id: int, refused: int) -> bool:
    """Return whether all parents of the project were refused, and none was ever read."""
    live, read = tx.execute(
        f"SELECT COUNT(*), COUNT(fetched_for) FROM child_sync WHERE {_KEY}",
        {"project_id": project_id, "parent_kind": kind.table, "kind": name},
    )[0]
    return int(read) == 0 and refused >= int(live)


PATIENCE = 3
"""This many failures in a row are retried by the next run; after that the pauses grow to a day."""
_PAUSE_MS = 600_000
_LONGEST_PAUSE_MS = 86_400_000

IS_DUE = "c.parent_updated_at > COALESCE(c.synced_for, -1)"
"""The condition under which a parent's children are not synced for its version."""
_OF_KIND = "c.project_id = :project_id AND c.parent_kind = :parent_kind AND c.kind = :kind"
_NOTE = (
    "INSERT INTO child_sync (project_id, parent_kind, kind, parent_id, parent_updated_at, synced_for)"
    " SELECT p.project_id, CAST(:parent_kind AS TEXT), k.kind, p.id, p.updated_at,"
    " CASE WHEN k.on_demand = 1 THEN p.updated_at END FROM ({kinds}) k CROSS JOIN {table} p"
    " WHERE p.id {among} ON CONFLICT (project_id, parent_kind, kind, parent_id)"
    " DO UPDATE SET parent_updated_at = excluded.parent_updated_at, attempts = 0, synced_for = CASE"
    " WHEN excluded.synced_for IS NULL OR child_sync.synced_for IS NULL THEN child_sync.synced_for"
    " ELSE excluded.synced_for END"
)
"""For every kind of children in one statement. Only kinds that are read on demand have a `synced_for` to insert."""


def due_rows(database: Database) -> str:
    """Return the FROM and WHERE clauses for the due rows of one kind in one project, as `c`."""
    return f"FROM child_sync c {database.by_index('idx_child_sync_due')} WHERE {_OF_KIND} AND {IS_DUE}"


def kind_params(kind: ParentKind, name: str, project_id: int) -> dict[str, object]:
    """Return the query parameters for one kind of children of one project."""
    return {"project_id": project_id, "parent_kind": kind.table, "kind": name}


def note_parents(tx: Transaction, kind: ParentKind, parents: Iterable[int]) -> None:
    """Record the stored version of parents, by their row ids; children read for another version become due.

    Kinds that are read on demand do not: they are due from `make_due` until they are read.
    """
    if kind.kinds:
        params = {"parent_kind": kind.table, "ids": tx.integers(parents)}
        tx.execute(_note_sql(kind.table, kind.kinds, kind.on_demand, tx.among("ids")), params)


@lru_cache(maxsize=32)
def _note_sql(table: str, kinds: tuple[str, ...], on_demand: tuple[str, ...], among: str) -> str:
    rows = " UNION ALL ".join(f"SELECT '{name}' AS kind, {int(name in on_demand)} AS on_demand" for name in kinds)
    return _NOTE.format(kinds=rows, table=table, among=among)


def synced_parents(tx: Transaction, kind: ParentKind, name: str, project_id: int, parents: Iterable[int]) -> list[int]:
    """Return which of these parents have their children synced for the version that is stored."""
    rows = tx.execute(
        "SELECT parent_id FROM child_sync WHERE project_id = :project_id AND parent_kind = :parent_kind"
        f" AND kind = :kind AND synced_for = parent_updated_at AND parent_id {tx.among('ids')}",
        {**kind_params(kind, name, project_id), "ids": tx.integers(parents)},
    )
    return [parent_id for (parent_id,) in rows]


def carry_over(tx: Transaction, kind: ParentKind, name: str, project_id: int, parents: Iterable[int]) -> None:
    """Count children as synced for the new version of these parents, because it did not change them."""
    tx.execute(
        "UPDATE child_sync SET synced_for = parent_updated_at, fetched_for = parent_updated_at"
        " WHERE project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind"
        f" AND parent_id {tx.among('ids')}",
        {**kind_params(kind, name, project_id), "ids": tx.integers(parents)},
    )


def make_due(tx: Transaction, kind: ParentKind, name: str, project_id: int, parents: Iterable[int]) -> None:
    """Make one kind of children of these parents due again, regardless of their progress."""
    ids = list(parents)
    if ids:
        tx.execute(
            "UPDATE child_sync SET synced_for = NULL, fetched_for = NULL, attempts = 0, last_error = NULL"
            " WHERE project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind"
            f" AND parent_id {tx.among('ids')}",
            {**kind_params(kind, name, project_id), "ids": tx.integers(ids)},
        )


def make_all_due(tx: Transaction, kind: ParentKind, project_id: int) -> None:
    """Make all children of all parents of a project due again, except those that are read on demand."""
    for name in kind.kinds:
        if name not in kind.on_demand:
            tx.execute(
                "UPDATE child_sync SET synced_for = NULL, fetched_for = NULL, attempts = 0, last_error = NULL"
                " WHERE project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind",
                kind_params(kind, name, project_id),
            )


def forget_parents(tx: Transaction, kind: ParentKind, project_id: int, parents: Sequence[int]) -> None:
    """Delete the rows of parents that become tombstones."""
    for name in kind.kinds:
        tx.execute(
            "DELETE FROM child_sync WHERE project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind"
            f" AND parent_id {tx.among('ids')}",
            {**kind_params(kind, name, project_id), "ids": tx.integers(parents)},
        )


def record_read(
    tx: Transaction,
    kind: ParentKind,
    name: str,
    project_id: int,
    parents: Iterable[Parent],
    *,
    settled: bool,
    now_ms: int,
) -> None:
    """Record that the children of parents were read for their versions; only a settled read counts as synced."""
    tx.execute_rows(
        f"UPDATE child_sync SET {'synced_for = :version, ' if settled else ''}fetched_for = :version,"
        " last_attempt_at = :now, attempts = 0, last_error = NULL WHERE project_id = :project_id"
        " AND parent_kind = :parent_kind AND kind = :kind AND parent_id = :parent_id",
        ("version", "now", "project_id", "parent_kind", "kind", "parent_id"),
        [(parent.updated_at, now_ms, project_id, kind.table, name, parent.id) for parent in parents],
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
    """Return parents whose children are due, oldest change first, after a position in that order.

    Leaves out parents that failed at or after `failed_before`, and those whose pause is not over.
    """
    rows = database.read(
        "SELECT c.parent_id, p.iid, c.parent_updated_at, c.synced_for, c.fetched_for, p.node_id FROM child_sync c"
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


def parents_by_number(database: Database, kind: ParentKind, project_id: int, numbers: Iterable[int]) -> list[Parent]:
    """Return the live parents with these numbers."""
    rows = database.read(
        f"SELECT id, iid, updated_at, node_id FROM {kind.table} WHERE project_id = :project_id"
        f" AND deleted_at IS NULL AND iid {database.among('numbers')} ORDER BY iid",
        {"project_id": project_id, "numbers": database.integers(numbers)},
    )
    return [Parent(row_id, iid, updated_at, None, None, node_id) for row_id, iid, updated_at, node_id in rows]


def least_verified(
    database: Database, kind: ParentKind, name: str, project_id: int, *, before: int, limit: int
) -> list[tuple[int, Parent]]:
    """Return synced parents and when their children were last read, least recent first."""
    rows = database.read(
        "SELECT c.last_attempt_at, c.parent_id, p.iid, c.parent_updated_at, c.synced_for, c.fetched_for, p.node_id"
        f" FROM child_sync c {database.by_index('idx_child_sync_verified')} JOIN {kind.table} p ON p.id = c.parent_id"
        f" WHERE {_OF_KIND} AND c.last_attempt_at < :before AND c.synced_for = c.parent_updated_at"
        " ORDER BY c.last_attempt_at LIMIT :limit",
        {**kind_params(kind, name, project_id), "limit": limit, "before": before},
    )
    return [(row[0], Parent(*row[1:])) for row in rows]


def oldest_reading(database: Database, kind: ParentKind, name: str, project_id: int) -> int | None:
    """Return when the least recently read children were read."""
    rows = database.read(
        f"SELECT c.last_attempt_at FROM child_sync c {database.by_index('idx_child_sync_verified')}"
        f" WHERE {_OF_KIND} AND c.last_attempt_at IS NOT NULL ORDER BY c.last_attempt_at LIMIT 1",
        kind_params(kind, name, project_id),
    )
    return rows[0][0] if rows else None


def last_failure(database: Database, kind: ParentKind, name: str, project_id: int, parent_id: int) -> str | None:
    """Return the error of the last read of one kind of children, if it failed."""
    rows = database.read(
        f"SELECT c.last_error FROM child_sync c WHERE {_OF_KIND} AND c.parent_id = :parent_id AND c.attempts > 0",
        {**kind_params(kind, name, project_id), "parent_id": parent_id},
    )
    return None if not rows else rows[0][0]


class Backlog(Struct, frozen=True):
    """The backlog for one kind of children of one list.

    `due` parents are not synced for their version. Of these, the `settling` were read too soon after their change to be
    certain, and the `failing` could not be read the last time: `error` is the most recent error. `oldest` is when the
    least recently read children were read. `unavailable` is why the server refuses this kind for the whole project:
    then none of them count as failing, and it is tried again at `next_attempt_at`.
    """

    kind: str
    due: int
    settling: int
    failing: int
    error: str | None
    oldest: int | None
    unavailable: str | None = None
    next_attempt_at: int | None = None


def present_children(database: Database, kind: ParentKind, project_id: int) -> ParentKind:
    """Return a kind of parents with the kinds of children that its source has in this project."""
    found = [
        name
        for name in kind.children
        if database.read(f"SELECT 1 FROM child_sync c WHERE {_OF_KIND} LIMIT 1", kind_params(kind, name, project_id))
    ]
    return kind.having(found)


def off_switch(name: str, settings: Sync) -> str | None:
    """Return the key of `[sync]` that switches a kind of children off; None if it is read."""
    switches = {
        "resource_events": ("fetch_resource_events", settings.fetch_resource_events),
        "closes_issues": ("fetch_mr_closes_issues", settings.fetch_mr_closes_issues),
        "diffs": ("fetch_mr_diffs", settings.fetch_mr_diffs),
        "reviewers": ("verify_reviewers", settings.verify_reviewers),
    }
    key, is_on = switches.get(name, ("", True))
    return None if is_on else key


def wanted_children(kind: ParentKind, settings: Sync) -> tuple[str, ...]:
    """Return the kinds of children to read for a list."""
    return tuple(name for name in kind.children if off_switch(name, settings) is None)


def count_due(database: Database, kind: ParentKind, name: str, project_id: int) -> tuple[int, int]:
    """Return how many parents of a project are due for one kind of children, and how many parents there are."""
    due = database.read(f"SELECT COUNT(*) {due_rows(database)}", kind_params(kind, name, project_id))
    live = database.read(
        f"SELECT COUNT(*) FROM {kind.table} WHERE project_id = :project_id AND deleted_at IS NULL",
        {"project_id": project_id},
    )
    return int(due[0][0]), int(live[0][0])


def read_backlog(database: Database, kind: ParentKind, name: str, project_id: int) -> Backlog:
    """Return the backlog of one kind of children of a project."""
    params, behind = kind_params(kind, name, project_id), due_rows(database)
    due, settling, failing = database.read(
        "SELECT COUNT(*), COUNT(CASE WHEN c.fetched_for = c.parent_updated_at THEN 1 END),"
        f" COUNT(CASE WHEN c.attempts > 0 THEN 1 END) {behind}",
        params,
    )[0]
    errors = database.read(
        f"SELECT c.last_error {behind} AND c.attempts > 0 ORDER BY c.last_attempt_at DESC, c.parent_id LIMIT 1", params
    )
    # What is read on demand is not verified.
    read_at = None if name in kind.on_demand else oldest_reading(database, kind, name, project_id)
    refused = find_refusal(database, kind, name, project_id)
    if refused is not None:
        return Backlog(name, int(due), int(settling), 0, None, read_at, refused.error, refused.next_attempt_at)
    return Backlog(name, int(due), int(settling), int(failing), errors[0][0] if errors else None, read_at)
