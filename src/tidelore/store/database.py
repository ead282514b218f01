"""The database, whichever it is. Owns what a connection can do and how one is opened.

Refuses dialect details (they live in `dialect_sqlite.py` and `dialect_postgres.py`) and ORMs. One query
text with `:named` parameters serves both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tidelore.core.errors import DatabaseUnusable

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
