"""The durable position of a scope: its fields, how positions compare, and when a cursor is invalid.

Invariant 4: a watermark never moves backwards except by a logged reset. Invariant 5: only remote timestamps move it. An
invalid cursor is replaced by `now - safe backfill`, never by 'latest'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.model import Position, RemoteId

P = TypeVar("P", bound=Struct)

SKEW_MS = 5 * 60 * 1000
"""How far a remote timestamp may be in the future before it is ignored."""


class Validator(Struct, frozen=True):
    """An ETag and the full URL it belongs to; it is not valid for any other URL."""

    url: str
    etag: str


class Window(Struct, frozen=True, omit_defaults=True):
    """The half-open span that is being read, and the progress of the current pass over it.

    `instant` is the last instant that belongs to the window; `token` the next page inside it; `seen` and `before` are
    digests of this pass and of the last complete one; `top` is the greatest position of the pass.
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
    """A span of a newest-first list known to be incomplete, and the token from which to continue."""

    top: Position | None
    token: str | None
    floor: int | None


class Census(Struct, frozen=True, omit_defaults=True):
    """Progress of the re-verification of a scope, in order of creation, by the server's clock.

    `token` and `met` are set only inside an instant in which more than a page of items was created. A list that is
    read by key is verified by key: `part` is the part that is being read, `token` the key after which it continues.
    `failed_at`: the last attempt failed, and the next one is due as if the scope had been verified then; `is_refused`:
    the server refused it, and would refuse the children of its items too.
    """

    after: int = 0
    started_at: int | None = None
    verified_at: int | None = None
    token: str | None = None
    met: tuple[RemoteId, ...] = ()
    part: str = ""
    failed_at: int | None = None
    is_refused: bool = False


class LogPosition(Struct, frozen=True, omit_defaults=True):
    """Progress in a list that is read in write order.

    `floor` is the instant from which the list is stored, `keys` the last key of each part. `behind` is set when the
    last walk did not reach the end: then the next walk must not request anything twice, or it could never get past a
    block with more items than one walk may read.
    """

    floor: int
    keys: Mapping[str, str] = {}
    behind: bool = False


class Cursor(Struct, frozen=True):
    """The durable position of one scope: `window` for walks by update time or id, `log` for walks by key.

    `horizon` is how far into the past the list is read: items last updated before it are left out, unless they are
    stored already. 0 means everything.
    """

    watermark: Position | None = None
    window: Window | None = None
    validator: Validator | None = None
    complete: bool = False
    census: Census = Census()
    log: LogPosition | None = None
    horizon: int = 0


def move_horizon(cursor: Cursor, gaps: Sequence[Gap], wanted: int) -> tuple[Cursor, Sequence[Gap]] | None:
    """Return the position and its gaps for another horizon, or None if they stay as they are.

    An earlier horizon starts the list over, which is how the older items are found. A later one only shortens the first
    reading of a list: what was read before is kept, and stays complete.
    """
    if wanted < cursor.horizon:
        return Cursor(census=cursor.census, horizon=wanted), ()
    behind = cursor.watermark is None or cursor.watermark.at < wanted
    if wanted == cursor.horizon or cursor.complete or not behind:
        return None
    started = replace(cursor, watermark=None, window=None, validator=None, horizon=wanted)
    return started, [*gaps[:-1], *(replace(gap, floor=wanted) for gap in gaps[-1:])]


def forward(current: Position | None, candidate: Position | None) -> Position | None:
    """Return the later of two positions. Watermarks must only move through this function."""
    if current is None or candidate is None:
        return candidate if current is None else current
    return max(current, candidate, key=order_key)


def order_key(position: Position) -> tuple[int, int, str]:
    """Return a sort key for positions: numeric ids compare as numbers, all others as text."""
    if isinstance(position.id, int):
        return position.at, position.id, ""
    return position.at, 0, position.id


def why_invalid(cursor: Cursor, now_ms: int) -> str | None:
    """Return why a cursor is invalid, or None."""
    if cursor.watermark is None:
        return None
    if cursor.watermark.at < 0:
        return f"watermark {cursor.watermark.at} is before the epoch"
    if cursor.watermark.at > now_ms + SKEW_MS:
        return f"watermark {cursor.watermark.at} is in the future"
    return None


def backfilled(now_ms: int, safe_backfill_ms: int) -> Cursor:
    """Return the replacement for an invalid cursor; re-reading what follows it is harmless."""
    return Cursor(watermark=Position(max(now_ms - safe_backfill_ms, 0), 0))


def parse_id(text: str) -> RemoteId:
    """Return an id in its source's type: forges use numbers, Bluesky uses text."""
    return int(text) if text.isascii() and text.isdecimal() else text


def encode(part: Struct | None) -> str | None:
    """Serialise a part of a cursor: a window, a census or a log position."""
    return None if part is None else msgspec.json.encode(part).decode()


def decode(text: str | None, shape: type[P]) -> P | None:
    """Parse a part of a cursor, or return None. A part only saves work, so an unreadable one is dropped."""
    try:
        return msgspec.json.decode(text, type=shape) if text else None
    except msgspec.DecodeError:
        return None
