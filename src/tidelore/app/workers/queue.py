"""The queue that distributes scopes to workers: procrastinate, in the PostgreSQL database that is mirrored into.

A job of the queue is a hint to look at one scope. Two hints for one scope that wait at the same time are one
(`queueing_lock`); the job of a worker that was killed is given to another (its heartbeat); a job that is lost is
replaced by the next scheduling, and one that runs twice finds that its scope is not due. Jobs are deleted when they
end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

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
UPKEEP = "upkeep"
LOOK_CRON = "* * * * * */2"
"""How often one of the workers looks for scopes that are due: every 2 seconds."""
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


def prepare_queue(database: Database) -> bool:
    """Create the tables of the queue if they are missing; return whether they were."""
    version = f"procrastinate {procrastinate.__version__}"
    created = create_queue(database, version, SchemaManager.get_schema())
    if created:
        _LOG.info("created the queue of the workers (%s)", version, extra={"event": "queue_created"})
    return created


class WorkQueue:
    """One worker's access to the queue. `work` runs a scope, `look` returns the scopes that are due."""

    def __init__(
        self, address: str, config: Config, clock: Clock, work: Work, look: Callable[[], list[DueScope]]
    ) -> None:
        self._clock = clock
        self._work = work
        self._look = look
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

        @self._app.periodic(cron=LOOK_CRON)
        @self._app.task(name="defer_due_scopes", queue=UPKEEP, queueing_lock="defer_due_scopes")
        async def defer_due_scopes(timestamp: int) -> None:  # noqa: ARG001 - given by the scheduler
            await self.defer(await asyncio.to_thread(self._look))
            await self._retry_stalled()

    async def _work_on(self, scope: str) -> None:
        await self._work(scope)

    def set_scopes(self, specs: Iterable[JobSpec]) -> None:
        """Set the known scopes; the kind of a scope decides the name of its task."""
        self._kinds = {spec.name: _TASKS.get(spec.kind, "run_scope") for spec in specs}

    async def defer(self, due: Iterable[DueScope]) -> None:
        """Put scopes into the queue, those first that are due for longest; one that waits already is left alone."""
        for one in due:
            deferrer = self._app.configure_task(
                self._kinds.get(one.name, "run_scope"),
                queue=SCOPES,
                queueing_lock=one.name,
                priority=max(0, min(int(one.late_seconds), _MOST_PRIORITY)),
                schedule_in={"seconds": -one.late_seconds} if one.late_seconds < 0 else None,
            )
            try:
                await deferrer.defer_async(scope=one.name)
            except AlreadyEnqueued:
                continue

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
                await manager.retry_job(job)
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
            except (ConnectorException, OSError) as error:
                _LOG.warning("the queue cannot be reached: %s", error, extra={"event": "queue_lost"})
            if not stopping():
                await self._clock.sleep(AGAIN_SECONDS)

    async def _run_until(
        self, concurrency: int, stopping: Callable[[], bool], woken: Callable[[], Awaitable[None]]
    ) -> None:
        workers = [
            asyncio.create_task(self._run_worker(queue, slots, wait=True))
            for queue, slots in ((SCOPES, concurrency), (UPKEEP, 1))
        ]
        try:
            while not stopping() and not any(task.done() for task in workers):
                waker = asyncio.ensure_future(woken())
                await asyncio.wait([waker, *workers], return_when=asyncio.FIRST_COMPLETED)
                waker.cancel()
        finally:
            for task in workers:
                task.cancel()
            ended = await asyncio.gather(*workers, return_exceptions=True)
        for one in ended:
            if isinstance(one, Exception) and not isinstance(one, asyncio.CancelledError):
                raise one

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
                await self._run_worker(SCOPES, concurrency, wait=False)

    async def _run_worker(self, queue: str, concurrency: int, *, wait: bool) -> None:
        await self._app.run_worker_async(
            queues=[queue],
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
