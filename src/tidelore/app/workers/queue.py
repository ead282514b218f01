"""The queue that distributes scopes to workers: procrastinate, in the PostgreSQL database that is mirrored into.

A job of the queue is a hint to look at one scope. Two hints for one scope that wait at the same time are one
(`queueing_lock`); the job of a worker that was killed is given to another (its heartbeat); a job that is lost is
replaced by the next look, and one that runs twice finds that its scope is not due. Jobs are deleted when they end.

Every worker looks for due scopes. The periodic tasks of procrastinate are not used for it: they follow the wall clock
of the machine, and do nothing for an hour after it was set back by one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from tidelore.core.clock import Clock
from tidelore.core.config import Config
from tidelore.core.extras import extra_missing
from tidelore.service.schedule import BREATH_SECONDS, JobSpec
from tidelore.service.turns import DueScope, ScopeTurns
from tidelore.store.database.port import Database
from tidelore.store.work.worker_queue import SCHEMA, create_queue

try:
    import procrastinate
    from procrastinate.exceptions import AlreadyEnqueued, AppNotOpen, ConnectorException
    from procrastinate.schema import SchemaManager
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as missing:
    raise extra_missing("worker", "`lore worker`") from missing

_LOG = logging.getLogger(__name__)

SCOPES = "scopes"
LOOK_SECONDS = 2.0
"""How often a worker looks for scopes that are due."""
HEARTBEAT_SECONDS = 5.0
SILENT_SECONDS = 20.0
"""After how long without a heartbeat the jobs of a worker are given to others."""
STOP_SECONDS = 2.0
"""How long running scopes may take to finish when the worker stops; then they are cancelled."""
AGAIN_SECONDS = 2.0
_FOREVER_SECONDS = 86_400.0
_MOST_PRIORITY = 1_000_000
_TASKS = {
    "sync": "sync_scope",
    "answers": "send_outbox",
    "handler": "handle_events",
    "groups": "find_projects",
    "documents": "make_documents",
    "embeddings": "embed_documents",
}

Work = Callable[[str], Awaitable[None]]
_ATTEMPTS = 5
"""How often scopes are put into the queue together when other workers do the same; then one by one."""


def prepare_queue(database: Database) -> bool:
    """Create the tables of the queue if they are missing; return whether they were."""
    version = f"procrastinate {procrastinate.__version__}"
    created = create_queue(database, version, SchemaManager.get_schema())
    if created:
        _LOG.info("created the queue of the workers (%s)", version, extra={"event": "queue_created"})
    return created


class WorkQueue:
    """One worker's access to the queue.

    `work` runs a scope, `look` returns the scopes that are due, `waiting` those that are in the queue.
    """

    def __init__(
        self,
        address: str,
        config: Config,
        clock: Clock,
        work: Work,
        look: Callable[[], list[DueScope]],
        waiting: Callable[[], set[str]],
    ) -> None:
        self._clock = clock
        self._work = work
        self._look = look
        self._waiting = waiting
        self._kinds: dict[str, str] = {}
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(
                conninfo=_connection(address, config), min_size=1, max_size=4, timeout=10.0
            )
        )
        self._register()

    def _register(self) -> None:
        for task in sorted({*_TASKS.values(), "run_scope"}):
            self._app.task(name=task, queue=SCOPES)(self._work_on)

    async def _work_on(self, scope: str) -> None:
        await self._work(scope)

    def set_scopes(self, specs: Iterable[JobSpec]) -> None:
        """Set the known scopes; the kind of a scope decides the name of its task."""
        self._kinds = {spec.name: _TASKS.get(spec.kind, "run_scope") for spec in specs}

    async def defer(self, due: Iterable[DueScope]) -> None:
        """Put scopes into the queue, those first that are due for longest; one that waits already is left alone."""
        # By name, so that two workers that do this at once never wait for each other in a circle.
        left = {one.name: one for one in sorted(due, key=lambda one: one.name)}
        for _ in range(_ATTEMPTS):
            if len(left) > 1:
                waiting = await asyncio.to_thread(self._waiting)
                left = {name: one for name, one in left.items() if name not in waiting}
            if not left:
                return
            try:
                await self._app.job_manager.batch_defer_jobs_async([self._job_of(one) for one in left.values()])
            except AlreadyEnqueued:
                # Another worker was faster with at least one of them.
                if len(left) == 1:
                    return
                continue
            return
        for one in left.values():
            with suppress(AlreadyEnqueued):
                await self._app.job_manager.batch_defer_jobs_async([self._job_of(one)])

    def _job_of(self, one: DueScope) -> procrastinate.jobs.Job:
        deferrer = self._app.configure_task(
            self._kinds.get(one.name, "run_scope"),
            queue=SCOPES,
            queueing_lock=one.name,
            priority=max(0, min(int(one.late_seconds), _MOST_PRIORITY)),
            schedule_at=self._moment(-one.late_seconds) if one.late_seconds < 0 else None,
        )
        return deferrer.make_new_job(scope=one.name)

    def _moment(self, seconds: float = 0.0) -> datetime:
        """Return the time in some seconds, by the clock of the server and not by that of this machine."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000 + seconds, UTC)

    async def announce(self, due: Iterable[DueScope]) -> None:
        """Put scopes into the queue that have just become due; if that fails, the next look does it."""
        try:
            await self.defer(due)
        except (ConnectorException, AppNotOpen) as error:
            _LOG.debug("cannot put a scope into the queue: %s", error, extra={"event": "queue_lost"})

    async def _retry_stalled(self) -> None:
        """Give the jobs of workers that are gone to others."""
        manager = self._app.job_manager
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=SILENT_SECONDS):
            try:
                await manager.retry_job(job, retry_at=self._moment())
            except (AlreadyEnqueued, ConnectorException):
                # Another job for this scope waits; this one has nothing left to do.
                assert job.id is not None
                await manager.finish_job_by_id_async(job.id, procrastinate.jobs.Status.FAILED, delete_job=True)

    async def run(self, concurrency: int, stopping: Callable[[], bool], woken: Callable[[], Awaitable[None]]) -> None:
        """Work on scopes until asked to stop; while the database is unreachable, try again."""
        while not stopping():
            try:
                async with self._app.open_async():
                    await self._run_until(concurrency, stopping, woken)
                    # A job that was being fetched when this worker stopped belongs to no worker now.
                    await self._retry_stalled()
            except (ConnectorException, OSError) as error:
                _LOG.warning("the queue cannot be reached: %s", error, extra={"event": "queue_lost"})
            if not stopping():
                await self._clock.sleep(AGAIN_SECONDS)

    async def _run_until(
        self, concurrency: int, stopping: Callable[[], bool], woken: Callable[[], Awaitable[None]]
    ) -> None:
        tasks = [
            asyncio.create_task(one) for one in (self._run_worker(concurrency, wait=True), self._look_forever(stopping))
        ]
        try:
            while not stopping() and not any(task.done() for task in tasks):
                waker = asyncio.ensure_future(woken())
                await asyncio.wait([waker, *tasks], return_when=asyncio.FIRST_COMPLETED)
                waker.cancel()
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, Exception) and not isinstance(one, asyncio.CancelledError):
                raise one

    async def _look_forever(self, stopping: Callable[[], bool]) -> None:
        """Put due scopes into the queue, and give the jobs of workers that are gone to others."""
        while not stopping():
            await self.defer(await asyncio.to_thread(self._look))
            await self._retry_stalled()
            # Not all workers at the same time.
            await self._clock.sleep(LOOK_SECONDS * random.uniform(0.75, 1.25))

    async def drain(self, concurrency: int, stopping: Callable[[], bool], turns: ScopeTurns) -> None:
        """Work until no scope is due that has not had its turn, and none that left work is about to continue."""
        async with self._app.open_async():
            while not stopping():
                due = [one for one in await asyncio.to_thread(self._look) if one.name not in turns.had_turn]
                if not due:
                    if not await asyncio.to_thread(turns.goes_on):
                        return
                    await self._clock.sleep(BREATH_SECONDS / 5)
                await self.defer(due)
                await self._run_worker(concurrency, wait=False)

    async def _run_worker(self, concurrency: int, *, wait: bool) -> None:
        await self._app.run_worker_async(
            queues=[SCOPES],
            concurrency=concurrency,
            wait=wait,
            fetch_job_polling_interval=1.0,
            delete_jobs="always",
            install_signal_handlers=False,
            shutdown_graceful_timeout=STOP_SECONDS if wait else _FOREVER_SECONDS,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
            stalled_worker_timeout=SILENT_SECONDS,
        )


def _connection(address: str, config: Config) -> str:
    """Return the address with the schema of the queue and the timeouts of every connection."""
    storage = config.storage
    settings = {
        "search_path": SCHEMA,
        "lock_timeout": f"{storage.lock_timeout_seconds:g}s",
        "statement_timeout": f"{storage.statement_timeout_seconds:g}s",
        "idle_in_transaction_session_timeout": f"{storage.idle_in_transaction_timeout_seconds:g}s",
    }
    asked = str(conninfo_to_dict(address).get("options", ""))
    options = " ".join([*(f"-c {name}={value}" for name, value in settings.items()), asked]).strip()
    return make_conninfo(address, options=options, application_name="lore queue")
