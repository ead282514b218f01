"""The queue of workers in PostgreSQL: its schema, which procrastinate defines, and what is shown of it.

The tables are in the schema `lore_queue`, apart from ours: they hold only hints which scope to look at. A queue of
another version of procrastinate may therefore be dropped.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.store.database.port import Database

SCHEMA = "lore_queue"
_LOCK = "SELECT pg_advisory_xact_lock(5499822512)"
# By the table and not by `to_regnamespace`, which remembers what it found before the lock was waited for.
_VERSION = f"SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = '{SCHEMA}'"


class QueueStatus(Struct, frozen=True):
    """How many jobs wait for a worker, and how many are being worked on."""

    waiting: int = 0
    running: int = 0


def create_queue(database: Database, version: str, sql: str) -> bool:
    """Create the tables of the queue, and replace those of another version; return whether something was done."""
    if database.read(_VERSION) == [(version,)]:
        return False
    with database.transaction() as tx:
        tx.execute(_LOCK)
        if tx.execute(_VERSION) == [(version,)]:
            return False
        tx.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        tx.execute(f"CREATE SCHEMA {SCHEMA}")
        tx.execute(f"SET LOCAL search_path TO {SCHEMA}")
        database.script(sql)
        tx.execute(f"COMMENT ON SCHEMA {SCHEMA} IS '{version}'")
    return True


def read_queue(database: Database) -> QueueStatus | None:
    """Return the length of the queue; None if no worker ever used this database."""
    if database.dialect == "sqlite":
        return None
    if database.read(f"SELECT to_regclass('{SCHEMA}.procrastinate_jobs')")[0][0] is None:
        return None
    (row,) = database.read(
        "SELECT COUNT(*) FILTER (WHERE status = 'todo'), COUNT(*) FILTER (WHERE status = 'doing')"
        f" FROM {SCHEMA}.procrastinate_jobs"
    )
    return QueueStatus(*row)


def waiting_scopes(database: Database) -> set[str]:
    """Return the scopes that wait in the queue for a worker."""
    sql = f"SELECT queueing_lock FROM {SCHEMA}.procrastinate_jobs WHERE status = 'todo' AND queueing_lock IS NOT NULL"
    return {name for (name,) in database.read(sql)}
