"""Benchmark `mirror`: a first mirror of lists against the floor, without and with latency.

Both are timed in turn, round after round, against one server whose pages are warm, and the medians are
compared: what disturbs the machine disturbs both.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.bare_store import BareStore
from benchmarks.findings import Finding
from benchmarks.floor import Requests, fetch_again, recorder, sorted_out
from benchmarks.scale import Scale
from benchmarks.workplace import copy_lists, served_world, stored
from benchmarks.world_server import half_and_half

BOUNDS = {0: 1.8, 20: 1.3}
"""The most a mirror may take of the time of the floor, by the latency in milliseconds."""


def run(scale: Scale) -> Iterator[Finding]:
    """Measure at each latency."""
    for latency_ms, bound in BOUNDS.items():
        with served_world(half_and_half(scale.items), latency_ms) as url, tempfile.TemporaryDirectory() as folder:
            yield from _compare(url, Path(folder), scale, f"{scale.items:,} items at {latency_ms} ms", bound)


def _compare(url: str, folder: Path, scale: Scale, title: str, bound: float) -> Iterator[Finding]:
    requests = _record(url, folder / "recorded.db", scale.items)
    fetch_again(url, requests)
    floors: list[float] = []
    bares: list[float] = []
    mirrors: list[float] = []
    for number in range(scale.rounds):
        floors.append(timed(lambda: fetch_again(url, requests)))
        bares.append(timed(lambda path=folder / f"bare-{number}.db": keep_barely(url, requests, path)))  # type: ignore[misc]
        path = folder / f"{number}.db"
        mirrors.append(timed(lambda path=path: copy_lists(url, path)))  # type: ignore[misc]
        path.unlink()
    yield Finding("mirror", f"{title}: mirror, median of {scale.rounds}", median(mirrors), "s")
    yield Finding("mirror", f"{title}: floor, {requests.total:,} requests", median(floors), "s")
    yield Finding("mirror", f"{title}: floor and a bare SQLite", median(bares), "s")
    yield Finding("mirror", f"{title}: floor and a bare SQLite / floor", median(bares) / median(floors), "x")
    yield Finding("mirror", f"{title}: mirror / floor", median(mirrors) / median(floors), "x", bound)


def _record(url: str, database: Path, items: int) -> Requests:
    """Mirror once with the requests recorded; that also warms the server's pages."""
    transport = recorder(url)
    report = copy_lists(url, database, transport)
    if stored(report) != items:
        raise RuntimeError(f"{stored(report)} of {items} items were mirrored")
    return sorted_out(transport.addresses)


def keep_barely(url: str, requests: Requests, path: Path) -> None:
    """Fetch again and keep what comes in a bare SQLite file."""
    store = BareStore(path)
    try:
        fetch_again(url, requests, store.keep)
    finally:
        store.close()


def timed(work: Callable[[], object]) -> float:
    """Return how many seconds something takes."""
    gc.collect()
    started = perf_counter()
    work()
    return perf_counter() - started
