"""The loop: tasks of their own, failures of their own, rows that follow, and an orderly end."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.service.bench import Bench, Counted

from tidelore.core.errors import CredentialsRejected, DatabaseUnusable, LeaseLost, RemoteTransient, TideloreError
from tidelore.service import loop as looping
from tidelore.service.control import Control
from tidelore.service.jobs import Job, JobResult
from tidelore.service.loop import Loop
from tidelore.service.schedule import JobSpec, Lane


def test_each_job_runs_on_its_own_schedule(bench: Bench) -> None:
    often, seldom = bench.counted("often", interval=60), bench.counted("seldom", interval=300)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(601)

    bench.run(story)
    assert len(often.turns) == 11
    assert len(seldom.turns) == 3


def test_a_failing_source_backs_off_while_the_others_keep_running(bench: Bench) -> None:
    down, well = bench.counted("down", "lab"), bench.counted("well", "hub")
    down.error = RemoteTransient("no answer", reason="connect")

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(3600)
        row = bench.rows()["down"]
        assert (row.state, row.last_error) == ("backing_off", "no answer")
        assert row.failures == len(down.turns)

    bench.run(story)
    assert len(well.turns) == 61
    assert 5 < len(down.turns) < 12


def test_a_recovered_source_is_polled_at_its_interval_again(bench: Bench) -> None:
    job = bench.counted("job")
    job.error = CredentialsRejected("401", status=401)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(100)
        job.error = None
        await bench.clock.advance(1000)
        before = len(job.turns)
        await bench.clock.advance(600)
        assert len(job.turns) == before + 10
        assert bench.rows()["job"].failures == 0

    bench.run(story)


def test_an_unexpected_exception_in_one_job_does_not_affect_the_others(bench: Bench) -> None:
    broken, well = bench.counted("broken"), bench.counted("well")
    broken.error = ZeroDivisionError("x")

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(600)

    loop = bench.run(story)
    assert len(well.turns) == 11
    assert len(broken.turns) > 3
    assert "ZeroDivisionError" in loop.errors["broken"].message


def test_polling_never_waits_for_handlers(bench: Bench) -> None:
    lane: Lane = "handler"
    handlers = [bench.counted(f"handler {n}", seconds=10_000, lane=lane, asks=False) for n in range(20)]
    poll = bench.counted("poll")

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(600)
        assert sum(handler.under_way for handler in handlers) == 8
        assert len(poll.turns) == 11

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looping, "GRACE_SECONDS", 0.01)
        bench.run(story)


def test_a_job_never_overlaps_itself(bench: Bench) -> None:
    slow = bench.counted("slow", seconds=150)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(600)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looping, "GRACE_SECONDS", 0.01)
        bench.run(story)
    assert slow.most == 1
    assert slow.turns == [0, 150, 300, 450, 600]


def test_a_job_that_wakes_another_makes_it_run_at_once(bench: Bench) -> None:
    async def poll() -> JobResult:
        return JobResult(1, wakes=("answers", "unknown"))

    bench.add("poll", poll, interval=60)
    answers = bench.counted("answers", interval=100_000)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(200)

    bench.run(story)
    assert len(answers.turns) >= 4


def test_job_rows_show_state_due_time_and_request_count(bench: Bench) -> None:
    bench.counted("quick", staleness_bound_seconds=300.0)
    bench.counted("slow", seconds=50)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(30)
        rows, now = bench.rows(), bench.clock.now_ms()
        assert (rows["slow"].state, rows["slow"].due_at, rows["slow"].started_at) == ("running", None, now - 30_000)
        quick = rows["quick"]
        assert (quick.state, quick.requests, quick.staleness_bound_seconds) == ("idle", 2, 300)
        assert (quick.succeeded_at, quick.due_at) == (now - 30_000, now + 30_000)
        await bench.clock.advance(30)

    bench.run(story)
    assert {row.state for row in bench.rows().values()} == {"stopped"}


def test_job_history_and_request_counts_survive_a_restart(bench: Bench) -> None:
    job = bench.counted("job")

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(10)

    bench.run(story)
    bench.control = Control()
    bench.run(story)
    assert job.turns == [0.0], "it is not due yet"
    assert bench.rows()["job"].requests == 2


def test_a_wall_clock_that_jumps_delays_nothing(bench: Bench) -> None:
    job = bench.counted("job")

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(30)
        bench.clock.jump(-86_400)
        await bench.clock.advance(300)
        bench.clock.jump(2 * 86_400)
        await bench.clock.advance(300)

    bench.run(story)
    assert len(job.turns) == 11


def test_a_single_round_runs_every_job_once_and_woken_jobs_again(bench: Bench) -> None:
    async def poll() -> JobResult:
        return JobResult(1, wakes=("answers",))

    bench.add("poll", poll)
    answers, stream = bench.counted("answers"), bench.counted("stream", seconds=1e9, continuous=True)
    down, beside = bench.counted("down", "lab", turn="lab"), bench.counted("later", "lab", turn="lab")
    down.error = RemoteTransient("no answer")

    async def story(loop: Loop) -> None:
        await bench.clock.advance(5)
        assert loop.ended >= 3

    loop = bench.run(story, once=True)
    assert len(answers.turns) == 2
    assert stream.turns == []
    assert (len(down.turns), len(beside.turns)) == (1, 0)
    assert list(loop.errors) == ["down"]


# New jobs and the end


def test_a_new_job_list_replaces_the_old_one_while_the_loop_runs(bench: Bench) -> None:
    old, new = bench.counted("old"), Counted(bench.clock)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(30)
        bench.renewed = [Job(JobSpec("new", "hub", "poll", "new", 60.0), new)]
        await bench.clock.advance(130)
        assert set(bench.rows()) == {"new"}

    bench.run(story)
    assert len(old.turns) == 1
    assert len(new.turns) == 3


def test_a_continuous_job_is_restarted_with_new_settings(bench: Bench) -> None:
    old, new = Counted(bench.clock, 1e9), Counted(bench.clock, 1e9)
    bench.add("stream", old, interval=30, continuous=True)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(30)
        bench.renewed = [Job(JobSpec("stream", "hub", "stream", "stream", 30.0, continuous=True), new)]
        await bench.clock.advance(30)
        assert (old.under_way, new.under_way) == (0, 1)
        assert bench.rows()["stream"].failures == 0

    bench.run(story)


def test_running_jobs_may_finish_when_the_service_stops(bench: Bench) -> None:
    finished: list[str] = []

    async def page() -> JobResult:
        await asyncio.sleep(0.2)
        finished.append("page")
        return JobResult(1)

    bench.add("page", page)

    async def story(_loop: Loop) -> None:
        assert bench.rows()["page"].state == "running"

    bench.run(story)
    assert finished == ["page"]
    assert bench.rows()["page"].requests == 1


def test_on_stop_slow_jobs_are_cancelled_after_the_grace_time_and_streams_at_once(
    bench: Bench, impatient: None
) -> None:
    ends: list[str] = []

    async def endless() -> JobResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return JobResult()

    bench.add("endless", endless)
    bench.add("stream", endless, continuous=True)

    async def story(_loop: Loop) -> None:
        pass

    bench.run(story)
    assert ends == ["cancelled", "cancelled"]
    assert {row.state for row in bench.rows().values()} == {"stopped"}


def test_a_second_stop_request_cancels_jobs_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looping, "GRACE_SECONDS", 60.0)

    async def endless() -> JobResult:
        await asyncio.Event().wait()
        return JobResult()

    bench.add("endless", endless)

    async def story(_loop: Loop) -> None:
        bench.control.stop()

    bench.run(story)


@pytest.mark.parametrize("how", ["lease", "database"])
def test_a_lost_lease_or_unusable_database_stops_the_service_with_that_error(bench: Bench, how: str) -> None:
    error: TideloreError = LeaseLost("taken over") if how == "lease" else DatabaseUnusable("corrupt")
    job = bench.counted("job")
    if how == "lease":

        def lost() -> None:
            if bench.clock.monotonic() > 10:
                raise error

        bench.beat = lost
    else:
        job.error = error

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(30)

    with pytest.raises(type(error)):
        bench.run(story)
    assert bench.rows()["job"].state == "stopped"
