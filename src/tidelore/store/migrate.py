"""The schema and how it grows. Owns the SQL files, each applied in one transaction with its own record.

Two programs that start at once apply each migration once. A database written by a newer program is
refused; one whose recorded steps are not ours is refused before the next step, and found by `lore check`.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from msgspec import Struct

from tidelore.errors import DatabaseUnusable, NotFound, SchemaTooNew
from tidelore.store.database import SCHEMA_RECORD, Database, Transaction, foreign_database

_TABLE = {
    "sqlite": "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY,"
    " description TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT",
    "postgres": "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY,"
    " description TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)",
}
_UNHURRIED = {
    # A step may take as long as it takes; a program that is frozen in one is ended by the server all the same.
    "sqlite": "SELECT 1",
    "postgres": "SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)",
}
_LOCK = {"sqlite": "SELECT 1", "postgres": "SELECT pg_advisory_xact_lock(5499822511)"}
_COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info('schema_version')",
    "postgres": "SELECT column_name FROM information_schema.columns WHERE table_name = 'schema_version'"
    " AND table_schema = current_schema() ORDER BY ordinal_position",
}


class Migration(Struct, frozen=True):
    """One step of the schema."""

    version: int
    description: str
    sql: str

    @property
    def checksum(self) -> str:
        from hashlib import sha256

        return sha256(self.sql.encode()).hexdigest()[:16]


def migrations(dialect: str) -> list[Migration]:
    """Return the steps of one dialect in order."""
    steps = []
    for name in _files(dialect):
        number, _, words = name.removesuffix(".sql").partition("_")
        with open(os.path.join(_folder(dialect), name), encoding="utf-8") as file:
            steps.append(Migration(int(number), words.replace("_", " "), file.read()))
    return steps


def migrate(database: Database, now_ms: int, upto: int | None = None, *, create: bool = True) -> list[int]:
    """Bring the schema up to date; return the versions that were applied. A reader does not `create` one."""
    if upto is None and _is_current(database, create=create):
        return []
    steps = [step for step in migrations(database.dialect) if upto is None or step.version <= upto]
    applied = []
    for step in steps:
        with database.transaction() as tx:
            tx.execute(_UNHURRIED[database.dialect])
            tx.execute(_LOCK[database.dialect])
            tx.execute(_TABLE[database.dialect])
            known = _recorded(tx)
            _refuse_strangers(known, migrations(database.dialect))
            if step.version in known:
                continue
            database.script(step.sql)
            tx.execute(
                "INSERT INTO schema_version (version, description, checksum, applied_at)"
                " VALUES (:version, :description, :checksum, :applied_at)",
                {
                    "version": step.version,
                    "description": step.description,
                    "checksum": step.checksum,
                    "applied_at": now_ms,
                },
            )
            applied.append(step.version)
    return applied


def _folder(dialect: str) -> str:
    return os.path.join(os.path.dirname(__file__), "migrations", dialect)


def _files(dialect: str) -> list[str]:
    return sorted(name for name in os.listdir(_folder(dialect)) if name.endswith(".sql"))


def _is_current(database: Database, *, create: bool) -> bool:
    """Tell by the numbers alone whether there is nothing to do: every command asks this."""
    columns = tuple(name for (name,) in database.read(_COLUMNS[database.dialect]))
    if not columns:
        if create:
            return False
        raise NotFound("the database is empty", fix="run `lore sync` first, or point --db at another database")
    if columns != SCHEMA_RECORD:
        raise foreign_database("this database")
    known = {row[0] for row in database.read("SELECT version FROM schema_version")}
    ours = {int(name.partition("_")[0]) for name in _files(database.dialect)}
    _refuse_newer(known, ours)
    return known == ours


def _recorded(tx: Transaction) -> dict[int, str]:
    return dict(tx.execute("SELECT version, checksum FROM schema_version"))


def _refuse_newer(known: Collection[int], ours: Collection[int]) -> None:
    newest = max(ours)
    if known and max(known) > newest:
        raise SchemaTooNew(
            f"the database has schema {max(known)}, this program knows up to {newest}",
            fix="upgrade tidelore, or point --db at another database",
            found=max(known),
            supported=newest,
        )


def _refuse_strangers(known: dict[int, str], steps: list[Migration]) -> None:
    _refuse_newer(known, [step.version for step in steps])
    for step in steps:
        if known.get(step.version, step.checksum) != step.checksum:
            raise DatabaseUnusable(
                f"migration {step.version} of this database differs from the one in this version",
                fix="use the version that created the database, or sync into a new one",
                version=step.version,
            )
