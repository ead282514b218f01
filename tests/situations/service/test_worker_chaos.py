"""Workers that are killed, frozen, cut off, without a database and with wrong clocks; then quiet, and the copy is true.

Also the server that loses its role as primary, and webhooks that are lost, doubled, out of order and forged. Everything
happens at least once in a run, and each fault is checked to have had its effect. `LORE_CHAOS_SECONDS` says for how long
(10 minutes by hand: `LORE_CHAOS_SECONDS=600 LORE_CHAOS_SEEDS=1,2,3`).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from tests.databases.postgres_server import PostgresServer, running_server
from tests.situations.service.station import LAB, OWNER, REPOS, Program, Station, end, free_port, wait_until
from tests.situations.service.test_hooks import SECRET, SIGNING
from tests.situations.service.test_postgres import assert_sound, has_arrived, live, log_of
from tests.situations.service.test_sources import catch_up, follow
from tests.support.fork_server import CLOCK, OFFSET

from tidelore.core.clock import SystemClock, parse_instant
from tidelore_world import hooks
from tidelore_world.hooks import FORGED_TITLE, Hooked, HookSender, sign_github, sign_gitlab

SECONDS = float(os.environ.get("LORE_CHAOS_SECONDS", "40"))
SEEDS = [int(text) for text in os.environ.get("LORE_CHAOS_SEEDS", "1").split(",")]
STALE_MINUTES = 0.05
QUIET_SECONDS = 90.0
READ_ONLY_SECONDS = 20.0 if SECONDS >= 300 else 6.0
WORKERS = 3
MOVES_SECONDS = (-6 * 3600, -3600, -1200, 1200, 3600, 6 * 3600)
"""How wrong a wall clock becomes: far more than a lease lasts, forwards and backwards."""


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with running_server() as server:
        yield server


class Chaos:
    """A crowd of workers, and what happens to them."""

    def __init__(self, post: Station, server: PostgresServer, seed: int, port: int) -> None:
        self.post, self.server, self.random, self.port = post, server, random.Random(seed), port
        self.crowd: list[Program] = []
        self.clocks: dict[int, Path] = {}
        self.frozen: list[tuple[float, Program]] = []
        self.happened: list[str] = []
        self.effects: Counter[str] = Counter()
        self.lived = 0
        self.fates: Counter[str] = Counter()
        sender = HookSender(post.world)
        self.hooks = (sender.gitlab(self.url("gitlab"), SIGNING), sender.github(self.url("github"), SECRET))
        self.sender = sender
        for hook in self.hooks:
            hook.fate = self._fate

    def url(self, host: str) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/{host}"

    def _fate(self) -> Literal["send", "lose", "double", "late"]:
        fate = self.random.choice(("send", "send", "lose", "double", "late"))
        self.fates[fate] += 1
        return fate  # type: ignore[return-value]

    def fill(self) -> None:
        """Start workers until there are enough of them."""
        self.crowd = [worker for worker in self.crowd if worker.poll() is None]
        while len(self.crowd) < WORKERS:
            clock = self.post.folder / f"clock-{len(self.clocks)}"
            clock.write_bytes(OFFSET.pack(0))
            worker = self.post.spawn("worker", "--concurrency", "3", environ={CLOCK: str(clock)})
            self.clocks[worker.pid] = clock
            self.crowd.append(worker)

    def thaw(self, *, all_of_them: bool = False) -> None:
        """Let those go on that were frozen for longer than their lease lasts."""
        now = time.monotonic()
        for until, worker in list(self.frozen):
            if all_of_them or until <= now:
                self.effects["frozen"] += worker.poll() is None and is_stopped(worker.pid)
                self.frozen.remove((until, worker))
                with suppress(ProcessLookupError):
                    worker.send_signal(signal.SIGCONT)

    def live(self) -> None:
        self.lived += 1
        with self.post.world.lock:
            self.post.world.gitlab.edit_issue(LAB, 1, title=self.title)
        live(self.post, self.lived)

    @property
    def title(self) -> str:
        return f"Edited {self.lived} times"

    def kill(self) -> None:
        worker = self._awake()
        worker.send_signal(signal.SIGKILL)
        self.effects["killed"] += worker.wait(10) == -signal.SIGKILL

    def stop(self) -> None:
        self._awake().send_signal(signal.SIGTERM)

    def freeze(self) -> None:
        worker = self._awake()
        worker.send_signal(signal.SIGSTOP)
        self.frozen.append((time.monotonic() + STALE_MINUTES * 60 + self.random.uniform(1, 4), worker))

    def cut(self) -> None:
        assert self.post.server is not None
        self.effects["connections cut"] += self.server.cut(self.post.server)

    def restart_database(self) -> None:
        before = self.server.pids()[0]
        self.server.stop(signal.SIGINT)
        time.sleep(self.random.uniform(0, 3))
        self.server.start()
        self.effects["restarts"] += self.server.pids()[0] != before

    def lose_primary_role(self) -> None:
        """Let the server refuse writes for a while; the world goes on."""
        self.server.set_read_only(read_only=True)
        try:
            deadline = time.monotonic() + READ_ONLY_SECONDS
            while time.monotonic() < deadline:
                self.live()
                time.sleep(2)
                self.fill()
                self.thaw()
            with psycopg.connect(self.post.address) as connection:
                try:
                    connection.execute("CREATE TABLE never (id int)")
                except psycopg.errors.ReadOnlySqlTransaction:
                    self.effects["writes refused"] += 1
        finally:
            self.server.set_read_only(read_only=False)

    def move_clock(self) -> None:
        """Set the wall clock of one worker, and wait for a moment until its log shows that."""
        log = log_of(self.post)
        size, deadline = log.stat().st_size, time.monotonic() + 5
        self.clocks[self._awake().pid].write_bytes(OFFSET.pack(self.random.choice(MOVES_SECONDS)))
        while time.monotonic() < deadline:
            with log.open("rb") as file:
                file.seek(size)
                if any(is_wrong(json.loads(line)["at"]) for line in file.read().splitlines(keepends=True)[:-1]):
                    self.effects["clocks moved"] += 1
                    return
            time.sleep(0.2)

    def forge(self) -> None:
        """Send deliveries that no forge sent, as soon as a worker listens."""
        item = self.post.world.gitlab.issue(LAB, 2)
        payload, now = hooks.gitlab_payload("item", item), int(time.time())
        good = sign_gitlab(SIGNING, "Issue Hook", payload, now)
        forged = (
            ("gitlab", sign_gitlab("another token", "Issue Hook", payload, now)),
            ("gitlab", Hooked(good.headers, good.body + b" ")),
            ("gitlab", sign_gitlab(SIGNING, "Issue Hook", payload, now - 3600)),
            ("github", sign_github("another secret", "issues", {"repository": {"id": 1}, "issue": {"number": 1}})),
        )
        for host, sent in forged:
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                self.fill()
                self.thaw()
                with suppress(OSError, HTTPException):
                    self.effects[f"forged {hooks.post(self.url(host), sent)}"] += 1
                    break
                time.sleep(0.5)

    def _awake(self) -> Program:
        asleep = {id(worker) for _, worker in self.frozen}
        return self.random.choice([worker for worker in self.crowd if id(worker) not in asleep] or self.crowd)

    def begin(self) -> None:
        """Wait for the first copy: a webhook of a project that is not known yet is refused."""
        self.fill()
        wait_until(lambda: has_arrived(self.post, 0), self.crowd[0])

    def rage(self, seconds: float) -> None:
        """Let everything happen once, then one thing after another."""
        deadline = time.monotonic() + seconds
        faults: list[Callable[[], None]] = [
            *(self.kill, self.freeze, self.stop, self.cut, self.restart_database, self.move_clock, self.forge)
        ]
        first = [*faults, self.lose_primary_role]
        self.random.shuffle(first)
        acts = [*faults, self.live, self.live, self.live, self.live]
        again_at = time.monotonic() + 120
        while time.monotonic() < deadline or first:
            self.fill()
            act = first.pop() if first and self.lived % 2 else self.random.choice(acts)
            if time.monotonic() > again_at:
                act, again_at = self.lose_primary_role, time.monotonic() + 120
            self.happened.append(act.__name__)
            act()
            time.sleep(self.random.uniform(0.2, 2.0))
            self.thaw()
        self.thaw(all_of_them=True)
        self.happened.append("quiet")

    def calm(self) -> None:
        """Wait until everything has arrived, without further disturbance; the clocks stay as wrong as they are."""
        deadline = time.monotonic() + QUIET_SECONDS
        self.sender.flush()
        while True:
            self.fill()
            with suppress(Exception):
                if has_arrived(self.post, self.lived) and self._has_title() and not self.post.rows(_HANGING):
                    break
            assert time.monotonic() < deadline, (self.happened, self._state(), log_of(self.post).read_text()[-4000:])
            catch_up(self.post)
            time.sleep(0.3)
        for words in (("gitlab",), ("github", REPOS[0]), ("bluesky",)):
            self._audit(words)
        for worker in self.crowd:
            code, _, err, _ = end(worker)
            assert code == 0, err

    def _audit(self, words: tuple[str, ...]) -> None:
        """Compare the copy with the truth; what changed last is there after the next poll."""
        deadline = time.monotonic() + QUIET_SECONDS
        while True:
            # Some lists of GitHub are not answered without a token.
            audit = self.post.spawn("audit", *words, "--robot", environ={"GITHUB_TOKEN": "t"})
            out, err = audit.communicate(timeout=60)
            if audit.returncode == 0:
                return
            if time.monotonic() > deadline:
                pytest.fail(f"{words}: {out} {err}")
            catch_up(self.post)
            time.sleep(2)

    def _has_title(self) -> bool:
        return self.post.rows(f"SELECT COUNT(*) FROM issues WHERE title = '{self.title}'") == [(1,)]

    def _state(self) -> list[object]:
        """Return what a failure needs to be understood."""
        jobs = [job for job in self.post.jobs().values() if job.state != "idle" or job.failures]
        return [self.lived, self.effects, jobs, *(self.post.rows(sql) for sql in _STATE)]


_STATE = (
    "SELECT name, generation, holder_pid, command, acquired_at, heartbeat_at FROM leases WHERE holder_pid IS NOT NULL",
    "SELECT id, status, queueing_lock, worker_id, scheduled_at FROM lore_queue.procrastinate_jobs",
    "SELECT id, status, command FROM sync_runs WHERE status = 'running'",
    "SELECT status, COUNT(*) FROM outbox GROUP BY status",
    "SELECT COUNT(*) FROM issues",
    "SELECT COUNT(*) FROM feedback_events",
    "SELECT COUNT(*) FROM posts",
    "SELECT COUNT(*) FROM dirty_sources",
)
_HANGING = (
    "SELECT 1 FROM lore_queue.procrastinate_jobs AS job LEFT JOIN lore_queue.procrastinate_workers AS worker"
    " ON worker.id = job.worker_id WHERE job.status = 'doing'"
    " AND (worker.id IS NULL OR worker.last_heartbeat < now() - interval '8 seconds')"
)


def settle(post: Station, address: str, port: int) -> None:
    """Configure three sources with webhooks, and leases that are lost within seconds."""
    post.server, post.interval = address, 1.0
    post.world.bluesky.create_account("mira.test")
    post.world.bluesky.post("mira.test", "Low water at noon.")
    post.lab(extra='hook_secret_env = "LAB_HOOKS"')
    post.hub(extra=f'operator_logins = ["{OWNER}"]\nsettle_write_seconds = 0.5\nhook_secret_env = "HUB_HOOKS"')
    post.sky("mira.test")
    post.write(f'file = "{log_of(post)}"\n[hooks]\nport = {port}\npoll_interval_seconds = 4\n')
    text = post.config.read_text().replace(
        "[sync]\n", f"[sync]\nstale_lock_minutes = {STALE_MINUTES}\nheartbeat_interval_seconds = 1\n"
    )
    post.config.write_text(text)
    follow(post)


@pytest.mark.deep
@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_time_of_chaos_the_copy_is_true_and_each_command_was_answered_once(
    post: Station, own_server: PostgresServer, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_HOOKS", SIGNING)
    monkeypatch.setenv("HUB_HOOKS", SECRET)
    port = free_port()
    with own_server.fresh_database() as address:
        settle(post, address, port)
        chaos = Chaos(post, own_server, seed, port)
        try:
            chaos.begin()
            chaos.rage(SECONDS)
            chaos.calm()
        finally:
            chaos.thaw(all_of_them=True)
        assert_everything_happened(chaos)
        assert_sound(post, chaos.lived)
        log = log_of(post).read_text()
        assert "Traceback" not in log, chaos.happened
        assert not post.rows("SELECT 1 FROM lore_queue.procrastinate_jobs WHERE status = 'doing'")
        assert not post.rows(f"SELECT 1 FROM issues WHERE title = '{FORGED_TITLE}'"), "no row comes from a payload"


def assert_everything_happened(chaos: Chaos) -> None:
    """Check that no fault was without effect."""
    effects, log = chaos.effects, log_of(chaos.post).read_text()
    wanted = ("killed", "frozen", "connections cut", "restarts", "writes refused", "clocks moved", "forged 401")
    assert all(effects[name] for name in wanted), effects
    assert not effects["forged 202"], effects
    assert "is read-only" in log, "workers met the server that had lost its role"
    assert all(chaos.fates[fate] for fate in ("send", "lose", "double", "late")), chaos.fates
    answered = Counter(status for hook in chaos.hooks for status in hook.statuses)
    assert answered[202], answered
    assert not set(answered) - {202, 0, 503}, answered
    assert chaos.post.rows("SELECT COUNT(*) FROM hook_deliveries")[0][0], "webhooks were received"


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def is_wrong(text: str) -> bool:
    """Return whether a worker wrote a time that was far from ours."""
    return abs(parse_instant(text) - SystemClock().now_ms()) > min(map(abs, MOVES_SECONDS)) * 1000 - 60_000
