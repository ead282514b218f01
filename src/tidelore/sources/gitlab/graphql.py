"""Sends GraphQL queries to GitLab: what its errors mean, when GraphQL is not used, and issue statuses.

Statuses are only offered by GraphQL. Their query is sent by GET, so it is retried like every read. For a server without
statuses the result is None; every other failure is a RemoteError with the server's message. Discussions are read by
`conversations.py` through `GitLabGraphQl`; where GraphQL is not used, REST serves them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tidelore.core.errors import (
    AccessRefused,
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    ResponseTooLarge,
)
from tidelore.core.model import StatusRecord
from tidelore.http.response import Response
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.graphql import (
    UNKNOWN,
    GraphQlAnswer,
    PagedQueries,
    PageInfo,
    PageSize,
    PartialAnswer,
    Path,
    Problem,
)
from tidelore.sources.items import refuse_nul

_LOG = logging.getLogger(__name__)

AT_ONCE = 100
"""The maximum page size of a GitLab connection."""
_QUERY = (
    "query($path:ID!,$iids:[String!],$first:Int,$after:String){project(fullPath:$path){"
    "workItems(iids:$iids,first:$first,after:$after){pageInfo{hasNextPage endCursor} nodes{iid widgets{"
    "... on WorkItemWidgetStatus{status{name category color iconName}}}}}}}"
)

_GAVE_UP = ("timeout on", "request timed out", "query has complexity")
"""How the message of a query that is too much for the server begins. It has no code."""
_REFUSED = frozenset({400, 403, 404, 405, 410, 422})
_NEAR = 0.9
"""The share of the complexity limit from which on a query may not grow."""
PROBE = "query { queryComplexity { score limit } }"


_COMPLEXITY_FIRST = re.compile(rb'\{"queryComplexity":(\{[^{}]*\})')
"""How an answer begins: queries ask for their complexity first, so the rest of a large one is not decoded for it."""


class Complexity(Struct, frozen=True):
    """What a query was worth, and the most that the server accepts from this token."""

    score: int
    limit: int


class _Measured(Struct, frozen=True, rename="camel"):
    query_complexity: Complexity | None = None


class GitLabGraphQl(PagedQueries):
    """The GraphQL interface of one GitLab host. `unused` is why it is not used, None if it is."""

    def __init__(self, client: Callable[[], GitLabClient], name: str, unused: str | None = None) -> None:
        super().__init__()
        self._client = client
        self._name = name
        self.unused = unused
        self.complexity: Complexity | None = None
        """The complexity of the last query."""

    def give_up(self, reason: str) -> None:
        """Use REST from now on."""
        if self.unused is None:
            self.unused = reason
            _LOG.warning("%s: discussions are read by REST: %s", self._name, reason)

    async def probe(self) -> None:
        """Send the smallest query, to learn whether GraphQL can be used; if not, `unused` says why."""
        if self.unused is not None:
            return
        try:
            await self.ask(PROBE, lambda _size: {}, lambda answer: answer, route="probe", size=PageSize(1))
        except (CredentialsRejected, RateLimited):
            raise
        except RemoteError as error:
            self.unused = error.message

    def refuse(self) -> None:
        """Raise AccessRefused if GraphQL is not used."""
        if self.unused is not None:
            raise AccessRefused(self.unused, reason="graphql_unused")

    async def send(
        self, content: dict[str, Any], route: str, *, retry_overload: bool
    ) -> tuple[GraphQlAnswer, Response]:
        """Send one query; raise AccessRefused if the server does not accept it. REST serves what it cannot answer."""
        del retry_overload
        try:
            return await self._client().query_pages(content, as_type=GraphQlAnswer, route=f"graphql/{route}")
        except ResponseTooLarge as error:
            raise PartialAnswer(error.message) from None
        except CredentialsRejected:
            raise
        except RemotePermanent as error:
            if error.status not in _REFUSED:
                raise
            raise AccessRefused(f"GraphQL is refused (status {error.status})", reason="graphql_refused") from None

    def judge(self, problems: tuple[Problem, ...], response: Response, *, skips_hidden: bool) -> frozenset[Path]:
        """Return no paths, or raise the error that the problems amount to."""
        del skips_hidden, response
        for problem in problems:
            said = self._client().clean(problem.message)
            if problem.path is None and not problem.message.lower().startswith(_GAVE_UP):
                # Not of a single object: the schema lacks a field, or the query is not allowed.
                raise AccessRefused(f"GraphQL refuses the query: {said}", reason="graphql_refused")
            code = problem.extensions.code if problem.extensions is not None else None
            if code in UNKNOWN:
                raise AccessRefused(f"GraphQL refuses the query: {said}", reason="graphql_refused")
            raise PartialAnswer(said)
        return frozenset()

    def count(self, data: Raw) -> bool:
        """Keep the complexity of a query; return whether it comes near the limit."""
        begun = _COMPLEXITY_FIRST.match(data)
        try:
            if begun is not None:
                told: Complexity | None = msgspec.json.decode(begun[1], type=Complexity)
            else:
                told = msgspec.json.decode(data, type=_Measured).query_complexity
        except msgspec.DecodeError:
            told = None
        if told is None:
            return False
        self.complexity = told
        return told.score > _NEAR * told.limit


class _Status(Struct, frozen=True, rename="camel"):
    name: str | None = None
    category: str | None = None
    color: str | None = None
    icon_name: str | None = None


class _Widget(Struct, frozen=True):
    """Any widget; those of another type than status are empty."""

    status: _Status | None = None


class _WorkItem(Struct, frozen=True):
    iid: str
    widgets: tuple[_Widget, ...] | None = None


class _Connection(Struct, frozen=True, rename="camel"):
    page_info: PageInfo
    nodes: tuple[_WorkItem | None, ...]


class _Project(Struct, frozen=True, rename="camel"):
    work_items: _Connection | None = None


class _Data(Struct, frozen=True):
    project: _Project | None = None


class _GraphQlResponse(Struct, frozen=True):
    data: _Data | None = None
    errors: tuple[Problem, ...] | None = None


async def read_statuses(client: GitLabClient, path: str, iids: Sequence[int]) -> dict[int, StatusRecord | None] | None:
    """Return the status of each issue that is shown, None for one without a status.

    Return None alone if the server has no statuses. Issues that are switched off or hidden from us are left out.
    """
    found: dict[int, StatusRecord | None] = {}
    for start in range(0, len(iids), AT_ONCE):
        wanted = [str(iid) for iid in iids[start : start + AT_ONCE]]
        seen: set[str | None] = {None}
        after = None
        while True:
            page = await _page(client, {"path": path, "iids": wanted, "first": len(wanted), "after": after})
            if page is None:
                return None
            found |= {int(node.iid): _record(node) for node in page.nodes if node is not None and node.iid in wanted}
            after = page.page_info.end_cursor
            if not page.page_info.has_next_page:
                break
            if after in seen:
                # Stopping here would leave out every issue on the remaining pages.
                raise RemotePermanent("the pages of a query repeat", reason="graphql")
            seen.add(after)
    return found


async def _page(client: GitLabClient, variables: dict[str, object]) -> _Connection | None:
    try:
        answer = await client.query(_QUERY, variables, as_type=_GraphQlResponse, route="statuses")
    except RemoteNotFound:
        # No GraphQL endpoint: an old server, or a proxy that blocks it.
        return None
    problems = answer.errors or ()
    if any(problem.extensions is not None and problem.extensions.code in UNKNOWN for problem in problems):
        return None
    if problems:
        raise RemotePermanent(
            f"the server refused the query: {client.clean(problems[0].message)}", reason="graphql", status=200
        )
    project = answer.data.project if answer.data is not None else None
    if project is None or project.work_items is None:
        raise RemoteNotFound(
            f"project {variables['path']} does not exist in GraphQL or its work items are not visible to the token",
            reason="graphql",
            fix="give the token the scope read_api, and access to the project",
            project=variables["path"],
        )
    return project.work_items


def _record(item: _WorkItem) -> StatusRecord | None:
    for widget in item.widgets or ():
        status = widget.status
        if status is None or status.name is None:
            continue
        record = StatusRecord(status.name, status.category, status.color, status.icon_name)
        try:
            refuse_nul(record)
        except ValueError as error:
            raise RemotePermanent(f"the status of issue {item.iid}: {error}", reason="bad_shape") from None
        return record
    return None
