"""Sends GraphQL queries to GitHub: what its errors mean, and the points a query costs.

The sizes of pages, and that partial answers are refused, are the same for all forges (`sources/graphql.py`).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from tidelore.core.clock import parse_instant
from tidelore.core.errors import (
    AccessRefused,
    QueryLimited,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
    retry_advice,
)
from tidelore.http.limits import whole_number
from tidelore.http.response import Response
from tidelore.sources.github.client import GitHubClient
from tidelore.sources.graphql import UNKNOWN, GraphQlAnswer, PagedQueries, PartialAnswer, Path, Problem

LIMITED = frozenset({"RATE_LIMITED", "RATE_LIMIT"})
REFUSED = frozenset({"FORBIDDEN", "INSUFFICIENT_SCOPES"})
_TOO_MUCH = frozenset({"RESOURCE_LIMITS_EXCEEDED", "MAX_NODE_LIMIT_EXCEEDED"})
_FAILED = frozenset({"INTERNAL", "SERVICE_UNAVAILABLE"})
_GAVE_UP = ("something went wrong", "timed out", "timedout", "couldn't respond")
"""How the message of a query that took too long begins or reads; such an error has no type."""


RATE_LIMIT = "rateLimit { cost limit remaining resetAt }"
"""What every query asks for beside its subject."""
_KEPT = 0.2
"""The share of the points that verification leaves to what has changed."""


class Actor(Struct, frozen=True):
    """An account. GraphQL names a bot without the `[bot]` that REST appends."""

    login: str
    kind: str | None = msgspec.field(default=None, name="__typename")


class Points(Struct, frozen=True, rename="camel"):
    """The GraphQL rate limit: the cost of the last query, what is left, and when it resets."""

    cost: int
    remaining: int
    reset_at: str
    limit: int | None = None


class _Limit(Struct, frozen=True, rename="camel"):
    rate_limit: Points | None = None


class GraphQlClient(PagedQueries):
    """The GraphQL interface of one GitHub host. Without a token it refuses every query, as the server does."""

    def __init__(self, client: GitHubClient, *, signed_in: bool = True) -> None:
        super().__init__()
        self._client = client
        self._signed_in = signed_in
        self._exhausted: QueryLimited | None = None
        self._costs: dict[str, int] = {}
        self.spent = 0
        """The points that all queries of this client have cost."""
        self.remaining: int | None = None
        """The points that are left, from the last answer."""
        self.reset_at: int | None = None
        """When the points are restored, by the server's clock."""
        self.allowed: int | None = None
        """The points of an hour."""

    @property
    def is_short(self) -> bool:
        """Whether the points that are left are kept for what only queries can read."""
        return self.remaining is not None and self.allowed is not None and self.remaining < self.allowed * _KEPT

    def refuse(self) -> None:
        """Raise the error because of which no query may be sent: no token, or no points left."""
        if not self._signed_in:
            raise AccessRefused(
                "GraphQL needs a token",
                status=403,
                reason="graphql_refused",
                fix="export a token in the variable that token_env names, or sign in with `gh auth login`",
            )
        if self._exhausted is not None:
            raise self._exhausted

    async def send(
        self, content: dict[str, Any], route: str, *, retry_overload: bool
    ) -> tuple[GraphQlAnswer, Response]:
        """Send one query; raise AccessRefused if the token may not."""
        # Another query of this kind cost as much: a reserve of points is kept from the whole of it.
        points = self._costs.get(route, 1)
        try:
            answer, response = await self._client.query(
                content, as_type=GraphQlAnswer, route=f"graphql/{route}", retry_overload=retry_overload, points=points
            )
        except QueryLimited as error:
            self._exhausted = error
            raise
        except RemotePermanent as error:
            if error.status not in (403, 404, 410):
                raise
            raise _refusal(str(error.details.get("said") or error.message), error.status) from None
        self._keep_cost(answer.data, route)
        return answer, response

    def _keep_cost(self, data: Raw, route: str) -> None:
        """Keep what a query cost, also if its answer is partial, and what is left; without that, nothing changes."""
        try:
            told = msgspec.json.decode(data, type=_Limit).rate_limit
            reset_at = None if told is None else parse_instant(told.reset_at)
        except (msgspec.DecodeError, ValueError):
            return
        if told is not None:
            self._costs[route] = max(1, told.cost)
            self.spent += told.cost
            self.remaining, self.reset_at = told.remaining, reset_at
            self.allowed = self.allowed if told.limit is None else told.limit

    def judge(self, problems: tuple[Problem, ...], response: Response, *, skips_hidden: bool) -> frozenset[Path]:
        """Return the paths of hidden objects, or raise the error that the problems amount to."""
        hidden: set[Path] = set()
        kinds = {problem.kind for problem in problems}
        for problem in problems:
            said, kind = self._client.clean(problem.message), problem.kind
            if kinds & LIMITED:
                raise self._limited(said, response)
            if kind in _TOO_MUCH or (kind is None and problem.message.lower().startswith(_GAVE_UP)):
                raise PartialAnswer(said)
            path = problem.path or ()
            entry = len(path) > 2 and isinstance(path[-1], int)
            if (kind == "NOT_FOUND" and not entry) or (kind in {"NOT_FOUND", *REFUSED} and entry and skips_hidden):
                hidden.add(path)
            elif kind == "NOT_FOUND":
                raise PartialAnswer(said)
            elif kind in REFUSED:
                raise _refusal(said, response.status)
            elif problem.extensions is not None and problem.extensions.code in UNKNOWN:
                raise AccessRefused(
                    f"this server does not offer it by GraphQL: {said}",
                    status=404,
                    reason="graphql_refused",
                    fix="an Enterprise Server offers it after an update; everything else is read",
                )
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
            fix=retry_advice(wait),
        )
        return self._exhausted

    def count(self, data: Raw) -> bool:
        """Return False: a larger query costs more points, but comes near no limit."""
        del data
        return False


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
