"""Comments, pull requests and scopes to store: what the tests of feedback share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from tests.databases.samples import add_project

from tidelore.core.content import digest
from tidelore.core.model import CommentRecord, Item, Position, PullRecord, Scope, Version
from tidelore.engine.cursor import Cursor
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import poll_scope
from tidelore.store.mirror.feedback_writer import save_comments
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import NewEvent, insert_events
from tidelore.store.work.tracked_pull_requests import TrackedPr, track

NOW = 1_772_000_000_000
REPO = "port/harbour"
TABLES = (
    "tracked_prs", "tracked_pr_history", "feedback_comments", "feedback_events", "action_tokens", "outbox",
    "operator_commands", "issue_comment_cursors", "issue_followups", "metric_counters", "ignored_comments",
)  # fmt: skip
TOKEN = "ab" * 32


def repository(database: Database, remote_id: int = 1, path: str = REPO) -> ProjectRow:
    return add_project(database, remote_id, path)


def feed(project: ProjectRow, surface: str = "issue_comments", number: int = 0) -> Scope:
    return poll_scope("github", project.id, project.path, surface, number)


def comment(comment_id: int, number: int = 12, updated_at: int = NOW, **changes: Any) -> CommentRecord:
    record = CommentRecord(
        remote_id=comment_id, kind="issue_comment", number=number, author="mira", is_bot=False,
        body=f"The crane stops at {comment_id} %.", path=None, line=None, side=None, commit_sha=None,
        in_reply_to=None, review_id=None, review_state=None, url=None, created_at=NOW - 1000, updated_at=updated_at,
    )  # fmt: skip
    return replace(record, **changes)


def item(record: CommentRecord) -> Item[CommentRecord]:
    payload = json.dumps([getattr(record, name) for name in record.__struct_fields__]).encode()
    version = Version(record.remote_id, record.updated_at, digest(payload))
    return Item(version, record.updated_at, payload, record)


def items(*records: CommentRecord) -> list[Item[CommentRecord]]:
    return [item(record) for record in records]


def event_of(record: CommentRecord, suffix: str = "") -> NewEvent:
    key = f"{record.number}:{record.kind}:{record.remote_id}:{record.updated_at}{suffix}"
    return NewEvent(key, record.number, None, record)


def pull(number: int = 12, updated_at: int = NOW, **changes: Any) -> PullRecord:
    record = PullRecord(
        remote_id=9000 + number, number=number, title="Move the crane", state="open", merged=False, merged_at=None,
        closed_at=None, draft=False, author="noor", head_sha="a" * 40, branch="crane", base_branch="main", labels=(),
        url=None, created_at=NOW - 5000, updated_at=updated_at,
    )  # fmt: skip
    return replace(record, **changes)


def followed(database: Database, project: ProjectRow, *numbers: int) -> list[TrackedPr]:
    with database.transaction() as tx:
        return [
            track(tx, project.id, project.path, number, issue_number=None, tracked_by="operator", now_ms=NOW)
            for number in numbers
        ]


def add_events(database: Database, project: ProjectRow, records: Sequence[CommentRecord]) -> None:
    """Store events as the ingestion does: beside the versions they are of."""
    with database.transaction() as tx:
        save_comments(tx, project.id, "issue_comment", [item(record) for record in records])
        insert_events(tx, project.id, project.path, [event_of(record) for record in records], NOW)


def cursor_at(at: int = NOW, comment_id: int = 1) -> Cursor:
    return Cursor(watermark=Position(at, comment_id), complete=True)


def everything(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row that ingestion may write."""
    return {
        table: sorted(database.read(f"SELECT * FROM {table}"), key=repr) for table in (*TABLES, "cursors", "quarantine")
    }
