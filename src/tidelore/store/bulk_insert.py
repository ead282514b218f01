"""Statements for many rows at a time. Owns how an INSERT of one row becomes one of several; runs nothing.

SQLite's driver looks a statement up again for every row, and each time another one falls out of its small store of
prepared statements: an INSERT of several rows costs a third less, and what is prepared stays. Refuses what cannot be
repeated, such as an UPDATE, or an INSERT that names a value outside its row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any

SIZES = (16, 4, 1)
"""How many rows one statement may take. Few sizes, so that what is prepared is used again."""

_VALUES = " VALUES "
_PIECE = re.compile(r"'(?:[^']|'')*'|(?<!:):(\w+)|[()]")


@lru_cache(maxsize=256)
def repeated(sql: str, names: tuple[str, ...]) -> Mapping[int, str]:
    """Return an INSERT for each size of a group, its parameters numbered; none when it cannot be repeated."""
    head, _, rest = sql.partition(_VALUES)
    end = _closing(rest)
    if end is None or _has_parameters(head) or _has_parameters(rest[end:]):
        return {}
    places = {name: place for place, name in enumerate(names, 1)}

    def row(number: int) -> str:
        def numbered(piece: re.Match[str]) -> str:
            return piece[0] if piece[1] is None else f"?{places[piece[1]] + number * len(names)}"

        return _PIECE.sub(numbered, rest[:end])

    return {size: f"{head}{_VALUES}{', '.join(map(row, range(size)))}{rest[end:]}" for size in SIZES}


def grouped(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[int, list[Any]]]:
    """Yield rows in groups of the allowed sizes: how many they are, and their values one after the other."""
    left = iter(rows)
    while batch := list(islice(left, SIZES[0])):
        begin = 0
        for size in SIZES:
            while len(batch) - begin >= size:
                yield size, list(chain.from_iterable(batch[begin : begin + size]))
                begin += size


def _closing(text: str) -> int | None:
    """Return where the bracket ends that a text begins with."""
    depth = 0
    for piece in _PIECE.finditer(text if text.startswith("(") else ""):
        depth += (piece[0] == "(") - (piece[0] == ")")
        if depth == 0:
            return piece.end()
    return None


def _has_parameters(sql: str) -> bool:
    return any(piece[1] is not None for piece in _PIECE.finditer(sql))
