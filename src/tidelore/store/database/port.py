"""Defines what a database can do, and how long its connections wait.

`Database` and `Transaction` are implemented by `sqlite.py` and `postgres.py`; one query text with `:named` parameters
serves both. `Limits` bound every wait for a lock or a server. `Patience.end` is for a program that is asked to stop:
waiting statements give up at once and no new wait begins; it may be called from any thread. No dialect details here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from tidelore.core.errors import DatabaseUnusable

BRIEF_SECONDS = 0.1
"""How long a statement may wait for a lock once the program is asked to stop."""


class Limits(Struct, frozen=True):
    """Seconds. `lock`: for a lock that another program holds. PostgreSQL only: `statement`, for one statement, `idle`,
    for a transaction in which nothing happens (the server ends it, so that a frozen program blocks nobody), and
    `connect`, for a new connection."""

    lock: float = 45.0
    statement: float = 600.0
    idle: float = 30.0
    connect: float = 10.0


class Patience:
    """Whether connections still wait. `limits` are None where each kind of database uses its own."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._interrupts: dict[int, Callable[[], None]] = {}

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait; return False at once when the program is asked to stop."""
        return not self._ended.wait(seconds)

    def join(self, key: int, interrupt: Callable[[], None]) -> None:
        """Let `interrupt` be called when the program is asked to stop: it ends the statement that runs."""
        with self._lock:
            self._interrupts[key] = interrupt

    def leave(self, key: int) -> None:
        """Forget a connection."""
        with self._lock:
            self._interrupts.pop(key, None)

    def end(self) -> None:
        """Wait no longer, here and in every other thread."""
        self._ended.set()
        with self._lock:
            interrupts = list(self._interrupts.values())
        for interrupt in interrupts:
            interrupt()


Row = tuple[Any, ...]
Params = Mapping[str, Any]

SCHEMA_RECORD = ("version", "description", "checksum", "applied_at")
"""The columns of `schema_version` by which a database of ours is known."""


class Lists(Protocol):
    """How a list of integers or texts is compared in this dialect."""

    def among(self, parameter: str) -> str:
        """Return the SQL for 'is one of those in this parameter'."""
        ...

    def integers(self, values: Iterable[int]) -> Any:
        """Return integers in the form `among` expects as its parameter."""
        ...

    def texts(self, values: Iterable[str]) -> Any:
        """Return texts in the form `among` expects as its parameter."""
        ...

    def by_index(self, name: str) -> str:
        """Return what makes a query use one index where the planner has no statistics to find it."""
        ...

    def passing_locked(self) -> str:
        """Return what makes a query lock its rows and leave out those that another transaction holds."""
        ...

    def indexable(self, text: str) -> str:
        """Return as much of a text, from its beginning, as the full-text index accepts."""
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
        """Run one statement for each row of values; `names` stand in the order the statement first uses them."""
        ...

    def change(self, sql: str, params: Params | None = None) -> int:
        """Run one statement and return how many rows it changed."""
        ...


class Database(Lists, Protocol):
    """An open database."""

    dialect: str

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[Transaction]:
        """Begin a writing transaction: commit at the end, roll back on any exception.

        A `durable` one outlives a power cut too: for what is written before an effect on others.
        """
        ...

    def read(self, sql: str, params: Params | None = None) -> list[Row]:
        """Run one reading statement outside any transaction."""
        ...

    def script(self, sql: str) -> None:
        """Run many statements inside the transaction that is open."""
        ...

    def problems(self) -> list[str]:
        """Return what the database itself finds wrong with its files."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


def foreign_database(place: str) -> DatabaseUnusable:
    """Return the error for a database that some other program made."""
    return DatabaseUnusable(
        f"{place} belongs to another program",
        fix="point --db or storage.path at another database",
    )
