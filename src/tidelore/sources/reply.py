"""Replies. Owns what a request brings back: the answer, its headers, its decoded body, its metric.

It knows neither the HTTP library nor the network. Invariant: a body that is no complete JSON document is a
transient failure (the connection lied), one that is JSON of another shape a permanent one (the server means
it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.sources.governor import UNKNOWN, Budget
from tidelore.sources.redact import redact
from tidelore.sources.splitting import set_aside_unreadable

T = TypeVar("T")

Outcome = Literal["ok", "not_modified", "redirect", "transient", "rate_limited", "permanent", "cancelled"]


class Headers(Mapping[str, str]):
    """Response headers: names in any case, repeated headers joined by a comma."""

    __slots__ = ("_values",)

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        values: dict[str, str] = {}
        for name, value in raw:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            values[key] = f"{values[key]}, {text}" if key in values else text
        self._values = values

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({', '.join(self._values)})"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no failure. `server_at` is the server's own clock, from its `Date` header."""

    status: int
    url: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    server_at: int | None = None

    @property
    def etag(self) -> str | None:
        """The validator to send next time."""
        return self.headers.get("etag")

    @property
    def not_modified(self) -> bool:
        """Whether the server says that what we have is what it has."""
        return self.status == 304

    def __repr__(self) -> str:
        return f"Reply({self.status}, {redact(self.url)!r}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class RequestMetric:
    """One request as it went over the wire. `bytes`: the body as received, before decompression.

    `source` is who was asked, `budget` what that server last said is left to us, with a reset by our own clock.
    """

    method: str
    route: str
    status: int | None
    seconds: float
    bytes: int
    attempt: int
    outcome: Outcome
    source: str = ""
    budget: Budget = UNKNOWN


class Greeting(Struct, frozen=True):
    """What a host said of itself: a text for people, and how far its clock is from ours where it told its time."""

    text: str
    skew_seconds: int = 0


def skew_of(reply: Reply, now_ms: int) -> int:
    """Return how many seconds the clock of a server is from ours; 0 where it does not tell its time."""
    return 0 if reply.server_at is None else abs(reply.server_at - now_ms) // 1000


def decode(reply: Reply, decoder: msgspec.json.Decoder[T]) -> T:
    """Return the JSON of a reply, or raise what the retry loop understands."""
    try:
        return decoder.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shape = isinstance(error, msgspec.ValidationError) and _is_json(reply.body)
        detail = redact(str(error))
    if not shape:
        # One item that nobody can decode must not hide its neighbours.
        mended = set_aside_unreadable(reply.body)
        if mended is not None:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return decoder.decode(mended)
    where = redact(reply.url)
    if shape:
        raise RemotePermanent(
            f"unexpected response: {detail}",
            status=reply.status,
            url=where,
            reason="bad_shape",
        )
    raise RemoteTransient(
        f"the response is not valid JSON: {detail}", status=reply.status, url=where, reason="bad_body"
    )


def _is_json(body: bytes) -> bool:
    # A shape is checked while reading, so a truncated document can look misshapen first.
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
