"""A clock that only a test moves: whoever sleeps wakes when the test has moved it far enough."""

from __future__ import annotations

import asyncio


class SteppedClock:
    """Seconds and instants side by side; they can be moved apart, as a wall clock is by its administrator."""

    def __init__(self, now_ms: int = 1_772_442_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._monotonic + seconds, future))
        await future

    def jump(self, seconds: float) -> None:
        """Set the wall clock, and nothing else."""
        self._now_ms += round(seconds * 1000)

    async def advance(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass, little by little, and everybody do meanwhile what they do."""
        end = self._monotonic + seconds
        while self._monotonic < end:
            moved = min(step, end - self._monotonic)
            self._monotonic += moved
            self._now_ms += round(moved * 1000)
            await self.settle()

    async def settle(self) -> None:
        """Wake whoever slept long enough, and let everybody come to rest."""
        for _ in range(3):
            for due, future in self._sleepers:
                if due <= self._monotonic and not future.done():
                    future.set_result(None)
            self._sleepers = [(due, future) for due, future in self._sleepers if not future.done()]
            for _ in range(12):
                await asyncio.sleep(0)
