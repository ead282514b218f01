"""A run row lives once: it runs, ends once, and is never rewritten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import IllegalTransition, IntegrityError, NotFound
from tidelore.core.process import ProcessIdentity
from tidelore.core.progress import RunProgress
from tidelore.engine.ledger import Counters, Run, Surgery, close_crashed
from tidelore.store.database.port import Database
from tidelore.store.work.last_sync import LEFT_OFF, last_success_at
from tidelore.store.work.runs import RunTable, RunView, find_record, list_records, list_runs

ME = ProcessIdentity("here", 10, "100")
STALE_MS = 600_000


def start(database: Database, clock: ManualClock, who: ProcessIdentity = ME) -> Run:
    return Run.start(RunTable(database), clock, "lore ingest", who, mode="standard", note="--full: cursors reset")


def newest(database: Database) -> RunView:
    return list_runs(database, 1)[0]


def column(database: Database, name: str) -> object:
    return database.read(f"SELECT {name} FROM sync_runs ORDER BY id DESC LIMIT 1")[0][0]


def test_a_run_starts_open_with_its_holder_and_note(database: Database, clock: ManualClock) -> None:
    run = start(database, clock)
    row = newest(database)
    assert (row.id, row.status, row.phase, row.finished_at) == (run.id, "running", "preflight", None)
    assert (row.started_at, row.note, row.command) == (clock.now_ms(), "--full: cursors reset", "lore ingest")
    (alive,) = RunTable(database).running()
    assert (alive.holder, alive.heartbeat_at) == (ME, clock.now_ms())


def test_a_stored_run_never_returns_to_an_earlier_phase(database: Database, clock: ManualClock) -> None:
    run = start(database, clock)
    run.set_phase("ingest")
    run.set_phase("scrub")
    with pytest.raises(IllegalTransition):
        run.set_phase("ingest")
    with pytest.raises(IllegalTransition):
        run.set_phase("lunch")
    assert newest(database).phase == "scrub"


def test_counters_are_stored_under_their_own_names(database: Database, clock: ManualClock) -> None:
    run = start(database, clock)
    counters = Counters(*range(1, 10))
    run.set_counters(counters)
    names = Counters.__struct_fields__
    (stored,) = database.read(f"SELECT {', '.join(names)} FROM sync_runs")
    assert dict(zip(names, stored, strict=True)) == {name: getattr(counters, name) for name in names}


def test_a_heartbeat_is_written_once_per_interval(database: Database, clock: ManualClock) -> None:
    run = start(database, clock)
    started = clock.now_ms()
    clock.advance(29)
    run.heartbeat_if_due()
    assert column(database, "heartbeat_at") == started
    clock.advance(1)
    run.heartbeat_if_due()
    assert column(database, "heartbeat_at") == started + 30_000


@pytest.mark.parametrize(
    ("finish", "status", "phase"),
    [
        (Run.finish_succeeded, "succeeded", "done"),
        (lambda run: run.finish_succeeded(3), "succeeded", "done"),
        (lambda run: run.finish_failed("the disk is full"), "failed", "failed"),
        (Run.finish_cancelled, "cancelled", "cancelled"),
    ],
    ids=["succeeded", "warnings", "failed", "cancelled"],
)
def test_a_run_ends_once_and_cannot_be_changed_afterwards(
    database: Database, clock: ManualClock, finish: object, status: str, phase: str
) -> None:
    run = start(database, clock)
    clock.advance(60)
    assert callable(finish)
    finish(run)
    ended = newest(database)
    assert (ended.status, ended.phase, ended.finished_at) == (status, phase, clock.now_ms())
    clock.advance(60)
    for step in (
        run.finish_succeeded,
        run.finish_cancelled,
        run.heartbeat_if_due,
        lambda: run.finish_failed("late"),
        lambda: run.set_phase("embed"),
        lambda: run.set_counters(Counters(requests=9)),
    ):
        with pytest.raises(IllegalTransition):
            step()
    assert newest(database) == ended


def test_a_finished_run_stores_warnings_error_and_cancel_time(database: Database, clock: ManualClock) -> None:
    start(database, clock).finish_succeeded(3)
    assert newest(database).warnings_count == 3
    start(database, clock).finish_failed("the disk is full")
    assert newest(database).error == "the disk is full"
    start(database, clock).finish_cancelled()
    assert column(database, "cancelled_at") == clock.now_ms()


def test_runs_of_dead_and_silent_processes_are_marked_as_crashed(database: Database, clock: ManualClock) -> None:
    silent = start(database, clock, ProcessIdentity("far", 1, "1"))
    clock.advance(601)
    dead = start(database, clock, ProcessIdentity("here", 2, "2"))
    alive = start(database, clock)
    closed = close_crashed(RunTable(database), clock, lambda who: who.pid == 2, STALE_MS)
    assert closed == [silent.id, dead.id]
    assert {row.id: row.status for row in list_runs(database, 9)} == {
        silent.id: "crashed", dead.id: "crashed", alive.id: "running",
    }  # fmt: skip
    assert close_crashed(RunTable(database), clock, lambda who: who.pid == 2, STALE_MS) == []
    with pytest.raises(IllegalTransition):
        dead.finish_succeeded()


def progress_of(database: Database) -> tuple[int | None, int | None, str | None]:
    record = find_record(database, newest(database).id)
    told = record.progress_done, record.progress_total, record.progress_note
    view = newest(database)
    assert told == (view.progress_done, view.progress_total, view.progress_note)
    return told


def note(run: Run, clock: ManualClock, done: int, total: int | None = None) -> None:
    clock.advance(2)
    run.note_progress(Counters(requests=done), RunProgress(done, total, "group/app issues: ünd 3 pages"))


def test_a_running_run_stores_its_progress(database: Database, clock: ManualClock) -> None:
    run = start(database, clock)
    assert progress_of(database) == (None, None, None)
    note(run, clock, 3)
    assert progress_of(database) == (3, None, "group/app issues: ünd 3 pages")
    note(run, clock, 2**40, 2**41)
    assert progress_of(database) == (2**40, 2**41, "group/app issues: ünd 3 pages")
    assert newest(database).requests == 2**40
    assert column(database, "heartbeat_at") == clock.now_ms()
    run.set_phase("docs")
    assert progress_of(database) == (None, None, None)


@pytest.mark.parametrize(
    "finish",
    [Run.finish_succeeded, lambda run: run.finish_failed("why"), Run.finish_cancelled],
    ids=["ok", "bad", "off"],
)
def test_finishing_a_run_clears_its_progress_and_keeps_its_counters(
    database: Database, clock: ManualClock, finish: Callable[[Run], None]
) -> None:
    run = start(database, clock)
    note(run, clock, 3, 4)
    finish(run)
    assert progress_of(database) == (None, None, None)
    assert newest(database).requests == 3


def test_a_crashed_run_keeps_its_progress(database: Database, clock: ManualClock) -> None:
    run = start(database, clock)
    note(run, clock, 3, 4)
    close_crashed(RunTable(database), clock, lambda _who: True, STALE_MS)
    assert newest(database).status == "crashed"
    assert progress_of(database) == (3, 4, "group/app issues: ünd 3 pages")
    clock.advance(2)
    with pytest.raises(IllegalTransition):
        run.note_progress(Counters(), RunProgress(4, 4, "too late"))
    assert progress_of(database)[0] == 3


@pytest.mark.parametrize(
    "change",
    [
        "status = 'resting'",
        "status = 'succeeded'",
        "finished_at = 5",
        "status = 'crashed', finished_at = NULL",
        "holder_host = NULL",
    ],
)
def test_the_database_constraints_refuse_an_impossible_run(database: Database, clock: ManualClock, change: str) -> None:
    start(database, clock)
    before = newest(database)
    with pytest.raises(IntegrityError), database.transaction() as tx:
        tx.execute(f"UPDATE sync_runs SET {change}")
    assert newest(database) == before


def test_updating_an_immutable_run_column_is_refused(database: Database, clock: ManualClock) -> None:
    run = start(database, clock)
    for name in ("started_at", "holder_pid", "id", "phase = 'x', status"):
        with pytest.raises(ValueError, match="no mutable columns"):
            RunTable(database).update(run.id, **{name: 1})


def test_runs_are_listed_newest_first(database: Database, clock: ManualClock) -> None:
    ids = [start(database, clock).id for _ in range(3)]
    assert [row.id for row in list_runs(database, 2)] == [ids[2], ids[1]]


def test_only_a_run_that_succeeded_brings_the_copy_up_to_date(database: Database, clock: ManualClock) -> None:
    assert last_success_at(database) is None
    start(database, clock).finish_succeeded()
    when = clock.now_ms()
    clock.advance(60)
    start(database, clock).finish_failed("no")
    start(database, clock)
    assert last_success_at(database) == when


@pytest.mark.parametrize("end", ["running", "succeeded", "failed", "cancelled", "crashed"])
def test_a_run_that_finished_mirroring_counts_as_up_to_date_even_if_it_fails_later(
    database: Database, clock: ManualClock, end: str
) -> None:
    run = start(database, clock)
    clock.advance(60)
    run.set_mirrored()
    when = clock.now_ms()
    clock.advance(60)
    ends: dict[str, Callable[[], object]] = {
        "running": lambda: None,
        "succeeded": run.finish_succeeded,
        "failed": lambda: run.finish_failed("no"),
        "cancelled": run.finish_cancelled,
        "crashed": lambda: close_crashed(RunTable(database), clock, lambda _: True, STALE_MS),
    }
    ends[end]()
    record = find_record(database, run.id)
    assert (record.status, record.mirrored_at) == (end, when)
    assert last_success_at(database) == when


def test_an_unfinished_run_does_not_bring_the_copy_up_to_date(database: Database, clock: ManualClock) -> None:
    start(database, clock).finish_succeeded()
    when = clock.now_ms()
    clock.advance(60)
    run = start(database, clock)
    run.set_note(f"{LEFT_OFF} after 300 s; the next run continues there")
    run.finish_succeeded()
    assert find_record(database, run.id).status == "succeeded"
    assert last_success_at(database) == when


def test_the_latest_mirror_time_counts_for_runs_with_and_without_mirrored_at(
    database: Database, clock: ManualClock
) -> None:
    run = start(database, clock)
    run.set_mirrored()
    clock.advance(60)
    start(database, clock).finish_succeeded()
    assert last_success_at(database) == clock.now_ms()
    clock.advance(60)
    run.finish_succeeded()
    assert last_success_at(database) == clock.now_ms() - 60_000, "its end is not when it mirrored"


@pytest.mark.parametrize(
    ("command", "mode", "walks"),
    [
        ("lore sync", "standard", True),
        ("lore ingest --type issues", "standard", True),
        ("lore sync", "surgical", False),
        ("lore generate-docs", "standard", False),
        ("lore scrub", "standard", False),
        ("lore cursors reset", "standard", False),
    ],
)
def test_only_a_run_that_read_the_lists_brings_the_copy_up_to_date(
    database: Database, clock: ManualClock, command: str, mode: str, walks: bool
) -> None:
    Run.start(RunTable(database), clock, command, ME, mode=mode).finish_succeeded()
    assert last_success_at(database) == (clock.now_ms() if walks else None)


def test_the_requested_items_of_a_surgical_run_are_stored_with_it(database: Database, clock: ManualClock) -> None:
    surgery = Surgery('{"issues":[7],"mrs":[]}', "[]")
    run = Run.start(RunTable(database), clock, "lore sync", ME, mode="surgical", surgery=surgery)
    record = find_record(database, run.id)
    assert (record.mode, record.surgical_iids_json, record.outcomes_json) == ("surgical", surgery.iids_json, "[]")
    run.set_outcomes('[{"iid":7}]')
    assert find_record(database, run.id).outcomes_json == '[{"iid":7}]'
    run.finish_succeeded()
    with pytest.raises(IllegalTransition):
        run.set_outcomes("[]")


def test_run_records_are_listed_newest_first_and_unfinished_ones_on_request(
    database: Database, clock: ManualClock
) -> None:
    runs = [start(database, clock) for _ in range(5)]
    runs[0].finish_succeeded()
    runs[1].finish_failed("the disk is full")
    runs[2].finish_cancelled()
    assert close_crashed(RunTable(database), clock, lambda _: True, STALE_MS) == [runs[3].id, runs[4].id]
    running = start(database, clock)
    found, total = list_records(database, 2)
    assert ([row.id for row in found], total) == ([running.id, runs[4].id], 6)
    found, total = list_records(database, 9, unfinished=True)
    assert ([row.id for row in found], total) == ([run.id for run in reversed(runs[1:])], 4)
    assert [row.status for row in found] == ["crashed", "crashed", "cancelled", "failed"]


def test_a_run_record_has_its_row_and_an_unknown_run_is_not_found(database: Database, clock: ManualClock) -> None:
    run = start(database, clock)
    run.set_counters(Counters(*range(1, 10)))
    record = find_record(database, run.id)
    names = record.__struct_fields__
    (row,) = database.read(f"SELECT {', '.join(names)} FROM sync_runs WHERE id = :id", {"id": run.id})
    assert tuple(getattr(record, name) for name in names) == row
    with pytest.raises(NotFound) as missing:
        find_record(database, run.id + 1)
    assert missing.value.exit_code == 6


# How long they are kept
