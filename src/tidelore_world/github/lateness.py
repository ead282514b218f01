"""Writes that are accepted and take effect later: a client has long given up when its comment appears.

Owns what is under way and when it lands. Invariant: what has landed is never seen undone, and nothing lands early.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from contextlib import suppress

from tidelore_world.clock import SECOND_US, WorldClock


class LateWrites:
    """What was accepted and has not happened yet."""

    def __init__(self, clock: WorldClock) -> None:
        self._clock = clock
        self._waiting: list[tuple[int, int, Callable[[int], object]]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, seconds: float, write: Callable[[int], object]) -> None:
        """Let a write happen so many seconds from now; it is told its instant."""
        self._count += 1
        heapq.heappush(self._waiting, (self._clock.now_us + round(seconds * SECOND_US), self._count, write))

    def land(self) -> None:
        """Let everything happen that is due."""
        while self._waiting and self._waiting[0][0] <= self._clock.now_us:
            at_us, _, write = heapq.heappop(self._waiting)
            # Its thread may be gone by now; then nothing lands.
            with suppress(LookupError):
                write(at_us)
