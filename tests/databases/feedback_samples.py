"""Comments, pull requests and scopes to store: what the tests of feedback share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace
from tests.databases.samples import add_project, issue, merge_request

from tidelore.core.content import digest
from tidelore.core.model import CommentRecord, Item, Position, PullRecord, Scope, Version
from tidelore.engine.cursor import Cursor
from tidelore.store.database.port import Database
from tidelore.store.mirror.comments import CommentTable
from tidelore.store.mirror.cursors import THREADS, thread_scope
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.payloads import packer
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.effects import JudgedComment, WrittenEffects, with_judged, write_effects
from tidelore.store.work.events import Effect, NewEvent, insert_events
from tidelore.store.work.tracked_pull_requests import TrackedPr, track

NOW = 1_772_000_000_000
REPO = "port/harbour"
TABLES = (
    "tracked_prs", "tracked_pr_history", "notes", "discussions", "feedback_events", "action_tokens", "outbox",
    "operator_commands", "issue_comment_cursors", "issue_followups", "metric_counters",
)  # fmt: skip
TOKEN = "ab" * 32


def repository(database: Database, remote_id: int = 1, path: str = REPO) -> ProjectRow:
    return add_project(database, remote_id, path)


def feed(project: ProjectRow, surface: str = "issue_comments", number: int = 0) -> Scope:
    if surface in THREADS:
        return thread_scope("github", project.id, project.remote_id, surface, number)
    return Scope("github", f"github.{surface}", str(project.remote_id), project.id, project.path)


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
        number=number, title="Move the crane", state="opened", author="noor", head_sha="a" * 40, branch="crane",
        labels=(), url=None, created_at=NOW - 5000, updated_at=updated_at,
    )  # fmt: skip
    return replace(record, **changes)


def followed(database: Database, project: ProjectRow, *numbers: int) -> list[TrackedPr]:
    with database.transaction() as tx:
        return [
            track(tx, project.id, project.path, number, issue_number=None, tracked_by="operator", now_ms=NOW)
            for number in numbers
        ]


def add_events(database: Database, project: ProjectRow, records: Sequence[CommentRecord]) -> None:
    """Store the events of comments that the copy does not have any more."""
    with database.transaction() as tx:
        insert_events(tx, project.id, project.path, [event_of(record) for record in records], NOW)


def add_threads(database: Database, project: ProjectRow, pulls: Iterable[int] = (), issues: Iterable[int] = ()) -> None:
    """Store pull requests and issues, so that comments on them can be stored."""
    pack = packer(compress=False)
    with database.transaction() as tx:
        MERGE_REQUESTS.write(
            tx, project.id, [merge_request(9000 + number, NOW, iid=number) for number in pulls], NOW, pack
        )
        ISSUES.write(tx, project.id, [issue(8000 + number, NOW, iid=number) for number in issues], NOW, pack)


def judge(
    database: Database, project: ProjectRow, judged: Sequence[tuple[CommentRecord, Sequence[Effect]]], now_ms: int = NOW
) -> WrittenEffects:
    """Store comments and what they lead to, in one transaction."""
    effects = {record.remote_id: found for record, found in judged}
    with database.transaction() as tx:
        for kind in {record.kind for record, _ in judged}:
            own = items(*(record for record, _ in judged if record.kind == kind))
            CommentTable(kind).write(tx, project.id, own, now_ms, packer(compress=False))
        stored = with_judged(tx, project.id, [record for record, _ in judged])
        assert len(stored) == len(judged), "every comment has a stored thread"
        found = [JudgedComment(one, effects[one.record.remote_id]) for one in stored]
        return write_effects(tx, project.id, project.path, found, now_ms)


def cursor_at(at: int = NOW, comment_id: int = 1) -> Cursor:
    return Cursor(watermark=Position(at, comment_id), complete=True)


def everything(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row that ingestion may write."""
    return {
        table: sorted(database.read(f"SELECT * FROM {table}"), key=repr) for table in (*TABLES, "cursors", "quarantine")
    }
