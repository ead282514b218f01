"""Whether all is well. Owns the one question of `/healthz`: is every source within its staleness bound?

Pure: rows and an instant in, a verdict out. A source is as stale as the most stale of its jobs that have a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tidelore.store.work.service_records import JobRow


class SourceHealth(Struct, frozen=True):
    """One source, by the job that is furthest behind."""

    source: str
    ok: bool
    job: str
    lag_seconds: float
    bound_seconds: float
    error: str | None


class Health(Struct, frozen=True):
    """The verdict, and what it rests on."""

    ok: bool
    sources: tuple[SourceHealth, ...]


def lag_seconds(job: JobRow, since_ms: int, now_ms: int) -> float:
    """Return how long ago a job last succeeded; one that never did is counted from when somebody began to care."""
    reference = since_ms if job.succeeded_at is None else job.succeeded_at
    return max(now_ms - reference, 0) / 1000


def is_fresh(job: JobRow, since_ms: int, now_ms: int) -> bool:
    """Tell whether a job is within its bound. The first reading of all may take long, as long as nothing fails.

    It may take several turns: between them the job is due at once.
    """
    if job.staleness_bound_seconds is None:
        return True
    goes_on = job.state == "idle" and job.finished_at is not None and (job.due_at or now_ms) <= now_ms
    first = job.succeeded_at is None and not job.failures and (job.state == "running" or goes_on)
    return first or lag_seconds(job, since_ms, now_ms) <= job.staleness_bound_seconds


def judge(jobs: Iterable[JobRow], since_ms: int, now_ms: int) -> Health:
    """Return the health of all sources that have a bound to keep; `since_ms` is when the service began."""
    by_source: dict[str, list[JobRow]] = {}
    for job in jobs:
        if job.staleness_bound_seconds is not None:
            by_source.setdefault(job.source, []).append(job)
    found = tuple(_judge_source(source, rows, since_ms, now_ms) for source, rows in sorted(by_source.items()))
    return Health(all(source.ok for source in found), found)


def _judge_source(source: str, jobs: Sequence[JobRow], since_ms: int, now_ms: int) -> SourceHealth:
    def excess(job: JobRow) -> tuple[bool, float]:
        bound = job.staleness_bound_seconds or 0.0
        return not is_fresh(job, since_ms, now_ms), lag_seconds(job, since_ms, now_ms) / max(bound, 1.0)

    worst = max(jobs, key=excess)
    lag = lag_seconds(worst, since_ms, now_ms)
    fresh = is_fresh(worst, since_ms, now_ms)
    return SourceHealth(source, fresh, worst.name, lag, worst.staleness_bound_seconds or 0.0, worst.last_error)
