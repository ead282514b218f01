"""How big a run of the benchmarks is. Owns the sizes; the bounds are the same at every size."""

from __future__ import annotations

from msgspec import Struct


class Scale(Struct, frozen=True):
    """Sizes of one run. `merge_requests` have conversations, in a copy to be read there are `few` or `many` notes.

    Of `accounts` there are very many; as many posts are `streamed`, and as many `vectors` compared.
    """

    items: int
    rounds: int
    histories: tuple[int, ...]
    starts: int
    merge_requests: int
    passes: int
    few_notes: int
    many_notes: int
    accounts: int
    streamed: int
    vectors: int


FULL = Scale(
    items=20_000,
    rounds=7,
    histories=(1_000, 10_000, 100_000),
    starts=25,
    merge_requests=2_000,
    passes=3,
    few_notes=10_000,
    many_notes=1_000_000,
    accounts=50_000,
    streamed=50_000,
    vectors=1_000_000,
)
QUICK = Scale(
    items=4_000,
    rounds=5,
    histories=(1_000, 4_000),
    starts=15,
    merge_requests=200,
    passes=3,
    few_notes=10_000,
    many_notes=100_000,
    accounts=2_500,
    streamed=15_000,
    vectors=200_000,
)
