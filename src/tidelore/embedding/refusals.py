"""Refusals. Owns which error an answer that brings no vectors stands for, and how long to pause before asking again.

Pure. It refuses to see secrets: addresses and excerpts are cleaned before they get here. Invariant: what can pass by
itself is transient and what repeats itself is permanent; a batch asked for twice costs time and changes nothing, so
every transient failure may be tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from tidelore.errors import (
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
)

_EXCERPT = 200
# Besides 5xx: the server gave up waiting for the request, or refused early data.
_PASSING = frozenset({408, 425})
# A limit that money lifts and time does not.
_SPENT = "insufficient_quota"


def backoff_seconds(attempt: int, first_seconds: float, roll: float, longest_seconds: float = 60.0) -> float:
    """Return the pause after attempt 1, 2, …: doubling, spread over its upper half by `roll` in [0, 1)."""
    full = min(longest_seconds, first_seconds * 2.0 ** min(attempt - 1, 30))
    return full * (0.5 + roll / 2)


def read_retry_after(headers: Mapping[str, str], now_ms: int) -> float | None:
    """Return the seconds of `Retry-After`: a number, or a date measured on the server's own clock if it tells it."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    until = _http_date(text)
    if until is None:
        return None
    return max(0.0, (until - (_http_date(headers.get("date", "")) or now_ms)) / 1000)


def excerpt(text: str) -> str:
    """Return the beginning of what a server said, on one line."""
    return " ".join(text.split())[:_EXCERPT]


def refusal(status: int, retry_after_seconds: float | None, url: str, said: str) -> RemoteError:
    """Return the error that an unsuccessful status stands for."""
    if status == 429 and _SPENT not in said:
        return RateLimited(
            "the embedding server limits our rate (status 429)",
            status=status,
            url=url,
            reason="rate_limit",
            retry_after_seconds=retry_after_seconds,
            fix="run the command again later; it goes on where it stopped",
        )
    if status >= 500 or status in _PASSING:
        return RemoteTransient(
            f"the embedding server failed (status {status})",
            status=status,
            url=url,
            reason="server_error",
            retry_after_seconds=retry_after_seconds,
            fix="run the command again; it goes on where it stopped",
            said=said or None,
        )
    if status == 401:
        return CredentialsRejected(
            "the embedding server rejected the key (status 401)",
            status=status,
            url=url,
            reason="unauthorized",
            fix="renew the key in the variable named by embedding.api_key_env",
            said=said or None,
        )
    kind = RemoteNotFound if status in (404, 410) else RemotePermanent
    return kind(
        f"the embedding server refused the request (status {status})",
        status=status,
        url=url,
        reason="refused",
        fix="check embedding.base_url and embedding.model",
        said=said or None,
    )


def _http_date(text: str) -> int | None:
    try:
        moment = parsedate_to_datetime(text)
        # RFC 9110: a date without a usable zone is GMT.
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
