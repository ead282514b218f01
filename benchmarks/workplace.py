"""Where measurements happen: a served world, a directory that vanishes, and the product's own mirroring run.

Owns the lives of child processes: each is ended with the block that started it. Refuses a shortcut into the
product: what is timed is `app.mirror` on a SQLite file, as `lore` runs it, or its first stage whole.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from benchmarks.world_server import PROJECT, Contents
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
from tidelore.sync.report import RequestCount, RunReport

if TYPE_CHECKING:
    from tidelore.http.transport import Transport

SOURCE = "simulated"
ROOT = Path(__file__).parent.parent


@contextmanager
def served_world(contents: Contents, latency_ms: float = 0.0) -> Iterator[str]:
    """Serve a project with these contents from another process; yield the address."""
    command = ["benchmarks.world_server", "--latency-ms", str(latency_ms)]
    for name in contents.__struct_fields__:
        command += [f"--{name.replace('_', '-')}", str(getattr(contents, name))]
    with served(command) as url:
        yield url


@contextmanager
def served(command: Sequence[str]) -> Iterator[str]:
    """Run a module that serves a world and prints its address; yield the address."""
    with subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if not url:
                raise RuntimeError("the simulated world did not start")
            yield url
        finally:
            server.terminate()


def copy_world(url: str, database: Path | str, transport: Transport | None = None) -> RunReport:
    """Mirror a served world whole, or poll it when the database has a copy already; fail on an incomplete run.

    A transport that is handed in is closed with the run: its connections belong to the run's event loop.
    """
    return checked(app_of(url, database, transport), lambda app: mirror(app, MirrorRequest(RESOURCES), "lore ingest"))


def copy_lists(url: str, database: Path, transport: Transport | None = None) -> RunReport:
    """Mirror the lists of a served world and leave what hangs on their items: the first stage of a run alone."""
    return checked(app_of(url, database, transport), _walk)


def count_children_as_read(database: Path) -> None:
    """Make a copy of lists one whose children were read too: a long history without its many requests."""
    connection = apsw.Connection(str(database))
    connection.execute(
        "UPDATE child_sync SET synced_for = parent_updated_at, fetched_for = parent_updated_at, last_attempt_at = 1"
    )
    connection.close()


def stored(report: RunReport) -> int:
    """Return how many items a run stored."""
    return sum(scope.tally.created + scope.tally.changed for scope in report.scopes)


def children_stored(report: RunReport) -> int:
    """Return how many children a run stored."""
    return sum(child.tally.changed for scope in report.scopes for child in scope.children.values())


def app_of(
    url: str,
    database: Path | str,
    transport: Transport | None = None,
    environ: Mapping[str, str] | None = None,
    sync: Mapping[str, Any] | None = None,
) -> App:
    """Return the product with a served world as its one host and this file as its copy; without a token, by REST."""
    hosts = [{"name": SOURCE, "base_url": url, "projects": [PROJECT]}]
    config = parse_config({"gitlab": hosts, "sync": dict(sync or {})})
    return App(config, dict(environ or {}), db=str(database), transport=transport)


def checked(app: App, work: Callable[[App], Coroutine[Any, Any, RunReport]]) -> RunReport:
    """Run a mirroring command; raise the error of a list that could not be read."""
    report = asyncio.run(_closing(app, work))
    for scope in (*report.scopes, *report.scrubbed):
        if scope.error is not None:
            raise scope.error
    return report


async def _closing(app: App, work: Callable[[App], Coroutine[Any, Any, RunReport]]) -> RunReport:
    try:
        return await work(app)
    finally:
        if app.transport is not None:
            await app.transport.aclose()


async def _walk(app: App) -> RunReport:
    count = RequestCount()
    wiring = Wiring(app.config, app.clock, app.environ, count, app.transport)
    async with AsyncExitStack() as stack:
        sources = await open_hosts(forge_hosts(app.config), wiring, stack)
        database = app.open_store(create=True)
        stack.callback(database.close)
        shop = Workshop(database, app.config, app.clock, app.seam, "lore ingest")
        targets = [ListTarget(sources[0], PROJECT, resource) for resource in RESOURCES]
        async with open_session(shop, force=False) as session:
            scopes = await ingest(session, targets, full=False, on_progress=silent)
    return RunReport(session.run.id, scopes=scopes, requests=count.total)
