"""`lore sync --issue`, `--mr`, `--retry-failed` at the desk: what is refused, what is planned, what is said."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.faces.test_documented_shapes import compare

SHARED = ("run_id", "requests", "seconds", "documents", "embeddings", "stage_timings_ms")
"""What a surgical sync answers with like a plain one."""


def refuse(desk: Desk, *argv: str) -> dict[str, str]:
    """Run a sync that must be refused before anything is opened."""
    done = desk.robot("sync", *argv)
    assert done.code == 2, done
    assert not desk.db.exists()
    assert desk.world.requests.total() == 0
    error: dict[str, str] = done.error
    assert error["code"] == "USAGE"
    assert error["fix"]
    return error


@pytest.mark.parametrize("value", ["0", "-1", "abc", f"{LEDGER}!3", "!3", ""])
def test_an_invalid_issue_value_is_refused_naming_the_flag(desk: Desk, value: str) -> None:
    assert refuse(desk, "--issue", value, "-p", LEDGER)["message"].startswith(f"--issue {value!r}")


@pytest.mark.parametrize("value", ["0", "-1", "abc", f"{LEDGER}#3", "#3"])
def test_an_invalid_merge_request_value_is_refused_naming_the_flag(desk: Desk, value: str) -> None:
    assert refuse(desk, "--mr", value, "-p", LEDGER)["message"].startswith(f"--mr {value!r}")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--full", "--issue", "1", "-p", LEDGER], "--full cannot be combined"),
        (["--no-docs", "--issue", "1", "-p", LEDGER], "--no-docs requires --no-embed"),
        (["--preflight-only"], "--preflight-only requires --issue or --mr"),
        (["--retry-failed", "1", "--mr", "1"], "--retry-failed"),
        (["--retry-failed", "1", "--dry-run"], "--dry-run"),
        (["--retry-failed", "0"], "--retry-failed"),
        (["--issue", "1"], "require one"),
        (["--dry-run", "--issue", "1"], "require one"),
        (["--issue", "https://nowhere.test/a/b/-/issues/1"], "no configured host"),
    ],
)
def test_contradicting_flags_are_refused_before_anything_is_opened(desk: Desk, argv: list[str], said: str) -> None:
    assert said in refuse(desk, *argv)["message"]


def test_more_than_a_hundred_items_are_refused(desk: Desk) -> None:
    words = [word for number in range(1, 102) for word in ("--issue", str(number))]
    error = refuse(desk, *words, "-p", LEDGER)
    assert error["message"] == "Too many surgical targets (101). Maximum is 100."
    same = [word for number in range(1, 102) for word in ("--issue", str(number % 3 + 1))]
    assert desk.robot("sync", *same, "-p", LEDGER, "--no-embed").data["requested_count"] == 3


def test_a_surgical_dry_run_opens_nothing_and_sends_no_request(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(desk.folder))
    data = desk.robot("sync", "--dry-run", "--issue", "2", "--mr", f"{CONSOLE}!1", "-p", "ledger", "--no-embed").data
    assert data["dry_run"] is True
    assert [(one["entity_type"], one["iid"], one["reference"], one["source"]) for one in data["targets"]] == [
        ("issue", 2, f"{LEDGER}#2", "gitlab"),
        ("merge_request", 1, f"{CONSOLE}!1", "gitlab"),
    ]
    assert data["stages"] == ["preflight", "ingest", "dependents", "docs"]
    assert not desk.db.exists()
    assert desk.world.requests.total() == 0


def test_a_surgical_dry_run_leaves_the_database_byte_identical(desk: Desk) -> None:
    desk.ingested()
    before, files = desk.db.read_bytes(), sorted(desk.folder.iterdir())
    stamp = desk.db.stat().st_mtime_ns
    asked = desk.world.requests.total()
    said = desk.run("sync", "--dry-run", "--issue", "2", "-p", LEDGER).out
    assert f"{LEDGER}#2 from gitlab" in said
    assert desk.db.read_bytes() == before
    assert desk.db.stat().st_mtime_ns == stamp
    assert sorted(desk.folder.iterdir()) == files
    assert desk.world.requests.total() == asked


def stages(lines: Sequence[str]) -> list[str]:
    return [line.split()[1] for line in lines if line.endswith(" s)")]


def test_a_surgical_sync_prints_a_line_for_each_stage(desk: Desk) -> None:
    done = desk.run("sync", "--issue", "1", "--mr", "1", "-p", LEDGER)
    assert done.code == 0, done
    lines = done.out.splitlines()
    assert stages(lines) == ["preflight", "items", "children", "documents", "embeddings"]
    assert all(line.startswith("✓") and re.search(r"\(\d+\.\d s\)$", line) for line in lines[:5])
    assert "1 issue, 1 MR fetched" in lines[0]
    assert "1 issue, 1 MR stored" in lines[1]
    assert re.fullmatch(r"Run 1: \d+ requests in \d+\.\d s", lines[5])
    assert done.err == ""


def test_a_surgical_sync_prints_failures_and_the_next_command(desk: Desk) -> None:
    done = desk.run("sync", "--issue", "1", "--issue", "98", "--mr", "99", "-p", LEDGER)
    assert done.code == 6
    lines = done.out.splitlines()
    assert lines[0].startswith("⚠ preflight     1 issue fetched")
    assert lines[1].startswith(f"  {LEDGER}#98 fetch: NOT_FOUND, ")
    assert lines[2].startswith(f"  {LEDGER}!99 fetch: NOT_FOUND, ")
    assert lines[3] == "To retry: lore sync --retry-failed 1"
    assert lines[4] == f"or: lore sync --issue '{LEDGER}#1'"
    assert "failed to fetch 2 of 3 items, nothing was stored" in done.err


def test_a_surgical_sync_prints_which_children_are_missing(desk: Desk) -> None:
    desk.world.faults.add("status", re.compile("/issues/1/discussions"), 1, status=500)
    done = desk.run("sync", "--issue", "1", "-p", LEDGER, "--no-embed")
    assert done.code == 7
    assert re.search(r"^⚠ children ", done.out, flags=re.MULTILINE)
    assert f"  {LEDGER}#1 discussions: FETCH_ERROR, the server failed (status 500)" in done.out
    assert "To retry: lore sync --retry-failed 1" in done.out
    assert desk.run("sync", "--retry-failed", "1", "--no-embed").code == 0


def test_a_surgical_sync_uses_the_default_project(desk: Desk) -> None:
    desk.config.write_text(f'default_project = "ledger"\n{desk.config.read_text()}')
    data = desk.robot("sync", "--issue", "1", "--no-embed").data
    assert data["entity_outcomes"][0]["reference"] == f"{LEDGER}#1"


def test_a_normal_sync_works_after_a_surgical_one(desk: Desk) -> None:
    desk.run("sync", "--issue", "1", "-p", LEDGER, "--no-embed")
    data = desk.robot("sync", "--no-embed").data
    assert sum(scope["created"] for scope in data["scopes"]) == 10
    assert desk.query("SELECT COUNT(*) FROM issues") == [(7,)]
    assert desk.query("SELECT mode, status FROM sync_runs ORDER BY id") == [
        ("surgical", "succeeded"),
        ("standard", "succeeded"),
    ]


def test_a_failed_surgical_run_is_shown_with_the_outcome_of_each_item(desk: Desk) -> None:
    desk.world.faults.add("status", re.compile("/issues/2/discussions"), 1, status=500)
    assert desk.run("sync", "--issue", "1", "--issue", "2", "-p", LEDGER, "--no-embed").code == 7
    shown = desk.robot("sync-runs", "show", "1").data
    assert [outcome["completed"] for outcome in shown["entity_outcomes"]] == [True, False]
    assert shown["recovery_actions"] == ["lore sync --retry-failed 1"]
    said = desk.run("sync-runs", "show", "1").out
    assert f"  {LEDGER}#1: stored\n" in said
    assert f"  {LEDGER}#2: stored, but incomplete\n  {LEDGER}#2 discussions: FETCH_ERROR" in said
    assert "outcomes_json" not in said
    (item,) = desk.robot("sync-runs").data["items"]
    assert "outcomes_json" not in item


def test_a_surgical_sync_answers_with_the_documented_fields(desk: Desk) -> None:
    desk.world.faults.add("status", re.compile("/issues/2/discussions"), 1, status=500)
    partial = desk.robot("sync", "--issue", "1", "--issue", "2", "-p", LEDGER).document["data"]
    failed = desk.robot("sync", "--issue", "99", "-p", LEDGER).document["data"]
    desk.query("UPDATE issues SET updated_at = updated_at + 1000000 WHERE iid = 1")
    stale = desk.robot("sync", "--issue", "1", "-p", LEDGER).data
    assert stale["skipped_stale_iids"] == [["issue", 1]]
    compare("sync", partial, failed, stale)
