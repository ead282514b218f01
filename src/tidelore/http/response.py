"""Responses: headers, metrics of a request, and decoding of JSON bodies.

A body that is not a complete JSON document is a transient failure (it was cut off), JSON of another shape a permanent
one. One list item with a lone surrogate or with thousands of nested brackets makes a JSON decoder refuse the whole
document. Then the unreadable items are located without decoding them and replaced by markers that contain their bytes,
so that the others can be read and these can be quarantined. Imports neither the HTTP library nor network code.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec
from msgspec import Raw

from tidelore.core.errors import RemotePermanent, RemoteTransient
from tidelore.core.redaction import redact
from tidelore.http.limits import UNKNOWN, Budget

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]|"', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_CLOSING = {b"]": b"[", b"}": b"{"}
_MARK = b'"tidelore:unreadable:'


def mark_unreadable_items(body: bytes) -> bytes | None:
    """Return the document with every unreadable list item replaced by a marker.

    Returns None if there is no such item or the document is incomplete. Items are searched in a top-level list, and in
    the lists that are fields of a top-level object.
    """
    parts: list[bytes] = []
    end = 0
    for start, stop in _items(body) or ():
        if why_unreadable(body[start:stop]) is not None:
            parts += [body[end:start], _MARK, b64encode(body[start:stop]), b'"']
            end = stop
    return b"".join([*parts, body[end:]]) if parts else None


def read_marker(payload: bytes) -> tuple[bytes, str] | None:
    """Return the item in a marker and why it cannot be read, or None if the payload is not a marker."""
    if not payload.startswith(_MARK):
        return None
    try:
        item = b64decode(payload[len(_MARK) : -1], validate=True)
    except binascii.Error:
        return None
    return item, why_unreadable(item) or "could not be decoded"


def why_unreadable(item: bytes) -> str | None:
    """Return why an item cannot be decoded as JSON, or None if it can."""
    try:
        msgspec.json.decode(item, type=Raw)
    except RecursionError:
        return "nested too deeply"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return "contains a lone surrogate" if _SURROGATE.search(item) else str(error)
    return None


def outline(item: bytes) -> bytes:
    """Return an object with null for every nested value, so that its other fields can be decoded at any depth."""
    parts: list[bytes] = []
    depth = end = 0
    for token in _TOKEN.finditer(item):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == 2:
                parts += [item[end : token.start()], b"null"]
        elif token[0] in (b"]", b"}"):
            if depth == 2:
                end = token.end()
            depth -= 1
    return b"".join([*parts, item[end:]])


def _items(body: bytes) -> list[tuple[int, int]] | None:
    """Return start and end of each item of the outer lists, or None if the document is incomplete."""
    found = list(_spans(body))
    return None if not found or found[-1] != _END else [span for span in found[:-1] if body[slice(*span)].strip()]


_END = (-1, -1)


def _spans(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans between the commas of outer lists, and `_END` when every bracket was closed."""
    opened: list[bytes] = []
    start = 0
    for token in _TOKEN.finditer(body):
        sign = token[0]
        if len(sign) > 1:
            continue
        outer = opened in ([b"["], [b"{", b"["])
        if sign == b"," and outer:
            yield start, token.start()
            start = token.end()
        elif sign in (b"[", b"{"):
            opened.append(sign)
            if opened in ([b"["], [b"{", b"["]):
                start = token.end()
        elif sign in _CLOSING:
            if not opened or opened.pop() != _CLOSING[sign]:
                return
            if outer:
                yield start, token.start()
            if not opened:
                if not body[token.end() :].strip():
                    yield _END
                return
        elif sign == b'"':
            return


T = TypeVar("T")

Outcome = Literal["ok", "not_modified", "redirect", "transient", "rate_limited", "permanent", "cancelled"]


class Headers(Mapping[str, str]):
    """Response headers: names are case-insensitive, repeated headers are joined by a comma."""

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
class Response:
    """A successful response. `server_at` is the server's time from its `Date` header."""

    status: int
    url: str
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)
    server_at: int | None = None

    @property
    def etag(self) -> str | None:
        """The ETag to send with the next request."""
        return self.headers.get("etag")

    @property
    def not_modified(self) -> bool:
        """Whether the server responded that the stored version is current."""
        return self.status == 304

    def __repr__(self) -> str:
        return f"Response({self.status}, {redact(self.url)!r}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class RequestMetric:
    """One request as it was sent. `bytes` is the size of the body as received, before decompression.

    `source` is the name of the server, `budget` its last reported rate limit, with the reset by our clock; `points` is
    the limit of GraphQL where it is counted apart.
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
    points: Budget = UNKNOWN


def decode(response: Response, decoder: msgspec.json.Decoder[T]) -> T:
    """Return the decoded JSON of a response, or raise an error that the retry loop can classify."""
    try:
        return decoder.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shape = isinstance(error, msgspec.ValidationError) and _is_json(response.body)
        detail = redact(str(error))
    if not shape:
        # One item that cannot be decoded must not make the others unreadable.
        mended = mark_unreadable_items(response.body)
        if mended is not None:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return decoder.decode(mended)
    where = redact(response.url)
    if shape:
        raise RemotePermanent(
            f"unexpected response: {detail}",
            status=response.status,
            url=where,
            reason="bad_shape",
        )
    raise RemoteTransient(
        f"the response is not valid JSON: {detail}", status=response.status, url=where, reason="bad_body"
    )


def _is_json(body: bytes) -> bool:
    # The decoder checks the shape while it reads, so a truncated document can fail with a shape error first.
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
