"""Stores items that could not be parsed, and when to retry them (table `quarantine`, invariant 7).

The pause between attempts doubles, up to a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tidelore.core.model import Rejected, Scope
from tidelore.engine.ports import Quarantined
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.cursors import scope_params

_FIRST_PAUSE_MS = 60_000
_LONGEST_PAUSE_MS = 86_400_000


class QuarantineRow(Struct, frozen=True):
    """An entry for display."""

    source: str
    surface: str
    scope: str
    remote_key: str
    error: str
    attempts: int
    first_seen_at: int
    last_seen_at: int
    next_attempt_at: int | None


def pause_ms(attempts: int) -> int:
    """Return how long to wait after this many attempts: doubling, at most a day."""
    return min(_FIRST_PAUSE_MS << min(attempts - 1, 30), _LONGEST_PAUSE_MS)


def admit(tx: Transaction, scope: Scope, rejected: Sequence[Rejected], now_ms: int) -> None:
    """Store items that could not be parsed; each further failure increases attempts and pause."""
    for entry in rejected:
        key = {**scope_params(scope), "remote_key": entry.key}
        rows = tx.execute(
            "SELECT attempts, payload, locator FROM quarantine WHERE source = :source AND surface = :surface"
            " AND scope = :scope AND remote_key = :remote_key",
            key,
        )
        attempts, payload, known = rows[0] if rows else (0, b"", None)
        attempts += 1
        locator = entry.locator or known
        tx.execute(
            "INSERT INTO quarantine (source, surface, scope, remote_key, locator, payload, error, attempts,"
            " first_seen_at, last_seen_at, next_attempt_at) VALUES (:source, :surface, :scope, :remote_key,"
            " :locator, :payload, :error, :attempts, :now, :now, :next)"
            " ON CONFLICT (source, surface, scope, remote_key) DO UPDATE SET locator = excluded.locator,"
            " payload = excluded.payload, error = excluded.error, attempts = excluded.attempts,"
            " last_seen_at = excluded.last_seen_at, next_attempt_at = excluded.next_attempt_at",
            {
                **key,
                "locator": locator,
                "payload": entry.payload or bytes(payload),
                "error": entry.error,
                "attempts": attempts,
                "now": now_ms,
                "next": None if locator is None else now_ms + pause_ms(attempts),
            },
        )


def release(tx: Transaction, scope: Scope, keys: Iterable[str]) -> None:
    """Delete entries that could be parsed, or whose items are gone."""
    if not _any(tx, scope):
        return
    tx.execute_many(
        "DELETE FROM quarantine WHERE source = :source AND surface = :surface AND scope = :scope"
        " AND remote_key = :remote_key",
        [{**scope_params(scope), "remote_key": key} for key in keys],
    )


def release_scopes(tx: Transaction, source: str, surface: str, keys: Iterable[str]) -> None:
    """Delete all entries of these scopes of a surface, after all of each could be parsed."""
    tx.execute(
        f"DELETE FROM quarantine WHERE source = :source AND surface = :surface AND scope {tx.among('keys')}",
        {"source": source, "surface": surface, "keys": tx.texts(keys)},
    )


def release_children(tx: Transaction, scope: Scope, iids: Sequence[int]) -> None:
    """Delete the entries for children of these parents, which are gone and will not be fetched again."""
    tx.execute_many(
        "DELETE FROM quarantine WHERE source = :source AND surface LIKE :below AND scope = :scope",
        [{"source": scope.source, "below": f"{scope.surface}.%", "scope": f"{scope.key}/{iid}"} for iid in iids],
    )


def due_entries(database: Database, scope: Scope, now_ms: int, limit: int) -> list[Quarantined]:
    """Return the entries to fetch again now, longest overdue first."""
    rows = database.read(
        "SELECT remote_key, locator, attempts FROM quarantine WHERE source = :source AND surface = :surface"
        " AND scope = :scope AND locator IS NOT NULL AND next_attempt_at <= :now"
        " ORDER BY next_attempt_at LIMIT :limit",
        {**scope_params(scope), "now": now_ms, "limit": limit},
    )
    return [Quarantined(*row) for row in rows]


def list_quarantine(database: Database) -> list[QuarantineRow]:
    """Return everything in quarantine."""
    rows = database.read(
        "SELECT source, surface, scope, remote_key, error, attempts, first_seen_at, last_seen_at,"
        " next_attempt_at FROM quarantine ORDER BY first_seen_at"
    )
    return [QuarantineRow(*row) for row in rows]


def _any(tx: Transaction, scope: Scope) -> bool:
    return bool(
        tx.execute(
            "SELECT 1 FROM quarantine WHERE source = :source AND surface = :surface AND scope = :scope LIMIT 1",
            scope_params(scope),
        )
    )
