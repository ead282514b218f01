"""How the tests of the simulated GitHub ask it: in process, by REST and by GraphQL."""

from __future__ import annotations

import json
import re
from typing import Any

from tidelore_world.github import GitHubForge
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

REPO = "harborline/ledger"


def new_forge() -> tuple[World, GitHubForge]:
    """A world whose GitHub has one empty repository."""
    world = World(seed=3)
    world.github.create_repo(REPO)
    return world, world.github


def send(forge: GitHubForge, method: str, target: str, body: Any = None, token: str = "") -> Response:
    """One request, with a token if one is given."""
    content = b"" if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    found = forge.route(Request.build(method, target, headers, content))
    assert found is not None, target
    return found[1]()


def get(forge: GitHubForge, target: str, token: str = "") -> Any:
    """The decoded body of a successful GET."""
    response = send(forge, "GET", target, token=token)
    assert response.status == 200, (target, response.status, response.body)
    return json.loads(response.body)


def status(forge: GitHubForge, target: str, token: str = "") -> int:
    """The status of a GET."""
    return send(forge, "GET", target, token=token).status


def links(response: Response) -> dict[str, str]:
    """The Link header by relation, as targets."""
    found = re.findall(r'<http://127\.0\.0\.1([^>]*)>; rel="(\w+)"', response.headers.get("link", ""))
    return {rel: url for url, rel in found}


def walk(forge: GitHubForge, target: str) -> list[Any]:
    """All rows of a list, following `rel=next`."""
    rows: list[Any] = []
    following: str | None = target
    while following:
        response = send(forge, "GET", following)
        assert response.status == 200, (following, response.status, response.body)
        rows += json.loads(response.body)
        following = links(response).get("next")
    return rows


def post_query(forge: GitHubForge, query: str, token: str = "one", **variables: Any) -> Response:
    """One GraphQL request."""
    return send(forge, "POST", "/graphql", {"query": query, "variables": variables}, token)


def ask(forge: GitHubForge, query: str, token: str = "one", **variables: Any) -> Any:
    """The data of a query that has no errors."""
    answered = json.loads(post_query(forge, query, token, **variables).body)
    assert "errors" not in answered, answered["errors"]
    return answered["data"]


def errors(forge: GitHubForge, query: str, token: str = "one", **variables: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The data and the errors of a query that is answered with status 200 although something failed."""
    response = post_query(forge, query, token, **variables)
    assert response.status == 200, response.body
    answered = json.loads(response.body)
    return answered.get("data"), answered["errors"]
