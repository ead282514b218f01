"""A changed list of allowed users, applied to what is stored. Owns that comments left out before become events.

Asks no server: the comments are held whole. What stays left out is looked at by its authors alone.
"""

from __future__ import annotations

from collections import defaultdict

from tidelore.core.config import RepoSettings
from tidelore.core.model import CommentRecord, Item, Version
from tidelore.engine.lease import Lease
from tidelore.feedback.allowed_users import why_ignored
from tidelore.feedback.context import read_context
from tidelore.feedback.events import interpret
from tidelore.feedback.metrics import EVENTS_DEDUPED, EVENTS_INGESTED
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.feedback_writer import (
    JudgedComment,
    WrittenEffects,
    body_digest,
    ignored_authors,
    ignored_comments,
    ingest_stored_comments,
)
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.service_records import add_to_counter
from tidelore.store.work.tracked_pull_requests import TERMINAL, list_tracked


def reconsider(
    database: Database, project: ProjectRow, settings: RepoSettings, now_ms: int, lease: Lease | None = None
) -> list[WrittenEffects]:
    """Judge comments again that were left out because of their authors; return what those led to that are not now."""
    authors = ignored_authors(database, project.id)
    if not authors:
        return []
    # Also of pull requests that have ended: what was said on them was said before. Blocked ones wait for their end.
    ended = {row.pr_number for row in list_tracked(database, project_id=project.id, statuses=tuple(TERMINAL))}
    context = read_context(database, project, settings, ending=ended & {one.number for one in authors})
    found: dict[str, list[JudgedComment]] = defaultdict(list)
    for one in authors:
        records = ignored_comments(database, project.id, one, limit=1)
        if not records or why_ignored(records[0], context) is not None:
            continue
        for record in ignored_comments(database, project.id, one):
            effects = interpret(_item(record), None, context)
            if effects is not None and why_ignored(record, context) is None:
                found[record.kind].append(JudgedComment(_item(record), effects))
    return [
        ingest_stored_comments(
            database, project.id, project.path, kind, sorted(judged, key=_order), now_ms, lease=lease, also=_count
        )
        for kind, judged in found.items()
    ]


def _order(judged: JudgedComment) -> tuple[int, int]:
    return judged.item.record.updated_at, judged.item.record.remote_id


def _item(record: CommentRecord) -> Item[CommentRecord]:
    version = Version(record.remote_id, record.updated_at, body_digest(record.body))
    return Item(version, record.updated_at, b"", record)


def _count(tx: Transaction, written: WrittenEffects) -> None:
    add_to_counter(tx, EVENTS_INGESTED, {}, len(written.events))
    add_to_counter(tx, EVENTS_DEDUPED, {}, written.deduped)
