"""The world's time: integer microseconds since the epoch, moved by command only.

Owns the clock and every text form in which the forges show an instant. Refuses to read the machine's
clock, so a run is repeatable. Invariant: formatting truncates, it never rounds an instant into the future.
"""

from __future__ import annotations

import re
from calendar import timegm
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?",
    re.IGNORECASE,
)


class WorldClock:
    """A clock that stands still until it is told to move."""

    __slots__ = ("now_us",)

    def __init__(self, start: str) -> None:
        self.now_us = parse_iso(start)

    def advance(self, seconds: float) -> None:
        """Move forward; time in a world never runs backwards."""
        if seconds < 0:
            raise ValueError("the world's clock does not run backwards")
        self.now_us += round(seconds * SECOND_US)

    def iso_ms(self) -> str:
        """The present instant with milliseconds."""
        return iso_millis(self.now_us)

    def iso_s(self) -> str:
        """The present instant in whole seconds."""
        return iso_seconds(self.now_us)


def iso_seconds(us: int) -> str:
    """`2026-03-02T09:00:00Z`, truncated."""
    return f"{_datetime(us).isoformat()[:19]}Z"


def iso_millis(us: int) -> str:
    """`2026-03-02T09:00:00.123Z`, truncated."""
    return f"{_datetime(us).isoformat(timespec='milliseconds')[:23]}Z"


def http_date(us: int) -> str:
    """`Mon, 02 Mar 2026 09:00:00 GMT`, the form of a Date header."""
    return format_datetime(_datetime(us).replace(microsecond=0), usegmt=True)


def parse_iso(text: str) -> int:
    """Read an ISO 8601 date or instant; without an offset it is UTC. Raises ValueError on anything else."""
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not an ISO 8601 instant: {text!r}")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    fraction_us = int((match[7] or "").ljust(6, "0")[:6])
    return timegm(moment.timetuple()) * SECOND_US + fraction_us - _offset_us(match[8])


def _offset_us(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"not a UTC offset: {zone!r}")
    size = (hours * 60 + minutes) * MINUTE_US
    return -size if zone[0] == "-" else size


def _datetime(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)
