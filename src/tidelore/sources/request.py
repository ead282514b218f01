"""Requests. Owns what is sent: headers, credentials, content. Sends nothing.

It refuses a token that is no header value: a stray line break would end the header, and the library's
complaint would quote it. Invariant: the token is in the headers and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from tidelore.core.errors import CredentialsMissing
from tidelore.sources.reply import Reply
from tidelore.sources.transport import Address, RawHeaders

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, ready to be sent as often as the retry allows. `read` turns its answer into a value."""

    method: str
    url: Address
    headers: RawHeaders
    content: bytes
    route: str | None
    conditional: bool
    read: Callable[[Reply], T]

    def __repr__(self) -> str:
        return f"Call({self.method}, {self.route})"


def private_token(token: str) -> tuple[str, str]:
    """Return the header in which GitLab wants a token."""
    return "PRIVATE-TOKEN", token


def bearer(token: str) -> tuple[str, str]:
    """Return the header in which GitHub and Bluesky want a token."""
    return "Authorization", f"Bearer {token}"


class HeaderSet:
    """The headers that every request of a client carries."""

    def __init__(
        self,
        host: bytes,
        user_agent: str,
        more: Mapping[str, str] | None,
        token: str | None,
        auth: Callable[[str], tuple[str, str]],
    ) -> None:
        self._fixed: dict[str, tuple[bytes, bytes]] = {
            "host": (b"Host", host),
            "accept": (b"Accept", b"application/json"),
            # Only what body.py unpacks within the size limit.
            "accept-encoding": (b"Accept-Encoding", b"gzip"),
            "user-agent": (b"User-Agent", user_agent.encode("latin-1")),
        }
        self._fixed.update(_encode(more or {}))
        if token:
            check_token(token)
            self._fixed.update(_encode(dict([auth(token)])))

    def build(self, more: Mapping[str, str] | None, etag: str | None, content: bytes | None) -> RawHeaders:
        """Return the headers of one request; `content` is None for a request without a body."""
        sent = self._fixed
        if more or etag is not None or content is not None:
            sent = dict(sent)
        if content is not None:
            sent["content-type"] = (b"Content-Type", b"application/json")
            sent["content-length"] = (b"Content-Length", str(len(content)).encode())
        if etag is not None:
            sent["if-none-match"] = (b"If-None-Match", etag.encode("latin-1"))
        if more:
            sent.update(_encode(more))
        return list(sent.values())


def encode_content(json: object) -> bytes:
    """Return the body of a write."""
    return b"" if json is None else msgspec.json.encode(json)


def check_token(token: str) -> None:
    """Raise CredentialsMissing for a token that cannot be a header value, without quoting it."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsMissing(
            "the token contains spaces or invalid characters",
            fix="store the token without quotes and line breaks",
        )


def _encode(headers: Mapping[str, str]) -> dict[str, tuple[bytes, bytes]]:
    return {name.lower(): (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()}
