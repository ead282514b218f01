"""Implements the database port on PostgreSQL with psycopg 3.

Responsible for the connection, the translation of `:named` parameters and of errors. A lost connection is reopened only
before a read or before a transaction, so a transaction never continues on another connection. Imported only when a
postgresql:// address is opened.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from functools import lru_cache
from typing import Any

import apsw

from tidelore.core.errors import DatabaseUnreachable, DatabaseUnusable, IntegrityError, StorageFailed, UserError
from tidelore.core.extras import extra_missing
from tidelore.store.database.port import BRIEF_SECONDS, Flush, Limits, Params, Patience, Row
from tidelore.store.database.postgres_batch import LEAST_ROWS, batch_of, in_statements, types_of
from tidelore.store.database.sqlite import TOKENIZER

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as missing:
    raise extra_missing("postgres", "a PostgreSQL database") from missing

PATIENCE: dict[str, int] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""How soon an unresponsive server counts as gone; settings in the address take precedence."""

_CANCEL_SECONDS = 1.0
_INDEXED_BYTES = 250_000
"""A tsvector must be smaller than 1 MB, and words need up to four times their length in it."""
_SET = "SELECT set_config(%(name)s, %(value)s, false)"
_SET_ALL = (
    "SELECT set_config(name, setting, false)"
    " FROM unnest(%(names)s::text[], %(settings)s::text[]) AS wanted (name, setting)"
)
_COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped"
)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")


@lru_cache(maxsize=512)
def translated(sql: str) -> str:
    """Return a query with psycopg's placeholders."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


class PostgresDatabase:
    """One connection to one database."""

    dialect = "postgres"

    def __init__(self, address: str, patience: Patience | None = None) -> None:
        parts = _parsed(address)
        self._place = parts.get("dbname") or "postgres"
        self._session = f"{str(parts.get('application_name') or 'lore')[:40]} {secrets.token_hex(8)}"
        self._address = make_conninfo(address, application_name=self._session)
        self._patience = patience or Patience()
        self._limits = self._patience.limits or Limits()
        self._within = 0
        self._gathered: dict[Flush, set[Row]] = {}
        self._after_commit: list[Callable[[], None]] = []
        self._columns: dict[str, dict[str, str]] = {}
        self._tokenizer: apsw.FTS5Tokenizer | None = None
        self._closed = False
        self._brief = False
        self._is_demoted = False
        self.keeper: Callable[[PostgresDatabase], bool] | None = None
        # Transactions of the writer thread and statements of the event loop's thread use one connection in turn.
        self._lock = threading.RLock()
        with self._translated():
            self._connection = _connect(self._address, self._limits)
        self._patience.join(id(self), self._interrupt)

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[PostgresDatabase]:
        try:
            with self._committing(durable=durable):
                yield self
            if not self._within:
                for act in self._after_commit:
                    act()
        finally:
            if not self._within:
                self._after_commit.clear()

    @contextmanager
    def _committing(self, *, durable: bool) -> Iterator[None]:
        with self._translated(), ExitStack() as stack:
            self._begin(stack)
            if durable:
                # Only if it is off: a server may be configured to wait for more than its own disk.
                self._connection.execute(
                    "SELECT set_config('synchronous_commit', 'on', true)"
                    " WHERE current_setting('synchronous_commit') = 'off'"
                )
            self._within += 1
            try:
                yield
                if self._within == 1:
                    for flush, rows in self._gathered.items():
                        flush(self, rows)
            finally:
                self._within -= 1
                if not self._within:
                    self._gathered.clear()
            if self._connection.closed:
                # In this case the driver does not commit and does not raise an error either.
                raise psycopg.OperationalError("the connection was lost before the commit")

    @property
    def session(self) -> str:
        return self._session

    def end_session(self, session: str) -> None:
        # By its random name and not by a stored pid: pids are reused, and a lost connection is reopened with another.
        self.read(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :session"
            " AND datname = current_database() AND pid <> pg_backend_pid()",
            {"session": session},
        )

    def server_time(self) -> int | None:
        return int(self.read("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")[0][0])

    def gathered(self, flush: Flush) -> set[Row]:
        return self._gathered.setdefault(flush, set())

    def after_commit(self, act: Callable[[], None]) -> None:
        self._after_commit.append(act)

    def _begin(self, stack: ExitStack) -> None:
        self._hurry()
        try:
            stack.enter_context(self._connection.transaction())
        except psycopg.OperationalError:
            if not self._may_connect_again():
                raise
            self._connection = _connect(self._address, self._limits)
            stack.enter_context(self._connection.transaction())

    def _may_connect_again(self) -> bool:
        """Return whether it is safe to reconnect: the connection is closed and no transaction had begun."""
        gone = bool(self._connection.closed) and not self._within and not self._closed
        return gone and not self._patience.ended

    def _hurry(self) -> None:
        """Leave a server that became read-only; once the program is asked to stop, do not let statements wait."""
        if self._is_demoted and not self._within:
            self._is_demoted = False
            self._connection.close()
        if self._patience.ended and not self._brief and not self._within and not self._connection.closed:
            self._brief = True
            self._connection.execute(
                _SET, {"name": "lock_timeout", "value": f"{int(BRIEF_SECONDS * 1000)}ms"}, prepare=False
            )

    def _interrupt(self) -> None:
        """Abort the waiting statement; called from another thread."""
        # Not `cancel`: it holds the GIL until the server responds, which it may never do.
        with suppress(psycopg.Error):
            self._connection.cancel_safe(timeout=_CANCEL_SECONDS)

    def read(self, sql: str, params: Params | None = None) -> list[Row]:
        with self._translated():
            try:
                self._hurry()
                return self._run(sql, params)
            except psycopg.OperationalError:
                if not self._may_connect_again():
                    raise
                self._connection = _connect(self._address, self._limits)
                return self._run(sql, params)

    def execute(self, sql: str, params: Params | None = None) -> list[Row]:
        with self._translated():
            return self._run(sql, params)

    def _run(self, sql: str, params: Params | None) -> list[Row]:
        cursor = self._connection.execute(translated(sql), params or {})
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def one_state(self) -> Iterator[None]:
        with self.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # Between two reads the caller may write elsewhere, and no other program waits for this transaction.
            self._connection.execute("SET LOCAL idle_in_transaction_session_timeout = '10min'")
            yield

    def rows(self, sql: str, params: Params, size: int) -> Iterator[list[Row]]:
        with self._translated(), self._connection.cursor(name="lore_rows") as cursor:
            cursor.execute(translated(sql), params)
            while batch := cursor.fetchmany(size):
                yield batch

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        told = list(rows)
        if told:
            names = tuple(told[0])
            self.execute_rows(sql, names, [tuple([row[name] for name in names]) for row in told])

    def execute_rows(self, sql: str, names: Sequence[str], rows: Iterable[Row]) -> None:
        told = rows if isinstance(rows, list) else list(rows)
        with self._translated():
            batch = batch_of(sql) if len(told) >= LEAST_ROWS else None
            types = types_of(batch, names, told, self._columns_of(batch.table)) if batch else None
            if batch is None or types is None:
                with self._connection.cursor() as cursor:
                    cursor.executemany(translated(sql), [dict(zip(names, row, strict=True)) for row in told])
                return
            text = batch.text(types)
            for part in in_statements(batch, names, told):
                self._connection.execute(text, {"rows": part}, prepare=True)

    def _columns_of(self, table: str) -> dict[str, str]:
        """Return the columns of a table and their types."""
        if table not in self._columns:
            self._columns[table] = dict(self._run(_COLUMNS, {"name": table}))
        return self._columns[table]

    def change(self, sql: str, params: Params | None = None) -> int:
        with self._translated():
            return self._connection.execute(translated(sql), params or {}).rowcount

    def among(self, parameter: str) -> str:
        return f"= ANY(:{parameter})"

    def integers(self, values: Iterable[int]) -> Any:
        return list(values)

    def texts(self, values: Iterable[str]) -> Any:
        return list(values)

    def object_of(self, key: str, value: str) -> str:
        return f"CAST(COALESCE(json_object_agg({key}, {value}), '{{}}') AS text)"

    def by_index(self, name: str) -> str:  # noqa: ARG002 - the planner knows how few rows a partial index has
        return ""

    def passing_locked(self) -> str:
        return " FOR UPDATE SKIP LOCKED"

    def indexable(self, text: str) -> str:
        return text if len(text) * 4 <= _INDEXED_BYTES else text.encode()[:_INDEXED_BYTES].decode(errors="ignore")

    def word_tokens(self, text: str) -> list[tuple[int, int, str]]:
        """Return the words of a text as SQLite has them: the first byte, the byte after the last, the token."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = apsw.Connection(":memory:").fts5_tokenizer(*TOKENIZER)
            found: Any = self._tokenizer(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
        return list(found)

    def script(self, sql: str) -> None:
        with self._translated():
            self._connection.execute(sql)

    def another(self) -> PostgresDatabase:
        return PostgresDatabase(self._address, self._patience)

    def problems(self) -> list[str]:
        return [
            f"constraint {name} of {table} was never validated"
            for name, table in self.read(
                "SELECT conname, conrelid::regclass::text FROM pg_constraint WHERE NOT convalidated"
            )
        ]

    def close(self) -> None:
        self._patience.leave(id(self))
        if self.keeper is not None and not self._closed and self._is_idle():
            # The next user gets another handle, so that this one is of no use any more.
            kept = copy(self)
            if self.keeper(kept):
                self._closed = True
                del self._connection
                return
        self._closed = True
        if hasattr(self, "_connection"):
            self._connection.close()

    def _is_idle(self) -> bool:
        """Return whether the connection can be given to another user."""
        idle = self._connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        return idle and not self._within and not self._brief and not self._is_demoted and not self._patience.ended

    def reuse(self) -> PostgresDatabase:
        """Return a connection that was kept, for another user."""
        self._patience.join(id(self), self._interrupt)
        return self

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Hold the connection's lock in a block and convert its errors to ours."""
        try:
            with self._lock:
                yield
        except psycopg.errors.DataCorrupted as error:
            raise DatabaseUnusable(
                f"database {self._place} reports corruption: {_said(error)}", fix="restore it from a backup"
            ) from error
        except (psycopg.IntegrityError, psycopg.DataError) as error:
            raise IntegrityError(f"database {self._place} refused a row: {_said(error)}") from error
        except psycopg.errors.ReadOnlySqlTransaction as error:
            # The server lost its role as primary; a new connection may reach the new one.
            self._is_demoted = True
            raise DatabaseUnreachable(
                f"database {self._place} cannot be written: its server is read-only: {_said(error)}",
                fix="connect to a primary server; after a failover, try again when there is one",
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise StorageFailed(
                f"database {self._place} cannot be written: permission denied: {_said(error)}",
                fix="connect to a primary server with a role that owns the tables",
            ) from error
        except psycopg.errors.LockNotAvailable as error:
            raise StorageFailed(
                f"database {self._place}: another program holds a lock for more than"
                f" {BRIEF_SECONDS if self._brief else self._limits.lock:g} s",
                fix="find the program that holds it in pg_stat_activity, or raise storage.lock_timeout_seconds",
            ) from error
        except psycopg.errors.QueryCanceled as error:
            raise StorageFailed(
                f"database {self._place}: a statement was cancelled: {_said(error)}",
                fix="check in pg_stat_activity what it waits for, or raise storage.statement_timeout_seconds",
            ) from error
        except (psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout) as error:
            # If there is no connection, opening it failed.
            connection = getattr(self, "_connection", None)
            if connection is None or connection.closed:
                raise DatabaseUnreachable(
                    f"database {self._place} cannot be reached: {_said(error)}",
                    fix="check the address and that the server runs, then try again",
                ) from error
            raise StorageFailed(
                f"database {self._place} cannot be written: {_said(error)}",
                fix="check the server's log, then try again",
            ) from error


def _said(error: psycopg.Error) -> str:
    """Return the server's message on one line."""
    return " ".join(str(error).split())


def _parsed(address: str) -> dict[str, Any]:
    """Parse an address. Errors do not repeat any part of an invalid one, because it may contain a password."""
    fix = "use the form postgresql://user@host/database, special characters of the password percent-encoded (/ is %2F)"
    try:
        parts = conninfo_to_dict(address)
    except psycopg.ProgrammingError as error:
        # The driver quotes the part that it cannot parse.
        raise UserError(
            f"invalid PostgreSQL address: {_said(error).partition(chr(34))[0].rstrip(' :')}", fix=fix
        ) from None
    if any("@" in str(parts.get(name, "")) for name in ("host", "dbname", "port")):
        raise UserError("invalid PostgreSQL address: a special character in it is not percent-encoded", fix=fix)
    return parts


def _connect(address: str, limits: Limits) -> psycopg.Connection[Row]:
    said = _parsed(address)
    patient = PATIENCE | {"connect_timeout": min(PATIENCE["connect_timeout"], max(int(limits.connect), 2))}
    ours = {name: seconds for name, seconds in patient.items() if name not in said}
    connection = psycopg.connect(make_conninfo(address, **ours), autocommit=True)
    asked = str(said.get("options", ""))
    timeouts = {
        "lock_timeout": limits.lock,
        "statement_timeout": limits.statement,
        "idle_in_transaction_session_timeout": limits.idle,
    }
    # Settings in the address take precedence. Not set by `options`, because connection poolers may reject them.
    wanted = {name: f"{int(seconds * 1000)}ms" for name, seconds in timeouts.items() if name not in asked}
    connection.execute(_SET_ALL, {"names": list(wanted), "settings": list(wanted.values())}, prepare=False)
    return connection
