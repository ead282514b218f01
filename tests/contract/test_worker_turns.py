"""Turns of scopes: who may run one, when it is due again, and what becomes of the scope of a worker that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.manual_clock import ManualClock

from tidelore.core.config import Config
from tidelore.core.errors import RemoteTransient
from tidelore.core.process import ProcessIdentity
from tidelore.engine.crashpoint import no_seam
from tidelore.engine.lease import Lease, acquire
from tidelore.service.jobs import Job, JobResult
from tidelore.service.schedule import JobSpec
from tidelore.service.status import read_service
from tidelore.service.turns import DueScope, ScopeTurns, scope_lease
from tidelore.store.database.port import Database
from tidelore.store.work.leases import LeaseTable
from tidelore.store.work.service_records import JobRow, list_jobs
from tidelore.store.work.session import Workshop

ELSEWHERE = ProcessIdentity("elsewhere", 7, "m.b.n/1")
INTERVAL_SECONDS = 36_000
STALE_SECONDS = Config().sync.stale_lock_minutes * 60


class Crew:
    """Workers on one database: `turns` are those of one, `second` those of another."""

    def __init__(self, database: Database, connect: Callable[[], Database], clock: ManualClock) -> None:
        self.database, self.clock = database, clock
        shops = [Workshop(one, Config(), clock, no_seam, "lore worker") for one in (database, connect())]
        self.turns, self.second = (ScopeTurns(shop, lambda: 0.5) for shop in shops)
        self.ran: list[str] = []

    def job(
        self,
        name: str,
        act: Callable[[], Awaitable[JobResult]] | None = None,
        source: str = "hub",
        *,
        rest_seconds: float = 0,
    ) -> Job:
        async def run() -> JobResult:
            self.ran.append(name)
            return JobResult(1) if act is None else await act()

        return Job(JobSpec(name, source, "sync", name, INTERVAL_SECONDS, 300.0, rest_seconds=rest_seconds), run)

    def set(self, *jobs: Job) -> None:
        for turns in (self.turns, self.second):
            turns.set_scopes({job.spec.name: job.spec for job in jobs})

    def due(self) -> list[str]:
        return [one.name for one in self.second.due()]

    def row(self, name: str) -> JobRow:
        return next(row for row in list_jobs(self.database) if row.name == name)

    def hold(self, name: str, who: ProcessIdentity = ELSEWHERE) -> Lease:
        return acquire(
            LeaseTable(self.database), name, who, "lore worker", self.clock, stale_after_ms=1, is_dead=lambda _: False
        )


@pytest.fixture
def crew(database: Database, connect: Callable[[], Database], clock: ManualClock) -> Crew:
    return Crew(database, connect, clock)


def test_a_new_scope_is_due_at_once_and_after_its_turn_an_interval_later(crew: Crew) -> None:
    job = crew.job("a")
    crew.set(job)
    assert crew.due() == ["a"]
    assert asyncio.run(crew.turns.take(job)) == []
    assert crew.due() == []
    row = crew.row("a")
    assert (row.state, row.requests, row.due_at) == ("idle", 1, crew.clock.now_ms() + INTERVAL_SECONDS * 1000)
    crew.clock.advance(INTERVAL_SECONDS)
    assert crew.due() == ["a"]


def test_a_hint_for_a_scope_that_is_not_due_any_more_does_nothing(crew: Crew) -> None:
    job = crew.job("a")
    crew.set(job)
    for turns in (crew.turns, crew.second):
        asyncio.run(turns.take(job))
    assert crew.ran == ["a"]


def test_a_scope_that_another_worker_runs_is_left_to_it(crew: Crew) -> None:
    async def meanwhile() -> JobResult:
        assert crew.due() == []
        await crew.second.take(job)
        return JobResult()

    job = crew.job("a", meanwhile)
    crew.set(job)
    asyncio.run(crew.turns.take(job))
    assert crew.ran == ["a"]


def test_a_scope_that_fails_unexpectedly_backs_off_and_counts_as_failing(crew: Crew) -> None:
    async def stumble() -> JobResult:
        raise RuntimeError("a mistake")

    job = crew.job("a", stumble)
    crew.set(job)
    asyncio.run(crew.turns.take(job))
    assert crew.row("a").state == "backing_off"
    assert "a mistake" in crew.turns.errors["a"].message


def test_a_scope_woken_while_it_runs_is_due_again_at_its_end(crew: Crew) -> None:
    async def wake_the_other() -> JobResult:
        await crew.second.take(waking)
        return JobResult()

    async def nothing() -> JobResult:
        return JobResult(wakes=("a",))

    job, waking = crew.job("a", wake_the_other), crew.job("b", nothing)
    crew.set(job, waking)
    assert asyncio.run(crew.turns.take(job)) == [DueScope("a", 0.0)], "and is put into the queue without a look"
    assert crew.due() == ["a"]


def test_a_scope_woken_again_and_again_runs_at_most_once_in_its_rest(crew: Crew) -> None:
    job = crew.job("a", rest_seconds=5)
    crew.set(job)
    asyncio.run(crew.turns.take(job))
    crew.clock.advance(1)
    assert crew.second.wake(["a"]) == [DueScope("a", -4.0)], "its turn began a second ago"
    assert crew.turns.wake(["a"]) == [], "it is due already"
    assert crew.due() == []
    crew.clock.advance(4)
    assert crew.due() == ["a"]


def test_a_start_in_the_future_by_another_clock_does_not_delay_a_woken_scope(crew: Crew) -> None:
    job = crew.job("a", rest_seconds=5)
    crew.set(job)
    crew.clock.advance(7200)
    asyncio.run(crew.turns.take(job))
    crew.clock.advance(-3600)
    assert crew.second.wake(["a"]) == [DueScope("a", 0.0)]


def test_a_scope_that_backs_off_is_not_woken(crew: Crew) -> None:
    async def fail() -> JobResult:
        raise RemoteTransient("no usable response", reason="network")

    job = crew.job("a", fail)
    crew.set(job)
    asyncio.run(crew.turns.take(job))
    assert crew.second.wake(["a"]) == []
    assert crew.due() == []


def test_other_scopes_of_a_source_that_does_not_respond_wait_with_it(crew: Crew) -> None:
    async def fail() -> JobResult:
        raise RemoteTransient("no usable response", reason="network")

    failing, other, apart = crew.job("a", fail), crew.job("b"), crew.job("c", source="lab")
    crew.set(failing, other, apart)
    asyncio.run(crew.turns.take(failing))
    assert crew.due() == ["c"]
    assert crew.row("a").failures == 1
    assert crew.row("b").due_at == crew.row("a").due_at
    crew.clock.advance(60)
    asyncio.run(crew.second.take(failing))
    assert crew.row("a").failures == 2, "failures are counted over all workers"


def test_the_scope_of_a_silent_worker_is_due_when_its_lease_is_stale_and_its_late_end_is_not_stored(
    crew: Crew,
) -> None:
    job = crew.job("a")
    crew.set(job)

    async def freeze() -> JobResult:
        crew.clock.advance(STALE_SECONDS - 1)
        assert crew.due() == []
        crew.clock.advance(2)
        assert crew.due() == ["a"]
        await crew.second.take(job)
        assert crew.row("a").requests == 1
        return JobResult(100)

    asyncio.run(crew.turns.take(crew.job("a", freeze)))
    assert crew.row("a").requests == 1, "the worker that was taken over stored nothing more"


def test_an_interrupted_scope_is_due_at_once_for_another_worker(crew: Crew) -> None:
    async def stop() -> JobResult:
        raise asyncio.CancelledError

    job = crew.job("a", stop)
    crew.set(job)
    asyncio.run(crew.turns.take(job))
    assert crew.due() == ["a"]
    assert crew.row("a").failures == 0


def test_the_status_shows_who_works_on_what_since_when(crew: Crew) -> None:
    job = crew.job("host/a b")
    crew.set(job, crew.job("b"))
    crew.hold("worker elsewhere 7")
    crew.clock.advance(5)
    crew.hold(scope_lease("host/a b"))
    crew.clock.advance(5)
    found = read_service(crew.database, crew.clock.now_ms())
    (worker,) = found.workers
    assert (worker.host, worker.pid, worker.since) == ("elsewhere", 7, crew.clock.now_ms() - 10_000)
    assert [(one.name, one.since) for one in worker.holds] == [("host/a b", crew.clock.now_ms() - 5_000)]
    assert found.late_seconds == 10.0
    crew.clock.advance(3600)
    assert read_service(crew.database, crew.clock.now_ms()).workers == [], "it has been silent for an hour"
