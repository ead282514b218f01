"""Opens a database by its address: a SQLite file or a postgresql:// URL.

Imports only the driver that is needed.
"""

from __future__ import annotations

from tidelore.core.config_file import is_url
from tidelore.core.errors import UserError
from tidelore.core.patterns import late_pattern
from tidelore.store.database.port import Database, Patience

_SCHEME = late_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_database(address: str, *, create: bool = True, patience: Patience | None = None) -> Database:
    """Open a SQLite file or a postgresql:// URL."""
    check_address(address)
    patience = patience or Patience()
    if is_url(address):
        from tidelore.store.database.postgres import PostgresDatabase

        return PostgresDatabase(address, patience)
    from tidelore.store.database.sqlite import SqliteDatabase

    return SqliteDatabase(address, create=create, patience=patience)


def check_address(address: str) -> None:
    """Reject the URL of another kind of database."""
    if "://" in address and _SCHEME.match(address) and not is_url(address):
        # Do not repeat the address: it may contain a password.
        raise UserError("unsupported database address", fix="use a path, or the form postgresql://user@host/database")
