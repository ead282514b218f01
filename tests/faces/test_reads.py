"""Reading the copy: `count`, `sync-status`, `cursors`, `check`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.support.deep import gate_cases

CURSOR = {
    "source",
    "surface",
    "scope",
    "project",
    "account",
    "watermark_at",
    "watermark_id",
    "complete",
    "horizon_at",
    "gaps",
    "polled_at",
    "verified_at",
    "etag",
    "url",
    "reading",
    "set_aside",
    "set_aside_at",
}


def test_count_shows_states_and_deletions(desk: Desk) -> None:
    desk.ingested()
    with desk.world.lock:
        desk.world.gitlab.delete_issue(LEDGER, 2)
    assert desk.run("scrub", "--all").code == 0
    assert desk.run("count").out == ("Issues: 6\n  opened: 5\n  closed: 1\n  (and 1 deleted)\nMerge Requests: 0\n")


def test_count_can_be_limited_to_one_project_and_one_kind(desk: Desk) -> None:
    desk.ingested()
    desk.ingested("merge_requests")
    assert desk.robot("count", "-p", "console").data == {
        "project": CONSOLE,
        "issues": {"total": 2, "by_state": {"opened": 2}, "deleted": 0},
        "mrs": {"total": 3, "by_state": {"opened": 3}, "deleted": 0},
    }
    assert set(desk.robot("count", "mrs").data) == {"project", "mrs"}


def test_count_of_an_unknown_project_names_the_known_ones(desk: Desk) -> None:
    desk.ingested()
    done = desk.robot("count", "-p", "nowhere")
    assert done.code == 6
    assert done.error["fix"] == f"known projects: {LEDGER}, {CONSOLE}"


def test_a_missing_database_is_not_found_and_not_created(desk: Desk) -> None:
    for command in (["count"], ["sync-status"], ["cursors", "list"], ["check"]):
        done = desk.robot(*command)
        assert done.code == 6
        assert done.error["code"] == "NOT_FOUND"
        assert "lore sync" in done.error["fix"]
    assert not desk.db.exists()


def test_a_file_that_is_not_a_database_is_refused_unchanged(desk: Desk) -> None:
    desk.db.write_text("these are notes of mine\n" * 50)
    done = desk.robot("count")
    assert done.code == 8
    assert done.error["code"] == "DATABASE_UNUSABLE"
    assert desk.db.read_text().startswith("these are notes of mine")


def test_a_newer_schema_is_refused(desk: Desk) -> None:
    desk.ingested()
    desk.query("INSERT INTO schema_version VALUES (9999, 'later', 'x', 1)")
    done = desk.robot("count")
    assert done.code == 8
    assert done.error["code"] == "SCHEMA_TOO_NEW"


def test_sync_status_shows_lists_runs_and_freshness(desk: Desk) -> None:
    assert desk.run("sync-status").code == 6
    desk.ingested()
    done = desk.robot("sync-status")
    assert set(done.data) == {
        "projects", "cursors", "children", "quarantine", "oldest_verification", "oldest_children_verification", "runs",
        "accounts",
    }  # fmt: skip
    assert {project["path"] for project in done.data["projects"]} == {LEDGER, CONSOLE}
    assert all(set(cursor) == CURSOR for cursor in done.data["cursors"])
    assert [run["status"] for run in done.data["runs"]] == ["succeeded"]
    run = desk.robot("sync-runs", "show", str(done.data["runs"][0]["id"])).data
    assert done.document["meta"]["synced_at"] == run["mirrored_at"]
    shown = desk.run("sync-status").out
    assert f"{LEDGER}\n" in shown
    assert "ingest --type issues" in shown


def backlog(desk: Desk, project: str = LEDGER, surface: str = "gitlab.issues") -> dict[str, dict[str, Any]]:
    """What sync-status says of each kind of children of one list."""
    found = desk.robot("sync-status").data["children"]
    return {entry["kind"]: entry for entry in found if (entry["project"], entry["surface"]) == (project, surface)}


def counts(entry: dict[str, Any]) -> tuple[int, int, int]:
    return entry["due"], entry["settling"], entry["failing"]


def test_sync_status_on_a_narrow_terminal_keeps_times_and_names_whole(desk: Desk) -> None:
    desk.ingested("merge_requests")
    lines = desk.terminal("sync-status", columns=60).out.splitlines()
    assert max(map(len, lines)) <= 60
    assert not [line for line in lines[: lines.index("Last runs")] if "…" in line]


def test_sync_status_of_a_settled_copy_shows_nothing_due(desk: Desk) -> None:
    desk.ingested()
    desk.ingested("merge_requests")
    assert set(backlog(desk)) == {"discussions", "resource_events"}
    assert set(backlog(desk, CONSOLE, "gitlab.merge_requests")) == {
        "discussions", "resource_events", "closes_issues", "diffs",
    }  # fmt: skip
    data = desk.robot("sync-status").data
    assert all(counts(entry) == (0, 0, 0) and entry["error"] is None for entry in data["children"])
    assert data["oldest_children_verification"] == min(entry["oldest_read_at"] for entry in data["children"])


def test_sync_status_shows_only_the_kinds_that_are_read(desk: Desk) -> None:
    desk.configure(LEDGER, extra="[sync]\nfetch_resource_events = false\nverify_reviewers = true\n")
    desk.ingested()
    desk.ingested("merge_requests")
    assert set(backlog(desk)) == {"discussions"}
    kinds = set(backlog(desk, surface="gitlab.merge_requests"))
    assert kinds == {"discussions", "closes_issues", "diffs", "reviewers"}


def test_sync_status_shows_items_that_are_settling(desk: Desk) -> None:
    """A parent that changed a moment ago is read, and stays due until it has settled."""
    desk.world.gitlab.edit_issue(LEDGER, 3)
    desk.world.advance(5)
    desk.ingested()
    assert counts(backlog(desk)["discussions"]) == (1, 1, 0)
    assert counts(backlog(desk)["resource_events"]) == (0, 0, 0)
    desk.world.advance(3600)
    desk.ingested()
    assert counts(backlog(desk)["discussions"]) == (0, 0, 0)


def test_sync_status_shows_failures_with_their_reason(desk: Desk) -> None:
    fault = desk.world.faults.add("status", re.compile(r"/issues/2/discussions$"), None, status=500)
    assert desk.run("ingest", "--type", "issues", "-p", "ledger").code == 7
    entry = backlog(desk)["discussions"]
    assert counts(entry) == (1, 0, 1)
    assert "500" in entry["error"]
    assert entry["error"].split()[0] in desk.run("sync-status").out
    fault.times = 0
    desk.ingested()
    assert counts(backlog(desk)["discussions"]) == (0, 0, 0)
    assert backlog(desk)["discussions"]["error"] is None


def test_sync_status_shows_quarantined_children_with_their_item(desk: Desk) -> None:
    desk.world.gitlab.add_note(desk.world.gitlab.issue(LEDGER, 2), "The crane stops.")
    desk.world.advance(3600)
    desk.world.faults.add("malformed_item", re.compile(r"/issues/2/discussions$"), None)
    desk.run("ingest", "--type", "issues")
    (entry,) = desk.robot("sync-status").data["quarantine"]
    assert entry["surface"] == "gitlab.issues.discussions"
    assert entry["scope"].endswith("/2")
    assert counts(backlog(desk)["discussions"]) == (1, 0, 1)
    assert f"gitlab.issues.discussions {entry['scope']}" in desk.run("sync-status").out


def test_sync_status_does_not_count_deleted_items(desk: Desk) -> None:
    desk.ingested()
    desk.world.gitlab.delete_issue(LEDGER, 2)
    desk.robot("scrub", "--all")
    assert counts(backlog(desk)["discussions"]) == (0, 0, 0)


def test_sync_status_fits_a_terminal_of_80_columns(desk: Desk) -> None:
    desk.world.gitlab.add_note(desk.world.gitlab.issue(LEDGER, 2), "The crane stops.")
    desk.world.faults.add("malformed_item", re.compile(r"/issues/2/discussions$"), None)
    desk.world.faults.add("status", re.compile(r"/issues/3/discussions$"), None, status=500)
    desk.run("ingest", "--type", "issues")
    desk.ingested("merge_requests")
    desk.query("UPDATE child_sync SET last_error = 'it did not answer ' || last_error")
    lines = desk.run("sync-status").out.splitlines()
    assert any("ingest --type merge_requests" in line for line in lines)
    assert any("it did not answer" in line for line in lines)
    # A word that is longer than the line stays whole.
    assert [line for line in lines if len(line) > 80 and len(line.split()) > 1] == []


def test_sync_status_shows_the_requested_number_of_runs(desk: Desk) -> None:
    desk.ingested()
    desk.ingested()
    assert [run["id"] for run in desk.robot("sync-status", "--runs", "1").data["runs"]] == [2]
    assert desk.robot("sync-status", "--runs", "0").data["runs"] == []


def test_cursors_list_answers_with_items_total_and_next(desk: Desk) -> None:
    desk.ingested()
    data = desk.robot("cursors", "list").data
    assert set(data) == {"items", "total", "next"}
    assert data["total"] == len(data["items"]) == 2
    assert data["next"] is None


@pytest.mark.parametrize("scope", [LEDGER, "ledger"])
def test_a_cursor_is_shown_by_path_suffix_or_number(desk: Desk, scope: str) -> None:
    desk.ingested()
    shown = desk.robot("cursors", "show", "gitlab.issues", scope).data
    assert set(shown) == CURSOR
    assert shown["project"] == LEDGER
    assert shown["complete"] is True
    assert desk.robot("cursors", "show", "gitlab.issues", shown["scope"]).data == shown
    assert f"project       {LEDGER}\n" in desk.terminal("cursors", "show", "gitlab.issues", scope).out


def test_an_unknown_cursor_is_answered_with_the_existing_ones(desk: Desk) -> None:
    desk.ingested()
    done = desk.robot("cursors", "show", "gitlab.merge_requests", "ledger")
    assert done.code == 6
    assert f"gitlab.issues {LEDGER}" in done.error["fix"]


def test_an_ambiguous_cursor_is_refused(desk: Desk) -> None:
    desk.world.gitlab.create_project("other/ledger")
    desk.configure(LEDGER, "other/ledger")
    desk.ingested()
    done = desk.robot("cursors", "show", "gitlab.issues", "ledger")
    assert done.code == 2
    assert "other/ledger" in done.error["fix"]


@pytest.mark.parametrize("mode", [[], ["--robot"]])
@gate_cases(1)
def test_a_cursor_reset_needs_a_confirmation(desk: Desk, mode: list[str]) -> None:
    desk.ingested()
    before = desk.robot("cursors", "list").data
    done = desk.spawn("cursors", "reset", "gitlab.issues", "ledger", *mode)
    assert done.code == 2
    assert "--yes" in done.out + done.err
    assert desk.robot("cursors", "list").data == before


def test_a_cursor_reset_is_recorded_and_the_next_run_reads_everything(desk: Desk) -> None:
    desk.ingested()
    done = desk.robot("cursors", "reset", "gitlab.issues", "ledger", "--yes")
    assert done.data["reset"]["project"] == LEDGER
    run = desk.robot("sync-status", "--runs", "1").data["runs"][0]
    assert run["command"] == "lore cursors reset"
    assert run["note"] == f"cursor reset by the operator: gitlab.issues {LEDGER}"
    assert run["status"] == "succeeded"
    scopes = desk.robot("ingest", "--type", "issues").data["scopes"]
    assert {scope["project"]: scope["replayed"] for scope in scopes}[LEDGER] == 5


def test_check_passes_on_a_healthy_database(desk: Desk) -> None:
    desk.ingested()
    done = desk.robot("check")
    assert done.code == 0
    assert all(found["ok"] and found["count"] == 0 for found in done.data["checks"])
    assert "BAD" not in desk.run("check").out


def test_check_reports_damage_and_exits_with_8(desk: Desk) -> None:
    desk.ingested()
    desk.query("UPDATE issues SET created_at = 0 WHERE iid = 2")
    done = desk.robot("check")
    assert done.code == 8
    assert done.error["code"] == "INTEGRITY"
    broken = [found["check"] for found in done.document["data"]["checks"] if not found["ok"]]
    assert broken == ["times"]
    shown = desk.run("check")
    assert shown.code == 8
    assert "BAD times" in shown.out
    assert "error: 1 of " in shown.err
