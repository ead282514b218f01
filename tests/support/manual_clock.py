"""A clock that tests move by hand."""

from __future__ import annotations

from tidelore.core.clock import SystemClock


class ManualClock:
    """A clock moved by hand: a sleep returns at once and leaves the clock that much later."""

    def __init__(self, now_ms: int = 1_772_442_000_000) -> None:
        self._now_ms = float(now_ms)
        self._monotonic = 0.0
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return int(self._now_ms)

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_ms += seconds * 1000
        self._monotonic += seconds

    def set_wall(self, now_ms: int) -> None:
        """Move the wall clock alone, as an administrator does."""
        self._now_ms = float(now_ms)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(max(seconds, 0.0))
        await SystemClock().sleep(0)
