"""Opening a database by its address. Owns the choice of driver; only the one that is needed is imported."""

from __future__ import annotations

from tidelore.store.database import Database


def open_database(address: str, *, create: bool = True) -> Database:
    """Open a SQLite file or a postgresql:// address; only the driver that is needed is imported."""
    if address.startswith(("postgresql://", "postgres://")):
        from tidelore.store.dialect_postgres import PostgresDatabase

        return PostgresDatabase(address)
    from tidelore.store.dialect_sqlite import SqliteDatabase

    return SqliteDatabase(address, create=create)
