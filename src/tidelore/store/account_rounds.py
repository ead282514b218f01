"""Whose turn it is: to be verified, the least recently verified first; to be polled, where a stream has a hole."""

from __future__ import annotations

from collections.abc import Iterable

from tidelore.store.accounts import SOURCE, SURFACES, AccountRow, Mode
from tidelore.store.database import Database, Transaction

_COLUMNS = ", ".join(f"a.{name}" for name in AccountRow.__struct_fields__)
_VERIFIABLE = (
    "FROM accounts a JOIN cursors c ON c.source = :source AND c.scope = a.did"
    " AND c.surface = CASE COALESCE(a.mode, :mode) WHEN 'feed' THEN :feed ELSE :records END"
    " WHERE a.state = 'established' AND c.bootstrap_complete = 1 AND COALESCE(c.verified_at, 0) < :before"
)


def least_verified(database: Database, mode: Mode, before: int, limit: int, offset: int = 0) -> list[AccountRow]:
    """Return established accounts that were not verified since an instant; `mode` is how those without one are read."""
    rows = database.read(
        f"SELECT {_COLUMNS} {_VERIFIABLE} ORDER BY COALESCE(c.verified_at, 0), a.id LIMIT :limit OFFSET :offset",
        {**_reading(mode, before), "limit": limit, "offset": offset},
    )
    return [AccountRow(*row) for row in rows]


def count_verifiable(database: Database, mode: Mode, before: int) -> int:
    """Return how many accounts there are to be verified since an instant."""
    return int(database.read(f"SELECT COUNT(*) {_VERIFIABLE}", _reading(mode, before))[0][0])


def _reading(mode: Mode, before: int) -> dict[str, object]:
    return {
        "source": SOURCE,
        "mode": mode,
        "feed": SURFACES["feed"],
        "records": SURFACES["records"],
        "before": before,
    }


def followed_dids(database: Database) -> list[str]:
    """Return whom a stream asks for: everybody who is not paused."""
    return [did for (did,) in database.read("SELECT did FROM accounts WHERE state <> 'paused' ORDER BY did")]


def make_due(tx: Transaction, dids: Iterable[str], now_ms: int) -> int:
    """Let the next poll ask for accounts, whenever their turn would have been. Return for how many that is sooner."""
    return tx.change(
        "UPDATE accounts SET next_poll_at = :now WHERE state <> 'paused' AND next_poll_at > :now"
        f" AND did {tx.among('dids')}",
        {"now": now_ms, "dids": tx.texts(dids)},
    )


def known_accounts(tx: Transaction, dids: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return row id and handle of each account that is followed."""
    rows = tx.execute(f"SELECT did, id, handle FROM accounts WHERE did {tx.among('dids')}", {"dids": tx.texts(dids)})
    return {did: (row_id, handle) for did, row_id, handle in rows}
