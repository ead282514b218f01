"""`lore sync` and `lore generate-docs`: every stage, each durable by itself, and a plan that touches nothing."""

from __future__ import annotations

import re
import signal

import pytest
from tests.faces.desk import LEDGER, Desk
from tests.support.deep import gate_cases

from tidelore.cli.main import main
from tidelore.engine.crashpoint import Seam


def talk(desk: Desk) -> None:
    with desk.world.lock:
        forge = desk.world.gitlab
        forge.add_note(forge.issue(LEDGER, 2), body="The zebra crane stops at 40 %.")
        desk.world.advance(3600)


def test_a_sync_runs_every_stage_and_reports_each(desk: Desk) -> None:
    talk(desk)
    done = desk.run("sync")
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert [line.split()[1] for line in lines[:4]] == ["lists", "children", "verification", "documents"]
    assert "11 new, 0 changed" in lines[0]
    assert "1 discussion, 1 note" in lines[1]
    assert "12 written, 0 unchanged, 0 removed" in lines[3]
    assert lines[-1].startswith("Run 1: ")
    assert desk.query("SELECT phase, status, docs_regenerated, docs_embedded, warnings_count FROM sync_runs") == [
        ("done", "succeeded", 12, 12, 0)
    ]


def test_a_second_sync_writes_nothing(desk: Desk) -> None:
    desk.run("sync")
    before = desk.query("SELECT id, generated_at FROM documents ORDER BY id")
    data = desk.robot("sync").data
    assert data["documents"] == {"regenerated": 0, "unchanged": 0, "removed": 0, "failed": 0}
    assert set(data["stage_timings_ms"]) == {"ingest", "dependents", "scrub", "docs", "embed"}
    assert desk.query("SELECT id, generated_at FROM documents ORDER BY id") == before
    assert desk.query("SELECT docs_regenerated, docs_embedded FROM sync_runs WHERE id = 2") == [(0, 0)]


def test_a_sync_answers_with_the_fields_of_ingest_and_more(desk: Desk) -> None:
    of_ingestion = set(desk.robot("ingest", "--type", "issues").data)
    assert set(desk.robot("sync").data) == of_ingestion | {"documents", "embeddings", "stage_timings_ms"}


def test_a_changed_thread_rebuilds_only_its_documents(desk: Desk) -> None:
    desk.run("sync")
    talk(desk)
    data = desk.robot("sync").data
    assert data["documents"]["regenerated"] == 2, "the thread, and the issue it belongs to"


def test_with_no_docs_changed_items_stay_marked(desk: Desk) -> None:
    data = desk.robot("sync", "--no-docs").data
    assert data["documents"] is None
    assert "docs" not in data["stage_timings_ms"]
    assert desk.query("SELECT COUNT(*) FROM dirty_sources") == [(11,)]
    assert desk.robot("generate-docs").data == {"regenerated": 11, "unchanged": 0, "removed": 0, "failed": 0}
    assert desk.query("SELECT COUNT(*) FROM dirty_sources") == [(0,)]


@pytest.mark.parametrize(
    ("flag", "routes"),
    [
        ("--no-events", ("resource_state_events", "resource_label_events", "resource_milestone_events")),
        ("--no-file-changes", ("diffs",)),
        ("--no-status", ("/api/graphql",)),
    ],
)
@gate_cases(1)
def test_disabled_kinds_of_data_are_not_requested(desk: Desk, flag: str, routes: tuple[str, ...]) -> None:
    desk.run("sync")
    asked = [route for route in desk.world.requests if route.endswith(routes)]
    assert len(asked) >= len(routes), "a plain sync asks for them"
    desk.db.unlink()
    desk.world.requests.clear()
    assert desk.run("sync", flag).code == 0
    assert not [route for route in desk.world.requests if route.endswith(routes)]


def test_a_sync_dry_run_opens_nothing_and_sends_no_request(desk: Desk) -> None:
    done = desk.robot("sync", "--dry-run", "--no-docs", "--no-embed")
    assert done.data["dry_run"]
    assert done.data["stages"] == ["ingest", "dependents", "scrub"]
    assert LEDGER in done.data["hosts"][0]["projects"]
    assert not desk.db.exists()
    assert desk.world.requests.total() == 0
    desk.run("sync")
    before, asked = desk.db.read_bytes(), desk.world.requests.total()
    assert "would read" in desk.run("sync", "--dry-run").out
    assert desk.db.read_bytes() == before
    assert desk.world.requests.total() == asked


def test_a_sync_can_be_limited_to_one_project(desk: Desk) -> None:
    data = desk.robot("sync", "-p", "ledger").data
    assert {scope["project"] for scope in data["scopes"]} == {LEDGER}
    assert {scope["surface"] for scope in data["scopes"]} == {"gitlab.issues", "gitlab.merge_requests"}


def test_a_forbidden_project_makes_the_sync_partial_and_the_rest_is_documented(desk: Desk) -> None:
    desk.world.gitlab.forbid_project(LEDGER)
    done = desk.run("sync")
    assert done.code == 7
    assert f"{LEDGER} issues: failed" in done.out
    assert desk.query("SELECT COUNT(*) FROM documents") == [(5,)]


def test_generate_docs_full_rebuilds_missing_and_damaged_documents(desk: Desk) -> None:
    desk.run("sync")
    desk.query("DELETE FROM documents WHERE source_type = 'issue'")
    desk.query("UPDATE documents SET content_hash = x'00' WHERE id = (SELECT MIN(id) FROM documents)")
    assert desk.robot("generate-docs").data["regenerated"] == 0
    assert desk.robot("generate-docs", "--full").data == {"regenerated": 8, "unchanged": 3, "removed": 0, "failed": 0}


def test_generate_docs_before_the_first_sync_is_an_error(desk: Desk) -> None:
    done = desk.robot("generate-docs")
    assert done.code == 6


@pytest.mark.parametrize(
    ("at", "mirrored"), [(Seam.SCOPE_DONE, False), (Seam.DOCUMENTS, True), (Seam.LEASE_RELEASED, True)]
)
@gate_cases(1)
def test_a_sync_interrupted_after_mirroring_counts_as_up_to_date(desk: Desk, at: Seam, mirrored: bool) -> None:
    def interrupt(here: Seam) -> None:
        if here is at:
            signal.raise_signal(signal.SIGINT)

    assert main(["sync", "--config", str(desk.config), "--db", str(desk.db)], seam=interrupt) == 130
    ((status, started_at, mirrored_at, finished_at),) = desk.query(
        "SELECT status, started_at, mirrored_at, finished_at FROM sync_runs"
    )
    assert status == "cancelled"
    assert (desk.robot("count").document["meta"]["synced_at"] is not None) is mirrored
    if mirrored:
        assert started_at <= mirrored_at <= finished_at
        assert desk.robot("sync-runs", "show", "1").data["mirrored_at"] is not None
    else:
        assert mirrored_at is None


def test_a_sync_that_read_no_list_does_not_count_as_up_to_date(desk: Desk) -> None:
    desk.world.faults.add("status", "GET /projects/:id", None, status=500)
    assert desk.run("sync").code == 1
    assert desk.query("SELECT status, mirrored_at FROM sync_runs") == [("failed", None)]
    assert desk.robot("count").document["meta"]["synced_at"] is None


def test_a_sync_whose_lists_failed_says_that_verification_was_skipped(desk: Desk) -> None:
    assert "no stored items yet" in desk.run("sync", "--no-embed").out
    desk.world.faults.add("status", re.compile(r"/projects/\d+/(issues|merge_requests)$"), None, status=500)
    out = desk.run("sync", "--no-embed").out
    assert "no stored items yet" not in out
    assert re.search(r"verification +skipped ", out)


def test_commands_that_read_no_list_do_not_set_the_mirror_time(desk: Desk) -> None:
    desk.run("sync", "--no-embed")
    (synced,) = {desk.robot("count").document["meta"]["synced_at"]}
    for argv in (["scrub"], ["generate-docs"], ["sync", "--issue", "1", "-p", LEDGER, "--no-embed"]):
        assert desk.run(*argv).code == 0
    rows = desk.query("SELECT mirrored_at IS NULL FROM sync_runs ORDER BY id")
    assert rows == [(0,), (1,), (1,), (1,)]
    assert desk.robot("count").document["meta"]["synced_at"] == synced
