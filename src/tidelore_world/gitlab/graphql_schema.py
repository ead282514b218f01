"""The part of GitLab's GraphQL schema the simulated server has.

Owns type, field and argument names. Refuses to look at documents (`graphql_check`) or rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidelore_world.graphql_check import Error, Types, check_document
from tidelore_world.graphql_document import Document, Field, Selection, Spread

RESOLVED = ("workItems", "issues", "mergeRequests")
"""The lists of a project, whose complexity grows with their page."""
STATUS_WIDGET = "WorkItemWidgetStatus"
WIDGET_INTERFACE = "WorkItemWidget"

_WIDGET: Mapping[str, str | None] = {"type": None}
_PARENT: Mapping[str, str | None] = {
    **dict.fromkeys(("id", "iid", "title", "state", "createdAt", "updatedAt", "webUrl", "userNotesCount")),
    "discussions": "DiscussionConnection",
}
_TYPES: Types = MappingProxyType(
    {
        "Query": {"project": "Project", "queryComplexity": "QueryComplexity"},
        "Mutation": {},
        "QueryComplexity": dict.fromkeys(("score", "limit")),
        "Project": {
            **dict.fromkeys(("id", "name", "fullPath", "webUrl")),
            "workItems": "WorkItemConnection",
            "issues": "IssueConnection",
            "mergeRequests": "MergeRequestConnection",
        },
        "IssueConnection": {"count": None, "pageInfo": "PageInfo", "nodes": "Issue"},
        "MergeRequestConnection": {"count": None, "pageInfo": "PageInfo", "nodes": "MergeRequest"},
        "Issue": _PARENT,
        "MergeRequest": _PARENT,
        "DiscussionConnection": {"pageInfo": "PageInfo", "nodes": "Discussion"},
        "Discussion": {
            **dict.fromkeys(("id", "replyId", "createdAt", "resolvable", "resolved")),
            "notes": "NoteConnection",
        },
        "NoteConnection": {"pageInfo": "PageInfo", "nodes": "Note"},
        "Note": {
            **dict.fromkeys(("id", "body", "system", "internal", "createdAt", "updatedAt", "resolvable", "resolved")),
            **dict.fromkeys(("resolvedAt", "url")),
            "author": "UserCore",
            "resolvedBy": "UserCore",
            "position": "DiffPosition",
        },
        "UserCore": dict.fromkeys(("id", "username", "name")),
        "DiffPosition": {
            **dict.fromkeys(("positionType", "filePath", "oldPath", "newPath", "oldLine", "newLine")),
            **dict.fromkeys(("x", "y", "width", "height")),
            "diffRefs": "DiffRefs",
        },
        "DiffRefs": dict.fromkeys(("baseSha", "startSha", "headSha")),
        "WorkItemConnection": {"count": None, "pageInfo": "PageInfo", "nodes": "WorkItem"},
        "PageInfo": dict.fromkeys(("hasNextPage", "hasPreviousPage", "startCursor", "endCursor")),
        "WorkItem": {
            **dict.fromkeys(("id", "iid", "title", "state", "confidential", "createdAt", "updatedAt", "webUrl")),
            "widgets": WIDGET_INTERFACE,
        },
        WIDGET_INTERFACE: _WIDGET,
        "WorkItemWidgetDescription": {**_WIDGET, "description": None},
        STATUS_WIDGET: {**_WIDGET, "status": "WorkItemStatus"},
        "WorkItemStatus": dict.fromkeys(("id", "name", "iconName", "color", "category", "description", "position")),
    }
)
_ARGUMENTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "project": frozenset({"fullPath"}),
        **dict.fromkeys(RESOLVED, frozenset({"iid", "iids", "first", "after", "state", "sort"})),
        **dict.fromkeys(("discussions", "notes"), frozenset({"first", "after"})),
    }
)
_REQUIRED: Mapping[str, str] = MappingProxyType({"project": "fullPath"})


def schema_types(*, statuses: bool, work_items: bool, without: frozenset[str] = frozenset()) -> Types:
    """The types a server has; one without statuses or an old one lacks some, and its notes some fields."""
    types = {name: fields for name, fields in _TYPES.items() if statuses or "Status" not in name}
    if not work_items:
        types["Project"] = {name: kind for name, kind in types["Project"].items() if name != "workItems"}
    types["Note"] = {name: kind for name, kind in types["Note"].items() if name not in without}
    return types


def score_of(document: Document) -> int:
    """The complexity of a query: one for each field, more for a list of a project.

    Each object on its page adds one per cent, except where it is asked for by its number.
    """
    return sum(_score(found, document) for found in document.selections)


def depth_of(document: Document) -> int:
    """How deep the fields of a query are nested."""
    return max((_depth(found, document) for found in document.selections), default=0)


def _inner(found: Selection, document: Document) -> tuple[Selection, ...]:
    return document.fragments[found.name].selections if isinstance(found, Spread) else found.selections


def _score(found: Selection, document: Document) -> int:
    inner = sum(_score(each, document) for each in _inner(found, document))
    if not isinstance(found, Field):
        return inner
    if found.name not in RESOLVED:
        return 1 + inner
    given = found.arguments
    score = inner + 1 + bool(given.get("sort"))
    if given.get("iid") or given.get("iids"):
        return score
    first = given.get("first")
    return int(score + score * 0.01 * min(100 if first is None else int(first), 100))


def _depth(found: Selection, document: Document) -> int:
    inner = max((_depth(each, document) for each in _inner(found, document)), default=0)
    return inner + isinstance(found, Field)


def check(document: Document, types: Types) -> list[Error]:
    """Every reason why a document is refused; none means it can be answered."""
    return check_document(
        document,
        types,
        lambda _, field: _ARGUMENTS.get(field, frozenset()),
        lambda _, field: (_REQUIRED[field],) if field in _REQUIRED else (),
    )
