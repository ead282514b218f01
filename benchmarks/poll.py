"""Benchmark `poll`: what a poll without change costs in requests, for short and for long histories.

The bound is the cost with the shortest history: a longer one may not cost one request more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from benchmarks.workplace import copy_lists, copy_world, count_children_as_read, served_world, stored
from benchmarks.world_server import half_and_half


def run(scale: Scale) -> Iterator[Finding]:
    """Mirror each history, then poll it."""
    costs = {items: _cost(items) for items in scale.histories}
    constant = costs[min(costs)]
    for items, cost in costs.items():
        yield Finding("poll", f"requests of a poll, {items:,} items", cost, bound=constant)


def _cost(items: int) -> int:
    with served_world(half_and_half(items)) as url, tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "lore.db"
        first = copy_lists(url, database)
        if stored(first) != items:
            raise RuntimeError(f"{stored(first)} of {items} items were mirrored")
        count_children_as_read(database)
        # Two, because the first poll after a mirror may know less (validators) than every later one.
        polls = [copy_world(url, database) for _ in range(2)]
    if any(stored(poll) for poll in polls):
        raise RuntimeError("a poll without change stored something")
    return max(poll.requests for poll in polls)
