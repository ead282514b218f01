"""Builds the parts of statements that many tables share: optional filters, patterns, and inserts from named values.

Names of tables and columns come from our own constants; every value is a bound parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any


class Where:
    """Conditions joined by AND, with their parameters; its text is the condition."""

    def __init__(self, *conditions: str, **params: Any) -> None:
        self._conditions = list(conditions)
        self.params: dict[str, Any] = params

    def narrow(self, condition: str, **params: Any) -> Where:
        """Add a condition with its parameters, unless one of them is None: that filter was not given."""
        if None not in params.values():
            self._conditions.append(condition)
            self.params |= params
        return self

    def __str__(self) -> str:
        return " AND ".join(self._conditions) or "1 = 1"


def escape_like(text: str) -> str:
    """Return a text in which a LIKE with `ESCAPE '~'` takes no character for a wildcard."""
    return text.replace("~", "~~").replace("%", "~%").replace("_", "~_")


def insert(table: str, names: Iterable[str], key: Collection[str] = ()) -> str:
    """Return the statement that inserts a row, with a parameter for each column.

    With a `key`, a row that has it already gets the new values of all other columns.
    """
    columns = list(names)
    values = ", ".join(f":{name}" for name in columns)
    text = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
    if not key:
        return text
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return f"{text} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
