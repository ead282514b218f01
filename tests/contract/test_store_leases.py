"""Of those who want to write, one may; who was taken over finds out before anything of it is written."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
from tests.databases.racing import race
from tests.databases.samples import add_project
from tests.support.deep import gate_cases
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import LeaseLost, LockHeld
from tidelore.core.process import ProcessIdentity, is_dead
from tidelore.engine.lease import Lease, LeaseRow, acquire
from tidelore.store.database.port import Database
from tidelore.store.work.leases import LeaseTable, writing

ME = ProcessIdentity("here", 10, "100")
OTHER = ProcessIdentity("there", 20, "200")
STALE_MS = 600_000


def take(
    database: Database, clock: ManualClock, who: ProcessIdentity = ME, *, force: bool = False, name: str = "sync"
) -> Lease:
    return acquire(
        LeaseTable(database), name, who, f"lore ingest by {who.pid}", clock,
        stale_after_ms=STALE_MS, is_dead=lambda _: False, force=force,
    )  # fmt: skip


def test_a_lease_is_read_back_as_written(database: Database) -> None:
    table = LeaseTable(database)
    row = LeaseRow("sync", 1, ME, "lore ingest", 5, 6)
    assert table.read("sync") is None
    assert table.swap(None, row)
    assert table.read("sync") == row


def test_a_lease_update_succeeds_only_for_the_expected_generation(database: Database) -> None:
    table = LeaseTable(database)
    first = LeaseRow("sync", 1, ME, "a", 5, 5)
    second = LeaseRow("sync", 2, OTHER, "b", 6, 6)
    assert not table.swap(1, second), "there is no row yet"
    assert table.swap(None, first)
    assert not table.swap(None, second), "there is a row already"
    assert not table.swap(7, second)
    assert table.read("sync") == first
    assert table.swap(1, second)
    assert table.read("sync") == second


def test_acquiring_a_held_lease_is_refused_naming_the_holder(database: Database, clock: ManualClock) -> None:
    take(database, clock)
    clock.advance(90)
    with pytest.raises(LockHeld) as caught:
        take(database, clock, OTHER)
    assert "pid 10 on here" in caught.value.message
    assert caught.value.details["holder_command"] == "lore ingest by 10"


def test_releasing_a_lease_frees_it_and_keeps_its_generation(database: Database, clock: ManualClock) -> None:
    first = take(database, clock)
    first.release()
    row = LeaseTable(database).read("sync")
    assert row is not None
    assert (row.holder, row.generation) == (None, 1)
    second = take(database, clock, OTHER)
    assert (second.taken_as, second.generation) == ("free", 2)


def test_a_release_after_a_takeover_changes_nothing(database: Database, clock: ManualClock) -> None:
    first = take(database, clock)
    take(database, clock, OTHER, force=True)
    before = LeaseTable(database).read("sync")
    first.release()
    assert LeaseTable(database).read("sync") == before


def test_a_heartbeat_keeps_a_lease_from_becoming_stale(database: Database, clock: ManualClock) -> None:
    lease = take(database, clock)
    clock.advance(500)
    lease.heartbeat()
    clock.advance(500)
    with pytest.raises(LockHeld):
        take(database, clock, OTHER)
    clock.advance(101)
    assert take(database, clock, OTHER).taken_as == "stale"
    with pytest.raises(LeaseLost):
        lease.heartbeat()


def test_a_fence_passes_the_holder_and_stops_a_holder_that_was_taken_over(
    database: Database, clock: ManualClock
) -> None:
    lease = take(database, clock)
    with writing(database, lease):
        pass
    successor = take(database, clock, OTHER, force=True)
    assert successor.taken_as == "forced"
    with pytest.raises(LeaseLost), writing(database, lease):
        raise AssertionError("the transaction must not begin")
    with writing(database, successor):
        pass


def test_a_fence_stops_a_holder_that_released_its_lease(database: Database, clock: ManualClock) -> None:
    lease = take(database, clock)
    lease.release()
    with pytest.raises(LeaseLost), writing(database, lease):
        raise AssertionError("the transaction must not begin")


def test_a_takeover_waits_until_the_fenced_transaction_has_ended(
    database: Database, connect: Callable[[], Database], clock: ManualClock
) -> None:
    """Else the successor would read the cursor before its predecessor's last page is there."""
    lease = take(database, clock)
    rival = connect()
    taken = threading.Event()
    seen: list[int] = []

    def take_over() -> None:
        take(rival, clock, OTHER, force=True)
        taken.set()
        seen.extend(row[0] for row in rival.read("SELECT remote_id FROM projects"))

    thread = threading.Thread(target=take_over)
    with writing(database, lease) as tx:
        thread.start()
        early = taken.wait(0.3)
        tx.execute(
            "INSERT INTO projects (source, remote_id, path, name, configured, created_at, updated_at)"
            " VALUES ('gitlab', 4, 'p', 'p', 'p', 1, 1)"
        )
    thread.join(20)
    assert not early
    assert taken.is_set()
    assert seen == [4]


def test_one_of_many_racing_threads_gets_the_lease_in_each_round(
    database: Database, connect: Callable[[], Database], clock: ManualClock
) -> None:
    crowd = [(connect(), "sync") for _ in range(4)]
    for _ in range(10):
        won = _winners(crowd, clock)
        assert len(won) == 1
        won[0].release()


def _winners(crowd: list[tuple[Database, str]], clock: ManualClock) -> list[Lease]:
    line = threading.Barrier(len(crowd))
    won: list[Lease] = []
    lost: list[LockHeld] = []

    def run(connection: Database, name: str) -> None:
        line.wait(20)
        try:
            won.append(take(connection, clock, name=name))
        except LockHeld as error:
            lost.append(error)

    threads = [threading.Thread(target=run, args=one) for one in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(won) + len(lost) == len(crowd)
    return won


@gate_cases(1)
def test_one_of_many_racing_processes_gets_the_lease(database: Database, address: str) -> None:
    prepare = """
from tidelore.core.clock import SystemClock
from tidelore.engine.lease import acquire
from tidelore.core.errors import LockHeld
from tidelore.core.process import ProcessIdentity
from tidelore.store.database.opening import open_database
from tidelore.store.work.leases import LeaseTable
database = open_database(sys.argv[1])
"""
    act = """
try:
    acquire(LeaseTable(database), "sync", ProcessIdentity.current(), "race", SystemClock(),
            stale_after_ms=600_000, is_dead=lambda _: False)
    print("won")
except LockHeld:
    print("held")
database.close()
"""
    assert sorted(race(4, prepare, act, [address])) == ["held", "held", "held", "won"]
    row = LeaseTable(database).read("sync")
    assert row is not None
    assert row.generation == 1
    assert row.holder is not None
    assert is_dead(row.holder), "the winner has ended, and its row says so"
    assert row.holder.pid != os.getpid()


def test_the_lease_of_a_dead_process_is_taken_at_once(database: Database, clock: ManualClock) -> None:
    take(database, clock)
    heir = acquire(
        LeaseTable(database), "sync", OTHER, "lore", clock, stale_after_ms=STALE_MS, is_dead=lambda who: who == ME
    )
    assert (heir.taken_as, heir.generation) == ("dead", 2)


def test_leases_with_different_names_are_independent(database: Database, clock: ManualClock) -> None:
    take(database, clock)
    table = LeaseTable(database)
    assert table.swap(None, LeaseRow("serve", 1, OTHER, "lore serve", 1, 1))
    add_project(database)
    held = table.read("sync")
    assert held is not None
    assert held.holder == ME


def test_two_projects_are_held_at_the_same_time_and_the_whole_is_not(database: Database, clock: ManualClock) -> None:
    one = take(database, clock, name="sync host group/a")
    two = take(database, clock, OTHER, name="sync host group/a/b")
    for wide in ("sync", "sync host"):
        with pytest.raises(LockHeld, match="pid 10 on here"):
            take(database, clock, OTHER, name=wide)
    for lease in (one, two):
        with writing(database, lease):
            pass
    one.release()
    with pytest.raises(LockHeld, match="pid 20 on there"):
        take(database, clock, name="sync")
    two.release()
    whole = take(database, clock, name="sync")
    assert whole.taken_as == "free"
    with pytest.raises(LockHeld):
        take(database, clock, OTHER, name="sync host group/a")


def test_taking_the_whole_stops_the_holders_of_its_parts(database: Database, clock: ManualClock) -> None:
    part, other = take(database, clock, name="sync host a"), take(database, clock, name="bluesky")
    whole = take(database, clock, OTHER, name="sync", force=True)
    assert whole.taken_as == "forced"
    with pytest.raises(LeaseLost), writing(database, part):
        raise AssertionError("the transaction must not begin")
    with pytest.raises(LeaseLost):
        part.heartbeat()
    part.release()
    for lease in (whole, other):
        with writing(database, lease):
            pass


def test_taking_a_part_of_a_silent_holder_stops_it_and_leaves_other_parts_alone(
    database: Database, clock: ManualClock
) -> None:
    whole = take(database, clock)
    clock.advance(STALE_MS / 1000 + 1)
    part = take(database, clock, OTHER, name="sync host a")
    assert part.taken_as == "stale"
    again = take(database, clock, ME, name="sync host b")
    with pytest.raises(LeaseLost), writing(database, whole):
        raise AssertionError("the transaction must not begin")
    for lease in (part, again):
        with writing(database, lease):
            pass


def test_of_threads_that_race_for_the_whole_and_its_parts_none_holds_what_another_holds(
    database: Database, connect: Callable[[], Database], clock: ManualClock
) -> None:
    names = ["sync", "sync host a", "sync host b", "sync host"]
    crowd = [(connect(), name) for name in names]
    for _ in range(8):
        won = _winners(crowd, clock)
        held = {lease.name for lease in won}
        assert held in ({"sync"}, {"sync host"}, {"sync host a", "sync host b"}, {"sync host a"}, {"sync host b"})
        for lease in won:
            lease.release()
