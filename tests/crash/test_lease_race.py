"""One writer at a time, whatever races for it: real processes, one lease, both databases."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from tests.crash.stage import Process, Stage, wait_until
from tests.support.deep import deep, gate_cases

from tidelore.core.clock import SystemClock
from tidelore_world.wire import Request

COMMAND = ("ingest", "--type", "issues")
HELD_TABLES = ("projects", "cursors", "issues", "raw_payloads", "labels", "issue_labels", "quarantine", "leases")


@contextmanager
def shut_gate(stage: Stage) -> Iterator[Callable[[], None]]:
    """Let no request be answered until the gate is opened: whoever has the lease keeps it that long."""
    gate = threading.Event()

    def wait(_request: Request) -> None:
        gate.wait()

    stage.world.before_request.append(wait)
    try:
        yield gate.set
    finally:
        gate.set()


def dump(stage: Stage) -> dict[str, list[tuple[Any, ...]]]:
    return {table: sorted(stage.rows(f"SELECT * FROM {table}"), key=repr) for table in HELD_TABLES}


def race(stage: Stage, count: int) -> tuple[Process, list[Process]]:
    """Start processes at once and return the one that holds the lease when all others have ended."""
    racers = [stage.start(*COMMAND, "--robot") for _ in range(count)]
    wait_until(lambda: sum(racer.running for racer in racers) <= 1)
    (winner,) = [racer for racer in racers if racer.running]
    return winner, [racer for racer in racers if racer is not winner]


@pytest.mark.parametrize("count", [2, deep(10)])
def test_of_processes_started_at_once_one_writes_and_the_others_name_it(stage: Stage, count: int) -> None:
    with shut_gate(stage) as open_gate:
        winner, losers = race(stage, count)
        ended = [loser.wait() for loser in losers]
        open_gate()
    won = winner.wait()
    assert [loser.code for loser in ended] == [3] * (count - 1), ended
    for loser in ended:
        assert loser.error["code"] == "LOCK_HELD"
        details = loser.error["details"]
        assert details["holder_pid"] == winner.pid
        assert details["holder_host"] == os.uname().nodename
        assert details["holder_command"] == "lore ingest --type issues"
        assert all(str(details[name]) in loser.error["message"] for name in ("holder_pid", "holder_host"))
        assert details["holder_command"] in loser.error["message"]
        assert "--force" in loser.error["fix"]
    assert won.code == 0, won
    assert sum(scope["created"] for scope in won.data["scopes"]) == len(stage.truth("issues"))
    # The losers left no trace: not in the ledger, and not among the payloads.
    assert stage.run_statuses() == ["succeeded"]
    assert sorted(stage.payloads()) == sorted(stage.true_payloads("issues"))
    stage.assert_copy_is_true("issues")


def test_a_running_process_stops_when_its_lease_is_taken_by_force(stage: Stage) -> None:
    stage.server.latency_seconds = 1.0
    first = stage.start(*COMMAND, "--robot")
    wait_until(lambda: stage.world.requests["GET /projects/:id/issues"] >= 4)
    second = stage.start(*COMMAND, "--robot", "--force")
    wait_until(lambda: stage.rows("SELECT holder_pid FROM leases") == [(second.pid,)])
    assert first.running
    stage.server.latency_seconds = 0.0
    stopped, taker = first.wait(), second.wait()
    assert (stopped.code, stopped.error["code"]) == (3, "LEASE_LOST"), stopped
    assert taker.code == 0, taker
    assert taker.data["lease"] == "forced"
    assert stage.run_statuses() == ["failed", "succeeded"]
    assert sorted(stage.payloads()) == sorted(stage.true_payloads("issues"))
    stage.assert_copy_is_true("issues")


def is_writing(stage: Stage) -> bool:
    """Return whether a transaction is open."""
    if stage.address.startswith("postgresql://"):
        open_ones = (
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL"
        )
        return stage.rows(f"{open_ones} AND pid <> pg_backend_pid()") != [(0,)]
    with closing(sqlite3.connect(stage.address, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


def paused_after(stage: Stage, requests: int) -> Process:
    """Stop a process while it waits for an answer, and not inside a transaction."""
    stage.server.latency_seconds = 1.0
    process = stage.start(*COMMAND, "--robot")
    stage.wait_for_requests(requests)
    process.signal(signal.SIGSTOP)
    process.wait_until_stopped()
    while is_writing(stage):
        process.signal(signal.SIGCONT)
        process.signal(signal.SIGSTOP)
        process.wait_until_stopped()
    stage.server.latency_seconds = 0.0
    return process


@pytest.mark.parametrize("requests", [1, 8], ids=["looking-up", "walking"])
@gate_cases(1)
def test_a_process_that_resumes_without_its_lease_writes_nothing_more(stage: Stage, requests: int) -> None:
    sleeper = paused_after(stage, requests)
    assert stage.lore(*COMMAND, "--force").code == 0
    before = dump(stage)
    sleeper.signal(signal.SIGCONT)
    woken = sleeper.wait()
    assert (woken.code, woken.error["code"]) == (3, "LEASE_LOST"), woken
    assert dump(stage) == before
    assert stage.run_statuses() == ["failed", "succeeded"]
    stage.assert_copy_is_true("issues")


def test_a_process_suspended_beyond_the_lease_timeout_reports_lease_lost(stage: Stage) -> None:
    sleeper = paused_after(stage, 8)
    long_ago = SystemClock().now_ms() - 11 * 60_000
    stage.change("UPDATE leases SET heartbeat_at = :at", at=long_ago)
    stage.change("UPDATE sync_runs SET heartbeat_at = :at", at=long_ago)
    taker = stage.lore(*COMMAND, "--robot")
    assert taker.code == 0, taker
    assert taker.data["lease"] == "stale"
    assert stage.run_statuses() == ["crashed", "succeeded"]
    before = dump(stage)
    sleeper.signal(signal.SIGCONT)
    woken = sleeper.wait()
    assert (woken.code, woken.error["code"]) == (3, "LEASE_LOST"), woken
    assert dump(stage) == before
    assert stage.run_statuses() == ["crashed", "succeeded"]


@pytest.mark.parametrize(("minutes", "code"), [(9, 3), (11, 0)])
@gate_cases(1)
def test_a_holder_on_another_host_keeps_the_lease_until_its_heartbeat_is_stale(
    stage: Stage, minutes: int, code: int
) -> None:
    assert stage.lore(*COMMAND).code == 0
    at = SystemClock().now_ms() - minutes * 60_000
    stage.change(
        "UPDATE leases SET holder_host = 'elsewhere', holder_pid = 4711, holder_started = '1',"
        " command = 'lore sync', acquired_at = :at, heartbeat_at = :at",
        at=at,
    )
    stage.change(
        "UPDATE sync_runs SET status = 'running', finished_at = NULL, holder_host = 'elsewhere', holder_pid = 4711,"
        " heartbeat_at = :at",
        at=at,
    )
    ended = stage.lore(*COMMAND, "--robot")
    assert ended.code == code, ended
    if code == 0:
        assert ended.data["lease"] == "stale"
        assert stage.run_statuses() == ["crashed", "succeeded"]
    else:
        assert "`lore sync` (pid 4711 on elsewhere)" in ended.error["message"]
        assert stage.run_statuses() == ["running"]


def test_a_process_killed_with_sigkill_leaves_a_lease_that_is_free_at_once(stage: Stage) -> None:
    stage.server.latency_seconds = 0.05
    process = stage.start(*COMMAND)
    stage.wait_for_requests(8)
    process.signal(signal.SIGKILL)
    # Started before the dead one is waited for: until then it is a zombie, and still has its number.
    successor = stage.start(*COMMAND, "--robot")
    stage.server.latency_seconds = 0.0
    ended = successor.wait()
    assert process.wait().code == -signal.SIGKILL
    assert ended.code == 0, ended
    assert ended.data["lease"] == "dead"
    assert stage.run_statuses() == ["crashed", "succeeded"]
    stage.assert_copy_is_true("issues")
