"""Lists threads of issues and merge requests: where they stand, who spoke last and whether they are resolved.

A thread is a discussion that can be answered or resolved, or all comments of an item outside such discussions, which
count as one thread because an answer to them is a new comment. Selecting reads one small row for each thread of the
items in question; texts are read for the chosen page alone. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from tidelore.core.references import Kind
from tidelore.store.database.port import Database, Row
from tidelore.store.database.statements import Where
from tidelore.store.mirror.kinds import PARENTS, ParentKind


class ThreadFilter(Struct, frozen=True, kw_only=True):
    """Which threads to list; None means no filter. `item` is one issue or merge request.

    `logins` holds our login on each host, in lower case.
    """

    item: tuple[Kind, int] | None = None
    project_id: int | None = None
    state: str | None = None
    unresolved: bool = False
    logins: Mapping[str, str] = {}


class ThreadMark(NamedTuple):
    """What selecting a thread needs: its last note, and our part in it.

    `discussion_id` is None for the comments of an item. `mention` is the last note if it may mention us, else None.
    """

    kind: Kind
    item_id: int
    discussion_id: int | None
    last_id: int
    last_at: int
    resolvable: int
    resolved: int | None
    login: str
    is_ours_last: int
    is_own_item: int
    has_our_note: int
    mention: str | None


class ThreadNote(Struct, frozen=True):
    """The first or the last note of a thread."""

    id: int
    author_username: str | None
    author_association: str | None
    body: str
    created_at: int
    url: str | None
    position_old_path: str | None
    position_new_path: str | None
    position_old_line: int | None
    position_new_line: int | None


class ThreadRow(Struct, frozen=True, kw_only=True):
    """A thread with its item, its first and its last note."""

    kind: Kind
    project_id: int
    project: str
    iid: int
    references_full: str | None
    references_short: str | None
    title: str
    item_state: str
    item_author: str | None
    item_association: str | None
    web_url: str | None
    remote_id: str | None
    resolvable: int
    resolved: int | None
    resolved_by: str | None
    is_outdated: int | None
    notes: int
    first: ThreadNote
    last: ThreadNote


_SPOKEN = "n.is_system = 0 AND n.body <> ''"
_LAST_OF_DISCUSSION = (
    f"(SELECT n.id FROM notes n WHERE n.discussion_id = d.id AND {_SPOKEN} ORDER BY n.position DESC, n.id DESC LIMIT 1)"
)
# Comments outside threads. A robot's comment, such as a build result, does not make an item wait.
_COMMENTS = "d.individual_note = 1 AND d.resolvable = 0 AND n.is_bot = 0"


def _last_comment(column: str) -> str:
    return (
        f"(SELECT n.id FROM discussions d CROSS JOIN notes n WHERE d.{column} = t.id AND n.discussion_id = d.id"
        f" AND {_COMMENTS} AND {_SPOKEN} ORDER BY n.created_at DESC, n.id DESC LIMIT 1)"
    )


def find_threads(database: Database, wanted: ThreadFilter) -> list[ThreadMark]:
    """Return the threads that match a filter, the one with the newest note first."""
    kinds = list(PARENTS) if wanted.item is None else [wanted.item[0]]
    found = [mark for kind in kinds for mark in _marks_of(database, kind, wanted)]
    return sorted(found, key=lambda mark: (mark.last_at, mark.last_id), reverse=True)


def _marks_of(database: Database, kind: Kind, wanted: ThreadFilter) -> list[ThreadMark]:
    parents = PARENTS[kind]
    login, params = _login(wanted.logins)
    conditions = _conditions(wanted)
    params |= conditions.params
    column = parents.column
    in_discussions = (
        f"SELECT t.id, d.id, last.id, last.created_at, d.resolvable, d.resolved, {login},"
        f" {_our_part(parents, login, 'w.discussion_id = d.id')}"
        f" FROM projects p CROSS JOIN {parents.table} t CROSS JOIN discussions d CROSS JOIN notes last"
        f" WHERE t.project_id = p.id AND d.{column} = t.id AND last.id = {_LAST_OF_DISCUSSION}"
        f" AND (d.individual_note = 0 OR d.resolvable = 1) AND {conditions}"
        + (" AND d.resolvable = 1 AND COALESCE(d.resolved, 0) = 0" if wanted.unresolved else "")
    )
    rows = database.read(in_discussions, params)
    if not wanted.unresolved:
        among = f"w.discussion_id IN (SELECT d.id FROM discussions d WHERE d.{column} = t.id AND d.individual_note = 1)"
        rows += database.read(
            f"SELECT t.id, NULL, last.id, last.created_at, 0, NULL, {login}, {_our_part(parents, login, among)}"
            f" FROM projects p CROSS JOIN {parents.table} t CROSS JOIN notes last"
            f" WHERE t.project_id = p.id AND last.id = {_last_comment(column)} AND {conditions}",
            params,
        )
    return [ThreadMark(kind, *row) for row in rows]


def _login(logins: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the SQL for our login on the host of a project, with its parameters; empty where it is unknown."""
    if not logins:
        return "''", {}
    params: dict[str, Any] = {}
    cases = ""
    for place, (source, login) in enumerate(logins.items()):
        cases += f" WHEN :source_{place} THEN :login_{place}"
        params |= {f"source_{place}": source, f"login_{place}": login}
    return f"(CASE p.source{cases} ELSE '' END)", params


def _conditions(wanted: ThreadFilter) -> Where:
    where = Where("t.deleted_at IS NULL").narrow("t.id = :id", id=None if wanted.item is None else wanted.item[1])
    return where.narrow("t.project_id = :project_id", project_id=wanted.project_id).narrow(
        "t.state = :state", state=wanted.state
    )


def _our_part(parents: ParentKind, login: str, notes: str) -> str:
    """Return the columns about us: whether we spoke last, whether the item is ours, whether we wrote in the thread."""
    assigned = (
        f"EXISTS (SELECT 1 FROM {parents.people['assignees']} a WHERE a.{parents.column} = t.id"
        f" AND LOWER(a.username) = {login})"
    )
    wrote = f"EXISTS (SELECT 1 FROM notes w WHERE {notes} AND w.is_system = 0 AND LOWER(w.author_username) = {login})"
    return (
        f"CASE WHEN LOWER(last.author_username) = {login} THEN 1 ELSE 0 END,"
        f" CASE WHEN LOWER(t.author_username) = {login} OR {assigned} THEN 1 ELSE 0 END,"
        f" CASE WHEN {wrote} THEN 1 ELSE 0 END,"
        f" CASE WHEN {login} <> '' AND LOWER(last.body) LIKE '%@' || {login} || '%' THEN last.body ELSE NULL END"
    )


class ReviewRequest(NamedTuple):
    """An open merge request that we are asked to review and have not answered."""

    id: int
    project_id: int
    project: str
    iid: int
    references_full: str | None
    references_short: str | None
    title: str
    author: str | None
    association: str | None
    updated_at: int
    web_url: str | None


def find_review_requests(
    database: Database, logins: Mapping[str, str], project_id: int | None = None
) -> list[ReviewRequest]:
    """Return the open merge requests that we are asked to review and wrote nothing in, the newest update first."""
    if not logins:
        return []
    parents = PARENTS["mr"]
    login, params = _login(logins)
    conditions = _conditions(ThreadFilter(project_id=project_id, state="opened"))
    rows = database.read(
        "SELECT t.id, p.id, p.path, t.iid, t.references_full, t.references_short, t.title, t.author_username,"
        f" t.author_association, t.updated_at, t.web_url FROM projects p CROSS JOIN {parents.people['reviewers']} r"
        f" CROSS JOIN {parents.table} t WHERE t.id = r.{parents.column} AND t.project_id = p.id AND {login} <> ''"
        f" AND LOWER(r.username) = {login} AND t.draft = 0 AND LOWER(COALESCE(t.author_username, '')) <> {login}"
        f" AND {conditions} AND NOT EXISTS (SELECT 1 FROM discussions d CROSS JOIN notes n"
        f" WHERE d.{parents.column} = t.id AND n.discussion_id = d.id AND LOWER(n.author_username) = {login})"
        " ORDER BY t.updated_at DESC, t.id DESC",
        params | conditions.params,
    )
    return [ReviewRequest(*row) for row in rows]


def read_threads_page(database: Database, marks: Sequence[ThreadMark]) -> list[tuple[ThreadMark, ThreadRow]]:
    """Return these threads with their texts, in the same order; without those that a sync has deleted meanwhile."""
    found = {mark: row for kind in PARENTS for mark, row in _rows_of(database, kind, marks)}
    return [(mark, found[mark]) for mark in marks if mark in found]


def _rows_of(database: Database, kind: Kind, marks: Sequence[ThreadMark]) -> Iterable[tuple[ThreadMark, ThreadRow]]:
    chosen = [mark for mark in marks if mark.kind == kind]
    if not chosen:
        return
    items = _items(database, PARENTS[kind], [mark.item_id for mark in chosen])
    discussions = [mark.discussion_id for mark in chosen if mark.discussion_id is not None]
    heads = _heads(database, discussions)
    comments = _comment_heads(database, PARENTS[kind], [m.item_id for m in chosen if m.discussion_id is None])
    firsts = [head[-1] for head in (*heads.values(), *comments.values())]
    notes = _notes(database, [*firsts, *(mark.last_id for mark in chosen)])
    for mark in chosen:
        head = comments.get(mark.item_id) if mark.discussion_id is None else heads.get(mark.discussion_id)
        if head is None or mark.item_id not in items:
            continue
        *facts, count, first = head
        if first in notes and mark.last_id in notes:
            yield mark, _thread_row(kind, items[mark.item_id], facts, count, notes[first], notes[mark.last_id])


def _thread_row(
    kind: Kind, item: Row, facts: Sequence[Any], count: int, first: ThreadNote, last: ThreadNote
) -> ThreadRow:
    project_id, project, iid, full, short, title, state, author, association, web_url = item
    remote_id, resolvable, resolved, resolved_by, outdated = facts
    return ThreadRow(
        kind=kind,
        project_id=project_id,
        project=project,
        iid=iid,
        references_full=full,
        references_short=short,
        title=title,
        item_state=state,
        item_author=author,
        item_association=association,
        web_url=web_url,
        remote_id=remote_id,
        resolvable=resolvable,
        resolved=resolved,
        resolved_by=resolved_by,
        is_outdated=outdated,
        notes=count,
        first=first,
        last=last,
    )


def _items(database: Database, parents: ParentKind, ids: Sequence[int]) -> dict[int, Row]:
    rows = database.read(
        "SELECT t.id, p.id, p.path, t.iid, t.references_full, t.references_short, t.title, t.state, t.author_username,"
        " t.author_association, t.web_url"
        f" FROM {parents.table} t JOIN projects p ON p.id = t.project_id WHERE t.id {database.among('ids')}",
        {"ids": database.integers(ids)},
    )
    return {row[0]: row[1:] for row in rows}


def _heads(database: Database, ids: Sequence[int]) -> dict[int, Row]:
    """Return the state of discussions, the number of their notes and the id of their first note."""
    rows = database.read(
        # The state of a thread has the last word; where only notes say who resolved them, one of these is named.
        "SELECT d.id, d.remote_id, d.resolvable, d.resolved, COALESCE(d.resolved_by,"
        " (SELECT MAX(n.resolved_by) FROM notes n WHERE n.discussion_id = d.id AND d.resolved = 1)), d.is_outdated,"
        f" (SELECT COUNT(*) FROM notes n WHERE n.discussion_id = d.id AND {_SPOKEN}),"
        f" (SELECT n.id FROM notes n WHERE n.discussion_id = d.id AND {_SPOKEN} ORDER BY n.position, n.id LIMIT 1)"
        f" FROM discussions d WHERE d.id {database.among('ids')}",
        {"ids": database.integers(ids)},
    )
    return {row[0]: row[1:] for row in rows}


def _comment_heads(database: Database, parents: ParentKind, ids: Sequence[int]) -> dict[int, Row]:
    """Return the same for the comments of items outside threads, which have no state."""
    of_item = (
        f"FROM discussions d CROSS JOIN notes n WHERE d.{parents.column} = t.id AND n.discussion_id = d.id"
        f" AND {_COMMENTS} AND {_SPOKEN}"
    )
    rows = database.read(
        f"SELECT t.id, NULL, 0, NULL, NULL, NULL, (SELECT COUNT(*) {of_item}),"
        f" (SELECT n.id {of_item} ORDER BY n.created_at, n.id LIMIT 1)"
        f" FROM {parents.table} t WHERE t.id {database.among('ids')}",
        {"ids": database.integers(ids)},
    )
    return {row[0]: row[1:] for row in rows}


def _notes(database: Database, ids: Sequence[int]) -> dict[int, ThreadNote]:
    columns = ", ".join(f"n.{name}" for name in ThreadNote.__struct_fields__)
    rows = database.read(
        f"SELECT {columns} FROM notes n WHERE n.id {database.among('ids')}", {"ids": database.integers(ids)}
    )
    return {row[0]: ThreadNote(*row) for row in rows}
