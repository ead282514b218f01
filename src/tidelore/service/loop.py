"""Run jobs: start what is ready, record how each ends, and stop all of them in order.

Each job, or batch of jobs, is one task that never overlaps itself. `schedule.py` decides, this module executes. The
rows that status views read are updated after every step, and no task outlives the loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.errors import TideloreError
from tidelore.service.control import Control
from tidelore.service.jobs import Job, JobRecorder, Turn, is_fatal, log_end, run_turn
from tidelore.service.schedule import BREATH_SECONDS, Schedule

_LOG = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often the loop checks the settings, the lease and continuous jobs."""
GRACE_SECONDS = 2.0
"""How long running jobs may take to finish when the service stops; then they are cancelled and recorded so."""
LAST_SECONDS = 1.5

Renew = Callable[[], Sequence[Job] | None]


class Loop:
    """Runs jobs until it is stopped. `renew` returns the jobs if they changed; it and `beat` run at every check."""

    def __init__(
        self,
        recorder: JobRecorder,
        clock: Clock,
        control: Control,
        *,
        renew: Renew = lambda: None,
        beat: Callable[[], None] = lambda: None,
        roll: Callable[[], float] = random.random,
    ) -> None:
        self.schedule = Schedule(roll)
        self.errors: dict[str, TideloreError] = {}
        self.ended = 0
        self._recorder = recorder
        self._clock = clock
        self._control = control
        self._renew = renew
        self._beat = beat
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wanted: set[str] | None = None
        self._fatal: BaseException | None = None

    def set_jobs(self, jobs: Iterable[Job], *, at_once: bool = False) -> None:
        """Set the jobs and restore the state stored by an earlier service; `at_once`: all are due now."""
        now = self._clock.monotonic()
        self._jobs = {job.spec.name: job for job in jobs}
        known = self._recorder.restore(now)
        if at_once:
            known = {name: replace(standing, due=now) for name, standing in known.items()}
        self.schedule.set_jobs([job.spec for job in self._jobs.values()], now, known)
        self._recorder.keep(self._jobs)
        self._recorder.save(self.schedule, self._jobs, now)

    async def run(self, *, seconds: float | None = None, once: bool = False) -> None:
        """Run until stopped, for `seconds`, or (`once`) until every job has had its turn; then stop all tasks."""
        until = None if seconds is None else self._clock.monotonic() + seconds
        self._wanted = {name for name, job in self._jobs.items() if not job.spec.continuous} if once else None
        try:
            while not self._control.stopping and self._fatal is None:
                now = self._clock.monotonic()
                if until is not None and now >= until:
                    break
                self._look(now)
                self._start(now)
                if once and not self._tasks and not self._goes_on(now):
                    break
                await self._wait(now, until)
        finally:
            await self._finish()
        if self._fatal is not None:
            raise self._fatal

    def _look(self, now: float) -> None:
        """Renew the lease, apply new settings and requests, and mark continuous jobs that have lasted as succeeded."""
        try:
            self._beat()
        except TideloreError as error:
            # The lease is lost: another process is the service now.
            self._fatal = error
            return
        jobs = self._renew()
        if jobs is not None:
            # Continuous jobs would use the old settings for ever.
            self._cancel_continuous()
            self.set_jobs(jobs)
            self.schedule.forgive(now)
        self._hasten(self._control.take_hastened(), now)
        self._wake(self._control.take_announced(), now)
        settled = self.schedule.settle(now)
        self._recorder.save(self.schedule, settled, now)

    def _hasten(self, names: Sequence[str], now: float) -> None:
        """Make requested jobs due; names of jobs that no longer exist are ignored."""
        found = self.schedule.hasten(names, now)
        if self._wanted is not None:
            self._wanted.update(found)
        for name in found:
            _LOG.info("%s: run requested", name, extra={"event": "job_hastened", "job": name})
        self._recorder.save(self.schedule, found, now)

    def _start(self, now: float) -> None:
        batches: dict[str, list[str]] = {}
        for spec in self.schedule.ready(now, self._wanted):
            wanted = self._wanted is None or spec.name in self._wanted
            if self._fatal is None and wanted and spec.name not in self._tasks:
                batches.setdefault(spec.batch or spec.name, []).append(spec.name)
        for names in batches.values():
            for name in names:
                self.schedule.begin(name, now)
                if self._wanted is not None:
                    self._wanted.discard(name)
            self._recorder.save(self.schedule, names, now)
            task = asyncio.create_task(self._work([self._jobs[name] for name in names]), name=names[0])
            self._tasks |= dict.fromkeys(names, task)

    async def _work(self, jobs: Sequence[Job]) -> None:
        """Run one job or one batch, and record how it ended."""
        began, first = self._clock.monotonic(), jobs[0].spec.name
        _LOG.debug("%s: started", first, extra={"event": "job_started", "job": first, "jobs": len(jobs)})
        turn = await run_turn(jobs)
        now = self._clock.monotonic()
        for job in jobs:
            self._note(job, turn, now - began)
            self._tasks.pop(job.spec.name, None)
        self.schedule.end_batch(turn.endings, now)
        self._wake([woken for result in turn.results.values() for woken in result.wakes], now)
        if self._wanted is not None:
            # A job has had its turn only when no work is left.
            self._wanted.update(name for name, ending in turn.endings.items() if ending.again and ending.blame is None)
        sources = {job.spec.name: job.spec.source for job in jobs}
        touched = [name for name, one in self.schedule.specs.items() if one.source in sources.values()]
        self._recorder.save(self.schedule, touched, now)
        self._recorder.save_budgets({sources[name]: result for name, result in turn.results.items()})
        self._control.wake()

    def _goes_on(self, now: float) -> bool:
        """Return whether a job is about to continue with the work it left."""
        return any(self.schedule.due_at(name) <= now + BREATH_SECONDS for name in self._wanted or ())

    def _wake(self, names: Iterable[str], now: float) -> None:
        for name in names:
            self.schedule.wake(name, now)
            if self._wanted is not None and name in self._jobs:
                self._wanted.add(name)

    def _note(self, job: Job, turn: Turn, seconds: float) -> None:
        name = job.spec.name
        error = turn.errors[name]
        self.ended += 1
        self.errors.pop(name, None)
        if error is not None:
            self.errors[name] = error
            self._fatal = error if is_fatal(error) else self._fatal
        log_end(job.spec, turn.endings[name], error, seconds)

    async def _wait(self, now: float, until: float | None) -> None:
        """Wait until a job is due, a job ended, a request came in, or the next check is due."""
        marks = [now + LOOK_SECONDS, self.schedule.next_at(now), until]
        seconds = max(0.0, min(mark for mark in marks if mark is not None) - now)
        waiting = [asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(self._control.woken())]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _finish(self) -> None:
        """Wait for running jobs for `GRACE_SECONDS`, cancel the rest, and store the final state."""
        self._cancel_continuous()
        await self._drain(GRACE_SECONDS, patient=True)
        # Cancel the task of a batch only once: a second cancellation would interrupt its cleanup.
        for task in set(self._tasks.values()):
            task.cancel()
        await self._drain(LAST_SECONDS, patient=False)
        for name in self._tasks:
            _LOG.error("%s: did not stop in time", name, extra={"event": "job_stuck", "job": name})
        self.schedule.stop()
        self._recorder.save(self.schedule, list(self.schedule.specs), self._clock.monotonic())

    def _cancel_continuous(self) -> None:
        for name, task in self._tasks.items():
            job = self._jobs.get(name)
            if job is not None and job.spec.continuous:
                task.cancel()

    async def _drain(self, seconds: float, *, patient: bool) -> None:
        """Wait for the remaining tasks; if `patient`, a second stop request ends the wait."""
        try:
            async with asyncio.timeout(seconds):
                while self._tasks and not (patient and self._control.hurried):
                    waker = asyncio.ensure_future(self._control.woken())
                    await asyncio.wait([waker, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
                    waker.cancel()
        except TimeoutError:
            pass
