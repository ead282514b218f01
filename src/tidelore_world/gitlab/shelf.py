"""Items of one kind in one project, kept in every order a list may ask for.

Owns the ordered indexes. Refuses to parse queries or to render. Invariant: an index is built once, on first
use, and afterwards follows each change by bisection, so that a page of a list costs the page, not the list.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

OrderBy = Literal["created_at", "updated_at"]


class Row(Protocol):
    """What a shelf needs to know of an item."""

    id: int
    iid: int
    created_at_us: int
    updated_at_us: int


T = TypeVar("T", bound=Row)
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Order:
    """A list order. Ties fall by id, newest first in both directions, unless told to follow the sort."""

    by: OrderBy = "created_at"
    descending: bool = True
    ties_descending: bool = True

    def key(self, row: Row) -> Key:
        """The ascending sort key of a row in this order."""
        at_us = row.created_at_us if self.by == "created_at" else row.updated_at_us
        return (-at_us if self.descending else at_us, -row.id if self.ties_descending else row.id)

    def span(self, from_us: int | None, to_us: int | None) -> tuple[tuple[int] | None, tuple[int] | None]:
        """Bounds (inclusive, exclusive) in key space of the instants from_us..to_us, both inclusive."""
        if self.descending:
            low = None if to_us is None else (-to_us,)
            high = None if from_us is None else (-from_us + 1,)
        else:
            low = None if from_us is None else (from_us,)
            high = None if to_us is None else (to_us + 1,)
        return low, high


@dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """A contiguous run of one index: countable without reading it, readable by position."""

    shelf: Shelf[T]
    keys: list[Key]
    start: int
    stop: int

    def __len__(self) -> int:
        return max(0, self.stop - self.start)

    def rows(self, offset: int, limit: int) -> list[T]:
        """The rows at offset..offset+limit of this run."""
        first = self.start + offset
        by_id = self.shelf.by_id
        return [by_id[abs(key[1])] for key in self.keys[first : min(first + limit, self.stop)]]

    def after(self, key: Key) -> Slice[T]:
        """The part of this run that lies strictly behind a key."""
        return Slice(self.shelf, self.keys, max(self.start, bisect_left(self.keys, (key[0], key[1] + 1))), self.stop)


class Shelf(Generic[T]):
    """All rows of one kind in one project."""

    def __init__(self) -> None:
        self.by_id: dict[int, T] = {}
        self.by_iid: dict[int, T] = {}
        self._orders: dict[Order, list[Key]] = {}
        self._selected: dict[tuple[Order, object], list[Key]] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[T]:
        return iter(self.by_id.values())

    def add(self, row: T) -> None:
        """Put a new row on the shelf."""
        self.by_id[row.id] = row
        self.by_iid[row.iid] = row
        for order, keys in self._orders.items():
            insort(keys, order.key(row))
        self._selected.clear()

    def add_all(self, rows: Iterable[T]) -> None:
        """Put many rows on the shelf; the indexes are rebuilt once, on next use."""
        for row in rows:
            self.by_id[row.id] = row
            self.by_iid[row.iid] = row
        self._orders.clear()
        self._selected.clear()

    def remove(self, row: T) -> None:
        """Take a row off the shelf."""
        for order, keys in self._orders.items():
            del keys[bisect_left(keys, order.key(row))]
        del self.by_id[row.id]
        del self.by_iid[row.iid]
        self._selected.clear()

    def move(self, row: T, updated_at_us: int) -> None:
        """Give a row a new `updated_at`, in every index."""
        moving = [(order, keys) for order, keys in self._orders.items() if order.by == "updated_at"]
        for order, keys in moving:
            del keys[bisect_left(keys, order.key(row))]
        row.updated_at_us = updated_at_us
        for order, keys in moving:
            insort(keys, order.key(row))
        self._selected.clear()

    def changed(self) -> None:
        """Forget remembered selections after a change that moved no row."""
        self._selected.clear()

    def ordered(self, order: Order, from_us: int | None = None, to_us: int | None = None) -> Slice[T]:
        """The rows whose ordering instant lies within from_us..to_us."""
        keys = self._orders.get(order)
        if keys is None:
            keys = self._orders[order] = sorted(map(order.key, self.by_id.values()))
        low, high = order.span(from_us, to_us)
        start = 0 if low is None else bisect_left(keys, low)
        stop = len(keys) if high is None else bisect_left(keys, high)
        return Slice(self, keys, start, stop)

    def selected(self, order: Order, token: object, keep: Callable[[T], bool]) -> Slice[T]:
        """The rows that pass a test; remembered under `token` until the shelf changes."""
        keys = self._selected.get((order, token))
        if keys is None:
            keys = [key for key in self.ordered(order).keys if keep(self.by_id[abs(key[1])])]
            self._selected[order, token] = keys
        return Slice(self, keys, 0, len(keys))
