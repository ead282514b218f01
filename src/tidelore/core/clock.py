"""Clocks, sleeping, and the parsing and formatting of instants.

The only module that reads a clock or sleeps. Instants are integer milliseconds UTC. `parse_instant` is strict: a text
without an offset, or one that is not a date, raises ValueError and never becomes 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_READ_AGAIN_SECONDS = 15.0
"""How old a reading of a database server's clock may be: monotonic clocks hardly drift, but the server's may be set."""
_SLOW_SECONDS = 1.0
_MAX_INSTANT = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


class Clock(Protocol):
    """The only access to time for the rest of the program."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from a clock that never goes backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import asyncio  # offline reads never sleep and must not load asyncio

        await asyncio.sleep(seconds)


class SharedClock:
    """The time of a database server, by which the processes of several machines compare leases and due times.

    Between two readings of the server the monotonic clock counts, so a wall clock that is wrong or moved changes
    nothing. Until `set` is called it is the given clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._anchor: tuple[int, float] | None = None

    def now_ms(self) -> int:
        if self._anchor is None:
            return self._clock.now_ms()
        told, at = self._anchor
        return told + round((self._clock.monotonic() - at) * 1000)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    @property
    def is_due(self) -> bool:
        """Whether the server should be read again."""
        return self._anchor is None or self._clock.monotonic() - self._anchor[1] > _READ_AGAIN_SECONDS

    def set(self, read: Callable[[], int | None]) -> None:
        """Read the server's time; an answer that took long says nothing about now and is not used."""
        asked = self._clock.monotonic()
        told, answered = read(), self._clock.monotonic()
        if told is not None and (answered - asked <= _SLOW_SECONDS or self._anchor is None):
            self._anchor = told, (asked + answered) / 2


def parse_instant(text: str) -> int:
    """Return milliseconds UTC (truncated) of an RFC 3339 timestamp, or raise ValueError."""
    # fromisoformat alone is too lenient: it accepts bare dates, week dates and local times.
    shaped = isinstance(text, str) and len(text) >= 20 and text[4] == text[7] == "-" and text[13] == ":"
    if not shaped or text[10] not in "Tt ":
        raise ValueError(f"not a timestamp with an offset: {text!r}")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp without an offset: {text!r}")
    return instant_of(moment)


def instant_of(moment: datetime) -> int:
    """Return milliseconds UTC (truncated) of a moment with an offset, or raise ValueError if it is before 1970."""
    instant_ms = (moment - _EPOCH) // _MILLISECOND
    if instant_ms < 0:
        raise ValueError(f"timestamp before 1970: {moment.isoformat()!r}")
    return instant_ms


def format_instant(instant_ms: int) -> str:
    """Return an instant as RFC 3339 UTC with milliseconds, such as 2026-03-02T09:00:00.123Z."""
    bounded = min(max(instant_ms, 0), _MAX_INSTANT)
    moment = _EPOCH + timedelta(milliseconds=bounded)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{bounded % 1000:03d}Z"


def describe_age(seconds: float) -> str:
    """Return a duration in the largest fitting unit, such as '3 days'."""
    units = (("year", 31_536_000), ("month", 2_592_000), ("week", 604_800), ("day", 86_400), ("hour", 3_600))
    for unit, size in (*units, ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    count = max(int(seconds), 0)
    return f"{count} second{'' if count == 1 else 's'}"
