"""Decide when each job runs: job states, next due time with jitter, and back-off after failures.

Pure: no clock, no I/O. Times are monotonic seconds passed in with every call; random numbers are passed in too.

    idle ──> running ──> idle | backing_off ──> running …          stopped: service stopped

Every due job runs once in each interval: ready jobs start in the order of how long they have been due, and a job that
has work left continues after the others had their turn. Jobs with the same `turn` exclude each other (they take the
same lease), except those of one `batch`, which start together and run in one go. Jobs of one lane share its slots;
handlers have their own lane, so no poll waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tidelore.http.limits import backoff_seconds
from tidelore.store.work.service_records import State

JITTER = 0.1
"""The share by which an interval is shortened or lengthened, so that many machines do not poll at the same time."""
FIRST_BACKOFF_SECONDS = 15.0
LONGEST_BACKOFF_SECONDS = 900.0
HELD_SECONDS = 10.0
"""Delay before a job is retried whose lease was held by another process."""
BREATH_SECONDS = 1.0
"""Delay before a job continues with the work it left: long enough for another process to take the lease."""
SETTLED_SECONDS = 60.0
"""How long a continuous job must run to count as succeeded."""
NEVER = float("inf")
ROOM: Mapping[str, int] = {"work": 16, "handler": 8}

Lane = Literal["work", "handler"]
Blame = Literal["source", "job", "nobody"]


class JobSpec(Struct, frozen=True):
    """A job and its interval. `asks`: whether it sends requests to its source, and so pauses while that backs off.

    A `continuous` job runs until it fails or is cancelled, and is then restarted. Jobs of one batch have the same turn.
    However often it is woken, a job starts at most once in `rest_seconds`.
    """

    name: str
    source: str
    kind: str
    scope: str
    interval_seconds: float
    staleness_bound_seconds: float | None = None
    turn: str | None = None
    batch: str | None = None
    lane: Lane = "work"
    asks: bool = True
    continuous: bool = False
    rest_seconds: float = 0.0


class JobState(Struct, frozen=True):
    """The state of a job."""

    due: float
    state: State = "idle"
    started: float | None = None
    finished: float | None = None
    succeeded: float | None = None
    failures: int = 0
    last_error: str | None = None
    requests: int = 0
    stretched_seconds: float | None = None


class Trouble(Struct, frozen=True):
    """The back-off of a source: no requests until `until`, after `failures` failures in a row."""

    until: float
    failures: int
    error: str


class JobEnd(Struct, frozen=True):
    """How a job ended. Without `blame` it succeeded; an `error` then concerns only a part of its work.

    `idle`: there was nothing to do, which gives no information about the source. `again`: work is left, which is not a
    failure. `fresh` is False if so much was left that the job does not count as succeeded. `stretched_seconds` is the
    interval until the next run if it is longer than usual.
    """

    requests: int = 0
    error: str | None = None
    blame: Blame | None = None
    wait_seconds: float | None = None
    idle: bool = False
    again: bool = False
    fresh: bool = True
    stretched_seconds: float | None = None


def next_due(started: float, now: float, interval: float, roll: float) -> float:
    """Return when a job is due again: an interval after it started, but not before it ended."""
    return max(now, started + interval * (1 + JITTER * (2 * roll - 1)))


def pause_seconds(failures: int, roll: float, named: float | None = None) -> float:
    """Return the back-off after a number of failures in a row, at least the `named` seconds the server asked for."""
    return max(backoff_seconds(failures, FIRST_BACKOFF_SECONDS, roll, LONGEST_BACKOFF_SECONDS), named or 0.0)


def bound_of(interval_seconds: float) -> float:
    """Return how old the last success of a job may be before its source counts as stale."""
    return 3 * interval_seconds + 120.0


class Schedule:
    """All jobs and their states."""

    def __init__(self, roll: Callable[[], float]) -> None:
        self._roll = roll
        self._specs: dict[str, JobSpec] = {}
        self._standings: dict[str, JobState] = {}
        self._troubles: dict[str, Trouble] = {}

    @property
    def specs(self) -> Mapping[str, JobSpec]:
        return self._specs

    def standing(self, name: str) -> JobState:
        return self._standings[name]

    def trouble(self, source: str) -> Trouble | None:
        return self._troubles.get(source)

    def set_jobs(self, specs: Iterable[JobSpec], now: float, known: Mapping[str, JobState] | None = None) -> list[str]:
        """Replace the list of jobs and return the names that were removed. A known job keeps its state.

        `known` is the state stored by an earlier service. A new job is due at once; a removed job that is running
        finishes.
        """
        wanted = {spec.name: spec for spec in specs}
        for name, spec in wanted.items():
            old = self._standings.get(name) or (known or {}).get(name) or JobState(now)
            # A shorter interval applies from now on, not after the old one has passed.
            held = old.state == "running" or old.failures
            latest = old.due if held else min(old.due, now + spec.interval_seconds * (1 + JITTER))
            self._standings[name] = replace(old, due=latest)
        gone = [name for name in self._specs if name not in wanted]
        for name in gone:
            del self._standings[name]
        self._specs = wanted
        live = {spec.source for spec in wanted.values()}
        self._troubles = {source: trouble for source, trouble in self._troubles.items() if source in live}
        return gone

    def forgive(self, now: float) -> None:
        """End all back-offs, because new settings may have fixed the problem."""
        self._troubles.clear()
        for name, old in self._standings.items():
            if old.state == "backing_off":
                self._standings[name] = replace(old, state="idle", due=now)

    def hasten(self, names: Iterable[str], now: float) -> list[str]:
        """Make requested jobs due now and return those that exist.

        Ends the back-off of the jobs and of their sources, so other jobs of a source may run too. Failures stay
        counted, so the next failure backs off for longer.
        """
        found = [name for name in names if name in self._specs]
        for name in found:
            source = self._specs[name].source
            trouble = self._troubles.get(source)
            if trouble is not None and self._specs[name].asks:
                self._troubles[source] = replace(trouble, until=min(trouble.until, now))
            old = self._standings[name]
            self._standings[name] = replace(old, due=min(old.due, now))
        return found

    def due_at(self, name: str) -> float:
        """Return when a job may run: not while its source is backing off."""
        spec, standing = self._specs[name], self._standings[name]
        trouble = self._troubles.get(spec.source) if spec.asks else None
        return standing.due if trouble is None else max(standing.due, trouble.until)

    def ready(self, now: float, wanted: Collection[str] | None = None) -> list[JobSpec]:
        """Return the jobs that may start now, the longest due first; with `wanted`, only those and their batches."""
        running = [spec for name, spec in self._specs.items() if self._standings[name].state == "running"]
        turns = {spec.turn for spec in running if spec.turn is not None}
        taken = {(spec.lane, spec.batch or spec.name) for spec in running}
        room = {lane: size - sum(one == lane for one, _ in taken) for lane, size in ROOM.items()}
        names = [name for name in self._specs if wanted is None or name in wanted]
        waiting = [(self._standings[name].due, name) for name in names if self._is_due(name, now)]
        chosen: list[JobSpec] = []
        for _, name in sorted(waiting):
            spec = self._specs[name]
            if spec.turn in turns or (not spec.continuous and room[spec.lane] <= 0):
                continue
            chosen += [spec, *self._companions(spec, now)]
            room[spec.lane] -= 1
            if spec.turn is not None:
                turns.add(spec.turn)
        return chosen

    def _companions(self, first: JobSpec, now: float) -> list[JobSpec]:
        """Return the jobs of the same batch that start with a job: those that are due, or idle and due soon."""
        if first.batch is None:
            return []
        found = []
        for name, spec in self._specs.items():
            early = spec.interval_seconds * JITTER if self._standings[name].state == "idle" else 0.0
            if spec.batch == first.batch and name != first.name and self._is_due(name, now + early):
                found.append(spec)
        return sorted(found, key=lambda spec: (self._standings[spec.name].due, spec.name))

    def next_at(self, now: float) -> float | None:
        """Return when the next job becomes due; jobs that are due already wait for another job, not for a time."""
        waiting = [self.due_at(name) for name in self._specs if self._standings[name].state != "running"]
        return min((due for due in waiting if due > now), default=None)

    def begin(self, name: str, now: float) -> None:
        """Record that a job started."""
        self._standings[name] = replace(self._standings[name], state="running", started=now, due=NEVER)

    def settle(self, now: float) -> list[str]:
        """Record continuous jobs that have run for `SETTLED_SECONDS` as succeeded, and return them."""
        found = [name for name, spec in self._specs.items() if spec.continuous and self._has_lasted(name, now)]
        for name in found:
            old = self._standings[name]
            self._standings[name] = replace(old, succeeded=now, failures=0, last_error=None)
            self._troubles.pop(self._specs[name].source, None)
        return found

    def wake(self, name: str, now: float) -> None:
        """Make a job due unless it is backing off; a running job runs again right after it ends."""
        old = self._standings.get(name)
        if old is not None and old.state != "backing_off":
            rested = now if old.started is None else old.started + self._specs[name].rest_seconds
            self._standings[name] = replace(old, due=min(old.due, max(now, rested)))

    def end(self, name: str, now: float, ending: JobEnd) -> None:
        """Record how a job ended, and set when it runs again."""
        self.end_batch({name: ending}, now)

    def end_batch(self, endings: Mapping[str, JobEnd], now: float) -> None:
        """Record how jobs that ran in one go ended.

        They get the same jitter, so that they stay together, and count as one failure of a source that is blamed.
        Failures are processed first: a job that succeeded before the source failed must not end the
        source's back-off.
        """
        roll = self._roll()
        blamed: set[str] = set()
        for name, ending in sorted(endings.items(), key=lambda pair: pair[1].blame is None):
            spec, old = self._specs.get(name), self._standings.get(name)
            if spec is not None and old is not None:
                self._end(spec, old, now, ending, roll, blamed)

    def _end(self, spec: JobSpec, old: JobState, now: float, ending: JobEnd, roll: float, blamed: set[str]) -> None:
        name = spec.name
        started = now if old.started is None else old.started
        # A job woken while it ran runs again at once: this run may have missed the new work.
        woken = old.due < NEVER
        interval = max(spec.interval_seconds, ending.stretched_seconds or 0.0)
        usual = now + BREATH_SECONDS if ending.again else next_due(started, now, interval, roll)
        again = max(now, started + spec.rest_seconds) if woken else usual
        old = replace(old, finished=now, requests=old.requests + ending.requests, state="idle")
        old = replace(old, stretched_seconds=ending.stretched_seconds)
        if ending.blame is None:
            self._standings[name] = self._well(spec, old, ending, now, again, blamed)
        elif ending.blame == "nobody":
            pause = min(HELD_SECONDS, spec.interval_seconds)
            self._standings[name] = replace(old, due=now + pause, last_error=ending.error)
        else:
            self._standings[name] = self._failed(spec, old, ending, now, blamed)

    def stop(self) -> None:
        """Set all jobs to stopped."""
        for name, old in self._standings.items():
            self._standings[name] = replace(old, state="stopped")

    def _well(
        self, spec: JobSpec, old: JobState, ending: JobEnd, now: float, again: float, blamed: set[str]
    ) -> JobState:
        if ending.idle and old.failures:
            return replace(old, due=again, state="backing_off")
        if spec.asks and not ending.idle and spec.source not in blamed:
            self._troubles.pop(spec.source, None)
        succeeded = now if ending.fresh else old.succeeded
        return replace(old, due=again, succeeded=succeeded, failures=0, last_error=ending.error)

    def _failed(self, spec: JobSpec, old: JobState, ending: JobEnd, now: float, blamed: set[str]) -> JobState:
        failures, error = old.failures + 1, ending.error or "failed"
        if ending.blame == "source":
            before = self._troubles.get(spec.source)
            count = (0 if before is None else before.failures) + (spec.source not in blamed)
            until = now + pause_seconds(count, self._roll(), ending.wait_seconds)
            if before is not None and spec.source in blamed:
                until = max(until, before.until)
            self._troubles[spec.source] = Trouble(until, count, error)
            blamed.add(spec.source)
            return replace(old, due=now, state="backing_off", failures=failures, last_error=error)
        pause = pause_seconds(failures, self._roll(), ending.wait_seconds)
        return replace(old, due=now + pause, state="backing_off", failures=failures, last_error=error)

    def _is_due(self, name: str, now: float) -> bool:
        return self._standings[name].state not in ("running", "stopped") and self.due_at(name) <= now

    def _has_lasted(self, name: str, now: float) -> bool:
        old = self._standings[name]
        return old.state == "running" and old.started is not None and now - old.started >= SETTLED_SECONDS
