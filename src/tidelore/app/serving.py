"""Run the service: one process per database, under a separate lease.

A second instance is refused with the name of the holder. Beside the jobs it keeps the lease alive, reloads the
configuration when its file changes or on request, and opens the HTTP port. An invalid configuration, or one that names
another database, is refused. While the database is unreachable jobs fail and back off; when it is back all are
retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.positions import ServiceSummary
from tidelore.app.reading.own_logins import learn_logins
from tidelore.app.service_jobs import build_jobs, follows_somebody
from tidelore.app.status import job_entry
from tidelore.core.config import all_hosts
from tidelore.core.errors import (
    DatabaseUnreachable,
    LeaseLost,
    PartialSuccess,
    StorageFailed,
    TideloreError,
)
from tidelore.service.control import Control
from tidelore.service.http_server import StatusServer, build_pages
from tidelore.service.status import LEASE
from tidelore.store.database.port import Limits, Patience
from tidelore.store.work.leases import LeaseTable

if TYPE_CHECKING:
    from tidelore.app.wiring import App, SettingsFile
    from tidelore.core.config import Config, ForgeHost
    from tidelore.engine.lease import Lease
    from tidelore.service.hook_receiver import HookReceiver
    from tidelore.service.jobs import Job
    from tidelore.store.database.port import Database
    from tidelore.store.work.service_records import JobRow
    from tidelore.store.work.session import Workshop


_LOG = logging.getLogger(__name__)

BEAT_SECONDS = 15.0
"""The longest time between two heartbeats."""
PAGE_LIMITS = Limits(lock=1.0, statement=3.0, idle=5.0, connect=2.0)
"""How long a page waits for the database; short, because its clients have timeouts too."""
STEADY_LOOKS = 2
"""How many checks in a row must succeed before the database counts as back, so that interrupted runs close first."""


def open_port(app: App) -> StatusServer | None:
    """Listen on the configured port; return None for port 0."""
    port = app.config.service.metrics_port
    if not port:
        return None

    def open_briefly() -> Database:
        return app.open_store(patience=Patience(PAGE_LIMITS))

    server = StatusServer(build_pages(open_briefly, app.clock))
    server.open(port)
    return server


class ServicePorts:
    """The ports of the service: one for its metrics, and one for webhooks if it receives any."""

    def __init__(self, app: App, control: Control) -> None:
        self._app = app
        self._control = control
        self._status: StatusServer | None = None
        self._hooks: HookReceiver | None = None
        self._moving: asyncio.Future[None] | None = None

    def open(self) -> None:
        """Listen on both; neither stays open if one cannot be opened."""
        from tidelore.app.hooks.jobs import open_receiver

        self._hooks = open_receiver(self._app, self._control.announce)
        self._status = open_port(self._app)

    def take(self, app: App) -> None:
        """Apply new settings: a port that changed is opened anew."""
        old, self._app = self._app.config, app
        moved = app.config.service.metrics_port != old.service.metrics_port
        received = app.config.hooks != old.hooks or secrets_of(app.config) != secrets_of(old)
        if moved or received:
            self._moving = asyncio.ensure_future(self._move(status=moved, hooks=received))

    async def _move(self, *, status: bool, hooks: bool) -> None:
        from tidelore.app.hooks.jobs import open_receiver

        await self._close(status=status, hooks=hooks)
        try:
            if status:
                self._status = open_port(self._app)
            if hooks:
                self._hooks = open_receiver(self._app, self._control.announce)
        except TideloreError as error:
            _LOG.error("%s", error.message, extra={"event": "port_refused", "code": error.code})

    async def close(self) -> None:
        """Stop listening."""
        await self._close(status=True, hooks=True)

    async def _close(self, *, status: bool, hooks: bool) -> None:
        if status and self._status is not None:
            server, self._status = self._status, None
            await server.close()
        if hooks and self._hooks is not None:
            receiver, self._hooks = self._hooks, None
            await receiver.close()


def secrets_of(config: Config) -> list[tuple[str, ForgeHost, str]]:
    """Return what decides which deliveries are accepted: hosts, what is mirrored of them, and their variables."""
    return [(host.name, host.mirrored, host.hook_secret_env) for host in all_hosts(config)]


class ServiceUpkeep:
    """Work beside the jobs: the heartbeat of the lease, new settings, the ports."""

    def __init__(
        self,
        app: App,
        database: Database,
        lease: Lease,
        control: Control,
        settings: SettingsFile | None,
        ports: ServicePorts,
    ) -> None:
        from tidelore.app.service_jobs import build_some_jobs

        self._app = app
        self._database = database
        self._lease = lease
        self._control = control
        self._settings = settings
        self._source = None
        if settings is not None:
            self._source = settings.watch(app, "service", lambda new: build_some_jobs(new, database))
        self._beaten = app.clock.monotonic()
        self._follows: bool | None = None
        self._looks_away = 0
        self._ports = ports

    def beat(self) -> None:
        """Write a heartbeat if one is due; raise LeaseLost if the lease is lost."""
        now = self._app.clock.monotonic()
        if now - self._beaten < min(self._app.config.sync.heartbeat_interval_seconds, BEAT_SECONDS):
            return
        self._beaten = now
        try:
            self._lease.heartbeat()
        except LeaseLost:
            raise
        except TideloreError as error:
            _LOG.warning("failed to write a heartbeat: %s", error.message, extra={"event": "heartbeat_failed"})

    def renew(self) -> list[Job] | None:
        """Return new jobs if the settings changed, the first or last account came or went, or the database is back."""
        try:
            back = self._is_back()
            loaded = self._load()
            follows = follows_somebody(self._app, self._database)
            changed = self._follows is not None and follows != self._follows
            self._follows = follows
            return build_jobs(self._app, self._database) if back or changed or loaded else None
        except StorageFailed:
            return None

    def _load(self) -> bool:
        """Apply changed settings. While the database is unreachable this is not called, so a reload request waits."""
        asked, source, now = self._control.take_reload(), self._source, self._app.clock.monotonic()
        loaded = source.load() if source is not None and (asked or source.changed(now)) else None
        if loaded is None or self._settings is None:
            return False
        _LOG.info("configuration reloaded", extra={"event": "config_reloaded"})
        self._app = loaded
        self._settings.on_new(loaded)
        self._ports.take(loaded)
        return True

    def _is_back(self) -> bool:
        """Check the database; return True once when it is available again after it was not."""
        try:
            LeaseTable(self._database).read(self._lease.name)
        except DatabaseUnreachable as error:
            if not self._looks_away:
                _LOG.warning("%s; waiting for the database", error.message, extra={"event": "database_lost"})
            self._looks_away = STEADY_LOOKS
            raise
        if not self._looks_away:
            return False
        self._looks_away -= 1
        if self._looks_away:
            return False
        _LOG.info("the database is available again; retrying all jobs", extra={"event": "database_back"})
        return True


COMMAND = "lore service"


class ServeRequest(Struct, frozen=True):
    """How long to serve: until stopped, for some seconds, or until every job has had one turn."""

    once: bool = False
    seconds: float | None = None
    force: bool = False


class ServiceReport(Struct):
    """The result of the service: the final state of the jobs and the last error of each."""

    jobs: list[JobRow]
    errors: dict[str, TideloreError]
    ended: int
    seconds: float

    @property
    def summary(self) -> ServiceSummary:
        """What `lore service` answers."""
        jobs = [job_entry(job) for job in self.jobs]
        return ServiceSummary(seconds=round(self.seconds, 3), ended=self.ended, jobs=jobs)

    @property
    def error(self) -> TideloreError | None:
        """The error of a service that ran each job once: the only one, or a partial success."""
        errors = list(self.errors.values())
        if not errors:
            return None
        if len(errors) == 1 and len(self.jobs) == 1:
            return errors[0]
        return PartialSuccess(
            f"{len(errors)} of {len(self.jobs)} jobs failed",
            fix=errors[0].fix or "`lore status` shows the errors",
            failed=[{"job": name, "code": error.code, "message": error.message} for name, error in self.errors.items()],
        )


async def serve(
    app: App,
    request: ServeRequest,
    control: Control,
    settings: SettingsFile | None = None,
) -> ServiceReport:
    """Serve until stopped; new settings of a file are applied."""
    from tidelore.app.service_jobs import build_some_jobs
    from tidelore.service.jobs import JobRecorder
    from tidelore.service.loop import Loop
    from tidelore.store.work.session import refuse_held

    control.bind()
    began = app.clock.monotonic()
    with app.store(create=True) as database:
        shop = app.workshop(database, COMMAND)
        refuse_held(shop, force=request.force, name=LEASE)
        async with _listening(app, control) as ports:
            with _only_one(shop, force=request.force) as lease:
                keeper = ServiceUpkeep(app, database, lease, control, settings, ports)
                jobs = build_some_jobs(app, database)
                loop = Loop(JobRecorder(database, app.clock), app.clock, control, renew=keeper.renew, beat=keeper.beat)
                loop.set_jobs(jobs, at_once=request.once)
                started = {"event": "service_started", "jobs": len(jobs)}
                _LOG.info("service started with %d jobs", len(jobs), extra=started)
                asking = asyncio.create_task(learn_logins(app))
                try:
                    await loop.run(seconds=request.seconds, once=request.once)
                finally:
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)
                    await ports.close()
                    _LOG.info("service stopped", extra={"event": "service_stopped", "ended": loop.ended})
                return _report(database, loop.errors, loop.ended, app.clock.monotonic() - began)


def run_service(app: App, request: ServeRequest, settings: SettingsFile | None = None) -> ServiceReport:
    """Run the service: SIGTERM and SIGINT stop it cleanly, SIGHUP reloads the settings.

    The service, with every store call, runs in a thread with a separate event loop. The main thread only handles
    signals, so a blocked database call does not delay them.
    """
    from tidelore.service.threads import supervise

    control, patience = Control(), app.new_patience()
    obeying = settings and settings.obeying(patience)
    return supervise(lambda: serve(replace(app, patience=patience), request, control, obeying), control, patience)


@asynccontextmanager
async def _listening(app: App, control: Control) -> AsyncIterator[ServicePorts]:
    """Listen on the ports. Called before the lease is taken: a start that fails must not stop a running service."""
    ports = ServicePorts(app, control)
    try:
        ports.open()
        yield ports
    finally:
        await ports.close()


@contextmanager
def _only_one(shop: Workshop, *, force: bool) -> Iterator[Lease]:
    """Hold the service lease until the block ends, or raise LockHeld with the holder."""
    from tidelore.store.work.session import acquire_lease, close_dead

    lease = acquire_lease(shop, force=force, name=LEASE)
    try:
        close_dead(shop)
        yield lease
    finally:
        with suppress(StorageFailed):
            lease.release()


def _report(database: Database, errors: dict[str, TideloreError], ended: int, seconds: float) -> ServiceReport:
    from tidelore.store.work.service_records import list_jobs

    jobs: list[JobRow] = []
    # The database may be locked or unreachable at the very end; the service has still stopped cleanly.
    with suppress(StorageFailed):
        jobs = list_jobs(database)
    return ServiceReport(jobs, dict(errors), ended, seconds)
