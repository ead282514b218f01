"""Issues or merge requests that a project's settings switch off: hidden, not deleted, and no failure."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
from tests.situations.gitlab.bench import DAY, PROJECT, Bench

Kind = Literal["issues", "merge_requests"]


def live(bench: Bench, kind: Kind) -> list[int]:
    return [int(iid) for iid in bench.column(f"SELECT iid FROM {kind} WHERE deleted_at IS NULL ORDER BY iid")]


def run(bench: Bench, *command: str) -> None:
    outcome = bench.robot(*command)
    assert outcome.code == 0, outcome.out


@pytest.mark.parametrize("kind", ["issues", "merge_requests"])
def test_what_a_project_switches_off_is_kept_and_goes_on_when_it_is_switched_on(bench: Bench, kind: Kind) -> None:
    gitlab = bench.world.gitlab
    bench.set_up()
    gitlab.bulk(PROJECT, issues=3, merge_requests=3, discussions=1, notes=1)
    bench.world.advance(DAY)
    run(bench, "sync", "--no-docs")
    gitlab.switch_off(PROJECT, kind)
    for _ in range(2):
        bench.world.advance(DAY)
        run(bench, "sync", "--no-docs")
        run(bench, "scrub", "--all")
    assert live(bench, "issues") == live(bench, "merge_requests") == [1, 2, 3]
    gitlab.switch_off(PROJECT, kind, off=False)
    gitlab.bulk(PROJECT, issues=int(kind == "issues"), merge_requests=int(kind == "merge_requests"))
    bench.world.advance(DAY)
    run(bench, "sync", "--no-docs")
    run(bench, "scrub", "--all")
    assert live(bench, kind) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["issues", "merge_requests"])
def test_a_project_that_begins_with_a_list_switched_off_is_mirrored_when_it_is_switched_on(
    bench: Bench, kind: Kind
) -> None:
    gitlab = bench.world.gitlab
    bench.set_up()
    gitlab.bulk(PROJECT, issues=2, merge_requests=2)
    gitlab.switch_off(PROJECT, kind)
    bench.world.advance(DAY)
    for _ in range(2):
        run(bench, "sync", "--no-docs")
    assert live(bench, kind) == []
    gitlab.switch_off(PROJECT, kind, off=False)
    bench.world.advance(DAY)
    run(bench, "sync", "--no-docs")
    assert live(bench, "issues") == live(bench, "merge_requests") == [1, 2]


def test_statuses_of_issues_that_are_switched_off_are_kept_and_read_afterwards(bench: Bench) -> None:
    gitlab = bench.world.gitlab
    bench.set_up()
    gitlab.bulk(PROJECT, issues=2)
    for iid in (1, 2):
        gitlab.set_status(PROJECT, iid, "In progress")
    bench.world.advance(DAY)
    run(bench, "sync", "--no-docs")
    gitlab.set_status(PROJECT, 1, "Done")
    gitlab.add_note(gitlab.issue(PROJECT, 1), "it is done")
    bench.world.advance(DAY)
    run(bench, "sync", "--no-docs", "--no-status")
    gitlab.switch_off(PROJECT, "issues")
    run(bench, "sync", "--no-docs")
    assert bench.column("SELECT status_name FROM issues ORDER BY iid") == ["In progress", "In progress"]
    gitlab.switch_off(PROJECT, "issues", off=False)
    run(bench, "sync", "--no-docs")
    assert bench.column("SELECT status_name FROM issues ORDER BY iid") == ["Done", "In progress"]


def as_shown_to(bench: Bench, **fields: object) -> None:
    """Change how the project describes itself; None leaves a field out."""

    def change(project: Any) -> Any:
        return {name: value for name, value in {**project, **fields}.items() if value is not None}

    bench.world.rewrite(r"/projects/[^/]+$", change)


def test_what_is_switched_off_is_kept_where_the_project_does_not_say_so(bench: Bench) -> None:
    """Without a token, a project does not show its settings."""
    bench.set_up()
    bench.world.gitlab.bulk(PROJECT, issues=3)
    as_shown_to(bench, issues_enabled=None, issues_access_level=None)
    bench.world.advance(DAY)
    run(bench, "sync", "--no-docs")
    bench.world.gitlab.switch_off(PROJECT, "issues")
    run(bench, "sync", "--no-docs")
    run(bench, "scrub", "--all")
    assert live(bench, "issues") == [1, 2, 3]


def test_deletions_are_found_in_a_list_that_the_project_says_to_hide_and_shows(bench: Bench) -> None:
    bench.set_up()
    bench.world.gitlab.bulk(PROJECT, issues=3)
    as_shown_to(bench, issues_enabled=False)
    bench.world.advance(DAY)
    run(bench, "sync", "--no-docs")
    bench.world.gitlab.delete_issue(PROJECT, 2)
    run(bench, "scrub", "--all")
    assert live(bench, "issues") == [1, 3]


def test_a_list_that_is_refused_although_it_is_switched_on_is_a_failure(bench: Bench) -> None:
    bench.set_up()
    bench.world.gitlab.bulk(PROJECT, issues=1, merge_requests=1)
    bench.world.faults.add("status", re.compile(r"/merge_requests\b"), times=None, status=403)
    assert bench.try_mirror("merge_requests").code != 0
