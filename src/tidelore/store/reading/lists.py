"""Lists issues and merge requests by filters, one page at a time.

Every filter is a condition with bound parameters: no user text becomes part of the SQL.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import Family

SORTS = {"updated": "updated_at", "created": "created_at"}
_EQUAL = {
    "state": "state",
    "author": "author_username",
    "target_branch": "target_branch",
    "source_branch": "source_branch",
    "milestone": "milestone_title",
    "status": "status_name",
    "project_id": "project_id",
}
_OF_REQUESTS = "t.draft, t.source_branch, t.target_branch, NULL"
_OF_ISSUES = "0, NULL, NULL, t.status_name"


class ListFilter(Struct, frozen=True, kw_only=True):
    """Filters for a list; None means no filter. `after` is the key of the last row already shown."""

    state: str | None = None
    draft: bool | None = None
    author: str | None = None
    assignee: str | None = None
    reviewer: str | None = None
    target_branch: str | None = None
    source_branch: str | None = None
    milestone: str | None = None
    status: str | None = None
    labels: tuple[str, ...] = ()
    project_id: int | None = None
    since: int | None = None
    deleted: bool = False
    sort: str = "updated"
    ascending: bool = False
    limit: int = 20
    after: tuple[int, int] | None = None
    with_talk: bool = False


class DiscussionCounts(NamedTuple):
    """The number of discussions with a user note, and the number of unresolved discussions."""

    discussions: int = 0
    unresolved: int = 0


class ListedParent(Struct, frozen=True):
    """One row of a list. `talk` is counted only on request."""

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
    references_short: str | None
    draft: int
    source_branch: str | None
    target_branch: str | None
    status_name: str | None
    labels: tuple[str, ...] = ()
    talk: DiscussionCounts = DiscussionCounts()


class Listing(Struct, frozen=True):
    """A page of a list, the total number of rows, and the key after which the next page starts."""

    items: list[ListedParent]
    total: int
    next: tuple[int, int] | None


def list_parents(database: Database, family: Family, wanted: ListFilter) -> Listing:
    """Return one page of a list, newest first by default."""
    conditions, params = _conditions(family, wanted)
    where = " AND ".join(conditions)
    total = int(database.read(f"SELECT COUNT(*) FROM {family.table} t WHERE {where}", params)[0][0])
    column = f"t.{SORTS[wanted.sort]}"
    direction, beyond = ("ASC", ">") if wanted.ascending else ("DESC", "<")
    if wanted.after is not None:
        where += f" AND ({column} {beyond} :after_at OR ({column} = :after_at AND t.id {beyond} :after_id))"
        params |= {"after_at": wanted.after[0], "after_id": wanted.after[1]}
    own = _OF_REQUESTS if "draft" in family.names else _OF_ISSUES
    # Read one more row than requested, to find out whether there is a next page.
    rows = database.read(
        "SELECT t.id, p.path, t.iid, t.title, t.state, t.author_username, t.milestone_title, t.created_at,"
        f" t.updated_at, t.deleted_at, t.web_url, t.references_short, {own}"
        f" FROM {family.table} t JOIN projects p ON p.id = t.project_id"
        f" WHERE {where} ORDER BY {column} {direction}, t.id {direction} LIMIT :limit",
        {**params, "limit": wanted.limit + 1},
    )
    shown = rows[: wanted.limit]
    ids = [row[0] for row in shown]
    labels = _labels(database, family, ids)
    talk = _talk(database, family, ids) if wanted.with_talk else {}
    items = [
        replace(ListedParent(*row), labels=labels.get(row[0], ()), talk=talk.get(row[0], DiscussionCounts()))
        for row in shown
    ]
    more = len(rows) > wanted.limit
    return Listing(items, total, _key(items[-1], wanted.sort) if more else None)


def _key(item: ListedParent, sort: str) -> tuple[int, int]:
    return (item.created_at if sort == "created" else item.updated_at, item.id)


def _conditions(family: Family, wanted: ListFilter) -> tuple[list[str], dict[str, Any]]:
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


def _labels(database: Database, family: Family, ids: list[int]) -> dict[int, tuple[str, ...]]:
    rows = database.read(
        f"SELECT x.{family.parent_column}, l.name FROM {family.label_table} x JOIN labels l ON l.id = x.label_id"
        f" WHERE x.{family.parent_column} {database.among('ids')} ORDER BY l.name",
        {"ids": database.integers(ids)},
    )
    found: dict[int, tuple[str, ...]] = {}
    for parent, name in rows:
        found[parent] = (*found.get(parent, ()), name)
    return found


def _talk(database: Database, family: Family, ids: list[int]) -> dict[int, DiscussionCounts]:
    """Count the discussions of one page. Uses indexes only, so the cost depends on the length of the page."""
    rows = database.read(
        f"SELECT d.{family.parent_column}, SUM(CASE WHEN EXISTS (SELECT 1 FROM notes n WHERE n.discussion_id = d.id"
        " AND n.is_system = 0) THEN 1 ELSE 0 END), SUM(d.resolvable * (1 - COALESCE(d.resolved, 1)))"
        " FROM discussions d"
        f" WHERE d.{family.parent_column} {database.among('ids')} GROUP BY d.{family.parent_column}",
        {"ids": database.integers(ids)},
    )
    return {parent: DiscussionCounts(int(spoken), int(unresolved)) for parent, spoken, unresolved in rows}


class OpenIssue(NamedTuple):
    """An open issue with its text."""

    id: int
    project: str
    iid: int
    references_full: str | None
    title: str
    description: str
    author: str | None
    created_at: int
    updated_at: int
    web_url: str | None


def read_open_issues(database: Database, project_id: int | None, limit: int) -> list[OpenIssue]:
    """Return the open issues that were updated last, newest first."""
    narrowed = "" if project_id is None else " AND t.project_id = :project_id"
    rows = database.read(
        "SELECT t.id, p.path, t.iid, t.references_full, t.title, COALESCE(t.description, ''), t.author_username,"
        " t.created_at, t.updated_at, t.web_url FROM issues t JOIN projects p ON p.id = t.project_id"
        f" WHERE t.deleted_at IS NULL AND t.state = 'opened'{narrowed}"
        " ORDER BY t.updated_at DESC, t.id DESC LIMIT :limit",
        {"limit": limit} | ({} if project_id is None else {"project_id": project_id}),
    )
    return [OpenIssue(*row) for row in rows]
