"""One writing run from lease to ledger. Owns that order and its ends; upholds that no run row stays `running`.

lease -> close crashed rows -> open a row -> work -> close the row -> release. Cancellation and every error
pass through here, so the row is always finalised; a killed process's row is closed by the next run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from tidelore.clock import Clock
from tidelore.config import Config
from tidelore.engine.crashpoint import Crashpoint, Seam
from tidelore.engine.lease import Lease, acquire
from tidelore.engine.ledger import Counters, Run, close_crashed
from tidelore.errors import IllegalTransition, TideloreError
from tidelore.process import ProcessIdentity, is_dead
from tidelore.store.database import Database
from tidelore.store.leases import LeaseTable
from tidelore.store.runs import RunTable

LEASE = "sync"


class Workshop(Struct, frozen=True):
    """What every writing command needs."""

    database: Database
    config: Config
    clock: Clock
    seam: Crashpoint
    command: str


class Session(Struct):
    """A run that is under way. `warnings` and `error` decide how its row is closed."""

    shop: Workshop
    lease: Lease
    run: Run
    counters: Counters
    crashed_runs: list[int]
    warnings: int = 0
    error: str | None = None


@asynccontextmanager
async def open_session(
    shop: Workshop, *, force: bool, phase: str = "ingest", note: str | None = None
) -> AsyncIterator[Session]:
    """Hold the lease and a run row for the length of the block."""
    settings = shop.config.sync
    stale_after_ms = int(settings.stale_lock_minutes * 60_000)
    identity = ProcessIdentity.current()
    lease = acquire(
        LeaseTable(shop.database),
        LEASE,
        identity,
        shop.command,
        shop.clock,
        stale_after_ms=stale_after_ms,
        is_dead=is_dead,
        force=force,
    )
    shop.seam(Seam.LEASE_ACQUIRED)
    try:
        runs = RunTable(shop.database)
        crashed = close_crashed(runs, shop.clock, is_dead, stale_after_ms)
        beat_ms = int(settings.heartbeat_interval_seconds * 1000)
        run = Run.start(runs, shop.clock, shop.command, identity, phase=phase, heartbeat_interval_ms=beat_ms, note=note)
        shop.seam(Seam.RUN_STARTED)
        session = Session(shop, lease, run, Counters(), crashed)
        async with _beating(session, settings.heartbeat_interval_seconds):
            try:
                yield session
            except asyncio.CancelledError:
                _close(session, cancelled=True)
                raise
            except BaseException as error:
                session.error = error.message if isinstance(error, TideloreError) else repr(error)
                _close(session)
                raise
        shop.seam(Seam.BEFORE_FINISH)
        _close(session)
        shop.seam(Seam.AFTER_FINISH)
    finally:
        lease.release()


def _close(session: Session, *, cancelled: bool = False) -> None:
    try:
        _finish(session, cancelled=cancelled)
    except IllegalTransition:
        # Whoever took the lease over has closed our row, as that of a process it gave up: then that is the error.
        session.lease.heartbeat()
        raise


def _finish(session: Session, *, cancelled: bool) -> None:
    run = session.run
    run.set_counters(session.counters)
    if cancelled:
        run.finish_cancelled()
    elif session.error is not None:
        run.finish_failed(session.error)
    elif session.warnings:
        run.finish_succeeded_with_warnings(session.warnings)
    else:
        run.finish_succeeded()


@asynccontextmanager
async def _beating(session: Session, interval_seconds: float) -> AsyncIterator[None]:
    """Keep the lease and the run row alive.

    A beat that fails says nothing of its own: a lost lease or a failing disk shows at the next commit.
    """

    async def beat() -> None:
        with suppress(TideloreError):
            await session.lease.keep(interval_seconds, session.run.heartbeat_if_due)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
