"""Accounts that are followed: a served network, a copy of it, and the runs between them.

What has to be measured in a process of its own runs here: `python -m benchmarks.followed URL DB ACCOUNTS`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from benchmarks.memory import peak_mb
from benchmarks.network import BEHIND_MS, Crowd
from benchmarks.workplace import ROOT, served
from tidelore.app.accounts import poll_accounts, stream_accounts
from tidelore.app.wiring import App
from tidelore.core.clock import Clock, SystemClock
from tidelore.core.config_file import parse_config
from tidelore.core.model import Scope
from tidelore.core.progress import Progress
from tidelore.engine.cursor import Cursor, LogPosition
from tidelore.sources.bluesky.stream_protocol import StreamCursor
from tidelore.store.mirror.accounts import SOURCE, NewAccount, add_accounts
from tidelore.store.mirror.cursors import save_cursor
from tidelore.sync.account_poll import PollRequest
from tidelore.sync.account_stream import SURFACE, StreamReport, StreamRequest
from tidelore.sync.report import PollReport, poll_verdict
from tidelore_world.bluesky.ids import did_of

CONCURRENCY = 10
_ENOUGH_SECONDS = 600.0
_AT_ONCE = 1000
_AWAY_US = 4_000_000_000
"""A little more than the hour in which the network has posts for the stream."""


class Cycles(Struct, frozen=True):
    """Two cycles over as many accounts: time and processor time of the second, and the peak after each."""

    accounts: int
    seconds: float
    worked: float
    first_mb: float
    second_mb: float

    @property
    def each(self) -> float:
        """The processor time for one account, which a busy machine changes less than the time that passes."""
        return self.worked / self.accounts


@contextmanager
def network(crowd: Crowd, latency_ms: float = 0.0) -> Iterator[str]:
    """Serve a network from another process; yield its address."""
    command = ["benchmarks.network", "--latency-ms", str(latency_ms)]
    for name in crowd.__struct_fields__:
        command += [f"--{name}", str(getattr(crowd, name))]
    with served(command) as url:
        yield url


def follower(url: str, database: Path, clock: Clock | None = None) -> App:
    """Return the product with a served network, and this file as its copy."""
    settings = {"base_url": url, "plc_url": url, "jetstream_url": f"{url.replace('http', 'ws', 1)}/subscribe"}
    config = parse_config({"bluesky": {**settings, "max_concurrent": CONCURRENCY}})
    return App(config, {}, db=str(database), clock=clock or SystemClock())


def follow(app: App, accounts: int) -> None:
    """Follow accounts, all due at once; who they are is known."""
    database = app.open_store(create=True)
    try:
        # In parts: what is measured is not what this list takes.
        for begin in range(0, accounts, _AT_ONCE):
            names = [f"account{index}.example" for index in range(begin, min(begin + _AT_ONCE, accounts))]
            wanted = [NewAccount(did_of(name), name) for name in names]
            with database.transaction() as tx:
                add_accounts(tx, wanted, "benchmark", 900, app.clock.now_ms())
    finally:
        database.close()


def cycle(app: App, *, everyone: bool = False) -> PollReport:
    """Run one cycle; an account that cannot be read is an error of the benchmark, one that is gone is not."""
    report = asyncio.run(poll_accounts(app, PollRequest(everyone=everyone, documents=False, scrub_budget=0)))
    error = poll_verdict(report)
    if error is not None:
        raise error
    return report


def peak_of_cycles(accounts: int) -> Cycles:
    """Run two cycles over as many accounts in another process."""
    with network(Crowd(plain=accounts)) as url, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.followed", url, str(Path(folder) / "lore.db"), str(accounts)]
        answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Cycles(accounts, *map(float, answer.stdout.split()))


def stream_rate(accounts: int, posts: int) -> float:
    """Return how long it takes until so many posts of the stream are stored."""
    with network(Crowd(mixed=accounts, streamed=posts)) as url, tempfile.TemporaryDirectory() as folder:
        app = follower(url, Path(folder) / "lore.db")
        follow(app, accounts)
        _go_back(app)
        return asyncio.run(_streamed(app, posts))


def _go_back(app: App) -> None:
    """Let the stream begin where it would go on after an hour away."""
    url = app.config.bluesky.jetstream_url
    scope = Scope(SOURCE, SURFACE, f"{url} v1", None, url)
    start = StreamCursor(1, (app.clock.now_ms() - BEHIND_MS) * 1000 - _AWAY_US)
    database = app.open_store()
    try:
        with database.transaction() as tx:
            position = LogPosition(0, {SURFACE: str(start)})
            save_cursor(tx, scope, Cursor(log=position, complete=True), app.clock.now_ms())
    finally:
        database.close()


async def _streamed(app: App, posts: int) -> float:
    report = StreamReport()
    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def look(_progress: Progress) -> None:
        if report.posts >= posts and not done.done():
            done.set_result(app.clock.monotonic())

    began = app.clock.monotonic()
    task = asyncio.create_task(stream_accounts(app, StreamRequest(documents=False), report, look))
    either: list[asyncio.Future[Any]] = [done, task]
    await asyncio.wait(either, timeout=_ENOUGH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return done.result() - began


def main() -> None:
    """Run two cycles over everybody, and print what the second took and the peak after each."""
    url, database, accounts = sys.argv[1:]
    app = follower(url, Path(database))
    follow(app, int(accounts))
    cycle(app)
    first_mb = peak_mb()
    _make_due(database)
    before = time.process_time()
    report = cycle(app)
    if report.accounts != int(accounts):
        raise RuntimeError(f"{report.accounts} of {accounts} accounts were asked")
    print(report.seconds, time.process_time() - before, first_mb, peak_mb())


def _make_due(database: str) -> None:
    connection = apsw.Connection(database)
    connection.execute("UPDATE accounts SET next_poll_at = 0")
    connection.close()


if __name__ == "__main__":
    main()
