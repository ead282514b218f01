"""Benchmark `postgres`: PostgreSQL against SQLite: a first mirror, the speed and the quality of search.

Both databases take turns in one run. The server is the one of the tests, private to this run and in memory where that
is possible, so neither side waits for a disk. Search is measured in processor time of this process and of the server
together, because that is what a query costs whatever else runs; copies get there by the product's own `lore move`.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from time import clock_gettime, process_time

from msgspec import Struct
from tests.databases.postgres_server import PostgresServer, running_server

from benchmarks.conversations import contents_of
from benchmarks.findings import Finding
from benchmarks.meaning import embed, find_embedder
from benchmarks.mirror import timed
from benchmarks.scale import Scale
from benchmarks.search import modes_of
from benchmarks.search_corpus import fill
from benchmarks.search_quality import SETS, Quality, measure
from benchmarks.workplace import app_of, copy_world, served_world
from tidelore.app.mirroring import document
from tidelore.app.storage.moving import move_database
from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.embedding.local import LocalEmbedder
from tidelore.search.find import SearchMode
from tidelore.store.database.opening import open_database

MIRROR_BOUND = 1.5
P95_BOUND_MS = 50.0
QUALITY_BOUND = 1.0
"""How many points of quality PostgreSQL may lack."""
_TICK = os.sysconf("SC_CLK_TCK")


class Cost(Struct, frozen=True):
    """What a first mirror takes: by the clock, and in processor time of this process, the server and the forge."""

    seconds: float
    ours: float
    server: float
    forge: float

    @property
    def processor(self) -> float:
        return self.ours + self.server + self.forge


def run(scale: Scale) -> Iterator[Finding]:
    """Measure the mirror first, then search."""
    with running_server() as server:
        yield from _compare_mirrors(server, scale)
        embedder = find_embedder()
        yield from _compare_quality(server, embedder)
        yield from _time_search(server, scale.histories[-1], embedder)


def _compare_mirrors(server: PostgresServer, scale: Scale) -> Iterator[Finding]:
    count = scale.merge_requests // 4
    costs: dict[str, list[Cost]] = {"SQLite": [], "PostgreSQL": []}
    with served_world(contents_of(count)) as url, tempfile.TemporaryDirectory() as folder:
        for number in range(scale.passes + 1):
            costs["SQLite"].append(_mirror(server, url, str(Path(folder) / f"{number}.db")))
            with server.fresh_database() as address:
                costs["PostgreSQL"].append(_mirror(server, url, address))
    # The first round warms the simulated server.
    costs = {name: found[1:] for name, found in costs.items()}
    for name, found in costs.items():
        title = f"first mirror of {count} merge requests with documents, {name}"
        yield Finding("postgres", f"{title}, median of {scale.passes}", median(one.seconds for one in found), "s")
        yield Finding("postgres", f"{title}: our processor time", median(one.ours for one in found), "s")
    server_time = median(one.server for one in costs["PostgreSQL"])
    yield Finding("postgres", "the same: processor time of the PostgreSQL server", server_time, "s")
    ratio = median(one.seconds for one in costs["PostgreSQL"]) / median(one.seconds for one in costs["SQLite"])
    yield Finding("postgres", "first mirror by the clock, PostgreSQL / SQLite", ratio, "x", MIRROR_BOUND)
    ratio = median(one.processor for one in costs["PostgreSQL"]) / median(one.processor for one in costs["SQLite"])
    title = "the same in processor time, with that of the simulated forge"
    yield Finding("postgres", title, ratio, "x", MIRROR_BOUND)


def _mirror(server: PostgresServer, url: str, address: str) -> Cost:
    ours, theirs, forge = process_time(), server_time(server), _forge_time(server)
    seconds = timed(lambda: _mirror_with_documents(url, address))
    return Cost(seconds, process_time() - ours, server_time(server) - theirs, _forge_time(server) - forge)


def _forge_time(server: PostgresServer) -> float:
    """Return the processor time of the other process that this one started: the simulated forge."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(clock_gettime(_clock_of(int(pid))) for pid in children if int(pid) != server.pids()[0])


def _mirror_with_documents(url: str, address: str) -> None:
    copy_world(url, address)
    asyncio.run(document(app_of(url, address), full=False, force=False))


def server_time(server: PostgresServer) -> float:
    """Return the processor time of a server: of its first process, of those that ended, and of those that run."""
    first, *others = server.pids()
    total = sum(_ticks(first))
    for pid in others:
        with suppress(FileNotFoundError):
            total += sum(_ticks(pid)[:2])
    return total / _TICK


def _ticks(pid: int) -> list[int]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def _compare_quality(server: PostgresServer, embedder: LocalEmbedder | None) -> Iterator[Finding]:
    """Judge every set in both databases."""
    for name, fill_set in SETS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lore.db"
            kinds = fill_set(path)
            if embedder is not None:
                embed(path, embedder)
            questions = [question for kind in kinds.values() for question in kind]
            expected = measure(str(path), questions, embedder)
            with server.fresh_database() as address:
                _move(path, address)
                yield from _lack(f"{name}, PostgreSQL", expected, measure(address, questions, embedder))


def _lack(title: str, expected: dict[SearchMode, Quality], found: dict[SearchMode, Quality]) -> Iterator[Finding]:
    for mode, quality in found.items():
        for measured in Quality.__struct_fields__:
            lack = (getattr(expected[mode], measured) - getattr(quality, measured)) * 100
            yield Finding("postgres", f"{title}, {mode}: {measured} below SQLite's", lack, "%", QUALITY_BOUND)


def _move(path: Path, address: str) -> None:
    app = App(Config(), {}, db=str(path))
    report, error = move_database(app, address)
    if error is not None or not report.complete:
        raise RuntimeError(f"the copy was not moved: {error}")


def _time_search(server: PostgresServer, count: int, embedder: LocalEmbedder | None) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        queries = fill(path, count)
        if embedder is not None:
            embed(path, embedder)
        with server.fresh_database() as address:
            _move(path, address)
            yield from _time_queries(address, queries, f"{count:,} documents", embedder)


def _time_queries(
    address: str, queries: Sequence[str], title: str, embedder: LocalEmbedder | None
) -> Iterator[Finding]:
    database = open_database(address)
    try:
        # All work of a query is done by one process of the server, whose time is counted.
        database.script("SET max_parallel_workers_per_gather = 0")
        clock = _clock_of(database.read("SELECT pg_backend_pid()")[0][0])
        asked = modes_of(database, embedder)
        for name, ask in asked.items():
            for query in queries[:3]:
                ask(query)
            costs = [_cost(clock, partial(ask, query)) for query in queries]
            place = int(len(costs) * 0.95)
            yield Finding("postgres", f"search {name}, {title}: mean", sum(costs) / len(costs) * 1000, "ms")
            yield Finding("postgres", f"search {name}, {title}: p95", sorted(costs)[place] * 1000, "ms", P95_BOUND_MS)
    finally:
        database.close()


def _cost(server_clock: int, work: Callable[[], object]) -> float:
    """Return the processor time of a query, ours and that of the server."""
    ours, theirs = process_time(), clock_gettime(server_clock)
    work()
    return process_time() - ours + clock_gettime(server_clock) - theirs


def _clock_of(pid: int) -> int:
    """Return the number of the clock that counts the processor time of a process (Linux)."""
    return (~pid << 3) | 2
