"""What a running command tells on stderr, and how it ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time

import pytest
from tests.faces.desk import LEDGER, Desk, Outcome
from tests.support.deep import gate_cases


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@gate_cases(1)
def test_an_interrupted_run_is_finalised_and_exits_with_130(desk: Desk, number: signal.Signals) -> None:
    desk.world.faults.add("slow", "/projects/:id/issues", times=None, seconds=30)
    process = subprocess.Popen(
        desk.arguments("ingest", "--type", "issues", "--robot"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        text=True,
    )
    try:
        for _ in range(600):
            if desk.world.requests["GET /projects/:id/issues"]:
                break
            time.sleep(0.05)
        process.send_signal(number)
        done = Outcome(process.wait(timeout=20), *process.communicate())
    finally:
        process.kill()
        process.communicate()
    assert done.code == 130
    assert done.error["code"] == "INTERRUPTED"
    assert done.error["retryable"]
    assert done.err == ""
    run = desk.robot("sync-status").data["runs"][0]
    assert run["status"] == "cancelled"
    assert run["finished_at"] is not None
    # The lease was given back: the next run need not wait or force.
    desk.world.faults.clear()
    assert desk.robot("ingest", "--type", "issues").data["lease"] == "free"


def test_json_logs_have_one_object_per_line(desk: Desk) -> None:
    desk.configure(LEDGER, extra='[log]\nformat = "json"\n')
    done = desk.run("ingest", "--type", "issues", "--verbose")
    records = [json.loads(line) for line in done.err.splitlines()]
    assert records
    assert all(set(record) == {"at", "level", "logger", "message"} for record in records)
    assert any("/api/v4/projects/" in record["message"] for record in records)
    assert "Total: 5 issues" in done.out


def test_a_log_file_is_private_and_stays_so_when_it_is_rotated(desk: Desk) -> None:
    log = desk.folder / "logs" / "lore.log"
    desk.configure(LEDGER, extra=f'[log]\nfile = "{log}"\nlevel = "debug"\nmax_megabytes = 0.0005\n')
    before = os.umask(0o022)
    try:
        assert desk.spawn("ingest", "--type", "issues").code == 0
    finally:
        os.umask(before)
    files = sorted(log.parent.iterdir())
    assert len(files) > 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("flags", "level", "warned"),
    [
        ([], "info", True),
        ([], "error", False),
        (["--quiet"], "info", False),
        (["--robot"], "debug", False),
        (["--verbose"], "error", True),
    ],
)
def test_the_log_level_is_respected_and_flags_take_precedence(
    desk: Desk, flags: list[str], level: str, warned: bool
) -> None:
    desk.configure(LEDGER, extra=f'[log]\nlevel = "{level}"\n')
    fault = desk.world.faults.add("invalid_timestamp", "/projects/:id/issues", 1)
    done = desk.run("ingest", "--type", "issues", *flags)
    assert fault.fired == 1
    assert done.code == 0
    assert ("could not parse" in done.err) == warned
    assert ("GET http" in done.err) == ("--verbose" in flags)
