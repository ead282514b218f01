"""`lore ingest` and `lore scrub` as people and agents meet them."""

from __future__ import annotations

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk


def test_issues_are_mirrored_and_reported_by_project(desk: Desk) -> None:
    done = desk.run("ingest", "--type", "issues")
    assert done.code == 0
    assert done.err == ""
    assert f"{LEDGER}: 5 issues fetched" in done.out
    assert f"{CONSOLE}: 2 issues fetched" in done.out
    assert "Total: 7 issues, 0 discussions, 0 notes" in done.out
    assert "\n7 new issues, 0 changed, 0 already stored; " in done.out


def test_merge_requests_are_mirrored(desk: Desk) -> None:
    data = desk.robot("ingest", "--type", "merge_requests").data
    assert {scope["project"]: scope["created"] for scope in data["scopes"]} == {LEDGER: 1, CONSOLE: 3}
    assert {scope["surface"] for scope in data["scopes"]} == {"gitlab.merge_requests"}
    assert desk.robot("count").data["mrs"]["total"] == 4


def test_a_second_ingest_stores_nothing_and_reports_it(desk: Desk) -> None:
    desk.ingested()
    data = desk.robot("ingest", "--type", "issues").data
    assert [scope["created"] + scope["changed"] for scope in data["scopes"]] == [0, 0]
    assert data["requests"] <= 3


@pytest.mark.parametrize("name", [LEDGER, "ledger", "platform/ledger"])
def test_a_project_can_be_selected_by_a_path_suffix(desk: Desk, name: str) -> None:
    data = desk.robot("ingest", "--type", "issues", "--project", name).data
    assert [scope["project"] for scope in data["scopes"]] == [LEDGER]


def test_an_ambiguous_path_suffix_is_refused_with_the_candidates(desk: Desk) -> None:
    desk.world.gitlab.create_project("other/ledger")
    desk.configure(LEDGER, "other/ledger")
    done = desk.robot("ingest", "--type", "issues", "-p", "ledger")
    assert done.code == 2
    assert done.error["code"] == "USAGE"
    assert LEDGER in done.error["fix"]
    assert "other/ledger" in done.error["fix"]


def test_an_unknown_project_is_not_found(desk: Desk) -> None:
    done = desk.robot("ingest", "--type", "issues", "-p", "edger")
    assert done.code == 6
    assert done.error["code"] == "NOT_FOUND"
    assert done.error["details"] == {"wanted": "edger"}


def test_an_unknown_type_is_refused_with_the_known_ones(desk: Desk) -> None:
    done = desk.robot("ingest", "--type", "commits")
    assert done.code == 2
    assert done.error["fix"] == "use one of: issues, merge_requests"
    assert not desk.db.exists()


def test_without_a_configured_project_the_fix_is_named(desk: Desk) -> None:
    desk.configure()
    done = desk.robot("ingest", "--type", "issues")
    assert done.code == 2
    assert done.error["code"] == "CONFIG_INVALID"
    assert "add your projects under [[gitlab]]" in done.error["fix"]


def test_a_full_run_is_recorded_in_the_ledger(desk: Desk) -> None:
    desk.ingested()
    data = desk.robot("ingest", "--type", "issues", "--full").data
    assert [scope["replayed"] for scope in data["scopes"]] == [5, 2]
    runs = desk.robot("sync-status").data["runs"]
    assert [run["note"] for run in runs] == ["full sync: cursors were reset", None]


def test_a_full_run_prints_how_many_items_of_a_project_it_read_again(desk: Desk) -> None:
    desk.ingested()
    lines = desk.run("ingest", "--type", "issues", "--full").out.splitlines()
    assert [line.split(": ", 1)[1] for line in lines[1:3]] == [
        "0 issues fetched, 5 already stored",
        "0 issues fetched, 2 already stored",
    ]


def test_one_forbidden_project_fails_alone_and_the_run_is_partial(desk: Desk) -> None:
    desk.world.gitlab.forbid_project(CONSOLE)
    done = desk.robot("ingest", "--type", "issues")
    assert done.code == 7
    assert done.error["code"] == "PARTIAL_SUCCESS"
    assert [failed["project"] for failed in done.error["details"]["failed"]] == [CONSOLE]
    scopes = {scope["project"]: scope for scope in done.document["data"]["scopes"]}
    assert scopes[LEDGER]["created"] == 5
    assert scopes[LEDGER]["error"] is None
    assert scopes[CONSOLE]["error"]["code"] == "REMOTE_REFUSED"
    assert desk.robot("count", "issues").data["issues"]["total"] == 5


def test_rejected_credentials_end_the_run_with_one_error(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.world.gitlab.token = "the-right-token"
    monkeypatch.setenv("GITLAB_TOKEN", "the-wrong-token")
    done = desk.run("ingest", "--type", "issues")
    assert done.code == 4
    assert done.err.count("error:") == 1
    assert done.err.count("status 401") == 1
    done = desk.robot("ingest", "--type", "issues")
    assert done.code == 4
    assert done.error["code"] == "CREDENTIALS_REJECTED"
    assert not done.error["retryable"]


def test_verification_contacts_a_source_that_rejected_the_token_only_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.ingested()
    desk.world.gitlab.token = "the-right-token"
    monkeypatch.setenv("GITLAB_TOKEN", "the-wrong-token")
    before = desk.world.requests.total()
    done = desk.robot("scrub", "--all")
    assert done.code == 4
    assert done.error["code"] == "CREDENTIALS_REJECTED"
    assert desk.world.requests.total() - before == 1


def test_a_long_rate_limit_ends_the_run_and_reports_its_length(desk: Desk) -> None:
    fault = desk.world.faults.add("status", times=None, status=429, retry_after=3600)
    done = desk.robot("ingest", "--type", "issues")
    assert fault.fired
    assert done.code == 5
    assert done.error["code"] == "RATE_LIMITED"
    assert done.error["retryable"]
    assert done.error["details"]["retry_after_seconds"] == pytest.approx(3600, abs=5)
    assert done.error["fix"] == "run the command again in 60 minutes; it continues where it stopped"


def test_a_project_the_server_does_not_have_is_not_found(desk: Desk) -> None:
    desk.configure("harbor/gone")
    done = desk.robot("ingest", "--type", "issues")
    assert done.code == 6
    assert done.error["code"] == "REMOTE_NOT_FOUND"


def test_an_item_that_cannot_be_parsed_is_shown_in_quarantine(desk: Desk) -> None:
    fault = desk.world.faults.add("invalid_timestamp", "/projects/:id/issues", 1)
    desk.ingested()
    assert fault.fired == 1
    quarantine = desk.robot("sync-status").data["quarantine"]
    assert len(quarantine) == 1
    assert "_at: " in quarantine[0]["error"]
    assert "Quarantine: 1" in desk.run("sync-status").out


def test_a_held_lease_names_its_holder_and_force_takes_it(desk: Desk) -> None:
    desk.ingested()
    desk.query(
        "UPDATE leases SET holder_host = 'elsewhere', holder_pid = 4711, holder_started = 'x',"
        " heartbeat_at = 9999999999999, command = 'lore ingest'"
    )
    done = desk.robot("ingest", "--type", "issues")
    assert done.code == 3
    assert done.error["code"] == "LOCK_HELD"
    assert "4711" in done.error["message"]
    assert "elsewhere" in done.error["message"]
    assert desk.robot("ingest", "--type", "issues", "--force").data["lease"] != "free"


def test_scrub_finds_changes_that_no_cursor_shows(desk: Desk) -> None:
    desk.ingested()
    with desk.world.lock:
        desk.world.gitlab.delete_issue(LEDGER, 3)
    done = desk.run("scrub", "--all")
    assert done.code == 0
    assert done.out.splitlines() == [
        "Verified 6 stored items in 2 lists: 0 corrected, 1 deleted remotely",
        "Verified the children of 12 items: 0 corrected",
    ]
    assert desk.robot("count", "issues").data["issues"] == {
        "total": 6,
        "by_state": {"closed": 1, "opened": 5},
        "deleted": 1,
    }


def test_scrub_spends_no_more_than_its_budget(desk: Desk) -> None:
    desk.ingested()
    desk.ingested("merge_requests")
    data = desk.robot("scrub", "--budget", "2").data
    assert data["requests"] == 2
    assert len(data["scrubbed"]) == 2


def test_scrub_without_data_says_what_to_run_first(desk: Desk) -> None:
    done = desk.run("scrub")
    assert done.code == 0
    assert "lore sync" in done.out


def test_scrub_can_be_limited_to_one_project(desk: Desk) -> None:
    desk.ingested()
    data = desk.robot("scrub", "-p", "console", "--all").data
    assert {scope["project"] for scope in data["scrubbed"]} == {CONSOLE}
