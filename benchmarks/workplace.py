"""Where measurements happen: a served world, a directory that vanishes, and the product's own mirroring run.

Owns the lives of child processes: each is ended with the block that started it. Refuses a shortcut into the
product: what is timed is `app.mirror` on a SQLite file, as `lore` runs it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.world_server import PROJECT
from tidelore.app import App, mirror
from tidelore.config import parse_config
from tidelore.pipeline.mirror import MirrorRequest
from tidelore.sources.registry import RESOURCES

if TYPE_CHECKING:
    from tidelore.pipeline.report import RunReport
    from tidelore.sources.transport import Transport

SOURCE = "simulated"
ROOT = Path(__file__).parent.parent


@contextmanager
def served_world(items: int, latency_ms: float = 0.0) -> Iterator[str]:
    """Serve that many items from another process; yield the address."""
    command = ["benchmarks.world_server", "--items", str(items), "--latency-ms", str(latency_ms)]
    with subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if not url:
                raise RuntimeError("the simulated world did not start")
            yield url
        finally:
            server.terminate()


def copy_world(url: str, database: Path, transport: Transport | None = None) -> RunReport:
    """Mirror a served world, or poll it when the database has a copy already; fail on an incomplete run.

    A transport that is handed in is closed with the run: its connections belong to the run's event loop.
    """
    hosts = [{"name": SOURCE, "base_url": url, "projects": [PROJECT]}]
    app = App(parse_config({"gitlab": hosts}), {}, db=str(database), transport=transport)
    report = asyncio.run(_mirror(app))
    for scope in (*report.scopes, *report.scrubbed):
        if scope.error is not None:
            raise scope.error
    return report


async def _mirror(app: App) -> RunReport:
    try:
        return await mirror(app, MirrorRequest(RESOURCES), "lore ingest")
    finally:
        if app.transport is not None:
            await app.transport.aclose()


def stored(report: RunReport) -> int:
    """Return how many items a run stored."""
    return sum(scope.tally.created + scope.tally.changed for scope in report.scopes)
