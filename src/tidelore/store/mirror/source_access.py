"""Stores how each host was last accessed, and ends pauses after refusals when that changes (table `source_access`).

A server refuses a request because of its credentials. With other credentials, or at another address, the next attempt
is made without a pause. Accounts are due at once, because their next poll was scheduled by the earlier settings.
Positions and stored items are not changed. Without a change this is one read.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.accounts import SOURCE

_OF_SOURCE = "project_id IN (SELECT id FROM projects WHERE source = :source)"
_AGAIN = (
    # One parent is enough to find out whether a kind is refused still, so the number of attempts stays.
    f"UPDATE refused_children SET next_attempt_at = :now WHERE attempts > 0 AND {_OF_SOURCE}",
    f"UPDATE child_sync SET attempts = 1 WHERE attempts > 1 AND {_OF_SOURCE}",
    "UPDATE projects SET members_at = NULL WHERE source = :source",
)
_ACCOUNTS_AGAIN = "UPDATE accounts SET next_poll_at = :now WHERE state <> 'paused' AND next_poll_at > :now"


def note_access(database: Database, fingerprints: Mapping[str, str], now_ms: int) -> None:
    """Store how hosts are accessed now; end the pauses of those whose address or credentials changed."""
    known: dict[str, str] = {row[0]: row[1] for row in database.read("SELECT source, fingerprint FROM source_access")}
    new = {source: value for source, value in fingerprints.items() if known.get(source) != value}
    if new:
        with database.transaction() as tx:
            for source, fingerprint in new.items():
                tx.execute(
                    "INSERT INTO source_access (source, fingerprint, updated_at) VALUES (:source, :fingerprint, :now)"
                    " ON CONFLICT (source) DO UPDATE SET fingerprint = excluded.fingerprint,"
                    " updated_at = excluded.updated_at",
                    {"source": source, "fingerprint": fingerprint, "now": now_ms},
                )
                if source in known:
                    _end_pauses(tx, source, now_ms)


def _end_pauses(tx: Transaction, source: str, now_ms: int) -> None:
    for statement in _AGAIN:
        tx.execute(statement, {"source": source, "now": now_ms})
    if source == SOURCE:
        tx.execute(_ACCOUNTS_AGAIN, {"now": now_ms})
