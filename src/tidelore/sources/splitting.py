"""Splits the items out of a page when the page as a whole cannot be decoded.

One item with a lone surrogate or with thousands of nested brackets makes a JSON decoder refuse the whole document. This
module finds the items of its lists without decoding them, and replaces each unreadable one by a marker that carries its
bytes, so that the others can be read and this one can be put into quarantine alone. It never raises on what a server
wrote.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator

import msgspec
from msgspec import Raw

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},]|"', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_CLOSING = {b"]": b"[", b"}": b"{"}
_MARK = b'"tidelore:unreadable:'


def set_aside_unreadable(body: bytes) -> bytes | None:
    """Return a document in which every unreadable list item is a marker; None when there is none, or no whole document.

    Items are looked for in a list, and in the lists that are fields of an object.
    """
    parts: list[bytes] = []
    end = 0
    for start, stop in _items(body) or ():
        if why_unreadable(body[start:stop]) is not None:
            parts += [body[end:start], _MARK, b64encode(body[start:stop]), b'"']
            end = stop
    return b"".join([*parts, body[end:]]) if parts else None


def original(payload: bytes) -> tuple[bytes, str] | None:
    """Return the item that a marker stands for and why it cannot be read, or None when it is no marker."""
    if not payload.startswith(_MARK):
        return None
    try:
        item = b64decode(payload[len(_MARK) : -1], validate=True)
    except binascii.Error:
        return None
    return item, why_unreadable(item) or "could not be decoded"


def why_unreadable(item: bytes) -> str | None:
    """Return why an item is no readable JSON, or None."""
    try:
        msgspec.json.decode(item, type=Raw)
    except RecursionError:
        return "nested too deeply"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return "contains a lone surrogate" if _SURROGATE.search(item) else str(error)
    return None


def outline(item: bytes) -> bytes:
    """Return an object with null for every nested value: its own fields can be decoded however deep the others are."""
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
    """Return where the items of the outer lists begin and end, or None when the document is not whole."""
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
