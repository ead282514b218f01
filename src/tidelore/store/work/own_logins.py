"""Stores our login on each host, as the host reported it: table `own_logins`."""

from __future__ import annotations

from tidelore.store.database.port import Database, Transaction
from tidelore.store.database.statements import insert


def save_login(tx: Transaction, source: str, login: str, now_ms: int) -> None:
    """Store our login on a host."""
    values = {"source": source, "login": login, "updated_at": now_ms}
    tx.execute(insert("own_logins", values, key=("source",)), values)


def stored_logins(database: Database) -> dict[str, str]:
    """Return our login on each host where it is known."""
    return dict(database.read("SELECT source, login FROM own_logins"))
