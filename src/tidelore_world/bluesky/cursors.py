"""Feed cursors: opaque page tokens that lead into the past, in the two forms real servers use.

Owns writing and reading them. Pure. Invariants: a cursor names the last item of a page by (sort time, CID),
so items that share a sort time are paged without loss; what a server did not write itself it cannot read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

from tidelore_world.bluesky.ids import cid_rank
from tidelore_world.clock import iso_millis, parse_iso

Place = tuple[int, str]
"""Sort time in milliseconds, and CID."""

_KEYSET = re.compile(r"(\d{1,15})__(b[a-z2-7]{8,})")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})(\d{9})?Z")


def write_cursor(form: Literal["millis__cid", "iso"], place: Place) -> str:
    """The cursor behind an item. The ISO form tells items of one millisecond apart by further decimals."""
    millis, cid = place
    if form == "millis__cid":
        return f"{millis}__{cid}"
    return f"{iso_millis(millis * 1000)[:-1]}{cid_rank(cid):09d}Z"


def read_cursor(form: Literal["millis__cid", "iso"], text: str, places: Sequence[Place]) -> int:
    """How many of the ascending `places` lie before the cursor, that is, further in the past.

    Raises ValueError when the cursor is not of this form.
    """
    if form == "millis__cid":
        keyset = _KEYSET.fullmatch(text)
        if keyset is None:
            raise ValueError(f"malformed cursor: {text!r}")
        return bisect_left(places, (int(keyset[1]), keyset[2]))
    instant = _ISO.fullmatch(text)
    if instant is None:
        raise ValueError(f"malformed cursor: {text!r}")
    millis = parse_iso(f"{instant[1]}Z") // 1000
    rank = (millis, int(instant[2] or 0))
    return bisect_left(places, rank, key=lambda place: (place[0], cid_rank(place[1])))
