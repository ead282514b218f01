"""How far an account was read, as its cursor keeps it. Pure.

Owns the meaning of a Bluesky cursor's `reading`: since when the copy holds an account (`floor`, by the instant of
writing), and for the repository the last record key of each collection. A record key is mostly a TID, which sorts by
its instant; an author may choose another, or a clock may lie, so only keys of the believable past move a position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tidelore.engine.cursor import SKEW_MS, Cursor, Window
from tidelore.sources.bluesky.addresses import tid_instant
from tidelore.sources.bluesky.payloads import POST, REPOST

COLLECTIONS = (POST, REPOST)
OVERLAP_MS = 120_000
"""How far before a position is asked again: keys and dates are made by the authors' clocks, which go slow."""

_BEHIND = "behind"

_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"


class Reach(Struct, frozen=True):
    """Since when an account is held, and how far each collection of its repository was read.

    `behind` when the last walk did not come to the end: then the next one asks for nothing twice, or it would stand
    still before more records than it may read.
    """

    floor: int
    keys: Mapping[str, str] = {}
    behind: bool = False


def key_before(instant_ms: int) -> str | None:
    """Return the greatest record key before an instant; None when there is none, as before the beginning."""
    number = (instant_ms * 1000 << 10) - 1
    if number < 0:
        return None
    return "".join(_DIGITS[number >> shift & 31] for shift in range(60, -1, -5))


def reach_of(cursor: Cursor) -> Reach | None:
    """Return what a cursor says of how far an account was read; None when it was not."""
    window = cursor.window
    if window is None or window.since is None:
        return None
    pairs = [pair.partition("=") for pair in (window.token or "").split(",") if "=" in pair]
    return Reach(window.since, {collection: key for collection, _, key in pairs}, window.before == _BEHIND)


def with_reach(cursor: Cursor, reach: Reach) -> Cursor:
    """Return a cursor that says it. (A record key holds neither comma nor equals sign.)"""
    token = ",".join(f"{collection}={key}" for collection, key in reach.keys.items())
    before = _BEHIND if reach.behind else ""
    return replace(cursor, window=Window(0, reach.floor, token=token or None, before=before))


def start_key(reach: Reach, collection: str) -> str | None:
    """Return the record key behind which a collection is read on; None for its beginning."""
    last = reach.keys.get(collection)
    if last is None:
        return key_before(reach.floor)
    written_at = tid_instant(last)
    return last if written_at is None or reach.behind else key_before(written_at - OVERLAP_MS)


def advance(reach: Reach, collection: str, keys: Iterable[str], server_at: int | None) -> Reach:
    """Return the reach after a page: at its last key that is a TID and not of the server's own days to come."""
    known = reach.keys.get(collection, "")
    believed = [
        key
        for key in keys
        if (written_at := tid_instant(key)) is not None and (server_at is None or written_at <= server_at + SKEW_MS)
    ]
    last = max([known, *believed])
    return reach if last == known else replace(reach, keys={**reach.keys, collection: last})
