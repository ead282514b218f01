"""Lists issues, merge requests and notes by filters, one page at a time.

Every filter is a condition with bound parameters: no user text becomes part of the SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.store.database.port import Database
from tidelore.store.database.statements import Where, escape_like
from tidelore.store.mirror.kinds import MERGE_REQUEST, ParentKind

SORTS = {"updated": "updated_at", "created": "created_at"}
SHARED = {"state": "state", "author": "author_username", "project_id": "project_id"}
"""Filters that every list has, and the columns they compare."""
_EQUAL = {
    **SHARED,
    "target_branch": "target_branch",
    "source_branch": "source_branch",
    "milestone": "milestone_title",
    "status": "status_name",
    "draft": "draft",
}
_OF_REQUESTS = "t.draft, t.source_branch, t.target_branch, NULL"
_LIVE = {"issues": "idx_issues_live", "merge_requests": "idx_mrs_live"}
"""The indexes of items that are not deleted; they contain the state."""
_OF_ISSUES = "0, NULL, NULL, t.status_name"


class PagePlace(Struct, frozen=True, kw_only=True):
    """Which page of a list is read; `after` is the key of the last row already shown.

    Without `with_total` the matches are not counted, which reads them all, and the total is 0.
    """

    deleted: bool = False
    limit: int = 20
    after: tuple[int, int] | None = None
    with_total: bool = True


class PageFilter(PagePlace, frozen=True, kw_only=True):
    """Filters that every list of items has; None means no filter."""

    state: str | None = None
    author: str | None = None
    project_id: int | None = None
    since: int | None = None
    sort: str = "updated"
    ascending: bool = False


class ListFilter(PageFilter, frozen=True, kw_only=True):
    """Filters for a list of issues or merge requests."""

    draft: bool | None = None
    assignee: str | None = None
    reviewer: str | None = None
    target_branch: str | None = None
    source_branch: str | None = None
    milestone: str | None = None
    status: str | None = None
    labels: tuple[str, ...] = ()
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


class DatedRow(Protocol):
    """A row that lists can be sorted by."""

    @property
    def id(self) -> int: ...


R = TypeVar("R", bound=DatedRow)


class Listing(Struct, Generic[R], frozen=True):
    """A page of a list, the total number of rows, and the key after which the next page starts."""

    items: list[R]
    total: int
    next: tuple[int, int] | None


def read_page(
    database: Database,
    select: str,
    table: str,
    shape: Callable[..., R],
    wanted: PagePlace,
    where: Where,
    *,
    join: str = "JOIN projects p ON p.id = t.project_id",
    sort: str = "updated_at",
    ascending: bool = False,
    count_index: str | None = None,
) -> Listing[R]:
    """Return one page of the rows of a table, newest first by default; `select` names the columns of `shape`."""
    total = 0
    if wanted.with_total:
        counted = table + (f" t {database.by_index(count_index)}" if count_index else " t")
        total = int(database.read(f"SELECT COUNT(*) FROM {counted} WHERE {where}", where.params)[0][0])
    direction, beyond = ("ASC", ">") if ascending else ("DESC", "<")
    at, row_id = wanted.after or (None, None)
    where.narrow(f"(t.{sort}, t.id) {beyond} (:after_at, :after_id)", after_at=at, after_id=row_id)
    # Read one more row than requested, to find out whether there is a next page.
    rows = database.read(
        f"{select} FROM {table} t {join} WHERE {where} ORDER BY t.{sort} {direction}, t.id {direction} LIMIT :limit",
        {**where.params, "limit": wanted.limit + 1},
    )
    items = [shape(*row) for row in rows[: wanted.limit]]
    more = len(rows) > wanted.limit
    return Listing(items, total, (getattr(items[-1], sort), items[-1].id) if more else None)


def page_conditions(wanted: PageFilter, equal: Mapping[str, str]) -> Where:
    """Return the conditions of a list: filters by equality, by the last update, and whether it lists deleted items."""
    where = Where("t.deleted_at IS NOT NULL" if wanted.deleted else "t.deleted_at IS NULL")
    for name, column in equal.items():
        value = getattr(wanted, name)
        where.narrow(f"t.{column} = :{name}", **{name: int(value) if isinstance(value, bool) else value})
    return where.narrow("t.updated_at >= :since", since=wanted.since)


def list_parents(database: Database, parents: ParentKind, wanted: ListFilter) -> Listing[ListedParent]:
    """Return one page of a list, newest first by default."""
    own = _OF_REQUESTS if parents is MERGE_REQUEST else _OF_ISSUES
    select = (
        "SELECT t.id, p.path, t.iid, t.title, t.state, t.author_username, t.milestone_title, t.created_at,"
        f" t.updated_at, t.deleted_at, t.web_url, t.references_short, {own}"
    )
    where = _conditions(parents, wanted)
    # Otherwise SQLite counts with a narrower index and reads every row for its state.
    index = _LIVE[parents.table] if set(where.params) == {"state"} and not wanted.deleted else None
    sort, ascending = SORTS[wanted.sort], wanted.ascending
    page = read_page(
        database, select, parents.table, ListedParent, wanted, where, sort=sort, ascending=ascending, count_index=index
    )
    ids = [item.id for item in page.items]
    labels = labels_of(database, parents, ids)
    talk = _talk(database, parents, ids) if wanted.with_talk else {}
    items = [
        replace(item, labels=labels.get(item.id, ()), talk=talk.get(item.id, DiscussionCounts())) for item in page.items
    ]
    return replace(page, items=items)


def _conditions(parents: ParentKind, wanted: ListFilter) -> Where:
    where = page_conditions(wanted, _EQUAL)
    link = f"x.{parents.column} = t.id"
    for name, people in (("assignee", "assignees"), ("reviewer", "reviewers")):
        table = parents.people.get(people)
        given = {name: getattr(wanted, name)}
        where.narrow(f"EXISTS (SELECT 1 FROM {table} x WHERE {link} AND x.username = :{name})", **given)
    for place, label in enumerate(wanted.labels):
        where.narrow(
            f"EXISTS (SELECT 1 FROM {parents.label_table} x JOIN labels l ON l.id = x.label_id"
            f" WHERE {link} AND l.name = :label_{place})",
            **{f"label_{place}": label},
        )
    return where


def labels_of(database: Database, parents: ParentKind, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the labels of those of these items that have some, sorted."""
    rows = database.read(
        f"SELECT x.{parents.column}, l.name FROM {parents.label_table} x JOIN labels l ON l.id = x.label_id"
        f" WHERE x.{parents.column} {database.among('ids')}",
        {"ids": database.integers(ids)},
    )
    found: dict[int, list[str]] = {}
    for parent, name in rows:
        found.setdefault(parent, []).append(name)
    # Sorted here, because the two databases use different collations.
    return {parent: tuple(sorted(names)) for parent, names in found.items()}


def _talk(database: Database, parents: ParentKind, ids: list[int]) -> dict[int, DiscussionCounts]:
    """Count the discussions of one page. Uses indexes only, so the cost depends on the length of the page."""
    rows = database.read(
        f"SELECT d.{parents.column}, SUM(CASE WHEN EXISTS (SELECT 1 FROM notes n WHERE n.discussion_id = d.id"
        " AND n.is_system = 0) THEN 1 ELSE 0 END), SUM(d.resolvable * (1 - COALESCE(d.resolved, 1)))"
        " FROM discussions d"
        f" WHERE d.{parents.column} {database.among('ids')} GROUP BY d.{parents.column}",
        {"ids": database.integers(ids)},
    )
    return {parent: DiscussionCounts(int(spoken), int(unresolved)) for parent, spoken, unresolved in rows}


def read_descriptions(database: Database, parents: ParentKind, ids: list[int]) -> dict[int, str | None]:
    """Return the descriptions of these items."""
    rows = database.read(
        f"SELECT id, description FROM {parents.table} WHERE id {database.among('ids')}", {"ids": database.integers(ids)}
    )
    return dict(rows)


class NoteFilter(Struct, frozen=True, kw_only=True):
    """Filters for a list of notes; None means no filter. `after` is the id of the last row already read."""

    project_id: int | None = None
    author: str | None = None
    since: int | None = None
    system: bool = False
    limit: int = 1000
    after: int = 0


class ListedNoteRow(Struct, frozen=True):
    """A note with the item it belongs to."""

    id: int
    project: str
    item: str
    iid: int
    references_short: str | None
    title: str
    thread: str
    remote_id: int
    kind: str
    author: str | None
    association: str | None
    body: str
    path: str | None
    line: int | None
    resolvable: int
    resolved: int | None
    review_state: str | None
    system: int
    internal: int
    created_at: int
    updated_at: int
    url: str | None


def list_notes(database: Database, wanted: NoteFilter) -> list[ListedNoteRow]:
    """Return the next notes in the order in which they were stored; those of deleted items are left out."""
    where = Where("n.id > :after", "COALESCE(i.deleted_at, m.deleted_at) IS NULL", after=wanted.after)
    if not wanted.system:
        where.narrow("n.is_system = 0")
    where.narrow("n.project_id = :project_id", project_id=wanted.project_id)
    where.narrow("n.author_username = :author", author=wanted.author)
    where.narrow("n.updated_at >= :since", since=wanted.since)
    rows = database.read(
        "SELECT n.id, p.path, CASE WHEN d.issue_id IS NULL THEN 'mr' ELSE 'issue' END, COALESCE(i.iid, m.iid),"
        " COALESCE(i.references_short, m.references_short), COALESCE(i.title, m.title), d.remote_id, n.remote_id,"
        " n.kind, n.author_username, n.author_association, n.body, COALESCE(n.position_new_path, n.position_old_path),"
        " COALESCE(n.position_new_line, n.position_old_line), n.resolvable, n.resolved, n.review_state, n.is_system,"
        " n.is_internal, n.created_at, n.updated_at, n.url"
        " FROM notes n JOIN discussions d ON d.id = n.discussion_id JOIN projects p ON p.id = n.project_id"
        " LEFT JOIN issues i ON i.id = d.issue_id LEFT JOIN merge_requests m ON m.id = d.merge_request_id"
        f" WHERE {where} ORDER BY n.id LIMIT :limit",
        {**where.params, "limit": wanted.limit},
    )
    return [ListedNoteRow(*row) for row in rows]


class RecentItem(NamedTuple):
    """What a reference to an item is made of."""

    project: str
    iid: int
    references_short: str | None
    title: str


def recent_items(
    database: Database, parents: ParentKind, project: str | None, digits: str, limit: int
) -> list[RecentItem]:
    """Return items whose number begins with these digits, the newest update first."""
    where = Where("t.deleted_at IS NULL").narrow("p.path = :project", project=project)
    where.narrow("CAST(t.iid AS TEXT) LIKE :digits", digits=f"{digits}%" if digits else None)
    rows = database.read(
        f"SELECT p.path, t.iid, t.references_short, t.title FROM {parents.table} t"
        " JOIN projects p ON p.id = t.project_id"
        f" WHERE {where} ORDER BY t.updated_at DESC, t.id DESC LIMIT :limit",
        {**where.params, "limit": limit},
    )
    return [RecentItem(*row) for row in rows]


_NAMES = {
    "label": ("SELECT DISTINCT name FROM labels WHERE name LIKE :begin ESCAPE '~'",),
    "project": ("SELECT DISTINCT path FROM projects WHERE path LIKE :begin ESCAPE '~'",),
    "user": (
        "SELECT DISTINCT author_username FROM issues WHERE author_username LIKE :begin ESCAPE '~'",
        "SELECT DISTINCT author_username FROM merge_requests WHERE author_username LIKE :begin ESCAPE '~'",
    ),
}


def names_beginning(database: Database, kind: str, begin: str, limit: int) -> list[str]:
    """Return labels, projects or users whose name begins with a text; projects also by a later part of their path."""
    escaped = escape_like(begin)
    patterns = [f"{escaped}%", *([f"%/{escaped}%"] if kind == "project" and begin else [])]
    found: set[str] = set()
    for sql in _NAMES[kind]:
        for pattern in patterns:
            rows = database.read(f"{sql} ORDER BY 1 LIMIT :limit", {"begin": pattern, "limit": limit})
            found |= {str(name) for (name,) in rows}
    return sorted(found)[:limit]


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
    where = Where("t.deleted_at IS NULL", "t.state = 'opened'")
    where.narrow("t.project_id = :project_id", project_id=project_id)
    rows = database.read(
        "SELECT t.id, p.path, t.iid, t.references_full, t.title, COALESCE(t.description, ''), t.author_username,"
        " t.created_at, t.updated_at, t.web_url FROM issues t JOIN projects p ON p.id = t.project_id"
        f" WHERE {where} ORDER BY t.updated_at DESC, t.id DESC LIMIT :limit",
        {**where.params, "limit": limit},
    )
    return [OpenIssue(*row) for row in rows]
