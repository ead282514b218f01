"""Process events and reply: `lore feedback next|peek|ack|nack|reply|comment`.

Also defines the options --repo, --pr, --issue and --head-sha of all feedback commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tidelore.app.feedback_events import (
    FailedEvent,
    NextEvent,
    PendingEvents,
    PostedReply,
    ProcessedEvent,
    ReplyRequest,
    acknowledge,
    peek,
    post_reply,
    report_failure,
    take_next,
)
from tidelore.app.feedback_tracking import Event
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.output.render import Output, ago, plural, when
from tidelore.cli.output.table import Column, on_terminal, table_of
from tidelore.core.clock import SystemClock
from tidelore.core.errors import UserError
from tidelore.core.text import block, one_line

REPO: Callable[..., Any] = click.option(
    "--repo", metavar="OWNER/REPO", help="Repository; optional if only one is configured."
)
PR: Callable[..., Any] = click.option("--pr", metavar="REF", help="Pull request: number, owner/repo#12 or URL.")
ISSUE: Callable[..., Any] = click.option("--issue", metavar="REF", help="Issue: number, owner/repo#12 or URL.")
HEAD: Callable[..., Any] = click.option(
    "--head-sha", metavar="SHA", help="Commit to continue from instead of the current head."
)
QUICK_ACTIONS: Callable[..., Any] = click.option(
    "--allow-quick-actions", is_flag=True, help="GitLab: let lines such as /close run with the rights of the token."
)

_LARGEST_ID = 2**63 - 1
_WIDTH = 100


@lore_command("next", example="lore feedback next --wait --poll", answer=NextEvent)
@REPO
@PR
@click.option("--wait", is_flag=True, help="Wait until an event is ready.")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="With --wait: give up after this time."
)
@click.option("--include-closed", is_flag=True, help="Also take events of merged and closed pull requests.")
@click.option("--poll", is_flag=True, help="Poll GitHub first, and every poll_interval_seconds while waiting.")
def next_command(
    invocation: Invocation,
    repo: str | None,
    pr: str | None,
    wait: bool,  # noqa: FBT001
    timeout: float | None,
    include_closed: bool,  # noqa: FBT001
    poll: bool,  # noqa: FBT001
) -> Output:
    """Take the oldest ready event.

    The event is leased to you for event_lease_seconds, then requeued. Finish it with `lore feedback ack` or `lore
    feedback nack`. A pull request has at most one event in progress; a blocked or paused one has none, a merged or
    closed one only with --include-closed. Without --wait the result may be empty. Several consumers may run side by
    side.
    """
    app = invocation.logged_app()
    found = take_next(app, repo, pr, wait=wait, timeout=timeout, poll=poll, include_closed=include_closed)
    if found.event is None:
        return Output(found, ["No events ready.", *_closed_lines(found.of_closed)])
    return Output(found, [*_event_lines(found.event), f"Lease {found.event.lease_id}"])


@lore_command("peek", example="lore feedback peek --limit 5", answer=PendingEvents)
@REPO
@PR
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Number of items to show."
)
def peek_command(invocation: Invocation, repo: str | None, pr: str | None, limit: int) -> Output:
    """List unprocessed events without taking one.

    Events of merged and closed pull requests are marked; `lore feedback next` takes them only with --include-closed.
    """
    found = peek(invocation.app(), repo, pr, limit)
    return Output(found, _peek_lines(found, SystemClock().now_ms()))


@lore_command("ack", example="lore feedback ack 42", answer=ProcessedEvent)
@click.argument("event", metavar="[EVENT]", type=click.IntRange(1, _LARGEST_ID), required=False)
@click.option("--lease", metavar="LEASE", help="Lease id from `lore feedback next`, instead of EVENT.")
def ack_command(invocation: Invocation, event: int | None, lease: str | None) -> Output:
    """Mark an event as done.

    EVENT is its number; --lease identifies it by its lease instead. An expired lease is accepted unless another
    consumer has taken the event since (exit 3). Repeating the command is allowed.
    """
    found = acknowledge(invocation.app(), _handle(event, lease))
    return Output(found, [f"Event {found.event.id} of {found.event.thread} is done."])


@lore_command("nack", example="lore feedback nack 42 --error 'build failed'", answer=FailedEvent)
@click.argument("event", metavar="[EVENT]", type=click.IntRange(1, _LARGEST_ID), required=False)
@click.option("--lease", metavar="LEASE", help="Lease id from `lore feedback next`, instead of EVENT.")
@click.option("--error", metavar="TEXT", required=True, help="Error message to record.")
def nack_command(invocation: Invocation, event: int | None, lease: str | None, error: str) -> Output:
    """Mark an event as failed and retry it later.

    EVENT is its number. The event is handed out again after handler_backoff_seconds, doubled with each failure. After
    handler_max_attempts failures the pull request is blocked.
    """
    found = report_failure(invocation.app(), _handle(event, lease), error)
    row = found.event
    told = f"Event {row.id} of {row.thread} failed, attempt {row.attempts}"
    if row.processed_at is not None:
        told = f"Event {row.id} of {row.thread} was already done."
    elif found.blocked:
        told += "; the pull request is blocked (`lore feedback blocked list`)."
    else:
        told += "; it will be retried."
    return Output(found, [told])


def _handle(event: int | None, lease: str | None) -> int | str:
    if (event is None) == (lease is None):
        raise UserError(
            "expected either an event number or --lease",
            fix="pass the number, or --lease with the lease_id from `lore feedback next`",
        )
    return lease if lease is not None else event or 0


def _closed_lines(count: int) -> list[str]:
    if not count:
        return []
    return [f"{plural(count, 'event')} of merged and closed pull requests: take them with --include-closed."]


def _event_lines(row: Event) -> list[str]:
    place = f", {one_line(row.path)}:{row.line or '-'}" if row.path else ""
    state = f", {row.review_state}" if row.review_state else ""
    head = f"Event {row.id}: {row.kind.replace('_', ' ')} {row.comment_id} on {row.thread}{place}{state}"
    lines = [head, f"{row.author or 'ghost'}, {ago(row.updated_at)}"]
    return [*lines, *([row.url] if row.url else []), "", *block(row.body, _WIDTH, "  "), ""]


def _peek_lines(found: PendingEvents, now_ms: int) -> list[str]:
    rows = found.items
    if not rows:
        return ["No pending events."]
    lines = table_of(
        rows,
        Column("EVENT", lambda row: str(row.id), right=True),
        Column("THREAD", lambda row: row.thread, path=True, colour="cyan"),
        Column("KIND", lambda row: row.kind, optional=True),
        Column("AUTHOR", lambda row: row.author or "ghost"),
        Column("AGE", lambda row: when(row.updated_at).removesuffix(" ago")),
        Column("STATE", lambda row: _standing(row, now_ms)),
        Column("BODY", lambda row: row.body, shrinks=True),
    )
    if not on_terminal():
        return lines
    lines = [f"Unprocessed events (showing {len(rows):,} of {found.total:,})", *lines]
    if any(row.is_of_closed for row in rows):
        lines.append("Take events of merged and closed pull requests with `lore feedback next --include-closed`.")
    failed = sum(row.attempts > 0 for row in rows)
    return lines + ([f"{plural(failed, 'event')} failed before; see the error with --robot."] if failed else [])


def _standing(row: Event, now_ms: int) -> str:
    if row.leased_until is not None and row.leased_until > now_ms:
        return "in progress"
    if row.is_of_closed:
        return f"pull request {row.pr_status}"
    resting = row.next_attempt_at is not None and row.next_attempt_at > now_ms
    return f"retrying ({row.attempts} failed)" if resting else "pending"


_MOST_BYTES = 1_000_000
_BODY = "File with the text in Markdown; - for stdin."
_KEY = "Idempotency key: one comment is posted per key, whatever the text."


@lore_command(
    "reply",
    example="lore feedback reply --pr 12 --to 1234567 --body-file reply.md",
    answer=PostedReply,
)
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@click.option("--to", metavar="COMMENT", type=click.IntRange(1, 2**63 - 1), help="Id of the comment to reply to.")
@click.option("--body-file", metavar="FILE", required=True, help=_BODY)
@click.option("--token-key", metavar="KEY", help=_KEY)
@QUICK_ACTIONS
def reply_command(invocation: Invocation, /, body_file: str, to: int | None, **wanted: Any) -> Output:
    """Reply on a pull request.

    With --to, a review comment is answered in its thread. The reply is stored before it is sent and posted exactly
    once, so the command can be repeated safely. If the outcome is unknown (exit 7), the next `lore poll github` settles
    it.
    """
    request = ReplyRequest(body=read_body(body_file), source="reply", reply_to=to, **wanted)
    return _post(invocation, request)


@lore_command("comment", example="lore feedback comment --issue 7 --body-file comment.md", answer=PostedReply)
@REPO
@PR
@ISSUE
@click.option("--body-file", metavar="FILE", required=True, help=_BODY)
@click.option("--token-key", metavar="KEY", help=_KEY)
@QUICK_ACTIONS
def comment_command(invocation: Invocation, /, body_file: str, **wanted: Any) -> Output:
    """Comment on a pull request or an issue.

    Like `lore feedback reply`, the comment is posted exactly once, so the command can be repeated safely.
    """
    request = ReplyRequest(body=read_body(body_file), source="comment", **wanted)
    return _post(invocation, request)


def _post(invocation: Invocation, request: ReplyRequest) -> Output:
    with naming_quick_actions():
        posted, error = post_reply(invocation.logged_app(), request)
    row = posted.answer
    comment = f", comment {row.comment_id}" if row.comment_id else ""
    return Output(posted, [f"Reply {row.id} on {row.thread}: {row.status}{comment}"], error)


@contextmanager
def naming_quick_actions() -> Iterator[None]:
    """Add the option that allows quick actions to the error that refuses them."""
    try:
        yield
    except UserError as error:
        if "quick_actions" in error.details:
            error.fix = f"{error.fix}; if it is meant to run, pass --allow-quick-actions"
        raise


def read_body(name: str) -> str:
    """Return the text of the file, or raise UserError."""
    try:
        if name == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"cannot read {name}: {error.strerror}", fix="pass a file name, or - for stdin", file=name
        ) from None
    try:
        if len(content) <= _MOST_BYTES:
            return content.decode()
    except UnicodeDecodeError:
        raise UserError(f"{name} is not UTF-8", fix="convert the file to UTF-8", file=name) from None
    raise UserError(f"{name} is too large for a comment", fix="shorten it or post it in parts", file=name)
