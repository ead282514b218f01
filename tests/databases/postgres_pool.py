"""Migrated PostgreSQL databases that tests borrow one after another.

Making and dropping a database costs a hundred times as much as emptying one. So a database that comes back is
emptied and lent again, its connection kept open. Tests commit for real: they may open further connections, race
other processes and rely on constraints that are checked at the commit. A database whose schema was changed is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
from psycopg.pq import TransactionStatus
from tests.databases.postgres_server import PostgresServer

from tidelore.store.database.migrate import migrate
from tidelore.store.database.postgres import PostgresDatabase

_TABLES = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    " AND relname <> 'schema_version' ORDER BY relname"
)
_CATALOGUES = (
    "pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_extension", "pg_index", "pg_namespace", "pg_proc",
    "pg_rewrite", "pg_trigger", "schema_version",
)  # fmt: skip
# Every change of the schema leaves a row of a newer transaction in one of these, or one row less.
_SCHEMA = " UNION ALL ".join(f"SELECT COUNT(*), MAX(xmin::text::bigint) FROM {name}" for name in _CATALOGUES)
_CUT_OTHERS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
_RESTART_SEQUENCES = (
    "SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence"
    " WHERE pg_sequence_last_value(seqrelid) IS NOT NULL"
)


class PooledDatabase:
    """A migrated database without rows, and an open connection to it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.database = PostgresDatabase(address)
        self._tables = [name for (name,) in self.database.read(_TABLES)]
        self._schema = self.database.read(_SCHEMA)

    def emptied(self) -> bool:
        """Make it as good as new; return whether that was possible."""
        self._own_connection()
        self.database.read(_CUT_OTHERS)
        if self.is_changed():
            return False
        deletions = "".join(f"DELETE FROM {name};" for name in self._tables)
        # As a replica: no trigger fires and no foreign key is checked, so the order of the tables does not matter.
        self.database.script(f"SET session_replication_role = replica; {deletions} RESET ALL")
        self.database.read(_RESTART_SEQUENCES)
        return True

    def is_changed(self) -> bool:
        """Return whether the schema is not the one it was made with."""
        return self.database.read(_SCHEMA) != self._schema

    def _own_connection(self) -> None:
        """Take back the connection in the state of a new one, or open another if the test closed or lost it."""
        connection = self.database._connection
        if not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE:
            try:
                # After a rollback the driver also forgets its prepared statements, unless the rollback is one of them.
                for statement in ("BEGIN", "ROLLBACK", "RESET ALL"):
                    connection.execute(statement, prepare=False)
            except psycopg.OperationalError:
                connection.close()
            else:
                return
        self.database.close()
        self.database = PostgresDatabase(self.address)


class PostgresPool:
    """Lends databases of one server. `change` is SQL that makes a variant of the schema, which is pooled apart."""

    def __init__(self, server: PostgresServer, stack: ExitStack) -> None:
        self._server = server
        self._stack = stack
        self._templates: dict[str, str] = {}
        self._idle: dict[str, list[PooledDatabase]] = {}

    @contextmanager
    def lent(self, change: str = "") -> Iterator[PooledDatabase]:
        """Lend a database without rows; take it back emptied."""
        idle = self._idle.setdefault(change, [])
        pooled = idle.pop() if idle else self._new(change)
        try:
            yield pooled
        finally:
            if pooled.emptied():
                idle.append(pooled)
            else:
                pooled.database.close()
                self._server.drop(pooled.address)

    def _new(self, change: str) -> PooledDatabase:
        if change not in self._templates:
            self._templates[change] = self._template(change)
        pooled = PooledDatabase(self._server.create(self._templates[change]))
        self._stack.callback(lambda: pooled.database.close())
        return pooled

    def _template(self, change: str) -> str:
        address = self._server.create()
        database = PostgresDatabase(address)
        try:
            migrate(database, 0)
            if change:
                database.script(change)
        finally:
            database.close()
        return self._server.name_of(address)
