"""A store in memory whose commit is all or nothing, for lists whose tables the store does not hold.

It implements the engine's `ScopeStore`; what it keeps survives a `Killed`, as a database file would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import httpx2
from tests.properties.inprocess import BASE_URL, Reaper, WorldTransport

from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.core.model import Item, Position, RemoteId, Version
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Cursor, Gap, order_key
from tidelore.engine.ports import Batch, Quarantined
from tidelore_world.world import World


class MemoryScopeStore:
    """Items by id, one cursor, the gaps; and how often each version was taken."""

    def __init__(self) -> None:
        self.items: dict[RemoteId, Item[Any]] = {}
        self.taken: Counter[Version] = Counter()
        self.watermarks: list[Position | None] = []
        self.seam: Callable[[Seam], None] = Reaper()
        self._cursor = Cursor()
        self._gaps: tuple[Gap, ...] = ()

    def load(self) -> Cursor:
        return self._cursor

    def gaps(self) -> Sequence[Gap]:
        return self._gaps

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        return {key: self.items[key].version for key in ids if key in self.items}

    def commit(self, batch: Batch[Any]) -> None:
        self.seam(Seam.INSIDE_COMMIT)
        self.items.update((item.version.id, item) for item in batch.items)
        self.taken.update(item.version for item in batch.items)
        self.watermarks.append(batch.cursor.watermark)
        self._cursor = batch.cursor
        if batch.gaps is not None:
            self._gaps = tuple(batch.gaps)

    def set_aside(self, reason: str) -> None:
        raise AssertionError(f"the cursor was not believed: {reason}")

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        return {}

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        return ()

    def check(self) -> None:
        """Each version once; the watermark only forward."""
        assert all(times == 1 for times in self.taken.values()), self.taken
        placed = [order_key(mark) if mark is not None else (-1, 0, "") for mark in self.watermarks]
        assert placed == sorted(placed)


async def ask(world: World, path: str, params: Mapping[str, str | int] | None = None) -> httpx2.Response:
    """One GET as the program's client would classify it: what fails is an error of the tree."""
    request = httpx2.Request("GET", f"{BASE_URL}{path}" if path.startswith("/") else path, params=params)
    try:
        response = await WorldTransport(world).handle_async_request(request)
    except httpx2.HTTPError as error:
        raise RemoteTransient(str(error)) from None
    await response.aread()
    if response.status_code >= 400:
        kind = RemoteTransient if response.status_code >= 500 else RemotePermanent
        raise kind("refused", status=response.status_code)
    return response
