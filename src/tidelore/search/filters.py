"""Field filters: from what was written, in the query or beside it, to what the store is asked. Owns their values.

A field in the query and the option of the same name are one; a field with two values is refused, except labels,
which all have to be carried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelore.core.errors import UserError
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading.fulltext import DocumentFilter

TYPES = {
    "issue": "issue",
    "mr": "merge_request",
    "merge_request": "merge_request",
    "discussion": "discussion",
    "post": "post",
}
STATES = {"opened": "opened", "open": "opened", "closed": "closed", "merged": "merged", "locked": "locked", "all": None}
_LONGEST_PATH = 1_000


def resolve_filters(
    database: Database, written: Iterable[tuple[str, str]], read_since: Callable[[str], int]
) -> DocumentFilter:
    """Return the filter these fields mean, or say which of them means nothing."""
    values: dict[str, str] = {}
    labels: dict[str, None] = {}
    for name, value in written:
        if name == "label":
            labels[value] = None
        elif values.setdefault(name, value) != value:
            raise UserError(f"{name} was given twice: {values[name]} and {value}", fix="remove one of them", field=name)
    since, path = values.get("since"), values.get("path")
    if path is not None and len(path) > _LONGEST_PATH:
        raise UserError("the path is too long", fix=f"give at most {_LONGEST_PATH:,} characters of it")
    return DocumentFilter(
        type=_chosen("type", values.get("type"), TYPES),
        project_id=match_project(database, values["project"]).id if "project" in values else None,
        author=values["author"].removeprefix("@") if "author" in values else None,
        labels=tuple(labels),
        state=_chosen("state", values.get("state"), STATES),
        since=None if since is None else read_since(since),
        path=path,
    )


def _chosen(name: str, value: str | None, choices: dict[str, str] | dict[str, str | None]) -> str | None:
    if value is None:
        return None
    if value.lower() not in choices:
        raise UserError(f"invalid value for {name}: {value!r}", fix=f"use one of: {', '.join(choices)}", field=name)
    return choices[value.lower()]
