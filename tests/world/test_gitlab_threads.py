"""Discussions, notes, positions, events, diffs, versions and reviewers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypedDict, Unpack

import pytest
from tests.world.asking import PATH, PROJECT, ask, get, links, project_world, walk

from tidelore_world.gitlab.review import image_position
from tidelore_world.gitlab.state import Item, Kind, MergeRequest, Position
from tidelore_world.world import World

NOTE_FIELDS = {
    "id", "type", "body", "author", "created_at", "updated_at", "system", "noteable_id", "noteable_type",
    "noteable_iid", "project_id", "resolvable",
}  # fmt: skip


def _with_request() -> tuple[World, MergeRequest]:
    world = project_world()
    return world, world.gitlab.create_merge_request(PATH)


class Lines(TypedDict, total=False):
    old_line: int
    new_line: int
    first_old_line: int
    first_new_line: int


def _position(request: MergeRequest, **lines: Unpack[Lines]) -> Position:
    latest = request.versions[-1]
    return Position(latest.base_sha, latest.start_sha, latest.head_sha, "old.py", "new.py", **lines)


def test_a_plain_comment_is_an_individual_note_without_type() -> None:
    world = project_world()
    issue = world.gitlab.create_issue(PATH)
    world.gitlab.add_note(issue, "Seen it too.", author="mina.okafor")
    (found,) = get(world, f"{PROJECT}/issues/1/discussions")
    assert len(found["id"]) == 40
    assert int(found["id"], 16) >= 0
    assert found["individual_note"] is True
    (note,) = found["notes"]
    assert set(note) >= NOTE_FIELDS
    assert (note["type"], note["resolvable"], note["system"]) == (None, False, False)
    assert (note["noteable_type"], note["noteable_iid"], note["noteable_id"]) == ("Issue", 1, issue.id)
    assert "resolved" not in note
    assert "position" not in note


def test_a_reply_turns_a_comment_into_a_thread() -> None:
    world, request = _with_request()
    first = world.gitlab.add_note(request)
    home = world.gitlab.note(request, first)[0]
    world.gitlab.add_note(request, discussion=home.id)
    (found,) = get(world, f"{PROJECT}/merge_requests/1/discussions")
    assert found["individual_note"] is False
    assert [note["type"] for note in found["notes"]] == ["DiscussionNote", "DiscussionNote"]
    assert all(note["resolvable"] for note in found["notes"])


def test_threads_on_issues_cannot_be_resolved() -> None:
    world = project_world()
    world.gitlab.add_note(world.gitlab.create_issue(PATH), thread=True)
    (found,) = get(world, f"{PROJECT}/issues/1/discussions")
    assert found["notes"][0]["type"] == "DiscussionNote"
    assert found["notes"][0]["resolvable"] is False


def test_diff_note_and_its_replies_carry_the_position() -> None:
    world, request = _with_request()
    note = world.gitlab.add_note(request, position=_position(request, new_line=12))
    world.gitlab.add_note(request, discussion=world.gitlab.note(request, note)[0])
    (found,) = get(world, f"{PROJECT}/merge_requests/1/discussions")
    assert [note["type"] for note in found["notes"]] == ["DiffNote", "DiffNote"]
    position = found["notes"][1]["position"]
    assert (position["position_type"], position["old_line"], position["new_line"]) == ("text", None, 12)
    assert (position["old_path"], position["new_path"], position["line_range"]) == ("old.py", "new.py", None)
    assert position["head_sha"] == request.sha


def test_a_multi_line_position_has_a_range_whose_ends_may_lack_a_side() -> None:
    world, request = _with_request()
    world.gitlab.add_note(request, position=_position(request, new_line=12, first_new_line=9))
    world.gitlab.add_note(request, position=_position(request, old_line=7, first_old_line=5))
    world.gitlab.add_note(request, position=_position(request, new_line=4, first_new_line=2, first_old_line=2))
    shown = [found["notes"][0]["position"] for found in get(world, f"{PROJECT}/merge_requests/1/discussions")]
    ends = [(range_["start"], range_["end"]) for range_ in (position["line_range"] for position in shown)]
    lines = [[(end["type"], end["old_line"], end["new_line"]) for end in pair] for pair in ends]
    assert lines == [
        [("new", None, 9), ("new", None, 12)],
        [("old", 5, None), ("old", 7, None)],
        [(None, 2, 2), ("new", None, 4)],
    ]
    assert all(end["line_code"] for pair in ends for end in pair)


def test_image_position_has_coordinates_and_no_lines() -> None:
    world, request = _with_request()
    world.gitlab.add_note(request, position=image_position(random.Random(1), request))
    position = get(world, f"{PROJECT}/merge_requests/1/discussions")[0]["notes"][0]["position"]
    assert position["position_type"] == "image"
    assert {"x", "y", "width", "height"} <= position.keys()
    assert "new_line" not in position
    assert position["new_path"] in {row["new_path"] for row in get(world, f"{PROJECT}/merge_requests/1/diffs")}


def test_discussions_are_paged_and_equal_the_truth() -> None:
    world = project_world()
    issue = world.gitlab.create_issue(PATH)
    for _ in range(23):
        world.gitlab.add_note(issue)
    first = ask(world, f"{PROJECT}/issues/1/discussions")
    assert (first.headers["x-total"], first.headers["x-next-page"]) == ("23", "2")
    assert "next" in links(first)
    assert walk(world, f"{PROJECT}/issues/1/discussions") == world.gitlab.truth_discussions("issues", PATH, 1)


def test_notes_list_is_flat_newest_first_and_sortable() -> None:
    world = project_world()
    issue = world.gitlab.create_issue(PATH)
    for _ in range(3):
        world.advance(5)
        world.gitlab.add_note(issue, thread=True)
    newest = [note["id"] for note in get(world, f"{PROJECT}/issues/1/notes")]
    assert newest == sorted(newest, reverse=True)
    world.advance(5)
    world.gitlab.edit_note(issue, newest[-1])
    oldest = [note["id"] for note in get(world, f"{PROJECT}/issues/1/notes?order_by=updated_at&sort=asc")]
    assert oldest == [newest[1], newest[0], newest[2]]


def test_system_notes_are_listed_but_not_counted() -> None:
    world = project_world()
    world.gitlab.create_issue(PATH)
    world.gitlab.edit_issue(PATH, 1, title="New title")
    world.gitlab.edit_issue(PATH, 1)
    notes = get(world, f"{PROJECT}/issues/1/notes")
    assert len(notes) == 2
    assert all(note["system"] for note in notes)
    assert get(world, f"{PROJECT}/issues/1")["user_notes_count"] == 0


@pytest.mark.parametrize("kind", ["issues", "merge_requests"])
def test_events_of_each_kind_record_what_happened(kind: Kind) -> None:
    world = project_world()
    edit: Callable[..., Item]
    close: Callable[..., Item]
    reopen: Callable[..., Item]
    if kind == "issues":
        world.gitlab.create_issue(PATH, labels=["a"])
        edit, close, reopen = world.gitlab.edit_issue, world.gitlab.close_issue, world.gitlab.reopen_issue
    else:
        world.gitlab.create_merge_request(PATH, labels=["a"])
        edit = world.gitlab.edit_merge_request
        close, reopen = world.gitlab.close_merge_request, world.gitlab.reopen_merge_request
    edit(PATH, 1, labels=["b"])
    edit(PATH, 1, milestone="Spring")
    edit(PATH, 1, milestone=None)
    close(PATH, 1)
    reopen(PATH, 1)
    at = f"{PROJECT}/{kind}/1"
    labels = [(row["action"], row["label"]["name"]) for row in get(world, f"{at}/resource_label_events")]
    assert labels == [("add", "a"), ("remove", "a"), ("add", "b")]
    milestones = [(row["action"], row["milestone"]["title"]) for row in get(world, f"{at}/resource_milestone_events")]
    assert milestones == [("add", "Spring"), ("remove", "Spring")]
    states = get(world, f"{at}/resource_state_events")
    assert [row["state"] for row in states] == ["closed", "reopened"]
    assert states[0]["resource_type"] == ("Issue" if kind == "issues" else "MergeRequest")
    assert states == world.gitlab.truth_events(kind, PATH, 1, "state")


def test_diffs_versions_and_reviewers_are_served_as_lists() -> None:
    world = project_world()
    world.gitlab.create_merge_request(PATH, reviewers=["mina.okafor"])
    diffs = get(world, f"{PROJECT}/merge_requests/1/diffs")
    assert diffs == world.gitlab.truth_diffs(PATH, 1)
    assert get(world, f"{PROJECT}/merge_requests/1/changes")["changes"] == diffs
    assert {"old_path", "new_path", "diff", "new_file", "renamed_file", "deleted_file"} <= diffs[0].keys()
    assert [row["user"]["username"] for row in get(world, f"{PROJECT}/merge_requests/1/reviewers")] == ["mina.okafor"]
    assert ask(world, f"{PROJECT}/issues/1/diffs").status == 404


def test_deleting_one_note_of_a_thread_keeps_the_others() -> None:
    world, request = _with_request()
    first = world.gitlab.add_note(request, thread=True)
    home = world.gitlab.note(request, first)[0]
    second = world.gitlab.add_note(request, discussion=home)
    world.gitlab.delete_note(request, first)
    (found,) = get(world, f"{PROJECT}/merge_requests/1/discussions")
    assert [note["id"] for note in found["notes"]] == [second.id]


def test_note_and_discussion_ids_are_unique_and_increasing() -> None:
    world, request = _with_request()
    issue = world.gitlab.create_issue(PATH)
    note = world.gitlab.add_note(request)
    other = world.gitlab.add_note(issue)
    assert request.id < issue.id < note.id < other.id
