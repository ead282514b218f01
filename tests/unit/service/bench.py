"""A loop over a real database, jobs that count their turns, and a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.databases.migrated_file import lay_out
from tests.unit.service.stepped import SteppedClock

from tidelore.service.control import Control
from tidelore.service.jobs import Job, JobRecorder, JobResult
from tidelore.service.loop import Loop
from tidelore.service.schedule import JobSpec
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.work.service_records import JobRow, list_jobs

Run = Callable[[], Awaitable[JobResult]]


class Counted:
    """A job that counts its turns, and may take some time or fail."""

    def __init__(self, clock: SteppedClock, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.turns: list[float] = []
        self.under_way = 0
        self.most = 0
        self.error = error
        self._clock = clock
        self._seconds = seconds

    async def __call__(self) -> JobResult:
        self.turns.append(self._clock.monotonic())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self._clock.sleep(self._seconds)
            if self.error is not None:
                raise self.error
            return JobResult(2)
        finally:
            self.under_way -= 1


class Bench:
    """A loop over a real database, and a clock that the test moves."""

    def __init__(self, path: Path) -> None:
        self.clock = SteppedClock()
        self.control = Control()
        lay_out(path / "lore.db")
        self.database: Database = open_database(str(path / "lore.db"))
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
            recorder = JobRecorder(self.database, self.clock)
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
