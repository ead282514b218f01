"""Child endpoints that a server refuses for a whole project: marked, left alone, and tried again."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.situations.gitlab.bench import DAY, PROJECT, Bench, request_of
from tests.support.deep import gate_cases

from tidelore_world.wire import Request

LEAN = ("fetch_resource_events = false", "fetch_mr_closes_issues = false")
FILES = re.compile(r"/merge_requests/\d+/(diffs|changes)$")


def backlog(bench: Bench, kind: str = "diffs") -> dict[str, Any]:
    """What `sync-status` says of one kind of children."""
    found: dict[str, Any]
    (found,) = [child for child in bench.robot("sync-status").data["children"] if child["kind"] == kind]
    return found


def end_pauses(bench: Bench) -> None:
    """Let the pauses before the next attempt be over."""
    bench.query("UPDATE refused_children SET next_attempt_at = 0")


@pytest.mark.parametrize("status", [403, 404, 405, 410])
@gate_cases(2)
def test_a_kind_refused_for_a_project_costs_a_few_requests_and_does_not_fail_the_run(both: Bench, status: int) -> None:
    bench = both
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=60, discussions=1, notes=1, files=1)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", FILES, times=None, status=status)
    scope = bench.mirror()
    assert 3 <= fault.fired <= 30, "sixty parents are not asked one by one"
    assert scope["children"]["discussions"]["fetched"] == 60, "the other children are read"
    assert scope["children"]["diffs"]["failed"] == 0
    assert f"status {status}" in scope["children"]["diffs"]["unavailable"]
    assert bench.query("SELECT status, warnings_count FROM sync_runs") == [("succeeded", 0)]
    assert f"status {status}" in backlog(bench)["unavailable"]
    assert (backlog(bench)["due"], backlog(bench)["failing"]) == (60, 0)
    assert backlog(bench)["next_attempt_at"] is not None
    assert "changed files: unavailable" in bench.run("sync-status").out
    assert "changed files" in bench.run("doctor", "--offline").out


def test_a_run_without_changes_does_not_request_an_unavailable_kind(bench: Bench) -> None:
    bench.set_up(*LEAN, "scrub_share = 0.02")
    bench.world.gitlab.bulk(PROJECT, merge_requests=5, files=1)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", FILES, times=None, status=403)
    bench.mirror()
    fired = fault.fired
    bench.world.gitlab.create_merge_request(PROJECT)
    bench.world.advance(DAY)
    for _ in range(3):
        bench.mirror()
    assert fault.fired == fired


def test_an_unavailable_kind_is_retried_with_one_parent_after_its_pause(
    both: Bench,
) -> None:
    bench = both
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=12, files=1)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", FILES, times=None, status=403)
    bench.mirror()
    first = bench.one("SELECT next_attempt_at FROM refused_children")
    fired = fault.fired
    end_pauses(bench)
    bench.mirror()
    assert fault.fired == fired + 1, "one parent is enough to learn that nothing changed"
    assert bench.one("SELECT next_attempt_at FROM refused_children") > first + 1_800_000, "the pauses grow"
    bench.world.faults.clear()
    end_pauses(bench)
    assert bench.mirror()["children"]["diffs"]["fetched"] == 12
    assert bench.query("SELECT * FROM refused_children") == []
    assert backlog(bench)["unavailable"] is None


def test_parents_refused_in_several_runs_make_their_kind_unavailable(bench: Bench) -> None:
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=1, files=1)
    bench.world.advance(DAY)
    bench.mirror()
    bench.world.faults.add("status", FILES, times=None, status=403)
    codes = []
    for _ in range(3):
        bench.world.gitlab.create_merge_request(PROJECT)
        bench.world.advance(DAY)
        codes.append(bench.try_mirror().code)
    assert codes == [7, 7, 0], "twice it may be a matter of these parents"
    assert bench.one("SELECT attempts FROM refused_children") == 1


def test_a_refused_only_parent_of_a_project_makes_its_kind_unavailable(bench: Bench) -> None:
    bench.set_up(*LEAN)
    bench.world.gitlab.create_merge_request(PROJECT)
    bench.world.advance(DAY)
    bench.world.faults.add("status", FILES, times=None, status=403)
    assert bench.try_mirror().code == 0
    assert backlog(bench)["unavailable"] is not None


def test_refused_parents_among_readable_ones_are_separate_failures(bench: Bench) -> None:
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=20, files=1)
    bench.world.advance(DAY)
    bench.world.faults.add("status", re.compile(r"/merge_requests/\d*5/diffs$"), times=None, status=403)
    outcome = bench.try_mirror()
    assert outcome.code == 7
    assert bench.query("SELECT * FROM refused_children") == []
    assert backlog(bench)["failing"] == 2
    assert bench.one("SELECT COUNT(DISTINCT merge_request_id) FROM mr_file_changes") == 18


def test_parents_deleted_in_a_row_are_tombstoned_and_not_mistaken_for_a_refused_kind(bench: Bench) -> None:
    bench.set_up(*LEAN, "dependent_concurrency = 1")
    forge = bench.world.gitlab
    forge.bulk(PROJECT, merge_requests=8, files=1)
    bench.world.advance(DAY)

    def delete(request: Request) -> None:
        iid = request.path.rpartition("/")[0].rpartition("/")[2]
        if (
            request.path.endswith("/diffs")
            and int(iid) <= 5
            and int(iid) in forge.project(PROJECT).merge_requests.by_iid
        ):
            forge.delete_merge_request(PROJECT, int(iid))

    bench.world.before_request.append(delete)
    assert bench.mirror()["gone"] == 5
    assert bench.column("SELECT iid FROM merge_requests WHERE deleted_at IS NOT NULL ORDER BY iid") == [1, 2, 3, 4, 5]
    assert bench.query("SELECT * FROM refused_children") == []


def test_a_full_sync_requests_an_unavailable_kind_again_at_once(bench: Bench) -> None:
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=5, files=1)
    bench.world.advance(DAY)
    bench.world.faults.add("status", FILES, times=None, status=403)
    bench.mirror()
    bench.world.faults.clear()
    assert bench.mirror("merge_requests", "--full")["children"]["diffs"]["fetched"] == 5


def test_a_surgical_sync_succeeds_in_a_project_with_an_unavailable_kind(bench: Bench) -> None:
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=5, files=1)
    bench.world.advance(DAY)
    bench.world.faults.add("status", FILES, times=None, status=403)
    bench.mirror()
    assert bench.robot("sync", "--mr", f"{PROJECT}!2", "--no-embed").code == 0


@pytest.mark.parametrize("issues", [False, True], ids=["alone", "with-issues"])
def test_changed_files_are_read_from_the_old_endpoint_on_old_servers(bench: Bench, issues: bool) -> None:
    bench.set_up(*LEAN)
    forge = bench.world.gitlab
    forge.old_server = True
    forge.bulk(PROJECT, issues=2 * issues, merge_requests=6, files=2)
    bench.world.advance(DAY)
    spent = bench.counted(bench.mirror)
    assert (spent["diffs"] + spent["(unknown)"] <= 11, spent["changes"] >= 6) == (True, True)
    truth = sorted(diff.new_path for iid in range(1, 7) for diff in request_of(bench.world, iid).diffs)
    assert sorted(bench.column("SELECT new_path FROM mr_file_changes")) == truth
    assert bench.query("SELECT * FROM refused_children") == []


def test_a_kind_refused_to_one_token_is_requested_with_another_at_once(
    both: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = both
    bench.set_up(*LEAN)
    bench.world.gitlab.bulk(PROJECT, merge_requests=12, files=1)
    bench.world.advance(DAY)
    monkeypatch.setenv("GITLAB_TOKEN", "of-a-guest")
    fault = bench.world.faults.add("status", FILES, times=None, status=403)
    assert bench.mirror()["children"]["diffs"]["unavailable"] is not None
    quiet = bench.counted(bench.mirror)
    monkeypatch.setenv("GITLAB_TOKEN", "of-another-guest")
    fired = fault.fired
    bench.mirror()
    assert fault.fired == fired + 1, "one parent is enough to learn that this token is refused too"
    assert bench.counted(bench.mirror) == quiet, "the pause begins anew"
    bench.world.faults.clear()
    assert bench.mirror()["children"]["diffs"]["fetched"] == 0, "rights alone show nowhere"
    monkeypatch.setenv("GITLAB_TOKEN", "of-a-developer")
    assert bench.mirror()["children"]["diffs"]["fetched"] == 12
    assert backlog(bench)["unavailable"] is None
    assert bench.counted(bench.mirror) == quiet


def test_a_parent_that_failed_often_is_read_at_once_after_its_limit_was_raised(bench: Bench) -> None:
    bench.set_up(*LEAN, "max_children_bytes = 1000000")
    bench.world.gitlab.bulk(PROJECT, merge_requests=2)
    for iid in (1, 2):
        for _ in range(3):
            bench.world.gitlab.add_note(request_of(bench.world, iid), "long " * 100_000)
    bench.world.advance(DAY)
    for _ in range(3):
        assert bench.try_mirror().code == 7
    assert backlog(bench, "discussions")["failing"] == 2
    asked = bench.counted(bench.try_mirror)
    assert asked["discussions"] == 0, "after some failures the pauses grow"
    bench.set_up(*LEAN)
    assert bench.mirror()["children"]["discussions"]["fetched"] == 2
