"""Workers that are killed, frozen beyond their lease, cut off and without a database; then quiet, and the copy is true.

`LORE_CHAOS_SECONDS` says for how long (10 minutes by hand: `LORE_CHAOS_SECONDS=600 LORE_CHAOS_SEEDS=1,2,3`).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from tests.databases.postgres_server import PostgresServer, running_server
from tests.situations.service.station import Program, Station, end
from tests.situations.service.test_postgres import assert_sound, has_arrived, live, log_of, settle
from tests.situations.service.test_sources import catch_up

SECONDS = float(os.environ.get("LORE_CHAOS_SECONDS", "40"))
SEEDS = [int(text) for text in os.environ.get("LORE_CHAOS_SEEDS", "1").split(",")]
STALE_MINUTES = 0.05
QUIET_SECONDS = 90.0
WORKERS = 3


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with running_server() as server:
        yield server


class Chaos:
    """A crowd of workers, and what happens to them."""

    def __init__(self, post: Station, server: PostgresServer, seed: int) -> None:
        self.post, self.server, self.random = post, server, random.Random(seed)
        self.crowd: list[Program] = []
        self.frozen: list[tuple[float, Program]] = []
        self.happened: list[str] = []
        self.lived = 0

    def fill(self) -> None:
        """Start workers until there are enough of them."""
        self.crowd = [worker for worker in self.crowd if worker.poll() is None]
        while len(self.crowd) < WORKERS:
            self.crowd.append(self.post.spawn("worker", "--concurrency", "3"))

    def thaw(self, *, all_of_them: bool = False) -> None:
        """Let those go on that were frozen for longer than their lease lasts."""
        now = time.monotonic()
        for until, worker in list(self.frozen):
            if all_of_them or until <= now:
                self.frozen.remove((until, worker))
                with suppress(ProcessLookupError):
                    worker.send_signal(signal.SIGCONT)

    def live(self) -> None:
        self.lived += 1
        live(self.post, self.lived)

    def kill(self) -> None:
        self._awake().send_signal(signal.SIGKILL)

    def stop(self) -> None:
        self._awake().send_signal(signal.SIGTERM)

    def freeze(self) -> None:
        worker = self._awake()
        worker.send_signal(signal.SIGSTOP)
        self.frozen.append((time.monotonic() + STALE_MINUTES * 60 + self.random.uniform(1, 4), worker))

    def cut(self) -> None:
        assert self.post.server is not None
        self.server.cut(self.post.server)

    def restart_database(self) -> None:
        self.server.stop(signal.SIGINT)
        time.sleep(self.random.uniform(0, 3))
        self.server.start()

    def _awake(self) -> Program:
        asleep = {id(worker) for _, worker in self.frozen}
        return self.random.choice([worker for worker in self.crowd if id(worker) not in asleep] or self.crowd)

    def rage(self, seconds: float) -> None:
        """Let one thing happen after another."""
        deadline = time.monotonic() + seconds
        acts: list[Callable[[], None]] = [
            *(self.live, self.live, self.live, self.kill, self.freeze, self.stop, self.cut, self.restart_database)
        ]
        while time.monotonic() < deadline:
            self.fill()
            act = self.random.choice(acts)
            self.happened.append(act.__name__)
            act()
            time.sleep(self.random.uniform(0.2, 2.0))
            self.thaw()
        self.thaw(all_of_them=True)

    def calm(self) -> None:
        """Wait until everything has arrived, without further disturbance."""
        deadline = time.monotonic() + QUIET_SECONDS
        while True:
            self.fill()
            with suppress(Exception):
                if has_arrived(self.post, self.lived) and not self.post.rows(_HANGING):
                    break
            assert time.monotonic() < deadline, (self.happened, log_of(self.post).read_text()[-4000:])
            catch_up(self.post)
            time.sleep(0.3)
        for worker in self.crowd:
            code, _, err, _ = end(worker)
            assert code == 0, err


_HANGING = (
    "SELECT 1 FROM lore_queue.procrastinate_jobs AS job LEFT JOIN lore_queue.procrastinate_workers AS worker"
    " ON worker.id = job.worker_id WHERE job.status = 'doing'"
    " AND (worker.id IS NULL OR worker.last_heartbeat < now() - interval '8 seconds')"
)


@pytest.mark.deep
@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_time_of_chaos_the_copy_is_true_and_each_command_was_answered_once(
    post: Station, own_server: PostgresServer, seed: int
) -> None:
    with own_server.fresh_database() as address:
        settle(post, address)
        text = post.config.read_text().replace(
            "[sync]\n", f"[sync]\nstale_lock_minutes = {STALE_MINUTES}\nheartbeat_interval_seconds = 1\n"
        )
        post.config.write_text(text)
        chaos = Chaos(post, own_server, seed)
        try:
            chaos.rage(SECONDS)
            chaos.calm()
        finally:
            chaos.thaw(all_of_them=True)
        assert_sound(post, chaos.lived)
        assert "Traceback" not in log_of(post).read_text(), chaos.happened
        assert not post.rows("SELECT 1 FROM lore_queue.procrastinate_jobs WHERE status = 'doing'")
