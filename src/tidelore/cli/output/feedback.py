"""Render tracked pull requests, events, replies and operator commands as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidelore.cli.output.render import instant
from tidelore.core.errors import TideloreError
from tidelore.store.mirror.cursors import PollCursor
from tidelore.store.work.events import EventRow, PendingCount
from tidelore.store.work.followed_issues import IssueCursor
from tidelore.store.work.operator_commands import CommandRow
from tidelore.store.work.outbox import OutboxRow
from tidelore.store.work.tracked_pull_requests import StatusStep, TrackedPr

Waiting = Mapping[tuple[int, int], PendingCount]

_EVENT = (
    *(
        "event_key",
        "thread_number",
        "pr_number",
        "issue_number",
        "kind",
        "comment_id",
        "author",
        "body",
        "path",
        "line",
    ),
    *(
        "side",
        "commit_sha",
        "in_reply_to",
        "review_id",
        "review_state",
        "url",
        "attempts",
        "last_error",
        "leased_by",
        "pr_status",
    ),
)
_EVENT_INSTANTS = ("created_at", "updated_at", "ingested_at", "processed_at", "next_attempt_at", "leased_until")


def waiting_by_thread(counts: Iterable[PendingCount]) -> Waiting:
    """Return the pending events by project and thread."""
    return {(count.project_id, count.thread_number): count for count in counts}


def pull_data(row: TrackedPr, waiting: Waiting | None = None) -> dict[str, Any]:
    """Return a tracked pull request, with its pending events if given."""
    data = {
        "repo": row.repo_full_name,
        "pr_number": row.pr_number,
        "issue_number": row.issue_number,
        "title": row.title,
        "author": row.author,
        "branch": row.branch,
        "url": row.url,
        "status": row.status,
        "paused": bool(row.paused),
        "head_sha": row.last_seen_head_sha,
        "blocked_reason": row.blocked_reason,
        "blocked_at": instant(row.blocked_at),
        "tracked_by": row.tracked_by,
        "entered_at": instant(row.entered_at),
        "created_at": instant(row.created_at),
        "pull_updated_at": instant(row.pull_updated_at),
    }
    if waiting is not None:
        count = waiting.get((row.project_id, row.pr_number))
        data |= {"pending": count.pending if count else 0, "in_flight": count.in_flight if count else 0}
    return data


def issue_data(row: IssueCursor) -> dict[str, Any]:
    """Return a tracked source issue."""
    return {
        "repo": row.repo_full_name,
        "issue_number": row.issue_number,
        "pr_number": row.pr_number,
        "consumed_comment_id": row.pre_pr_last_consumed_comment_id,
        "redirected_comment_id": row.post_pr_last_redirected_comment_id,
        "entered_at": instant(row.entered_at),
    }


def event_data(row: EventRow, *, lease: bool = False) -> dict[str, Any]:
    """Return an event; only the consumer that takes it gets the lease."""
    data = {"id": row.id, "repo": row.repo_full_name} | {name: getattr(row, name) for name in _EVENT}
    data |= {name: instant(getattr(row, name)) for name in _EVENT_INSTANTS}
    return data | {"lease_id": row.lease_id} if lease else data


def answer_data(row: OutboxRow) -> dict[str, Any]:
    """Return a reply and its status."""
    return {
        "id": row.id,
        "repo": row.repo_full_name,
        "scope_kind": row.scope_kind,
        "number": row.scope_number,
        "reply_to": row.reply_to,
        "source": row.source,
        "token": row.token,
        "status": row.status,
        "attempts": row.attempts,
        "comment_id": row.comment_id,
        "last_error": row.last_error,
        "next_attempt_at": instant(row.next_attempt_at),
        "created_at": instant(row.created_at),
    }


def command_data(row: CommandRow) -> dict[str, Any]:
    """Return an operator command and its result."""
    return {
        "command_key": row.command_key,
        "repo": row.repo_full_name,
        "number": row.issue_number,
        "pr_number": row.pr_number,
        "author": row.author,
        "command": row.command,
        "args": row.args,
        "status": row.status,
        "result": row.result,
        "commented_at": instant(row.commented_at),
        "applied_at": instant(row.applied_at),
    }


def step_data(step: StatusStep) -> dict[str, Any]:
    """Return one status change of a pull request."""
    names = ("from_status", "to_status", "reason", "detail")
    return {name: getattr(step, name) for name in names} | {"at": instant(step.at)}


def position_data(cursor: PollCursor) -> dict[str, Any]:
    """Return how far one list of a thread has been read."""
    return {
        "surface": cursor.surface,
        "last_updated_at": instant(cursor.last_updated_at),
        "last_comment_id": cursor.last_comment_id,
        "bootstrap_complete": cursor.bootstrap_complete,
        "polled_at": instant(cursor.polled_at),
    }


def error_data(error: TideloreError | None) -> dict[str, Any] | None:
    """Return an error that is part of a partial answer."""
    if error is None:
        return None
    return {"code": error.code, "message": error.message, "retryable": error.retryable}
