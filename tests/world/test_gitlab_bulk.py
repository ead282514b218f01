"""Bulk items with children: their number, their order in time, their variety, their cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypedDict, Unpack

import pytest
from tests.world.asking import PATH, PROJECT, get, project_world, walk

from tidelore_world.gitlab.state import Discussion, Item, Note
from tidelore_world.world import World


@pytest.fixture(scope="module")
def world() -> World:
    made = project_world()
    made.gitlab.bulk(PATH, issues=12, merge_requests=30, discussions=5, notes=3, events=3, files=4)
    return made


def _items(world: World) -> list[Item]:
    project = world.gitlab.project(PATH)
    return [*project.issues, *project.merge_requests]


def _threads(world: World) -> Iterator[tuple[Item, Discussion]]:
    return ((item, found) for item in _items(world) for found in item.discussions)


def _notes(world: World) -> Iterator[tuple[Item, Note]]:
    return ((item, note) for item, found in _threads(world) for note in found.notes)


def test_every_bulk_item_has_the_requested_threads_and_notes(world: World) -> None:
    for kind in ("issues", "merge_requests"):
        for row in walk(world, f"{PROJECT}/{kind}?per_page=100"):
            threads = get(world, f"{PROJECT}/{kind}/{row['iid']}/discussions?per_page=100")
            assert [len(thread["notes"]) for thread in threads] == [3] * 5
            assert row["user_notes_count"] == 15


def test_every_bulk_item_has_the_requested_events_of_each_kind(world: World) -> None:
    for kind in ("issues", "merge_requests"):
        for family in ("state", "label", "milestone"):
            events = world.gitlab.truth_all_events(kind, PATH, family)
            assert {len(found) for found in events.values()} == {3}


@pytest.mark.parametrize("events", [1, 2, 3, 4])
def test_the_last_events_match_the_state_of_the_item(events: int) -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=5, merge_requests=5, events=events)
    for item in _items(world):
        last = {event.family: event for event in item.events}
        assert last["state"].action == "reopened"
        assert item.state == "opened"
        assert (last["label"].action == "add") == (last["label"].label in item.labels)
        assert (last["milestone"].action == "add") == (item.milestone is last["milestone"].milestone)


def test_children_are_dated_between_creation_and_update_of_their_item(world: World) -> None:
    for item, note in _notes(world):
        assert item.created_at_us <= note.created_at_us <= note.updated_at_us <= item.updated_at_us
        assert note.resolved_at_us is None or note.created_at_us <= note.resolved_at_us <= item.updated_at_us
    for item in _items(world):
        assert all(item.created_at_us <= event.created_at_us <= item.updated_at_us for event in item.events)


def test_ids_are_unique_and_grow_with_time_under_an_item(world: World) -> None:
    items = _items(world)
    ids = [note.id for _, note in _notes(world)]
    ids += [event.id for item in items for event in item.events]
    ids += [item.id for item in items]
    assert len(set(ids)) == len(ids)
    threads = [found.id for _, found in _threads(world)]
    assert len(set(threads)) == len(threads)
    assert {len(number) for number in threads} == {40}
    for item in items:
        notes = [note for found in item.discussions for note in found.notes]
        assert [note.id for note in notes] == sorted(note.id for note in notes)
        assert [note.created_at_us for note in notes] == sorted(note.created_at_us for note in notes)


def test_a_third_of_the_merge_request_threads_are_on_the_diff(world: World) -> None:
    requests = world.gitlab.project(PATH).merge_requests
    threads = [(request, found) for request in requests for found in request.discussions]
    on_diff = [(request, found) for request, found in threads if found.notes[0].type == "DiffNote"]
    assert len(on_diff) == len(threads) // 3
    for request, found in on_diff:
        position, latest = found.notes[0].position, request.versions[-1]
        assert position is not None
        assert (position.base_sha, position.start_sha, position.head_sha) == (
            latest.base_sha,
            latest.start_sha,
            latest.head_sha,
        )
        assert position.new_path in {diff.new_path for diff in request.diffs}
        assert all(note.position is position for note in found.notes)
    positions = [found.notes[0].position for _, found in on_diff]
    assert {position.multi_line for position in positions if position} == {True, False}


def test_threads_on_merge_requests_are_partly_resolved_and_on_issues_never_resolvable(world: World) -> None:
    project = world.gitlab.project(PATH)
    resolved = [
        note.resolved_at_us is not None for item, note in _notes(world) if item.kind == "merge_requests" and note.type
    ]
    assert 0.3 < sum(resolved) / len(resolved) < 0.7
    assert not any(note.resolvable or note.position for item, note in _notes(world) if item in list(project.issues))


def test_threads_with_one_note_can_be_individual_comments() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=4, merge_requests=6, discussions=4, notes=1)
    alone = [found for _, found in _threads(world) if found.individual_note]
    others = [found for _, found in _threads(world) if not found.individual_note]
    assert alone
    assert others
    assert all(found.notes[0].type is None and not found.notes[0].resolvable for found in alone)
    assert all(found.notes[0].type is not None for found in others)


def test_bulk_merge_requests_change_the_requested_files_and_close_an_existing_issue(world: World) -> None:
    issues = {row["iid"]: row for row in walk(world, f"{PROJECT}/issues?per_page=100")}
    mentions = dict.fromkeys(issues, 0)
    for request in world.gitlab.project(PATH).merge_requests:
        diffs = get(world, f"{PROJECT}/merge_requests/{request.iid}/diffs")
        assert len({diff["new_path"] for diff in diffs}) == len(diffs) == 4
        assert request.versions[-1].files == 4
        (closing,) = get(world, f"{PROJECT}/merge_requests/{request.iid}/closes_issues")
        assert closing == issues[closing["iid"]]
        mentions[closing["iid"]] += 1
    assert mentions == {iid: row["merge_requests_count"] for iid, row in issues.items()}


def test_later_bulk_merge_requests_close_older_issues_without_changing_their_rows() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=3)
    before = world.gitlab.truth_issues(PATH)
    world.gitlab.bulk(PATH, merge_requests=3, files=1)
    assert world.gitlab.truth_issues(PATH) == before
    assert [len(found) for found in world.gitlab.truth_all_closes(PATH).values()] == [1, 1, 1]


def test_bulk_items_do_not_share_their_list_of_changed_files() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, merge_requests=600, files=2)
    first, twin = (world.gitlab.merge_request(PATH, iid) for iid in (1, 257))
    assert first.diffs == twin.diffs
    first.diffs.append(first.diffs[0])
    assert len(twin.diffs) == 2


class Children(TypedDict, total=False):
    discussions: int
    notes: int
    events: int
    files: int


def test_requesting_children_does_not_change_the_bulk_items_themselves() -> None:
    def shown(**children: Unpack[Children]) -> list[dict[str, object]]:
        world = project_world()
        world.gitlab.bulk(PATH, issues=20, merge_requests=10, **children)
        return world.gitlab.truth_merge_requests(PATH)

    bare = shown()
    assert bare == shown(discussions=0, notes=0, events=0, files=0)
    assert all(row["user_notes_count"] == 0 and row["created_at"] == row["updated_at"] for row in bare)


@pytest.mark.parametrize("children", [{"discussions": 2}, {"notes": 2}, {"files": -1}])
def test_impossible_bulk_children_are_refused(children: Children) -> None:
    with pytest.raises(ValueError, match=r"come together|fewer than no"):
        project_world().gitlab.bulk(PATH, issues=1, **children)


def test_two_thousand_conversations_are_generated_in_seconds() -> None:
    world = project_world()
    begin = time.process_time()
    world.gitlab.bulk(PATH, issues=100, merge_requests=2_000, discussions=5, notes=3, events=2, files=3)
    assert time.process_time() - begin < 8
    assert sum(len(found.notes) for _, found in _threads(world)) == 2_100 * 15
