"""Benchmark `web`: how long a page of `lore serve` takes on a big copy, in process, and how many bytes it has.

The big copy is a small one many times over. Medians of several requests after a first one; the pages are those a reader
opens without a filter, and one with the filters that have an index.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
from starlette.testclient import TestClient

from benchmarks.findings import Finding
from benchmarks.multiply import multiply
from benchmarks.reads import NOTES_EACH, settle
from benchmarks.scale import Scale
from benchmarks.workplace import copy_world, served_world
from benchmarks.world_server import Contents
from tidelore.app.syncing import generate_documents
from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.core.progress import silent
from tidelore.web.guard import make_access
from tidelore.web.server import build_site

BOUND_MS = 100.0
BOUND_BYTES = 150_000
HOST = "http://127.0.0.1:8765"


def run(scale: Scale) -> Iterator[Finding]:
    """Fill a copy, and open every page."""
    contents = Contents(10, scale.few_notes // NOTES_EACH + 1, discussions=5, notes=3, events=2, files=4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lore.db"
        with served_world(contents) as url:
            copy_world(url, path)
        app = App(Config(), {}, db=str(path))
        generate_documents(app, silent)
        settle(path)
        multiply(path, -(-scale.many_notes // scale.few_notes))
        notes, project, iid, file = _look(path)
        client = TestClient(
            build_site(app, make_access("127.0.0.1", 8765, None)), base_url=HOST, headers={"accept": "text/html"}
        )
        pages = {
            "home": "/",
            "search": "/search?q=change",
            "issues": "/issues",
            "merge requests": "/mrs?state=opened",
            "merge requests by creation": "/mrs?sort=created&order=oldest",
            "merge request": f"/p/{project}/mrs/{iid}",
            "file": f"/files?path={file}&project={project}",
            "status": "/status",
            "waiting": "/waiting",
            "coverage": "/coverage",
        }
        for name, address in pages.items():
            seconds, spent, size = _open(client, address, scale.rounds)
            yield Finding("web", f"{name}, {notes:,} notes", seconds * 1000, "ms", BOUND_MS)
            yield Finding("web", f"{name}, processor time", spent * 1000, "ms", BOUND_MS)
            yield Finding("web", f"{name}, size", size, "bytes", BOUND_BYTES)


def _open(client: TestClient, address: str, rounds: int) -> tuple[float, float, int]:
    """Return the median time of a page, the median of its processor time, and its size."""
    seconds, spent = [], []
    for _ in range(rounds + 1):
        began, used = time.perf_counter(), time.process_time()
        response = client.get(address)
        seconds.append(time.perf_counter() - began)
        spent.append(time.process_time() - used)
        assert response.status_code == 200, (address, response.text[-300:])
    return statistics.median(seconds[1:]), statistics.median(spent[1:]), len(response.content)


def _look(path: Path) -> tuple[int, str, int, str]:
    """Return how many notes there are, and a merge request and a file to show."""
    connection = apsw.Connection(str(path))
    notes = connection.execute("SELECT COUNT(*) FROM notes").get
    project, iid, file = connection.execute(
        "SELECT p.path, m.iid, f.new_path FROM mr_file_changes f JOIN merge_requests m ON m.id = f.merge_request_id"
        " JOIN projects p ON p.id = m.project_id ORDER BY m.id DESC LIMIT 1"
    ).get
    connection.close()
    return notes, project, iid, file
