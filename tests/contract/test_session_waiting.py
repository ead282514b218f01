"""Whoever may wait for a lease has it as soon as it is given back, and learns who holds it when that takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.support.manual_clock import ManualClock

from tidelore.core.config import Config
from tidelore.core.errors import LockHeld
from tidelore.engine.crashpoint import no_seam
from tidelore.store.database.port import Database
from tidelore.store.work.session import LOOK_AGAIN_SECONDS, Workshop, acquire_lease, open_session


class Giving(ManualClock):
    """A clock by which somebody gives the lease back after some sleeps."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after
        self.give_back: Callable[[], None] = lambda: None

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if len(self.slept) == self.after:
            self.give_back()


def waited(database: Database, clock: Giving, wait_seconds: float) -> None:
    shop = Workshop(database, Config(), clock, no_seam, "test")
    clock.give_back = acquire_lease(shop, force=False, name="sync").release

    async def run() -> None:
        async with open_session(shop, force=False, wait_seconds=wait_seconds):
            clock.slept.clear()

    asyncio.run(run())


def test_a_lease_released_within_the_wait_time_is_acquired(database: Database) -> None:
    clock = Giving(after=5)
    began = clock.monotonic()
    waited(database, clock, wait_seconds=60)
    assert clock.monotonic() - began == pytest.approx(5 * LOOK_AGAIN_SECONDS)


@pytest.mark.parametrize("wait_seconds", [0.0, 3.0])
def test_a_lease_held_longer_than_the_wait_time_is_reported_with_its_holder(
    database: Database, wait_seconds: float
) -> None:
    clock = Giving(after=10_000)
    began = clock.monotonic()
    with pytest.raises(LockHeld, match="is writing to this database"):
        waited(database, clock, wait_seconds)
    assert clock.monotonic() - began == pytest.approx(wait_seconds, abs=LOOK_AGAIN_SECONDS)
