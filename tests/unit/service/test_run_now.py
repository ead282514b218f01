"""Jobs that somebody asks for: due at once, whatever held them back, asked for from any thread and at any time."""

from __future__ import annotations

import threading

from tests.unit.service.bench import Bench

from tidelore.core.errors import CredentialsRejected
from tidelore.service.control import Control
from tidelore.service.loop import Loop
from tidelore.service.schedule import JobEnd, JobSpec, Schedule

DOWN = JobEnd(1, "no answer", "source")
WELL = JobEnd(1)
BROKEN = JobEnd(1, "not found", "job")


def scheduled(*names: str, asks: bool = True) -> Schedule:
    schedule = Schedule(lambda: 0.5)
    schedule.set_jobs([JobSpec(name, "hub", "poll", name, 60.0, asks=asks) for name in names], 0.0)
    return schedule


def run(schedule: Schedule, name: str, now: float, ending: JobEnd = WELL) -> None:
    schedule.begin(name, now)
    schedule.end(name, now, ending)


def test_run_now_makes_only_the_named_job_due() -> None:
    schedule = scheduled("one", "two")
    for name in ("one", "two"):
        run(schedule, name, 0.0)
    assert schedule.hasten(["one", "gone"], 10.0) == ["one"]
    assert [spec.name for spec in schedule.ready(10.0)] == ["one"]


def test_run_now_ignores_back_off_of_job_and_source_without_resetting_it() -> None:
    for ending in (DOWN, BROKEN):
        schedule = scheduled("one")
        run(schedule, "one", 0.0, ending)
        run(schedule, "one", 100.0, ending)
        pause = schedule.due_at("one") - 100.0
        schedule.hasten(["one"], 101.0)
        assert [spec.name for spec in schedule.ready(101.0)] == ["one"]
        run(schedule, "one", 101.0, ending)
        assert schedule.standing("one").failures == 3
        assert schedule.due_at("one") - 101.0 > pause


def test_running_a_job_without_requests_keeps_the_back_off_of_its_source() -> None:
    schedule = Schedule(lambda: 0.5)
    specs = [JobSpec("poll", "hub", "poll", "a", 60.0), JobSpec("handler", "hub", "handler", "a", 60.0, asks=False)]
    schedule.set_jobs(specs, 0.0)
    run(schedule, "poll", 0.0, DOWN)
    run(schedule, "handler", 0.0)
    schedule.hasten(["handler"], 1.0)
    assert [spec.name for spec in schedule.ready(1.0)] == ["handler"]


def test_run_now_on_a_running_job_repeats_it_right_after() -> None:
    schedule = scheduled("one")
    schedule.begin("one", 0.0)
    schedule.hasten(["one"], 1.0)
    assert schedule.ready(1.0) == []
    schedule.end("one", 2.0, WELL)
    assert [spec.name for spec in schedule.ready(2.0)] == ["one"]


def test_run_now_requests_from_many_threads_are_merged() -> None:
    control = Control()
    threads = [threading.Thread(target=control.run_now, args=([f"job {at % 5}"],)) for at in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(control.take_hastened()) == [f"job {at}" for at in range(5)]
    assert control.take_hastened() == []


def test_the_loop_runs_a_run_now_job_at_once_and_ignores_unknown_jobs(bench: Bench) -> None:
    job, other = bench.counted("job", interval=600), bench.counted("other", interval=600)
    # Asked for before anything runs: it is not lost, and it is one turn.
    bench.control.run_now(["job"])

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(5)
        assert (len(job.turns), len(other.turns)) == (1, 1)
        threading.Thread(target=bench.control.run_now, args=(["job", "gone"],)).start()
        await bench.clock.advance(5)
        assert (len(job.turns), len(other.turns)) == (2, 1)
        assert bench.rows()["job"].requests == 4

    bench.run(story)


def test_run_now_contacts_a_source_in_back_off(bench: Bench) -> None:
    job = bench.counted("job")
    job.error = CredentialsRejected("401", status=401)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(300)
        assert bench.rows()["job"].state == "backing_off"
        before, job.error = len(job.turns), None
        bench.control.run_now(["job"])
        await bench.clock.advance(3)
        assert len(job.turns) == before + 1
        assert (bench.rows()["job"].state, bench.rows()["job"].failures) == ("idle", 0)

    bench.run(story)
