"""A writing run: its lease, its ledger row, and how both end.

    open_session   lease -> close crashed rows -> open a row -> work -> close the row -> release
    open_run       the row alone; `take_lease` inside it holds the lease for the part of the work that writes

Work that needs no lease may be done before taking it or after releasing it early. Cancellation and every error pass
through here, so no row stays `running`; the row of a killed process is closed by the next run. A service outlives its
runs, so it retries closing their rows for as long as the database is unreachable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractContextManager, asynccontextmanager, suppress

from msgspec import Struct, field

from tidelore.core.clock import Clock
from tidelore.core.concurrency import WriterThread
from tidelore.core.config import Config
from tidelore.core.errors import (
    DatabaseUnreachable,
    IllegalTransition,
    LeaseLost,
    LockHeld,
    StorageFailed,
    TideloreError,
)
from tidelore.core.process import ProcessIdentity, is_dead
from tidelore.core.progress import PhaseProgress
from tidelore.engine.crashpoint import Crashpoint, Seam
from tidelore.engine.lease import Lease, acquire, held_error, why_takeable
from tidelore.engine.ledger import Counters, Run, Surgery, close_crashed
from tidelore.store.database.port import Database, Transaction
from tidelore.store.work.events import Consumer
from tidelore.store.work.leases import LeaseTable, Unended, writing
from tidelore.store.work.runs import RunTable

LEASE = "sync"
"""The lease of a sync of everything; it covers those of single projects and of documents."""
DOCUMENTS_LEASE = f"{LEASE} @documents"
ASK_AGAIN_SECONDS = 1.0
"""The pause between attempts to close a run in an unreachable database."""
LOOK_AGAIN_SECONDS = 0.2
"""The pause between attempts to take a held lease: a busy service releases it only for a second."""
_FOREVER_MS = 2**62


class Workshop(Struct, frozen=True):
    """What every writing command needs.

    With `insists`, closing a run is retried until the database is reachable. `unended` is shared by the commands of a
    process: each ends first what those before it could not.
    """

    database: Database
    config: Config
    clock: Clock
    seam: Crashpoint
    command: str
    insists: bool = False
    unended: Unended = field(default_factory=dict)


class Session(Struct):
    """A run in progress. `error`, `partial` and `warnings` decide how its row is closed.

    `asked` returns the number of requests sent so far; without it, `counters` contains the number. `consumer` looks at
    everything the run stores. Pages that are read one after another are stored in `thread`.
    """

    shop: Workshop
    run: Run
    counters: Counters
    crashed_runs: list[int]
    held: Lease | None = None
    warnings: int = 0
    error: str | None = None
    partial: str | None = None
    asked: Callable[[], int] | None = None
    consumer: Consumer | None = None
    course: PhaseProgress = field(default_factory=PhaseProgress)
    thread: WriterThread = field(default_factory=WriterThread)

    @property
    def lease(self) -> Lease:
        assert self.held is not None, "only a run that took the lease writes"
        return self.held

    def writing(self, *, durable: bool = False) -> AbstractContextManager[Transaction]:
        """Begin a transaction that commits only while this run holds the lease."""
        return writing(self.shop.database, self.lease, durable=durable)

    async def take_lease(self, *, force: bool, wait_seconds: float = 0.0, name: str = LEASE) -> None:
        """Take the lease, or raise LockHeld naming the holder."""
        self.held = await wait_for_lease(self.shop, force=force, name=name, wait_seconds=wait_seconds)
        self.crashed_runs += _close_crashed(self.shop, stale_after_ms=_stale_after_ms(self.shop))

    def give_back(self) -> None:
        """Release the lease; the row stays open, and fenced writes of this run fail from here on."""
        self.lease.release()
        self.shop.seam(Seam.LEASE_RELEASED)

    def tell(self, subject: str, stage: str, done: int, total: int | None, note: str) -> None:
        """Report the progress of one stage to the ledger."""
        self.course.tell(self.run.phase, subject, stage, done, total, note)
        self.note()

    def note(self) -> None:
        """Record the progress of the run, if due. Errors are ignored, as for heartbeats."""
        with suppress(TideloreError):
            self.run.note_progress(self.tallied(), self.course.at(self.run.phase))

    def tallied(self) -> Counters:
        """Return the current counters."""
        if self.asked is not None:
            self.counters.requests = self.asked()
        return self.counters

    async def listen(self) -> None:
        """Let pending signals be handled: the loop needs two rounds to deliver one."""
        for _ in range(3):
            await self.shop.clock.sleep(0)


def project_lease(source: str, configured: str) -> str:
    """Return the name of the lease of one project."""
    return f"{LEASE} {source} {configured.replace(' ', '%20')}"


def lease_of(database: Database, projects: Collection[tuple[str, str]]) -> str:
    """Return the name of the lease for writing these projects; on SQLite one process writes at a time anyway."""
    alone = len(projects) == 1 and database.dialect != "sqlite"
    return project_lease(*next(iter(projects))) if alone else LEASE


def acquire_lease(shop: Workshop, *, force: bool, name: str) -> Lease:
    """Take the lease for this process, or raise LockHeld. Ends first what this process could not end before."""
    for key, end in list(shop.unended.items()):
        end(shop.database)
        shop.unended.pop(key, None)
    lease = acquire(
        LeaseTable(shop.database, shop.unended),
        name,
        ProcessIdentity.current(),
        shop.command,
        shop.clock,
        stale_after_ms=_stale_after_ms(shop),
        is_dead=is_dead,
        force=force,
    )
    shop.seam(Seam.LEASE_ACQUIRED)
    return lease


def refuse_held(shop: Workshop, *, force: bool, name: str) -> None:
    """Raise LockHeld if another process holds the lease; change nothing."""
    row, now = LeaseTable(shop.database).read(name), shop.clock.now_ms()
    if row is not None and why_takeable(row, now, _stale_after_ms(shop), force, is_dead) is None:
        raise held_error(row, now)


async def wait_for_lease(shop: Workshop, *, force: bool, name: str, wait_seconds: float) -> Lease:
    """Take the lease as soon as its holder releases it; raise LockHeld if that takes too long."""
    until = shop.clock.monotonic() + wait_seconds
    while True:
        try:
            return acquire_lease(shop, force=force, name=name)
        except LockHeld:
            if shop.clock.monotonic() >= until:
                raise
        await shop.clock.sleep(LOOK_AGAIN_SECONDS)


@asynccontextmanager
async def open_session(
    shop: Workshop,
    *,
    force: bool,
    phase: str = "ingest",
    note: str | None = None,
    lease: str = LEASE,
    wait_seconds: float = 0.0,
) -> AsyncIterator[Session]:
    """Hold a lease and a run row for the length of the block."""
    held = await wait_for_lease(shop, force=force, name=lease, wait_seconds=wait_seconds)
    try:
        async with open_run(shop, phase=phase, note=note, held=held) as session:
            yield session
    finally:
        await insist(shop, held.release)


@asynccontextmanager
async def open_run(
    shop: Workshop,
    *,
    phase: str,
    note: str | None = None,
    surgery: Surgery | None = None,
    held: Lease | None = None,
) -> AsyncIterator[Session]:
    """Hold a run row for the length of the block; a lease taken inside is released with it."""
    # Only a new lease holder may mark a silent run as crashed.
    crashed = close_dead(shop) if held is None else _close_crashed(shop, stale_after_ms=_stale_after_ms(shop))
    run = Run.start(
        RunTable(shop.database, shop.unended),
        shop.clock,
        shop.command,
        ProcessIdentity.current(),
        mode="standard" if surgery is None else "surgical",
        phase=phase,
        heartbeat_interval_ms=int(shop.config.sync.heartbeat_interval_seconds * 1000),
        note=note,
        surgery=surgery,
    )
    shop.seam(Seam.RUN_STARTED)
    session = Session(shop, run, Counters(), crashed, held)
    try:
        async with beating(shop.clock, shop.config.sync.heartbeat_interval_seconds, lambda: _beat(session)):
            try:
                yield session
            except asyncio.CancelledError:
                _close(session, cancelled=True)
                raise
            except BaseException as error:
                session.error = error.message if isinstance(error, TideloreError) else repr(error)
                await insist(shop, lambda: _close(session))
                raise
        shop.seam(Seam.BEFORE_FINISH)
        await insist(shop, lambda: _close(session))
        shop.seam(Seam.AFTER_FINISH)
    finally:
        session.thread.close()
        if session.held is not None:
            await insist(shop, session.held.release)


async def insist(shop: Workshop, act: Callable[[], None]) -> None:
    """Run an action that ends a run. A service retries it, since its live process keeps others from doing it later."""
    while True:
        try:
            return act()
        except DatabaseUnreachable:
            task = asyncio.current_task()
            if not shop.insists or task is None or task.cancelling():
                raise
        await shop.clock.sleep(ASK_AGAIN_SECONDS)


def close_dead(shop: Workshop) -> list[int]:
    """Close the rows of dead processes. Without the lease, rows of silent processes must not be closed."""
    return _close_crashed(shop, stale_after_ms=_FOREVER_MS)


def _close_crashed(shop: Workshop, *, stale_after_ms: int) -> list[int]:
    return close_crashed(RunTable(shop.database), shop.clock, is_dead, stale_after_ms)


def _stale_after_ms(shop: Workshop) -> int:
    return int(shop.config.sync.stale_lock_minutes * 60_000)


def _close(session: Session, *, cancelled: bool = False) -> None:
    try:
        _finish(session, cancelled=cancelled)
    except IllegalTransition:
        # If a process that took over the lease closed our row as crashed, raise LeaseLost instead.
        if session.held is not None:
            session.held.heartbeat()
        raise LeaseLost(
            "another process marked this run as crashed; stored data is kept",
            fix="run the command again",
            run_id=session.run.id,
        ) from None


def _finish(session: Session, *, cancelled: bool) -> None:
    run = session.run
    run.counters = session.tallied()
    if cancelled:
        run.finish_cancelled()
    elif session.error is not None:
        run.finish_failed(session.error)
    elif session.partial is not None:
        run.finish_partial(session.partial, session.warnings)
    else:
        run.finish_succeeded(session.warnings)


def _beat(session: Session) -> None:
    """Send a heartbeat for the run row, and for the lease while it is held."""
    if session.held is not None:
        session.held.heartbeat()
    session.note()
    session.run.heartbeat_if_due()


@asynccontextmanager
async def beating(clock: Clock, interval_seconds: float, beat: Callable[[], object]) -> AsyncIterator[None]:
    """Send heartbeats until the block ends.

    A failed heartbeat raises no error: a lost lease shows at the next commit, and a database may come back.
    """

    async def repeat() -> None:
        with suppress(TideloreError):
            while True:
                await clock.sleep(interval_seconds)
                with suppress(StorageFailed):
                    beat()

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
