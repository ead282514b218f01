"""GraphQL on GitHub: complete answers only, and errors by their type."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.unit.http.wire_server import Answer, ScriptedServer, answer
from tests.unit.sources.github.test_surfaces import with_list

from tidelore.core.errors import (
    AccessRefused,
    FeatureDisabled,
    QueryLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
)
from tidelore.engine.ports import ListRequest
from tidelore.sources.github.discussions import DiscussionList
from tidelore.sources.github.graphql import Actor, GraphQlClient, actor_login
from tidelore.sources.github.threads import read_children, read_closing_issue, read_review_thread
from tidelore.sources.graphql import PageSize

THREAD = {
    "id": "PRRT_1",
    "isResolved": True,
    "isOutdated": False,
    "path": "src/ledger.py",
    "line": 40,
    "subjectType": "LINE",
    "resolvedBy": {"__typename": "User", "login": "mira"},
    "comments": {"nodes": [{"fullDatabaseId": "2200000007"}]},
}
LIMIT = {"cost": 1, "remaining": 4999, "resetAt": "2026-03-02T10:00:00Z"}


def connection(*nodes: Any, after: str | None = None) -> dict[str, Any]:
    return {"pageInfo": {"hasNextPage": after is not None, "endCursor": after}, "nodes": list(nodes)}


def pulls(*children: dict[str, Any] | None) -> dict[str, Any]:
    nodes = [None if found is None else {"id": "PR", "threads": found, "closes_issues": found} for found in children]
    return {"rateLimit": LIMIT, "nodes": nodes}


def reply(data: Any = None, *errors: dict[str, Any]) -> Answer:
    body: dict[str, Any] = {"data": data} | ({"errors": list(errors)} if errors else {})
    return answer(body=json.dumps(body).encode())


def error(kind: str | None, path: list[Any] | None = None, message: str = "No.") -> dict[str, Any]:
    return {"message": message} | ({"type": kind} if kind else {}) | ({"path": path} if path else {})


LACKING = error(None, message="Field 'x' doesn't exist on type 'Query'") | {"extensions": {"code": "undefinedField"}}


def asked(do: Callable[[GraphQlClient], Awaitable[Any]], *script: Answer, path: str = "") -> tuple[Any, ScriptedServer]:
    return with_list(do, *script, build=GraphQlClient, path=path)


def sent(server: ScriptedServer) -> list[dict[str, Any]]:
    return [json.loads(seen.body)["variables"] for seen in server.seen]


async def of_kind(graphql: GraphQlClient, kind: str, ids: Sequence[str]) -> dict[str, Any]:
    found = await read_children(graphql, ids, (kind,))
    return {node: None if pages is None else pages[kind] for node, pages in found.items()}


def threads_of(*ids: str) -> Callable[[GraphQlClient], Awaitable[Any]]:
    return lambda graphql: of_kind(graphql, "threads", ids)


def test_a_complete_answer_gives_records_and_points() -> None:
    async def do(graphql: GraphQlClient) -> Any:
        return await of_kind(graphql, "threads", ["a", "b", "a"]), graphql.spent, graphql.remaining

    (found, spent, remaining), server = asked(do, reply(pulls(connection(THREAD), connection())))
    (item,) = found["a"].items
    assert (item.record.root_comment_id, item.record.resolved_by) == (2_200_000_007, "mira")
    assert item.record.subject_type == "line"
    assert json.loads(item.payload) == THREAD
    assert list(found["b"].items) == []
    assert (spent, remaining) == (1, 4999)
    assert sent(server) == [{"ids": ["a", "b"], "first": 10, "after": None}]


@pytest.mark.parametrize(("path", "target"), [("", "/graphql"), ("/api/v3", "/api/graphql")])
def test_the_endpoint_of_github_and_of_an_enterprise_server(path: str, target: str) -> None:
    _, server = asked(threads_of("a"), reply(pulls(connection())), path=path)
    assert [(seen.method, seen.target) for seen in server.seen] == [("POST", target)]


def test_a_pull_request_that_is_not_found_is_absent_and_the_others_are_read() -> None:
    missing = error("NOT_FOUND", ["nodes", 0])
    found, _ = asked(threads_of("a", "b"), reply(pulls(None, connection(THREAD)), missing))
    assert found["a"] is None
    assert len(found["b"].items) == 1


@pytest.mark.parametrize(
    "partial",
    [
        reply(pulls(None, connection())),
        reply(pulls(connection(None), connection())),
        reply(pulls(connection(THREAD | {"comments": {"nodes": [None]}}), connection())),
        reply(pulls(connection(THREAD), None), error("RESOURCE_LIMITS_EXCEEDED", ["nodes", 1])),
        reply({"rateLimit": LIMIT, "nodes": [{"id": "a", "threads": None}, None]}),
        reply(pulls(connection(None), connection()), error("NOT_FOUND", ["nodes", 0, "closes_issues", "nodes", 0])),
        reply(None),
        reply(None, error(None, message="Something went wrong while executing your query.")),
        reply(None, error("MAX_NODE_LIMIT_EXCEEDED")),
        answer(502, b"{}"),
        answer(504, b"<html>"),
    ],
)
def test_a_partial_answer_is_asked_for_again_in_halves(partial: Answer) -> None:
    whole = reply(pulls(*[connection(THREAD)] * 50))
    ids = [f"{index}" for index in range(100)]
    found, server = asked(threads_of(*ids), partial, whole, whole)
    assert [len(asked["ids"]) for asked in sent(server)] == [100, 50, 50]
    assert sum(len(page.items) for page in found.values()) == 100


def test_further_pages_of_one_pull_request_keep_the_cursor_when_they_become_smaller() -> None:
    first, last = reply(pulls(connection(THREAD, after="c1"))), reply(pulls(connection(THREAD | {"id": "PRRT_2"})))
    found, server = asked(threads_of("a"), first, answer(502, b"{}"), last)
    assert [(asked["first"], asked["after"]) for asked in sent(server)] == [(10, None), (100, "c1"), (50, "c1")]
    assert [item.record.remote_id for item in found["a"].items] == ["PRRT_1", "PRRT_2"]


def test_an_answer_that_stays_partial_is_a_temporary_failure() -> None:
    with pytest.raises(RemoteTransient) as caught:
        asked(threads_of("a"), *[reply(pulls(None))] * 9)
    assert caught.value.reason == "graphql_partial"


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (reply(None, error("FORBIDDEN", ["nodes", 0, "children"])), AccessRefused),
        (reply(None, error("FORBIDDEN", ["nodes", 0, "closes_issues", "nodes", 0])), AccessRefused),
        (reply(None, error("INSUFFICIENT_SCOPES")), AccessRefused),
        (answer(403, b'{"message": "Resource not accessible by integration"}'), AccessRefused),
        (answer(404, b"{}"), AccessRefused),
        (reply(None, error("RATE_LIMITED")), QueryLimited),
        (reply(None, error("RATE_LIMIT")), QueryLimited),
        (reply(None, error("SERVICE_UNAVAILABLE")), RemoteTransient),
        (reply(None, error("INVALID_CURSOR_ARGUMENTS")), RemotePermanent),
        (reply(None, error(None, message="Field 'x' doesn't exist on type 'Query'")), RemotePermanent),
        (reply(None, LACKING), AccessRefused),
        (reply({"nodes": 3}), RemotePermanent),
    ],
)
def test_errors_are_told_apart_by_their_type(refusal: Answer, expected: type[RemoteError]) -> None:
    with pytest.raises(RemoteError) as caught:
        asked(threads_of("a"), refusal)
    assert type(caught.value) is expected


def test_a_closing_issue_that_the_token_may_not_see_is_passed_over() -> None:
    issue = {"id": "I_1", "fullDatabaseId": "7", "number": 3, "title": "t", "url": "u", "repository": None}
    hidden = error("FORBIDDEN", ["nodes", 0, "closes_issues", "nodes", 1])
    found, _ = asked(
        lambda graphql: of_kind(graphql, "closes_issues", ["a"]), reply(pulls(connection(issue, None)), hidden)
    )
    assert [item.record.issue_key for item in found["a"].items] == ["7"]


def test_one_thread_that_cannot_be_parsed_is_rejected_alone() -> None:
    bad = THREAD | {"id": "PRRT_9", "isResolved": "maybe"}
    found, _ = asked(threads_of("a"), reply(pulls(connection(bad, THREAD))))
    assert [entry.key for entry in found["a"].rejected] == ["PRRT_9"]
    assert len(found["a"].items) == 1


@pytest.mark.parametrize("number", ["x", "1" * 30, "-4"])
def test_an_id_that_is_no_number_is_an_error_of_its_item(number: str) -> None:
    thread = THREAD | {"comments": {"nodes": [{"fullDatabaseId": number}]}}
    with pytest.raises(ValueError, match="fullDatabaseId"):
        read_review_thread(json.dumps(thread).encode())


def test_a_thread_whose_comments_are_all_hidden_has_no_root() -> None:
    thread = THREAD | {"comments": {"nodes": []}, "resolvedBy": None}
    record = read_review_thread(json.dumps(thread).encode()).record
    assert (record.root_comment_id, record.resolved_by) == (None, None)


def test_a_closing_issue_keeps_where_it_is() -> None:
    home = {"databaseId": 42, "nameWithOwner": "o/r"}
    issue = {"id": "I_1", "fullDatabaseId": "7", "number": 3, "title": "t", "url": "u", "repository": home}
    record = read_closing_issue(json.dumps(issue).encode()).record
    assert (record.issue_remote_id, record.issue_project_remote_id, record.reference) == (7, 42, "o/r#3")


@pytest.mark.parametrize(
    ("actor", "login"),
    [(None, None), (Actor("mira", "User"), "mira"), (Actor("dependabot", "Bot"), "dependabot[bot]")],
)
def test_a_bot_has_the_login_that_rest_shows(actor: Actor | None, login: str | None) -> None:
    assert actor_login(actor) == login


def test_sizes_become_smaller_down_to_a_minimum() -> None:
    sizes, size = [], PageSize(8, 20)
    while (following := size.smaller()) is not None:
        size = following
        sizes.append((size.outer, size.inner))
    assert sizes == [(4, 20), (2, 20), (1, 20), (1, 10), (1, 5)]


# Discussions

COMMENT = {
    "id": "DC_1",
    "databaseId": 14,
    "body": "Yes.",
    "createdAt": "2026-03-02T09:00:00Z",
    "updatedAt": "2026-03-02T09:00:01Z",
    "isAnswer": False,
    "upvoteCount": 1,
    "author": None,
    "replies": connection(),
}
TOPIC: dict[str, Any] = {
    "id": "D_1",
    "databaseId": 9,
    "number": 5,
    "title": "How?",
    "body": "Text",
    "createdAt": "2026-03-02T09:00:00Z",
    "updatedAt": "2026-03-02T09:00:01Z",
    "closed": False,
    "locked": False,
    "upvoteCount": 2,
    "category": {"name": "Q&A"},
    "isAnswered": False,
    "author": {"__typename": "Bot", "login": "helper"},
    "comments": connection(COMMENT),
}


def home(*topics: Any, after: str | None = None, enabled: bool = True) -> dict[str, Any]:
    found = connection(*topics, after=after)
    return {"rateLimit": LIMIT, "node": {"hasDiscussionsEnabled": enabled, "discussions": found}}


async def listed(graphql: GraphQlClient) -> Any:
    return await DiscussionList(graphql, "R_1").fetch(ListRequest(token="t0"))


def test_a_discussion_is_read_with_its_comments() -> None:
    page, server = asked(listed, reply(home(TOPIC, after="t1")))
    (item,) = page.items
    assert (item.record.iid, item.record.author, item.record.state) == (5, "helper[bot]", "opened")
    assert [(row.remote_id, row.author, row.parent_id) for row in item.record.comments] == [(14, None, None)]
    assert page.next_token == "t1"
    order = {"field": "UPDATED_AT", "direction": "DESC"}
    assert sent(server) == [{"id": "R_1", "outer": 10, "inner": 12, "after": "t0", "order": order}]


@pytest.mark.parametrize(
    "bad",
    [
        TOPIC | {"databaseId": None},
        TOPIC | {"updatedAt": "yesterday"},
        TOPIC | {"body": "a\u0000b"},
        TOPIC | {"comments": connection(COMMENT | {"createdAt": "soon"})},
        TOPIC | {"comments": connection(COMMENT | {"body": 3})},
        TOPIC | {"comments": connection(COMMENT | {"replies": connection(COMMENT | {"databaseId": None})})},
    ],
)
def test_a_discussion_with_a_bad_field_is_rejected_alone(bad: dict[str, Any]) -> None:
    page, _ = asked(listed, reply(home(bad, TOPIC | {"number": 6, "databaseId": 10})))
    assert [entry.locator for entry in page.rejected] == ["5"]
    assert [item.record.iid for item in page.items] == [6]


@pytest.mark.parametrize(
    "hole",
    [connection(None), connection(COMMENT | {"replies": connection(None)})],
)
def test_a_comment_that_is_null_makes_the_answer_partial(hole: dict[str, Any]) -> None:
    page, server = asked(listed, reply(home(TOPIC | {"comments": hole})), reply(home(TOPIC)))
    assert [(asked["outer"], asked["after"]) for asked in sent(server)] == [(10, "t0"), (5, "t0")]
    assert len(page.items[0].record.comments) == 1


def test_switched_off_discussions_and_a_missing_repository_are_errors() -> None:
    with pytest.raises(FeatureDisabled):
        asked(listed, reply(home(enabled=False)))
    with pytest.raises(RemoteNotFound):
        asked(listed, reply({"rateLimit": LIMIT, "node": None}, error("NOT_FOUND", ["node"])))


def test_a_discussion_that_is_deleted_while_it_is_read_is_a_temporary_failure() -> None:
    begun = reply(home(TOPIC | {"comments": connection(COMMENT, after="c1")}))
    with pytest.raises(RemoteTransient):
        asked(listed, begun, reply({"node": None}, error("NOT_FOUND", ["node"])))


def test_pages_that_repeat_end_with_an_error() -> None:
    with pytest.raises(RemotePermanent, match="repeat"):
        asked(listed, reply(home(TOPIC, after="t0")))
    more = reply({"node": {"children": connection(COMMENT, after="c1")}})
    with pytest.raises(RemotePermanent, match="repeat"):
        asked(listed, reply(home(TOPIC | {"comments": connection(COMMENT, after="c1")})), more, more)


def test_the_version_of_a_discussion_does_not_depend_on_the_size_of_its_pages() -> None:
    second = COMMENT | {"id": "DC_2", "databaseId": 15}
    whole, _ = asked(listed, reply(home(TOPIC | {"comments": connection(COMMENT, second)})))
    parts, _ = asked(
        listed,
        reply(home(TOPIC | {"comments": connection(COMMENT, after="c1")})),
        reply({"node": {"children": connection(second)}}),
    )
    assert whole.items[0].version == parts.items[0].version
