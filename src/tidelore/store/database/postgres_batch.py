"""Turns a statement that is run for many rows into one statement over all rows, for PostgreSQL.

    INSERT INTO t (a, b) VALUES (:a, :b) ON CONFLICT ...   ->   INSERT INTO t (a, b) SELECT r.p_a, r.p_b FROM rows ...
    UPDATE t SET a = :a WHERE id = :id                      ->   UPDATE t SET a = r.p_a FROM rows WHERE id = r.p_id
    DELETE FROM t WHERE id = :id                            ->   DELETE FROM t USING rows WHERE id = r.p_id

The rows are one JSON parameter (`json_to_recordset`). That takes the server a fifth of the time of the same statement
run row by row, and us a quarter. The result is the same: rows that would be written twice go into separate statements.
A statement of another form has no batch. No connection here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from tidelore.store.database.port import Row

LEAST_ROWS = 4
"""Fewer rows are run one by one: a new kind of batch must be planned first."""
MOST_BYTES = 4 << 20
"""How much text one statement carries, unless a single row is larger."""
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
_INSERT = re.compile(r"INSERT INTO (\w+) \(([^()]*)\) VALUES (?=\()")
_UPDATE = re.compile(r"UPDATE (\w+) SET (.*?) WHERE (.*)", re.DOTALL)
_DELETE = re.compile(r"DELETE FROM (\w+) WHERE (.*)", re.DOTALL)
_CONFLICT = re.compile(r" ON CONFLICT(?: \(([^()]*)\))? DO (NOTHING|UPDATE)")
_TYPES: dict[type, str] = {int: "bigint", str: "text", bytes: "bytea", float: "double precision"}


class Batch(Struct, frozen=True):
    """A statement over many rows: its text before and after the rows, and its parameters.

    `columns` are the columns of `table` that parameters are stored in as they are. `key` are the parameters of which
    no two rows of one statement may have the same values.
    """

    table: str
    before: str
    after: str
    names: tuple[str, ...]
    columns: Mapping[str, str]
    key: tuple[str, ...]

    def text(self, types: Mapping[str, str]) -> str:
        """Return the statement with psycopg's placeholder for the rows."""
        shape = ", ".join(f"p_{name} {types[name]}" for name in self.names)
        whole = f"{self.before} json_to_recordset(CAST(:rows AS json)) AS r ({shape}){self.after}"
        return whole.replace("%", "%%").replace(":rows", "%(rows)s")


@lru_cache(maxsize=256)
def batch_of(sql: str) -> Batch | None:
    """Return the batch form of a statement, or None if it has none."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    if not names:
        return None
    if found := _INSERT.match(sql):
        return _insert(sql, found, names)
    if "SELECT" in sql:
        return None
    if found := _UPDATE.fullmatch(sql):
        table, changes, condition = found.groups()
        key = tuple(dict.fromkeys(_PARAMETER.findall(condition)))
        return Batch(
            table, f"UPDATE {table} SET {_of_row(changes)} FROM", f" WHERE {_of_row(condition)}", names, {}, key
        )
    if found := _DELETE.fullmatch(sql):
        table, condition = found.groups()
        return Batch(table, f"DELETE FROM {table} USING", f" WHERE {_of_row(condition)}", names, {}, ())
    return None


def _insert(sql: str, found: re.Match[str], names: tuple[str, ...]) -> Batch | None:
    table, columns = found[1], [name.strip() for name in found[2].split(",")]
    values, rest = _split_values(sql[found.end() :])
    if len(values) != len(columns) or _PARAMETER.search(rest):
        return None
    stored = {value[1:]: column for column, value in zip(columns, values, strict=True) if _PARAMETER.fullmatch(value)}
    key: tuple[str, ...] = ()
    if rest:
        conflict = _CONFLICT.match(rest)
        if conflict is None:
            return None
        if conflict[2] == "UPDATE":
            wanted = [name.strip() for name in (conflict[1] or "").split(",")]
            given = dict(zip(columns, values, strict=True))
            told = [given[name] for name in wanted if name in given]
            if any(_PARAMETER.search(value) and not _PARAMETER.fullmatch(value) for value in told):
                return None
            key = tuple(value[1:] for value in told if _PARAMETER.fullmatch(value))
    before = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {_of_row(', '.join(values))} FROM"
    return Batch(table, before, rest, names, stored, key)


def _split_values(text: str) -> tuple[list[str], str]:
    """Split a list in parentheses into its parts, and what follows it."""
    depth, start, parts = 0, 1, list[str]()
    for place, letter in enumerate(text):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        if depth == 0 or (depth == 1 and letter == ","):
            parts.append(text[start:place].strip())
            start = place + 1
        if depth == 0:
            return parts, text[place + 1 :]
    return [], text


def _of_row(text: str) -> str:
    return _PARAMETER.sub(r"r.p_\1", text)


def types_of(
    batch: Batch, names: Sequence[str], rows: Sequence[Row], table: Mapping[str, str]
) -> dict[str, str] | None:
    """Return the type of each parameter: that of its column, or that of its values; None if it has only nulls."""
    types = {name: table[column] for name, column in batch.columns.items() if column in table}
    for place, name in enumerate(names):
        if name not in types:
            value = next((row[place] for row in rows if row[place] is not None), None)
            if type(value) not in _TYPES:
                return None
            types[name] = _TYPES[type(value)]
    return types if types.keys() >= set(batch.names) else None


def in_statements(batch: Batch, names: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows as JSON, divided into as many statements as they need, in their order."""
    encode = msgspec.json.Encoder().encode
    labels = [f"p_{name}" for name in names]
    chosen = [list(names).index(name) for name in batch.key]
    parts: list[bytes] = []
    size, keys = 0, set[tuple[Any, ...]]()
    for row in rows:
        key = tuple([row[place] for place in chosen])
        if parts and (size > MOST_BYTES or (chosen and key in keys)):
            yield _list_of(parts)
            parts, size = [], 0
            keys.clear()
        keys.add(key)
        told = {
            label: value if type(value) is not bytes else "\\x" + value.hex()
            for label, value in zip(labels, row, strict=True)
            if value is not None
        }
        parts.append(encode(told))
        size += len(parts[-1])
    if parts:
        yield _list_of(parts)


def _list_of(parts: Sequence[bytes]) -> str:
    return f"[{b','.join(parts).decode()}]"
