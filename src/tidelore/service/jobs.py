"""Jobs: their definition, how their results affect the schedule, and how their state is stored.

Errors that affect every request to a source (no response, missing or rejected credentials, a rate limit) are blamed on
the source, all others on the job; a lease held by another process is blamed on neither (`nobody`). The schedule counts
monotonic seconds and rows carry timestamps; `JobRecorder` converts between them, and a failure to store a row does not
stop a job. `SyncRounds` records which lists of a host were read while a sync takes several runs: a host is up to date
only when all were.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.errors import (
    CredentialsMissing,
    CredentialsRejected,
    DatabaseUnreachable,
    DatabaseUnusable,
    LockHeld,
    PartialSuccess,
    RateLimited,
    RemoteTransient,
    SchemaTooNew,
    StorageFailed,
    TideloreError,
)
from tidelore.http.limits import Budget, got_no_response
from tidelore.service.schedule import NEVER, Blame, JobEnd, JobSpec, JobState, Schedule, bound_of
from tidelore.store.database.port import Database
from tidelore.store.work.service_records import (
    BudgetRow,
    JobRow,
    keep_jobs,
    list_jobs,
    points_of,
    save_budgets,
    save_jobs,
)

if TYPE_CHECKING:
    from tidelore.sync.report import RunReport, ScopeKey, ScopeReport


class JobResult(Struct, frozen=True):
    """The result of a job. `wakes` names jobs that have work now; `idle`: there was nothing to do.

    `budget` is the rate limit that the source reported, if any, and `points` that of its queries. `again`: work is
    left, and the job continues as soon as the others had their turn. `fresh` is False if so much was left that the
    source is not up to date. `stretched_seconds` is a longer interval until the next run, because webhooks announce
    changes.
    """

    requests: int = 0
    error: TideloreError | None = None
    idle: bool = False
    wakes: tuple[str, ...] = ()
    budget: Budget | None = None
    points: Budget | None = None
    again: bool = False
    fresh: bool = True
    stretched_seconds: float | None = None


RunBatch = Callable[[Sequence[str]], Awaitable[Mapping[str, JobResult]]]


class Job(Struct, frozen=True):
    """A recurring job. `run_batch` runs the named jobs of a batch in one go."""

    spec: JobSpec
    run: Callable[[], Awaitable[JobResult]]
    run_batch: RunBatch | None = None


def batched(spec: JobSpec, run_batch: RunBatch) -> Job:
    """Return a job that belongs to a batch; run alone, it is a batch of one."""

    async def alone() -> JobResult:
        return (await run_batch([spec.name]))[spec.name]

    return Job(spec, alone, run_batch)


def blame_for(error: BaseException) -> Blame | None:
    """Return what is blamed for an error; None for a partial success, because the report contains its errors."""
    if isinstance(error, PartialSuccess):
        return None
    if isinstance(error, LockHeld):
        return "nobody"
    if isinstance(error, CredentialsMissing | CredentialsRejected | RateLimited):
        return "source"
    # A server that responded is available, so requests of other jobs may succeed.
    return "source" if got_no_response(error) else "job"


def sync_error(report: RunReport, scopes: Sequence[ScopeReport]) -> TideloreError | None:
    """Return the error of some lists of a run. If none could be read the sync failed, whatever the reasons."""
    from tidelore.sync.report import run_verdict

    errors = [scope.error for scope in scopes if scope.error is not None]
    if errors and len(errors) == len(scopes):
        return next((error for error in errors if blame_for(error) == "source"), errors[0])
    projects = {scope.key[:2] for scope in scopes}
    return run_verdict(scopes, [scope for scope in report.scrubbed if scope.key[:2] in projects])


def is_fatal(error: BaseException) -> bool:
    """Return whether an error stops the service, because no job can use the database any more."""
    return isinstance(error, DatabaseUnusable | SchemaTooNew)


def ending_of(done: JobResult) -> JobEnd:
    """Convert a result for the schedule."""
    if done.error is None:
        stretched = done.stretched_seconds
        return JobEnd(done.requests, idle=done.idle, again=done.again, fresh=done.fresh, stretched_seconds=stretched)
    return replace(failure_of(done.error, done.requests), again=done.again, fresh=done.fresh)


def endings_of(dones: Mapping[str, JobResult], sources: Mapping[str, str]) -> dict[str, JobEnd]:
    """Convert the results of jobs that ran in one go.

    If a source responded to one of its jobs it is available, so a missing response is blamed on the job.
    """
    found = {name: ending_of(done) for name, done in dones.items()}
    answered = {sources[name] for name, ending in found.items() if ending.blame is None and ending.requests}
    for name, ending in found.items():
        if sources[name] in answered and got_no_response(dones[name].error):
            found[name] = replace(ending, blame="job")
    return found


def failure_of(error: BaseException, requests: int = 0) -> JobEnd:
    """Convert an error for the schedule."""
    message = error.message if isinstance(error, TideloreError) else f"unexpected {type(error).__name__}: {error}"
    wait = error.retry_after_seconds if isinstance(error, RemoteTransient) else None
    return JobEnd(requests, message, blame_for(error), wait)


class Turn(Struct, frozen=True):
    """How one job, or a batch of jobs that ran in one go, ended: their results, if there are any, and their errors."""

    results: Mapping[str, JobResult]
    endings: Mapping[str, JobEnd]
    errors: Mapping[str, TideloreError | None]


async def run_turn(jobs: Sequence[Job]) -> Turn:
    """Run one job or one batch. An error, or the end of the program, is how they end: it does not stop other jobs."""
    first, names = jobs[0], [job.spec.name for job in jobs]
    try:
        several = first.run_batch if len(jobs) > 1 else None
        results = {names[0]: await first.run()} if several is None else await several(names)
    except asyncio.CancelledError:
        return Turn({}, dict.fromkeys(names, JobEnd(error="interrupted", blame="nobody")), dict.fromkeys(names))
    except TideloreError as error:
        return Turn({}, dict.fromkeys(names, failure_of(error)), dict.fromkeys(names, error))
    except Exception as failure:  # noqa: BLE001 - one failing job must not stop the others
        _LOG.exception("%s failed unexpectedly", names[0], extra={"event": "job_crashed", "job": names[0]})
        ending = failure_of(failure)
        unexpected = TideloreError(ending.error or "failed", fix="report this with the log")
        return Turn({}, dict.fromkeys(names, ending), dict.fromkeys(names, unexpected))
    endings = endings_of(results, {job.spec.name: job.spec.source for job in jobs})
    return Turn(results, endings, {name: result.error for name, result in results.items()})


def log_end(spec: JobSpec, ending: JobEnd, error: TideloreError | None, seconds: float) -> None:
    """Log how a job ended."""
    facts = {
        "job": spec.name,
        "source": spec.source,
        "requests": ending.requests,
        "seconds": round(seconds, 3),
        "code": None if error is None else error.code,
    }
    level, event = logging.WARNING, "job_finished" if ending.blame is None else "job_failed"
    said = ending.error or f"{ending.requests:d} requests in {seconds:.1f} s"
    if ending.error is None:
        level = logging.DEBUG if ending.idle else logging.INFO
    elif ending.blame == "nobody":
        level, event, said = logging.INFO, "job_held", f"backing off: {ending.error}"
    _LOG.log(level, "%s: %s", spec.name, said, extra={"event": event, **facts})


_LOG = logging.getLogger(__name__)


class JobRecorder:
    """Stores the state of jobs, and restores the state stored by an earlier service."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def save(self, schedule: Schedule, names: Iterable[str], now: float) -> None:
        """Store the state of these jobs; `now` is the schedule's time."""
        now_ms = self._clock.now_ms()
        rows = [
            row_of(schedule, schedule.specs[name], schedule.standing(name), now, now_ms)
            for name in names
            if name in schedule.specs
        ]
        try:
            save_jobs(self._database, rows)
        except StorageFailed as error:
            _tell("failed to save the state of the jobs", error)

    def save_budgets(self, results: Mapping[str, JobResult]) -> None:
        """Store the rate limits that sources reported."""
        now_ms = self._clock.now_ms()
        limits = [(source, done.budget) for source, done in results.items()]
        limits += [(points_of(source), done.points) for source, done in results.items()]
        said = {source: budget for source, budget in limits if budget is not None}
        rows = [
            BudgetRow(source, left.remaining, left.reset_at, now_ms, left.allowed)
            for source, left in said.items()
            if left.remaining is not None
        ]
        try:
            save_budgets(self._database, rows)
        except StorageFailed as error:
            _tell("failed to save the rate limits", error)

    def keep(self, names: Collection[str]) -> None:
        """Delete the rows of all other jobs."""
        try:
            keep_jobs(self._database, names)
        except StorageFailed as error:
            _tell("failed to remove old jobs", error)

    def restore(self, now: float) -> dict[str, JobState]:
        """Return the job states of an earlier service: jobs that succeeded keep their due time, others are due now."""
        now_ms = self._clock.now_ms()
        try:
            return {row.name: standing_of(row, now, now_ms) for row in list_jobs(self._database)}
        except StorageFailed as error:
            _tell("failed to load the state of the jobs", error)
            return {}


def _tell(what: str, error: StorageFailed) -> None:
    # An unreachable database is reported once, by `ServiceUpkeep`, and not for every row.
    level = logging.DEBUG if isinstance(error, DatabaseUnreachable) else logging.WARNING
    _LOG.log(level, "%s: %s", what, error.message, extra={"event": "rows_refused"})


def row_of(schedule: Schedule, spec: JobSpec, standing: JobState, now: float, now_ms: int) -> JobRow:
    """Return a job as a row. An idle job of a source that is backing off has the state `backing_off`."""

    def instant(moment: float | None) -> int | None:
        return None if moment is None or moment == NEVER else now_ms + round((moment - now) * 1000)

    trouble = schedule.trouble(spec.source) if spec.asks else None
    waits = standing.state == "idle" and trouble is not None and trouble.until > now
    return JobRow(
        spec.name,
        spec.source,
        spec.kind,
        spec.scope,
        "backing_off" if waits else standing.state,
        instant(schedule.due_at(spec.name)) if standing.state != "running" else None,
        instant(standing.started),
        instant(standing.finished),
        instant(standing.succeeded),
        standing.failures,
        trouble.error if waits and trouble is not None else standing.last_error,
        _bound(spec, standing),
        standing.requests,
        now_ms,
    )


def _bound(spec: JobSpec, standing: JobState) -> float | None:
    if spec.staleness_bound_seconds is None or standing.stretched_seconds is None:
        return spec.staleness_bound_seconds
    return max(spec.staleness_bound_seconds, bound_of(standing.stretched_seconds))


def standing_of(row: JobRow, now: float, now_ms: int) -> JobState:
    """Return a row as a job state; past events with a timestamp in the future (another clock) count as now."""

    def moment(instant: int | None) -> float | None:
        return None if instant is None else now + min(instant - now_ms, 0) / 1000

    well = row.state in ("idle", "stopped") and not row.failures and row.due_at is not None
    due = now + max((row.due_at or 0) - now_ms, 0) / 1000 if well else now
    return JobState(
        due,
        started=moment(row.started_at),
        finished=moment(row.finished_at),
        succeeded=moment(row.succeeded_at),
        requests=row.requests,
    )


class SyncRounds:
    """Progress of syncs that take several runs. `turns` is the run in which each list last had a turn."""

    def __init__(self) -> None:
        self.turns: Mapping[ScopeKey, int] = {}
        self._read: dict[tuple[str, str], set[ScopeKey]] = {}

    def take(self, report: RunReport) -> set[tuple[str, str]]:
        """Add a run and return the projects that have unread lists left; a list that was refused had its turn.

        Lists that a project no longer has are forgotten.
        """
        projects = {(scope.source, scope.configured) for scope in report.scopes}
        self.turns = {key: run for key, run in self.turns.items() if key[:2] not in projects} | {
            scope.key: report.run_id if scope.had_turn else self.turns.get(scope.key, 0) for scope in report.scopes
        }
        for project in projects:
            scopes = [scope for scope in report.scopes if scope.key[:2] == project]
            keys = {scope.key for scope in scopes}
            read = self._read.pop(project, set()) & keys | {scope.key for scope in scopes if not scope.list_left}
            if read != keys:
                self._read[project] = read
        return projects & self._read.keys()
