"""Opening a database by its address. Owns the choice of driver; only the one that is needed is imported."""

from __future__ import annotations

import re

from tidelore.core.errors import UserError
from tidelore.store.database import Database
from tidelore.store.patience import Patience

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_database(address: str, *, create: bool = True, patience: Patience | None = None) -> Database:
    """Open a SQLite file or a postgresql:// address; only the driver that is needed is imported."""
    if _SCHEME.match(address) and not address.startswith(("postgresql://", "postgres://")):
        # Not repeated: it may hold a password.
        raise UserError("unsupported database address", fix="use a path, or the form postgresql://user@host/database")
    patience = patience or Patience()
    if address.startswith(("postgresql://", "postgres://")):
        from tidelore.store.dialect_postgres import PostgresDatabase

        return PostgresDatabase(address, patience)
    from tidelore.store.dialect_sqlite import SqliteDatabase

    return SqliteDatabase(address, create=create, patience=patience)
