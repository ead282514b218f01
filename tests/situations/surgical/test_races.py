"""Others write, signals come and leases are lost while a surgical sync works, each at a chosen instant."""

from __future__ import annotations

import signal
import threading

import pytest
from msgspec.structs import replace
from tests.situations.gitlab.bench import PROJECT, Bench
from tests.situations.surgical.theatre import content, last_run, lease_holder, once, operate
from tests.support.deep import deep, gate_cases

from tidelore.core.clock import SystemClock
from tidelore.core.process import ProcessIdentity
from tidelore.engine.crashpoint import Seam
from tidelore.engine.lease import LeaseRow
from tidelore.store.database.opening import open_database
from tidelore.store.work.leases import LeaseTable

SIGNALLED = {
    "preflight": Seam.RUN_STARTED,
    "before-ingest": Seam.AFTER_PREFLIGHT,
    "ingest": Seam.LEASE_ACQUIRED,
    "dependents": Seam.AFTER_FETCH,
    "docs": Seam.DOCUMENTS,
    "embed": Seam.LEASE_RELEASED,
}
WRITES_NOTHING = ("preflight", "before-ingest")


def hold_the_lease(bench: Bench) -> None:
    """Let this very process hold the lease as some other command would: it lives, so nobody takes it over."""
    database = open_database(str(bench.db), create=False)
    try:
        now = SystemClock().now_ms()
        table = LeaseTable(database)
        before = table.read("sync")
        generation = 1 if before is None else before.generation + 1
        row = LeaseRow("sync", generation, ProcessIdentity.current(), "lore ingest", now, now)
        assert table.swap(None if before is None else before.generation, row)
    finally:
        database.close()


def let_go(bench: Bench) -> None:
    """Give the lease back that this process holds."""
    database = open_database(str(bench.db), create=False)
    try:
        table = LeaseTable(database)
        held = table.read("sync")
        assert held is not None
        assert table.swap(held.generation, replace(held, holder=None))
    finally:
        database.close()


def mirror_issues(bench: Bench) -> None:
    done = bench.spawn("ingest", "--type", "issues")
    assert done.code == 0, done


@pytest.mark.parametrize("number", [signal.SIGTERM, deep(signal.SIGINT)])
@pytest.mark.parametrize("phase", SIGNALLED)
@gate_cases(2)
def test_cancellation_marks_sync_run_cancelled(filled: Bench, phase: str, number: signal.Signals) -> None:
    operate(filled, "--mr", "1", "--no-embed")
    before = content(filled)
    cancel = once(SIGNALLED[phase], lambda: signal.raise_signal(number))
    done = operate(filled, "--issue", "1", "--issue", "2", seam=cancel)
    assert done.code == 130, done
    assert done.error["code"] == "INTERRUPTED"
    assert done.document["data"]["completion_status"] == "cancelled"
    status, ended, started_at, cancelled_at, finished_at = last_run(
        filled, "status", "phase", "started_at", "cancelled_at", "finished_at"
    )
    assert (status, ended) == ("cancelled", "cancelled")
    assert started_at <= cancelled_at <= finished_at
    assert lease_holder(filled) is None
    assert (content(filled) == before) is (phase in WRITES_NOTHING)
    again = operate(filled, "--retry-failed", "2")
    assert again.code == 0, again
    assert again.data["requested_count"] == (0 if phase == "embed" else 2)
    assert filled.bodies(2, "issues") == ["first word on issue 2"]


def test_rows_stored_by_a_normal_sync_after_the_preflight_are_not_overwritten(filled: Bench) -> None:
    operate(filled, "--issue", "1", "--no-embed")

    def newer() -> None:
        filled.world.advance(60)
        filled.world.gitlab.edit_issue(PROJECT, 1, title="the stored version is newer")
        mirror_issues(filled)

    done = operate(filled, "--issue", "1", "--issue", "2", "--no-embed", seam=once(Seam.AFTER_PREFLIGHT, newer))
    data = done.data
    assert (data["skipped_stale"], data["skipped_stale_iids"]) == (2, [["issue", 1], ["issue", 2]])
    assert filled.column("SELECT title FROM issues WHERE iid = 1") == ["the stored version is newer"]
    run = data["run_id"]
    assert filled.query(f"SELECT issues_fetched, issues_ingested, skipped_stale FROM sync_runs WHERE id = {run}") == [
        (2, 0, 2)
    ]
    assert (data["processed_count"], data["completion_status"]) == (0, "succeeded")


def test_rows_seen_by_a_normal_sync_after_the_preflight_are_not_written_again(filled: Bench) -> None:
    """The same instant remotely: who saw it last is right, and its dependents are not read again."""
    seen = once(Seam.AFTER_PREFLIGHT, lambda: mirror_issues(filled))
    done = operate(filled, "--issue", "1", "--mr", "1", "--no-embed", seam=seen)
    assert done.data["skipped_stale_iids"] == [["issue", 1]]
    assert [outcome["stale_skipped"] for outcome in done.data["entity_outcomes"]] == [True, False]
    assert done.data["children"]["discussions"] == 1, "those of the merge request"
    assert filled.watermark(1, "issues") is not None, "the other sync's reading counts"
    assert operate(filled, "--retry-failed", str(done.data["run_id"])).data["requested_count"] == 0


def test_a_lease_held_when_writing_would_begin_stops_the_run(filled: Bench) -> None:
    operate(filled, "--mr", "1", "--no-embed")
    before = content(filled)
    done = operate(filled, "--issue", "1", seam=once(Seam.AFTER_PREFLIGHT, lambda: hold_the_lease(filled)))
    assert (done.code, done.error["code"]) == (3, "LOCK_HELD")
    assert done.error["details"]["run_id"] == 2
    assert content(filled) == before
    status, phase, error = last_run(filled, "status", "phase", "error")
    assert (status, phase) == ("failed", "failed")
    assert "is writing to this database" in error
    assert lease_holder(filled) is not None, "not ours to give back"
    assert operate(filled, "--issue", "1", "--no-embed", "--force").code == 0


def test_a_lease_released_in_time_is_waited_for(filled: Bench) -> None:
    def hold_for_a_moment() -> None:
        hold_the_lease(filled)
        threading.Timer(0.5, let_go, [filled]).start()

    done = operate(
        filled, "--issue", "1", "--no-embed", "--wait", "60", seam=once(Seam.AFTER_PREFLIGHT, hold_for_a_moment)
    )
    assert (done.code, done.data["processed_count"]) == (0, 1)


def test_a_lease_takeover_stops_the_writing(filled: Bench) -> None:
    taken = once(Seam.DOCUMENTS, lambda: filled.query("UPDATE leases SET generation = generation + 1"))
    done = operate(filled, "--issue", "1", "--no-embed", seam=taken)
    assert (done.code, done.error["code"]) == (3, "LEASE_LOST")
    assert last_run(filled, "status", "docs_regenerated") == ("failed", 0)
    assert filled.query("SELECT * FROM documents") == []


def test_a_run_marked_as_crashed_while_embedding_ends_with_lease_lost(filled: Bench) -> None:
    given_up = once(
        Seam.LEASE_RELEASED,
        lambda: filled.query("UPDATE sync_runs SET status = 'crashed', phase = 'crashed', finished_at = 1"),
    )
    done = operate(filled, "--issue", "1", seam=given_up)
    assert (done.code, done.error["code"]) == (3, "LEASE_LOST")
    assert last_run(filled, "status", "finished_at") == ("crashed", 1)


def test_heartbeats_are_written_while_no_lease_is_held(filled: Bench) -> None:
    filled.set_up("heartbeat_interval_seconds = 0.1")
    filled.world.faults.add("slow", "GET /projects/:id/issues", 1, seconds=0.6)
    beats = []
    look = once(Seam.AFTER_PREFLIGHT, lambda: beats.append(last_run(filled, "started_at", "heartbeat_at")))
    assert operate(filled, "--issue", "1", "--no-embed", seam=look).code == 0
    ((started_at, heartbeat_at),) = beats
    assert heartbeat_at - started_at >= 200


def test_a_run_that_died_in_its_preflight_is_closed_by_the_next_run(filled: Bench) -> None:
    operate(filled, "--preflight-only", "--issue", "1")
    filled.query(
        "UPDATE sync_runs SET status = 'running', phase = 'preflight', finished_at = NULL, holder_pid = 4194303,"
        " holder_started = 'x', outcomes_json = replace(outcomes_json, '\"completed\":true', '\"completed\":false')"
    )
    done = operate(filled, "--issue", "2", "--no-embed")
    assert done.code == 0
    assert filled.column("SELECT status FROM sync_runs ORDER BY id") == ["crashed", "succeeded"]
    assert operate(filled, "--retry-failed", "1", "--no-embed").data["processed_count"] == 1
    assert filled.column("SELECT iid FROM issues ORDER BY iid") == [1, 2]


def test_a_silent_run_is_marked_as_crashed_only_by_a_new_lease_holder(filled: Bench) -> None:
    operate(filled, "--issue", "1", "--no-embed")
    silence = "UPDATE sync_runs SET status = 'running', finished_at = NULL, heartbeat_at = 1, holder_host = 'elsewhere'"
    filled.query(silence)
    assert operate(filled, "--preflight-only", "--issue", "1").code == 0
    assert filled.column("SELECT status FROM sync_runs ORDER BY id") == ["running", "succeeded"]
    assert operate(filled, "--issue", "1", "--no-embed").code == 0
    assert filled.column("SELECT status FROM sync_runs ORDER BY id") == ["crashed", "succeeded", "succeeded"]
