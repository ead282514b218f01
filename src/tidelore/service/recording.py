"""How jobs stand, for others. Owns the way between the schedule's seconds and the rows of the database.

The schedule counts seconds that only grow, so that no change of the wall clock makes a job wait for a day; rows carry
instants. Upholds that a database which refuses a row stops no job.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from tidelore.core.clock import Clock
from tidelore.core.errors import DatabaseUnreachable, StorageFailed
from tidelore.http.limits import Budget
from tidelore.service.schedule import NEVER, JobSpec, Schedule, Standing
from tidelore.store.database.port import Database
from tidelore.store.work.service_records import BudgetRow, JobRow, keep_jobs, list_jobs, save_budgets, save_jobs

_LOG = logging.getLogger(__name__)


class Recorder:
    """Writes rows for a schedule, and reads what an earlier service left."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def save(self, schedule: Schedule, names: Iterable[str], now: float) -> None:
        """Write how these jobs stand at an instant of the schedule."""
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

    def save_budgets(self, budgets: Mapping[str, Budget | None]) -> None:
        """Write what sources said is left of their rate limits."""
        now_ms = self._clock.now_ms()
        said = {source: budget for source, budget in budgets.items() if budget is not None}
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
        """Forget the rows of jobs that are no more."""
        try:
            keep_jobs(self._database, names)
        except StorageFailed as error:
            _tell("failed to remove old jobs", error)

    def restore(self, now: float) -> dict[str, Standing]:
        """Return what an earlier service left: what went well is due when it was, anything else at once."""
        now_ms = self._clock.now_ms()
        try:
            return {row.name: standing_of(row, now, now_ms) for row in list_jobs(self._database)}
        except StorageFailed as error:
            _tell("failed to load the state of the jobs", error)
            return {}


def _tell(what: str, error: StorageFailed) -> None:
    # That the database is away is told once, by whoever watches it, and not at every row.
    level = logging.DEBUG if isinstance(error, DatabaseUnreachable) else logging.WARNING
    _LOG.log(level, "%s: %s", what, error.message, extra={"event": "rows_refused"})


def row_of(schedule: Schedule, spec: JobSpec, standing: Standing, now: float, now_ms: int) -> JobRow:
    """Return a job as a row. One that waits because its source is in trouble says so."""

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
        spec.staleness_bound_seconds,
        standing.requests,
        now_ms,
    )


def standing_of(row: JobRow, now: float, now_ms: int) -> Standing:
    """Return a row as the schedule counts; instants that lie ahead of us are of another clock, and are now."""

    def moment(instant: int | None) -> float | None:
        return None if instant is None else now + min(instant - now_ms, 0) / 1000

    well = row.state in ("idle", "stopped") and not row.failures and row.due_at is not None
    due = now + max((row.due_at or 0) - now_ms, 0) / 1000 if well else now
    return Standing(
        due,
        started=moment(row.started_at),
        finished=moment(row.finished_at),
        succeeded=moment(row.succeeded_at),
        requests=row.requests,
    )
