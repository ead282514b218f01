"""GraphQL of GitLab: requests for statuses, the complexity of answers, and answers that are not failures."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec import Raw
from tests.unit.http.asking import TOKEN, ask
from tests.unit.http.wire_server import Answer, ScriptedServer, Seen, answer

from tidelore.core.errors import CredentialsRejected, RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.core.model import StatusRecord
from tidelore.http.client import HttpClient
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.graphql import Complexity, GitLabGraphQl, read_statuses

PATH = "port/north/crane"
DONE = {"name": "Done", "category": "done", "color": "#108548", "iconName": "status-success"}


def item(iid: int, *widgets: dict[str, Any]) -> dict[str, Any]:
    return {"iid": str(iid), "widgets": list(widgets)}


def page(*nodes: Any, following: str | None = None) -> Answer:
    info = {"hasNextPage": following is not None, "endCursor": following}
    return said({"data": {"project": {"workItems": {"pageInfo": info, "nodes": nodes}}}})


def said(value: Any, status: int = 200) -> Answer:
    return answer(status, json.dumps(value).encode())


def problem(message: str, code: str | None = None) -> Answer:
    return said({"errors": [{"message": message, **({"extensions": {"code": code}} if code else {})}]})


def read(
    *script: Answer, iids: list[int] | None = None, retries: int = 0
) -> tuple[dict[int, StatusRecord | None] | None, ScriptedServer]:
    async def job(http: HttpClient, _: ScriptedServer) -> dict[int, StatusRecord | None] | None:
        return await read_statuses(GitLabClient(http), PATH, iids if iids is not None else [1])

    result, server, _ = ask(*script, do=job, max_retries=retries)
    return result, server


def variables(seen: Seen) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(parse_qs(urlsplit(seen.target).query)["variables"][0])
    return found


def test_statuses_are_requested_by_get_with_issue_numbers_as_variables() -> None:
    found, server = read(page(item(7, {"type": "DESCRIPTION"}, {"status": DONE}), item(3)), iids=[3, 7])
    (seen,) = server.seen
    assert (seen.method, urlsplit(seen.target).path) == ("GET", "/api/graphql")
    assert variables(seen) == {"path": PATH, "iids": ["3", "7"], "first": 2, "after": None}
    assert TOKEN not in seen.target
    assert seen.headers["private-token"] == TOKEN
    assert found == {3: None, 7: StatusRecord("Done", "done", "#108548", "status-success")}


@pytest.mark.parametrize("shown", [{"status": None}, {"status": {"name": None}}, {}])
def test_an_issue_without_a_status_gets_none(shown: dict[str, Any]) -> None:
    assert read(page(item(1, shown)))[0] == {1: None}


def test_issues_missing_from_the_response_are_left_out_and_extra_issues_are_ignored() -> None:
    shown = item(9, {"status": DONE}), None, {"iid": "?", "widgets": None}, item(2)
    assert read(page(*shown), iids=[1, 2])[0] == {2: None}


def test_no_request_is_sent_for_an_empty_list_of_issues() -> None:
    found, server = read(page(), iids=[])
    assert (found, server.seen) == ({}, [])


def test_statuses_are_requested_for_a_hundred_issues_at_a_time() -> None:
    numbers = list(range(1, 251))
    found, server = read(page(), iids=numbers)
    assert [len(variables(seen)["iids"]) for seen in server.seen] == [100, 100, 50]
    assert found == {}
    assert all(len(seen.target) < 8000 for seen in server.seen)


def test_status_pages_are_followed_by_cursor() -> None:
    script = (page(item(1, {"status": DONE}), following="a"), page(item(2, {"status": DONE}), following="b"), page())
    found, server = read(*script, iids=[1, 2, 3])
    assert [variables(seen)["after"] for seen in server.seen] == [None, "a", "b"]
    assert found is not None
    assert [*found] == [1, 2]


@pytest.mark.parametrize("cursor", ["a", None])
def test_circular_status_pages_are_an_error_and_clear_no_status(cursor: str | None) -> None:
    info = {"hasNextPage": True, "endCursor": cursor}
    turning = said({"data": {"project": {"workItems": {"pageInfo": info, "nodes": []}}}})
    with pytest.raises(RemotePermanent, match="repeat"):
        read(turning, turning)


@pytest.mark.parametrize("code", ["undefinedType", "undefinedField", "argumentNotAccepted"])
def test_a_server_without_status_in_its_schema_is_not_an_error(code: str) -> None:
    assert read(problem("No such type WorkItemWidgetStatus", code))[0] is None


def test_a_server_without_graphql_is_not_an_error() -> None:
    assert read(said({"error": "404 Not Found"}, 404))[0] is None


@pytest.mark.parametrize("code", [None, "argumentLiteralsIncompatible"])
def test_other_graphql_errors_are_raised_with_the_servers_message_and_without_secrets(code: str | None) -> None:
    with pytest.raises(RemotePermanent, match="Query has complexity of 300") as caught:
        read(problem(f"Query has\ncomplexity of 300 for {TOKEN} " + "x" * 500, code))
    assert TOKEN not in caught.value.message
    assert len(caught.value.message) < 260


def test_graphql_errors_beside_data_are_an_error() -> None:
    whole = {"data": {"project": {"workItems": None}}, "errors": [{"message": "Internal server error"}]}
    with pytest.raises(RemotePermanent, match="Internal server error"):
        read(said(whole))


@pytest.mark.parametrize("data", [None, {"project": None}, {"project": {"workItems": None}}])
def test_the_error_for_an_inaccessible_project_names_it(data: Any) -> None:
    with pytest.raises(RemoteNotFound, match=f"project {PATH} does not exist") as caught:
        read(said({"data": data}))
    assert caught.value.details["project"] == PATH


def test_a_rejected_token_and_a_server_error_keep_their_error_class() -> None:
    with pytest.raises(CredentialsRejected):
        read(said({"errors": [{"message": "Invalid token"}]}, 401))
    with pytest.raises(RemoteTransient):
        read(said({}, 502))


def test_a_server_error_on_the_status_query_is_retried() -> None:
    found, server = read(said({}, 502), page(item(1, {"status": DONE})), retries=1)
    assert found is not None
    assert found[1] is not None
    assert len(server.seen) == 2


@pytest.mark.parametrize("shape", [{"status": {"name": 5}}, {"status": {"name": "a\x00b"}}, {"status": "Done"}])
def test_a_status_that_cannot_be_parsed_or_stored_is_an_error(shape: dict[str, Any]) -> None:
    with pytest.raises(RemotePermanent) as caught:
        read(page(item(1, shape)))
    assert caught.value.reason == "bad_shape"


@pytest.mark.parametrize(
    ("data", "expected", "near"),
    [
        ('{"queryComplexity":{"score":44,"limit":250},"project":null}', Complexity(44, 250), False),
        ('{"queryComplexity":{"score":240,"limit":250},"project":null}', Complexity(240, 250), True),
        ('{"project":{"id":"}"},"queryComplexity":{"score":240,"limit":250}}', Complexity(240, 250), True),
        ('{ "queryComplexity": {"score":240,"limit":250} }', Complexity(240, 250), True),
        ('{"queryComplexity":null,"project":null}', None, False),
        ('{"queryComplexity":{"score":"many","limit":250},"project":null}', None, False),
        ('{"project":null}', None, False),
    ],
)
def test_the_complexity_of_an_answer_is_found_wherever_it_is(
    data: str, expected: Complexity | None, near: bool
) -> None:
    graphql = GitLabGraphQl(lambda: pytest.fail("nothing is asked"), "gitlab")
    assert graphql.count(Raw(data.encode())) is near
    assert graphql.complexity == expected
