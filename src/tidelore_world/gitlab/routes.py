"""The routes of REST v4 and GraphQL: which path means what, and the guards every request passes.

Owns matching, the token check, the rate budget and finding the project. Refuses to shape payloads.
Invariant: every path under `/api/v4` has an answer here, so a request is counted under one stable name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode

from tidelore_world.gitlab.answers import conditional, error, spend
from tidelore_world.gitlab.endpoints import (
    child,
    group_projects,
    list_items,
    list_projects,
    me,
    members,
    merge_base,
    one_discussion,
    one_item,
    one_project,
    version,
)
from tidelore_world.gitlab.graphql import graphql
from tidelore_world.gitlab.hooks import list_events, list_hooks
from tidelore_world.gitlab.listing import BadQuery
from tidelore_world.gitlab.records import NotHere
from tidelore_world.gitlab.state import Kind, Project
from tidelore_world.gitlab.view import View
from tidelore_world.gitlab.writes import find_write
from tidelore_world.wire import Request, Response, json_response

Handler = Callable[[], Response]
_KINDS: Mapping[str, Kind] = {"issues": "issues", "merge_requests": "merge_requests"}


@dataclass(frozen=True, slots=True)
class _Style:
    """What the two interfaces do differently at the door."""

    methods: frozenset[str]
    unauthorized: Mapping[str, object]


_REST = _Style(frozenset({"GET"}), {"message": "401 Unauthorized"})
_WRITE = _Style(frozenset({"POST", "PUT"}), _REST.unauthorized)
_QUERY = _Style(frozenset({"GET", "POST"}), {"errors": [{"message": "Invalid token"}]})


def find_route(forge: View, request: Request) -> tuple[str, Handler] | None:
    """Name the route and give its guarded handler; None when the path is not GitLab's."""
    segments = request.segments
    if segments == ("api", "graphql"):
        answer = partial(graphql, forge, request)
        return f"{request.method} /api/graphql", partial(_guarded, forge, request, answer, _QUERY)
    if segments[:2] != ("api", "v4"):
        return None
    if request.method in _WRITE.methods and (found := find_write(segments[2:], request.method)) is not None:
        name, write = found
        inner = _inside(forge, request, segments[3], partial(write, forge, request))
        return f"{request.method} {name}", partial(_guarded, forge, request, inner, _WRITE)
    name, handler = _match(forge, request, segments[2:])
    return f"{request.method} {name}", partial(_guarded, forge, request, handler, _REST)


def _match(forge: View, request: Request, rest: tuple[str, ...]) -> tuple[str, Handler]:
    match rest:
        case ("version",):
            return "/version", partial(version, forge, request)
        case ("user",):
            return "/user", partial(me, forge, request)
        case ("projects",):
            return "/projects", partial(list_projects, forge, request)
        case ("groups", group, "projects"):
            return "/groups/:id/projects", partial(group_projects, forge, request, group)
        case ("projects", project, "members", "all"):
            return "/projects/:id/members/all", _inside(forge, request, project, partial(members, forge, request))
        case ("projects", project, "repository", "merge_base"):
            inner = partial(merge_base, request)
            return "/projects/:id/repository/merge_base", _inside(forge, request, project, inner)
        case ("projects", project, "hooks"):
            return "/projects/:id/hooks", _inside(forge, request, project, partial(list_hooks, forge, request))
        case ("projects", project, "hooks", number, "events") if number.isdecimal():
            inner = partial(list_events, forge, request, int(number))
            return "/projects/:id/hooks/:hook_id/events", _inside(forge, request, project, inner)
        case ("projects", project):
            return "/projects/:id", _inside(forge, request, project, partial(one_project, request))
    return _match_item(forge, request, rest)


def _match_item(forge: View, request: Request, rest: tuple[str, ...]) -> tuple[str, Handler]:
    if len(rest) < 3 or rest[0] != "projects" or rest[2] not in _KINDS:
        return "/api/v4 (unknown)", partial(error, 404, "404 Not Found", "error")
    kind = _KINDS[rest[2]]
    inner: Callable[[Project], Response]
    match rest[3:]:
        case ():
            name, inner = f"/projects/:id/{kind}", partial(list_items, forge, request, kind)
        case (iid,) if iid.isdecimal():
            name, inner = f"/projects/:id/{kind}/:iid", partial(one_item, forge, request, kind, int(iid))
        case (iid, what) if iid.isdecimal() and (read := child(kind, what)):
            name, inner = f"/projects/:id/{kind}/:iid/{what}", partial(read, forge, request, kind, int(iid))
        case (iid, "discussions", discussion) if iid.isdecimal():
            name = f"/projects/:id/{kind}/:iid/discussions/:id"
            inner = partial(one_discussion, forge, kind, int(iid), discussion)
        case _:
            return "/api/v4 (unknown)", partial(error, 404, "404 Not Found", "error")
    return name, _inside(forge, request, rest[1], partial(_if_shown, request, kind, inner, is_list=not rest[3:]))


def _if_shown(
    request: Request, kind: Kind, inner: Callable[[Project], Response], project: Project, *, is_list: bool
) -> Response:
    """What is switched off: merge requests are forbidden; issues are not found, and their list is empty."""
    if kind not in project.hidden:
        return inner(project)
    if kind == "merge_requests":
        return error(403, "403 Forbidden")
    return conditional(request, b"[]") if is_list else error(404, "404 Not found")


def _guarded(forge: View, request: Request, handler: Handler, style: _Style) -> Response:
    headers, affordable = spend(forge)
    if not affordable:
        response = Response(429, {"content-type": "text/plain"}, b"Retry later\n")
    elif forge.token is not None and _token(request) != forge.token:
        response = json_response(style.unauthorized, 401)
    elif request.method not in style.methods:
        response = error(405, "405 Not Allowed", "error")
    else:
        try:
            response = handler()
        except BadQuery as problem:
            response = error(400, str(problem), "error")
    response.headers.update(headers)
    return response


def _inside(forge: View, request: Request, ref: str, inner: Callable[[Project], Response]) -> Handler:
    """Find the project first: 404 when there is none, 301 to its number from an old path, 403 when forbidden."""

    def handler() -> Response:
        try:
            project = forge.project(int(ref) if ref.isdecimal() else ref)
        except NotHere:
            moved = forge.moved_from(ref)
            return error(404, "404 Project Not Found") if moved is None else _redirect(request, moved)
        return error(403, "403 Forbidden") if project.forbidden else inner(project)

    return handler


def _redirect(request: Request, project: Project) -> Response:
    parts = request.path.strip("/").split("/")
    parts[3] = str(project.id)
    query = urlencode(request.query, doseq=True)
    target = f"{request.origin}/{'/'.join(parts)}" + (f"?{query}" if query else "")
    response = error(301, "This resource has been moved permanently")
    response.headers["location"] = target
    return response


def _token(request: Request) -> str:
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return request.headers.get("private-token", bearer)
