"""A timeline: things that will happen, carried out in the order of their instants.

Owns the order. Refuses to know what happens. Invariant: instants never pass the end, and what is carried out
later never happened earlier, so ids grow with time as they do on a real instance.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from tidelore_world.clock import SECOND_US

Step = Callable[[int], None]


class Timeline:
    """A queue of steps by instant; a step may plan further steps."""

    def __init__(self, rng: random.Random, end_us: int) -> None:
        self._rng = rng
        self._end_us = end_us
        self._steps: list[tuple[int, int, Step]] = []
        self._order = 0

    def plan(self, at_us: int, step: Step) -> int:
        """Plan a step; one that would fall behind the end happens in the last minutes before it."""
        if at_us > self._end_us:
            at_us = self._end_us - self._rng.randint(0, 900 * SECOND_US)
        self._order += 1
        heapq.heappush(self._steps, (at_us, self._order, step))
        return at_us

    def play(self) -> None:
        """Carry everything out."""
        now_us = 0
        while self._steps:
            at_us, _, step = heapq.heappop(self._steps)
            now_us = max(now_us, at_us)
            step(now_us)
