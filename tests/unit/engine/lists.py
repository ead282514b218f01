"""Scripted lists and a store in memory for the unit tests of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tidelore.core.errors import RemoteError
from tidelore.core.model import Item, Position, RemoteId, Version
from tidelore.engine.cursor import Cursor, Gap
from tidelore.engine.ports import Batch, ListRequest, Page, Quarantined

NOW = 1_772_442_000_000


def item(key: RemoteId, at: int, text: str = "", updated_at: int | None = None) -> Item[str]:
    """An item at a place of its list."""
    return Item(Version(key, at if updated_at is None else updated_at, text.encode()), at, text.encode(), text)


def at(*pairs: tuple[int, RemoteId]) -> list[Position]:
    """Positions."""
    return [Position(instant, key) for instant, key in pairs]


class Script:
    """A lister that answers from a list of pages or errors, and remembers what it was asked."""

    def __init__(self, *answers: Page[str] | RemoteError, singles: Mapping[str, Page[str] | RemoteError] | None = None):
        self._answers = list(answers)
        self._singles = dict(singles or {})
        self.asked: list[ListRequest] = []
        self.asked_alone: list[str] = []

    async def fetch(self, request: ListRequest) -> Page[str]:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, RemoteError):
            raise answer
        return answer

    async def fetch_one(self, locator: str) -> Page[str]:
        self.asked_alone.append(locator)
        answer = self._singles[locator]
        if isinstance(answer, RemoteError):
            raise answer
        return answer


class PlainScopeStore:
    """A store whose content a test can see and set."""

    def __init__(self, cursor: Cursor | None = None, gaps: Sequence[Gap] = ()) -> None:
        self.cursor = cursor or Cursor()
        self.open_gaps = tuple(gaps)
        self.items: dict[RemoteId, Item[Any]] = {}
        self.batches: list[Batch[Any]] = []
        self.aside: list[str] = []
        self.quarantined: list[Quarantined] = []
        self.created: dict[RemoteId, tuple[int, str]] = {}
        self.on_commit: Callable[[Batch[Any]], None] = lambda _batch: None

    def load(self) -> Cursor:
        return self.cursor

    def gaps(self) -> Sequence[Gap]:
        return self.open_gaps

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        return {key: self.items[key].version for key in ids if key in self.items}

    def commit(self, batch: Batch[Any]) -> None:
        self.on_commit(batch)
        self.batches.append(batch)
        self.items.update((entry.version.id, entry) for entry in batch.items)
        self.cursor = batch.cursor
        if batch.gaps is not None:
            self.open_gaps = tuple(batch.gaps)

    def set_aside(self, reason: str) -> None:
        self.aside.append(reason)

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        end = 2**62 if created_before is None else created_before
        return {key: locator for key, (made, locator) in self.created.items() if created_from <= made < end}

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        return self.quarantined[:limit]
