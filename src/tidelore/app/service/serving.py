"""The service: one process that keeps a database up to date, under a lease of its own. Owns the wiring around the loop.

Second instances are refused with the holder's name. Settings are read again when their file changes or somebody asks;
a file that is wrong, or names another database, is refused and the old settings go on.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import ConfigError, StorageFailed, TideloreError
from tidelore.service.control import Control
from tidelore.service.status import LEASE

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.engine.lease import Lease
    from tidelore.service.exposition import Exposition
    from tidelore.store.database.port import Database
    from tidelore.store.work.service_records import JobRow
    from tidelore.store.work.session import Workshop

_LOG = logging.getLogger(__name__)

COMMAND = "lore service"


class ServeRequest(Struct, frozen=True):
    """How long to serve: until stopped, for some seconds, or until every job has had one turn."""

    once: bool = False
    seconds: float | None = None
    force: bool = False


class ServiceReport(Struct):
    """What came of it: how the jobs stood at the end, and what each of them met last."""

    jobs: list[JobRow]
    errors: dict[str, TideloreError]
    ended: int
    seconds: float


async def serve(
    app: App,
    request: ServeRequest,
    control: Control,
    *,
    load: Callable[[], App] | None = None,
    config_file: str | None = None,
    on_settings: Callable[[App], None] = lambda _app: None,
) -> ServiceReport:
    """Serve until stopped. `load` reads the settings again, of `config_file`; `on_settings` is told of new ones."""
    from tidelore.app.service.jobs import build_some_jobs
    from tidelore.app.service.keeping import Keeper
    from tidelore.service.loop import Loop
    from tidelore.service.recording import Recorder
    from tidelore.service.reload import Reloading
    from tidelore.store.work.session import Workshop, refuse_held

    control.bind()
    began = app.clock.monotonic()
    database = app.open_store(create=True)
    try:
        shop = Workshop(database, app.config, app.clock, app.seam, COMMAND)
        refuse_held(shop, force=request.force, name=LEASE)
        async with _listening(app) as exposition:
            with _only_one(shop, force=request.force) as lease:
                guarded = None if load is None else _guarded(app, database, load)
                source = Reloading(config_file, guarded) if guarded is not None and config_file else None
                keeper = Keeper(app, database, lease, control, source, on_settings, exposition)
                jobs = build_some_jobs(app, database)
                loop = Loop(Recorder(database, app.clock), app.clock, control, renew=keeper.renew, beat=keeper.beat)
                loop.set_jobs(jobs, at_once=request.once)
                started = {"event": "service_started", "jobs": len(jobs)}
                try:
                    _LOG.info("service started with %d jobs", len(jobs), extra=started)
                    await loop.run(seconds=request.seconds, once=request.once)
                finally:
                    await keeper.close_port()
                    _LOG.info("service stopped", extra={"event": "service_stopped", "ended": loop.ended})
                return _report(database, loop.errors, loop.ended, app.clock.monotonic() - began)
    finally:
        database.close()


def run_service(
    app: App,
    request: ServeRequest,
    *,
    load: Callable[[], App] | None = None,
    config_file: str | None = None,
    on_settings: Callable[[App], None] = lambda _app: None,
) -> ServiceReport:
    """Run the service: SIGTERM and SIGINT end it in order, SIGHUP reloads the settings.

    The service, with every store call, runs in a thread with its own event loop. The main thread only hears signals, so
    a database that makes the service wait does not make it deaf.
    """
    from tidelore.service.supervisor import supervise

    control, patience = Control(), app.new_patience()
    shared = replace(app, patience=patience)

    def reload() -> App:
        assert load is not None
        return replace(load(), patience=patience)

    async def work() -> ServiceReport:
        again = None if load is None else reload
        return await serve(shared, request, control, load=again, config_file=config_file, on_settings=on_settings)

    return supervise(work, control, patience)


@asynccontextmanager
async def _listening(app: App) -> AsyncIterator[Exposition | None]:
    """Listen on the port. Before the lease is taken: a start that fails on the port must not end a running service."""
    from tidelore.app.service.keeping import open_port

    exposition = open_port(app)
    try:
        yield exposition
    finally:
        if exposition is not None:
            await exposition.close()


@contextmanager
def _only_one(shop: Workshop, *, force: bool) -> Iterator[Lease]:
    """Be the one service of this database for the length of the block, or learn who is."""
    from tidelore.store.work.session import acquire_lease, close_dead

    lease = acquire_lease(shop, force=force, name=LEASE)
    try:
        close_dead(shop)
        yield lease
    finally:
        with suppress(StorageFailed):
            lease.release()


def _guarded(app: App, database: Database, load: Callable[[], App]) -> Callable[[], App]:
    """Return a loader that refuses what a running service cannot take over: another database, nothing to do."""
    from tidelore.app.service.jobs import build_some_jobs

    def guarded() -> App:
        new = load()
        if new.address != app.address:
            raise ConfigError(
                "storage.path changed; the running service keeps its database",
                fix="restart the service to use the new database",
                key="storage.path",
            )
        build_some_jobs(new, database)
        return new

    return guarded


def _report(database: Database, errors: dict[str, TideloreError], ended: int, seconds: float) -> ServiceReport:
    from tidelore.store.work.service_records import list_jobs

    jobs: list[JobRow] = []
    # Locked or out of reach at the very end: the service has still ended in order.
    with suppress(StorageFailed):
        jobs = list_jobs(database)
    return ServiceReport(jobs, dict(errors), ended, seconds)
