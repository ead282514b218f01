"""Status read models: progress, freshness, errors, and what to run after an unfinished run.

Reads the database only, never the network. `read_service` reads a few rows, `read_overview` adds counts; both may be
called every second. A source is as stale as its most stale job with a staleness bound; `/healthz` and all views use the
same `assess_health`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tidelore.core.process import is_dead
from tidelore.engine.lease import LeaseRow, why_takeable
from tidelore.store.database.port import Database
from tidelore.store.reading.totals import Totals, read_totals
from tidelore.store.work.leases import LeaseTable, held_leases
from tidelore.store.work.runs import UNFINISHED, RunRecord, RunView, last_sync, list_runs
from tidelore.store.work.service_records import BudgetRow, JobRow, list_budgets, list_jobs
from tidelore.store.work.worker_queue import QueueStatus, read_queue


class SourceHealth(Struct, frozen=True):
    """The health of one source: that of its most stale job."""

    source: str
    ok: bool
    job: str
    lag_seconds: float
    bound_seconds: float
    error: str | None


class Health(Struct, frozen=True):
    """The health of the service and of each source."""

    ok: bool
    sources: tuple[SourceHealth, ...]


def lag_seconds(job: JobRow, since_ms: int, now_ms: int) -> float:
    """Return the seconds since a job last succeeded, or since `since_ms` if it never did."""
    reference = since_ms if job.succeeded_at is None else job.succeeded_at
    return max(now_ms - reference, 0) / 1000


def is_job_fresh(job: JobRow, since_ms: int, now_ms: int) -> bool:
    """Return whether a job is within its staleness bound. The first run may take longer, as long as nothing fails.

    It may take several turns: between them the job is due at once.
    """
    if job.staleness_bound_seconds is None:
        return True
    goes_on = job.state == "idle" and job.finished_at is not None and (job.due_at or now_ms) <= now_ms
    first = job.succeeded_at is None and not job.failures and (job.state == "running" or goes_on)
    return first or lag_seconds(job, since_ms, now_ms) <= job.staleness_bound_seconds


def assess_health(jobs: Iterable[JobRow], since_ms: int, now_ms: int) -> Health:
    """Return the health of all sources with a staleness bound; `since_ms` is when the service started."""
    by_source: dict[str, list[JobRow]] = {}
    for job in jobs:
        if job.staleness_bound_seconds is not None:
            by_source.setdefault(job.source, []).append(job)
    found = tuple(_assess_source(source, rows, since_ms, now_ms) for source, rows in sorted(by_source.items()))
    return Health(all(source.ok for source in found), found)


def _assess_source(source: str, jobs: Sequence[JobRow], since_ms: int, now_ms: int) -> SourceHealth:
    def excess(job: JobRow) -> tuple[bool, float]:
        bound = job.staleness_bound_seconds or 0.0
        return not is_job_fresh(job, since_ms, now_ms), lag_seconds(job, since_ms, now_ms) / max(bound, 1.0)

    worst = max(jobs, key=excess)
    lag = lag_seconds(worst, since_ms, now_ms)
    fresh = is_job_fresh(worst, since_ms, now_ms)
    return SourceHealth(source, fresh, worst.name, lag, worst.staleness_bound_seconds or 0.0, worst.last_error)


LEASE = "service"
"""The lease held by the service of a database."""
WORKER_PREFIX = "worker "
"""What the name of the lease begins with that shows that a worker is alive."""
SCOPE_PREFIX = "job "
"""What the name of the lease begins with that a worker holds while it works on a scope."""
_SILENT_MS = 600_000


class HeldScope(Struct, frozen=True):
    """A scope that a worker works on."""

    name: str
    since: int


class WorkerStatus(Struct, frozen=True):
    """A live worker and the scopes that it works on."""

    host: str
    pid: int
    since: int
    heartbeat_at: int
    holds: list[HeldScope]


class ServiceStatus(Struct, frozen=True):
    """The service and its jobs. Without a holder no service runs, and the jobs are in the state the last one stored.

    `budgets` are the rate limits that sources reported and that are still current. `workers` share the jobs if there is
    no service; `queue` is what they distribute among them.
    """

    holder: LeaseRow | None
    since: int
    jobs: list[JobRow]
    health: Health
    budgets: dict[str, BudgetRow] = {}
    workers: list[WorkerStatus] = []
    queue: QueueStatus | None = None
    late_seconds: float | None = None


class Overview(Struct, frozen=True):
    """A short status: the service, the newest runs, and the pending work."""

    service: ServiceStatus
    runs: list[RunView]
    last_sync: RunView | None
    totals: Totals

    @property
    def is_healthy(self) -> bool:
        """Whether every source is fresh; without a service, whether the last finished sync succeeded completely."""
        if self.service.holder is not None or self.service.workers:
            return self.service.health.ok
        return self.last_sync is None or self.last_sync.status == "succeeded"


def read_service(database: Database, now_ms: int) -> ServiceStatus:
    """Read the holder of the service lease and the state of the jobs."""
    row = LeaseTable(database).read(LEASE)
    held = row is not None and why_takeable(row, now_ms, _SILENT_MS, False, is_dead) is None
    jobs, workers = list_jobs(database), read_workers(database, now_ms)
    since = now_ms if row is None else row.acquired_at
    if not held and workers:
        since = min(worker.since for worker in workers)
    budgets = {one.source: one for one in list_budgets(database) if one.is_current(now_ms)}
    health = assess_health(jobs, since, now_ms)
    waiting = [job.due_at for job in jobs if job.due_at is not None and job.state != "running"] if workers else []
    late = max(now_ms - min(waiting), 0) / 1000 if waiting else None
    queue = read_queue(database) if workers else None
    return ServiceStatus(row if held else None, since, jobs, health, budgets, workers, queue, late)


def read_workers(database: Database, now_ms: int) -> list[WorkerStatus]:
    """Return the live workers by machine and process, with the scopes that they hold and since when."""
    rows = [row for row in held_leases(database) if why_takeable(row, now_ms, _SILENT_MS, False, is_dead) is None]
    found: list[WorkerStatus] = []
    for row in rows:
        if row.name.startswith(WORKER_PREFIX) and row.holder is not None:
            scopes = [one for one in rows if one.holder == row.holder and one.name.startswith(SCOPE_PREFIX)]
            holds = [
                HeldScope(one.name.removeprefix(SCOPE_PREFIX).replace("%20", " "), one.acquired_at) for one in scopes
            ]
            found.append(WorkerStatus(row.holder.host, row.holder.pid, row.acquired_at, row.heartbeat_at, holds))
    return found


def read_overview(database: Database, now_ms: int, runs: int = 5) -> Overview:
    """Read the short status, for views that are redrawn often."""
    service, newest = read_service(database, now_ms), list_runs(database, runs)
    return Overview(service, newest, last_sync(database), read_totals(database, now_ms))


def recovery_actions(run: RunRecord) -> list[str]:
    """Return the commands that complete an unfinished run; none for a run that is complete or still running."""
    before = {"failed": ["lore doctor"], "crashed": ["lore check"]}.get(run.status, [])
    if run.outcomes_json is not None and run.status != "running":
        from tidelore.sync.report import read_outcomes, suggest

        again = suggest(run.id, read_outcomes(run.outcomes_json), failed=run.status in UNFINISHED)
        return [*before, *again]
    if run.status not in UNFINISHED:
        return []
    # A reset is not repeated as it is: the ledger stores its arguments in the note, not in the command.
    return [*before, "lore cursors list" if run.command == "lore cursors reset" else run.command]
