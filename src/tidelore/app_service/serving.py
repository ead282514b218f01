"""The service: one process that keeps a database up to date, under a lease of its own. Owns the wiring around the loop.

Second instances are refused with the holder's name. Settings are read again when their file changes or somebody asks;
a file that is wrong, or names another database, is refused and the old settings go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.errors import ConfigError, LeaseLost, StorageFailed, TideloreError
from tidelore.service.control import Control
from tidelore.service.status import LEASE

if TYPE_CHECKING:
    from asyncio import Future

    from tidelore.app import App
    from tidelore.engine.lease import Lease
    from tidelore.service.exposition import Exposition
    from tidelore.service.outcome import Job
    from tidelore.service.reload import Reloading
    from tidelore.store.database import Database
    from tidelore.store.service_jobs import JobRow

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


def build_jobs(app: App, database: Database) -> list[Job]:
    """Return everything there is to do for a configuration."""
    from tidelore.app_service.bluesky_jobs import bluesky_jobs, follows_somebody
    from tidelore.app_service.feedback_jobs import feedback_jobs
    from tidelore.app_service.forge_jobs import copy_jobs, forge_jobs

    jobs = [*forge_jobs(app), *feedback_jobs(app)]
    if follows_somebody(app, database):
        jobs += bluesky_jobs(app)
    return [*jobs, *copy_jobs(app)]


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
    from tidelore.service.loop import Loop
    from tidelore.service.recording import Recorder
    from tidelore.service.reload import Reloading

    control.bind()
    began = app.clock.monotonic()
    database = app.open_store(create=True)
    try:
        with _only_one(app, database, force=request.force) as lease:
            source = Reloading(config_file, _guarded(app, load)) if load is not None and config_file else None
            keeper = _Keeper(app, database, lease, control, source, on_settings)
            jobs = build_jobs(app, database)
            if not jobs_to_watch(jobs):
                raise _nothing_to_do()
            loop = Loop(Recorder(database, app.clock), app.clock, control, renew=keeper.renew, beat=keeper.beat)
            loop.set_jobs(jobs, at_once=request.once)
            started = {"event": "service_started", "jobs": len(jobs)}
            try:
                await keeper.open_port()
                _LOG.info("the service looks after %d jobs", len(jobs), extra=started)
                await loop.run(seconds=request.seconds, once=request.once)
            finally:
                await keeper.close_port()
                _LOG.info("the service has ended", extra={"event": "service_stopped", "ended": loop.ended})
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
    """Be the service: SIGTERM and SIGINT end it in order, SIGHUP reads the settings again."""
    import asyncio
    import signal

    control = Control()

    async def supervised() -> ServiceReport:
        loop = asyncio.get_running_loop()
        asked = {signal.SIGTERM: control.stop, signal.SIGINT: control.stop, signal.SIGHUP: control.reload}
        for number, act in asked.items():
            loop.add_signal_handler(number, act)
        try:
            return await serve(app, request, control, load=load, config_file=config_file, on_settings=on_settings)
        finally:
            for number in asked:
                loop.remove_signal_handler(number)

    return asyncio.run(supervised())


def jobs_to_watch(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs that ask a source: without one there is nothing to serve."""
    return [job for job in jobs if job.spec.staleness_bound_seconds is not None]


@contextmanager
def _only_one(app: App, database: Database, *, force: bool) -> Iterator[Lease]:
    """Be the one service of this database for the length of the block, or learn who is."""
    from tidelore.session import Workshop, acquire_lease, close_dead

    shop = Workshop(database, app.config, app.clock, app.seam, COMMAND)
    lease = acquire_lease(shop, force=force, name=LEASE)
    try:
        close_dead(shop)
        yield lease
    finally:
        with suppress(StorageFailed):
            lease.release()


def _guarded(app: App, load: Callable[[], App] | None) -> Callable[[], App]:
    """Return a loader that refuses what cannot change while the service runs."""

    def guarded() -> App:
        assert load is not None
        new = load()
        if new.address != app.address:
            raise ConfigError(
                "storage.path names another database than the one the service works on",
                fix="stop the service and start it again",
                key="storage.path",
            )
        return new

    return guarded


def _nothing_to_do() -> ConfigError:
    return ConfigError(
        "there is nothing to look after: no project, no repository and no account is configured",
        fix="list projects under [[gitlab]], repositories under [[github.repos]], or accounts under [bluesky]",
        key="gitlab.projects",
    )


def _report(database: Database, errors: dict[str, TideloreError], ended: int, seconds: float) -> ServiceReport:
    from tidelore.store.service_jobs import list_jobs

    return ServiceReport(list_jobs(database), dict(errors), ended, seconds)


class _Keeper:
    """What goes on beside the jobs: the lease's sign of life, new settings, the port."""

    def __init__(
        self,
        app: App,
        database: Database,
        lease: Lease,
        control: Control,
        source: Reloading[App] | None,
        on_settings: Callable[[App], None],
    ) -> None:
        self._app = app
        self._database = database
        self._lease = lease
        self._control = control
        self._source = source
        self._on_settings = on_settings
        self._beaten = app.clock.monotonic()
        self._follows: bool | None = None
        self._exposition: Exposition | None = None
        self._moving: Future[None] | None = None

    def beat(self) -> None:
        """Give a sign of life now and then; a lost lease is raised."""
        now = self._app.clock.monotonic()
        if now - self._beaten < min(self._app.config.sync.heartbeat_interval_seconds, 15.0):
            return
        self._beaten = now
        try:
            self._lease.heartbeat()
        except LeaseLost:
            raise
        except TideloreError as error:
            _LOG.warning("no sign of life could be given: %s", error.message, extra={"event": "heartbeat_failed"})

    def renew(self) -> list[Job] | None:
        """Return new jobs when the settings are new, or somebody is followed for the first time."""
        asked, source = self._control.take_reload(), self._source
        loaded = source.load() if source is not None and (asked or source.changed()) else None
        if loaded is not None:
            _LOG.info("new settings are in force", extra={"event": "config_reloaded"})
            self._take(loaded)
        from tidelore.app_service.bluesky_jobs import follows_somebody

        try:
            follows = follows_somebody(self._app, self._database)
            changed = self._follows is not None and follows != self._follows
            self._follows = follows
            return build_jobs(self._app, self._database) if changed or loaded is not None else None
        except StorageFailed:
            return None

    def _take(self, app: App) -> None:
        import asyncio

        moved = app.config.service.metrics_port != self._app.config.service.metrics_port
        self._app = app
        self._on_settings(app)
        if moved:
            self._moving = asyncio.ensure_future(self._move_port())

    async def _move_port(self) -> None:
        await self.close_port()
        try:
            await self.open_port()
        except TideloreError as error:
            _LOG.error("%s", error.message, extra={"event": "port_refused", "code": error.code})

    async def open_port(self) -> None:
        """Listen where the settings say; nowhere for 0."""
        from tidelore.app_service.pages import build_pages
        from tidelore.service.exposition import Exposition

        port = self._app.config.service.metrics_port
        if port:
            self._exposition = Exposition(build_pages(self._database, self._app.clock))
            await self._exposition.open(port)

    async def close_port(self) -> None:
        """Listen no more."""
        exposition, self._exposition = self._exposition, None
        if exposition is not None:
            await exposition.close()
