"""Why a connection of the event stream failed. Owns which class of error it is. Pure.

What can pass by itself is transient; a refusal of the question, and a certificate nobody vouches for, are not.
"""

from __future__ import annotations

from tidelore.core.errors import RateLimited, RemoteError, RemotePermanent, RemoteTransient
from tidelore.sources.bluesky.socket import SocketFailure
from tidelore.sources.failures import excerpt

_PASSING = frozenset({408, 425, 429})


def judge(failure: SocketFailure, url: str) -> RemoteError:
    """Return the error a failed connection stands for."""
    status, said = failure.status, excerpt(failure.said.encode()) or None
    if failure.untrusted:
        return RemotePermanent(
            f"the stream's certificate is not trusted: {failure}",
            url=url,
            reason="untrusted_certificate",
            fix="for a private CA, set http.ca_file to its certificate",
        )
    if status == 429:
        return RateLimited(
            "the stream server limits the number of connections", status=status, url=url, reason="rate_limit"
        )
    if status is not None and 300 <= status < 500 and status not in _PASSING:
        return RemotePermanent(
            f"the stream refused the connection (status {status})",
            status=status,
            url=url,
            reason="refused",
            fix="check bluesky.jetstream_url",
            said=said,
        )
    return RemoteTransient(
        f"cannot reach the stream: {failure}",
        status=status,
        url=url,
        reason="stream",
        fix="check bluesky.jetstream_url and the network; polling continues without the stream",
        said=said,
    )
