"""The repositories of an organization or a user.

Owns which of them a caller sees, their order and the parameters the two lists heed. Refuses to know what is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelore_world.github import payloads
from tidelore_world.github.failure import not_found
from tidelore_world.github.hub import Hub
from tidelore_world.github.paging import link_header, read_window
from tidelore_world.github.repository import Repository
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.wire import Request, Response, json_response

_ORDERS: dict[str, Callable[[Repository], Any]] = {
    "created": lambda repo: (repo.created_s, repo.id),
    "updated": lambda repo: (repo.updated_s, repo.id),
    "pushed": lambda repo: (repo.pushed_s, repo.id),
    "full_name": lambda repo: repo.full_name.lower(),
}
_TYPES: dict[str, Callable[[Repository], bool]] = {
    "public": lambda repo: not repo.private,
    "private": lambda repo: repo.private,
    "forks": lambda repo: repo.fork,
    "sources": lambda repo: not repo.fork,
}


def list_repositories(
    hub: Hub, settings: GitHubSettings, request: Request, kind: str, login: str, caller: str
) -> Response:
    """Answer `/orgs/{login}/repos` or `/users/{login}/repos`.

    An organization's are ordered by creation, newest first, a user's by name; `type` is heeded for organizations.
    """
    owner = hub.known_user(login)
    if owner is None or (kind == "orgs") != (owner.kind == "Organization"):
        raise not_found()
    window = read_window(request, settings)
    sort = request.first("sort") or ("created" if kind == "orgs" else "full_name")
    order = _ORDERS.get(sort, _ORDERS["created"])
    direction = request.first("direction") or ("asc" if sort == "full_name" else "desc")
    test = _TYPES.get(request.first("type") or "all") if kind == "orgs" else None
    rows = [
        repo
        for repo in hub.repositories.values()
        if repo.owner.login == owner.login and hub.may_read(repo, caller) and (test is None or test(repo))
    ]
    rows.sort(key=order, reverse=direction == "desc")
    link = link_header(request, window, len(rows), settings, request.path)
    shown = [payloads.repository(request.origin, repo) for repo in rows[window.offset :][: window.per_page]]
    return json_response(shown, headers={} if link is None else {"link": link})
