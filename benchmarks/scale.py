"""How big a run of the benchmarks is. Owns the sizes; the bounds are the same at every size."""

from __future__ import annotations

from msgspec import Struct


class Scale(Struct, frozen=True):
    """Sizes of one run."""

    items: int
    rounds: int
    histories: tuple[int, ...]
    starts: int


FULL = Scale(items=20_000, rounds=7, histories=(1_000, 10_000, 100_000), starts=25)
QUICK = Scale(items=4_000, rounds=5, histories=(1_000, 4_000), starts=15)
