"""The single-writer lock: acquisition, heartbeat, and takeover from dead or silent holders.

A lease is a row with a generation; every change is a compare-and-swap on that generation, so two processes that race
cannot both win, and a holder that was taken over finds out at its next write (fencing). The error for the losing
process names the holder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.clock import Clock, describe_age
from tidelore.core.errors import LeaseLost, LockHeld
from tidelore.core.process import ProcessIdentity


class LeaseRow(Struct, frozen=True):
    """A stored lease. It is free if it has no holder; the generation only increases."""

    name: str
    generation: int
    holder: ProcessIdentity | None
    command: str
    acquired_at: int
    heartbeat_at: int


class LeaseStore(Protocol):
    """Storage interface for leases."""

    def read(self, name: str) -> LeaseRow | None:
        """Return the row, or None if there never was one."""
        ...

    def swap(self, expected_generation: int | None, row: LeaseRow) -> bool:
        """Write the row if the stored generation is the expected one (None: no row yet), atomically."""
        ...


def why_takeable(
    row: LeaseRow | None,
    now_ms: int,
    stale_after_ms: int,
    force: bool,  # noqa: FBT001 - set by the operator
    is_dead: Callable[[ProcessIdentity], bool],
) -> str | None:
    """Return why a lease may be taken ('free', 'dead', 'stale', 'forced'), or None when it is held."""
    if row is None or row.holder is None:
        return "free"
    if is_dead(row.holder):
        return "dead"
    if now_ms - row.heartbeat_at > stale_after_ms:
        return "stale"
    return "forced" if force else None


def held_error(row: LeaseRow, now_ms: int) -> LockHeld:
    """Return the error that names the holder of the lease and since when it is held."""
    holder = row.holder
    who = f"`{row.command}` (pid {holder.pid} on {holder.host})" if holder else "another process"
    since = describe_age((now_ms - row.acquired_at) / 1000)
    beat = describe_age((now_ms - row.heartbeat_at) / 1000)
    return LockHeld(
        f"{who} is writing to this database, since {since}; last heartbeat {beat} ago",
        fix="wait for it to finish, or take over with --force if it is no longer running",
        lease=row.name,
        holder_pid=holder.pid if holder else None,
        holder_host=holder.host if holder else None,
        holder_command=row.command,
        heartbeat_at=row.heartbeat_at,
    )


class Lease:
    """A held lease. Call `heartbeat` while working and `release` when done."""

    def __init__(self, store: LeaseStore, row: LeaseRow, clock: Clock, taken_as: str) -> None:
        self._store = store
        self._row = row
        self._clock = clock
        self._released = False
        self.taken_as = taken_as

    @property
    def name(self) -> str:
        return self._row.name

    @property
    def generation(self) -> int:
        return self._row.generation

    def heartbeat(self) -> None:
        """Renew the lease, or raise LeaseLost if another process took over. Does nothing after `release`."""
        if self._released:
            return
        row = replace(self._row, heartbeat_at=self._clock.now_ms())
        if not self._store.swap(self._row.generation, row):
            raise lost_error(self.name)
        self._row = row

    def release(self) -> None:
        """Release the lease. Has no effect on a lease that another process took over."""
        self._store.swap(self._row.generation, replace(self._row, holder=None))
        self._released = True


def lost_error(name: str) -> LeaseLost:
    """Return the error for a holder that lost its lease to another process."""
    return LeaseLost(
        "another process took over the lock; this one wrote nothing more",
        fix="run the command again when the other process has finished",
        lease=name,
    )


def acquire(
    store: LeaseStore,
    name: str,
    identity: ProcessIdentity,
    command: str,
    clock: Clock,
    *,
    stale_after_ms: int,
    is_dead: Callable[[ProcessIdentity], bool],
    force: bool = False,
) -> Lease:
    """Take the lease, or raise LockHeld naming its holder. If two processes race, exactly one wins."""
    while True:
        row = store.read(name)
        now = clock.now_ms()
        why = why_takeable(row, now, stale_after_ms, force, is_dead)
        if row is not None and why is None:
            raise held_error(row, now)
        generation = 1 if row is None else row.generation + 1
        mine = LeaseRow(name, generation, identity, command, now, now)
        if store.swap(None if row is None else row.generation, mine):
            return Lease(store, mine, clock, why or "free")
