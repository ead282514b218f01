"""Stores topics with all their comments (tables `topics` and `topic_comments`).

A topic is listed with its comments, so its version covers them: each new version replaces all of them, and a comment
that is gone disappears with it. Its payload contains comments too; earlier payloads are deleted, because they may
contain a comment that was deleted. A tombstone keeps identity and times only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from tidelore.core.content import digest
from tidelore.core.model import Item, RemoteId, Scope, TopicCommentRecord, TopicRecord, Version
from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.mirror.documents import SOURCE_TYPES, mark, remove_documents_of_threads
from tidelore.store.mirror.kinds import TOPICS
from tidelore.store.mirror.parents import LinkCounts, clear_rows, held_between, row_ids, stored_versions
from tidelore.store.mirror.payloads import Content, Pack, forget_payloads, store_contents
from tidelore.store.mirror.quarantine import release

_TYPE = SOURCE_TYPES[TOPICS]
_FROM_RECORD = MappingProxyType(
    {
        "iid": "iid",
        "node_id": "node_id",
        "title": "title",
        "body": "body",
        "author_username": "author",
        "author_association": "association",
        "category": "category",
        "answer_remote_id": "answer_id",
        "answer_chosen_at": "answer_chosen_at",
        "upvotes": "upvotes",
        "state": "state",
        "state_reason": "state_reason",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "closed_at": "closed_at",
        "web_url": "url",
    }
)
"""The columns that are fields of the record, and their names there."""
_RENEWED = (*_FROM_RECORD, "is_answered", "locked", "last_seen_at", "content_hash")
_TOPIC = (*_RENEWED, "project_id", "remote_id")
_UPSERT = (
    f"INSERT INTO topics ({', '.join(_TOPIC)}, raw_payload_id) VALUES ({', '.join(f':{name}' for name in _TOPIC)},"
    " (SELECT id FROM raw_payloads WHERE remote_id = CAST(:remote_id AS TEXT) AND content_hash = :payload_hash))"
    " ON CONFLICT (project_id, remote_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*_RENEWED, "raw_payload_id"))
    + ", deleted_at = NULL"
)
_COMMENT = (
    "topic_id", "remote_id", "node_id", "in_reply_to", "position", "author_username", "author_association", "body",
    "is_answer", "upvotes", "created_at", "updated_at", "deleted_at", "url",
)  # fmt: skip
_INSERT_COMMENT = (
    f"INSERT INTO topic_comments ({', '.join(_COMMENT)}) VALUES ({', '.join(f':{name}' for name in _COMMENT)})"
)
_CLEARED = (
    "title = '', body = NULL, author_username = NULL, author_association = NULL, category = NULL, is_answered = NULL,"
    " answer_remote_id = NULL, answer_chosen_at = NULL, upvotes = 0, state_reason = NULL, locked = 0"
)


class TopicTable:
    """The topics of a project, as the page writer stores them."""

    def stored(self, database: Database, project_id: int, ids: Iterable[int]) -> dict[RemoteId, Version]:
        """Return the stored version of each remote id, without tombstones."""
        return stored_versions(database, TOPICS, project_id, ids)

    def held(
        self, database: Database, project_id: int, created_from: int, created_before: int | None
    ) -> dict[RemoteId, str]:
        """Return the stored topics that were created in a span: remote id and number."""
        return held_between(database, TOPICS, project_id, created_from, created_before)

    def write(
        self, tx: Transaction, project_id: int, items: Sequence[Item[TopicRecord]], now_ms: int, pack: Pack
    ) -> LinkCounts:
        """Store new versions with their comments, and mark their documents."""
        contents = [Content(str(item.record.remote_id), digest(item.payload), item.payload) for item in items]
        store_contents(tx, project_id, _TYPE, contents, pack=pack, now_ms=now_ms)
        rows = [_topic_row(project_id, item, now_ms) for item in items]
        tx.execute_rows(_UPSERT, (*_TOPIC, "payload_hash"), rows)
        forget_payloads(tx, project_id, _TYPE, TOPICS, [content.remote_id for content in contents])
        ids = row_ids(tx, TOPICS, project_id, [item.record.remote_id for item in items])
        _remove_comments(tx, ids.values())
        tx.execute_rows(
            _INSERT_COMMENT,
            _COMMENT,
            [row for item in items for row in _comment_rows(ids[item.record.remote_id], item.record.comments)],
        )
        mark(tx, _TYPE, ids.values(), now_ms)
        return LinkCounts()

    def bury(self, tx: Transaction, scope: Scope, ids: Iterable[int], now_ms: int) -> None:
        """Turn topics into tombstones, by their remote ids, and remove everything below them."""
        rows = tx.execute(
            "SELECT id, remote_id FROM topics WHERE project_id = :project_id AND deleted_at IS NULL"
            f" AND remote_id {tx.among('ids')}",
            {"project_id": scope.project, "ids": tx.integers(ids)},
        )
        if not rows:
            return
        buried, remote_ids = [row_id for row_id, _ in rows], [str(remote_id) for _, remote_id in rows]
        mark(tx, _TYPE, buried, now_ms)
        _remove_comments(tx, buried)
        clear_rows(tx, TOPICS, _CLEARED, buried, now_ms)
        forget_payloads(tx, scope.project, _TYPE, TOPICS, remote_ids)
        remove_documents_of_threads(tx, _TYPE, buried)
        release(tx, scope, remote_ids)


def _remove_comments(tx: Transaction, topics: Iterable[int]) -> None:
    tx.execute(f"DELETE FROM topic_comments WHERE topic_id {tx.among('ids')}", {"ids": tx.integers(topics)})


def _topic_row(project_id: int, item: Item[TopicRecord], now_ms: int) -> Row:
    record = item.record
    return (
        *(getattr(record, field) for field in _FROM_RECORD.values()),
        None if record.is_answered is None else int(record.is_answered),
        int(record.locked),
        now_ms,
        item.version.digest,
        project_id,
        record.remote_id,
        digest(item.payload),
    )


def _comment_rows(topic_id: int, comments: Sequence[TopicCommentRecord]) -> list[Row]:
    # A list that changes while its pages are read may contain a comment twice.
    newest = {comment.remote_id: comment for comment in comments}
    return [_comment_row(topic_id, place, comment) for place, comment in enumerate(newest.values())]


def _comment_row(topic_id: int, place: int, comment: TopicCommentRecord) -> Row:
    return (
        topic_id,
        comment.remote_id,
        comment.node_id,
        comment.parent_id,
        place,
        comment.author,
        comment.association,
        comment.body,
        int(comment.is_answer),
        comment.upvotes,
        comment.created_at,
        comment.updated_at,
        comment.deleted_at,
        comment.url,
    )
