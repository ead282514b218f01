"""Sends GraphQL queries to GitHub and accepts only complete answers.

Responsible for the meaning of errors, for the page sizes and for the points a query costs. GitHub may answer a query
only in part: it names a resource limit, leaves null where an object should be, or gives up after ten seconds. Such an
answer is never returned: the same query is sent again with a smaller page and the same cursor, and the smaller size is
kept for the next queries of this client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from tidelore.core.clock import parse_instant
from tidelore.core.errors import AccessRefused, QueryLimited, RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.http.client import OVERLOADED
from tidelore.http.limits import whole_number
from tidelore.http.response import Response
from tidelore.sources.github.client import GitHubClient

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Path = tuple[str | int, ...]

NULL = Raw(b"null")
"""What stands for a missing value where bytes are kept as they came."""

_LIMITED = frozenset({"RATE_LIMITED", "RATE_LIMIT"})
_REFUSED = frozenset({"FORBIDDEN", "INSUFFICIENT_SCOPES"})
_TOO_MUCH = frozenset({"RESOURCE_LIMITS_EXCEEDED", "MAX_NODE_LIMIT_EXCEEDED"})
_FAILED = frozenset({"INTERNAL", "SERVICE_UNAVAILABLE"})
_GAVE_UP = ("something went wrong", "timed out", "timedout", "couldn't respond")
"""How the message of a query that took too long begins or reads; such an error has no type."""
_LEAST_INNER = 5
"""The smallest page inside a page of one."""


class PageSize(Struct, frozen=True):
    """How much one query asks for: `outer` objects, each with a page of `inner` objects."""

    outer: int
    inner: int

    def smaller(self) -> PageSize | None:
        """Return the next smaller size, or None below the minimum."""
        if self.outer > 1:
            return PageSize(self.outer // 2, self.inner)
        return PageSize(1, self.inner // 2) if self.inner // 2 >= _LEAST_INNER else None


class PageInfo(Struct, frozen=True, rename="camel"):
    has_next_page: bool
    end_cursor: str | None = None

    @property
    def following(self) -> str | None:
        """The cursor of the next page; None at the end."""
        if self.has_next_page and self.end_cursor is None:
            raise PartialAnswer("a page has a next one and no cursor")
        return self.end_cursor if self.has_next_page else None


class Connection(Struct, frozen=True, rename="camel"):
    """One page of a list, with its objects as they came."""

    page_info: PageInfo
    nodes: tuple[Raw, ...]


class Actor(Struct, frozen=True):
    """An account. GraphQL names a bot without the `[bot]` that REST appends."""

    login: str
    kind: str | None = msgspec.field(default=None, name="__typename")


class GraphQlData(Struct, frozen=True):
    """A complete answer. `hidden` are the paths at which null means that the object is not there for this token."""

    data: Raw
    hidden: frozenset[Path] = frozenset()
    server_at: int | None = None


class Points(Struct, frozen=True, rename="camel"):
    """The GraphQL rate limit: the cost of the last query, what is left, and when it resets."""

    cost: int
    remaining: int
    reset_at: str


class _Problem(Struct, frozen=True):
    message: str = ""
    kind: str | None = msgspec.field(default=None, name="type")
    path: tuple[str | int, ...] | None = None


class _Answer(Struct, frozen=True):
    data: Raw = NULL
    errors: tuple[_Problem, ...] | None = None


class _Limit(Struct, frozen=True, rename="camel"):
    rate_limit: Points | None = None


class PartialAnswer(Exception):
    """An answer that lacks something; only raised between a reader and `GraphQlClient.ask`."""


class GraphQlClient:
    """The GraphQL interface of one GitHub host. Without a token it refuses every query, as the server does."""

    def __init__(self, client: GitHubClient, *, signed_in: bool = True) -> None:
        self._client = client
        self._signed_in = signed_in
        self._sizes: dict[str, PageSize] = {}
        self._exhausted: QueryLimited | None = None
        self.spent = 0
        """The points that all queries of this client have cost."""
        self.remaining: int | None = None
        """The points that are left, from the last answer."""
        self.reset_at: int | None = None
        """When the points are restored, by the server's clock."""

    def size(self, route: str, wanted: PageSize) -> PageSize:
        """Return the size to use for a kind of query: the wanted one, unless it was too large before."""
        return self._sizes.get(route, wanted)

    async def ask(
        self,
        document: str,
        variables: Callable[[PageSize], dict[str, Any]],
        read: Callable[[GraphQlData], T],
        *,
        route: str,
        size: PageSize,
        skips_hidden: bool = False,
    ) -> T:
        """Send a query and return what `read` makes of its complete answer.

        `variables` are built for a size; `read` raises `PartialAnswer` if something is missing. Then, or if the server
        cannot answer a query of this size, the query is sent again with a smaller one. With `skips_hidden` an entry of
        an inner list may be hidden from the token, such as an issue of a private repository.
        """
        self._require_token()
        while True:
            if self._exhausted is not None:
                raise self._exhausted
            size = self.size(route, size)
            smaller = size.smaller()
            content = {"query": document, "variables": variables(size)}
            try:
                answer, response = await self._send(content, route, retry_overload=smaller is None)
                hidden = self._judge(answer.errors or (), response, skips_hidden=skips_hidden)
                if answer.data == NULL:
                    raise PartialAnswer("no data")
                self._count(answer.data)
                return read(GraphQlData(answer.data, hidden, response.server_at))
            except PartialAnswer as partial:
                reason = str(partial)
            except RemoteTransient as error:
                if error.status not in OVERLOADED or smaller is None:
                    raise
                reason = f"status {error.status}"
            if smaller is None:
                raise RemoteTransient(
                    f"the server does not answer {route} completely, even in the smallest pages: {reason}",
                    reason="graphql_partial",
                    fix="run the command again later; it continues where it stopped",
                )
            _LOG.info("%s: %s with %d x %d objects; retrying with fewer", route, reason, size.outer, size.inner)
            if self.size(route, size) == size:
                # Otherwise a query sent beside this one has reduced the size already.
                self._sizes[route] = smaller

    async def _send(self, content: dict[str, Any], route: str, *, retry_overload: bool) -> tuple[_Answer, Response]:
        try:
            return await self._client.query(
                content, as_type=_Answer, route=f"graphql/{route}", retry_overload=retry_overload
            )
        except QueryLimited as error:
            self._exhausted = error
            raise
        except RemotePermanent as error:
            if error.status not in (403, 404, 410):
                raise
            raise _refusal(str(error.details.get("said") or error.message), error.status) from None

    def _judge(self, problems: tuple[_Problem, ...], response: Response, *, skips_hidden: bool) -> frozenset[Path]:
        """Return the paths of hidden objects, or raise the error that the problems amount to."""
        hidden: set[Path] = set()
        kinds = {problem.kind for problem in problems}
        for problem in problems:
            said, kind = self._client.clean(problem.message), problem.kind
            if kinds & _LIMITED:
                raise self._limited(said, response)
            if kind in _TOO_MUCH or (kind is None and problem.message.lower().startswith(_GAVE_UP)):
                raise PartialAnswer(said)
            path = problem.path or ()
            entry = len(path) > 2 and isinstance(path[-1], int)
            if (kind == "NOT_FOUND" and not entry) or (kind in {"NOT_FOUND", *_REFUSED} and entry and skips_hidden):
                hidden.add(path)
            elif kind == "NOT_FOUND":
                raise PartialAnswer(said)
            elif kind in _REFUSED:
                raise _refusal(said, response.status)
            elif kind in _FAILED:
                raise RemoteTransient(f"the server failed: {said}", status=response.status, reason="graphql")
            else:
                raise RemotePermanent(f"the server refused the query: {said}", status=response.status, reason="graphql")
        return frozenset(hidden)

    def _limited(self, said: str, response: Response) -> QueryLimited:
        reset = whole_number(response.headers.get("x-ratelimit-reset"))
        wait = None
        if reset is not None and response.server_at is not None:
            self.remaining, self.reset_at = 0, reset * 1000
            wait = max(1.0, reset - response.server_at / 1000)
        # Kept, so that nothing more is asked for in vain; a run that begins later has a new client.
        self._exhausted = QueryLimited(
            f"the GraphQL rate limit is exhausted: {said}",
            status=response.status,
            reason="rate_limit",
            retry_after_seconds=wait,
            fix="run the command again later; it continues where it stopped",
        )
        return self._exhausted

    def _count(self, data: Raw) -> None:
        """Keep what the query cost and what is left; an answer without it changes nothing."""
        try:
            told = msgspec.json.decode(data, type=_Limit).rate_limit
            reset_at = None if told is None else parse_instant(told.reset_at)
        except (msgspec.DecodeError, ValueError):
            return
        if told is not None:
            self.spent += told.cost
            self.remaining, self.reset_at = told.remaining, reset_at

    def _require_token(self) -> None:
        if not self._signed_in:
            raise _refusal("GraphQL needs a token", None)


def decode(data: GraphQlData, as_type: type[T]) -> T:
    """Return the decoded data of an answer; another shape than asked for is a permanent failure."""
    try:
        return msgspec.json.decode(data.data, type=as_type)
    except msgspec.ValidationError as error:
        raise RemotePermanent(f"unexpected answer to a query: {error}", reason="bad_shape") from None


def present(nodes: tuple[Raw, ...], hidden: frozenset[Path], path: Path) -> list[bytes]:
    """Return the objects of a page without the hidden ones; any other null makes the answer partial."""
    found = []
    for place, raw in enumerate(nodes):
        payload = bytes(raw)
        if payload != b"null":
            found.append(payload)
        elif (*path, place) not in hidden:
            raise PartialAnswer("an object of a list is null")
    return found


def hidden_as_missing(what: str) -> RemoteNotFound:
    """Return the error for an object that does not exist or is not visible to the token."""
    return RemoteNotFound(
        f"{what} does not exist or is not visible to the token",
        reason="graphql",
        fix="give the token access to the repository",
    )


def actor_login(actor: Actor | None) -> str | None:
    """Return the login as REST shows it; None if the account is deleted."""
    if actor is None:
        return None
    return f"{actor.login}[bot]" if actor.kind == "Bot" and not actor.login.endswith("[bot]") else actor.login


def _refusal(said: str, status: int | None) -> AccessRefused:
    return AccessRefused(
        f"the token may not read this by GraphQL: {said}",
        # GraphQL answers 200 to a query it refuses.
        status=403 if status in (None, 200) else status,
        reason="graphql_refused",
        fix="give the token read access to issues, pull requests and discussions",
    )
