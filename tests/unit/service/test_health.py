"""Whether all is well: every source within its bound, the first reading granted its time."""

from __future__ import annotations

from tidelore.service.status import assess_health, is_job_fresh, lag_seconds
from tidelore.store.work.service_records import JobRow

NOW = 10_000_000


def job(name: str = "a", source: str = "hub", **fields: object) -> JobRow:
    known = {"state": "idle", "succeeded_at": NOW - 1000, "staleness_bound_seconds": 60.0} | fields
    return JobRow(name, source, "poll", name, **known)  # type: ignore[arg-type]


def test_a_job_is_fresh_up_to_its_staleness_limit() -> None:
    assert is_job_fresh(job(succeeded_at=NOW - 60_000), 0, NOW)
    assert not is_job_fresh(job(succeeded_at=NOW - 60_001), 0, NOW)
    assert is_job_fresh(job(succeeded_at=0, staleness_bound_seconds=None), 0, NOW)


def test_a_job_that_never_succeeded_is_measured_from_the_service_start() -> None:
    waiting = job(succeeded_at=None)
    assert lag_seconds(waiting, NOW - 5000, NOW) == 5
    assert is_job_fresh(waiting, NOW - 60_000, NOW)
    assert not is_job_fresh(waiting, NOW - 61_000, NOW)


def test_a_running_first_sync_is_fresh_as_long_as_nothing_failed() -> None:
    assert is_job_fresh(job(succeeded_at=None, state="running"), 0, NOW)
    assert not is_job_fresh(job(succeeded_at=None, state="running", failures=1), 0, NOW)
    assert not is_job_fresh(job(succeeded_at=1, state="running"), 0, NOW)


def test_a_job_is_fresh_between_two_slices_of_its_first_sync() -> None:
    def between(**changes: object) -> JobRow:
        fields = {"succeeded_at": None, "state": "idle", "finished_at": NOW - 10, "due_at": NOW - 10} | changes
        return job("a", "hub", **fields)

    assert is_job_fresh(between(), 0, NOW)
    assert not is_job_fresh(between(failures=1), 0, NOW)
    assert not is_job_fresh(between(due_at=NOW + 9000), 0, NOW), "it waits for something else"
    assert not is_job_fresh(between(finished_at=None), 0, NOW), "it never began"
    assert not is_job_fresh(between(succeeded_at=1), 0, NOW)


def test_a_clock_that_was_set_back_makes_no_job_stale() -> None:
    assert lag_seconds(job(succeeded_at=NOW + 5000), 0, NOW) == 0


def test_a_source_is_as_stale_as_its_stalest_job() -> None:
    rows = [
        job("well"),
        job("behind", succeeded_at=NOW - 90_000, last_error="no answer"),
        job("other", "lab"),
        job("documents", "copy", staleness_bound_seconds=None, succeeded_at=None),
    ]
    health = assess_health(rows, 0, NOW)
    assert not health.ok
    assert [(one.source, one.ok, one.job) for one in health.sources] == [
        ("hub", False, "behind"),
        ("lab", True, "other"),
    ]
    assert (health.sources[0].lag_seconds, health.sources[0].bound_seconds) == (90, 60)
    assert health.sources[0].error == "no answer"


def test_without_sources_nothing_is_stale() -> None:
    assert assess_health([], 0, NOW).ok
