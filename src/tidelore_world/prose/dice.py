"""Cheap draws from one random generator.

Owns every use of randomness in the prose: the same generator state gives the same draws. Built on
`random()` alone because `choice` and `randrange` cost several times as much in a large world.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Draws items, numbers and chances."""

    __slots__ = ("_random", "_rng")

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._random = rng.random

    def pick(self, items: Sequence[Item]) -> Item:
        """Draw one item."""
        return items[int(self._random() * len(items))]

    def chance(self, probability: float) -> bool:
        """Say yes with this probability."""
        return self._random() < probability

    def between(self, low: int, high: int) -> int:
        """Draw a whole number, both ends included."""
        return low + int(self._random() * (high - low + 1))

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Draw different items, at most as many as there are."""
        return self._rng.sample(items, min(count, len(items)))

    def hexadecimal(self, digits: int) -> str:
        """Draw a hexadecimal number of exactly this many digits."""
        return f"{self._rng.getrandbits(4 * digits):0{digits}x}"
