"""What is left of a run is repeated, items of several projects go together, and nobody else pays for them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import apsw
import pytest
from benchmarks.multiply import multiply
from tests.situations.gitlab.bench import PROJECT, Bench, OddWorld
from tests.situations.surgical.theatre import content, last_run, operate, spent
from tests.support.deep import deep

from tidelore_world.server import serve
from tidelore_world.world import World

QUAY = "harbor/platform/quay"


def test_retry_repeats_only_items_that_could_not_be_fetched(filled: Bench) -> None:
    filled.world.faults.add("status", "GET /projects/:id/merge_requests", 2, status=500)
    done = operate(filled, "--issue", "1", "--mr", "1", "--mr", "2")
    assert done.code == 1
    data = operate(filled, "--retry-failed", "1", "--no-embed").data
    assert [outcome["reference"] for outcome in data["entity_outcomes"]] == [f"{PROJECT}!1", f"{PROJECT}!2"]
    assert data["processed_count"] == 2
    assert filled.column("SELECT COUNT(*) FROM issues") == [0]


def test_retry_repeats_only_the_item_whose_children_failed(filled: Bench) -> None:
    filled.world.faults.add("status", re.compile("/issues/2/discussions"), 1, status=500)
    assert operate(filled, "--issue", "1", "--issue", "2", "--no-embed").code == 7
    asked = filled.counted(lambda: operate(filled, "--retry-failed", "1", "--no-embed"))
    assert asked == {
        "issues": 1, "discussions": 1, "resource_state_events": 1, "resource_label_events": 1,
        "resource_milestone_events": 1,
    }  # fmt: skip
    assert filled.bodies(2, "issues") == ["first word on issue 2"]
    assert last_run(filled, "status", "warnings_count") == ("succeeded", 0)


def test_retry_of_a_run_without_failures_says_so(filled: Bench) -> None:
    operate(filled, "--issue", "1", "--no-embed")
    before = content(filled)
    asked = filled.world.requests.total()
    done = filled.run("sync", "--retry-failed", "1")
    assert (done.code, done.out) == (0, "Run 1: nothing to retry.\n")
    assert (content(filled), filled.world.requests.total()) == (before, asked)
    assert last_run(filled, "id") == (1,)


@pytest.mark.parametrize(("run", "code"), [("99", 6), ("1", 2), ("2", 2)])
def test_retry_of_a_run_that_cannot_be_repeated_is_refused_with_a_fix(filled: Bench, run: str, code: int) -> None:
    filled.mirror("issues")
    operate(filled, "--issue", "1", "--no-embed")
    filled.query("UPDATE sync_runs SET status = 'running', finished_at = NULL WHERE id = 2")
    done = operate(filled, "--retry-failed", run)
    assert done.code == code
    assert done.error["fix"]


def test_retry_names_a_host_that_is_no_longer_configured(filled: Bench) -> None:
    operate(filled, "--issue", "999")
    filled.config.write_text(filled.config.read_text().replace("[[gitlab]]", '[[gitlab]]\nname = "renamed"'))
    done = operate(filled, "--retry-failed", "1")
    assert done.code == 2
    assert "'gitlab'" in done.error["message"]


@pytest.fixture
def quay(filled: Bench) -> Bench:
    """A second project, its item as old as the others."""
    filled.world.gitlab.create_project(QUAY)
    filled.world.gitlab.create_issue(QUAY, title="Quay wall")
    filled.world.advance(3600)
    filled.config.write_text(filled.config.read_text().replace(f'["{PROJECT}"]', f'["{PROJECT}", "{QUAY}"]'))
    return filled


def test_items_of_two_projects_are_stored_together_or_not_at_all(quay: Bench) -> None:
    done = operate(quay, "--issue", "1", "--issue", f"{QUAY}#999")
    assert done.code == 6
    assert quay.query("SELECT path FROM projects") == []
    data = operate(quay, "--issue", "1", "--issue", f"{QUAY}#1", "--mr", "2", "--no-embed").data
    assert data["processed_count"] == 3
    assert quay.query("SELECT p.path, i.title FROM issues i JOIN projects p ON p.id = i.project_id ORDER BY 1") == [
        (PROJECT, "Crane 1"),
        (QUAY, "Quay wall"),
    ]


def test_an_item_of_a_group_project_that_is_not_stored_yet_can_be_synced(quay: Bench) -> None:
    quay.config.write_text(
        f'[[gitlab]]\nbase_url = "{quay.url}"\ngroups = ["harbor/platform"]\n[http]\nmax_retries = 0\n'
    )
    asked = quay.counted(lambda: operate(quay, "--issue", f"{QUAY}#1", "--no-embed"))
    assert asked[":id"] == 1
    assert "projects" not in asked, "the group is not listed"
    assert quay.query("SELECT path, configured FROM projects") == [(QUAY, QUAY)]
    assert operate(quay, "--issue", "elsewhere/quay#1").code == 6
    assert operate(quay, "-p", "quay", "--issue", "1", "--no-embed").data["processed_count"] == 1


def test_items_of_two_hosts_can_be_combined_and_are_distinguished_by_address(filled: Bench) -> None:
    other = World()
    other.gitlab.create_project(PROJECT)
    other.gitlab.create_issue(PROJECT, title="of the other host")
    other.advance(3600)
    with serve(other) as server:
        second = f'[[gitlab]]\nname = "other"\nbase_url = "{server.url}"\nprojects = ["{PROJECT}"]\n'
        filled.config.write_text(second + filled.config.read_text())
        assert operate(filled, "--issue", "1").code == 2, "the path alone is ambiguous"
        here, there = (f"{url}/{PROJECT}/-/issues/1" for url in (filled.url, server.url))
        data = operate(filled, "--issue", here, "--issue", there, "--no-embed").data
        assert data["processed_count"] == 2
        assert filled.query(
            "SELECT p.source, i.title FROM issues i JOIN projects p ON p.id = i.project_id ORDER BY 1"
        ) == [("gitlab", "Crane 1"), ("other", "of the other host")]
        done = operate(filled, "--issue", "http://127.0.0.1:1/x/y/-/issues/1")
        assert done.code == 2
        assert server.url in done.error["fix"]


@pytest.mark.parametrize("size", [20, deep(2000)])
def test_five_items_cost_the_same_requests_in_a_project_of_any_size(world: OddWorld, bench: Bench, size: int) -> None:
    world.gitlab.bulk(PROJECT, issues=size // 2, merge_requests=size // 2)
    world.advance(3600)
    items = ("--issue", "1", "--issue", "5", "--issue", str(size // 2), "--mr", "2", "--mr", str(size // 2))
    first = spent(bench, lambda: operate(bench, *items, "--no-embed"))
    again = spent(bench, lambda: operate(bench, *items, "--no-embed"))
    assert first - again == {"": 1}, "the project is asked for once"
    events = ("resource_state_events", "resource_label_events", "resource_milestone_events")
    of_each = {f"/issues/:iid/{child}": 3 for child in ("discussions", *events)}
    of_each |= {f"/merge_requests/:iid/{child}": 2 for child in ("discussions", *events, "closes_issues", "diffs")}
    assert again == {"/issues": 3, "/merge_requests": 2, **of_each}
    assert last_run(bench, "requests") == (29,)


@pytest.mark.deep
def test_five_items_cost_the_same_database_steps_with_any_content(
    filled: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refresh(title: str) -> Counter[str]:
        for iid in (1, 2, 3):
            filled.world.gitlab.edit_merge_request(PROJECT, iid, title=title)
        filled.world.advance(60)
        steps: Counter[str] = Counter()
        with monkeypatch.context() as patch:
            patch.setattr(apsw, "connection_hooks", [lambda connection: count_steps(connection, steps)])
            data = operate(filled, "--issue", "1", "--issue", "2", "--mr", "1", "--mr", "2", "--mr", "3").data
        assert data["documents"]["regenerated"] == data["embeddings"]["embedded"] == 6
        return steps

    assert filled.run("sync").code == 0
    few = refresh("First")
    multiply(filled.db, 200)
    assert filled.run("generate-docs", "--full").code == 0
    assert filled.run("embed").code == 0
    assert filled.query("SELECT COUNT(*) FROM documents") == [(1208,)]
    many = refresh("Other")
    assert many["scanned"] == few["scanned"]
    assert many["steps"] <= few["steps"] * 1.1


def count_steps(connection: apsw.Connection, steps: Counter[str]) -> None:
    """Count what the database does for each statement: steps of its machine, and rows of tables it reads whole."""

    def ended(event: dict[str, Any]) -> None:
        if "'main'.'documents_" in event["sql"]:
            return  # the full-text index merges its parts when it is their turn, whoever writes then
        status = event["stmt_status"]
        steps["steps"] += status["SQLITE_STMTSTATUS_VM_STEP"]
        steps["scanned"] += status["SQLITE_STMTSTATUS_FULLSCAN_STEP"]

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, ended)
