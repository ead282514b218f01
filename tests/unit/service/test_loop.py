"""The loop: tasks of their own, failures of their own, rows that follow, and an orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.unit.service.stepped import SteppedClock

from tidelore.errors import CredentialsRejected, DatabaseUnusable, LeaseLost, RemoteTransient, TideloreError
from tidelore.service import loop as looping
from tidelore.service.control import Control
from tidelore.service.loop import Loop
from tidelore.service.outcome import Done, Job, batched
from tidelore.service.recording import Recorder
from tidelore.service.schedule import JobSpec, Lane
from tidelore.store.database import Database
from tidelore.store.migrate import migrate
from tidelore.store.opening import open_database
from tidelore.store.service_jobs import JobRow, list_jobs

Run = Callable[[], Awaitable[Done]]


class Counted:
    """A job that counts its turns, and may take some time or fail."""

    def __init__(self, clock: SteppedClock, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.turns: list[float] = []
        self.under_way = 0
        self.most = 0
        self.error = error
        self._clock = clock
        self._seconds = seconds

    async def __call__(self) -> Done:
        self.turns.append(self._clock.monotonic())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self._clock.sleep(self._seconds)
            if self.error is not None:
                raise self.error
            return Done(2)
        finally:
            self.under_way -= 1


class Bench:
    """A loop over a real database, and a clock that the test moves."""

    def __init__(self, path: Path) -> None:
        self.clock = SteppedClock()
        self.control = Control()
        self.database: Database = open_database(str(path / "lore.db"))
        migrate(self.database, self.clock.now_ms())
        self.jobs: list[Job] = []
        self.renewed: list[Job] | None = None
        self.beat: Callable[[], None] = lambda: None

    def add(self, name: str, run: Run, source: str = "hub", interval: float = 60.0, **more: object) -> None:
        self.jobs.append(Job(JobSpec(name, source, "poll", name, interval, **more), run))  # type: ignore[arg-type]

    def counted(self, name: str, source: str = "hub", *, seconds: float = 0.0, **more: object) -> Counted:
        job = Counted(self.clock, seconds)
        self.add(name, job, source, **more)  # type: ignore[arg-type]
        return job

    def take_renewed(self) -> list[Job] | None:
        jobs, self.renewed = self.renewed, None
        return jobs

    def rows(self) -> dict[str, JobRow]:
        return {row.name: row for row in list_jobs(self.database)}

    def run(self, story: Callable[[Loop], Awaitable[None]], *, once: bool = False) -> Loop:
        async def inside() -> Loop:
            self.control.bind()
            recorder = Recorder(self.database, self.clock)
            loop = Loop(
                recorder,
                self.clock,
                self.control,
                renew=self.take_renewed,
                beat=lambda: self.beat(),
                roll=lambda: 0.5,
            )
            loop.set_jobs(self.jobs, at_once=once)
            task = asyncio.create_task(loop.run(once=once))
            await self.clock.settle()
            await story(loop)
            self.control.stop()
            await task
            return loop

        return asyncio.run(inside())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.database.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that waits for nobody for long: these seconds are real."""
    monkeypatch.setattr(looping, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(looping, "LAST_SECONDS", 1.0)


def test_each_job_runs_on_its_own_schedule(bench: Bench) -> None:
    often, seldom = bench.counted("often", interval=60), bench.counted("seldom", interval=300)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(601)

    bench.run(story)
    assert len(often.turns) == 11
    assert len(seldom.turns) == 3


def test_one_failing_source_leaves_the_others_running_and_is_asked_less_and_less(bench: Bench) -> None:
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


def test_a_source_that_comes_back_is_asked_at_its_interval_again(bench: Bench) -> None:
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


def test_a_mistake_of_ours_in_one_job_is_its_own(bench: Bench) -> None:
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
    async def poll() -> Done:
        return Done(1, wakes=("answers", "unknown"))

    bench.add("poll", poll, interval=60)
    answers = bench.counted("answers", interval=100_000)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(200)

    bench.run(story)
    assert len(answers.turns) >= 4


def test_rows_tell_what_runs_what_is_due_and_what_it_cost(bench: Bench) -> None:
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


def test_a_restart_remembers_what_was_done_and_what_it_cost(bench: Bench) -> None:
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


def test_one_round_gives_every_job_one_turn_and_what_they_wake_another(bench: Bench) -> None:
    async def poll() -> Done:
        return Done(1, wakes=("answers",))

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


def test_new_jobs_take_the_place_of_the_old_ones_while_it_runs(bench: Bench) -> None:
    old, new = bench.counted("old"), Counted(bench.clock)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(30)
        bench.renewed = [Job(JobSpec("new", "hub", "poll", "new", 60.0), new)]
        await bench.clock.advance(130)
        assert set(bench.rows()) == {"new"}

    bench.run(story)
    assert len(old.turns) == 1
    assert len(new.turns) == 3


def test_a_job_without_end_is_begun_again_with_the_new_settings(bench: Bench) -> None:
    old, new = Counted(bench.clock, 1e9), Counted(bench.clock, 1e9)
    bench.add("stream", old, interval=30, continuous=True)

    async def story(_loop: Loop) -> None:
        await bench.clock.advance(30)
        bench.renewed = [Job(JobSpec("stream", "hub", "stream", "stream", 30.0, continuous=True), new)]
        await bench.clock.advance(30)
        assert (old.under_way, new.under_way) == (0, 1)
        assert bench.rows()["stream"].failures == 0

    bench.run(story)


def test_what_runs_may_come_to_its_end_when_the_service_stops(bench: Bench) -> None:
    finished: list[str] = []

    async def page() -> Done:
        await asyncio.sleep(0.2)
        finished.append("page")
        return Done(1)

    bench.add("page", page)

    async def story(_loop: Loop) -> None:
        assert bench.rows()["page"].state == "running"

    bench.run(story)
    assert finished == ["page"]
    assert bench.rows()["page"].requests == 1


def test_what_takes_too_long_is_cancelled_and_a_stream_at_once(bench: Bench, impatient: None) -> None:
    ends: list[str] = []

    async def endless() -> Done:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        return Done()

    bench.add("endless", endless)
    bench.add("stream", endless, continuous=True)

    async def story(_loop: Loop) -> None:
        pass

    bench.run(story)
    assert ends == ["cancelled", "cancelled"]
    assert {row.state for row in bench.rows().values()} == {"stopped"}


def test_who_asks_twice_is_not_kept_waiting(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looping, "GRACE_SECONDS", 60.0)

    async def endless() -> Done:
        await asyncio.Event().wait()
        return Done()

    bench.add("endless", endless)

    async def story(_loop: Loop) -> None:
        bench.control.stop()

    bench.run(story)


@pytest.mark.parametrize("how", ["lease", "database"])
def test_what_concerns_all_jobs_ends_the_service_with_its_error(bench: Bench, how: str) -> None:
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


# Batches


def test_jobs_of_a_batch_run_in_one_go_and_each_ends_in_its_own_way(bench: Bench) -> None:
    gone = RemoteTransient("bad gateway", status=502)
    went: list[tuple[str, ...]] = []

    async def together(names: Sequence[str]) -> dict[str, Done]:
        went.append(tuple(names))
        return {name: Done(1, gone if name == "b" else None, wakes=("later",)) for name in names}

    for name in ("a", "b", "c"):
        spec = JobSpec(name, "hub", "poll", name, 60.0, turn="lease", batch="polls")
        bench.jobs.append(batched(spec, together))
    later = bench.counted("later", interval=6000)

    async def story(loop: Loop) -> None:
        assert went == [("a", "b", "c")]
        assert len(later.turns) == 2, "once at the beginning, once because it was woken"
        assert loop.errors == {"b": gone}
        rows = bench.rows()
        assert {name: rows[name].failures for name in "abc"} == {"a": 0, "b": 1, "c": 0}
        await bench.clock.advance(61)
        assert went == [("a", "b", "c"), ("b",), ("b",), ("a", "c")], "what failed comes again by its own pauses"

    bench.run(story)


def test_a_batch_that_fails_as_a_whole_fails_for_each_and_one_that_is_cut_off_is_cancelled_once(
    bench: Bench, impatient: None
) -> None:
    cut: list[str] = []
    silent = RemoteTransient("no answer")
    failing = [True]

    async def together(_names: Sequence[str]) -> dict[str, Done]:
        if failing[0]:
            raise silent
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            # How a run is closed takes its time; a second cancellation would end it here.
            await asyncio.sleep(0.05)
            cut.append("closed")
            raise
        return {}

    for name in ("a", "b"):
        bench.jobs.append(batched(JobSpec(name, "hub", "poll", name, 60.0, turn="lease", batch="polls"), together))

    async def story(loop: Loop) -> None:
        assert loop.errors == {"a": silent, "b": silent}
        failing[0] = False
        await bench.clock.advance(31)
        assert {row.state for row in bench.rows().values()} == {"running"}

    bench.run(story)
    assert cut == ["closed"]
    assert {row.state for row in bench.rows().values()} == {"stopped"}
