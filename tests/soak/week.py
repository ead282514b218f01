"""A week, or some hours of it, in minutes: three networks that change, a service in a process of its own, trouble.

Time moves when the service is at rest: whatever is due is done before anything else becomes due, as on a machine that
is fast enough. So nothing here depends on how fast this one is; a job that waits for time gets it bit by bit.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.situations.service.station import LAB, OWNER, REPOS
from tests.support.manual_clock import ManualClock

from tidelore.app.feedback_tracking import track
from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.feedback.repositories import choose_repo
from tidelore.service.status import read_service
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.check import check_database
from tidelore.store.work.service_records import JobRow, list_jobs
from tidelore_world.demo.comparison import Difference, compare
from tidelore_world.demo.truth import true_rows
from tidelore_world.server import Server, serve
from tidelore_world.world import World

DRIVER = Path(__file__).with_name("driver.py")
HOUR = 3600.0
PEOPLE = ("mira.test", "noor.test", "ines.test")
STEP_SECONDS = 300.0
PATIENCE_SECONDS = 60.0
STUCK_SECONDS = 0.15
"""After so long, of the machine's seconds, a job that runs is taken to wait for time."""


@dataclass
class Week:
    """The worlds, the service and the clock of all of them. `away` is a second GitLab host, with a life of its own."""

    folder: Path
    db: str
    world: World
    home: Server
    away: Server
    dice: random.Random
    process: subprocess.Popen[bytes] | None = None
    said: list[str] = field(default_factory=list)
    commands: int = 0
    starts: int = 0
    database: Database | None = None

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def log(self) -> Path:
        return self.folder / "lore.log"

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_us // 1000

    # Settings

    def write_settings(self, *, gitlab_seconds: float = 1800) -> None:
        repos = "".join(f'[[github.repos]]\nname = "{repo}"\n' for repo in REPOS)
        people = ", ".join(f'"{person}"' for person in PEOPLE)
        hosts = "".join(
            f'[[gitlab]]\nname = "{name}"\nbase_url = "{server.url}"\nprojects = ["{LAB}"]\n'
            for name, server in (("home", self.home), ("away", self.away))
        )
        self.config.write_text(
            f'{hosts}[[github]]\nbase_url = "{self.home.url}"\npoll_interval_seconds = 900\n'
            f'operator_logins = ["{OWNER}"]\nwrite_interval_seconds = 0\n{repos}'
            f'[bluesky]\nbase_url = "{self.home.url}"\nplc_url = "{self.home.url}"\naccounts = [{people}]\n'
            "interval_minutes = 30\nmax_staleness_minutes = 60\nretry_backoff_ms = 0\n"
            "[http]\nmax_retries = 2\nretry_backoff_seconds = 0\ntimeout_seconds = 5\n"
            # So that what no list tells of, deletions above all, is found within hours and not within weeks.
            "[sync]\nscrub_share = 1\n"
            f"[service]\nmetrics_port = 0\ngitlab_interval_seconds = {gitlab_seconds}\n"
            f'[embedding]\nprovider = "none"\n[log]\nformat = "json"\nfile = "{self.log}"\nmax_megabytes = 50\n'
        )

    # Time

    def mark(self) -> None:
        """Let the service's clock stand where the worlds' do."""
        with (self.folder / "clock").open("r+b") as file:
            file.write(struct.pack("<q", self.world.clock.now_us))

    def advance(self, seconds: float) -> None:
        for world in (self.world, self.away.world):
            with world.lock:
                world.advance(seconds)
        self.mark()

    def pass_time(self, seconds: float) -> None:
        """Let time pass while the service does everything that becomes due."""
        until = self.now_ms + int(seconds * 1000)
        while self.now_ms < until:
            due = self.rest()
            left = (until - self.now_ms) / 1000
            # A little more than until then: rows are rounded, the service's own seconds are not.
            self.advance(max(0.01, min(STEP_SECONDS, left, (due - self.now_ms) / 1000 + 0.01)))
        self.rest()

    def rest(self) -> int:
        """Wait until nothing runs and nothing is due; return when the next thing is. Who waits for time gets some."""
        deadline, since, before, bit = time.monotonic() + PATIENCE_SECONDS, time.monotonic(), None, 1.0
        while True:
            assert self.process is not None
            assert self.process.poll() is None, "service stopped by itself"
            jobs = self.jobs()
            busy = [job for job in jobs if job.state == "running" or (job.due_at or 0) <= self.now_ms]
            if jobs and not busy:
                return min(job.due_at or 0 for job in jobs)
            assert time.monotonic() < deadline, f"never comes to rest: {busy}"
            known = [(job.name, job.state, job.updated_at) for job in busy]
            if known != before:
                since, before, bit = time.monotonic(), known, 1.0
            elif time.monotonic() - since > STUCK_SECONDS:
                self.advance(bit)
                since, bit = time.monotonic(), min(2 * bit, 30.0)
            time.sleep(0.003)

    # The service

    def start(self) -> None:
        """Start the service, and wait until it is the one that moves the rows."""
        words = [sys.executable, "-P", str(DRIVER), str(self.folder / "clock"), str(self.config), self.db]
        environ = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "HOME") if name in os.environ}
        self.process = subprocess.Popen(words, env=environ)
        self.starts += 1
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.read(f"SELECT 1 FROM leases WHERE name = 'service' AND holder_pid = {self.process.pid}"):
            assert time.monotonic() < deadline, "never starts"
            assert self.process.poll() is None, "service stopped by itself"
            self.advance(0.01)
            time.sleep(0.02)
        while any(job.state == "stopped" for job in self.jobs()):
            assert time.monotonic() < deadline, "never takes its jobs over"
            time.sleep(0.01)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the service. Its patience is in seconds of its own clock's machine, so time stands meanwhile."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        assert code == (0 if number == signal.SIGTERM else -number)
        self.process = None

    def reload(self) -> None:
        """Write other settings, and let them be noticed."""
        self.write_settings(gitlab_seconds=self.dice.choice((1500, 1800, 2100)))
        if self.process is not None and self.dice.random() < 0.5:
            self.process.send_signal(signal.SIGHUP)

    def memory_kb(self) -> int:
        """What the service occupies."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def descriptors(self) -> int:
        assert self.process is not None
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    # What is stored

    def read(self, sql: str) -> list[tuple[object, ...]]:
        if self.database is None:
            self.database = open_database(self.db)
        try:
            return self.database.read(sql)
        except Exception:  # noqa: BLE001 - the schema is not there yet
            return []

    def jobs(self) -> list[JobRow]:
        assert self.database is not None
        return list_jobs(self.database)

    def late(self) -> set[str]:
        """The sources that are out of their bound."""
        assert self.database is not None
        return {one.source for one in read_service(self.database, self.now_ms).health.sources if not one.ok}

    # What happens

    def live(self) -> None:
        """Let something happen in each network."""
        for world in (self.world, self.away.world):
            with world.lock:
                world.gitlab.change(self.dice.randint(0, 2), self.dice)
        with self.world.lock:
            if self.dice.random() < 0.5:
                self.world.bluesky.change(1, self.dice, ["post", "reply", "repost", "quote"])
            if self.dice.random() < 0.4:
                text = f"Remark {len(self.said)}"
                self.said.append(text)
                self.world.github.comment(self.dice.choice(REPOS), 1, text, OWNER)
            if self.dice.random() < 0.1:
                self.commands += 1
                self.world.github.comment(REPOS[0], 1, "/lore status", OWNER)

    def trouble(self) -> None:
        """Let the next requests meet something that passes."""
        world = self.dice.choice((self.world, self.away.world))
        with world.lock:
            world.faults.faults.clear()
            kind = self.dice.choice(("status", "disconnect", "truncated", "timeout"))
            times = self.dice.randint(1, 6)
            if kind == "status":
                world.faults.add("status", times=times, status=self.dice.choice((500, 502, 503, 429)))
            elif kind == "timeout":
                world.faults.add("timeout", times=1, seconds=0.2)
            else:
                world.faults.add(kind, times=times)  # type: ignore[arg-type]

    def calm(self) -> None:
        for world in (self.world, self.away.world):
            with world.lock:
                world.faults.faults.clear()

    def assert_copy_is_true(self) -> None:
        """Everything is there once, as the worlds show it, and every effect outside happened once."""
        assert self.database is not None
        wrong = self.differences()
        assert not wrong, wrong
        bodies = [body for (body,) in self.read("SELECT body FROM feedback_events")]
        assert sorted(map(str, bodies)) == sorted(self.said)
        truth = {row["uri"] for person in PEOPLE for row in self.world.bluesky.truth_records(person)}
        assert {uri for (uri,) in self.read("SELECT uri FROM posts WHERE uri LIKE '%app.bsky.feed.post%'")} == truth
        ours = [row for row in self.world.github.truth_comments(REPOS[0]) if "lore-action:" in row["body"]]
        assert len(ours) == self.commands
        assert self.read("SELECT COUNT(*) FROM outbox WHERE status <> 'observed'") == [(0,)]
        assert self.read("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
        assert self.read("SELECT COUNT(*) FROM dirty_sources") == [(0,)]
        assert [found for found in check_database(self.database, self.now_ms) if not found.ok] == []

    def differences(self) -> list[tuple[str, Difference]]:
        """How the copies of the two GitLab hosts differ from them; each has a project of the same name."""
        found: list[tuple[str, Difference]] = []
        for name, world in (("home", self.world), ("away", self.away.world)):
            with renamed_for(self.db, name) as alone, world.lock:
                compared = compare(alone, partial(true_rows, world.gitlab), [LAB])
            assert any(one.truth for one in compared)
            found += [(name, one) for one in compared if one.faults]
        return found


class _Undone(Exception):
    """What was done is not to last."""


@contextmanager
def renamed_for(db: str, source: str) -> Iterator[Database]:
    """The database, in which the projects of other hosts go by other names as long as one looks."""
    alone = open_database(db, create=False)
    try:
        with suppress(_Undone), alone.transaction() as tx:
            tx.execute("UPDATE projects SET path = path || '-of-' || source WHERE source <> :own", {"own": source})
            yield alone
            raise _Undone
    finally:
        alone.close()


def build_world(seed: int) -> World:
    world = World(seed)
    world.gitlab.create_project(LAB)
    for _ in range(10):
        world.gitlab.create_issue(LAB)
        world.advance(10)
    return world


@contextmanager
def open_week(folder: Path, db: str, seed: int) -> Iterator[Week]:
    """Two hosts, two repositories with a pull request that is followed, three people; nothing runs yet."""
    world, away = build_world(seed), build_world(seed + 1)
    for repo in REPOS:
        world.github.create_repo(repo)
        world.github.create_pull(repo, "A change", author=OWNER)
    for person in PEOPLE:
        world.bluesky.create_account(person)
        world.bluesky.post(person, "Hello.")
    with ExitStack() as stack:
        home_server, away_server = stack.enter_context(serve(world)), stack.enter_context(serve(away))
        week = Week(folder, db, world, home_server, away_server, random.Random(seed))
        (folder / "clock").write_bytes(bytes(8))
        week.advance(600.0)
        week.write_settings()
        app = App(load_config(str(week.config), {}), dict(os.environ), week.db, ManualClock(week.now_ms))
        for repo in REPOS:
            asyncio.run(track(app, choose_repo(app.config, repo), pr=1, issue=None))
        try:
            yield week
        finally:
            if week.process is not None:
                week.process.kill()
                week.process.wait()
            if week.database is not None:
                week.database.close()
