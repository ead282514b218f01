"""How the simulator's tests ask a world: in process, as a client of its HTTP interface would."""

from __future__ import annotations

import json
import re
from typing import Any

from tidelore_world.control import answer
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

PATH = "harborline/platform/ledger"
PROJECT = "/api/v4/projects/harborline%2Fplatform%2Fledger"


def project_world() -> World:
    """A world with one empty project."""
    world = World()
    world.gitlab.create_project(PATH)
    return world


def ask(world: World, target: str, method: str = "GET", body: bytes = b"", **headers: str) -> Response:
    """One request; header names with underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer(world, Request.build(method, target, named, body))


def get(world: World, target: str) -> Any:
    """The decoded body of a successful GET."""
    response = ask(world, target)
    assert response.status == 200, (target, response.status, response.body)
    return json.loads(response.body)


def iids(world: World, target: str) -> list[int]:
    """The numbers of the items on one page, in order."""
    return [row["iid"] for row in get(world, target)]


def links(response: Response) -> dict[str, str]:
    """The Link header by relation."""
    found = re.findall(r'<([^>]*)>; rel="(\w+)"', response.headers.get("link", ""))
    return {rel: url for url, rel in found}


def walk(world: World, target: str) -> list[Any]:
    """All rows of a list, following `rel=next`."""
    rows: list[Any] = []
    following: str | None = target
    while following:
        response = ask(world, following)
        assert response.status == 200, (following, response.status)
        rows += json.loads(response.body)
        following = links(response).get("next")
    return rows
