"""The event stream, followed by real processes that are killed again and again: nothing lost, nothing doubled.

The network goes on all the time: posts, edits and deletions, also while nobody listens. What the stream told is
compared with the network's own truth; no poll helps.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import Ended, Process, wait_until
from tests.properties.effort import is_deep
from tests.support.deep import gate_cases

from tidelore.core.clock import SystemClock, format_instant
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.check import check_database
from tidelore_world.bluesky.records import POST, REPOST
from tidelore_world.server import Server, serve
from tidelore_world.world import World

NAMES = tuple(f"reader{number}.test" for number in range(12))
DEATHS = 50 if is_deep() else 4


class Harbour:
    """A served network, a database, and the processes between them."""

    def __init__(self, world: World, server: Server, address: str, folder: Path, path: str) -> None:
        self.world = world
        self.address = address
        self._environ = {
            **{name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ},
            "HOME": str(folder),
            "LORE_DB": address,
            "LORE_BLUESKY_BASE_URL": server.url,
            "LORE_BLUESKY_PLC_URL": server.url,
            "LORE_BLUESKY_JETSTREAM_URL": f"{server.url.replace('http', 'ws')}{path}",
            "LORE_BLUESKY_RETRY_BACKOFF_MS": "50",
        }

    def start(self, *argv: str) -> Process:
        return Process(argv, self._environ)

    def lore(self, *argv: str) -> Ended:
        ended = self.start(*argv).wait()
        assert ended.code == 0, ended
        return ended

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        database = open_database(self.address, create=False)
        try:
            return database.read(sql)
        finally:
            database.close()

    def place(self) -> str | None:
        """Where the stream stopped, as its cursor says."""
        rows = self.rows("SELECT log_position FROM cursors WHERE surface = 'bluesky.stream'")
        return rows[0][0] if rows else None

    def truth(self) -> dict[str, str]:
        with self.world.lock:
            sky = self.world.bluesky
            rows = [row for name in NAMES for kind in (POST, REPOST) for row in sky.truth_records(name, kind)]
        return {row["uri"]: row["cid"] for row in rows}


@contextmanager
def living(world: World, seed: int) -> Iterator[None]:
    """Let the network go on, in its own time, until the block ends."""
    rng = random.Random(seed)
    over = threading.Event()

    def live() -> None:
        sky = world.bluesky
        mine: list[str] = []
        while not over.wait(rng.random() * 0.01):
            with world.lock:
                world.advance(rng.choice((0, 0.002, 0.1)))
                draw = rng.random()
                if draw < 0.75 or len(mine) < 5:
                    mine.append(sky.post(rng.choice(NAMES), f"Words {draw} https://example.com/{len(mine)}").uri)
                elif draw < 0.85:
                    sky.repost(rng.choice(NAMES), rng.choice(mine))
                elif draw < 0.93:
                    sky.edit(rng.choice(mine), f"Other words {draw}")
                else:
                    sky.delete(mine.pop(rng.randrange(len(mine))))

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


@pytest.mark.parametrize(
    "path", ["/subscribe", "/xrpc/network.bsky.jetstream.subscribeEvents"], ids=["first", "second"]
)
@gate_cases(1)
def test_a_stream_killed_repeatedly_loses_and_duplicates_nothing(
    migrated_sqlite_address: str, tmp_path: Path, path: str
) -> None:
    world = World(start=format_instant(SystemClock().now_ms()))
    rng = random.Random(DEATHS)
    with serve(world) as server:
        harbour = Harbour(world, server, migrated_sqlite_address, tmp_path, path)
        for name in NAMES:
            world.bluesky.create_account(name)
        harbour.lore("accounts", "add", *NAMES)
        process = harbour.start("stream", "bluesky", "--robot")
        _hear_something(harbour)
        with living(world, DEATHS):
            for _ in range(DEATHS):
                wait_until(_moved(harbour))
                time.sleep(rng.random() * 0.3)
                process.signal(signal.SIGKILL)
                assert process.wait().code == -signal.SIGKILL
                time.sleep(rng.random() * 0.2)
                process = harbour.start("stream", "bluesky", "--robot")
            wait_until(_moved(harbour))
        truth = harbour.truth()
        wait_until(lambda: _held(harbour) == truth)
        process.signal(signal.SIGTERM)
        ended = process.wait()
    assert ended.code == 130, ended
    assert ended.document["error"]["code"] == "INTERRUPTED"
    assert _held(harbour) == truth
    crashed = harbour.rows("SELECT COUNT(*) FROM sync_runs WHERE status = 'crashed'")
    assert crashed == [(DEATHS,)]
    database = open_database(migrated_sqlite_address, create=False)
    try:
        broken = [finding for finding in check_database(database, SystemClock().now_ms()) if not finding.ok]
    finally:
        database.close()
    assert not broken, broken


def _hear_something(harbour: Harbour) -> None:
    """Post until the stream, which begins with its connection, has a place to go on from; forget what came before."""
    sky = harbour.world.bluesky
    made: list[str] = []

    def heard() -> bool:
        with harbour.world.lock:
            harbour.world.advance(0.001)
            made.append(sky.post(NAMES[0], "Is anybody there?").uri)
        return bool(harbour.rows("SELECT 1 FROM sqlite_schema WHERE name = 'posts'")) and bool(_held(harbour))

    wait_until(heard)
    first = min(_held(harbour))
    with harbour.world.lock:
        for uri in made:
            if uri < first:
                sky.delete(uri)


def _held(harbour: Harbour) -> dict[str, str]:
    return dict(harbour.rows("SELECT uri, cid FROM posts WHERE deleted_at IS NULL"))


def _moved(harbour: Harbour) -> Any:
    before = harbour.place()
    return lambda: harbour.place() != before
