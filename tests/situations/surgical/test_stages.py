"""A surgical sync from the items to their vectors: exactly what was named, and nothing of anybody else's."""

from __future__ import annotations

import json
import re

import pytest
from tests.situations.gitlab.bench import PROJECT, Bench, OddWorld, request_of, start_thread
from tests.situations.surgical.theatre import content, last_run, lease_holder, once, operate

from tidelore.engine.crashpoint import Seam
from tidelore_world.wire import Request


def documents(bench: Bench) -> list[str]:
    return sorted(bench.column("SELECT title FROM documents"))


def marks(bench: Bench) -> list[tuple[str, int]]:
    return sorted(bench.query("SELECT source_type, source_id FROM dirty_sources"))


def test_the_named_items_are_stored_with_all_their_children(both: Bench, filled: Bench) -> None:
    data = operate(both, "--issue", "1", "--issue", "3", "--mr", "2").data
    assert both.column("SELECT iid FROM issues ORDER BY iid") == [1, 3]
    assert both.column("SELECT iid FROM merge_requests") == [2]
    assert both.bodies(1, "issues") == ["first word on issue 1"]
    assert both.bodies(2) == ["first word on change 2"]
    assert both.one("SELECT COUNT(*) FROM mr_file_changes") == len(request_of(both.world, 2).diffs) > 0
    assert (data["requested_count"], data["fetched_count"], data["processed_count"]) == (3, 3, 3)
    assert data["completion_status"] == "succeeded"
    assert list(data["stage_timings_ms"]) == ["preflight", "ingest", "dependents", "docs", "embed"]
    assert (data["children"]["discussions"], data["documents"]["regenerated"]) == (3, 6)
    assert data["embeddings"]["embedded"] == 6
    assert all(outcome["completed"] for outcome in data["entity_outcomes"])
    assert marks(both) == []


def test_a_surgical_sync_requests_no_status_and_reads_no_list(filled: Bench) -> None:
    asked = filled.counted(lambda: operate(filled, "--issue", "1", "--no-embed"))
    assert set(asked) == {
        ":id", "issues", "discussions", "resource_state_events", "resource_label_events", "resource_milestone_events",
    }  # fmt: skip
    assert filled.query("SELECT * FROM cursors") == []


@pytest.mark.parametrize(
    ("flag", "kinds"),
    [("--no-events", ("resource_state_events",)), ("--no-file-changes", ("diffs",))],
)
def test_disabled_kinds_of_children_are_not_read(filled: Bench, flag: str, kinds: tuple[str, ...]) -> None:
    asked = filled.counted(lambda: operate(filled, "--mr", "1", "--no-embed"))
    assert all(asked[kind] for kind in kinds)
    asked = filled.counted(lambda: operate(filled, "--mr", "1", "--no-embed", flag))
    assert not any(asked[kind] for kind in kinds)


def test_closed_and_already_stored_issues_are_updated(filled: Bench) -> None:
    assert filled.run("sync", "--no-embed").code == 0
    filled.world.gitlab.close_issue(PROJECT, 1)
    filled.world.gitlab.edit_issue(PROJECT, 2, title="Crane, renamed")
    filled.world.advance(3600)
    data = operate(filled, "--issue", "1", "--issue", "2", "--no-embed").data
    assert filled.query("SELECT iid, state, title FROM issues WHERE iid < 3 ORDER BY iid") == [
        (1, "closed", "Crane 1"),
        (2, "opened", "Crane, renamed"),
    ]
    assert data["processed_count"] == 2


def test_a_later_list_walk_finds_surgically_stored_items_unchanged(filled: Bench) -> None:
    operate(filled, "--issue", "1", "--issue", "2", "--mr", "1", "--no-embed")
    assert filled.mirror("issues")["replayed"] == 2
    assert filled.mirror("merge_requests")["replayed"] == 1
    assert filled.one("SELECT COUNT(*) FROM issues") == 4


def test_children_that_were_already_synced_are_read_again(filled: Bench) -> None:
    """A note that no `updated_at` tells of."""
    filled.mirror("issues")
    note = filled.world.gitlab.issue(PROJECT, 1).discussions[0].notes[0]
    note.body = "said otherwise"
    data = operate(filled, "--issue", "1", "--no-embed").data
    assert data["children"]["discussions"] == 1
    assert filled.bodies(1, "issues") == ["said otherwise"]


def test_surgical_docs_scope_ignores_preexisting_dirty_rows(filled: Bench) -> None:
    filled.mirror("issues")
    before = marks(filled)
    assert len(before) == 8, "four issues and their threads wait for `generate-docs`"
    ours = filled.query("SELECT 'issue', id FROM issues WHERE iid = 2")
    ours += filled.query(
        "SELECT 'discussion', d.id FROM discussions d JOIN issues i ON i.id = d.issue_id WHERE i.iid = 2"
    )
    data = operate(filled, "--issue", "2", "--no-embed").data
    assert data["documents"]["regenerated"] == 2
    assert marks(filled) == sorted(set(before) - set(ours))
    assert documents(filled) == ["Crane 2", "Crane 2"]


def test_surgical_docs_scope_ignores_preexisting_dirty_rows_for_same_entity(filled: Bench) -> None:
    """A mark that an earlier run left for the same item is answered, and becomes neither two documents nor none."""
    operate(filled, "--issue", "2", "--no-docs", "--no-embed")
    assert len(marks(filled)) == 2
    data = operate(filled, "--issue", "2", "--no-embed").data
    assert data["documents"] == {"regenerated": 2, "unchanged": 0, "removed": 0, "failed": 0}
    assert marks(filled) == []
    data = operate(filled, "--issue", "2", "--no-embed").data
    assert data["documents"] == {"regenerated": 0, "unchanged": 2, "removed": 0, "failed": 0}


def test_the_document_of_a_deleted_thread_is_deleted(filled: Bench) -> None:
    operate(filled, "--issue", "2", "--no-embed")
    issue = filled.world.gitlab.issue(PROJECT, 2)
    filled.world.gitlab.delete_note(issue, issue.discussions[0].notes[0])
    data = operate(filled, "--issue", "2", "--no-embed").data
    assert data["documents"]["removed"] == 1
    assert documents(filled) == ["Crane 2"]
    assert marks(filled) == []


def test_with_no_docs_the_dirty_marks_stay_for_later(filled: Bench) -> None:
    data = operate(filled, "--issue", "2", "--no-docs", "--no-embed").data
    assert (data["documents"], data["embeddings"]) == (None, None)
    assert len(marks(filled)) == 2
    assert filled.robot("generate-docs").data["regenerated"] == 2


def test_scoped_embed_does_not_embed_unrelated_docs_created_after_docs_stage(filled: Bench) -> None:
    filled.mirror("issues")

    def document_the_others() -> None:
        # In a process of its own, and only because the lease is free by then.
        assert filled.spawn("generate-docs").code == 0

    done = operate(filled, "--issue", "1", seam=once(Seam.LEASE_RELEASED, document_the_others))
    assert done.data["embeddings"]["embedded"] == 2
    assert len(documents(filled)) == 8
    embedded = filled.column(
        "SELECT DISTINCT d.title FROM documents d JOIN embeddings e ON e.document_id = d.id ORDER BY d.title"
    )
    assert embedded == ["Crane 1"]
    assert last_run(filled, "id")[0] > done.data["run_id"]
    assert filled.query(f"SELECT docs_regenerated, docs_embedded FROM sync_runs WHERE id = {done.data['run_id']}") == [
        (2, 2)
    ]


def test_a_missing_embedder_is_a_warning(filled: Bench) -> None:
    filled.config.write_text(
        filled.config.read_text() + '[embedding]\nprovider = "ollama"\nbase_url = "http://127.0.0.1:9"\n'
    )
    done = operate(filled, "--issue", "1")
    assert done.code == 0
    assert done.data["completion_status"] == "succeeded_with_warnings"
    assert done.data["embeddings"]["notice"]
    assert last_run(filled, "status", "warnings_count", "docs_embedded") == ("succeeded", 1, 0)


def test_preflight_success_then_ingest_failure_rolls_back_all_content_writes(filled: Bench) -> None:
    operate(filled, "--mr", "1", "--no-embed")
    filled.query(
        "CREATE TRIGGER no_third BEFORE INSERT ON issues WHEN NEW.iid = 3 BEGIN SELECT RAISE(ABORT, 'no third'); END"
    )
    before = content(filled)
    done = operate(filled, "--issue", "1", "--issue", "2", "--issue", "3", "--mr", "1")
    assert done.code == 8
    assert content(filled) == before
    assert lease_holder(filled) is None
    status, phase, ingested, error = last_run(filled, "status", "phase", "issues_ingested", "error")
    assert (status, phase, ingested) == ("failed", "failed", 0)
    assert "no third" in error
    assert done.document["data"]["completion_status"] == "failed"
    filled.query("DROP TRIGGER no_third")
    assert operate(filled, "--retry-failed", "2", "--no-embed").data["processed_count"] == 4


def test_dependent_timeout_records_entity_failure_and_continues(filled: Bench) -> None:
    filled.set_up("surgical_entity_timeout_seconds = 0.4", "dependent_concurrency = 4")
    slow = filled.world.faults.add("slow", re.compile(r"/issues/2/discussions"), None, seconds=3)
    done = operate(filled, "--issue", "1", "--issue", "2", "--mr", "1", "--no-embed")
    assert slow.fired
    assert done.code == 7
    data = done.document["data"]
    (failure,) = data["entity_failures"]
    assert (failure["reference"], failure["stage"], failure["code"]) == (f"{PROJECT}#2", "discussions", "TIMEOUT")
    assert (data["completion_status"], data["processed_count"]) == ("succeeded_with_warnings", 2)
    assert data["recovery_actions"] == ["lore sync --retry-failed 1"]
    assert filled.bodies(1, "issues") == ["first word on issue 1"]
    assert filled.bodies(2, "issues") == []
    assert filled.bodies(1) == ["first word on change 1"]
    assert last_run(filled, "status", "phase", "warnings_count") == ("partial", "done", 1)
    assert filled.watermark(1, "issues") is not None
    assert filled.watermark(2, "issues") is None
    assert filled.watermark(2, "issues", "resource_events") is not None
    filled.world.faults.clear()
    filled.mirror("issues")
    assert filled.bodies(2, "issues") == ["first word on issue 2"], "it stayed due, and a plain run completes it"


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("resource_label_events", "resource_events"),
        ("closes_issues", "mr_closes_issues"),
        ("diffs", "mr_diffs"),
        ("reviewers", "mr_reviewers"),
    ],
)
def test_a_failing_kind_of_child_is_reported_and_the_others_are_read(filled: Bench, path: str, stage: str) -> None:
    filled.set_up("verify_reviewers = true")
    filled.world.faults.add("status", re.compile(f"/merge_requests/1/{path}"), None, status=500)
    done = operate(filled, "--mr", "1", "--mr", "2", "--no-embed")
    assert done.code == 7
    assert done.error["code"] == "PARTIAL_SUCCESS"
    (failure,) = done.document["data"]["entity_failures"]
    assert (failure["reference"], failure["stage"], failure["code"]) == (f"{PROJECT}!1", stage, "FETCH_ERROR")
    assert "500" in failure["message"]
    assert filled.bodies(1) == ["first word on change 1"]
    assert done.document["data"]["processed_count"] == 1


def test_a_thread_that_cannot_be_parsed_is_reported_and_its_stored_rows_are_kept(filled: Bench) -> None:
    assert isinstance(filled.world, OddWorld)
    operate(filled, "--issue", "1", "--no-embed")
    filled.world.rewrite(r"/issues/1/discussions$", lambda threads: [thread | {"notes": 5} for thread in threads])
    done = operate(filled, "--issue", "1", "--no-embed")
    (failure,) = done.document["data"]["entity_failures"]
    assert (done.code, failure["code"]) == (7, "UNREADABLE")
    assert filled.bodies(1, "issues") == ["first word on issue 1"]


def test_credentials_rejected_half_way_stop_the_children_and_keep_the_items(filled: Bench) -> None:
    filled.set_up("dependent_concurrency = 1")
    fault = filled.world.faults.add("status", re.compile(r"/issues/\d+/"), None, after=1, status=401)
    done = operate(filled, "--issue", "1", "--issue", "2", "--no-embed")
    assert fault.fired == 1, "one refusal is enough"
    assert done.code == 7
    assert {failure["code"] for failure in done.document["data"]["entity_failures"]} == {"AUTH_FAILED"}
    assert len(done.document["data"]["entity_failures"]) == 3
    assert filled.one("SELECT COUNT(*) FROM issues") == 2


def test_an_item_deleted_while_its_children_are_read_is_tombstoned_and_reported(filled: Bench) -> None:
    def delete(request: Request) -> None:
        if request.path.endswith("/issues/1/discussions"):
            filled.world.before_request.remove(delete)
            filled.world.gitlab.delete_issue(PROJECT, 1)

    filled.world.before_request.append(delete)
    done = operate(filled, "--issue", "1", "--issue", "2", "--no-embed")
    assert done.code == 7
    failures = done.document["data"]["entity_failures"]
    assert ("discussions", "NOT_FOUND") in {(failure["stage"], failure["code"]) for failure in failures}
    assert {failure["reference"] for failure in failures} == {f"{PROJECT}#1"}
    assert filled.query("SELECT iid, deleted_at IS NULL FROM issues ORDER BY iid") == [(1, 0), (2, 1)]
    assert documents(filled) == ["Crane 2", "Crane 2"]


def test_children_read_before_their_parent_settled_stay_due(filled: Bench) -> None:
    start_thread(filled.world, filled.world.gitlab.issue(PROJECT, 1), "just said")
    operate(filled, "--issue", "1", "--no-embed")
    assert filled.bodies(1, "issues") == ["first word on issue 1", "just said"]
    assert filled.watermark(1, "issues") is None
    filled.world.advance(3600)
    operate(filled, "--issue", "1", "--no-embed")
    assert filled.watermark(1, "issues") is not None


def test_sync_run_is_persisted_and_updated(filled: Bench) -> None:
    seen: list[tuple[Seam, str, str]] = []

    def watch(seam: Seam) -> None:
        if seam in {Seam.RUN_STARTED, Seam.AFTER_PREFLIGHT, Seam.LEASE_ACQUIRED, Seam.DOCUMENTS, Seam.LEASE_RELEASED}:
            status, phase = last_run(filled, "status", "phase")
            seen.append((seam, status, phase))

    done = operate(filled, "--issue", "1", "--mr", "2", seam=watch)
    assert seen == [
        (Seam.RUN_STARTED, "running", "preflight"),
        (Seam.AFTER_PREFLIGHT, "running", "preflight"),
        (Seam.LEASE_ACQUIRED, "running", "preflight"),
        (Seam.DOCUMENTS, "running", "docs"),
        (Seam.LEASE_RELEASED, "running", "docs"),
    ]
    assert last_run(
        filled, "mode", "status", "phase", "command", "issues_fetched", "mrs_fetched", "issues_ingested",
        "mrs_ingested", "skipped_stale", "docs_regenerated", "docs_embedded", "warnings_count", "requests",
    ) == ("surgical", "succeeded", "done", "lore sync", 1, 1, 1, 1, 0, 4, 4, 0, done.data["requests"])  # fmt: skip
    iids, outcomes = last_run(filled, "surgical_iids_json", "outcomes_json")
    assert json.loads(iids) == {"issues": [1], "mrs": [2]}
    assert json.loads(outcomes) == done.data["entity_outcomes"]
    assert last_run(filled, "finished_at")[0] is not None


def test_a_surgical_sync_does_not_claim_that_the_copy_is_up_to_date(filled: Bench) -> None:
    assert operate(filled, "--issue", "1", "--no-embed").document["meta"]["synced_at"] is None
    filled.mirror("issues")
    synced_at = filled.robot("count", "issues").document["meta"]["synced_at"]
    assert synced_at is not None
    assert filled.run("generate-docs").code == 0
    assert operate(filled, "--issue", "1", "--no-embed").document["meta"]["synced_at"] == synced_at
