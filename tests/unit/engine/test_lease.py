"""The single-writer lock: who may take it, who learns that it was taken."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import LeaseLost, LockHeld
from tidelore.core.process import ProcessIdentity
from tidelore.engine.lease import Lease, LeaseRow, acquire, covers, held_error, parts_above, why_takeable

ME = ProcessIdentity("here", 100, "1")
YOU = ProcessIdentity("there", 200, "2")
STALE_MS = 600_000


class Rows:
    """Lease rows with a compare-and-swap; `race` runs once between a read and the change after it."""

    session = "ours"

    def __init__(self) -> None:
        self.row: LeaseRow | None = None
        self.race: LeaseRow | None = None
        self.ended: list[str] = []

    def related(self, name: str) -> list[LeaseRow]:
        return [] if self.row is None else [self.row]

    def take(self, row: LeaseRow, seen: Sequence[LeaseRow]) -> bool:
        return self.swap(next((one.generation for one in seen), None), row)

    def end_session(self, session: str) -> None:
        self.ended.append(session)

    def swap(self, expected_generation: int | None, row: LeaseRow) -> bool:
        if self.race is not None:
            self.row, self.race = self.race, None
        if (None if self.row is None else self.row.generation) != expected_generation:
            return False
        self.row = row
        return True


def take(rows: Rows, clock: ManualClock, who: ProcessIdentity, *, force: bool = False, dead: bool = False) -> Lease:
    return acquire(rows, "sync", who, "ingest", clock, stale_after_ms=STALE_MS, is_dead=lambda _who: dead, force=force)


@pytest.mark.parametrize(
    ("age_ms", "force", "dead", "why"),
    [
        (0, False, False, None),
        (STALE_MS, False, False, None),
        (STALE_MS + 1, False, False, "stale"),
        (0, False, True, "dead"),
        (0, True, False, "forced"),
        (STALE_MS + 1, True, True, "dead"),
    ],
)
def test_a_lease_can_be_taken_from_a_dead_or_stale_holder_or_by_force(
    age_ms: int, force: bool, dead: bool, why: str | None
) -> None:
    row = LeaseRow("sync", 3, YOU, "ingest", 0, 1000)
    assert why_takeable(row, 1000 + age_ms, STALE_MS, force, lambda _who: dead) == why


def test_a_lease_without_a_holder_is_free() -> None:
    assert why_takeable(None, 0, STALE_MS, False, lambda _who: False) == "free"
    assert why_takeable(LeaseRow("sync", 3, None, "x", 0, 0), 0, STALE_MS, False, lambda _who: False) == "free"


def test_a_failed_acquire_reports_the_current_holder() -> None:
    rows, clock = Rows(), ManualClock()
    take(rows, clock, YOU)
    clock.advance(90)
    with pytest.raises(LockHeld) as raised:
        take(rows, clock, ME)
    assert raised.value.details["holder_pid"] == 200
    assert raised.value.details["holder_host"] == "there"
    assert "1 minute" in raised.value.message


def test_the_generation_grows_with_every_holder() -> None:
    rows, clock = Rows(), ManualClock()
    for generation in (1, 2, 3):
        lease = take(rows, clock, ME)
        assert (lease.generation, lease.taken_as) == (generation, "free")
        lease.release()
    assert rows.row is not None
    assert rows.row.holder is None


def test_a_holder_that_was_taken_over_gets_lease_lost_and_cannot_release_the_lease() -> None:
    rows, clock = Rows(), ManualClock()
    mine = take(rows, clock, ME)
    yours = take(rows, clock, YOU, force=True)
    assert yours.taken_as == "forced"
    with pytest.raises(LeaseLost):
        mine.heartbeat()
    mine.release()
    assert rows.row is not None
    assert rows.row.holder == YOU
    yours.heartbeat()


def test_a_heartbeat_after_release_neither_takes_the_lease_nor_raises() -> None:
    rows, clock = Rows(), ManualClock()
    mine = take(rows, clock, ME)
    mine.release()
    mine.heartbeat()
    assert rows.row is not None
    assert rows.row.holder is None
    take(rows, clock, YOU)
    mine.heartbeat()
    mine.release()
    assert rows.row.holder == YOU


def test_of_two_processes_racing_for_a_lease_exactly_one_gets_it() -> None:
    rows, clock = Rows(), ManualClock()
    rows.race = LeaseRow("sync", 1, YOU, "ingest", clock.now_ms(), clock.now_ms())
    with pytest.raises(LockHeld):
        take(rows, clock, ME)


def test_an_acquire_lost_to_a_holder_that_is_already_dead_is_retried() -> None:
    rows, clock = Rows(), ManualClock()
    rows.race = LeaseRow("sync", 4, None, "ingest", 0, 0)
    assert take(rows, clock, ME).generation == 5


def test_a_heartbeat_keeps_a_lease_from_going_stale() -> None:
    rows, clock = Rows(), ManualClock()
    mine = take(rows, clock, ME)
    clock.advance(STALE_MS / 1000)
    mine.heartbeat()
    clock.advance(1)
    with pytest.raises(LockHeld):
        take(rows, clock, YOU)
    assert mine.generation == 1


def test_the_error_about_a_held_lease_carries_its_holder_command_and_last_heartbeat() -> None:
    error = held_error(LeaseRow("sync", 3, YOU, "lore sync", 0, 60_000), 90_000)
    assert error.details == {
        "lease": "sync",
        "holder_pid": 200,
        "holder_host": "there",
        "holder_command": "lore sync",
        "heartbeat_at": 60_000,
    }


def test_the_error_about_a_held_lease_works_with_an_unknown_holder() -> None:
    row = LeaseRow("sync", 3, YOU, "ingest", 0, 0)
    assert "another process" in held_error(replace(row, holder=None), 1000).message


def test_the_connection_of_a_silent_holder_is_ended_and_that_of_a_live_one_is_not() -> None:
    rows, clock = Rows(), ManualClock()
    take(rows, clock, YOU)
    take(rows, clock, ME, force=True)
    assert rows.ended == []
    clock.advance(STALE_MS / 1000 + 1)
    take(rows, clock, YOU)
    assert rows.ended == ["ours"]


def test_a_name_is_covered_by_itself_and_by_its_beginnings() -> None:
    assert parts_above("sync host group/a") == ["sync", "sync host"]
    assert covers("sync", "sync host group/a")
    assert covers("sync host", "sync host")
    assert not covers("sync host group/a", "sync host group/a/b")
    assert not covers("sync host group/a", "sync")
