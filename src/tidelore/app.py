"""The composition root: the only place where objects are wired together.

Owns the way from settings to a running command. Refuses logic: what to read is decided in `pipeline`, how
to show it in the faces. What only some commands need is imported by them: an offline read loads no client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from tidelore.clock import Clock, SystemClock
from tidelore.config import Config, database_address
from tidelore.engine.crashpoint import Crashpoint, no_seam
from tidelore.errors import Cancelled
from tidelore.store.database import Database
from tidelore.store.migrate import migrate
from tidelore.store.opening import open_database

if TYPE_CHECKING:
    from tidelore.engine.intake import Tally
    from tidelore.pipeline.diagnosis import Finding
    from tidelore.pipeline.ingest import Target
    from tidelore.pipeline.mirror import MirrorRequest
    from tidelore.pipeline.report import RunReport
    from tidelore.sources.transport import Transport

T = TypeVar("T")


class App(Struct, frozen=True):
    """Everything a face needs: settings, clock, and the doors to the rooms below."""

    config: Config
    environ: Mapping[str, str]
    db: str | None = None
    clock: Clock = SystemClock()
    seam: Crashpoint = no_seam
    transport: Transport | None = None

    @property
    def address(self) -> str:
        """The database: a path, or a postgresql:// address."""
        return database_address(self.config, self.db, self.environ)

    def open_store(self, *, create: bool = False) -> Database:
        """Open the database and bring its schema up to date; a reader does not create it."""
        database = open_database(self.address, create=create)
        try:
            migrate(database, self.clock.now_ms())
        except BaseException:
            database.close()
            raise
        return database


async def mirror(
    app: App,
    request: MirrorRequest,
    command: str,
    on_page: Callable[[Target, Tally], None] = lambda _target, _tally: None,
) -> RunReport:
    """Open the sources and the store, and run one mirroring command."""
    from contextlib import AsyncExitStack

    from tidelore.pipeline import mirror as run
    from tidelore.pipeline.session import Workshop
    from tidelore.pipeline.targets import build_targets, check_resources, choose_projects
    from tidelore.sources.registry import Wiring, open_gitlab

    check_resources(request.resources)
    chosen = choose_projects(app.config, request.project)
    count = run.RequestCount()
    wiring = Wiring(app.config, app.clock, app.environ, count, app.transport)
    async with AsyncExitStack() as stack:
        hosts = [host for host in app.config.gitlab if chosen.get(host.name)]
        sources = [await stack.enter_async_context(open_gitlab(host, wiring)) for host in hosts]
        database = app.open_store(create=True)
        stack.callback(database.close)
        shop = Workshop(database, app.config, app.clock, app.seam, command)
        targets = build_targets(sources, chosen, request.resources)
        return await run.mirror(shop, targets, request, count, on_page)


async def diagnose(app: App) -> list[Finding]:
    """Ask every configured host who we are and whether the configured projects are within reach."""
    from tidelore.pipeline.diagnosis import examine
    from tidelore.sources.registry import Wiring, open_gitlab

    wiring = Wiring(app.config, app.clock, app.environ, lambda _metric: None, app.transport)
    findings: list[Finding] = []
    for host in app.config.gitlab:
        findings += await examine(open_gitlab(host, wiring), host.name, host.base_url, host.projects)
    return findings


def run_until_signalled(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; SIGINT and SIGTERM cancel it, so that its run row is finalised, and exit 130."""
    import asyncio
    import signal

    async def supervised() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            raise Cancelled(
                "interrupted; everything read so far is stored", fix="run the command again to go on"
            ) from None
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    return asyncio.run(supervised())
