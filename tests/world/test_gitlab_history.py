"""The populated instance, bulk items and seeded change."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest
from tests.world.asking import PATH, PROJECT, ask, project_world, walk

from tidelore_world.gitlab.state import Item, MergeRequest
from tidelore_world.world import World


@pytest.fixture(scope="module")
def world() -> World:
    made = World()
    made.gitlab.populate(1.0)
    return made


def _items(world: World) -> list[Item]:
    return [item for project in world.gitlab.projects.values() for item in (*project.issues, *project.merge_requests)]


def test_scale_one_generates_three_projects_of_the_documented_size(world: World) -> None:
    projects = list(world.gitlab.projects.values())
    assert len(projects) == 3
    assert any(project.path.count("/") == 2 for project in projects)
    assert sum(len(project.issues) for project in projects) == 180
    assert 130 <= sum(len(project.merge_requests) for project in projects) <= 140


def test_the_generated_history_lies_in_the_past_and_ids_grow_with_time(world: World) -> None:
    items = _items(world)
    assert all(item.created_at_us <= item.updated_at_us < world.clock.now_us for item in items)
    items.sort(key=lambda item: item.id)
    created = [item.created_at_us for item in items]
    assert created == sorted(created)
    notes = [note for item in items for found in item.discussions for note in found.notes]
    assert [note.created_at_us for note in sorted(notes, key=lambda note: note.id)] == sorted(
        note.created_at_us for note in notes
    )
    assert len({note.id for note in notes}) == len(notes)


def test_history_has_every_kind_of_item_state_note_and_position(world: World) -> None:
    items = _items(world)
    requests = [item for item in items if isinstance(item, MergeRequest)]
    assert {request.state for request in requests} == {"opened", "closed", "merged", "locked"}
    assert any(request.draft for request in requests)
    assert any(item.description is None for item in items)
    positions = [
        note.position
        for request in requests
        for found in request.discussions
        for note in found.notes[:1]
        if note.position
    ]
    assert Counter(position.position_type for position in positions)["image"] == 3
    assert any(position.multi_line for position in positions)
    assert any(position.new_line is None and position.old_line for position in positions)
    assert any(position.old_path != position.new_path for position in positions)
    assert {event.family for item in items for event in item.events} == {"state", "label", "milestone"}
    assert any(note.system for item in items for found in item.discussions for note in found.notes)
    assert max(len(item.discussions) for item in items) > 100


def test_a_merge_request_shares_the_topic_of_the_issue_it_closes(world: World) -> None:
    pairs = [
        (item, item.project.issues.by_iid[number])
        for item in _items(world)
        if isinstance(item, MergeRequest)
        for number in item.closes
    ]
    assert len(pairs) > 60
    assert all(request.topic is issue.topic for request, issue in pairs)
    assert all(request.created_at_us > issue.created_at_us for request, issue in pairs)


def test_note_counts_equal_the_number_of_user_notes(world: World) -> None:
    for item in _items(world):
        written = sum(not note.system for found in item.discussions for note in found.notes)
        assert item.user_notes_count == written


def test_the_seed_determines_the_generated_instance() -> None:
    def shown(seed: int) -> list[object]:
        made = World(seed)
        made.gitlab.populate(0.1)
        made.gitlab.change(20, random.Random(3), advance=made.advance)
        return [made.gitlab.truth_merge_requests(number) for number in made.gitlab.projects]

    assert shown(5) == shown(5)
    assert shown(5) != shown(6)


def test_scale_multiplies_sizes() -> None:
    small = World()
    small.gitlab.populate(0.25)
    assert sum(len(project.issues) for project in small.gitlab.projects.values()) == 45


@pytest.mark.deep
def test_bulk_generates_and_lists_a_hundred_thousand_items_in_seconds() -> None:
    world = project_world()
    begin = time.process_time()
    world.gitlab.bulk(PATH, issues=60_000, merge_requests=40_000)
    assert time.process_time() - begin < 20
    assert ask(world, f"{PROJECT}/issues?per_page=1&page=60000").body != b"[]"
    assert ask(world, f"{PROJECT}/issues?per_page=1&page=60001").body == b"[]"
    assert ask(world, f"{PROJECT}/merge_requests?per_page=1&page=40000").body != b"[]"


def test_bulk_items_can_share_one_instant() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=250, same_instant=True)
    rows = walk(world, f"{PROJECT}/issues?order_by=updated_at&sort=asc&per_page=100")
    assert len({row["updated_at"] for row in rows}) == 1
    assert len({row["iid"] for row in rows}) == len({row["title"] for row in rows}) == 250


def test_random_changes_are_reported_as_applied() -> None:
    world = World()
    world.gitlab.populate(0.2)
    before = {project.path: len(project.issues) for project in world.gitlab.projects.values()}
    done = world.gitlab.change(60, random.Random(1), advance=world.advance)
    assert len(done) == 60
    assert len({entry["kind"] for entry in done}) >= 10
    for path, count in before.items():
        made = sum(entry["kind"] == "create_issue" and entry["project"] == path for entry in done)
        gone = sum(entry["kind"] == "delete_issue" and entry["project"] == path for entry in done)
        assert len(world.gitlab.project(path).issues) == count + made - gone


def test_random_changes_can_be_limited_to_kinds_and_unknown_kinds_are_refused() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=10)
    done = world.gitlab.change(5, random.Random(1), ["edit_issue"])
    assert {entry["kind"] for entry in done} == {"edit_issue"}
    with pytest.raises(ValueError, match="explode"):
        world.gitlab.change(1, random.Random(1), ["explode"])
