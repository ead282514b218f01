"""How far a run is, as people and programs are told of it: by `status`, `sync-status` and `sync-runs`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faces.desk import Desk
from tests.support.manual_clock import ManualClock

from tidelore.core.clock import SystemClock
from tidelore.core.process import ProcessIdentity
from tidelore.core.progress import RunProgress
from tidelore.engine.ledger import Counters, Run, close_crashed
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.work.runs import RunTable

ME = ProcessIdentity("here", 10, "100")
NOTE = "group/app issues discussions: 512 pages"


class Ledger:
    """The run ledger of a desk, written by hand."""

    def __init__(self, desk: Desk) -> None:
        self.database = open_database(str(desk.db))
        migrate(self.database, 1)
        self.table = RunTable(self.database)
        self.clock = ManualClock(SystemClock().now_ms() - 60_000)

    def start(self, command: str = "lore sync", phase: str = "dependents") -> Run:
        return Run.start(self.table, self.clock, command, ME, phase=phase)

    def note(self, run: Run, requests: int, headway: RunProgress) -> None:
        self.clock.advance(2)
        run.note_progress(Counters(requests=requests), headway)


@pytest.fixture
def ledger(desk: Desk) -> Iterator[Ledger]:
    ledger = Ledger(desk)
    yield ledger
    ledger.database.close()


@pytest.mark.parametrize("command", ["status", "sync-status"])
def test_status_commands_print_the_progress_of_each_running_run(desk: Desk, ledger: Ledger, command: str) -> None:
    ledger.start().finish_succeeded()
    ledger.note(ledger.start(), 4210, RunProgress(340, 1200, "group/app notes"))
    ledger.note(ledger.start("lore poll bluesky", "ingest"), 1, RunProgress(7, None, None))
    ledger.start("lore poll github", "ingest")
    lines = desk.run(command).out.splitlines()
    assert [line for line in lines if line.startswith("run ")] == [
        "run 4 poll github: ingest, 0 requests",
        "run 3 poll bluesky: ingest 7, 1 request",
        "run 2 sync: dependents 340 of 1,200 (group/app notes), 4,210 requests",
    ]
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("command", ["status", "sync-status", "sync-runs"])
def test_a_long_progress_note_is_wrapped_and_sanitised(desk: Desk, ledger: Ledger, command: str) -> None:
    ledger.note(ledger.start(), 9, RunProgress(3, 4, f"\x1b[31m{'deep/' * 9}app\n issues discussions: 3 pages"))
    told = desk.terminal(command).out
    assert "\x1b" not in told
    assert "issues discussions: 3 pages)" in " ".join(told.split())
    assert all(len(line) <= 80 for line in told.splitlines())


@pytest.mark.parametrize(
    ("command", "rows"), [("status", "runs"), ("sync-status", "runs"), ("sync-runs", "items")], ids=lambda value: value
)
def test_robot_mode_gives_progress_in_fields(desk: Desk, ledger: Ledger, command: str, rows: str) -> None:
    ledger.note(ledger.start(), 9, RunProgress(3, 4, NOTE))
    ledger.start("lore scrub").finish_failed("why")
    ended, running = desk.robot(command).data[rows]
    names = ("progress_done", "progress_total", "progress_note")
    assert [running[name] for name in names] == [3, 4, NOTE]
    assert running["requests"] == 9
    assert [ended[name] for name in names] == [None, None, None]


def test_the_run_list_shows_current_or_last_progress_of_each_run(desk: Desk, ledger: Ledger) -> None:
    ledger.note(ledger.start(), 9, RunProgress(3, 4, NOTE))
    close_crashed(ledger.table, ledger.clock, lambda _who: True, 600_000)
    ledger.note(ledger.start(), 9, RunProgress(2, None, NOTE))
    ledger.start().finish_cancelled()
    below = [line for line in desk.terminal("sync-runs").out.splitlines() if line.startswith("     ")]
    assert below == [
        f"     dependents 2 ({NOTE})",
        f"     stopped at 3 of 4 ({NOTE})",
        "     the process ended unexpectedly",
    ]


def test_a_single_run_is_shown_with_its_progress(desk: Desk, ledger: Ledger) -> None:
    ledger.note(ledger.start(), 9, RunProgress(3, None, NOTE))
    shown = desk.run("sync-runs", "show", "1").out
    assert any(line.split(maxsplit=1) == ["progress_note", NOTE] for line in shown.splitlines())
    data = desk.robot("sync-runs", "show", "1").data
    assert (data["progress_done"], data["progress_total"], data["progress_note"]) == (3, None, NOTE)
