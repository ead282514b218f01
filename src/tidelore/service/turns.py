"""One turn of a scope in a worker: its lease, its row, and when it is due again.

A scope is a job of the service that any worker may run. What is due stands in `service_jobs`; a job of the queue is
only a hint to look there. Two workers never run one scope at once: each turn holds the lease `job NAME`, and what it
stores about the scope is fenced by it. The scope of a worker that was killed is due again as soon as its lease can be
taken over.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import LeaseLost, LockHeld, TideloreError
from tidelore.core.process import is_dead
from tidelore.engine.lease import Lease, LeaseRow, why_takeable
from tidelore.service.jobs import Job, JobRecorder, JobResult, log_end, row_of, run_turn, standing_of
from tidelore.service.schedule import JobEnd, JobSpec, Schedule
from tidelore.service.status import SCOPE_PREFIX
from tidelore.store.work.leases import held_leases, writing
from tidelore.store.work.service_records import (
    JobRow,
    add_missing_jobs,
    due_jobs,
    find_job,
    forgive_jobs,
    keep_jobs,
    postpone_jobs,
    wake_jobs,
    write_job,
)
from tidelore.store.work.session import Workshop, acquire_lease, beating, insist

_LOG = logging.getLogger(__name__)

SOON_MS = 2000
"""A scope that was woken while it ran, or left work, and is due within this time is put into the queue at once."""


def scope_lease(name: str) -> str:
    """Return the name of the lease of a scope."""
    return SCOPE_PREFIX + name.replace(" ", "%20")


class DueScope(Struct, frozen=True):
    """A scope that a worker should run, and for how long it is due; a negative time says in how long it will be."""

    name: str
    late_seconds: float


def find_due(
    rows: Sequence[JobRow], leases: Mapping[str, LeaseRow], specs: Mapping[str, JobSpec], now_ms: int, stale_ms: int
) -> list[DueScope]:
    """Return the scopes that are due, for longest first: their time has come, or their worker is gone."""
    found = []
    for row in rows:
        spec = specs.get(row.name)
        if spec is None or spec.continuous:
            continue
        if row.state != "running":
            due = row.due_at
        else:
            lease = leases.get(scope_lease(row.name))
            gone = why_takeable(lease, now_ms, stale_ms, False, is_dead) is not None
            due = (row.started_at or now_ms) if gone else None
        if due is not None and due <= now_ms:
            found.append(DueScope(row.name, (now_ms - due) / 1000))
    return sorted(found, key=lambda one: -one.late_seconds)


class ScopeTurns:
    """Runs scopes one turn at a time, and knows which are due."""

    def __init__(self, shop: Workshop, roll: Callable[[], float] = random.random) -> None:
        self._shop = shop
        self._roll = roll
        self._specs: Mapping[str, JobSpec] = {}
        self.ended = 0
        self.had_turn: set[str] = set()
        self._left: set[str] = set()
        self.errors: dict[str, TideloreError] = {}

    def set_scopes(self, specs: Mapping[str, JobSpec], *, forget: bool = False) -> None:
        """Add rows for new scopes, which are due at once; with `forget`, delete those of unknown ones."""
        new, now_ms = specs.keys() - self._specs.keys(), self._shop.clock.now_ms()
        self._specs = specs
        rows = [
            JobRow(
                *(name, spec.source, spec.kind, spec.scope, "idle", now_ms),
                staleness_bound_seconds=spec.staleness_bound_seconds,
                updated_at=now_ms,
            )
            for name, spec in specs.items()
            if name in new
        ]
        add_missing_jobs(self._shop.database, rows)
        if forget:
            keep_jobs(self._shop.database, specs.keys())

    def due(self) -> list[DueScope]:
        """Return the scopes that are due now."""
        shop = self._shop
        leases = {row.name: row for row in held_leases(shop.database)}
        stale_ms = int(shop.config.sync.stale_lock_minutes * 60_000)
        now_ms = shop.clock.now_ms()
        return find_due(due_jobs(shop.database, now_ms), leases, self._specs, now_ms, stale_ms)

    def forgive(self) -> None:
        """End the back-off of all scopes, because new settings may have fixed the problem."""
        with self._shop.database.transaction() as tx:
            forgive_jobs(tx, self._specs.keys(), self._shop.clock.now_ms())

    def goes_on(self) -> bool:
        """Return whether a scope that left work after its turn here continues in a moment."""
        soon = self._shop.clock.now_ms() + SOON_MS
        rows = due_jobs(self._shop.database, soon) if self._left else []
        return any(row.name in self._left and row.due_at is not None for row in rows)

    def wake(self, names: Collection[str]) -> list[DueScope]:
        """Make scopes due that are not backing off, each at most once in `rest_seconds`; return when."""
        now_ms, rests = self._shop.clock.now_ms(), {name: self._specs[name].rest_seconds for name in names}
        woken: dict[str, int] = {}
        with self._shop.database.transaction() as tx:
            for rest in sorted(set(rests.values())):
                own = [name for name in names if rests[name] == rest]
                woken |= wake_jobs(tx, own, now_ms, round(rest * 1000))
        self.had_turn -= woken.keys()
        return [DueScope(name, (now_ms - due) / 1000) for name, due in woken.items()]

    async def take(self, job: Job) -> list[DueScope]:
        """Run one scope if it is due and free; return the scopes that have work now or in a moment."""
        shop, spec = self._shop, job.spec
        try:
            lease = acquire_lease(shop, force=False, name=scope_lease(spec.name))
        except LockHeld:
            return []
        try:
            schedule = self._begin(lease, spec)
            if schedule is None:
                return []
            done, ending = await self._run(job, lease)
            woken: list[DueScope] = []
            await insist(shop, lambda: woken.extend(self._end(lease, spec, schedule, done, ending)))
            return woken
        except LeaseLost as error:
            _LOG.warning("%s: %s", spec.name, error.message, extra={"event": "scope_lost", "job": spec.name})
            return []
        finally:
            await insist(shop, lease.release)

    def _begin(self, lease: Lease, spec: JobSpec) -> Schedule | None:
        """Mark a scope as running; return None if it is not due any more."""
        clock = self._shop.clock
        now, now_ms = clock.monotonic(), clock.now_ms()
        with writing(self._shop.database, lease) as tx:
            row = find_job(tx, spec.name)
            if row is None or (row.state != "running" and (row.due_at is None or row.due_at > now_ms)):
                return None
            schedule = Schedule(self._roll)
            state = replace(standing_of(row, now, now_ms), failures=row.failures, last_error=row.last_error)
            schedule.set_jobs([spec], now, {spec.name: state})
            schedule.begin(spec.name, now)
            write_job(tx, row_of(schedule, spec, schedule.standing(spec.name), now, now_ms))
        return schedule

    async def _run(self, job: Job, lease: Lease) -> tuple[JobResult, JobEnd]:
        name, began = job.spec.name, self._shop.clock.monotonic()
        # A lost lease shows when the turn ends.
        async with beating(self._shop.clock, self._shop.config.sync.heartbeat_interval_seconds, lease.heartbeat):
            turn = await run_turn([job])
        ending, error = turn.endings[name], turn.errors[name]
        self.ended += 1
        self.errors.pop(name, None)
        if error is not None and ending.blame not in (None, "nobody"):
            self.errors[name] = error
        log_end(job.spec, ending, error, self._shop.clock.monotonic() - began)
        return turn.results.get(name, JobResult()), ending

    def _end(self, lease: Lease, spec: JobSpec, schedule: Schedule, done: JobResult, ending: JobEnd) -> list[DueScope]:
        """Store how a turn ended, and when the scope is due again; return the scopes that have work now."""
        shop, name = self._shop, spec.name
        now, now_ms = shop.clock.monotonic(), shop.clock.now_ms()
        with writing(shop.database, lease) as tx:
            row = find_job(tx, name)
            again = row is not None and row.due_at is not None
            if again:
                # It was woken while it ran.
                schedule.wake(name, now)
            interrupted = ending.error == "interrupted" and ending.blame == "nobody"
            # A source that fails is blamed on the scope, whose failures are counted in its row; others wait with it.
            schedule.end(name, now, replace(ending, blame="job") if ending.blame == "source" else ending)
            if interrupted:
                schedule.hasten([name], now)
            new = row_of(schedule, spec, schedule.standing(name), now, now_ms)
            write_job(tx, new)
            if ending.blame == "source" and new.due_at is not None:
                others = [one.name for one in self._specs.values() if one.source == spec.source and one.asks]
                postpone_jobs(tx, [one for one in others if one != name], new.due_at)
            woken = wake_jobs(tx, done.wakes, now_ms)
        self.had_turn -= set(done.wakes)
        self._left.discard(name)
        (self._left if ending.again else self.had_turn).add(name)
        JobRecorder(shop.database, shop.clock).save_budgets({spec.source: done})
        if (again or ending.again) and new.due_at is not None and new.due_at <= now_ms + SOON_MS:
            woken[name] = new.due_at
        return [DueScope(one, (now_ms - due) / 1000) for one, due in woken.items()]
