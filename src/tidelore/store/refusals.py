"""Kinds of children that a server refuses. Owns the table `refused_children`.

A kind counts as unavailable for a project when several of its parents were refused it in a row, or all of them where
none could ever be read. A single success forgets the row.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from tidelore.engine.refusals import IN_A_ROW, pause_ms
from tidelore.store.database import Database, Transaction
from tidelore.store.kinds import ParentKind

_KEPT = 10
"""How many refused parents are remembered by id."""


class Refusal(Struct, frozen=True):
    """One kind of children that is unavailable in one project."""

    project_id: int
    parent_kind: str
    kind: str
    attempts: int
    error: str
    first_refused_at: int
    next_attempt_at: int


_COLUMNS = ", ".join(Refusal.__struct_fields__)
_KEY = "project_id = :project_id AND parent_kind = :parent_kind AND kind = :kind"


def list_refusals(database: Database, project_id: int | None = None) -> list[Refusal]:
    """Return what is unavailable, by project."""
    rows = database.read(
        f"SELECT {_COLUMNS} FROM refused_children WHERE attempts > 0"
        " AND (CAST(:project_id AS BIGINT) IS NULL OR project_id = :project_id)"
        " ORDER BY project_id, parent_kind, kind",
        {"project_id": project_id},
    )
    return [Refusal(*row) for row in rows]


def find_refusal(database: Database, kind: ParentKind, name: str, project_id: int) -> Refusal | None:
    """Return why a kind of children is unavailable, or None."""
    refusals = list_refusals(database, project_id)
    return next((one for one in refusals if (one.parent_kind, one.kind) == (kind.table, name)), None)


def record_refusal(
    tx: Transaction, kind: ParentKind, name: str, project_id: int, parents: Iterable[int], error: str, now_ms: int
) -> bool:
    """Add refused parents; return whether the kind is unavailable by now. Then its next attempt has a date."""
    key = {"project_id": project_id, "parent_kind": kind.table, "kind": name}
    rows = tx.execute(f"SELECT parents, attempts, first_refused_at FROM refused_children WHERE {_KEY}", key)
    known, attempts, since = rows[0] if rows else ("[]", 0, now_ms)
    refused = sorted({*msgspec.json.decode(known, type=list[int]), *parents})[:_KEPT]
    if attempts or len(refused) >= IN_A_ROW or _are_all(tx, kind, name, project_id, len(refused)):
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
    """Forget the refusals of one kind of children, or of all kinds."""
    tx.execute(
        "DELETE FROM refused_children WHERE project_id = :project_id AND parent_kind = :parent_kind"
        " AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)",
        {"project_id": project_id, "parent_kind": kind.table, "kind": name},
    )


def _are_all(tx: Transaction, kind: ParentKind, name: str, project_id: int, refused: int) -> bool:
    """Return whether no parent of the project is left that was not refused, and none was ever read."""
    live, read = tx.execute(
        f"SELECT COUNT(*), COUNT(fetched_for) FROM child_sync WHERE {_KEY}",
        {"project_id": project_id, "parent_kind": kind.table, "kind": name},
    )[0]
    return int(read) == 0 and refused >= int(live)
