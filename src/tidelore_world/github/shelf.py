"""Rows of one kind, kept in the three orders GitHub lists them: by id, by creation, by update.

Owns the ordered indexes. Refuses to parse queries or render. Invariant: an order follows each change by
bisection, so a page costs the page and a `since` costs what it matches, whatever the length of the history.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Generic, Literal, Protocol, TypeVar

Order = Literal["id", "created", "updated"]
Key = tuple[int, int]


class Dated(Protocol):
    """What a shelf needs to know of a row."""

    @property
    def id(self) -> int: ...
    @property
    def created_s(self) -> int: ...
    @property
    def updated_s(self) -> int: ...


R = TypeVar("R", bound=Dated)


def key_of(order: Order, row: Dated) -> Key:
    """Where a row stands in an order; what a cursor remembers."""
    return _key(order, row)


def _key(order: Order, row: Dated) -> Key:
    if order == "updated":
        return (row.updated_s, row.id)
    return (row.created_s if order == "created" else 0, row.id)


class Shelf(Generic[R]):
    """All rows of one kind in one repository or thread."""

    __slots__ = ("_orders", "_rows")

    def __init__(self) -> None:
        self._rows: dict[int, R] = {}
        self._orders: dict[Order, list[Key]] = {"id": [], "created": [], "updated": []}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[R]:
        return (self._rows[key[1]] for key in self._orders["id"])

    def get(self, row_id: int) -> R | None:
        """The row with this id, if it is still there."""
        return self._rows.get(row_id)

    def put(self, row: R) -> None:
        """Add a row, or replace the one with the same id."""
        old = self._rows.get(row.id)
        self._rows[row.id] = row
        for order, keys in self._orders.items():
            key = _key(order, row)
            if old is not None:
                old_key = _key(order, old)
                if old_key == key:
                    continue
                del keys[bisect_left(keys, old_key)]
            insort(keys, key)

    def remove(self, row_id: int) -> R:
        """Take a row away and return it."""
        row = self._rows.pop(row_id)
        for order, keys in self._orders.items():
            del keys[bisect_left(keys, _key(order, row))]
        return row

    def page(
        self,
        order: Order,
        offset: int,
        size: int,
        *,
        descending: bool = False,
        floor_s: int | None = None,
        keep: Callable[[R], bool] | None = None,
        after: Key | None = None,
    ) -> tuple[list[R], int]:
        """Rows `offset..offset+size` of those updated from `floor_s` on, and how many there are in all.

        With `after`, the offset counts from the first row behind that key, whether its own row is still there or not.
        """
        keys, start = self._matching(order, floor_s)
        if keep is not None:
            keys, start = [key for key in keys[start:] if keep(self._rows[key[1]])], 0
        total = len(keys) - start
        if after is not None:
            behind = len(keys) - bisect_left(keys, after) if descending else bisect_right(keys, after) - start
            offset += max(0, behind)
        if descending:
            stop = len(keys) - offset
            found = keys[max(start, stop - size) : max(start, stop)][::-1]
        else:
            found = keys[start + offset : start + offset + size]
        return [self._rows[key[1]] for key in found], total

    def _matching(self, order: Order, floor_s: int | None) -> tuple[list[Key], int]:
        """The index to read and the position it starts at."""
        if floor_s is None:
            return self._orders[order], 0
        updated = self._orders["updated"]
        start = bisect_left(updated, (floor_s, -1))
        if order == "updated":
            return updated, start
        return sorted(_key(order, self._rows[row_id]) for _, row_id in updated[start:]), 0
