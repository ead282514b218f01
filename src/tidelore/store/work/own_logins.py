"""Stores our login on each host, as the host reported it: table `own_logins`."""

from __future__ import annotations

from tidelore.store.database.port import Database, Transaction


def save_login(tx: Transaction, source: str, login: str, now_ms: int) -> None:
    """Store our login on a host."""
    tx.execute(
        "INSERT INTO own_logins (source, login, updated_at) VALUES (:source, :login, :now)"
        " ON CONFLICT (source) DO UPDATE SET login = excluded.login, updated_at = excluded.updated_at",
        {"source": source, "login": login, "now": now_ms},
    )


def stored_logins(database: Database) -> dict[str, str]:
    """Return our login on each host where it is known."""
    return dict(database.read("SELECT source, login FROM own_logins"))
