"""Changes that happen only when they are asked for by name."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from tests.world.asking import PATH, project_world

from tidelore_world.gitlab.actions import EVERYDAY, ON_REQUEST
from tidelore_world.world import World


@pytest.fixture
def world() -> World:
    made = project_world()
    made.gitlab.bulk(PATH, issues=8, merge_requests=8, discussions=2, notes=2, events=1, files=2)
    return made


def _change(world: World, kind: str, count: int = 6, seed: int = 1) -> list[dict[str, Any]]:
    done = world.gitlab.change(count, random.Random(seed), [kind], advance=world.advance)
    assert {entry["kind"] for entry in done} == {kind}
    return done


def _updated(world: World) -> Mapping[tuple[str, int], str]:
    forge = world.gitlab
    rows = [("issues", row) for row in forge.truth_issues(PATH)]
    rows += [("merge_requests", row) for row in forge.truth_merge_requests(PATH)]
    return {(kind, row["iid"]): row["updated_at"] for kind, row in rows}


def test_random_changes_use_only_the_everyday_kinds_by_default(world: World) -> None:
    done = world.gitlab.change(150, random.Random(2), advance=world.advance)
    assert {entry["kind"] for entry in done} <= set(EVERYDAY)
    assert not set(EVERYDAY) & set(ON_REQUEST)


@pytest.mark.parametrize("kind", [*EVERYDAY, *ON_REQUEST])
def test_every_kind_of_change_can_be_applied(world: World, kind: str) -> None:
    world.gitlab.close_issue(PATH, 1)
    world.gitlab.close_merge_request(PATH, 1)
    assert len(_change(world, kind, count=1)) == 1


def test_a_note_on_a_recently_updated_item_does_not_change_its_updated_at(world: World) -> None:
    for number in range(1, 9):
        world.gitlab.edit_issue(PATH, number)
        world.gitlab.edit_merge_request(PATH, number)
    before = _updated(world)
    notes = (
        world.gitlab.truth_all_discussions("issues", PATH),
        world.gitlab.truth_all_discussions("merge_requests", PATH),
    )
    world.advance(40)
    assert len(world.gitlab.change(5, random.Random(1), ["throttled_note"])) == 5
    assert _updated(world) == before
    assert notes != (
        world.gitlab.truth_all_discussions("issues", PATH),
        world.gitlab.truth_all_discussions("merge_requests", PATH),
    )


def test_labels_milestones_and_reviewers_change_with_their_events(world: World) -> None:
    forge = world.gitlab
    for kind, family in (("relabel", "label"), ("set_milestone", "milestone")):
        for entry in _change(world, kind):
            events = forge.truth_events(entry["list"], PATH, entry["iid"], family)
            assert len(events) > 1
            assert _updated(world)[entry["list"], entry["iid"]] >= entry["at"][:19]
    before = forge.truth_all_reviewers(PATH)
    _change(world, "set_reviewers")
    assert forge.truth_all_reviewers(PATH) != before


def test_status_changes_update_their_issue(world: World) -> None:
    before, updated = world.gitlab.truth_statuses(PATH), _updated(world)
    done = _change(world, "set_status")
    assert world.gitlab.truth_statuses(PATH) != before
    assert all(_updated(world)["issues", entry["iid"]] > updated["issues", entry["iid"]] for entry in done)


def test_threads_are_reopened_silently(world: World) -> None:
    before, updated = world.gitlab.truth_all_discussions("merge_requests", PATH), _updated(world)
    _change(world, "reopen_thread", count=3)
    assert world.gitlab.truth_all_discussions("merge_requests", PATH) != before
    assert _updated(world) == updated


def test_pushes_change_the_diff_silently(world: World) -> None:
    before, updated = world.gitlab.truth_all_diffs(PATH), _updated(world)
    _change(world, "push", count=3)
    assert world.gitlab.truth_all_diffs(PATH) != before
    assert _updated(world) == updated
