"""How wide columns are. Owns who gives way on a narrow terminal; pure.

The last column takes what is left. Where that would be too little to read, columns that can be spared are left out, the
most dispensable first; then the widest of the others give way, none of them below its floor: what is to be seen whole
has its own width for a floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tidelore.core.text import shorten, shorten_start

Yields = Literal["beginning", "end"]

READABLE = 14
"""How much of the last column is worth more than the columns that can be spared."""
SHARE = 3
"""Which part of the room, a third, the last column has before long names are seen whole."""
NAME = 24
"""How long a name is that gives way only for the last column to be read at all."""
FLOOR = 12
"""How much of a name is seen at least."""


def choose(natural: Sequence[int], floors: Sequence[int], spare: Sequence[int], padding: int, room: int) -> list[int]:
    """Return the places of the columns that are shown in a room; what has a `spare` of 0 always is."""
    shown = list(range(len(natural)))
    for place in sorted((at for at in shown if spare[at]), key=lambda at: -spare[at]):
        *others, last = shown
        least = sum(floors[at] for at in others) + min(natural[last], READABLE)
        if least + padding * len(shown) <= room:
            break
        shown.remove(place)
    return shown


def fit(natural: Sequence[int], floors: Sequence[int], room: int) -> tuple[int, ...]:
    """Return the widths of columns that would like to be so wide, in a room; none is narrower than its floor."""
    *others, last = natural
    for wanted, least in ((room // SHARE, NAME), (READABLE, 0)):
        while room - sum(others) < min(last, wanted):
            yielding = [at for at in range(len(others)) if others[at] > max(floors[at], least)]
            if not yielding:
                break
            others[max(yielding, key=lambda at: others[at])] -= 1
    return (*others, max(min(last, room - sum(others)), floors[len(others)]))


def clip(text: str, columns: int, yields: Yields) -> str:
    """Return text cut to at most `columns`, with an ellipsis where it was cut."""
    return shorten(text, columns) if yields == "end" else shorten_start(text, columns)
