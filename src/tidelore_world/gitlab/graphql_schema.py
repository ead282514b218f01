"""The part of GitLab's GraphQL schema the simulated server has.

Owns type, field and argument names. Refuses to look at documents (`graphql_check`) or rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidelore_world.graphql_check import Error, Types, check_document
from tidelore_world.graphql_document import Document

STATUS_WIDGET = "WorkItemWidgetStatus"
WIDGET_INTERFACE = "WorkItemWidget"

_WIDGET: Mapping[str, str | None] = {"type": None}
_TYPES: Types = MappingProxyType(
    {
        "Query": {"project": "Project"},
        "Mutation": {},
        "Project": {"id": None, "name": None, "fullPath": None, "webUrl": None, "workItems": "WorkItemConnection"},
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
    {"project": frozenset({"fullPath"}), "workItems": frozenset({"iid", "iids", "first", "after", "state", "sort"})}
)
_REQUIRED: Mapping[str, str] = MappingProxyType({"project": "fullPath"})


def schema_types(*, statuses: bool, work_items: bool) -> Types:
    """The types a server has; one without statuses or an old one lacks some."""
    types = {name: fields for name, fields in _TYPES.items() if statuses or "Status" not in name}
    if not work_items:
        types["Project"] = {name: kind for name, kind in types["Project"].items() if name != "workItems"}
    return types


def check(document: Document, types: Types) -> list[Error]:
    """Every reason why a document is refused; none means it can be answered."""
    return check_document(
        document,
        types,
        lambda _, field: _ARGUMENTS.get(field, frozenset()),
        lambda _, field: (_REQUIRED[field],) if field in _REQUIRED else (),
    )
