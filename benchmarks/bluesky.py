"""Benchmark `bluesky`: what following accounts costs in time, requests and memory, and by the stream for each post.

Cycles are whole commands on a new SQLite file, without documents, which a later stage makes. Wherever a time is taken
the network is a process of its own; where requests are counted, a day passes at once.
"""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

from msgspec import Struct

from benchmarks.findings import Finding
from benchmarks.followed import CONCURRENCY, cycle, follow, follower, network, peak_of_cycles, stream_rate
from benchmarks.network import Crowd, Text, build, habit_of, happen, write_texts
from benchmarks.scale import Scale
from tidelore.app.accounts import open_network
from tidelore.app.wiring import App
from tidelore.core.clock import SystemClock
from tidelore.core.errors import RemotePermanent
from tidelore.engine.ports import ListRequest
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import list_accounts
from tidelore_world.bluesky.ids import did_of
from tidelore_world.server import serve
from tidelore_world.world import World

ACCOUNTS = 342
LATENCY_MS = 50.0
NEWS = 75
"""How many posts there are between two cycles."""
ROUNDS = 5
CYCLE_SECONDS = 900
CYCLE_BOUND = 1.3
REQUESTS_BOUND = 1 / 3
MEMORY_BOUND = 1.10
LINEAR_BOUND = 1.3
POST_BOUND_US = 200.0
"""5,000 posts a second."""


class Taken(Struct, frozen=True):
    """One cycle against the least it could take; `worked` is its processor time, which no waiting hides."""

    seconds: float
    worked: float
    requests: int
    posts: int

    @property
    def ratio(self) -> float:
        return self.seconds / self.least

    @property
    def least(self) -> float:
        return math.ceil(self.requests / CONCURRENCY) * LATENCY_MS / 1000


class WorldTime(SystemClock):
    """The hours of a world that is in this process, the seconds of the machine."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.clock.now_us // 1000


def run(scale: Scale) -> Iterator[Finding]:
    """Cycles, requests, very many accounts, the stream."""
    yield from cycles(max(scale.passes, ROUNDS))
    yield from a_day(hours=24 if scale.accounts > 10_000 else 8)
    yield from very_many(scale.accounts)
    yield from streaming(scale.streamed)


def cycles(rounds: int) -> Iterator[Finding]:
    """A first cycle and a regular one that asks everybody, at the latency of servers that are far away.

    The best of the rounds counts: the least is known and not measured, so whatever else a machine does only adds.
    """
    floors: list[float] = []
    found: dict[str, list[Taken]] = {"first": [], "regular": []}
    for seed in range(rounds):
        # A network for each round: its clock goes on when people talk.
        with network(Crowd(mixed=ACCOUNTS), LATENCY_MS) as url, tempfile.TemporaryDirectory() as folder:
            app = follower(url, Path(folder) / "lore.db")
            follow(app, ACCOUNTS)
            floors.append(asyncio.run(_floor(app)))
            found["first"].append(_timed(app))
            _talk(url, seed)
            found["regular"].append(_timed(app, everyone=True))
    yield Finding("bluesky", f"first cycle: its requests, nothing stored, best of {rounds}", min(floors), "s")
    for name, takes in found.items():
        taken = min(takes, key=lambda one: one.ratio)
        yield Finding("bluesky", f"{name} cycle, {ACCOUNTS} accounts, {taken.posts:,} posts", taken.seconds, "s")
        yield Finding("bluesky", f"{name} cycle: processor time", taken.worked, "s")
        yield Finding("bluesky", f"{name} cycle: ceil({taken.requests} / {CONCURRENCY}) x latency", taken.least, "s")
        yield Finding("bluesky", f"{name} cycle / that", taken.ratio, "x", CYCLE_BOUND)
        yield Finding("bluesky", f"{name} cycle / that, median", median(one.ratio for one in takes), "x")


def a_day(hours: int) -> Iterator[Finding]:
    """Regular cycles while the accounts go on as they did: requests against one for each account in each cycle."""
    world = build(Crowd(mixed=ACCOUNTS), SystemClock().now_ms())
    rng, texts = random.Random(11), write_texts(world)
    requests, oldest_ms, posts = 0, 0, 0
    with serve(world) as server, tempfile.TemporaryDirectory() as folder:
        app = follower(server.url, Path(folder) / "lore.db", WorldTime(world))
        follow(app, ACCOUNTS)
        cycle(app)
        rounds = hours * 3600 // CYCLE_SECONDS
        for _ in range(rounds):
            _go_on(world, rng, texts)
            report = cycle(app)
            requests, posts = requests + report.requests, posts + report.posts
            oldest_ms = max(oldest_ms, app.clock.now_ms() - _oldest_poll(app.open_store()))
        bound_minutes = app.config.bluesky.max_staleness_minutes
    each = requests / rounds
    yield Finding("bluesky", f"{hours} hours of cycles: posts of each, mean", posts / rounds)
    yield Finding("bluesky", f"{hours} hours of cycles: requests of each, mean", each)
    yield Finding("bluesky", "requests of a cycle / accounts", each / ACCOUNTS, "x", REQUESTS_BOUND)
    yield Finding("bluesky", "longest that an account was not asked", oldest_ms / 60_000, "min", bound_minutes)


def very_many(accounts: int) -> Iterator[Finding]:
    """Two cycles over many accounts in a process of their own, and over a fifth of them."""
    few, many = peak_of_cycles(accounts // 5), peak_of_cycles(accounts)
    yield Finding("bluesky", f"cycle of {accounts:,} accounts", many.seconds, "s")
    yield Finding(
        "bluesky", f"for each account, of {accounts:,} / of {accounts // 5:,}", many.each / few.each, "x", LINEAR_BOUND
    )
    yield Finding("bluesky", f"peak of the first cycle, {accounts:,} accounts", many.first_mb, "MB")
    yield Finding("bluesky", "peak of the second / of the first", many.second_mb / many.first_mb, "x", MEMORY_BOUND)
    yield Finding("bluesky", f"peak with {accounts:,} / with {accounts // 5:,}", many.second_mb / few.second_mb, "x")


def streaming(posts: int) -> Iterator[Finding]:
    """Posts that the stream tells, stored with their links and the place that covers them."""
    seconds = stream_rate(ACCOUNTS, posts)
    yield Finding("bluesky", f"stream: {posts:,} posts stored, a second", posts / seconds)
    yield Finding("bluesky", "stream: microseconds for each", seconds / posts * 1e6, "us", POST_BOUND_US)


def _timed(app: App, *, everyone: bool = False) -> Taken:
    before = time.process_time()
    report = cycle(app, everyone=everyone)
    return Taken(report.seconds, time.process_time() - before, report.requests, report.posts)


def _talk(url: str, seed: int) -> None:
    address = f"{url}/_sim/bluesky/change?seed={seed}&count={NEWS}&kinds=post"
    with urllib.request.urlopen(urllib.request.Request(address, method="POST")) as answer:
        answer.read()


def _go_on(world: World, rng: random.Random, texts: list[Text]) -> None:
    """Let everybody post as often as they do, and the time of a cycle pass."""
    with world.lock:
        world.advance(CYCLE_SECONDS)
        for index in range(ACCOUNTS):
            habit = habit_of(index, ACCOUNTS)
            for _ in range(happen(habit.posts_a_day * CYCLE_SECONDS / 86_400, rng) if habit else 0):
                text = rng.choice(texts)
                at_us = world.clock.now_us - rng.randrange(CYCLE_SECONDS * 1_000_000)
                world.bluesky.post(f"account{index}.example", text.words, external=text.card, at_us=at_us)


def _oldest_poll(database: Database) -> int:
    """Return when the account was asked that was not asked for the longest time; whoever is gone does not count."""
    try:
        rows = list_accounts(database)
    finally:
        database.close()
    return min(row.last_polled_at or 0 for row in rows if row.state != "unavailable")


async def _floor(app: App) -> float:
    """Return how long the requests of a first cycle take by themselves, read and understood."""
    since = app.clock.now_ms() - round(app.config.bluesky.initial_lookback_hours * 3_600_000)
    left = iter(range(ACCOUNTS))

    async def work(source: BlueskySource) -> None:
        for index in left:
            feed = source.author_feed(did_of(f"account{index}.example"), app.config.bluesky.posts_per_page)
            token, at = None, since
            with suppress(RemotePermanent):
                while at >= since:
                    page = await feed.fetch(ListRequest(token=token))
                    token = page.next_token
                    at = page.items[-1].at if token is not None else 0

    async with open_network(app, "benchmark") as opened:
        began = app.clock.monotonic()
        await asyncio.gather(*(work(opened.source) for _ in range(CONCURRENCY)))
        return app.clock.monotonic() - began
