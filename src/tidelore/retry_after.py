"""How long to wait before asking a server again. Owns the pause of a retry, and what a server says about one.

Pure, and known to every room that speaks HTTP. It refuses to sleep and to judge whether asking again helps.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_MOST_DIGITS = 12


def backoff_seconds(attempt: int, first_seconds: float, roll: float, longest_seconds: float = 60.0) -> float:
    """Return the pause after attempt 1, 2, …: doubling, spread over its upper half by `roll` in [0, 1)."""
    full = min(longest_seconds, first_seconds * 2.0 ** min(attempt - 1, 30))
    return full * (0.5 + roll / 2)


def read_retry_after(headers: Mapping[str, str], server_ms: int) -> float | None:
    """Return the seconds of `Retry-After`: a number, or a date measured on the server's own clock."""
    text = (headers.get("retry-after") or "").strip()
    seconds = whole_number(text)
    if seconds is not None:
        return float(seconds)
    moment = parse_http_date(text)
    return None if moment is None else max(0.0, (moment - server_ms) / 1000)


def parse_http_date(text: str | None) -> int | None:
    """Return epoch milliseconds of an HTTP date, or None when it is missing or no date."""
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
        # RFC 9110: a date without a usable zone is GMT.
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def whole_number(text: str | None) -> int | None:
    """Return the number a header holds, or None for anything else and for what no server means."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
