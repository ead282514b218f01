"""The truth about children equals what the API shows, also under the options that hide something."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.world.asking import PATH, PROJECT, get, project_world, walk

from tidelore_world.gitlab.state import Kind
from tidelore_world.gitlab.truth import Family
from tidelore_world.world import World

KINDS: tuple[Kind, ...] = ("issues", "merge_requests")
FAMILIES: tuple[Family, ...] = ("state", "label", "milestone")


@pytest.fixture(scope="module")
def world() -> World:
    made = World()
    made.gitlab.populate(0.3)
    made.gitlab.change(60, random.Random(4), advance=made.advance)
    return made


def _asked(world: World, kind: Kind, name: str) -> dict[str, dict[int, list[Any]]]:
    return {
        project.path: {
            iid: walk(world, f"/api/v4/projects/{project.id}/{kind}/{iid}/{name}?per_page=100")
            for iid in sorted(project.shelf(kind).by_iid)
        }
        for project in world.gitlab.projects.values()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_true_discussions_of_a_project_equal_the_api(world: World, kind: Kind) -> None:
    for path, shown in _asked(world, kind, "discussions").items():
        assert world.gitlab.truth_all_discussions(kind, path) == shown
        assert any(shown.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_true_events_of_a_project_equal_the_api(world: World, kind: Kind, family: Family) -> None:
    for path, shown in _asked(world, kind, f"resource_{family}_events").items():
        assert world.gitlab.truth_all_events(kind, path, family) == shown


def test_the_true_files_closed_issues_and_reviewers_of_a_project_equal_the_api(world: World) -> None:
    forge = world.gitlab
    for name, truth in (
        ("diffs", forge.truth_all_diffs),
        ("closes_issues", forge.truth_all_closes),
        ("reviewers", forge.truth_all_reviewers),
    ):
        for path, shown in _asked(world, "merge_requests", name).items():
            assert truth(path) == shown
            assert any(shown.values())


def test_items_without_children_have_an_empty_entry_in_the_truth() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=2, merge_requests=1)
    assert world.gitlab.truth_all_discussions("issues", PATH) == {1: [], 2: []}
    assert world.gitlab.truth_all_reviewers(PATH) == {1: []}


def test_lists_may_omit_reviewers_that_their_own_endpoint_returns() -> None:
    world = project_world()
    world.gitlab.create_merge_request(PATH, reviewers=["ada", "lin"])
    shown = get(world, f"{PROJECT}/merge_requests")[0]["reviewers"]
    assert [user["username"] for user in shown] == ["ada", "lin"]
    world.gitlab.list_omits_reviewers = True
    rows = get(world, f"{PROJECT}/merge_requests")
    assert rows[0]["reviewers"] == []
    assert world.gitlab.truth_merge_requests(PATH) == rows
    told = get(world, f"{PROJECT}/merge_requests/1/reviewers")
    assert [row["user"]["username"] for row in told] == ["ada", "lin"]
    assert world.gitlab.truth_reviewers(PATH, 1) == told
    assert len(get(world, f"{PROJECT}/merge_requests/1")["reviewers"]) == 2
    world.gitlab.list_omits_reviewers = False
    assert get(world, f"{PROJECT}/merge_requests")[0]["reviewers"] == shown
