"""The life of a run row: forward through its phases to exactly one end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import IllegalTransition
from tidelore.core.process import ProcessIdentity
from tidelore.core.progress import RunProgress
from tidelore.engine.ledger import Counters, Run, RunRow, Surgery, close_crashed

ME = ProcessIdentity("here", 100, "1")
ENDS: dict[str, Callable[[Run], None]] = {
    "succeeded": Run.finish_succeeded,
    "failed": lambda run: run.finish_failed("why"),
    "cancelled": Run.finish_cancelled,
}


class Rows:
    """Run rows of which only a running one can change."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.written: list[dict[str, Any]] = []

    def insert(
        self,
        command: str,
        mode: str,
        phase: str,
        identity: ProcessIdentity,
        now_ms: int,
        note: str | None,
        surgery: Surgery | None = None,
    ) -> int:
        key = len(self.rows) + 1
        self.rows[key] = {"status": "running", "phase": phase, "holder": identity, "heartbeat_at": now_ms, "note": note}
        return key

    def update(self, run_id: int, **columns: object) -> bool:
        row = self.rows[run_id]
        if row["status"] != "running":
            return False
        row.update(columns)
        self.written.append(columns)
        return True

    def running(self) -> Sequence[RunRow]:
        live = [(key, row) for key, row in self.rows.items() if row["status"] == "running"]
        return [RunRow(key, row["holder"], row["heartbeat_at"]) for key, row in live]


class SetBack(ManualClock):
    """A machine whose wall clock somebody sets back."""

    back_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() - self.back_ms


def start(rows: Rows, clock: ManualClock, **options: Any) -> Run:
    return Run.start(rows, clock, "ingest", ME, **options)


@pytest.mark.parametrize("end", ENDS)
def test_a_run_can_be_finished_only_once(end: str) -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock)
    ENDS[end](run)
    assert rows.rows[run.id]["status"] == end
    assert rows.rows[run.id]["finished_at"] == clock.now_ms()
    for again in ENDS.values():
        with pytest.raises(IllegalTransition):
            again(run)
    assert rows.rows[run.id]["status"] == end


def test_a_finished_run_rejects_phases_counters_and_heartbeats() -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock)
    run.finish_succeeded()
    clock.advance(60)
    steps: list[Callable[[], object]] = [
        lambda: run.set_phase("docs"),
        lambda: run.set_counters(Counters()),
        run.heartbeat_if_due,
    ]
    for step in steps:
        with pytest.raises(IllegalTransition):
            step()


def test_a_run_never_returns_to_an_earlier_phase() -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock, phase="ingest")
    run.set_phase("ingest")
    run.set_phase("docs")
    with pytest.raises(IllegalTransition) as raised:
        run.set_phase("ingest")
    assert raised.value.details == {"before": "docs", "after": "ingest"}
    assert rows.rows[run.id]["phase"] == "docs"


@pytest.mark.parametrize("phase", ["done", "nonsense"])
def test_only_a_working_phase_can_be_entered(phase: str) -> None:
    rows, clock = Rows(), ManualClock()
    with pytest.raises(IllegalTransition):
        start(rows, clock, phase=phase)
    assert rows.rows == {}
    with pytest.raises(IllegalTransition):
        start(rows, clock).set_phase(phase)


def test_a_runs_warning_count_and_note_are_stored() -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock, note="full")
    run.finish_succeeded(3)
    assert rows.rows[run.id]["warnings_count"] == 3
    assert rows.rows[run.id]["note"] == "full"


def test_a_heartbeat_is_written_at_most_once_per_interval() -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock, heartbeat_interval_ms=30_000)
    first = rows.rows[run.id]["heartbeat_at"]
    clock.advance(29)
    run.heartbeat_if_due()
    assert rows.rows[run.id]["heartbeat_at"] == first
    clock.advance(1)
    run.heartbeat_if_due()
    assert rows.rows[run.id]["heartbeat_at"] == first + 30_000


@pytest.mark.parametrize(("dead", "age_s", "closed"), [(True, 0, True), (False, 601, True), (False, 600, False)])
def test_the_next_run_marks_the_run_of_a_dead_process_as_crashed(dead: bool, age_s: int, closed: bool) -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock)
    clock.advance(age_s)
    assert close_crashed(rows, clock, lambda _who: dead, 600_000) == ([run.id] if closed else [])
    assert rows.rows[run.id]["status"] == ("crashed" if closed else "running")
    if closed:
        with pytest.raises(IllegalTransition):
            run.finish_succeeded()


def test_progress_is_written_at_most_every_two_seconds_and_counts_as_a_heartbeat() -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock, phase="ingest")
    began = clock.now_ms()
    for step in range(70):
        run.note_progress(Counters(requests=step), RunProgress(step, 100, "tide"))
        clock.advance(0.125)
    # The first is at two seconds: a run that is done by then says nothing on its way.
    assert [(row["requests"], row["progress_done"]) for row in rows.written] == [(16, 16), (32, 32), (48, 48), (64, 64)]
    assert [row["heartbeat_at"] - began for row in rows.written] == [2000, 4000, 6000, 8000]
    assert rows.rows[run.id]["progress_total"] == 100
    assert rows.rows[run.id]["progress_note"] == "tide"


def test_progress_is_still_written_after_the_clock_was_set_back() -> None:
    rows, clock = Rows(), SetBack()
    run = start(rows, clock, phase="ingest")
    clock.back_ms = 3_600_000
    clock.advance(2)
    run.note_progress(Counters(), RunProgress(1))
    assert rows.rows[run.id]["progress_done"] == 1


def test_a_failed_progress_write_is_not_retried_at_once() -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock, phase="ingest")
    rows.rows[run.id]["status"] = "crashed"
    clock.advance(2)
    with pytest.raises(IllegalTransition):
        run.note_progress(Counters(), RunProgress(1))
    run.note_progress(Counters(), RunProgress(1))


@pytest.mark.parametrize("end", ENDS)
def test_finishing_a_run_clears_its_progress_and_keeps_its_counters(end: str) -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock)
    clock.advance(2)
    run.note_progress(Counters(requests=7), RunProgress(3, 4, "tide"))
    ENDS[end](run)
    row = rows.rows[run.id]
    assert (row["progress_done"], row["progress_total"], row["progress_note"]) == (None, None, None)
    assert row["requests"] == 7


def test_a_new_phase_starts_without_the_progress_of_the_previous_one() -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock, phase="ingest")
    clock.advance(2)
    run.note_progress(Counters(), RunProgress(3, 4, "tide"))
    run.set_phase("docs")
    assert run.phase == "docs"
    assert rows.rows[run.id]["progress_done"] is None


def test_a_crashed_run_keeps_its_last_progress() -> None:
    rows, clock = Rows(), ManualClock()
    run = start(rows, clock, phase="ingest")
    clock.advance(2)
    run.note_progress(Counters(), RunProgress(3, 4, "tide"))
    assert close_crashed(rows, clock, lambda _: True, 600_000) == [run.id]
    row = rows.rows[run.id]
    assert row["status"] == "crashed"
    assert (row["progress_done"], row["progress_total"], row["progress_note"]) == (3, 4, "tide")
