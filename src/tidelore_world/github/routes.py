"""Addresses of the simulated GitHub: from a path to a route name and a handler.

Owns the table of routes. `/repositories/<id>/...` and `/repos/<owner>/<name>/...` are the same routes under
the same name, so request counts do not depend on which form a link had; so are those below `/api/v3`, where an
Enterprise Server has them. An old repository name answers 301, a repository the caller may not see 404.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlencode

from tidelore_world.github import payloads
from tidelore_world.github.accounts import list_repositories
from tidelore_world.github.call import Call
from tidelore_world.github.failure import ApiFailure, Transferred, not_found
from tidelore_world.github.graphql import GraphQL
from tidelore_world.github.hooks import Hooks
from tidelore_world.github.hub import Hub
from tidelore_world.github.reads import Reads
from tidelore_world.github.repository import Repository
from tidelore_world.github.serving import Desk, token_of
from tidelore_world.github.writes import Writes
from tidelore_world.wire import Request, Response, json_response

Handler = Callable[[Call], Response]
Route = tuple[str, Callable[[], Response]]
Shape = tuple[str, tuple[str, ...]]


def route_table(reads: Reads, writes: Writes, hooks: Hooks) -> dict[Shape, Handler]:
    """Handlers by method and by the shape of the path behind the repository."""
    return {
        ("GET", ("hooks",)): hooks.list,
        ("POST", ("hooks",)): hooks.create,
        ("PATCH", ("hooks", ":n")): hooks.update,
        ("GET", ("hooks", ":n", "deliveries")): hooks.deliveries,
        ("GET", ()): reads.repository,
        ("GET", ("issues",)): reads.issues,
        ("GET", ("issues", ":n")): reads.issue,
        ("GET", ("issues", ":n", "comments")): reads.thread_comments,
        ("GET", ("issues", ":n", "timeline")): reads.timeline,
        ("GET", ("issues", "comments")): reads.all_comments,
        ("GET", ("issues", "comments", ":n")): reads.comment,
        ("GET", ("pulls",)): reads.pulls,
        ("GET", ("pulls", ":n")): reads.pull,
        ("GET", ("milestones",)): reads.milestones,
        ("GET", ("pulls", ":n", "comments")): reads.thread_review_comments,
        ("GET", ("pulls", ":n", "files")): reads.files,
        ("GET", ("pulls", ":n", "reviews")): reads.reviews,
        ("GET", ("pulls", ":n", "reviews", ":n")): reads.review,
        ("GET", ("pulls", "comments")): reads.all_review_comments,
        ("GET", ("pulls", "comments", ":n")): reads.review_comment,
        ("GET", ("compare", ":basehead")): reads.compare,
        ("POST", ("issues", ":n", "comments")): writes.post_comment,
        ("POST", ("pulls", ":n", "comments", ":n", "replies")): writes.post_reply,
        ("PATCH", ("issues", "comments", ":n")): writes.edit_comment,
        ("PATCH", ("pulls", "comments", ":n")): writes.edit_review_comment,
        ("DELETE", ("issues", "comments", ":n")): writes.delete_comment,
        ("DELETE", ("pulls", "comments", ":n")): writes.delete_review_comment,
    }


class Router:
    """Finds the handler of a request."""

    def __init__(self, hub: Hub, desk: Desk, table: Mapping[Shape, Handler], graphql: GraphQL) -> None:
        self._hub = hub
        self._desk = desk
        self._table = table
        self._graphql = graphql

    def route(self, request: Request) -> Route | None:
        """Name the route and give its handler; None when the path is not GitHub's."""
        request = below_enterprise(request)
        segments = request.segments
        head = segments[0]
        if segments == ("graphql",) or (segments == ("api", "graphql") and self._desk.settings.enterprise):
            return self._graphql_route(request)
        if head == "repos" and len(segments) >= 3:
            return self._repository_route(request, segments[3:], f"{segments[1]}/{segments[2]}")
        if head == "repositories" and len(segments) >= 2:
            return self._repository_route(request, segments[2:], segments[1])
        if head == "users" and len(segments) == 2:
            return self._plain(request, "/users/:login", lambda: self._user(request, segments[1]))
        if head in ("users", "orgs") and len(segments) == 3 and segments[2] == "repos":
            return self._plain(request, f"/{head}/:login/repos", lambda: self._repositories(request, *segments[:2]))
        if segments == ("user",):
            return self._plain(request, "/user", lambda: self._viewer(request))
        if segments == ("app",):
            return self._plain(request, "/app", lambda: self._desk.apps.app(request), free=True)
        if segments[:2] == ("app", "installations") and segments[3:] == ("access_tokens",) and _is_number(segments[2]):
            pattern, number = "/app/installations/:n/access_tokens", int(segments[2])
            return self._plain(request, pattern, lambda: self._desk.apps.access_token(request, number), free=True)
        if segments == ("rate_limit",):
            return self._plain(request, "/rate_limit", lambda: self._rate_limit(request), free=True)
        if segments == ("meta",):
            return self._plain(request, "/meta", lambda: json_response({"verifiable_password_authentication": False}))
        return None

    def _repository_route(self, request: Request, rest: tuple[str, ...], place: str) -> Route:
        shape = tuple(":n" if _is_number(part) else part for part in rest)
        tail = ""
        if rest[:1] == ("compare",):
            shape, tail = ("compare", ":basehead"), "/".join(rest[1:])
        handler = self._table.get((request.method, shape))
        name = "/".join((f"{request.method} /repos/:owner/:repo", *(shape if handler else ("*",))))
        numbers = tuple(int(part) for part in rest if _is_number(part))

        def answer() -> Response:
            login = self._desk.login(request)
            repo = self._find(place)
            if repo is None:
                return self._elsewhere(request, place, rest, login)
            if handler is None or not self._hub.may_read(repo, login):
                raise not_found()
            if repo.archived and request.method != "GET":
                raise ApiFailure(403, "Repository was archived so is read-only.")
            suffix = "".join(f"/{part}" for part in rest)
            try:
                return handler(Call(request, repo, numbers, tail, suffix, login))
            except Transferred as moved:
                path = ("repositories", str(moved.repository_id), "issues", str(moved.number), *rest[2:])
                return _moved(request, path)

        return name, lambda: self._desk.serve(request, answer)

    def _graphql_route(self, request: Request) -> Route:
        def answer() -> Response:
            if request.method != "POST":
                raise not_found()
            return self._graphql.answer(request)

        return f"{request.method} /graphql", lambda: self._desk.serve_graphql(request, answer)

    def _repositories(self, request: Request, kind: str, login: str) -> Response:
        return list_repositories(self._hub, self._desk.settings, request, kind, login, self._desk.login(request))

    def _find(self, place: str) -> Repository | None:
        return self._hub.repositories.get(int(place)) if _is_number(place) else self._hub.named(place)

    def _elsewhere(self, request: Request, place: str, rest: tuple[str, ...], login: str) -> Response:
        repo = self._hub.formerly(place)
        if repo is None or not self._hub.may_read(repo, login):
            raise not_found()
        return _moved(request, ("repositories", str(repo.id), *rest))

    def _plain(self, request: Request, pattern: str, handler: Callable[[], Response], *, free: bool = False) -> Route:
        return f"{request.method} {pattern}", lambda: self._desk.serve(request, handler, free=free)

    def _user(self, request: Request, login: str) -> Response:
        account = self._hub.known_user(login)
        if account is None:
            raise not_found()
        return json_response(payloads.user(request.origin, account) | {"name": account.name})

    def _viewer(self, request: Request) -> Response:
        login = self._desk.acting_login(request)
        if self._desk.apps.is_installation(token_of(request)):
            raise ApiFailure(403, "Resource not accessible by integration")
        account = self._hub.user(login)
        return json_response(payloads.user(request.origin, account) | {"name": account.name})

    def _rate_limit(self, request: Request) -> Response:
        if not self._desk.settings.rate_limits:
            raise ApiFailure(404, "Rate limiting is not enabled.")
        caller = token_of(request)
        core, graphql = self._desk.limits.core(caller), self._desk.limits.graphql(caller)
        return json_response({"resources": {"core": core, "graphql": graphql}, "rate": core})


def below_enterprise(request: Request) -> Request:
    """A request as if it had been sent to the API's root: an Enterprise Server has it at `/api/v3`."""
    if not request.path.startswith("/api/v3/"):
        return request
    host = f"{request.headers.get('host', '127.0.0.1')}/api/v3"
    return replace(request, path=request.path.removeprefix("/api/v3"), headers={**request.headers, "host": host})


def _moved(request: Request, segments: tuple[str, ...]) -> Response:
    location = f"{request.origin}/{'/'.join(segments)}{_query_of(request)}"
    return json_response({"message": "Moved Permanently", "url": location}, 301, {"location": location})


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _query_of(request: Request) -> str:
    return f"?{urlencode(request.query, doseq=True)}" if request.query else ""
