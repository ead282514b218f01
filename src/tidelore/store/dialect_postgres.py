"""PostgreSQL by way of psycopg 3. Owns the translation of `:named` parameters and of the driver's errors.

For teams that outgrow one machine. Imported only when a postgresql:// address is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from tidelore.errors import DatabaseUnusable, IntegrityError, StorageFailed, UserError
from tidelore.store.database import Params, Row

try:
    import psycopg
except ImportError as missing:
    raise UserError(
        "the PostgreSQL driver is not installed",
        fix="pip install 'tidelore[postgres]'",
    ) from missing

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")


@lru_cache(maxsize=512)
def translated(sql: str) -> str:
    """Return a query with psycopg's placeholders."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


class PostgresDatabase:
    """One connection to one database."""

    dialect = "postgres"

    def __init__(self, address: str) -> None:
        self._place = urlsplit(address).path.lstrip("/") or "postgres"
        with self._translated():
            self._connection = psycopg.connect(address, autocommit=True)

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[PostgresDatabase]:
        with self._translated(), self._connection.transaction():
            if durable:
                # Only where it is off: a server may be told to wait for more than its own disk.
                self._connection.execute(
                    "SELECT set_config('synchronous_commit', 'on', true)"
                    " WHERE current_setting('synchronous_commit') = 'off'"
                )
            yield self

    def execute(self, sql: str, params: Params | None = None) -> list[Row]:
        with self._translated():
            cursor = self._connection.execute(translated(sql), params or {})
            return cursor.fetchall() if cursor.description else []

    read = execute

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.executemany(translated(sql), rows)

    def execute_rows(self, sql: str, names: Sequence[str], rows: Iterable[Row]) -> None:
        self.execute_many(sql, (dict(zip(names, row, strict=True)) for row in rows))

    def change(self, sql: str, params: Params | None = None) -> int:
        with self._translated():
            return self._connection.execute(translated(sql), params or {}).rowcount

    def among(self, parameter: str) -> str:
        return f"= ANY(:{parameter})"

    def integers(self, values: Iterable[int]) -> Any:
        return list(values)

    def texts(self, values: Iterable[str]) -> Any:
        return list(values)

    def by_index(self, name: str) -> str:  # noqa: ARG002 - this planner knows how few rows a partial index holds
        return ""

    def script(self, sql: str) -> None:
        with self._translated():
            self._connection.execute(sql)

    def problems(self) -> list[str]:
        return [
            f"constraint {name} of {table} was never validated"
            for name, table in self.read(
                "SELECT conname, conrelid::regclass::text FROM pg_constraint WHERE NOT convalidated"
            )
        ]

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.DataCorrupted as error:
            raise DatabaseUnusable(
                f"database {self._place} reports corruption: {error}", fix="restore it from a backup"
            ) from error
        except (psycopg.IntegrityError, psycopg.DataError) as error:
            raise IntegrityError(f"database {self._place} refused a row: {error}") from error
        except psycopg.OperationalError as error:
            raise StorageFailed(
                f"database {self._place} cannot be reached or written: {error}".strip(),
                fix="check the address and that the server runs, then try again",
            ) from error
