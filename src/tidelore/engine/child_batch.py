"""Commit the children of several parents together, while those of other parents are fetched.

A transaction costs about as much as the children of one parent. So parents that are ready wait for each other: until
there are `MOST_TOGETHER` of them or `TOGETHER_SECONDS` have passed since the first. A transaction holds whole parents
only: after a crash, each parent of it is stored completely or not at all, and then still due.

A full batch is handed to the writer thread while the one before it is being stored: the thread continues at once,
without waiting for the event loop to notice that the first batch is stored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from tidelore.core.concurrency import Pending, WriterThread
from tidelore.engine.whole import CHUNK_BYTES, ChildReading

C = TypeVar("C")

MOST_TOGETHER = 100
"""How many parents one transaction may store: as many as one query of GitLab's GraphQL reads."""
TOGETHER_SECONDS = 0.02
"""How long the first parent that is ready waits for others."""


class _Storing(NamedTuple, Generic[C]):
    """A batch that was handed to the writer thread; `changed` is filled when it is stored."""

    readings: Sequence[ChildReading[C]]
    changed: list[int]
    pending: Pending[None]


class ChildBatch(Generic[C]):
    """Parents whose children were read, on their way into the store. `store` runs in the writer thread.

    There are at most two batches: one is being stored, and one is being filled or waits, full, for the writer thread.
    Then `add` waits.
    """

    def __init__(
        self,
        thread: WriterThread,
        store: Callable[[Sequence[ChildReading[C]]], int],
        count: Callable[[Sequence[ChildReading[C]], int], None],
    ) -> None:
        self._thread = thread
        self._store = store
        self._count = count
        self._ready: list[ChildReading[C]] = []
        self._held_bytes = 0
        self._storing: deque[_Storing[C]] = deque()
        self._any, self._full, self._room = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._room.set()
        self._closed = False

    async def add(self, reading: ChildReading[C]) -> None:
        """Hand over the children of one parent; they are committed soon."""
        while not self._room.is_set():
            await self._room.wait()
        self._ready.append(reading)
        self._held_bytes += reading.children.held_bytes
        self._any.set()
        if len(self._ready) >= MOST_TOGETHER or self._held_bytes >= CHUNK_BYTES:
            self._full.set()
            self._room.clear()

    def close(self) -> None:
        """Say that nothing more is added."""
        self._closed = True
        self._any.set()
        self._full.set()

    async def work(self) -> None:
        """Commit what is added, until `close`. When this is cancelled, what is ready is committed first."""
        try:
            while True:
                await self._any.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TOGETHER_SECONDS):
                        await self._full.wait()
                if not self._full.is_set():
                    # It can fill while the batch before it is stored.
                    await self._finish()
                if not self._ready and self._closed:
                    return
                self._begin()
                await self._finish(left=1)
        except asyncio.CancelledError:
            if self._ready:
                self._begin()
            raise
        finally:
            await self._finish()

    def _begin(self) -> None:
        readings, self._ready, self._held_bytes = self._ready, [], 0
        if not self._closed:
            self._any.clear()
            self._full.clear()
        changed: list[int] = []
        pending = self._thread.begin(lambda: changed.append(self._store(readings)))
        self._storing.append(_Storing(readings, changed, pending))
        if len(self._storing) == 1:
            self._room.set()

    async def _finish(self, left: int = 0) -> None:
        """Wait until at most `left` batches are still to be stored, and count those that were."""
        while len(self._storing) > left:
            readings, changed, pending = self._storing.popleft()
            try:
                await pending.wait()
            finally:
                # After a cancellation too: what is committed counts.
                if changed:
                    self._count(readings, changed[0])
            if not self._full.is_set():
                self._room.set()
