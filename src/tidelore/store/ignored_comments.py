"""Comments that became no event because of who wrote them. Owns the table `ignored_comments`.

They are kept whole, in their newest version, so that a changed list of allowed users can be applied to them without
asking the server. Refuses to decide who is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from tidelore.core.model import CommentRecord
from tidelore.store.database import Database, Transaction
from tidelore.store.effects import IgnoredComment


class IgnoredAuthor(Struct, frozen=True):
    """Somebody whose comments in one thread were left out."""

    number: int
    author: str | None
    association: str | None
    reason: str


class IgnoredCount(Struct, frozen=True):
    """How many comments of how many accounts of a project were left out for one reason."""

    project_id: int
    reason: str
    comments: int
    accounts: int


def save_ignored(tx: Transaction, project_id: int, ignored: Sequence[IgnoredComment]) -> None:
    """Keep comments that were left out; an older version never replaces a newer one."""
    tx.execute_many(
        "INSERT INTO ignored_comments (project_id, kind, comment_id, number, author, association, reason, updated_at,"
        " record) VALUES (:project_id, :kind, :comment_id, :number, :author, :association, :reason, :updated_at,"
        " :record) ON CONFLICT (project_id, kind, comment_id) DO UPDATE SET number = excluded.number,"
        " author = excluded.author, association = excluded.association, reason = excluded.reason,"
        " updated_at = excluded.updated_at, record = excluded.record"
        " WHERE excluded.updated_at >= ignored_comments.updated_at",
        [
            {
                "project_id": project_id,
                "kind": one.record.kind,
                "comment_id": one.record.remote_id,
                "number": one.record.number,
                "author": one.record.author,
                "association": one.record.association,
                "reason": one.reason,
                "updated_at": one.record.updated_at,
                "record": msgspec.json.encode(one.record).decode(),
            }
            for one in ignored
        ],
    )


def forget_ignored(tx: Transaction, project_id: int, kind: str, ids: Iterable[int]) -> None:
    """Forget comments that are not left out any more."""
    tx.execute_many(
        "DELETE FROM ignored_comments WHERE project_id = :project_id AND kind = :kind AND comment_id = :comment_id",
        [{"project_id": project_id, "kind": kind, "comment_id": comment_id} for comment_id in ids],
    )


def ignored_authors(database: Database, project_id: int) -> list[IgnoredAuthor]:
    """Return whose comments were left out in a project, thread by thread."""
    rows = database.read(
        "SELECT DISTINCT number, author, association, reason FROM ignored_comments WHERE project_id = :project_id",
        {"project_id": project_id},
    )
    return [IgnoredAuthor(*row) for row in rows]


def ignored_comments(
    database: Database, project_id: int, by: IgnoredAuthor, limit: int | None = None
) -> list[CommentRecord]:
    """Return the comments of one author in one thread that were left out, in the order of their instants."""
    params: dict[str, object] = {"project_id": project_id, "number": by.number, "reason": by.reason}
    same = ""
    for name, value in (("author", by.author), ("association", by.association)):
        same += f" AND {name} IS NULL" if value is None else f" AND {name} = :{name}"
        params |= {} if value is None else {name: value}
    most = "" if limit is None else f" LIMIT {limit:d}"
    rows = database.read(
        f"SELECT record FROM ignored_comments WHERE project_id = :project_id AND number = :number"
        f" AND reason = :reason{same} ORDER BY updated_at, comment_id{most}",
        params,
    )
    return [msgspec.json.decode(record, type=CommentRecord) for (record,) in rows]


def count_ignored(database: Database) -> list[IgnoredCount]:
    """Return how many comments were left out, by project and reason."""
    rows = database.read(
        "SELECT project_id, reason, COUNT(*), COUNT(DISTINCT LOWER(author)) FROM ignored_comments"
        " GROUP BY project_id, reason ORDER BY project_id, reason"
    )
    return [IgnoredCount(*row) for row in rows]
