"""Positions in the repository of an account: the last record key of each collection. Pure.

A record key is mostly a TID, which sorts by its instant; an author may choose another, or a clock may lie, so only keys
of the believable past move a position.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tidelore.engine.cursor import SKEW_MS, LogPosition
from tidelore.sources.bluesky.payloads import POST, REPOST, tid_instant

COLLECTIONS = (POST, REPOST)
OVERLAP_MS = 120_000
"""How far before a position is asked again: keys and dates are made by the authors' clocks, which go slow."""

_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"


def key_before(instant_ms: int) -> str | None:
    """Return the greatest record key before an instant; None when there is none, as before the beginning."""
    number = (instant_ms * 1000 << 10) - 1
    if number < 0:
        return None
    return "".join(_DIGITS[number >> shift & 31] for shift in range(60, -1, -5))


def start_key(reach: LogPosition, collection: str) -> str | None:
    """Return the record key behind which a collection is read on; None for its beginning."""
    last = reach.keys.get(collection)
    if last is None:
        return key_before(reach.floor)
    written_at = tid_instant(last)
    return last if written_at is None or reach.behind else key_before(written_at - OVERLAP_MS)


def advance(reach: LogPosition, collection: str, keys: Iterable[str], server_at: int | None) -> LogPosition:
    """Return the reach after a page: at its last key that is a TID and not of the server's own days to come."""
    known = reach.keys.get(collection, "")
    believed = [
        key
        for key in keys
        if (written_at := tid_instant(key)) is not None and (server_at is None or written_at <= server_at + SKEW_MS)
    ]
    last = max([known, *believed])
    return reach if last == known else replace(reach, keys={**reach.keys, collection: last})
