"""After a sync that could not read everything, the ledger, the status commands and the exit code say the same."""

from __future__ import annotations

import pytest
from tests.situations.gitlab.bench import DAY, PROJECT, Bench
from tests.support.deep import gate_cases

DISCUSSIONS = "GET /projects/:id/merge_requests/:iid/discussions"
MERGE_REQUESTS = "GET /projects/:id/merge_requests"


def test_a_sync_with_unread_child_lists_is_partial_in_run_record_status_and_exit_code(both: Bench) -> None:
    bench = both
    bench.world.gitlab.bulk(PROJECT, issues=1, merge_requests=30, discussions=1, notes=1)
    bench.world.advance(DAY)
    bench.world.faults.add("status", DISCUSSIONS, times=None, status=500)
    done = bench.run("sync", "--no-embed")
    assert done.code == 7
    assert "none due" not in done.out
    assert "30 failed" in done.out
    ((status, error, mirrored),) = bench.query("SELECT status, error, mirrored_at FROM sync_runs")
    assert (status, mirrored) == ("partial", None)
    assert "30 items" in error
    shown = bench.robot("status").data
    assert shown["healthy"] is False
    assert shown["runs"][0]["status"] == "partial"
    assert shown["waiting"]["children_failing"] == 30
    text = bench.run("status").out
    assert "30 child lists" in text
    assert "partial" in text
    assert bench.robot("sync-status").data["runs"][0]["status"] == "partial"
    assert bench.robot("list", "mrs").document["meta"]["synced_at"] is None
    bench.world.faults.clear()
    assert bench.run("sync", "--no-embed").code == 0
    shown = bench.robot("status").data
    assert (shown["healthy"], shown["waiting"]["children_failing"]) == (True, 0)
    assert shown["runs"][0]["status"] == "succeeded"


def test_the_run_record_of_a_partial_sync_names_the_failed_list_and_why(bench: Bench) -> None:
    bench.world.gitlab.bulk(PROJECT, issues=1, merge_requests=1)
    bench.world.faults.add("status", MERGE_REQUESTS, times=None, status=500)
    assert bench.run("sync", "--no-embed").code == 7
    told = f"1 of 2 lists failed ({PROJECT} merge requests: the server failed (status 500)); the others are stored"
    assert bench.query("SELECT status, error FROM sync_runs") == [("partial", told)]
    assert told in bench.run("sync-runs").out


def test_a_surgical_sync_with_an_unread_child_list_is_partial(bench: Bench) -> None:
    bench.world.gitlab.bulk(PROJECT, merge_requests=2, discussions=1, notes=1)
    bench.world.advance(DAY)
    bench.mirror()
    bench.world.faults.add("status", DISCUSSIONS, times=None, status=500)
    assert bench.run("sync", "--mr", f"{PROJECT}!1", "--no-embed").code == 7
    assert bench.query("SELECT status FROM sync_runs ORDER BY id DESC LIMIT 1") == [("partial",)]


@pytest.mark.parametrize(
    ("route", "share"),
    [(MERGE_REQUESTS, 0), (DISCUSSIONS, 0), ("GET /projects/:id/issues", 0.02)],
    ids=["second-list", "children", "verification"],
)
@pytest.mark.parametrize(("status", "code", "word"), [(401, 4, "CREDENTIALS_REJECTED"), (429, 5, "RATE_LIMITED")])
@gate_cases(3)
def test_a_source_that_fails_during_a_run_is_the_error_of_the_run(
    bench: Bench, route: str, share: float, status: int, code: int, word: str
) -> None:
    bench.set_up(f"scrub_share = {share}", "dependent_concurrency = 1")
    bench.world.gitlab.statuses = True
    bench.world.gitlab.bulk(PROJECT, issues=3, merge_requests=3, discussions=1, notes=1)
    bench.world.advance(DAY)
    if share:
        assert bench.run("sync", "--no-embed").code == 0
    fault = bench.world.faults.add(
        "status", route, times=None, after=1 if share else 0, status=status, retry_after=3600
    )
    outcome = bench.robot("sync", "--no-embed")
    assert fault.fired == 1, "asked once, and no more"
    assert (outcome.code, outcome.error["code"]) == (code, word)
    assert bench.query("SELECT status FROM sync_runs ORDER BY id DESC LIMIT 1") == [("failed",)]
    assert bench.one("SELECT COUNT(*) FROM issues") == 3, "what came before is stored"
