"""Benchmark `many-projects`: what very many small projects cost: a quiet round, memory, and the size of the database.

The costs of one project are compared between some projects and four times as many: they must not grow. Lists are
mirrored by the product, and children count as read: a quarter of a million requests for them would measure the
simulator. The simulated forge is one process, each round another one.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import msgspec
from msgspec import Struct

from benchmarks.findings import Finding
from benchmarks.memory import peak_mb
from benchmarks.scale import Scale
from benchmarks.workplace import ROOT, SOURCE, count_children_as_read, served
from tidelore.app.mirroring import mirror
from tidelore.app.wiring import App
from tidelore.core.config import forge_hosts
from tidelore.core.config_file import parse_config
from tidelore.core.progress import silent
from tidelore.sources.ports import RESOURCES, Wiring
from tidelore.sources.registry import open_hosts
from tidelore.store.work.session import Workshop, open_session
from tidelore.sync.ingest import ingest
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.projects import ListTarget
from tidelore.sync.report import RequestCount
from tidelore_world.server import run_forever
from tidelore_world.world import World

ISSUES, MERGE_REQUESTS = 3, 2
GROWTH_BOUND = 1.25
"""How much more a project may cost among four times as many."""
REQUESTS_BOUND = 2.1
"""Requests of a quiet round for each project: its two lists, and the share that verifies."""
ROUNDS = 3


class Cost(Struct, frozen=True):
    """What one run took."""

    requests: int
    seconds: float
    processor: float
    peak_mb: float


def run(scale: Scale) -> Iterator[Finding]:
    """Measure a number of projects and four times as many."""
    many = scale.accounts // 5
    few = many // 4
    first, last = _measure(few), _measure(many)
    for name, unit in (("requests", ""), ("processor", "ms"), ("bytes", "KB")):
        before, after = first[name] / few, last[name] / many
        bound = REQUESTS_BOUND if name == "requests" else None
        title = {
            "requests": "requests of a quiet round for each project",
            "processor": "processor time of a quiet round for each project",
            "bytes": "size of the database for each project",
        }[name]
        factor = {"requests": 1.0, "processor": 1000.0, "bytes": 1 / 1024}[name]
        yield Finding("many-projects", f"{title}, {many:,} projects", after * factor, unit, bound)
        yield Finding("many-projects", f"{title}, {many:,} / {few:,} projects", after / before, "x", GROWTH_BOUND)
    yield Finding("many-projects", f"a quiet round of {many:,} projects", last["seconds"], "s")
    yield Finding("many-projects", f"peak memory of a quiet round, {few:,} projects", first["peak_mb"], "MB")
    yield Finding("many-projects", f"peak memory of a quiet round, {many:,} projects", last["peak_mb"], "MB")
    grown = (last["peak_mb"] - first["peak_mb"]) / (many - few) * 1000
    yield Finding("many-projects", "memory for each further 1,000 projects", grown, "MB")
    yield Finding("many-projects", f"first mirror of the lists of {many:,} projects", last["mirror"], "s")


def _measure(count: int) -> dict[str, float]:
    """Mirror projects, then let some quiet rounds pass."""
    serve = ["benchmarks.many_projects", "serve", str(count)]
    with served(serve) as url, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        first = _ran("mirror", url, path, count)
        count_children_as_read(path)
        rounds = [_ran("round", url, path, count) for _ in range(ROUNDS)]
        return {
            "mirror": first.seconds,
            "bytes": float(path.stat().st_size),
            "requests": median(one.requests for one in rounds),
            "seconds": median(one.seconds for one in rounds),
            "processor": median(one.processor for one in rounds),
            "peak_mb": max(one.peak_mb for one in rounds),
        }


def _ran(what: str, url: str, path: Path, count: int) -> Cost:
    command = [sys.executable, "-m", "benchmarks.many_projects", what, url, str(path), str(count)]
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(answer.stdout, type=Cost)


def _names(count: int) -> list[str]:
    return [f"team{number // 100}/project{number}" for number in range(count)]


def _serve(count: int) -> None:
    world = World()
    world.keep_log = False
    for name in _names(count):
        world.gitlab.bulk(world.gitlab.create_project(name).id, ISSUES, MERGE_REQUESTS)
    run_forever(world, 0, 0.0, ready=lambda url: print(url, flush=True))


def _app(url: str, path: str, count: int) -> App:
    hosts = [{"name": SOURCE, "base_url": url, "projects": _names(count)}]
    return App(parse_config({"gitlab": hosts}), {}, db=path)


async def _mirror_lists(app: App) -> int:
    """Read the lists of all projects; their items' children are left."""
    requests = RequestCount()
    async with AsyncExitStack() as stack:
        wiring = Wiring(app.config, app.clock, app.environ, requests, None)
        source = (await open_hosts(forge_hosts(app.config), wiring, stack))[0]
        database = app.open_store(create=True)
        stack.callback(database.close)
        shop = Workshop(database, app.config, app.clock, app.seam, "lore ingest")
        projects = app.config.gitlab[0].projects
        targets = [ListTarget(source, _name_of(project), resource) for project in projects for resource in RESOURCES]
        async with open_session(shop, force=False) as session:
            scopes = await ingest(session, targets, full=False, on_progress=silent)
    if any(scope.error for scope in scopes):
        raise RuntimeError("a list could not be read")
    return requests.total


def _name_of(project: object) -> str:
    return project if isinstance(project, str) else str(getattr(project, "path", project))


async def _quiet_round(app: App) -> int:
    report = await mirror(app, MirrorRequest(RESOURCES), "lore sync")
    return report.requests


def main() -> None:
    """Serve projects, or mirror them once and print what that took."""
    what, *rest = sys.argv[1:]
    if what == "serve":
        _serve(int(rest[0]))
        return
    app = _app(rest[0], rest[1], int(rest[2]))
    began, used = perf_counter(), process_time()
    requests = asyncio.run((_mirror_lists if what == "mirror" else _quiet_round)(app))
    cost = Cost(requests, perf_counter() - began, process_time() - used, peak_mb())
    sys.stdout.buffer.write(msgspec.json.encode(cost))


if __name__ == "__main__":
    main()
