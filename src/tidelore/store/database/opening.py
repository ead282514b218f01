"""Opens a database by its address: a SQLite file or a postgresql:// address.

Imports only the driver that is needed.
"""

from __future__ import annotations

import re

from tidelore.core.errors import UserError
from tidelore.store.database.port import Database, Patience

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_database(address: str, *, create: bool = True, patience: Patience | None = None) -> Database:
    """Open a SQLite file or a postgresql:// address; only the driver that is needed is imported."""
    if _SCHEME.match(address) and not address.startswith(("postgresql://", "postgres://")):
        # Not repeated: it may hold a password.
        raise UserError("unsupported database address", fix="use a path, or the form postgresql://user@host/database")
    patience = patience or Patience()
    if address.startswith(("postgresql://", "postgres://")):
        from tidelore.store.database.postgres import PostgresDatabase

        return PostgresDatabase(address, patience)
    from tidelore.store.database.sqlite import SqliteDatabase

    return SqliteDatabase(address, create=create, patience=patience)
