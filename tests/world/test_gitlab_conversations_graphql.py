"""Discussions over GraphQL as GitLab shows them: what differs from REST, and what a query may cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.world.asking import PATH, ask, project_world

from tidelore.sources.gitlab.conversations import QUERIES
from tidelore_world.gitlab.graphql_schema import depth_of, score_of
from tidelore_world.gitlab.state import Position
from tidelore_world.graphql_document import parse_document
from tidelore_world.wire import Response
from tidelore_world.world import World

PLACE = Position("b" * 40, "c" * 40, "a" * 40, "a.py", "a.py", new_line=9, first_new_line=4)


@pytest.fixture
def world() -> World:
    made = project_world()
    made.gitlab.bulk(PATH, 2, 3, discussions=2, notes=2)
    made.gitlab.add_note(made.gitlab.merge_request(PATH, 1), "these lines", position=PLACE)
    return made


def _post(world: World, resource: str = "merge_requests", token: str | None = "t", **variables: Any) -> Response:
    given = {"path": PATH, "iids": ["1", "2"], "first": 100, **variables}
    body = json.dumps({"query": QUERIES[resource], "variables": given}).encode()
    return ask(world, "/api/graphql", "POST", body, **({"private_token": token} if token else {}))


def _parents(response: Response) -> list[dict[str, Any]]:
    assert response.status == 200
    answered = json.loads(response.body)
    assert "errors" not in answered, answered
    found: list[dict[str, Any]] = answered["data"]["project"]["parents"]["nodes"]
    return found


@pytest.mark.parametrize("resource", ["issues", "merge_requests"])
def test_graphql_shows_the_notes_that_rest_shows_with_whole_seconds(world: World, resource: Any) -> None:
    world.advance(0.5)
    world.gitlab.add_note(world.gitlab.issue(PATH, 1), "half a second later")
    for parent in _parents(_post(world, resource)):
        told = world.gitlab.truth_discussions(resource, PATH, int(parent["iid"]))
        assert [found["id"].rpartition("/")[2] for found in parent["discussions"]["nodes"]] == [
            one["id"] for one in told
        ]
        for found, one in zip(parent["discussions"]["nodes"], told, strict=True):
            assert found["id"].startswith("gid://gitlab/Discussion/")
            individual = found["replyId"].startswith("gid://gitlab/IndividualNoteDiscussion/")
            assert individual == one["individual_note"]
            for note, rest in zip(found["notes"]["nodes"], one["notes"], strict=True):
                assert note["id"] == f"gid://gitlab/{rest['type'] or 'Note'}/{rest['id']}"
                assert note["body"] == rest["body"]
                assert note["createdAt"] == rest["created_at"].partition(".")[0] + "Z"
                assert note["internal"] == rest["internal"]


def test_a_position_has_lines_and_commits_but_no_range(world: World) -> None:
    (parent,) = _parents(_post(world, iids=["1"]))
    position = parent["discussions"]["nodes"][-1]["notes"]["nodes"][0]["position"]
    assert position == {
        "positionType": "text",
        "oldPath": "a.py",
        "newPath": "a.py",
        "oldLine": None,
        "newLine": 9,
        "diffRefs": {"baseSha": "b" * 40, "startSha": "c" * 40, "headSha": "a" * 40},
    }


def test_by_numbers_a_query_costs_the_same_for_any_page_and_else_a_percent_more_per_object() -> None:
    for text in QUERIES.values():
        by_numbers = [score_of(parse_document(text, {"path": PATH, "iids": ["1"], "first": n})) for n in (1, 100)]
        assert by_numbers[0] == by_numbers[1] < 200
        listed = [score_of(parse_document(text, {"path": PATH, "first": n})) for n in (1, 100)]
        assert listed[0] < 1.1 * by_numbers[0]
        assert 1.7 * by_numbers[0] < listed[1] < 2 * by_numbers[0]
        assert depth_of(parse_document(text, {"path": PATH, "iids": ["1"]})) <= 15


def test_a_query_says_what_it_costs_and_an_anonymous_caller_may_spend_less(world: World) -> None:
    document = parse_document(QUERIES["merge_requests"], {"path": PATH, "iids": ["1"]})
    for token, limit in (("t", 250), (None, 200)):
        data = json.loads(_post(world, token=token).body)["data"]
        assert data["queryComplexity"] == {"score": score_of(document), "limit": limit}


def test_too_complex_a_query_is_refused_without_data(world: World) -> None:
    fields = " ".join(f"a{n}: workItems {{ nodes {{ iid title state webUrl }} }}" for n in range(40))
    body = json.dumps({"query": f'{{ project(fullPath: "{PATH}") {{ {fields} }} }}'}).encode()
    answered = json.loads(ask(world, "/api/graphql", "POST", body, private_token="t").body)
    assert set(answered) == {"errors"}
    assert "which exceeds max complexity of 250" in answered["errors"][0]["message"]


def test_a_page_holds_a_hundred_and_its_cursor_counts(world: World) -> None:
    item = world.gitlab.merge_request(PATH, 2)
    for number in range(120):
        world.gitlab.add_note(item, str(number))
    (parent,) = _parents(_post(world, iids=["2"]))
    page = parent["discussions"]
    assert (len(page["nodes"]), page["pageInfo"]) == (100, {"hasNextPage": True, "endCursor": "MTAw"})


def test_a_heavy_page_answers_503_and_a_note_may_be_null(world: World) -> None:
    world.gitlab.graphql_most_notes = 3
    refused = _post(world)
    assert refused.status == 503
    assert "Request timed out" in json.loads(refused.body)["errors"][0]["message"]
    world.gitlab.graphql_most_notes = None
    world.gitlab.graphql_nulls.add(world.gitlab.merge_request(PATH, 1).discussions[0].notes[0].id)
    assert _parents(_post(world, iids=["1"]))[0]["discussions"]["nodes"][0]["notes"]["nodes"][0] is None


def test_an_older_schema_refuses_an_unknown_field(world: World) -> None:
    world.gitlab.graphql_fields_missing = frozenset({"internal"})
    (error, *_) = json.loads(_post(world).body)["errors"]
    assert error["message"] == "Field 'internal' doesn't exist on type 'Note'"
    assert error["extensions"]["code"] == "undefinedField"


def test_kept_answers_are_sent_again_until_a_row_changes(world: World) -> None:
    world.gitlab.graphql_kept = {}
    request = world.gitlab.merge_request(PATH, 1)
    first = _post(world)
    request.discussions[0].notes[0].body = "Changed behind the back of the forge."
    assert _post(world).body == first.body
    world.gitlab.edit_note(request, request.discussions[0].notes[0], "Changed as people do.")
    assert b"Changed as people do." in _post(world).body
