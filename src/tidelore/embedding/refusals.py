"""Refusals. Owns which error an answer that brings no vectors stands for.

Pure. It refuses to see secrets: addresses and excerpts are cleaned before they get here. Invariant: what can pass by
itself is transient and what repeats itself is permanent; a batch asked for twice costs time and changes nothing, so
every transient failure may be tried again.
"""

from __future__ import annotations

from tidelore.core.errors import (
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


def excerpt(text: str) -> str:
    """Return the beginning of what a server said, on one line."""
    return " ".join(text.split())[:_EXCERPT]


def refusal(status: int, retry_after_seconds: float | None, url: str, said: str) -> RemoteError:
    """Return the error that an unsuccessful status stands for."""
    if status == 429 and _SPENT not in said:
        return RateLimited(
            "rate limited by the embedding server (status 429)",
            status=status,
            url=url,
            reason="rate_limit",
            retry_after_seconds=retry_after_seconds,
            fix="run the command again later; it continues where it stopped",
        )
    if status >= 500 or status in _PASSING:
        return RemoteTransient(
            f"the embedding server failed (status {status})",
            status=status,
            url=url,
            reason="server_error",
            retry_after_seconds=retry_after_seconds,
            fix="run the command again; it continues where it stopped",
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
