"""Reads issue statuses over GraphQL, because the REST API does not offer them.

The query is sent by GET, so it is retried like every read. For a server without statuses the result is None; every
other failure is a RemoteError with the server's message.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tidelore.core.errors import RemoteNotFound, RemotePermanent
from tidelore.core.model import StatusRecord
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.items import refuse_nul

AT_ONCE = 100
"""The maximum page size of a GitLab connection."""
_QUERY = (
    "query($path:ID!,$iids:[String!],$first:Int,$after:String){project(fullPath:$path){"
    "workItems(iids:$iids,first:$first,after:$after){pageInfo{hasNextPage endCursor} nodes{iid widgets{"
    "... on WorkItemWidgetStatus{status{name category color iconName}}}}}}}"
)
_UNKNOWN = frozenset({"undefinedType", "undefinedField", "argumentNotAccepted", "cannotSpreadFragment"})
"""Error codes of a server whose schema does not have the requested fields."""


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


class _PageInfo(Struct, frozen=True, rename="camel"):
    has_next_page: bool
    end_cursor: str | None = None


class _Connection(Struct, frozen=True, rename="camel"):
    page_info: _PageInfo
    nodes: tuple[_WorkItem | None, ...]


class _Project(Struct, frozen=True, rename="camel"):
    work_items: _Connection | None = None


class _Data(Struct, frozen=True):
    project: _Project | None = None


class _Extensions(Struct, frozen=True):
    code: str | None = None


class _Problem(Struct, frozen=True):
    message: str
    extensions: _Extensions | None = None


class _GraphQlResponse(Struct, frozen=True):
    data: _Data | None = None
    errors: tuple[_Problem, ...] | None = None


async def read_statuses(client: GitLabClient, path: str, iids: Sequence[int]) -> dict[int, StatusRecord | None] | None:
    """Return the status of each issue, None for an issue without one; None alone if the server has no statuses."""
    found: dict[int, StatusRecord | None] = dict.fromkeys(iids)
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
                # Stopping here would remove the status of every issue on the remaining pages.
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
    if any(problem.extensions is not None and problem.extensions.code in _UNKNOWN for problem in problems):
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
