"""Benchmark `workers`: a first mirror of many projects by 1, 2 and 4 workers, and one rate limit that they share.

The simulated GitLab answers every request 50 ms late. Workers are processes, each with one scope at a time, so a single
one waits most of the time. The time counts from the first request to the last. The second part allows fewer requests a
minute than are needed: a request beyond the limit is answered with 429, and none may be.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from tests.databases.postgres_server import PostgresServer, running_server

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from tidelore_world import server
from tidelore_world.world import World

LATENCY_SECONDS = 0.05
CROWDS = (1, 2, 4)
SHARE = 0.8
"""What N workers must do at least: this share of N times the work of one in the same time."""
SAME_REQUESTS = 1.02
_QUICK_ITEMS = 5_000
_CONFIG = """[[gitlab]]
base_url = "{url}"
projects = [{projects}]
[http]
max_retries = 1
[sync]
scrub_share = 0
[service]
gitlab_interval_seconds = 3600
metrics_port = 0
[embedding]
provider = "none"
"""


class Round(Struct):
    """What one crowd of workers did: seconds from the first request to the last, requests, and processor time.

    The database server and the simulated forge need the same cores as the workers.
    """

    seconds: float
    requests: int
    refused: int
    processor_seconds: float
    server_seconds: float
    forge_seconds: float
    rows: int


def run(scale: Scale) -> Iterator[Finding]:
    """Mirror the same projects with more and more workers."""
    projects = 200 if scale.items > _QUICK_ITEMS else 40
    with running_server() as postgres:
        rounds = {workers: _mirror(postgres, projects, workers) for workers in CROWDS}
        # Not enough for all of them in one minute.
        limited = _mirror(postgres, projects, 2, limit=int(rounds[1].requests * 0.7))
    alone = rounds[1]
    for workers, found in rounds.items():
        rate = projects / found.seconds
        yield Finding("workers", f"projects a second, {workers} workers of {projects} projects", rate)
        for who, seconds in (
            (f"{workers} workers", found.processor_seconds),
            ("the database server", found.server_seconds),
            ("the simulated forge", found.forge_seconds),
        ):
            title = f"processor time of {who} for each project, {workers} workers"
            yield Finding("workers", title, seconds / projects * 1000, "ms")
        assert found.rows == alone.rows, "each crowd stores the same issues"
    for workers in CROWDS[1:]:
        lacking = workers * SHARE / (alone.seconds / rounds[workers].seconds)
        yield Finding("workers", f"{SHARE:g} x {workers} over the speed-up of {workers} workers", lacking, "x", 1.0)
        more = max(rounds[workers].requests, alone.requests) / min(rounds[workers].requests, alone.requests)
        yield Finding("workers", f"requests of {workers} workers over those of one", more, "x", SAME_REQUESTS)
    yield Finding("workers", "requests beyond a limit that 2 workers share", limited.refused, "", 0)


def _mirror(postgres: PostgresServer, projects: int, workers: int, limit: int | None = None) -> Round:
    """Let some workers make a first mirror of all projects, in an empty database."""
    world, names = _world(projects)
    times: list[float] = []
    world.before_request.append(lambda *_: times.append(time.monotonic()))
    world.gitlab.rate_limit = limit
    with (
        server.serve(world, latency_seconds=LATENCY_SECONDS) as served,
        tempfile.TemporaryDirectory() as folder,
        postgres.fresh_database() as address,
        _moving(world),
    ):
        config = Path(folder) / "config.toml"
        config.write_text(_CONFIG.format(url=served.url, projects=", ".join(f'"{name}"' for name in names)))
        before = _processor_seconds(postgres)
        _work(config, address, workers, wanted=projects if limit is not None else 0)
        spent = [after - one for one, after in zip(before, _processor_seconds(postgres), strict=True)]
        rows = _count(address)
    refused = sum(status == 429 for _, _, status in world.log)
    return Round(times[-1] - times[0], len(times), refused, *spent, rows)


def _processor_seconds(postgres: PostgresServer) -> tuple[float, float, float]:
    """Return the processor time so far of ended workers, of the database server, and of this process (the forge)."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = 0
    first, *others = postgres.pids()
    for pid, fields in ((first, slice(11, 15)), *((pid, slice(11, 13)) for pid in others)):
        with suppress(OSError):
            # Of the first process with its children that have ended: each connection is one.
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[fields]))
    return children.ru_utime + children.ru_stime, ticks / os.sysconf("SC_CLK_TCK"), time.process_time()


def _world(projects: int) -> tuple[World, list[str]]:
    world = World(3)
    names = [f"harbor/quay-{number}" for number in range(projects)]
    with world.lock:
        world.clock.now_us = (time.time_ns() // 1000) - 600_000_000
        for name in names:
            world.gitlab.create_project(name)
            world.gitlab.bulk(name, issues=5)
        world.advance(600)
    return world, names


@contextmanager
def _moving(world: World) -> Iterator[None]:
    """Let the world's clock follow ours, so that its minutes pass."""
    stopped = threading.Event()

    def follow() -> None:
        while not stopped.wait(0.2):
            with world.lock:
                behind = time.time() - world.clock.now_us / 1_000_000
                world.advance(max(behind, 0.0))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _work(config: Path, address: str, workers: int, wanted: int) -> None:
    """Run workers until nothing is due; with a limit, until `wanted` projects were synced."""
    how = ["--for", "100000"] if wanted else ["--once"]
    words = ["worker", *how, "--concurrency", "1", "--config", str(config), "--db", address, "--quiet"]
    crowd = [subprocess.Popen(_command(words), env={**os.environ, "GITLAB_TOKEN": "t"}) for _ in range(workers)]
    try:
        while wanted and _synced(address) < wanted:
            time.sleep(1)
        if wanted:
            for worker in crowd:
                worker.terminate()
        codes = [worker.wait(timeout=900) for worker in crowd]
        if any(codes):
            raise RuntimeError(f"workers ended with {codes}")
    finally:
        for worker in crowd:
            if worker.poll() is None:
                worker.kill()
                worker.wait()


def _command(words: list[str]) -> list[str]:
    return [sys.executable, "-c", "from tidelore.cli.entry import run; run()", *words]


def _lore(words: list[str], *, check: bool = True) -> None:
    subprocess.run(_command(words), check=check, capture_output=True, env={**os.environ, "GITLAB_TOKEN": "t"})


def _synced(address: str) -> int:
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('service_jobs')").fetchone() == (None,):
            return 0
        row = connection.execute(
            "SELECT COUNT(*) FROM service_jobs WHERE kind = 'sync' AND succeeded_at IS NOT NULL"
        ).fetchone()
    return 0 if row is None else int(row[0])


def _count(address: str) -> int:
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SELECT COUNT(*) FROM issues").fetchone()
    return 0 if row is None else int(row[0])
