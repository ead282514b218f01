"""Benchmark `conversations`: a first mirror of merge requests with all that hangs on them, and a second one.

Counted are requests: of the first pass against the least possible, of a second pass without change. Timed is the
first pass against the floor, in turn, round after round, against one server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from statistics import median

import apsw

from benchmarks.findings import Finding
from benchmarks.floor import PER_PAGE, fetch_again, recorder, sorted_out
from benchmarks.mirror import keep_barely, timed
from benchmarks.scale import Scale
from benchmarks.workplace import children_stored, copy_world, served_world, stored
from benchmarks.world_server import Contents
from tidelore.sources.gitlab.source import GitLabSource
from tidelore.sources.gitlab.surfaces import LISTS

RATIO_BOUNDS = {0: 1.3, 20: 1.15}
"""The most a mirror may take of the time of the floor, by the latency in milliseconds."""
FIRST_PASS_BOUND = 1.01
AGAIN_BOUND = 3
PASSES = 4
LEFT_OUT = ("reviewers", "positions")
"""Off by default, and read only after GraphQL: this benchmark has no token, so it uses REST."""


def contents_of(merge_requests: int) -> Contents:
    """Return merge requests with 5 discussions of 3 notes each, events and files; one issue for 20 of them."""
    return Contents(merge_requests // 20, merge_requests, discussions=5, notes=3, events=2, files=4)


def least_requests(contents: Contents) -> int:
    """Return the least that brings everything: the project, the lists' pages, one page for each list of children.

    Statuses come a page at a time too.
    """
    pages = ceil(contents.issues / PER_PAGE) + ceil(contents.merge_requests / PER_PAGE)
    statuses = ceil(contents.issues / PER_PAGE)
    under = contents.issues * _lists_under("issues") + contents.merge_requests * _lists_under("merge_requests")
    return 1 + pages + statuses + under


def run(scale: Scale) -> Iterator[Finding]:
    """Measure at each latency; what is counted does not depend on it."""
    contents = contents_of(scale.merge_requests)
    for number, (latency_ms, bound) in enumerate(RATIO_BOUNDS.items()):
        with served_world(contents, latency_ms) as url, tempfile.TemporaryDirectory() as folder:
            title = f"{contents.merge_requests:,} MRs at {latency_ms} ms"
            database = Path(folder) / "recorded.db"
            requests = _record(url, database, contents)
            if number == 0:
                yield from _count(url, database, requests, contents)
            yield from _compare(url, Path(folder), requests, scale.passes, title, bound)


def _record(url: str, database: Path, contents: Contents) -> list[str]:
    """Mirror once with the requests recorded; that also warms the server."""
    transport = recorder(url)
    report = copy_world(url, database, transport)
    expected = contents.items * contents.discussions
    if stored(report) != contents.items or children_stored(report) < expected:
        raise RuntimeError(f"{stored(report)} items with {children_stored(report)} children were mirrored")
    return transport.addresses


def _count(url: str, database: Path, first: list[str], contents: Contents) -> Iterator[Finding]:
    least = least_requests(contents)
    yield Finding("conversations", "requests of the first pass", len(first))
    yield Finding(
        "conversations", "requests of the first pass / the least possible", len(first) / least, "x", FIRST_PASS_BOUND
    )
    soon = _pass_again(url, database, PASSES)
    yield Finding("conversations", "requests of a pass without change, the most of 4", max(soon), bound=AGAIN_BOUND)
    _age_events(database)
    late = _pass_again(url, database, 3 * PASSES)
    mean = sum(late) / len(late)
    yield Finding("conversations", "the same when events have their turn, mean of 12", mean, bound=AGAIN_BOUND)


def _pass_again(url: str, database: Path, times: int) -> list[int]:
    """Return what each of several passes without change costs: verification has another turn in each."""
    passes = [copy_world(url, database) for _ in range(times)]
    if any(stored(again) or children_stored(again) for again in passes):
        raise RuntimeError("a pass without change stored something")
    return [again.requests for again in passes]


def _age_events(database: Path) -> None:
    """Make the events those that were not verified for the longest time: they cost three requests at once."""
    connection = apsw.Connection(str(database))
    connection.execute(
        "UPDATE child_sync SET last_attempt_at = 1 WHERE parent_kind = 'merge_requests' AND kind = 'resource_events'"
    )
    connection.close()


def _compare(url: str, folder: Path, recorded: list[str], rounds: int, title: str, bound: float) -> Iterator[Finding]:
    requests = sorted_out(recorded)
    floors: list[float] = []
    bares: list[float] = []
    mirrors: list[float] = []
    for number in range(rounds):
        floors.append(timed(lambda: fetch_again(url, requests)))
        bares.append(timed(lambda path=folder / f"bare-{number}.db": keep_barely(url, requests, path)))  # type: ignore[misc]
        mirrors.append(timed(lambda path=folder / f"{number}.db": copy_world(url, path)))  # type: ignore[misc]
    floor, bare, mirror = median(floors), median(bares), median(mirrors)
    yield Finding("conversations", f"{title}: mirror, median of {rounds}", mirror, "s")
    yield Finding("conversations", f"{title}: floor, {requests.total:,} requests", floor, "s")
    yield Finding("conversations", f"{title}: floor and a bare SQLite / floor", bare / floor, "x")
    yield Finding("conversations", f"{title}: mirror / floor", mirror / floor, "x", bound)


def _lists_under(resource: str) -> int:
    return sum(len(LISTS[name]) for name in GitLabSource.resources[resource].children if name not in LEFT_OUT)
