"""Maps failed requests to errors.

A failure that a retry can fix is transient, any other is permanent, and a write with an unknown outcome
has the reason `unclear_write`. URLs and excerpts must be redacted before they are passed in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tidelore.core.errors import (
    CredentialsRejected,
    QueryLimited,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
    ResponseTooLarge,
    retry_advice,
)
from tidelore.core.redaction import redact
from tidelore.http.limits import SECONDARY_WAIT_SECONDS, Verdict
from tidelore.http.response import Outcome, Response
from tidelore.http.transport import Trouble

T = TypeVar("T")

_EXCERPT = 200
# Transient besides 5xx: the server timed out waiting for the request, or refused early data.
_PASSING = frozenset({408, 425})
_REMEDIES = {
    403: "check the permissions of the token",
    404: "check base_url of this host and the path, and that the token can see it",
    410: "check base_url of this host and the path, and that the token can see it",
    451: "the server blocks it for legal reasons: take it out of the configuration if that does not end",
}

_WITHOUT_TLS = "if the server has no TLS, write its base_url with http:// instead of https://; otherwise check the port"
_SAID_BY_TLS_PORTS = ("HTTPS port", "HTTPS server", "SSL-enabled")
"""Words with which nginx, Go's server and Apache refuse a request without TLS on a port for TLS."""
_WITH_TLS = "if the server expects TLS, write its base_url with https:// instead of http://"


def excerpt(body: bytes) -> str:
    """Return the beginning of an error body on one line."""
    return " ".join(body[: 4 * _EXCERPT].decode("utf-8", "replace").split())[:_EXCERPT]


def from_status(status: int, verdict: Verdict, url: str, said: str, *, writes: bool = False) -> RemoteError:
    """Return the error for an unsuccessful status."""
    if verdict.limited:
        kind_of_limit = QueryLimited if verdict.rule == "queries" else RateLimited
        return kind_of_limit(
            f"rate limited by the server (status {status})",
            status=status,
            url=url,
            reason="rate_limit",
            retry_after_seconds=verdict.wait_seconds or None,
            rule=verdict.rule,
            fix=retry_advice(verdict.wait_seconds or None),
        )
    if status >= 500 and writes:
        return unclear_write(url, status)
    if status >= 500 or status in _PASSING or status == 304:
        return RemoteTransient(
            f"the server failed (status {status})",
            status=status,
            url=url,
            reason="server_error",
            fix="run the command again; it continues where it stopped",
            retry_after_seconds=verdict.wait_seconds or None,
            said=said or None,
        )
    if status == 401:
        return CredentialsRejected(
            "the server rejected the credentials (status 401)",
            status=status,
            url=url,
            reason="unauthorized",
            fix="renew the token and check that it belongs to this host",
            said=said or None,
        )
    kind = RemoteNotFound if status in (404, 410) else RemotePermanent
    fix = _REMEDIES.get(status, "check that base_url of this host is the address of its API")
    if status == 400 and _is_plain(url) and any(word in said for word in _SAID_BY_TLS_PORTS):
        fix = _WITH_TLS
    return kind(
        f"the server refused the request (status {status})",
        status=status,
        url=url,
        reason="refused",
        fix=fix,
        said=said or None,
    )


def from_trouble(
    trouble: Trouble, detail: str, url: str, status: int | None, *, sent: bool, writes: bool = False
) -> RemoteError:
    """Return the error for a request without a usable response."""
    if writes and sent:
        return unclear_write(url, status)
    if trouble == "too_large":
        return ResponseTooLarge(f"the response is too large: {detail}", status=status, url=url, reason="too_large")
    if trouble == "address_refused":
        return RemotePermanent(f"refused to contact a server: {detail}", url=url, reason="server_refused")
    if trouble == "untrusted":
        return RemotePermanent(
            f"the server's certificate is not trusted: {detail}",
            url=url,
            reason="untrusted_certificate",
            fix="for a private CA, set http.ca_file to its certificate",
        )
    if trouble == "no_tls":
        return RemotePermanent(
            f"the server does not answer with TLS: {detail}", url=url, reason="no_tls", fix=_WITHOUT_TLS
        )
    fix = "check base_url of this host and the network, then run the command again; it continues where it stopped"
    return RemoteTransient(
        f"no usable response: {detail}",
        status=status,
        url=url,
        reason=trouble,
        # A server that expects TLS closes the connection, or answers with a TLS alert, which is not HTTP.
        fix=f"{_WITH_TLS}; otherwise {fix}" if sent and trouble == "connection" and _is_plain(url) else fix,
    )


def _is_plain(url: str) -> bool:
    """Return whether a URL is without TLS."""
    return url.lower().startswith("http://")


def unclear_write(url: str, status: int | None) -> RemoteTransient:
    """Return the error for a write that may have happened."""
    return RemoteTransient(
        "it is unknown whether the write succeeded",
        status=status,
        url=url,
        reason="unclear_write",
        fix="check the result before writing again",
    )


def read_written(response: Response, read: Callable[[bytes], T]) -> T:
    """Return what a write has made, from its response; one that cannot be parsed leaves that unclear."""
    try:
        return read(response.body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise unclear_write(redact(response.url), response.status) from None


def outcome_of(error: RemoteError) -> Outcome:
    """Return the outcome under which an error is counted in the metrics."""
    if isinstance(error, RateLimited | QueryLimited):
        return "rate_limited"
    return "transient" if isinstance(error, RemoteTransient) else "permanent"


class FailureRules:
    """Maps failed requests to errors. Clients of servers that are not forges override these rules.

    `unexplained_wait_seconds` is the pause after a rate limit for which the server gave no duration.
    """

    unexplained_wait_seconds = SECONDARY_WAIT_SECONDS

    def from_status(self, status: int, verdict: Verdict, url: str, said: str, *, writes: bool) -> RemoteError:
        """Return the error for an unsuccessful status."""
        return from_status(status, verdict, url, said, writes=writes)

    def from_trouble(
        self, trouble: Trouble, detail: str, url: str, status: int | None, *, sent: bool, writes: bool
    ) -> RemoteError:
        """Return the error for a request without a usable response."""
        return from_trouble(trouble, detail, url, status, sent=sent, writes=writes)
