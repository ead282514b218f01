"""SIGINT and SIGTERM to a real `lore ingest` in the middle of a walk: an orderly end, and a complete next run."""

from __future__ import annotations

import signal

import pytest
from tests.crash.stage import Ended, Stage
from tests.support.deep import gate_cases

COMMAND = ("ingest", "--type", "issues")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def interrupt(stage: Stage, number: int, *options: str) -> Ended:
    """Signal a run that has stored some pages and has many before it."""
    stage.server.latency_seconds = 0.05
    process = stage.start(*COMMAND, *options)
    stage.wait_for_requests(8)
    process.signal(number)
    ended = process.wait()
    stage.server.latency_seconds = 0.0
    return ended


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_run_is_closed_as_cancelled_and_releases_the_lease(sqlite_stage: Stage, number: int) -> None:
    stage = sqlite_stage
    ended = interrupt(stage, number)
    assert ended.code == 130, ended
    assert "interrupted" in ended.stderr
    ((status, phase, started_at, cancelled_at, finished_at),) = stage.rows(
        "SELECT status, phase, started_at, cancelled_at, finished_at FROM sync_runs"
    )
    assert (status, phase) == ("cancelled", "cancelled")
    assert started_at <= cancelled_at <= finished_at
    assert stage.rows("SELECT holder_host FROM leases") == [(None,)]
    assert 0 < len(stage.payloads()) < len(stage.truth("issues"))


@pytest.mark.parametrize("number", SIGNALS)
@gate_cases(1)
def test_the_run_after_an_interrupted_one_completes_the_copy(stage: Stage, number: int) -> None:
    assert interrupt(stage, number).code == 130
    stored = stage.payloads()
    again = stage.lore(*COMMAND, "--robot")
    assert again.code == 0, again
    assert again.data["lease"] == "free"
    assert again.data["crashed_runs_closed"] == []
    assert stage.run_statuses() == ["cancelled", "succeeded"]
    assert sum(scope["created"] for scope in again.data["scopes"]) == len(stage.truth("issues")) - len(stored)
    stage.assert_copy_is_true("issues")


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_robot_command_prints_one_json_document(sqlite_stage: Stage, number: int) -> None:
    ended = interrupt(sqlite_stage, number, "--robot")
    assert ended.code == 130
    assert ended.error["code"] == "INTERRUPTED"
    assert ended.error["retryable"] is True
    assert ended.document["meta"]["command"] == "ingest"


def test_a_second_signal_does_not_leave_the_run_open(sqlite_stage: Stage) -> None:
    stage = sqlite_stage
    stage.server.latency_seconds = 0.05
    process = stage.start(*COMMAND)
    stage.wait_for_requests(8)
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGINT)
    assert process.wait().code == 130
    assert stage.run_statuses() == ["cancelled"]
    assert stage.rows("SELECT holder_host FROM leases") == [(None,)]
