"""Old runs are forgotten some at a time; what still matters is kept however old it is."""

from __future__ import annotations

import pytest
from tests.support.manual_clock import ManualClock

from tidelore.core.process import ProcessIdentity
from tidelore.engine.ledger import Run, Surgery
from tidelore.store.database.port import Database
from tidelore.store.work import runs as run_retention
from tidelore.store.work.last_sync import last_success_at
from tidelore.store.work.runs import RunTable, find_record, forget_runs, list_runs

ME = ProcessIdentity("here", 10, "100")
DAY = 86_400


def ended(database: Database, clock: ManualClock, days_ago: float, how: str, command: str = "lore poll github") -> int:
    """A run that ended so many days before now."""
    now = clock.now_ms()
    then = ManualClock(now - int(days_ago * DAY * 1000))
    run = Run.start(RunTable(database), then, command, ME, mode="standard")
    if how != "running":
        getattr(run, f"finish_{how}")(*(["no answer"] if how == "failed" else []))
    return run.id


def kept(database: Database) -> list[int]:
    return [row.id for row in reversed(list_runs(database, 10_000))]


def test_succeeded_runs_are_deleted_after_their_retention_and_failed_ones_later(
    database: Database, clock: ManualClock
) -> None:
    for days in (200, 100, 31):
        ended(database, clock, days, "succeeded")
    stays = [ended(database, clock, 100, "failed"), ended(database, clock, 119, "cancelled")]
    ended(database, clock, 121, "failed")
    stays += [ended(database, clock, 29, "succeeded"), ended(database, clock, 0, "succeeded")]
    assert forget_runs(database, clock.now_ms(), 30) == 4
    assert kept(database) == stays
    assert forget_runs(database, clock.now_ms(), 30) == 0


def test_the_last_success_and_open_runs_are_kept_at_any_age(database: Database, clock: ManualClock) -> None:
    ended(database, clock, 400, "succeeded", "lore sync")
    last = ended(database, clock, 300, "succeeded", "lore sync")
    runs = ended(database, clock, 290, "running")
    then = ManualClock(clock.now_ms() - 280 * DAY * 1000)
    mirrored = Run.start(RunTable(database), then, "lore sync", ME, mode="standard")
    mirrored.set_mirrored()
    mirrored.finish_failed("vectors")
    ended(database, clock, 270, "failed", "lore sync")
    newest_run = ended(database, clock, 260, "failed", "lore sync")
    before = last_success_at(database)
    assert forget_runs(database, clock.now_ms(), 30) == 2
    assert kept(database) == [last, runs, mirrored.id, newest_run]
    assert last_success_at(database) == before, "how fresh the copy is said to be stays true"
    assert ended(database, clock, 0, "succeeded") > newest_run, "no number is given twice"


def test_item_outcomes_of_surgical_runs_are_kept_for_their_retention_time(
    database: Database, clock: ManualClock
) -> None:
    def chosen(days_ago: float) -> int:
        then = ManualClock(clock.now_ms() - int(days_ago * DAY * 1000))
        run = Run.start(
            RunTable(database), then, "lore sync", ME, mode="surgical", surgery=Surgery("[1]", '[{"iid": 1}]')
        )
        run.finish_failed("preflight")
        return run.id

    chosen(130)
    young = chosen(110)
    newest_run = ended(database, clock, 0, "succeeded")
    forget_runs(database, clock.now_ms(), 30)
    assert kept(database) == [young, newest_run]
    assert find_record(database, young).outcomes_json == '[{"iid": 1}]'


def test_thousands_of_runs_are_deleted_in_batches(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_retention, "_AT_ONCE", 7)
    for _ in range(30):
        ended(database, clock, 40, "succeeded")
    assert forget_runs(database, clock.now_ms(), 30) == 29
    assert len(kept(database)) == 1
