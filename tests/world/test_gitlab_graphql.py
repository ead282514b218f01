"""Work item statuses over GraphQL: what is asked for, what is refused, and in which words."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.world.asking import PATH, ask, project_world

from tidelore_world.wire import Response
from tidelore_world.world import World

STATUSES = """
query statuses($path: ID!, $iids: [String!], $first: Int = 100, $after: String) {
  project(fullPath: $path) {
    workItems(iids: $iids, first: $first, after: $after) {
      pageInfo { hasNextPage endCursor }
      nodes {
        iid
        widgets {
          type
          ... on WorkItemWidgetStatus { status { id name category color iconName } }
        }
      }
    }
  }
}
"""


@pytest.fixture
def world() -> World:
    made = project_world()
    made.gitlab.bulk(PATH, issues=7)
    return made


def _post(world: World, query: str = STATUSES, **variables: Any) -> Response:
    body = json.dumps({"query": query, "variables": {"path": PATH, **variables}}).encode()
    return ask(world, "/api/graphql", "POST", body)


def _data(response: Response) -> Any:
    assert response.status == 200
    answered = json.loads(response.body)
    assert "errors" not in answered, answered
    return answered["data"]


def _error(response: Response) -> dict[str, Any]:
    assert response.status == 200
    answered = json.loads(response.body)
    assert "data" not in answered
    first: dict[str, Any] = answered["errors"][0]
    return first


def _page(response: Response) -> tuple[dict[int, Any], dict[str, Any]]:
    items = _data(response)["project"]["workItems"]
    found = {}
    for node in items["nodes"]:
        status = next((widget["status"] for widget in node["widgets"] if widget["type"] == "STATUS"), None)
        found[int(node["iid"])] = status and {
            "name": status["name"],
            "category": status["category"],
            "color": status["color"],
            "icon_name": status["iconName"],
        }
    return found, items["pageInfo"]


def test_paged_statuses_of_all_issues_equal_the_truth(world: World) -> None:
    world.gitlab.set_status(PATH, 2, "in progress")
    world.gitlab.set_status(PATH, 3, "Won't do")
    world.gitlab.close_issue(PATH, 4)
    world.gitlab.create_issue(PATH, issue_type="incident")
    found: dict[int, Any] = {}
    after, pages = None, 0
    while True:
        rows, info = _page(_post(world, first=3, after=after))
        found |= rows
        pages += 1
        if not info["hasNextPage"]:
            break
        after = info["endCursor"]
    assert pages == 3
    assert found == world.gitlab.truth_statuses(PATH)
    names = {iid: status and status["name"] for iid, status in found.items()}
    assert (names[1], names[2], names[3], names[4], names[8]) == ("To do", "In progress", "Won't do", "Done", None)


def test_only_the_requested_issue_numbers_are_returned(world: World) -> None:
    rows, info = _page(_post(world, iids=["6", "2", "99"]))
    assert set(rows) == {2, 6}
    assert info["hasNextPage"] is False
    rows, info = _page(_post(world, iids=["1", "2", "3"], first=2))
    assert set(rows) == {3, 2}
    rows, info = _page(_post(world, iids=["1", "2", "3"], first=2, after=info["endCursor"]))
    assert set(rows) == {1}
    assert info["hasNextPage"] is False


def test_a_status_page_holds_at_most_a_hundred_issues() -> None:
    world = project_world()
    world.gitlab.bulk(PATH, issues=130)
    rows, info = _page(_post(world, first=500))
    assert len(rows) == 100
    assert info["hasNextPage"] is True


def test_a_graphql_get_is_answered_like_a_post(world: World) -> None:
    query = urlencode({"query": STATUSES, "variables": json.dumps({"path": PATH, "iids": ["1"]})})
    assert _data(ask(world, f"/api/graphql?{query}")) == _data(_post(world, iids=["1"]))
    assert world.requests["GET /api/graphql"] == world.requests["POST /api/graphql"] == 1


def test_literal_arguments_aliases_and_named_fragments_are_supported(world: World) -> None:
    query = f"""
    {{ p: project(fullPath: "{PATH}") {{ fullPath, workItems(iids: ["3"]) {{ nodes {{ n: iid ...W __typename }} }} }} }}
    # the widgets
    fragment W on WorkItem {{ widgets {{ ... on WorkItemWidgetStatus {{ status {{ name }} }} }} }}
    """
    node = {"n": "3", "widgets": [{}, {"status": {"name": "To do"}}], "__typename": "WorkItem"}
    assert _data(_post(world, query)) == {"p": {"fullPath": PATH, "workItems": {"nodes": [node]}}}


def test_a_server_without_statuses_has_no_status_type(world: World) -> None:
    world.gitlab.statuses = False
    error = _error(_post(world))
    assert error["message"] == "No such type WorkItemWidgetStatus, so it can't be a fragment condition"
    assert error["extensions"] == {"code": "undefinedType", "typeName": "WorkItemWidgetStatus"}
    assert error["path"][-2:] == ["widgets", "... on WorkItemWidgetStatus"]
    assert error["locations"] == [{"line": 10, "column": 11}]
    assert set(world.gitlab.truth_statuses(PATH).values()) == {None}


def test_an_old_server_has_no_work_items(world: World) -> None:
    world.gitlab.old_server = True
    error = _error(_post(world))
    assert error["message"] == "Field 'workItems' doesn't exist on type 'Project'"
    assert error["extensions"] == {"code": "undefinedField", "typeName": "Project", "fieldName": "workItems"}
    assert error["path"] == ["query statuses", "project", "workItems"]


def test_an_unlicensed_server_has_the_status_type_but_no_widget(world: World) -> None:
    world.gitlab.statuses_licensed = False
    rows, _ = _page(_post(world))
    assert rows == world.gitlab.truth_statuses(PATH) == dict.fromkeys(range(1, 8))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("{ project { id } }", "missing required arguments: fullPath"),
        ('{ project(fullPath: "x") { nope } }', "Field 'nope' doesn't exist on type 'Project'"),
        ('{ project(fullPath: "x", colour: 1) { id } }', "doesn't accept argument 'colour'"),
        ('{ project(fullPath: "x") }', "Field must have selections"),
        ('{ project(fullPath: "x") { id { x } } }', "Selections can't be made on scalars"),
        ('{ project(fullPath: "x") { ...F } }', "Fragment F was used, but not defined"),
        ("mutation { workItemUpdate(input: 1) { id } }", "doesn't exist on type 'Mutation'"),
        ("{ project(fullPath: ", "Expected"),
        ("query ($p: ID!) { project(fullPath: $p) { id } }", "Variable $p of type ID!"),
        ("", "No query string was present"),
    ],
)
def test_unsupported_graphql_documents_are_refused_with_a_message(world: World, query: str, message: str) -> None:
    assert message in _error(_post(world, query))["message"]


def test_issue_numbers_must_be_strings_in_graphql(world: World) -> None:
    assert "Expected type '[String!]'" in _error(_post(world, iids=[1]))["message"]


def test_inaccessible_projects_are_null(world: World) -> None:
    assert _data(_post(world, path="no/where")) == {"project": None}
    world.gitlab.forbid_project(PATH)
    assert _data(_post(world)) == {"project": None}
    world.gitlab.forbid_project(PATH, forbidden=False)
    world.gitlab.rename_project(PATH, "harborline/platform/books")
    assert _data(_post(world)) == {"project": None}
    assert _data(_post(world, path="harborline/platform/books"))["project"] is not None


def test_graphql_checks_token_method_and_rate_limit(world: World) -> None:
    world.gitlab.token = "glpat-right"
    refused = _post(world)
    assert refused.status == 401
    assert json.loads(refused.body) == {"errors": [{"message": "Invalid token"}]}
    body = json.dumps({"query": '{ project(fullPath: "x") { id } }'}).encode()
    assert ask(world, "/api/graphql", "POST", body, private_token="glpat-right").status == 200
    assert ask(world, "/api/graphql", "DELETE", private_token="glpat-right").status == 405
    assert ask(world, "/api/v4/projects", "POST", private_token="glpat-right").status == 405
    world.gitlab.rate_limit = 1
    assert ask(world, "/api/graphql", "POST", body, private_token="glpat-right").status == 200
    assert ask(world, "/api/graphql", "POST", body, private_token="glpat-right").status == 429


def test_too_large_a_query_is_refused(world: World) -> None:
    assert _post(world, "{ " + "x" * 10_000 + " }").status == 422


def test_a_status_change_updates_updated_at_and_the_state(world: World) -> None:
    forge, project = world.gitlab, world.gitlab.project(PATH)
    before = forge.issue(PATH, 1).updated_at_us
    issue = forge.set_status(PATH, 1, "In progress")
    assert issue.updated_at_us == world.clock.now_us > before
    assert (issue.state, project.open_issues) == ("opened", 7)
    forge.set_status(PATH, 1, "Duplicate")
    assert (issue.state, project.open_issues) == ("closed", 6)
    assert issue.events[-1].action == "closed"
    forge.reopen_issue(PATH, 1)
    shown = forge.truth_statuses(PATH)[1]
    assert shown is not None
    assert shown["name"] == "To do"
    assert "set status to **Duplicate**" in [found.notes[0].body for found in issue.discussions]
    with pytest.raises(ValueError, match="no status 'Asleep'"):
        forge.set_status(PATH, 1, "Asleep")
