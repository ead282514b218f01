"""Reads the tables of the schema, and their rows in an order and an encoding that both dialects share.

The tables come from the migrations themselves, applied to a database in memory: a table that a later migration adds is
part of every move. What a dialect adds for itself (full text, the column of pgvector) is not, nor is the record of
migrations. Rows are read by key; PostgreSQL compares texts byte by byte here, as SQLite does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from tidelore.store.database.migrate import migrations
from tidelore.store.database.port import Database, Row

if TYPE_CHECKING:
    import apsw

BATCH = 500
"""Rows that are read, or written and committed, at once."""
_TABLES = (
    "SELECT name FROM pragma_table_list"
    " WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
)
_KEYS = (
    "SELECT i.name FROM pragma_index_list(:name) AS l, pragma_index_info(l.name) AS i"
    " WHERE l.seq = (SELECT MAX(seq) FROM pragma_index_list(:name) WHERE origin = 'u') ORDER BY i.seqno"
)


class Table(Struct, frozen=True):
    """A table of the schema: its columns, those of its key, and which of those are texts."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    texts: frozenset[str]

    def key_of(self, row: Row) -> Row:
        """Return the key of a row."""
        return tuple(row[self.columns.index(name)] for name in self.key)

    @property
    def numbered(self) -> bool:
        """Whether new rows get the next number of the table."""
        return len(self.key) == 1 and self.key[0] == "id" and "id" not in self.texts


class TableState(Struct, frozen=True):
    """How many rows a table has, and the hash of all of them in the order of their keys."""

    rows: int
    sha256: str


@cache
def tables() -> tuple[Table, ...]:
    """Return every table of the schema, each after those it refers to."""
    # Imported here, because commands that only describe themselves import this module too.
    import apsw

    memory = apsw.Connection(":memory:")
    try:
        for step in migrations("sqlite"):
            for _ in memory.execute(step.sql):
                pass
        found = {str(name): _described(memory, str(name)) for (name,) in memory.execute(_TABLES)}
        parents = {
            name: {
                str(parent)
                for (parent,) in memory.execute('SELECT "table" FROM pragma_foreign_key_list(:name)', {"name": name})
            }
            - {name}
            for name in found
        }
    finally:
        memory.close()
    return tuple(found[name] for name in TopologicalSorter(parents).static_order())


def _described(memory: apsw.Connection, name: str) -> Table:
    rows = list(memory.execute("SELECT name, type, pk FROM pragma_table_info(:name)", {"name": name}))
    key = tuple(str(column) for column, _, place in sorted(rows, key=lambda row: int(str(row[2]))) if place)
    unique = tuple(str(column) for (column,) in memory.execute(_KEYS, {"name": name}))
    texts = frozenset(str(column) for column, kind, _ in rows if kind == "TEXT")
    return Table(name, tuple(str(column) for column, _, _ in rows), key or unique, texts)


def read_rows(
    database: Database, table: Table, after: Row | None = None, columns: Sequence[str] | None = None
) -> Iterator[list[Row]]:
    """Yield the rows of a table after a key, in batches in the order of the key; call it inside `one_state`."""
    exact = ' COLLATE "C"' if database.dialect == "postgres" else ""
    keys = [f'"{name}"{exact if name in table.texts else ""}' for name in table.key]
    wanted = ", ".join(f'"{name}"' for name in columns or table.columns)
    where, params = "", {}
    if after is not None:
        params = {f"k{place}": value for place, value in enumerate(after)}
        where = f" WHERE ({', '.join(keys)}) > ({', '.join(f':{name}' for name in params)})"
    yield from database.rows(f"SELECT {wanted} FROM {table.name}{where} ORDER BY {', '.join(keys)}", params, BATCH)


def count_rows(database: Database, table: Table) -> int:
    """Return how many rows a table has."""
    return int(database.read(f"SELECT COUNT(*) FROM {table.name}")[0][0])


class RowHash:
    """Hashes rows one after another: equal rows in the same order give the same hash in both dialects."""

    def __init__(self) -> None:
        self._hash = sha256()
        self._encode = msgspec.msgpack.Encoder().encode
        self.rows = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows. Each value is encoded with its type and its length."""
        for row in rows:
            self._hash.update(self._encode(row))
        self.rows += len(rows)

    def state(self) -> TableState:
        """Return the count and the hash of what was added."""
        return TableState(self.rows, self._hash.hexdigest())
