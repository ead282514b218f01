"""A killed run leaves word of how far it was: the next command closes its row, and the ledger says where it stopped."""

from __future__ import annotations

import signal

import pytest
from tests.crash.stage import Process, Stage, wait_until

SOME_PROGRESS = "SELECT 1 FROM sync_runs WHERE progress_done > 0"
PROGRESS = "SELECT status, progress_done, progress_total, progress_note, requests FROM sync_runs ORDER BY id LIMIT 1"


@pytest.mark.deep
def test_a_killed_run_is_listed_with_its_last_progress(stage: Stage) -> None:
    stage.server.latency_seconds = 0.05
    process = stage.start("sync", "--no-embed")
    stop_with_progress(stage, process)
    told = stage.lore("status")
    assert "\nrun 1 sync: " in told.stdout
    process.signal(signal.SIGKILL)
    process.wait()
    stage.server.latency_seconds = 0.0
    checked = stage.lore("check")
    assert (checked.code, "interrupted: run 1" in checked.stdout) == (0, True)
    ((_, *last),) = stage.rows(PROGRESS)
    assert last[0] > 0
    assert last[3] > 0
    assert stage.lore("sync", "--no-embed").code == 0
    assert stage.run_statuses() == ["crashed", "succeeded"]
    assert stage.rows(PROGRESS) == [("crashed", *last)]
    told = stage.lore("sync-runs")
    assert f"stopped at {last[0]:,}" in told.stdout
    shown = stage.lore("sync-runs", "show", "1", "--robot").data
    assert [shown[name] for name in ("progress_done", "progress_total", "progress_note")] == last[:3]


def stop_with_progress(stage: Stage, process: Process) -> None:
    """Stop the run at an instant at which the ledger shows progress; between two phases it shows none."""
    while True:
        wait_until(lambda: not process.running or bool(stage.rows(SOME_PROGRESS)))
        assert process.running, process.wait()
        process.signal(signal.SIGSTOP)
        if stage.rows(SOME_PROGRESS):
            return
        process.signal(signal.SIGCONT)
