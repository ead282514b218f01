"""The lock of a scope: one writer at a time, with heartbeats, and takeover from dead or silent holders.

The name of a lease is a path with spaces between its parts: `sync` covers every lease that begins with `sync `. A lease
excludes those above and below it, so two processes may hold two projects at the same time, but not one of them and all.

A lease is a row with a generation; every change is a compare-and-swap on that generation, so two processes that race
cannot both win, and a holder that was taken over finds out at its next write (fencing). The error for the losing
process names the holder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.clock import Clock, describe_age
from tidelore.core.errors import LeaseLost, LockHeld
from tidelore.core.process import ProcessIdentity


class LeaseRow(Struct, frozen=True):
    """A stored lease. It is free if it has no holder; the generation only increases.

    `session` identifies the holder's connection to a database server, which can end it.
    """

    name: str
    generation: int
    holder: ProcessIdentity | None
    command: str
    acquired_at: int
    heartbeat_at: int
    session: str | None = None


class LeaseStore(Protocol):
    """Storage interface for leases."""

    @property
    def session(self) -> str | None:
        """Identifies our connection, if the database has a server."""
        ...

    def related(self, name: str) -> Sequence[LeaseRow]:
        """Return the row of this name, if there is one, and all held leases above and below it."""
        ...

    def take(self, row: LeaseRow, seen: Sequence[LeaseRow]) -> bool:
        """Write the row and free all other leases that were `seen`, atomically and if nothing changed since."""
        ...

    def end_session(self, session: str) -> None:
        """Make the server end the connection of a silent holder, so that its transaction keeps no locks."""
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


def parts_above(name: str) -> list[str]:
    """Return the names of the leases that cover this one, the widest first."""
    parts = name.split(" ")
    return [" ".join(parts[:count]) for count in range(1, len(parts))]


def covers(name: str, other: str) -> bool:
    """Return whether a lease covers another: it is the same or above it."""
    return name == other or other.startswith(f"{name} ")


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
        self._store.swap(self._row.generation, replace(self._row, holder=None, session=None))
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
    """Take the lease, or raise LockHeld naming a holder. If two processes race, exactly one wins."""
    while True:
        rows, now = store.related(name), clock.now_ms()
        reasons = [why_takeable(row, now, stale_after_ms, force, is_dead) for row in rows]
        for row, why in zip(rows, reasons, strict=True):
            if why is None:
                raise held_error(row, now)
            if why == "stale" and row.session is not None:
                # It may be frozen in the middle of a batch, which the server does not count as idle.
                store.end_session(row.session)
        generation = 1 + max((row.generation for row in rows if row.name == name), default=0)
        mine = LeaseRow(name, generation, identity, command, now, now, store.session)
        if store.take(mine, rows):
            return Lease(store, mine, clock, next((why for why in reasons if why and why != "free"), "free"))
