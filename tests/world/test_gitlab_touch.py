"""When `updated_at` moves, and when it stays although something changed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.asking import PATH, PROJECT, get, iids, project_world

from tidelore_world.gitlab.state import Item, MergeRequest
from tidelore_world.world import World


def _world() -> tuple[World, list[Item]]:
    world = project_world()
    return world, [world.gitlab.create_issue(PATH), world.gitlab.create_merge_request(PATH)]


def _shown(world: World, item: Item) -> dict[str, Any]:
    return dict(get(world, f"{PROJECT}/{item.kind}?iids[]={item.iid}")[0])


@pytest.mark.parametrize("which", [0, 1])
def test_a_note_within_a_minute_of_the_last_update_does_not_change_updated_at(which: int) -> None:
    world, items = _world()
    item = items[which]
    before = _shown(world, item)
    world.advance(60)
    world.gitlab.add_note(item)
    after = _shown(world, item)
    assert after["updated_at"] == before["updated_at"]
    assert after["user_notes_count"] == before["user_notes_count"] + 1


@pytest.mark.parametrize("which", [0, 1])
def test_a_note_after_more_than_a_minute_changes_updated_at(which: int) -> None:
    world, items = _world()
    world.advance(60.001)
    world.gitlab.add_note(items[which])
    assert _shown(world, items[which])["updated_at"] == world.clock.iso_ms()


def test_a_busy_thread_changes_updated_at_at_most_once_a_minute() -> None:
    world, (issue, _) = _world()
    seen = []
    for _ in range(30):
        world.advance(10)
        world.gitlab.add_note(issue)
        seen.append(_shown(world, issue)["updated_at"])
    assert len(set(seen)) == 5  # creation, then every 70 s
    assert _shown(world, issue)["user_notes_count"] == 30


def test_editing_a_note_is_throttled_for_its_item_but_changes_the_notes_updated_at() -> None:
    world, (issue, _) = _world()
    note = world.gitlab.add_note(issue)
    before = _shown(world, issue)["updated_at"]
    world.advance(30)
    world.gitlab.edit_note(issue, note)
    assert _shown(world, issue)["updated_at"] == before
    shown = get(world, f"{PROJECT}/issues/1/notes")[0]
    assert shown["updated_at"] == world.clock.iso_ms() != shown["created_at"]
    world.advance(31)
    world.gitlab.edit_note(issue, note, "Second thoughts.")
    assert _shown(world, issue)["updated_at"] == world.clock.iso_ms()
    assert get(world, f"{PROJECT}/issues/1/notes")[0]["body"] == "Second thoughts."


def test_deleting_a_note_never_changes_updated_at() -> None:
    world, (issue, _) = _world()
    note = world.gitlab.add_note(issue)
    before = _shown(world, issue)
    world.advance(3_600)
    world.gitlab.delete_note(issue, note)
    after = _shown(world, issue)
    assert after["updated_at"] == before["updated_at"]
    assert (before["user_notes_count"], after["user_notes_count"]) == (1, 0)
    assert get(world, f"{PROJECT}/issues/1/discussions") == []


def test_resolving_a_thread_changes_no_updated_at() -> None:
    world, (_, request) = _world()
    assert isinstance(request, MergeRequest)
    note = world.gitlab.add_note(request, thread=True)
    before = get(world, f"{PROJECT}/merge_requests/1/discussions")[0]["notes"][0]
    row = _shown(world, request)
    assert row["blocking_discussions_resolved"] is False
    world.advance(3_600)
    world.gitlab.resolve(request, world.gitlab.note(request, note)[0], by="mina.okafor")
    after = get(world, f"{PROJECT}/merge_requests/1/discussions")[0]["notes"][0]
    assert (before["resolved"], after["resolved"]) == (False, True)
    assert after["resolved_by"]["username"] == "mina.okafor"
    assert after["resolved_at"] == world.clock.iso_ms()
    assert after["updated_at"] == before["updated_at"]
    assert _shown(world, request)["updated_at"] == row["updated_at"]
    assert _shown(world, request)["blocking_discussions_resolved"] is True


def test_a_push_changes_sha_diff_and_versions_but_not_updated_at() -> None:
    world, (_, request) = _world()
    before = _shown(world, request)
    diffs = get(world, f"{PROJECT}/merge_requests/1/diffs")
    world.advance(3_600)
    world.gitlab.push(PATH, 1)
    after = _shown(world, request)
    assert after["updated_at"] == before["updated_at"]
    assert after["sha"] != before["sha"]
    assert get(world, f"{PROJECT}/merge_requests/1")["diff_refs"]["head_sha"] == after["sha"]
    assert get(world, f"{PROJECT}/merge_requests/1/diffs") != diffs
    versions = get(world, f"{PROJECT}/merge_requests/1/versions")
    assert [version["head_commit_sha"] for version in versions] == [after["sha"], before["sha"]]


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "A better title"},
        {"description": "A better description"},
        {"labels": ["backend"]},
        {"assignees": ["mina.okafor"]},
        {"milestone": "Spring"},
        {"discussion_locked": True},
        {},
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_edits_change_updated_at_even_within_the_minute(which: int, fields: dict[str, Any]) -> None:
    world, items = _world()
    item = items[which]
    before = _shown(world, item)
    world.advance(1)
    edit = world.gitlab.edit_issue if which == 0 else world.gitlab.edit_merge_request
    edit(PATH, item.iid, **fields)
    after = _shown(world, item)
    assert after["updated_at"] == world.clock.iso_ms() > before["updated_at"]
    changed = {name for name in after if after[name] != before[name]} - {"updated_at"}
    assert changed >= set(fields or {"description"}) - {"assignees"}
    assert ("assignee" in changed) == ("assignees" in fields)


def test_state_changes_change_updated_at() -> None:
    world, (issue, request) = _world()
    for act in (
        lambda: world.gitlab.close_issue(PATH, 1),
        lambda: world.gitlab.reopen_issue(PATH, 1),
        lambda: world.gitlab.close_merge_request(PATH, 1),
        lambda: world.gitlab.reopen_merge_request(PATH, 1),
        lambda: world.gitlab.lock_merge_request(PATH, 1),
        lambda: world.gitlab.merge_merge_request(PATH, 1),
    ):
        world.advance(1)
        item = act()
        assert _shown(world, item)["updated_at"] == world.clock.iso_ms()
    assert (_shown(world, issue)["state"], _shown(world, request)["state"]) == ("opened", "merged")


def test_a_lower_id_can_be_edited_in_the_same_instant_as_a_higher_one() -> None:
    world = project_world()
    at = world.clock.now_us + 500
    for _ in range(3):
        world.gitlab.create_issue(PATH)
    world.gitlab.edit_issue(PATH, 3, at_us=at)
    world.gitlab.edit_issue(PATH, 1, at_us=at)
    assert iids(world, f"{PROJECT}/issues?order_by=updated_at&sort=asc") == [2, 3, 1]
    rows = {row["iid"]: row["updated_at"] for row in world.gitlab.truth_issues(PATH)}
    assert rows[1] == rows[3]


def test_an_edit_of_an_unknown_field_is_refused_naming_it() -> None:
    world, _ = _world()
    with pytest.raises(TypeError, match="colour"):
        world.gitlab.edit_issue(PATH, 1, colour="red")
