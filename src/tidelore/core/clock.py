"""Clocks, sleeping, and the parsing and formatting of instants.

The only module that reads a clock or sleeps. Instants are integer milliseconds UTC. `parse_instant` is strict: a text
without an offset, or one that is not a date, raises ValueError and never becomes 0.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
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


def parse_instant(text: str) -> int:
    """Return milliseconds UTC (truncated) of an RFC 3339 timestamp, or raise ValueError."""
    # fromisoformat alone is too lenient: it accepts bare dates, week dates and local times.
    shaped = isinstance(text, str) and len(text) >= 20 and text[4] == text[7] == "-" and text[13] == ":"
    if not shaped or text[10] not in "Tt ":
        raise ValueError(f"not a timestamp with an offset: {text!r}")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp without an offset: {text!r}")
    instant_ms = (moment - _EPOCH) // _MILLISECOND
    if instant_ms < 0:
        raise ValueError(f"timestamp before 1970: {text!r}")
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
