"""How wide columns are. Owns who gives way on a narrow terminal; pure.

The last column takes what is left. Where that would be too little to read, the widest of the others give way, none of
them below its floor: what is to be seen whole has its own width for a floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tidelore.remote_text import shorten, width

Yields = Literal["beginning", "end"]

READABLE = 14
"""How much of the last column is worth more than the whole of the others."""
FLOOR = 12
"""How much of a name is seen at least."""


def fit(natural: Sequence[int], floors: Sequence[int], room: int) -> tuple[int, ...]:
    """Return the widths of columns that would like to be so wide, in a room; none is narrower than its floor."""
    *others, last = natural
    while room - sum(others) < min(last, READABLE):
        yielding = [at for at in range(len(others)) if others[at] > floors[at]]
        if not yielding:
            break
        others[max(yielding, key=lambda at: others[at])] -= 1
    return (*others, max(min(last, room - sum(others)), floors[len(others)]))


def clip(text: str, columns: int, yields: Yields) -> str:
    """Return text that takes at most so many columns, with a sign where some is missing."""
    if yields == "end" or width(text) <= columns:
        return shorten(text, columns)
    kept = text
    while width(kept) > columns - 1:
        kept = kept[1:]
    return f"…{kept}"
