"""The schema and how it grows. Owns the SQL files, each applied in one transaction with its own record.

Two programs that start at once apply each migration once. A database written by a newer program is
refused, and so is a file whose recorded migrations are not ours.
"""

from __future__ import annotations

from hashlib import sha256
from importlib import resources

from msgspec import Struct

from tidelore.errors import DatabaseUnusable, SchemaTooNew
from tidelore.store.database import Database, Transaction

_TABLE = {
    "sqlite": "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY,"
    " description TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT",
    "postgres": "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY,"
    " description TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)",
}
_LOCK = {"sqlite": "SELECT 1", "postgres": "SELECT pg_advisory_xact_lock(5499822511)"}


_TABLES = {
    "sqlite": "SELECT 1 FROM sqlite_schema WHERE name = :name",
    "postgres": "SELECT 1 FROM pg_tables WHERE tablename = :name AND schemaname = current_schema()",
}


class Migration(Struct, frozen=True):
    """One step of the schema."""

    version: int
    description: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256(self.sql.encode()).hexdigest()[:16]


def migrations(dialect: str) -> list[Migration]:
    """Return the steps of one dialect in order."""
    folder = resources.files("tidelore.store") / "migrations" / dialect
    steps = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        number, _, name = entry.name.removesuffix(".sql").partition("_")
        steps.append(Migration(int(number), name.replace("_", " "), entry.read_text(encoding="utf-8")))
    return steps


def migrate(database: Database, now_ms: int, upto: int | None = None) -> list[int]:
    """Bring the schema up to date; return the versions that were applied."""
    steps = [step for step in migrations(database.dialect) if upto is None or step.version <= upto]
    if upto is None and _is_current(database, steps):
        return []
    applied = []
    for step in steps:
        with database.transaction() as tx:
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


def _is_current(database: Database, steps: list[Migration]) -> bool:
    if not database.read(_TABLES[database.dialect], {"name": "schema_version"}):
        if database.dialect == "sqlite" and database.read("SELECT 1 FROM sqlite_schema LIMIT 1"):
            raise DatabaseUnusable(
                "this file is the database of some other program",
                fix="point --db or storage.path at a file of its own",
            )
        return False
    known: dict[int, str] = dict(database.read("SELECT version, checksum FROM schema_version"))
    _refuse_strangers(known, steps)
    return known == {step.version: step.checksum for step in steps}


def _recorded(tx: Transaction) -> dict[int, str]:
    return dict(tx.execute("SELECT version, checksum FROM schema_version"))


def _refuse_strangers(known: dict[int, str], steps: list[Migration]) -> None:
    newest = max(step.version for step in steps)
    if known and max(known) > newest:
        raise SchemaTooNew(
            f"the database has schema {max(known)}, this program knows up to {newest}",
            fix="upgrade tidelore, or point --db at another database",
            found=max(known),
            supported=newest,
        )
    for step in steps:
        if known.get(step.version, step.checksum) != step.checksum:
            raise DatabaseUnusable(
                f"migration {step.version} of this database is not the one this program ships",
                fix="use the program version that made the database, or mirror into a new one",
                version=step.version,
            )
