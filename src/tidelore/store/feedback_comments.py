"""The stored version of each comment of a followed thread. Owns the table `feedback_comments`.

Invariant 3: a version is new when it is not stored here, whatever its place in a list. Two digests are kept: of the
payload as it came, and of the body alone, which tells an edit from a touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelore.core.content import digest
from tidelore.core.model import CommentRecord, Item, RemoteId, Version
from tidelore.store.database import Database, Row, Transaction


def body_digest(body: str) -> bytes:
    """Return what two bodies have in common only when they are the same."""
    return digest(body.encode())


def stored_comments(database: Database, project_id: int, kind: str, ids: Iterable[int]) -> dict[RemoteId, Version]:
    """Return the stored version of each comment that is stored, by the digest of its payload."""
    rows = _stored(database, project_id, kind, ids, "digest")
    return {key: Version(key, updated_at, bytes(found)) for key, updated_at, found in rows}


def stored_bodies(database: Database, project_id: int, kind: str, ids: Iterable[int]) -> dict[RemoteId, Version]:
    """Return the stored version of each comment that is stored, by the digest of its body."""
    rows = _stored(database, project_id, kind, ids, "body_digest")
    return {key: Version(key, updated_at, bytes(found)) for key, updated_at, found in rows}


def save_comments(tx: Transaction, project_id: int, kind: str, items: Sequence[Item[CommentRecord]]) -> None:
    """Keep the versions of a page; an older one never replaces a newer one."""
    tx.execute_many(
        "INSERT INTO feedback_comments (project_id, kind, comment_id, number, updated_at, digest, body_digest, author)"
        " VALUES (:project_id, :kind, :comment_id, :number, :updated_at, :digest, :body_digest, :author)"
        " ON CONFLICT (project_id, kind, comment_id) DO UPDATE SET number = excluded.number,"
        " updated_at = excluded.updated_at, digest = excluded.digest, body_digest = excluded.body_digest,"
        " author = excluded.author WHERE excluded.updated_at >= feedback_comments.updated_at",
        [
            {
                "project_id": project_id,
                "kind": kind,
                "comment_id": item.record.remote_id,
                "number": item.record.number,
                "updated_at": item.version.updated_at,
                "digest": item.version.digest,
                "body_digest": body_digest(item.record.body),
                "author": item.record.author,
            }
            for item in items
        ],
    )


def _stored(database: Database, project_id: int, kind: str, ids: Iterable[int], column: str) -> list[Row]:
    return database.read(
        f"SELECT comment_id, updated_at, {column} FROM feedback_comments WHERE project_id = :project_id"
        f" AND kind = :kind AND comment_id {database.among('ids')}",
        {"project_id": project_id, "kind": kind, "ids": database.integers(ids)},
    )
