"""The objects a GraphQL query reaches: a project, its issues, merge requests and work items by pages, statuses.

Owns finding the rows and their field values. Refuses to read documents. Invariant: a page costs the page; only
a list filtered by state scans the project, once until it changes.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from tidelore_world.clock import iso_seconds
from tidelore_world.gitlab.graphql_conversations import Shown, conversation_fields
from tidelore_world.gitlab.graphql_schema import STATUS_WIDGET, WIDGET_INTERFACE
from tidelore_world.gitlab.items import WEB_ORIGIN
from tidelore_world.gitlab.records import NotHere
from tidelore_world.gitlab.shelf import Key, Order, Shelf
from tidelore_world.gitlab.state import Issue, Item, MergeRequest
from tidelore_world.gitlab.statuses import shown_status
from tidelore_world.gitlab.view import View

MAX_PAGE = 100

T = TypeVar("T", Issue, MergeRequest)
Node = dict[str, Any]
Arguments = Mapping[str, Any]

_ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "CREATED_ASC": Order("created_at", descending=False),
        "CREATED_DESC": Order("created_at"),
        "UPDATED_ASC": Order("updated_at", descending=False),
        "UPDATED_DESC": Order("updated_at"),
    }
)
_STATES = frozenset({"opened", "closed", "merged", "locked", "all"})


class BadArgument(ValueError):
    """A value the schema's type of the argument does not allow."""

    def __init__(self, argument: str, value: object, wanted: str) -> None:
        shown = json.dumps(value)
        super().__init__(
            f"Argument '{argument}' on Field 'workItems' has an invalid value ({shown}). Expected type '{wanted}'."
        )


def query_node(forge: View, shown: Shown) -> Node:
    """The root of every query; a value that takes arguments is a function of them."""
    return {"__typename": "Query", "project": lambda given: _project(forge, shown, given)}


def _project(forge: View, shown: Shown, given: Arguments) -> Node | None:
    """A project by its present path only: GraphQL follows no redirect, and hides what may not be read."""
    try:
        project = forge.project(str(given["fullPath"]))
    except NotHere:
        return None
    if project.forbidden:
        return None
    issues = Shelf[Issue]() if "issues" in project.hidden else project.issues
    requests = Shelf[MergeRequest]() if "merge_requests" in project.hidden else project.merge_requests
    return {
        "__typename": "Project",
        "id": f"gid://gitlab/Project/{project.id}",
        "name": project.path.rpartition("/")[2],
        "fullPath": project.path,
        "webUrl": f"{WEB_ORIGIN}/{project.path}",
        "workItems": lambda wanted: _connection("WorkItem", issues, wanted, lambda issue: _work_item(forge, issue)),
        "issues": lambda wanted: _connection(
            "Issue", issues, wanted, lambda issue: _parent(forge, "Issue", issue, shown)
        ),
        "mergeRequests": lambda wanted: _connection(
            "MergeRequest",
            requests,
            wanted,
            lambda request: _parent(forge, "MergeRequest", request, shown),
        ),
    }


def _parent(forge: View, name: str, item: Item, shown: Shown) -> Node:
    return {
        "__typename": name,
        "id": f"gid://gitlab/{name}/{item.id}",
        "title": item.title,
        "state": item.state,
        "createdAt": iso_seconds(item.created_at_us),
        "updatedAt": iso_seconds(item.updated_at_us),
        "webUrl": f"{WEB_ORIGIN}/{item.project.path}/-/{item.kind}/{item.iid}",
        **conversation_fields(forge, item, shown),
    }


def _connection(name: str, shelf: Shelf[T], given: Arguments, show: Callable[[T], Node]) -> Node:
    order, after, size = _order(given), _cursor(given), _size(given)
    wanted, state = _iids(given), _state(given)
    if wanted is not None:
        rows_by_iid = shelf.by_iid
        chosen = [row for iid in wanted if (row := rows_by_iid.get(iid)) is not None and state in ("all", row.state)]
        chosen.sort(key=order.key)
        count = len(chosen)
        rest = [row for row in chosen if after is None or order.key(row) > after]
        rows, more = rest[:size], len(rest) > size
    else:
        run = shelf.ordered(order)
        if state != "all":
            run = shelf.selected(order, ("graphql", state), lambda row: row.state == state)
        count = len(run)
        run = run if after is None else run.after(after)
        rows, more = run.rows(0, size), len(run) > size
    return {
        "__typename": f"{name}Connection",
        "count": count,
        "nodes": [show(row) for row in rows],
        "pageInfo": {
            "__typename": "PageInfo",
            "hasNextPage": more,
            "hasPreviousPage": after is not None,
            "startCursor": _encode(order.key(rows[0])) if rows else None,
            "endCursor": _encode(order.key(rows[-1])) if rows else None,
        },
    }


def _work_item(forge: View, issue: Issue) -> Node:
    return {
        "__typename": "WorkItem",
        "id": f"gid://gitlab/WorkItem/{issue.id}",
        "iid": str(issue.iid),
        "title": issue.title,
        "state": "OPEN" if issue.state == "opened" else "CLOSED",
        "confidential": issue.confidential,
        "createdAt": iso_seconds(issue.created_at_us),
        "updatedAt": iso_seconds(issue.updated_at_us),
        "webUrl": f"{WEB_ORIGIN}/{issue.project.path}/-/issues/{issue.iid}",
        "widgets": _widgets(forge, issue),
    }


def _widgets(forge: View, issue: Issue) -> list[Node]:
    description = _widget("WorkItemWidgetDescription", "DESCRIPTION", description=issue.description)
    status = shown_status(issue)
    if status is None or not (forge.statuses and forge.statuses_licensed):
        return [description]
    shown = {
        "__typename": "WorkItemStatus",
        "id": f"gid://gitlab/WorkItems::Statuses::SystemDefined::Status/{status.number}",
        "name": status.name,
        "iconName": status.icon_name,
        "color": status.color,
        "category": status.category,
        "description": None,
        "position": 0,
    }
    return [description, _widget(STATUS_WIDGET, "STATUS", status=shown)]


def _widget(type_name: str, kind: str, **values: Any) -> Node:
    return {"__typename": type_name, "__interface": WIDGET_INTERFACE, "type": kind, **values}


def _order(given: Arguments) -> Order:
    name = given.get("sort") or "CREATED_DESC"
    if not isinstance(name, str) or name.upper() not in _ORDERS:
        raise BadArgument("sort", name, "WorkItemSort")
    return _ORDERS[name.upper()]


def _state(given: Arguments) -> str:
    state = given.get("state") or "all"
    if state not in _STATES:
        raise BadArgument("state", state, "IssuableState")
    return str(state)


def _size(given: Arguments) -> int:
    """How many nodes a page has; asking for more than the maximum gives the maximum."""
    first = given.get("first")
    if first is None:
        return MAX_PAGE
    if type(first) is not int or first < 0:
        raise BadArgument("first", first, "Int")
    return min(MAX_PAGE, first)


def _iids(given: Arguments) -> list[int] | None:
    """The numbers asked for. They are strings in the schema; one alone may stand for a list of one."""
    wanted = given.get("iids")
    if wanted is None and given.get("iid") is not None:
        wanted = [given["iid"]]
    if wanted is None:
        return None
    texts = wanted if isinstance(wanted, list) else [wanted]
    if not all(isinstance(text, str) for text in texts):
        raise BadArgument("iids", wanted, "[String!]")
    return [int(text) for text in dict.fromkeys(texts) if text.isdecimal()]


def _encode(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _cursor(given: Arguments) -> Key | None:
    after = given.get("after")
    if not after:
        return None
    try:
        first, second = json.loads(base64.urlsafe_b64decode(after))
        return int(first), int(second)
    except (ValueError, TypeError, binascii.Error):
        raise BadArgument("after", after, "String") from None
