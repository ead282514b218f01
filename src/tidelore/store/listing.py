"""Lists of issues and merge requests as people ask for them. Owns the filters and the page they give.

Every filter is a condition with bound parameters: none of the user's words reaches the SQL text.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tidelore.store.database import Database
from tidelore.store.family import Family

SORTS = {"updated": "updated_at", "created": "created_at"}
_EQUAL = {
    "state": "state",
    "author": "author_username",
    "target_branch": "target_branch",
    "source_branch": "source_branch",
    "milestone": "milestone_title",
    "project_id": "project_id",
}


class ListFilter(Struct, frozen=True, kw_only=True):
    """What a list is narrowed to; None does not narrow. `after` is the key of the last row already shown."""

    state: str | None = None
    draft: bool | None = None
    author: str | None = None
    assignee: str | None = None
    reviewer: str | None = None
    target_branch: str | None = None
    source_branch: str | None = None
    milestone: str | None = None
    labels: tuple[str, ...] = ()
    project_id: int | None = None
    since: int | None = None
    deleted: bool = False
    sort: str = "updated"
    ascending: bool = False
    limit: int = 20
    after: tuple[int, int] | None = None


class ListedParent(Struct, frozen=True):
    """One line of a list."""

    id: int
    project: str
    iid: int
    title: str
    state: str
    author_username: str | None
    milestone_title: str | None
    created_at: int
    updated_at: int
    deleted_at: int | None
    web_url: str | None
    draft: int
    source_branch: str | None
    target_branch: str | None
    labels: tuple[str, ...] = ()


class Listing(Struct, frozen=True):
    """A page of a list, how many rows there are in all, and the key after which the next page starts."""

    items: list[ListedParent]
    total: int
    next: tuple[int, int] | None


def list_parents(database: Database, family: Family[Any], wanted: ListFilter) -> Listing:
    """Return one page of a list, the newest first unless asked otherwise."""
    conditions, params = _conditions(family, wanted)
    where = " AND ".join(conditions)
    total = int(database.read(f"SELECT COUNT(*) FROM {family.table} t WHERE {where}", params)[0][0])
    column = f"t.{SORTS[wanted.sort]}"
    direction, beyond = ("ASC", ">") if wanted.ascending else ("DESC", "<")
    if wanted.after is not None:
        where += f" AND ({column} {beyond} :after_at OR ({column} = :after_at AND t.id {beyond} :after_id))"
        params |= {"after_at": wanted.after[0], "after_id": wanted.after[1]}
    own = "t.draft, t.source_branch, t.target_branch" if "draft" in family.names else "0, NULL, NULL"
    # One row more than asked for tells whether there is a next page.
    rows = database.read(
        "SELECT t.id, p.path, t.iid, t.title, t.state, t.author_username, t.milestone_title, t.created_at,"
        f" t.updated_at, t.deleted_at, t.web_url, {own} FROM {family.table} t JOIN projects p ON p.id = t.project_id"
        f" WHERE {where} ORDER BY {column} {direction}, t.id {direction} LIMIT :limit",
        {**params, "limit": wanted.limit + 1},
    )
    shown = rows[: wanted.limit]
    labels = _labels(database, family, [row[0] for row in shown])
    items = [replace(ListedParent(*row), labels=labels.get(row[0], ())) for row in shown]
    more = len(rows) > wanted.limit
    return Listing(items, total, _key(items[-1], wanted.sort) if more else None)


def _key(item: ListedParent, sort: str) -> tuple[int, int]:
    return (item.created_at if sort == "created" else item.updated_at, item.id)


def _conditions(family: Family[Any], wanted: ListFilter) -> tuple[list[str], dict[str, Any]]:
    conditions = ["t.deleted_at IS NOT NULL" if wanted.deleted else "t.deleted_at IS NULL"]
    params: dict[str, Any] = {}
    for name, column in _EQUAL.items():
        if getattr(wanted, name) is not None:
            conditions.append(f"t.{column} = :{name}")
            params[name] = getattr(wanted, name)
    if wanted.draft is not None:
        conditions.append("t.draft = :draft")
        params["draft"] = int(wanted.draft)
    if wanted.since is not None:
        conditions.append("t.updated_at >= :since")
        params["since"] = wanted.since
    link = f"x.{family.parent_column} = t.id"
    for name, people in (("assignee", "assignees"), ("reviewer", "reviewers")):
        if getattr(wanted, name) is not None:
            table = family.people[people]
            conditions.append(f"EXISTS (SELECT 1 FROM {table} x WHERE {link} AND x.username = :{name})")
            params[name] = getattr(wanted, name)
    for place, label in enumerate(wanted.labels):
        conditions.append(
            f"EXISTS (SELECT 1 FROM {family.label_table} x JOIN labels l ON l.id = x.label_id"
            f" WHERE {link} AND l.name = :label_{place})"
        )
        params[f"label_{place}"] = label
    return conditions, params


def _labels(database: Database, family: Family[Any], ids: list[int]) -> dict[int, tuple[str, ...]]:
    rows = database.read(
        f"SELECT x.{family.parent_column}, l.name FROM {family.label_table} x JOIN labels l ON l.id = x.label_id"
        f" WHERE x.{family.parent_column} {database.among('ids')} ORDER BY l.name",
        {"ids": database.integers(ids)},
    )
    found: dict[int, tuple[str, ...]] = {}
    for parent, name in rows:
        found[parent] = (*found.get(parent, ()), name)
    return found
