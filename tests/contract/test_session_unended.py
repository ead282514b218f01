"""Runs and leases that could not be ended because the database refused writes are ended by the next command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest
from tests.support.manual_clock import ManualClock

from tidelore.core.config import Config
from tidelore.core.errors import LockHeld, StorageFailed
from tidelore.engine.crashpoint import no_seam
from tidelore.store.database import sqlite
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database, Limits, Patience
from tidelore.store.work.leases import Unended, held_leases
from tidelore.store.work.runs import list_runs
from tidelore.store.work.session import Workshop, acquire_lease, open_session


@pytest.fixture
def impatient(address: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Database]:
    """Open the database with a short time to wait for locks."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 20)
    return lambda: open_database(address, patience=Patience(Limits(lock=0.02)))


def work(shop: Workshop, meanwhile: Callable[[], object] = lambda: None) -> None:
    async def run() -> None:
        async with open_session(shop, force=False):
            meanwhile()

    asyncio.run(run())


def fail_to_end(other: Database, impatient: Callable[[], Database], clock: ManualClock, unended: Unended) -> None:
    """Run a command whose lease and run are locked when it ends."""
    with ExitStack() as stack, closing(impatient()) as database:

        def lock() -> None:
            tx = stack.enter_context(other.transaction())
            tx.execute("UPDATE leases SET generation = generation")
            tx.execute("UPDATE sync_runs SET status = status")

        with pytest.raises(StorageFailed):
            work(Workshop(database, Config(), clock, no_seam, "first", unended=unended), lock)


def test_a_run_that_could_not_be_ended_is_ended_by_the_next_command_of_its_process(
    connect: Callable[[], Database], impatient: Callable[[], Database], clock: ManualClock
) -> None:
    other, unended = connect(), Unended()
    fail_to_end(other, impatient, clock, unended)
    assert [row.command for row in held_leases(other)] == ["first"]
    assert [row.status for row in list_runs(other, 9)] == ["running"]
    # The connection of the first command is closed; the next command opens another.
    with closing(impatient()) as database:
        work(Workshop(database, Config(), clock, no_seam, "second", unended=unended))
    assert held_leases(other) == []
    assert sorted((row.command, row.status) for row in list_runs(other, 9)) == [
        ("first", "succeeded"),
        ("second", "succeeded"),
    ]
    assert unended == {}


def test_a_lease_that_was_taken_over_meanwhile_is_left_to_its_holder(
    connect: Callable[[], Database], impatient: Callable[[], Database], clock: ManualClock
) -> None:
    other, unended = connect(), Unended()
    fail_to_end(other, impatient, clock, unended)
    heirs = acquire_lease(Workshop(other, Config(), clock, no_seam, "heir"), force=True, name="sync")
    with closing(impatient()) as database, pytest.raises(LockHeld):
        work(Workshop(database, Config(), clock, no_seam, "second", unended=unended))
    assert [row.command for row in held_leases(other)] == ["heir"]
    heirs.heartbeat()
