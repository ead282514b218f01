"""The simulated GitLab takes notes, replies and resolutions, and shows members and common ancestors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelore_world.damage import SimulatedDisconnect
from tidelore_world.wire import Request
from tidelore_world.world import World

PROJECT = "harbor/cranes"
AT = "/api/v4/projects/harbor%2Fcranes"


def ask(world: World, method: str, target: str, content: object = None) -> tuple[int, Any]:
    body = b"" if content is None else json.dumps(content).encode()
    answer = world.handle(Request.build(method, f"{AT}/{target}", {}, body))
    return answer.status, json.loads(answer.body)


@pytest.fixture
def world() -> World:
    made = World()
    made.gitlab.create_project(PROJECT)
    made.gitlab.create_issue(PROJECT, title="Rust")
    made.gitlab.create_merge_request(PROJECT, title="Paint", author="robin")
    return made


@pytest.mark.parametrize("kind", ["issues", "merge_requests"])
def test_a_note_is_written_by_the_caller_and_shown_in_the_lists(world: World, kind: str) -> None:
    status, note = ask(world, "POST", f"{kind}/1/notes", {"body": "Done."})
    assert (status, note["author"]["username"]) == (201, world.gitlab.caller.username)
    _, notes = ask(world, "GET", f"{kind}/1/notes")
    assert [shown["id"] for shown in notes] == [note["id"]]
    assert ask(world, "POST", f"{kind}/1/notes", {"body": " "})[0] == 400
    assert ask(world, "POST", f"{kind}/9/notes", {"body": "Done."})[0] == 404


def test_a_reply_makes_a_thread_and_is_internal_in_an_internal_one(world: World) -> None:
    request = world.gitlab.merge_request(PROJECT, 1)
    note = world.gitlab.add_note(request, "Why?", internal=True)
    home, _ = world.gitlab.note(request, note)
    status, reply = ask(world, "POST", f"merge_requests/1/discussions/{home.id}/notes", {"body": "Because."})
    assert (status, reply["type"], reply["internal"]) == (201, "DiscussionNote", True)
    assert ask(world, "POST", "merge_requests/1/discussions/none/notes", {"body": "Because."})[0] == 404
    status, resolved = ask(world, "PUT", f"merge_requests/1/discussions/{home.id}", {"resolved": True})
    assert (status, {shown["resolved"] for shown in resolved["notes"]}) == (200, {True})


def test_a_lost_answer_leaves_the_note(world: World) -> None:
    world.gitlab.lost_answers = 1
    with pytest.raises(SimulatedDisconnect):
        ask(world, "POST", "merge_requests/1/notes", {"body": "Done."})
    assert len(ask(world, "GET", "merge_requests/1/notes")[1]) == 1


def test_members_and_common_ancestors_are_shown(world: World) -> None:
    world.gitlab.set_member(PROJECT, "mira", 50)
    assert [(one["username"], one["access_level"]) for one in ask(world, "GET", "members/all")[1]] == [("mira", 50)]
    first = world.gitlab.merge_request(PROJECT, 1).sha
    second = world.gitlab.push(PROJECT, 1).sha
    third = world.gitlab.push(PROJECT, 1, forced=True).sha

    def base(one: str, other: str) -> tuple[int, Any]:
        return ask(world, "GET", f"repository/merge_base?refs[]={one}&refs[]={other}")

    assert base(first, second)[1]["id"] == first
    assert base(second, third)[1]["id"] not in (second, third)
    assert base(first, "0" * 40) == (400, {"message": f"Could not find ref: {'0' * 40}"})
