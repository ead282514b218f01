"""When people say 'since': a duration back from now, a date, or a full timestamp."""

from __future__ import annotations

import re

from tidelore.clock import parse_instant
from tidelore.errors import UserError

_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_DURATION = re.compile(r"(\d{1,6})([mhdw])")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def parse_since(text: str, now_ms: int) -> int:
    """Return the instant that is meant, or say which forms there are."""
    match = _DURATION.fullmatch(text)
    if match:
        return max(now_ms - int(match[1]) * _UNITS_MS[match[2]], 0)
    try:
        return parse_instant(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
    except ValueError:
        raise UserError(
            f"invalid value for --since: {text!r}",
            fix="use a duration (30m, 12h, 7d, 2w), a date (2026-03-01) or a timestamp with an offset",
            since=text,
        ) from None
