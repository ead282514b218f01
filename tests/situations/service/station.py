"""A service over a world that is served on a real socket: GitLab, GitHub and Bluesky in one place, a real database.

In process the loop runs beside the story that a test tells, at short intervals of real time; `spawn` starts the real
program. A second server of the same world stands for another host, whose faults are its own.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.support.fork_server import ForkedProcess, fork_lore

from tidelore.app.serving import ServeRequest, ServiceReport, serve
from tidelore.app.wiring import App, SettingsFile
from tidelore.core.clock import SystemClock, format_instant
from tidelore.core.config_file import load_config
from tidelore.service.control import Control
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.work.service_records import JobRow, list_jobs
from tidelore_world import server
from tidelore_world.world import World

LAB = "harbor/ledger"
REPOS = ("octo/tide", "octo/crane")
OWNER = "octo"
PATIENCE_SECONDS = 60.0
_LORE = "from tidelore.cli.entry import run; run()"

Program = ForkedProcess | subprocess.Popen[str]


@dataclass
class Station:
    """What is configured, what is served, and who looks after it."""

    folder: Path
    world: World
    url: str
    port: int
    interval: float = 0.3
    copy: str = "lore"
    named: bool = True
    server: str | None = None
    sections: dict[str, str] = field(default_factory=dict)
    spawned: list[Program] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def db(self) -> Path:
        return self.folder / f"{self.copy}.db"

    @property
    def address(self) -> str:
        """The database: a file of the folder, or one of a server."""
        return self.server or str(self.db)

    def lab(self, name: str = "gitlab", url: str | None = None, extra: str = "") -> None:
        """Configure a GitLab host."""
        self.sections[name] = (
            f'[[gitlab]]\nname = "{name}"\nbase_url = "{url or self.url}"\nprojects = ["{LAB}"]\n{extra}\n'
        )

    def hub(
        self, name: str = "github", url: str | None = None, extra: str = "", repos: tuple[str, ...] = REPOS
    ) -> None:
        """Configure a GitHub host, without comparisons, which read a thread after a poll by chance."""
        listed = "".join(f'[[github.repos]]\nname = "{repo}"\n' for repo in repos)
        self.sections[name] = (
            f'[[github]]\nname = "{name}"\nbase_url = "{url or self.url}"\npoll_interval_seconds = {self.interval}\n'
            f"write_interval_seconds = 0\nhandler_backoff_seconds = 0\nshadow_sample = 0.0\n{extra}\n{listed}"
        )

    def sky(self, *accounts: str, extra: str = "") -> None:
        """Configure accounts."""
        listed = ", ".join(f'"{account}"' for account in accounts)
        self.sections["bluesky"] = (
            f'[bluesky]\nbase_url = "{self.url}"\nplc_url = "{self.url}"\naccounts = [{listed}]\n'
            f'jetstream_url = "{self.url.replace("http", "ws")}/subscribe"\n'
            f"interval_minutes = 0.005\nmax_staleness_minutes = 0.01\n{extra}\n"
        )

    def write(self, tail: str = "") -> None:
        """Write the configuration."""
        general = (
            "[http]\nmax_retries = 0\ntimeout_seconds = 2\n[sync]\nscrub_share = 0\n"
            f"[service]\nmetrics_port = {self.port}\ngitlab_interval_seconds = {self.interval}\n"
            '[embedding]\nprovider = "none"\n[log]\nformat = "json"\n'
        )
        self.config.write_text("".join(self.sections.values()) + general + tail)

    def app(self) -> App:
        return App(load_config(str(self.config), {}), dict(os.environ), self.address if self.named else None)

    def serve(
        self, story: Callable[[Watch], Awaitable[None]], *, once: bool = False, force: bool = False
    ) -> ServiceReport:
        """Run the service in this process while a story is told; with its end the service is stopped."""

        async def inside() -> ServiceReport:
            control = Control()
            running = asyncio.create_task(
                serve(
                    self.app(),
                    ServeRequest(once=once, force=force),
                    control,
                    SettingsFile(str(self.config), self.app),
                )
            )
            try:
                await story(Watch(self, control, running))
            finally:
                control.stop()
                report = await running
            return report

        return asyncio.run(inside())

    def once(self) -> ServiceReport:
        """Give every job one turn."""

        async def story(watch: Watch) -> None:
            await watch.running

        return self.serve(story, once=True)

    def spawn(
        self,
        *argv: str,
        limit: Callable[[], None] | None = None,
        config: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Program:
        """Start the real program, with more variables; `limit` is called in its process before it begins."""
        words = [*argv, "--config", str(config or self.config), "--db", self.address]
        process: Program
        if limit is None:
            process = fork_lore(words, os.environ | dict(environ or {}))
        else:
            process = subprocess.Popen(
                [sys.executable, "-c", _LORE, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=limit,
            )
        self.spawned.append(process)
        return process

    def clear(self) -> None:
        """Leave nothing running behind a test that failed."""
        for process in self.spawned:
            if process.poll() is None:
                process.kill()
                process.communicate()

    @contextmanager
    def database(self) -> Iterator[Database]:
        database = open_database(self.address, create=False)
        try:
            yield database
        finally:
            database.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.database() as database:
            return database.read(sql)

    def jobs(self) -> dict[str, JobRow]:
        with self.database() as database:
            return {row.name: row for row in list_jobs(database)}

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask the running service, as whoever scrapes it does."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read()

    def spent(self, act: Callable[[], object]) -> Counter[str]:
        """The requests that reach the world meanwhile."""
        before = len(self.world.log)
        act()
        return Counter(f"{method} {target}" for method, target, _ in self.world.log[before:])


@dataclass
class Watch:
    """The running service, as a story sees it."""

    station: Station
    control: Control
    running: asyncio.Task[ServiceReport]

    async def until(self, holds: Callable[[], bool], what: str = "") -> None:
        """Wait until something holds, which it does within seconds or not at all."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._holds(holds):
            assert time.monotonic() < deadline, what or "it never came true"
            if self.running.done():
                self.running.result()
                raise AssertionError("service stopped")
            await asyncio.sleep(0.02)

    async def rounds(self, name: str, count: int = 2) -> None:
        """Wait until a job has ended well so many times more."""
        await self.until(lambda: self.job(name) is not None, name)
        for _ in range(count):
            # The stored time of one and the same success differs by a few milliseconds each time it is written: it is
            # computed from a monotonic clock.
            before = (self.job(name).succeeded_at or 0) + 100
            await self.until(lambda before=before: (self.job(name).succeeded_at or 0) > before, name)  # type: ignore[misc]

    def job(self, name: str) -> JobRow:
        return self.station.jobs()[name]

    async def get(self, path: str) -> tuple[int, bytes]:
        return await asyncio.to_thread(self.station.get, path)

    def _holds(self, holds: Callable[[], bool]) -> bool:
        try:
            return holds()
        except Exception:  # noqa: BLE001 - a database that is not there yet, a job that is not known yet
            return False


def wait_until(holds: Callable[[], bool], process: Program, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for something that a real process brings about."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except Exception:  # noqa: BLE001 - nothing is there yet
            pass
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def end(process: Program, number: int = signal.SIGTERM) -> tuple[int, str, str, float]:
    """Signal a process and return its exit code, its output, and how long it took."""
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return process.wait(), out, err, time.monotonic() - began


def hear(process: Program, text: str) -> str:
    """Wait until the process has logged a text; return everything it has logged since it was last heard."""
    assert process.stderr is not None
    heard, deadline = "", time.monotonic() + PATIENCE_SECONDS
    while text not in heard:
        ready, _, _ = select.select([process.stderr], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"never logged: {text}"
        piece = os.read(process.stderr.fileno(), 65_536).decode()
        assert piece, f"ended without logging: {text}"
        heard += piece
    return heard


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def build_world() -> World:
    """A project with some issues, two repositories with a pull request each; the clock stands where ours does."""
    world = World(3, start=format_instant(SystemClock().now_ms() - 600_000))
    world.gitlab.create_project(LAB)
    for _ in range(5):
        world.gitlab.create_issue(LAB)
        world.advance(10)
    for repo in REPOS:
        world.github.create_repo(repo)
        world.github.create_pull(repo, "A change", author=OWNER)
    world.advance(500)
    return world


@contextmanager
def station(folder: Path) -> Iterator[Station]:
    with server.serve(build_world()) as served:
        found = Station(folder, served.world, served.url, free_port())
        try:
            yield found
        finally:
            found.clear()


@contextmanager
def other_host(world: World | None = None) -> Iterator[server.Server]:
    """A second host with a world of its own, and so with faults of its own."""
    with server.serve(world or build_world()) as served:
        yield served
