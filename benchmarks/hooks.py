"""Benchmark `hooks`: how long after its webhook a change is stored, alone and in a storm, and what a storm costs.

The real service polls once an hour, so every change that is stored was announced. A storm is 200 deliveries a second,
half of them repeated, of items that did not change; the changes that are measured are made in the middle of it.

A flood is 20,000 deliveries in a minute, half of them repeated, to a service that also polls another host every few
seconds: none may be lost, and what only polling finds is still found in time.
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
POLLED = "harbor/crane"
POLL_SECONDS = 5
POLL_BOUND = 3
"""How many intervals may pass before polling finds a change during a flood."""
FLOOD_PER_SECOND = 350
"""Slightly more than 20,000 in a minute, so that a receiver that keeps up is done within it."""
FLOOD_BOUND_PER_SECOND = 20_000 / 60
SENDERS = 4
SECRET = "it is only a benchmark"
_SYNCED = "SELECT 1 FROM service_jobs WHERE name = 'gitlab:gitlab' AND succeeded_at IS NOT NULL"
_PORT = 18_791
_CONFIG = """[[gitlab]]
base_url = "{url}"
projects = ["{project}"]
hook_secret_env = "BENCH_HOOKS"
[hooks]
port = {port}
[service]
gitlab_interval_seconds = {interval}
metrics_port = 0
[embedding]
provider = "none"
"""


_SECOND_HOST = """[[gitlab]]
name = "polled"
base_url = "{url}"
projects = ["{project}"]
"""


def run(scale: Scale) -> Iterator[Finding]:
    """Measure single changes first, then a flood."""
    yield from _measure_changes(scale)
    yield from _measure_flood(scale.items)


def _measure_changes(scale: Scale) -> Iterator[Finding]:
    """Start the service over a simulated GitLab, and announce changes to it."""
    world = World(3)
    with world.lock:
        world.clock.now_us = time.time_ns() // 1000
        world.gitlab.create_project(PROJECT)
        world.gitlab.bulk(PROJECT, issues=200)
    with server.serve(world) as served, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        with _service(served.url, Path(folder)) as (url, _):
            _wait(lambda: _read(path, _SYNCED) == [(1,)] and _is_listening(url))
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


def _measure_flood(deliveries: int) -> Iterator[Finding]:
    """Send very many deliveries, and look meanwhile how long changes wait that no delivery announces."""
    world = World(3)
    with world.lock:
        world.clock.now_us = time.time_ns() // 1000
        for project in (PROJECT, POLLED):
            world.gitlab.create_project(project)
            world.gitlab.bulk(project, issues=100)
    with server.serve(world) as served, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        polled = _SECOND_HOST.format(url=served.url, project=POLLED)
        with _service(served.url, Path(folder), POLL_SECONDS, polled) as (url, process):
            synced = "SELECT COUNT(*) FROM service_jobs WHERE name LIKE 'gitlab:%' AND succeeded_at IS NOT NULL"
            _wait(lambda: _read(path, synced) == [(2,)] and _is_listening(url))
            statuses: list[int] = []
            seconds: list[float] = []
            storm = threading.Thread(target=_flood, args=(world, url, deliveries, statuses, seconds))
            storm.start()
            found: list[float] = []
            while storm.is_alive():
                found.append(_change(world, path, len(found) % 100, POLLED))
            after = _change(world, path, 1, POLLED)
            alive = process.poll() is None
            memory = _peak_megabytes(process.pid)
            stored = _read(path, "SELECT COUNT(*) FROM hook_deliveries")[0][0]
    title = f"{deliveries:,} deliveries"
    yield Finding(
        "hooks", f"{title}, half of them repeated, sent in", seconds[0], "s", deliveries / FLOOD_BOUND_PER_SECOND
    )
    yield Finding("hooks", f"{title}: not accepted", sum(status != 202 for status in statuses), bound=0)
    yield Finding("hooks", f"{title}: lost of those that differ", deliveries // 2 - stored, bound=0)
    yield Finding("hooks", f"{title}: services that ended", int(not alive), bound=0)
    bound = POLL_BOUND * POLL_SECONDS
    yield Finding("hooks", f"{title}: longest wait for a polled change, of {len(found)}", max(found), "s", bound)
    yield Finding("hooks", f"{title}: the same after them", after, "s", bound)
    yield Finding("hooks", f"{title}: peak memory of the service", memory, "MB")


def _flood(world: World, url: str, deliveries: int, statuses: list[int], seconds: list[float]) -> None:
    """Send deliveries from several threads at a fixed rate; each id is sent twice."""
    payloads = [hooks.gitlab_payload("item", world.gitlab.issue(PROJECT, number + 1)) for number in range(50)]
    began = time.monotonic()

    def send(first: int) -> None:
        for number in range(first, deliveries, SENDERS):
            sent = hooks.sign_gitlab(SECRET, "Issue Hook", payloads[number % 50], 0, f"flood-{number // 2}")
            try:
                statuses.append(hooks.post(url, sent))
            except OSError:
                statuses.append(0)
            time.sleep(max(0.0, began + (number + 1) / FLOOD_PER_SECOND - time.monotonic()))

    senders = [threading.Thread(target=send, args=(first,)) for first in range(SENDERS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    seconds.append(time.monotonic() - began)


def _peak_megabytes(pid: int) -> float:
    """Return the peak resident size of a process (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _change(world: World, path: Path, number: int, project: str = PROJECT) -> float:
    """Edit an issue, and return how long it takes until the new title is stored."""
    title = f"Edited {time.monotonic_ns()}"
    with world.lock:
        world.clock.now_us = time.time_ns() // 1000
        world.gitlab.edit_issue(project, number + 1, title=title)
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
def _service(
    world_url: str, folder: Path, interval: int = 3600, more: str = ""
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    config = folder / "config.toml"
    config.write_text(more + _CONFIG.format(url=world_url, project=PROJECT, port=_PORT, interval=interval))
    words = ["service", "--quiet", "--config", str(config), "--db", str(folder / "lore.db")]
    command = [sys.executable, "-c", "from tidelore.cli.entry import run; run()", *words]
    with subprocess.Popen(command, env=os.environ | {"BENCH_HOOKS": SECRET}, stdout=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{_PORT}/hooks/gitlab", process
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
    deadline = time.monotonic() + 120
    while True:
        try:
            if holds():
                return
        except apsw.Error:
            pass
        if time.monotonic() > deadline:
            raise RuntimeError("the service did not do it in time")
        time.sleep(0.01)
