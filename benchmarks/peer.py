"""Benchmark `peer`: a first mirror of merge requests with their discussions against a plain python-gitlab script.

The script is what one writes with that library: it lists the merge requests, reads the discussions of each, and keeps
the objects as JSON in two SQLite tables, a commit for a page. Tidelore reads the same, by REST and by GraphQL, and
keeps its full rows. What counts is when every discussion is stored; after GraphQL the line ranges of notes follow by
REST. The three are timed in turn, round after round, against one server.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

import gitlab

from benchmarks.batches import DISCUSSIONS, NOTES, TOKEN
from benchmarks.findings import Finding
from benchmarks.floor import PER_PAGE
from benchmarks.mirror import timed
from benchmarks.scale import Scale
from benchmarks.workplace import app_of, checked, served_world, stored
from benchmarks.world_server import PROJECT, Contents
from tidelore.app.mirroring import mirror
from tidelore.core.progress import Progress
from tidelore.sync.mirror import MirrorRequest

LATENCIES_MS = (0, 20)
BOUNDS = {"GraphQL": 1 / 4, "REST": 1 / 1.5}
"""The most a mirror may take of the time of the script, at 0 ms."""
ONLY_DISCUSSIONS = {"fetch_resource_events": False, "fetch_mr_closes_issues": False, "fetch_mr_diffs": False}


def run(scale: Scale) -> Iterator[Finding]:
    """Measure at each latency."""
    contents = Contents(0, scale.merge_requests, discussions=DISCUSSIONS, notes=NOTES)
    for latency_ms in LATENCIES_MS:
        with served_world(contents, latency_ms) as url, tempfile.TemporaryDirectory() as folder:
            yield from _compare(url, Path(folder), contents, scale.passes, latency_ms)


def _compare(url: str, folder: Path, contents: Contents, rounds: int, latency_ms: int) -> Iterator[Finding]:
    title = f"{contents.merge_requests:,} MRs at {latency_ms} ms"
    seconds: dict[str, list[float]] = {"script": [], **{name: [] for name in BOUNDS}}
    # The first round warms the server and is left out.
    for number in range(rounds + 1):
        path = folder / f"{number}.script.db"
        took = {"script": timed(lambda path=path: keep_by_script(url, path, contents))}  # type: ignore[misc]
        for name in BOUNDS:
            took[name] = _mirror(url, folder / f"{number}.{name}.db", contents, TOKEN if name == "GraphQL" else {})
        for name, value in took.items() if number else ():
            seconds[name].append(value)
    script = median(seconds["script"])
    yield Finding("peer", f"{title}: python-gitlab script, median of {rounds}", script, "s")
    for name, bound in BOUNDS.items():
        yield Finding("peer", f"{title}: mirror by {name}", median(seconds[name]), "s")
        ratio = median(seconds[name]) / script
        yield Finding("peer", f"{title}: mirror by {name} / script", ratio, "x", None if latency_ms else bound)


def keep_by_script(url: str, path: Path, contents: Contents) -> None:
    """Copy the merge requests and discussions of the project with python-gitlab."""
    with gitlab.Gitlab(url, private_token=TOKEN["GITLAB_TOKEN"]) as forge, closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("CREATE TABLE merge_requests (id INTEGER PRIMARY KEY, iid INTEGER, payload TEXT)")
        database.execute("CREATE TABLE discussions (id TEXT PRIMARY KEY, merge_request INTEGER, payload TEXT)")
        project = forge.projects.get(PROJECT)
        found = iter(project.mergerequests.list(iterator=True, state="all", per_page=PER_PAGE))
        while page := list(islice(found, PER_PAGE)):
            for request in page:
                row = (request.id, request.iid, json.dumps(request.attributes))
                database.execute("INSERT INTO merge_requests VALUES (?, ?, ?)", row)
                threads = request.discussions.list(get_all=True, per_page=PER_PAGE)
                rows = [(thread.id, request.id, json.dumps(thread.attributes)) for thread in threads]
                database.executemany("INSERT INTO discussions VALUES (?, ?, ?)", rows)
            database.commit()
        ((kept,),) = database.execute("SELECT COUNT(*) FROM discussions")
    if kept != contents.merge_requests * contents.discussions:
        raise RuntimeError(f"the script kept {kept} discussions")


def _mirror(url: str, path: Path, contents: Contents, environ: Mapping[str, str]) -> float:
    """Copy the same with Tidelore; return after how many seconds. Without a token it uses REST."""
    ended: list[float] = []

    def watch(progress: Progress) -> None:
        if progress.stage == "merge_requests discussions" and progress.done == progress.total:
            ended.append(perf_counter())

    gc.collect()
    began = perf_counter()
    app = app_of(url, path, None, environ, ONLY_DISCUSSIONS)
    request = MirrorRequest(("merge_requests",), scrub_budget=0)
    report = checked(app, lambda app: mirror(app, request, "lore ingest", watch))
    kept = sum(scope.children["discussions"].seen["discussions"] for scope in report.scopes)
    if stored(report) != contents.merge_requests or kept != contents.merge_requests * contents.discussions:
        raise RuntimeError(f"{stored(report)} merge requests with {kept} discussions were mirrored")
    return ended[0] - began
