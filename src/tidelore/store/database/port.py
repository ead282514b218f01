"""Defines what a database can do, and how long its connections wait.

`Database` and `Transaction` are implemented by `sqlite.py` and `postgres.py`; one query text with `:named` parameters
serves both. `Limits` bound every wait for a lock or a server. `Patience.end` is for a program that is asked to stop:
waiting statements give up at once and no new wait begins; it may be called from any thread. No dialect details here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from tidelore.core.errors import DatabaseUnusable

BRIEF_SECONDS = 0.1
"""How long a statement may wait for a lock once the program is asked to stop."""


class Limits(Struct, frozen=True):
    """Time limits in seconds.

    `lock`: waiting for a lock that another program holds. PostgreSQL only: `statement`, one statement; `idle`, a
    transaction in which nothing happens (the server ends it, so that a frozen program does not block others);
    `connect`, a new connection.
    """

    lock: float = 45.0
    statement: float = 600.0
    idle: float = 30.0
    connect: float = 10.0


class Patience:
    """Controls whether connections still wait. If `limits` is None, each kind of database uses its defaults."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits
        self.ended = False
        self._lock = threading.Lock()
        # Held until `end`. Every command creates this and few wait: a lock costs less than an `Event`.
        self._running = threading.Lock()
        self._running.acquire()
        self._interrupts: dict[int, Callable[[], None]] = {}

    def pause(self, seconds: float) -> bool:
        """Wait; return False immediately when the program is asked to stop."""
        if self._running.acquire(timeout=max(seconds, 0)):
            # So that later calls return at once too.
            self._running.release()
        return not self.ended

    def join(self, key: int, interrupt: Callable[[], None]) -> None:
        """Register `interrupt`, called when the program is asked to stop, to abort the running statement."""
        with self._lock:
            self._interrupts[key] = interrupt

    def leave(self, key: int) -> None:
        """Unregister a connection."""
        with self._lock:
            self._interrupts.pop(key, None)

    def end(self) -> None:
        """Stop waiting, here and in every other thread."""
        with self._lock:
            if not self.ended:
                self.ended = True
                self._running.release()
            interrupts = list(self._interrupts.values())
        for interrupt in interrupts:
            interrupt()


Row = tuple[Any, ...]
Params = Mapping[str, Any]

SCHEMA_RECORD = ("version", "description", "checksum", "applied_at")
"""The columns of `schema_version` by which our databases are recognised."""


Flush = Callable[["Transaction", Collection[Row]], None]
"""Writes what was gathered during a transaction, as its last statements: locks that it takes are held briefly, and no
other lock is taken after them."""


class Lists(Protocol):
    """How lists of integers or texts are compared in this dialect."""

    dialect: str

    def among(self, parameter: str) -> str:
        """Return the SQL for 'is one of the values in this parameter'."""
        ...

    def integers(self, values: Iterable[int]) -> Any:
        """Return integers in the form that `among` expects as its parameter."""
        ...

    def texts(self, values: Iterable[str]) -> Any:
        """Return texts in the form that `among` expects as its parameter."""
        ...

    def object_of(self, key: str, value: str) -> str:
        """Return the SQL that makes one JSON object of two columns of numbers of all rows.

        Not for texts: SQLite ends a text of JSON at its first NUL.
        Each row that a statement returns gives up the interpreter's lock, and then waits for a busy thread.
        """
        ...

    def by_index(self, name: str) -> str:
        """Return the SQL that makes a query use an index that the planner would not choose without statistics."""
        ...

    def passing_locked(self) -> str:
        """Return the SQL that makes a query lock its rows and skip those locked by another transaction."""
        ...

    def indexable(self, text: str) -> str:
        """Return the beginning of a text, as much as the full-text index accepts."""
        ...


class Transaction(Lists, Protocol):
    """Statements inside one transaction."""

    def execute(self, sql: str, params: Params | None = None) -> list[Row]:
        """Run one statement and return its rows."""
        ...

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run one statement for each set of parameters."""
        ...

    def execute_rows(self, sql: str, names: Sequence[str], rows: Iterable[Row]) -> None:
        """Run one statement for each row of values; `names` must be in the order the statement first uses them."""
        ...

    def change(self, sql: str, params: Params | None = None) -> int:
        """Run one statement and return how many rows it changed."""
        ...

    def gathered(self, flush: Flush) -> set[Row]:
        """Return a set of rows, the same for every call in this transaction, which `flush` gets before the commit."""
        ...

    def after_commit(self, act: Callable[[], None]) -> None:
        """Call `act` once the transaction is committed, and never if it is rolled back."""
        ...


class Database(Lists, Protocol):
    """An open database."""

    @property
    def session(self) -> str | None:
        """Identifies this connection at the server, also after it was reopened; None without a server."""
        ...

    def end_session(self, session: str) -> None:
        """Let the server end another connection: its transaction is rolled back and its locks are released."""
        ...

    def server_time(self) -> int | None:
        """Return the server's clock in milliseconds UTC; None without a server."""
        ...

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[Transaction]:
        """Begin a write transaction: commit at the end, roll back on any exception.

        A `durable` one also survives a power cut: use it for what must be stored before an outbound request.
        """
        ...

    def read(self, sql: str, params: Params | None = None) -> list[Row]:
        """Run one read statement outside any transaction."""
        ...

    def one_state(self) -> AbstractContextManager[None]:
        """Let every read of the block see one state of the database; the block must not write."""
        ...

    def rows(self, sql: str, params: Params, size: int) -> Iterator[list[Row]]:
        """Yield the rows of a query in batches of this size; call it inside `one_state`."""
        ...

    def script(self, sql: str) -> None:
        """Run many statements inside the open transaction."""
        ...

    def another(self) -> Database:
        """Open another connection to this database, which ends its waiting together with this one."""
        ...

    def problems(self) -> list[str]:
        """Return the problems that the database itself finds in its files."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


def foreign_database(place: str) -> DatabaseUnusable:
    """Return the error for a database that was created by another program."""
    return DatabaseUnusable(
        f"{place} belongs to another program",
        fix="point --db or storage.path at another database",
    )
