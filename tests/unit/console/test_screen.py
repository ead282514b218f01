"""The bar on top of every screen."""

from __future__ import annotations

from msgspec.structs import replace

from tidelore.app.answers import Instant
from tidelore.app.console import BarStatus
from tidelore.app.positions import ServiceState
from tidelore.app.status import JobEntry
from tidelore.console.screen import _health

JOB = JobEntry(
    name="sync gitlab", source="gitlab", kind="sync", scope="https://forge.test", state="running", due_at=None,
    started_at=Instant(1), finished_at=None, succeeded_at=None, failures=0, last_error=None,
    staleness_bound_seconds=600.0, requests=0, updated_at=Instant(1),
)  # fmt: skip


def test_the_bar_says_that_a_first_sync_runs_before_it_says_that_all_is_up_to_date() -> None:
    bar = BarStatus(ServiceState(running=True), [JOB], [], watched=True, now_ms=2)
    assert "first sync: gitlab" in _health(bar)
    read = replace(JOB, succeeded_at=Instant(2))
    assert "all up to date" in _health(replace(bar, jobs=[read]))
    assert "stale: gitlab" in _health(replace(bar, jobs=[read], stale=["gitlab"]))
    assert _health(replace(bar, service=ServiceState(running=False))) == ""
