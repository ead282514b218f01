"""Benchmark `hooks`: how long after its webhook a change is stored, alone and in a storm, and what a storm costs.

The real service polls once an hour, so every change that is stored was announced. A storm is 200 deliveries a second,
half of them repeated, of items that did not change; the changes that are measured are made in the middle of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import apsw

from benchmarks.findings import Finding
from benchmarks.scale import Scale
from tidelore_world import hooks, server
from tidelore_world.world import World

BOUND_MS = 2000.0
PER_SECOND = 200
CHANGES = 10
PROJECT = "harbor/ledger"
SECRET = "it is only a benchmark"
_PORT = 18_791
_CONFIG = """[[gitlab]]
base_url = "{url}"
projects = ["{project}"]
hook_secret_env = "BENCH_HOOKS"
[hooks]
port = {port}
[service]
gitlab_interval_seconds = 3600
metrics_port = 0
[embedding]
provider = "none"
"""


def run(scale: Scale) -> Iterator[Finding]:
    """Start the service over a simulated GitLab, and announce changes to it."""
    world = World(3)
    with world.lock:
        world.clock.now_us = time.time_ns() // 1000
        world.gitlab.create_project(PROJECT)
        world.gitlab.bulk(PROJECT, issues=200)
    with server.serve(world) as served, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        with _service(served.url, Path(folder)) as url:
            synced = "SELECT 1 FROM service_jobs WHERE name = 'gitlab:gitlab' AND succeeded_at IS NOT NULL"
            _wait(lambda: _read(path, synced) == [(1,)] and _is_listening(url))
            hooks.HookSender(world).gitlab(url, SECRET)
            alone = [_change(world, path, number) for number in range(CHANGES)]
            statuses: list[int] = []
            before = world.requests.total()
            storm = threading.Thread(target=_storm, args=(world, url, 5 * scale.rounds, statuses))
            storm.start()
            time.sleep(1)
            amid = [_change(world, path, number) for number in range(CHANGES)]
            storm.join()
            requests = world.requests.total() - before
            runs = _read(path, "SELECT COUNT(*) FROM sync_runs")[0][0]
    yield Finding("hooks", f"hook to stored row, median of {CHANGES}", median(alone) * 1000, "ms")
    yield Finding("hooks", f"hook to stored row, longest of {CHANGES}", max(alone) * 1000, "ms", BOUND_MS)
    yield Finding("hooks", f"the same at {PER_SECOND} hooks a second, median", median(amid) * 1000, "ms")
    yield Finding("hooks", f"the same at {PER_SECOND} hooks a second, longest", max(amid) * 1000, "ms", BOUND_MS)
    yield Finding("hooks", "deliveries of the storm", len(statuses))
    yield Finding("hooks", "of these not accepted", sum(status != 202 for status in statuses), bound=0)
    yield Finding("hooks", "runs of the service for all of them", runs)
    yield Finding("hooks", "requests to the forge meanwhile", requests)


def _change(world: World, path: Path, number: int) -> float:
    """Edit an issue, and return how long it takes until the new title is stored."""
    title = f"Edited {time.monotonic_ns()}"
    with world.lock:
        world.clock.now_us = time.time_ns() // 1000
        world.gitlab.edit_issue(PROJECT, number + 1, title=title)
    began = time.monotonic()
    _wait(lambda: _read(path, f"SELECT 1 FROM issues WHERE title = '{title}'") == [(1,)])
    return time.monotonic() - began


def _storm(world: World, url: str, seconds: int, statuses: list[int]) -> None:
    """Send deliveries of items that did not change, at a fixed rate; every second one is a repetition."""
    began = time.monotonic()
    for number in range(seconds * PER_SECOND):
        item = world.gitlab.issue(PROJECT, 20 + number % 50)
        sent = hooks.sign_gitlab(SECRET, "Issue Hook", hooks.gitlab_payload("item", item), 0, f"storm-{number // 2}")
        statuses.append(hooks.post(url, sent))
        time.sleep(max(0.0, began + (number + 1) / PER_SECOND - time.monotonic()))


@contextmanager
def _service(world_url: str, folder: Path) -> Iterator[str]:
    config = folder / "config.toml"
    config.write_text(_CONFIG.format(url=world_url, project=PROJECT, port=_PORT))
    words = ["service", "--quiet", "--config", str(config), "--db", str(folder / "lore.db")]
    command = [sys.executable, "-c", "from tidelore.cli.entry import run; run()", *words]
    with subprocess.Popen(command, env=os.environ | {"BENCH_HOOKS": SECRET}, stdout=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{_PORT}/hooks/gitlab"
        finally:
            process.terminate()


def _is_listening(url: str) -> bool:
    try:
        return hooks.post(url, hooks.Hooked({}, b"")) == 401
    except OSError:
        return False


def _read(path: Path, sql: str) -> list[tuple[int]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(sql))  # type: ignore[arg-type]
    except apsw.Error:
        return []
    finally:
        connection.close()


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            if holds():
                return
        except apsw.Error:
            pass
        if time.monotonic() > deadline:
            raise RuntimeError("the service did not do it in time")
        time.sleep(0.01)
