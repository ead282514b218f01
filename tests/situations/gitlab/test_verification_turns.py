"""A list that cannot be verified, because it is hidden or refused, does not use up the verification of the others."""

from __future__ import annotations

import re

import pytest
from tests.situations.gitlab.bench import DAY, PROJECT, Bench

from tidelore_world.faults import Fault

OTHER = "harbor/other"


@pytest.fixture
def two_projects(bench: Bench) -> Bench:
    bench.set_up("scrub_share = 0.02")
    settings = bench.config.read_text()
    bench.config.write_text(settings.replace(f'["{PROJECT}"]', f'["{PROJECT}", "{OTHER}"]'))
    gitlab = bench.world.gitlab
    gitlab.create_project(OTHER)
    for project in (PROJECT, OTHER):
        gitlab.bulk(project, issues=3, merge_requests=3, discussions=1, notes=1)
    bench.world.advance(DAY)
    sync(bench, 10)
    return bench


def sync(bench: Bench, times: int) -> None:
    for _ in range(times):
        bench.world.advance(DAY)
        bench.robot("sync", "--no-docs")


def fail_list(bench: Bench, status: int) -> Fault:
    """Let the list of merge requests of the first project, and what is below it if it is refused, fail."""
    project_id = next(one.id for one in bench.world.gitlab.projects.values() if one.path == PROJECT)
    below = r"\b" if status == 403 else "$"
    route = re.compile(rf"/projects/{project_id}/merge_requests{below}")
    return bench.world.faults.add("status", route, times=None, status=status)


def live(bench: Bench, table: str, project: str) -> list[int]:
    return bench.column(
        f"SELECT i.iid FROM {table} i JOIN projects p ON p.id = i.project_id"
        f" WHERE i.deleted_at IS NULL AND p.path = '{project}' ORDER BY i.iid"
    )


@pytest.mark.parametrize("what", ["issues", "merge_requests", "refused"])
def test_deletions_are_found_in_other_lists_while_one_is_hidden_or_refused(two_projects: Bench, what: str) -> None:
    bench, gitlab = two_projects, two_projects.world.gitlab
    fault = fail_list(bench, 403) if what == "refused" else None
    if fault is None:
        gitlab.switch_off(PROJECT, "issues" if what == "issues" else "merge_requests")
    sync(bench, 10)
    gitlab.delete_issue(OTHER, 2)
    gitlab.delete_merge_request(OTHER, 2)
    note = gitlab.merge_request(OTHER, 1).discussions[0].notes[0]
    gitlab.delete_note(gitlab.merge_request(OTHER, 1), note)
    sync(bench, 30)
    assert fault is None or fault.fired
    assert live(bench, "issues", OTHER) == live(bench, "merge_requests", OTHER) == [1, 3]
    assert bench.column(f"SELECT remote_id FROM notes WHERE remote_id = {note.id}") == []
    assert live(bench, "issues", PROJECT) == live(bench, "merge_requests", PROJECT) == [1, 2, 3]


def test_a_list_that_is_shown_again_is_verified_again(two_projects: Bench) -> None:
    bench, gitlab = two_projects, two_projects.world.gitlab
    gitlab.switch_off(PROJECT, "issues")
    sync(bench, 20)
    gitlab.switch_off(PROJECT, "issues", off=False)
    gitlab.delete_issue(PROJECT, 2)
    sync(bench, 10)
    assert live(bench, "issues", PROJECT) == [1, 3]
    began_at = bench.one("SELECT MAX(last_attempt_at) FROM child_sync")
    bench.robot("scrub", "--all")
    children = "SELECT MIN(last_attempt_at) FROM child_sync WHERE parent_kind = 'issues' AND kind = 'discussions'"
    assert bench.one(children) > began_at


def test_children_are_verified_although_the_server_fails_to_list_their_items(two_projects: Bench) -> None:
    bench, gitlab = two_projects, two_projects.world.gitlab
    fault = fail_list(bench, 503)
    note = gitlab.merge_request(PROJECT, 1).discussions[0].notes[0]
    gitlab.delete_note(gitlab.merge_request(PROJECT, 1), note)
    for _ in range(10):
        bench.world.advance(DAY)
        bench.robot("scrub", "--budget", "20")
    assert fault.fired
    assert bench.column(f"SELECT remote_id FROM notes WHERE remote_id = {note.id}") == []
