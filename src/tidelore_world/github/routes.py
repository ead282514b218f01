"""Addresses of the simulated GitHub: from a path to a route name and a handler.

Owns the table of routes. `/repositories/<id>/...` and `/repos/<owner>/<name>/...` are the same routes under
the same name, so request counts do not depend on which form a link had. An old repository name answers 301.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from tidelore_world.github import payloads
from tidelore_world.github.call import Call
from tidelore_world.github.failure import ApiFailure, not_found
from tidelore_world.github.hub import Hub
from tidelore_world.github.reads import Reads
from tidelore_world.github.repository import Repository
from tidelore_world.github.serving import Desk, token_of
from tidelore_world.github.writes import Writes
from tidelore_world.wire import Request, Response, json_response

Handler = Callable[[Call], Response]
Route = tuple[str, Callable[[], Response]]
Shape = tuple[str, tuple[str, ...]]


def route_table(reads: Reads, writes: Writes) -> dict[Shape, Handler]:
    """Handlers by method and by the shape of the path behind the repository."""
    return {
        ("GET", ()): reads.repository,
        ("GET", ("issues",)): reads.issues,
        ("GET", ("issues", ":n")): reads.issue,
        ("GET", ("issues", ":n", "comments")): reads.thread_comments,
        ("GET", ("issues", "comments")): reads.all_comments,
        ("GET", ("issues", "comments", ":n")): reads.comment,
        ("GET", ("pulls",)): reads.pulls,
        ("GET", ("pulls", ":n")): reads.pull,
        ("GET", ("pulls", ":n", "comments")): reads.thread_review_comments,
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

    def __init__(self, hub: Hub, desk: Desk, table: Mapping[Shape, Handler]) -> None:
        self._hub = hub
        self._desk = desk
        self._table = table

    def route(self, request: Request) -> Route | None:
        """Name the route and give its handler; None when the path is not GitHub's."""
        segments = request.segments
        head = segments[0]
        if head == "repos" and len(segments) >= 3:
            return self._repository_route(request, segments[3:], f"{segments[1]}/{segments[2]}")
        if head == "repositories" and len(segments) >= 2:
            return self._repository_route(request, segments[2:], segments[1])
        if head == "users" and len(segments) == 2:
            return self._plain(request, "/users/:login", lambda: self._user(request, segments[1]))
        if segments == ("user",):
            return self._plain(request, "/user", lambda: self._viewer(request))
        if segments == ("app",):
            return self._plain(request, "/app", lambda: self._desk.apps.app(request), free=True)
        if segments[:2] == ("app", "installations") and segments[3:] == ("access_tokens",) and _is_number(segments[2]):
            pattern, number = "/app/installations/:n/access_tokens", int(segments[2])
            return self._plain(request, pattern, lambda: self._desk.apps.access_token(request, number), free=True)
        if segments == ("rate_limit",):
            return self._plain(request, "/rate_limit", lambda: self._rate_limit(request), free=True)
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
            repo = self._find(place)
            if repo is None:
                return self._elsewhere(request, place, rest)
            if handler is None:
                raise not_found()
            suffix = "".join(f"/{part}" for part in rest)
            return handler(Call(request, repo, numbers, tail, suffix))

        return name, lambda: self._desk.serve(request, answer)

    def _find(self, place: str) -> Repository | None:
        return self._hub.repositories.get(int(place)) if _is_number(place) else self._hub.named(place)

    def _elsewhere(self, request: Request, place: str, rest: tuple[str, ...]) -> Response:
        repo = self._hub.formerly(place)
        if repo is None:
            raise not_found()
        path = "".join(f"/{part}" for part in ("repositories", str(repo.id), *rest))
        location = f"{request.origin}{path}{_query_of(request)}"
        return json_response({"message": "Moved Permanently", "url": location}, 301, {"location": location})

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
        core = self._desk.limits.core(token_of(request))
        return json_response({"resources": {"core": core}, "rate": core})


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _query_of(request: Request) -> str:
    return f"?{urlencode(request.query, doseq=True)}" if request.query else ""
