"""Reads which items changed in the copy, by the number of the change or by the time of what happened to them.

Returns keys first, newest change first, and the facts of a page of items in a second step. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from tidelore.store.database.port import Database
from tidelore.store.database.statements import Where

_TABLES = {"issue": "issues", "merge_request": "merge_requests", "topic": "topics", "post": "posts"}
_ACTIVE = {"post": "sort_at"}


class ChangeKey(NamedTuple):
    """The newest change of an item. The key of a page is (seq, type, id)."""

    seq: int
    type: str
    id: int
    first_seq: int
    changed_at: int

    @property
    def place(self) -> tuple[int, str, int]:
        return self.seq, self.type, self.id


class ChangeState(NamedTuple):
    """The number of the newest change, and when it was stored."""

    seq: int
    changed_at: int


def newest_change(database: Database) -> ChangeState:
    """Return the number of the newest change; 0 for an empty copy."""
    rows = database.read("SELECT seq, changed_at FROM change_counter")
    return ChangeState(*rows[0]) if rows else ChangeState(0, 0)


def changes_by_number(
    database: Database, since: int, until: int, project_id: int | None, before: tuple[int, str, int] | None, limit: int
) -> tuple[list[ChangeKey], int]:
    """Return one page of the items whose newest change is after `since` and not after `until`, and their number."""
    where = Where("seq > :since", "seq <= :until", since=since, until=until)
    where.narrow("project_id = :project_id", project_id=project_id)
    ((total,),) = database.read(f"SELECT COUNT(*) FROM changes WHERE {where}", where.params)
    seq, kind, row_id = before or (None, None, None)
    where.narrow("(seq, thread_type, thread_id) < (:seq, :type, :id)", seq=seq, type=kind, id=row_id)
    rows = database.read(
        f"SELECT seq, thread_type, thread_id, first_seq, changed_at FROM changes WHERE {where}"
        " ORDER BY seq DESC, thread_type DESC, thread_id DESC LIMIT :limit",
        {**where.params, "limit": limit},
    )
    return [ChangeKey(*row) for row in rows], int(total)


def changes_by_time(database: Database, since_ms: int, until: int, project_id: int | None) -> list[ChangeKey]:
    """Return the items that were updated or found deleted at or after an instant, newest change first.

    Only items whose newest change has at most the number `until`.
    """
    found: list[ChangeKey] = []
    narrowed = Where("c.seq <= :until", until=until, since=since_ms)
    narrowed.narrow("t.project_id = :project_id", project_id=project_id)
    for kind, table in _TABLES.items():
        if kind == "post" and project_id is not None:
            continue
        active = _ACTIVE.get(kind, "updated_at")
        for condition in (f"t.deleted_at IS NULL AND t.{active} >= :since", "t.deleted_at >= :since"):
            rows = database.read(
                "SELECT c.seq, c.thread_type, c.thread_id, c.first_seq, c.changed_at"
                f" FROM {table} t CROSS JOIN changes c WHERE {condition} AND {narrowed}"
                f" AND c.thread_type = '{kind}' AND c.thread_id = t.id",
                narrowed.params,
            )
            found += [ChangeKey(*row) for row in rows]
    return sorted(found, key=lambda key: key.place, reverse=True)


class ChangedRow(Struct, frozen=True):
    """The facts of a changed item. The association of the author is unknown for posts."""

    id: int
    project_id: int | None
    project: str | None
    iid: int | None
    references_full: str | None
    references_short: str | None
    title: str
    state: str
    author: str | None
    association: str | None
    created_at: int
    updated_at: int
    merged_at: int | None
    closed_at: int | None
    deleted_at: int | None
    web_url: str | None


_COLUMNS = {
    "issue": "t.references_full, t.references_short, t.title, t.state, t.author_username, t.author_association,"
    " t.created_at, t.updated_at, NULL, t.closed_at, t.deleted_at, t.web_url",
    "merge_request": "t.references_full, t.references_short, t.title, t.state, t.author_username,"
    " t.author_association, t.created_at, t.updated_at, t.merged_at, t.closed_at, t.deleted_at, t.web_url",
    "topic": "NULL, '#', t.title, t.state, t.author_username, t.author_association, t.created_at, t.updated_at, NULL,"
    " t.closed_at, t.deleted_at, t.web_url",
}


def read_changed(database: Database, kind: str, ids: Sequence[int]) -> dict[int, ChangedRow]:
    """Return the facts of changed items of one kind."""
    params = {"ids": database.integers(ids)}
    if kind == "post":
        rows = database.read(
            "SELECT t.id, NULL, NULL, NULL, t.uri, NULL, t.text, t.kind,"
            " COALESCE(a.handle, t.author_handle, t.author_did), NULL, t.created_at, t.sort_at, NULL, NULL,"
            " t.deleted_at, t.url FROM posts t"
            f" LEFT JOIN accounts a ON a.did = t.author_did WHERE t.id {database.among('ids')}",
            params,
        )
    else:
        rows = database.read(
            f"SELECT t.id, p.id, p.path, t.iid, {_COLUMNS[kind]} FROM {_TABLES[kind]} t"
            f" JOIN projects p ON p.id = t.project_id WHERE t.id {database.among('ids')}",
            params,
        )
    return {row[0]: ChangedRow(*row) for row in rows}


class NewNote(NamedTuple):
    """A note that is new or was edited."""

    item_id: int
    author: str | None
    association: str | None
    body: str
    at: int
    path: str | None
    line: int | None


def new_notes(
    database: Database, kind: str, ids: Sequence[int], *, stored_after: int | None = None, since_ms: int | None = None
) -> dict[int, list[NewNote]]:
    """Return the notes of items that were stored after an instant, or written or edited since one, oldest first."""
    params: dict[str, object] = {"ids": database.integers(ids), "since": stored_after if since_ms is None else since_ms}
    if kind == "topic":
        # All comments of a topic are stored with it, so their own times tell which are new.
        rows = database.read(
            "SELECT n.topic_id, n.author_username, n.author_association, n.body, n.updated_at, NULL, NULL"
            " FROM topic_comments n"
            f" WHERE n.topic_id {database.among('ids')} AND n.updated_at >= :since AND n.deleted_at IS NULL"
            " ORDER BY n.updated_at, n.id",
            params,
        )
    else:
        column = "issue_id" if kind == "issue" else "merge_request_id"
        is_new = "n.updated_at >= :since" if since_ms is not None else "r.fetched_at > :since"
        join = "" if since_ms is not None else " JOIN raw_payloads r ON r.id = n.raw_payload_id"
        rows = database.read(
            f"SELECT d.{column}, n.author_username, n.author_association, n.body, n.updated_at,"
            " COALESCE(n.position_new_path, n.position_old_path), COALESCE(n.position_new_line, n.position_old_line)"
            f" FROM discussions d JOIN notes n ON n.discussion_id = d.id{join}"
            f" WHERE d.{column} {database.among('ids')} AND n.is_system = 0 AND n.body <> '' AND {is_new}"
            " ORDER BY n.updated_at, n.id",
            params,
        )
    found: dict[int, list[NewNote]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(NewNote(*row))
    return found
