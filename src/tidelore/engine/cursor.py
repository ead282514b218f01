"""Where a scope stands. Owns the durable position, its comparison and its corruption rule.

Invariant 4: a watermark never moves backwards except by a logged reset. Invariant 5: only remote
timestamps move it. A cursor that cannot be true is replaced by `now - safe backfill`, never by 'latest'.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from tidelore.core.model import Position, RemoteId

SKEW_MS = 5 * 60 * 1000
"""How far a remote instant may lie ahead before we stop believing it."""


class Validator(Struct, frozen=True):
    """An ETag and the full address it belongs to: it says nothing about any other address."""

    url: str
    etag: str


class Window(Struct, frozen=True, omit_defaults=True):
    """The half-open span that is being read, and how far the pass over it has come.

    `instant` is the last instant that belongs to the window; `token` the next page inside it; `seen` and
    `before` are digests of this pass and of the last whole one; `top` is the greatest position of the pass.
    """

    instant: int
    since: int | None
    token: str | None = None
    pages: int = 0
    passes: int = 0
    seen: str = ""
    before: str = ""
    top: Position | None = None


class Gap(Struct, frozen=True):
    """A span of a newest-first list known to be incomplete, and the token where reading goes on."""

    top: Position | None
    token: str | None
    floor: int | None


class Census(Struct, frozen=True, omit_defaults=True):
    """How far the re-verification of a scope has come, in order of creation, on the server's clock.

    `token` and `met` are set only inside an instant in which more than a page of items was created.
    """

    after: int = 0
    started_at: int | None = None
    verified_at: int | None = None
    token: str | None = None
    met: tuple[RemoteId, ...] = ()


class LogPosition(Struct, frozen=True, omit_defaults=True):
    """How far a list in order of writing was read: the instant from which it is held, and the last key of each part.

    `behind` when the last walk did not come to the end: then the next one asks for nothing twice, or it would stand
    still before more items than it may read.
    """

    floor: int
    keys: Mapping[str, str] = {}
    behind: bool = False


class Cursor(Struct, frozen=True):
    """Everything durable about one scope's position: `window` of a walk by update time or id, `log` of one by keys."""

    watermark: Position | None = None
    window: Window | None = None
    validator: Validator | None = None
    complete: bool = False
    census: Census = Census()
    log: LogPosition | None = None


def forward(current: Position | None, candidate: Position | None) -> Position | None:
    """Return the later of two positions: the only way a watermark moves."""
    if current is None or candidate is None:
        return candidate if current is None else current
    return max(current, candidate, key=order_key)


def order_key(position: Position) -> tuple[int, int, str]:
    """Compare positions whose ids are numbers by number and all others by text."""
    if isinstance(position.id, int):
        return position.at, position.id, ""
    return position.at, 0, position.id


def why_invalid(cursor: Cursor, now_ms: int) -> str | None:
    """Return why a cursor cannot be true, or None."""
    if cursor.watermark is None:
        return None
    if cursor.watermark.at < 0:
        return f"watermark {cursor.watermark.at} lies before the epoch"
    if cursor.watermark.at > now_ms + SKEW_MS:
        return f"watermark {cursor.watermark.at} lies in the future"
    return None


def backfilled(now_ms: int, safe_backfill_ms: int) -> Cursor:
    """Return what an invalid cursor is replaced by; replaying what follows is harmless."""
    return Cursor(watermark=Position(max(now_ms - safe_backfill_ms, 0), 0))


def parse_id(text: str) -> RemoteId:
    """Return an id as its source writes it: forges count, Bluesky names."""
    return int(text) if text.isascii() and text.isdecimal() else text


def encode_census(census: Census) -> str:
    """Return the stored form of a census."""
    return msgspec.json.encode(census).decode()


def decode_census(text: str) -> Census:
    """Return a stored census; one that cannot be read starts over, which only costs requests."""
    try:
        return msgspec.json.decode(text, type=Census)
    except msgspec.DecodeError:
        return Census()


def encode_log(position: LogPosition | None) -> str | None:
    """Return the stored form of a position in a log."""
    return None if position is None else msgspec.json.encode(position).decode()


def decode_log(text: str | None) -> LogPosition | None:
    """Return a stored position in a log, or None: without one the list is read from its beginning."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=LogPosition)
    except msgspec.DecodeError:
        return None


def encode_window(window: Window | None) -> str | None:
    """Return the stored form of a window."""
    return None if window is None else msgspec.json.encode(window).decode()


def decode_window(text: str | None) -> Window | None:
    """Return a stored window, or None: a window only saves work, so an unreadable one is dropped."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Window)
    except msgspec.DecodeError:
        return None
