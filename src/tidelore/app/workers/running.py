"""Run a worker: one of several processes that share the work of one PostgreSQL database.

Any worker finds the scopes that are due and puts them into the queue; any worker runs them. Leases and the rows of
scopes are the truth, the queue only distributes them. The rate limit of a host is shared by all workers. Refuses
SQLite, where `lore service` does the same work in one process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.workers.summary import CONCURRENCY, WorkerSummary
from tidelore.core.config_file import is_url
from tidelore.core.errors import (
    ConfigError,
    LeaseLost,
    LockHeld,
    PartialSuccess,
    StorageFailed,
    TideloreError,
    UserError,
)
from tidelore.core.process import ProcessIdentity
from tidelore.service.control import Control
from tidelore.service.schedule import HELD_SECONDS
from tidelore.service.status import WORKER_PREFIX

if TYPE_CHECKING:
    from tidelore.app.wiring import App, SettingsFile
    from tidelore.service.hook_receiver import HookReceiver
    from tidelore.service.jobs import Job
    from tidelore.service.turns import DueScope, ScopeTurns
    from tidelore.store.database.port import Database
    from tidelore.store.work.session import Workshop

_LOG = logging.getLogger(__name__)

COMMAND = "lore worker"
REFRESH_SECONDS = 30.0
"""How often a worker looks for new projects of groups."""
BEAT_SECONDS = 15.0
RELOAD_SECONDS = 0.5
"""How often a worker checks whether its settings must be reloaded."""


PORT_SECONDS = 5.0
"""How often a worker tries to take the port of webhooks that another process holds."""


class WorkRequest(Struct, frozen=True):
    """How many scopes at once, and for how long: until stopped, for some seconds, or until nothing is due.

    `hooks`: whether to receive webhooks; None for doing so if a port is configured and free.
    """

    concurrency: int = CONCURRENCY
    once: bool = False
    seconds: float | None = None
    hooks: bool | None = None


class WorkerReport(Struct):
    """The result of a worker."""

    summary: WorkerSummary
    errors: dict[str, TideloreError]

    @property
    def error(self) -> TideloreError | None:
        """The error of a worker that ran until nothing was due."""
        first = next(iter(self.errors.values()), None)
        if first is None:
            return None
        failed = [{"job": name, "code": error.code, "message": error.message} for name, error in self.errors.items()]
        return PartialSuccess(f"{len(failed)} scopes failed", fix=first.fix or "`lore status` shows it", failed=failed)


def check_workable(app: App) -> None:
    """Raise an error if workers cannot share this database, or the extra is missing."""
    if not is_url(app.address):
        raise ConfigError(
            "`lore worker` needs PostgreSQL; this database is a SQLite file",
            fix="run `lore service`, which does the same work in one process, or `lore move --to postgresql://…`",
            key="storage.path",
        )


class HookPort:
    """Receives webhooks if it can: of the workers of a machine only one can listen, the others try again.

    `on_waiting` is called with the names of the scopes `hooks:HOST` that have work.

    With `insists`, a port that cannot be opened is an error instead of being tried again.
    """

    def __init__(self, app: App, on_waiting: Callable[[list[str]], Awaitable[None]], *, insists: bool) -> None:
        if insists and not app.config.hooks.port:
            raise ConfigError("no port to receive webhooks on", fix="set hooks.port", key="hooks.port")
        self._app = app
        self._on_waiting = on_waiting
        self._insists = insists
        self._receiver: HookReceiver | None = None
        self._names: set[str] = set()
        self._announced = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Listen, or begin to wait until the port is free."""
        if self._app.config.hooks.port:
            free = self._try()
            self._tasks = [asyncio.create_task(self._pass_on())]
            if not free:
                _LOG.info("another process receives webhooks", extra={"event": "hooks_elsewhere"})
                self._tasks.append(asyncio.create_task(self._try_again()))

    async def close(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            await receiver.close()

    def _try(self) -> bool:
        from tidelore.app.hooks.jobs import open_receiver

        try:
            self._receiver = open_receiver(self._app, self._announce)
        except ConfigError:
            raise
        except UserError:
            if self._insists:
                raise
        return self._receiver is not None

    async def _try_again(self) -> None:
        while not self._try():
            await self._app.clock.sleep(PORT_SECONDS)

    def _announce(self, names: Iterable[str]) -> None:
        """Note that deliveries wait; called in the thread of the receiver."""
        found = list(names)

        def note() -> None:
            self._names.update(found)
            self._announced.set()

        self._loop.call_soon_threadsafe(note)

    async def _pass_on(self) -> None:
        while True:
            await self._announced.wait()
            self._announced.clear()
            names, self._names = sorted(self._names), set()
            await self._on_waiting(names)


class Worker:
    """A worker: its scopes, the queue, and the lease that shows that it is alive."""

    def __init__(self, app: App, database: Database, control: Control, settings: SettingsFile | None) -> None:
        from tidelore.app.service_jobs import refuse_idle
        from tidelore.app.workers.queue import WorkQueue
        from tidelore.app.workers.scopes import build_scopes
        from tidelore.http.grants import GrantBook
        from tidelore.http.transport import KeptTransports
        from tidelore.service.turns import ScopeTurns
        from tidelore.store.database.kept import KeptConnections
        from tidelore.store.work.rate_budgets import RateBudgetTable

        self._budgets = app.open_store()
        self._kept = KeptConnections(app.clock)
        self._transports = KeptTransports()
        grants = GrantBook(RateBudgetTable(self._budgets, app.clock), app.clock)
        self._app = replace(app, grants=grants, insists=True, kept=self._kept)
        self._database = database
        self._control = control
        self.shop: Workshop = self._app.workshop(database, COMMAND)
        self.turns: ScopeTurns = ScopeTurns(self.shop)
        self._scopes: dict[str, Job] = {}
        self._refreshed = float("-inf")
        self._queue = WorkQueue(app.address, app.config, app.clock, self._work, self._look, self._waiting)
        self._continuous: dict[str, asyncio.Task[None]] = {}
        self._settings = settings
        self._source = None
        if settings is not None:
            self._source = settings.watch(
                app, "worker", lambda new: refuse_idle([job.spec for job in build_scopes(new, database).values()])
            )
        self._port: HookPort | None = None

    async def _reload(self, request: WorkRequest) -> None:
        """Use new settings from the next turn of each scope on; turns under way end with the old ones."""
        source, asked = self._source, self._control.take_reload()
        if source is None or self._settings is None or not (asked or source.changed(self._app.clock.monotonic())):
            return
        try:
            # While the database is unreachable the request waits: the file could not be checked.
            await asyncio.to_thread(self.turns.due)
            new = await asyncio.to_thread(source.load)
            if new is None:
                return
            old = self._app
            self._app = replace(new, clock=old.clock, grants=old.grants, insists=True, kept=old.kept)
            self._scopes = {}
            await asyncio.to_thread(self.refresh, forget=True)
            await asyncio.to_thread(self.turns.forgive)
        except StorageFailed as error:
            self._control.reload()
            _LOG.warning("cannot reload the configuration: %s", error.message, extra={"event": "reload_failed"})
            return
        self._settings.on_new(self._app)
        for task in self._continuous.values():
            task.cancel()
        try:
            await self._open_port(request)
        except TideloreError as error:
            _LOG.error("%s", error.message, extra={"event": "port_refused", "code": error.code})
        _LOG.info("configuration reloaded", extra={"event": "config_reloaded"})

    async def _keep_settings(self, request: WorkRequest) -> None:
        while True:
            await self._reload(request)
            await self._app.clock.sleep(RELOAD_SECONDS)

    async def _open_port(self, request: WorkRequest) -> None:
        """Receive webhooks with the present settings."""
        if self._port is not None:
            await self._port.close()
        self._port = None
        if request.hooks is not False:
            self._port = HookPort(self._app, self._wake_announced, insists=bool(request.hooks))
            self._port.open()

    async def close(self) -> None:
        """Close the connection of shared rate limits, and those that are kept."""
        await self._transports.aclose()
        self._budgets.close()
        self._kept.close()

    def refresh(self, *, forget: bool = False) -> None:
        """Read the configuration and the stored projects anew."""
        from tidelore.app.service_jobs import refuse_idle
        from tidelore.app.workers.scopes import build_scopes

        self._refreshed = self._app.clock.monotonic()
        fresh = build_scopes(self._app, self._database, self._transports)
        # A known scope keeps its job, which remembers what it has read.
        self._scopes = {name: self._scopes.get(name) or job for name, job in fresh.items()}
        specs = {name: job.spec for name, job in self._scopes.items()}
        refuse_idle(specs.values())
        self.turns.set_scopes(specs, forget=forget)
        self._queue.set_scopes(specs.values())

    def _look(self) -> list[DueScope]:
        """Return the scopes that are due."""
        try:
            if self._app.clock.monotonic() - self._refreshed >= REFRESH_SECONDS:
                self.refresh()
            return self.turns.due()
        except StorageFailed as error:
            _LOG.warning("cannot look for due scopes: %s", error.message, extra={"event": "look_failed"})
            return []

    def _waiting(self) -> set[str]:
        """Return the scopes that are in the queue; if that cannot be read, they are put into it one by one."""
        from tidelore.store.work.worker_queue import waiting_scopes

        try:
            return waiting_scopes(self._database)
        except StorageFailed:
            return set()

    async def _work(self, name: str) -> None:
        """Run one scope, and put those into the queue that have work now."""
        if name not in self._scopes:
            self.refresh()
        job = self._scopes.get(name)
        if job is None or self._control.stopping:
            return
        woken = await self.turns.take(job)
        if name.startswith("groups:"):
            self.refresh()
        if woken and not self._control.stopping:
            await self._queue.announce(woken)

    async def _wake_announced(self, names: list[str]) -> None:
        """Put the projects into the queue that webhooks have announced."""
        try:
            await self._queue.announce(await asyncio.to_thread(self._find_announced, names))
        except StorageFailed as error:
            # The scope `hooks:HOST` finds them later.
            _LOG.warning("cannot wake announced projects: %s", error.message, extra={"event": "hooks_not_woken"})

    def _find_announced(self, names: list[str]) -> list[DueScope]:
        from tidelore.app.hooks.jobs import hooked_hosts, job_name
        from tidelore.app.workers.scopes import announced_scopes

        hosts = [host.name for host in hooked_hosts(self._app) if job_name(host.name) in names]
        found = [scope for host in hosts for scope in announced_scopes(self._app, self._database, host)]
        return self.turns.wake([scope for scope in found if scope in self._scopes])

    async def run(self, request: WorkRequest) -> None:
        """Work until stopped, or (`once`) until nothing is due."""
        if request.once:
            await self._queue.drain(request.concurrency, lambda: self._control.stopping, self.turns)
            return
        await self._open_port(request)
        keepers = [asyncio.create_task(one) for one in (self._keep_streams(), self._keep_settings(request))]
        try:
            async with _stopped_after(request.seconds, self._control):
                await self._queue.run(request.concurrency, lambda: self._control.stopping, self._control.woken)
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            if self._port is not None:
                await self._port.close()

    async def _keep_streams(self) -> None:
        """Run continuous scopes; the worker that holds the lease of one runs it, the others look again later."""
        try:
            while True:
                for name, job in self._scopes.items():
                    running = self._continuous.get(name)
                    if job.spec.continuous and (running is None or running.done()):
                        self._continuous[name] = asyncio.create_task(self._stream(job))
                await self._app.clock.sleep(HELD_SECONDS)
        finally:
            for task in self._continuous.values():
                task.cancel()
            await asyncio.gather(*self._continuous.values(), return_exceptions=True)

    async def _stream(self, job: Job) -> None:
        with suppress(StorageFailed):
            await self.turns.take(job)


async def work(app: App, request: WorkRequest, control: Control, settings: SettingsFile | None = None) -> WorkerReport:
    """Run a worker until it is stopped."""
    from tidelore.app.workers.queue import prepare_queue

    control.bind()
    began = app.clock.monotonic()
    identity = ProcessIdentity.current()
    with app.store(create=True) as database:
        prepare_queue(database)
        worker = Worker(app, database, control, settings)
        try:
            async with _registered(worker.shop, identity):
                worker.refresh(forget=True)
                _LOG.info("worker started", extra={"event": "worker_started", "concurrency": request.concurrency})
                await worker.run(request)
        finally:
            await worker.close()
        turns = worker.turns
        _LOG.info("worker stopped", extra={"event": "worker_stopped", "ended": turns.ended})
        seconds = round(app.clock.monotonic() - began, 3)
        name = f"{identity.host} {identity.pid}"
        summary = WorkerSummary(worker=name, seconds=seconds, ended=turns.ended, failing=sorted(turns.errors))
        return WorkerReport(summary, dict(turns.errors))


def run_worker(app: App, request: WorkRequest, settings: SettingsFile | None = None) -> WorkerReport:
    """Run a worker: SIGTERM and SIGINT stop it cleanly, SIGHUP reloads the settings, as in the service."""
    from tidelore.service.threads import supervise

    check_workable(app)
    control, patience = Control(), app.new_patience()
    obeying = settings and settings.obeying(patience)
    return supervise(lambda: work(replace(app, patience=patience), request, control, obeying), control, patience)


@asynccontextmanager
async def _registered(shop: Workshop, identity: ProcessIdentity) -> AsyncIterator[None]:
    """Hold a lease that shows that this worker is alive; one that was lost, in a long silence, is taken again."""
    from tidelore.store.work.session import acquire_lease, beating, close_dead

    lease = acquire_lease(shop, force=False, name=f"{WORKER_PREFIX}{identity.host} {identity.pid}")
    close_dead(shop)

    def beat() -> None:
        nonlocal lease
        try:
            lease.heartbeat()
        except LeaseLost:
            with suppress(LockHeld):
                lease = acquire_lease(shop, force=False, name=lease.name)

    try:
        async with beating(shop.clock, min(shop.config.sync.heartbeat_interval_seconds, BEAT_SECONDS), beat):
            yield
    finally:
        with suppress(StorageFailed):
            lease.release()


@asynccontextmanager
async def _stopped_after(seconds: float | None, control: Control) -> AsyncIterator[None]:
    """Request a stop after a time."""
    loop = asyncio.get_running_loop()
    stop: Callable[[], None] = control.stop
    timer = None if seconds is None else loop.call_later(seconds, stop)
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
