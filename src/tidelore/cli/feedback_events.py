"""Process events and reply: `lore feedback next|peek|ack|nack|reply|comment`.

Also defines the options --repo, --pr, --issue and --head-sha of all feedback commands and how they are parsed
together.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.command import Invocation, LoreCommand, invocation_of
from tidelore.cli.output.feedback import answer_data, event_data
from tidelore.cli.output.logs import set_up_logging
from tidelore.cli.output.render import Output, ago, plural, when
from tidelore.cli.output.table import Column, on_terminal, table
from tidelore.core.clock import SystemClock
from tidelore.core.errors import UserError
from tidelore.core.text import block, one_line
from tidelore.store.work.events import EventRow, PendingCount, peek, pending_counts
from tidelore.store.work.tracked_pull_requests import TERMINAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelore.core.config import Config
    from tidelore.feedback.outbox import AnswerRequest
    from tidelore.feedback.repositories import ConfiguredRepo


_SHA = re.compile(r"[0-9a-fA-F]{7,64}")

REPO: Callable[..., Any] = click.option(
    "--repo", metavar="OWNER/REPO", help="Repository; optional if only one is configured."
)
PR: Callable[..., Any] = click.option("--pr", metavar="REF", help="Pull request: number, owner/repo#12 or URL.")
ISSUE: Callable[..., Any] = click.option("--issue", metavar="REF", help="Issue: number, owner/repo#12 or URL.")
HEAD: Callable[..., Any] = click.option(
    "--head-sha", metavar="SHA", help="Commit to continue from instead of the current head."
)


def repo_and_number(config: Config, repo: str | None, pr: str) -> tuple[ConfiguredRepo, int]:
    """Return the repository and the number of the pull request."""
    from tidelore.feedback.repositories import choose_repo, parse_thread

    thread = parse_thread(pr, "pr")
    return choose_repo(config, repo, thread), thread.number


def repo_of_either(
    config: Config, repo: str | None, pr: str | None, issue: str | None
) -> tuple[ConfiguredRepo, int | None, int | None]:
    """Return the repository, the pull request and the issue; at least one of the two must be given."""
    from tidelore.feedback.repositories import choose_repo, parse_thread

    pull = None if pr is None else parse_thread(pr, "pr")
    found = None if issue is None else parse_thread(issue, "issue")
    named = pull if pull is not None and (pull.repo or found is None) else found
    if named is None:
        raise UserError("no pull request or issue given", fix="pass --pr or --issue")
    place = choose_repo(config, repo, named)
    for thread in (pull, found):
        if thread is not None and thread.repo is not None and choose_repo(config, None, thread) != place:
            raise UserError(
                f"{thread.repo} and {place.name} are different repositories", fix="name threads of one repository"
            )
    return place, None if pull is None else pull.number, None if found is None else found.number


def read_head(head_sha: str | None) -> str | None:
    """Return the commit in lower case, or raise UserError."""
    if head_sha is not None and not _SHA.fullmatch(head_sha):
        raise UserError(f"invalid value for --head-sha: {head_sha!r}", fix="use 7 to 64 hexadecimal digits")
    return None if head_sha is None else head_sha.lower()


_LARGEST_ID = 2**63 - 1
_WIDTH = 100


@click.command("next", cls=LoreCommand, example="lore feedback next --wait --poll")
@REPO
@PR
@click.option("--wait", is_flag=True, help="Wait until an event is ready.")
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="With --wait: give up after this time."
)
@click.option("--include-closed", is_flag=True, help="Also take events of merged and closed pull requests.")
@click.option("--poll", is_flag=True, help="Poll GitHub first, and every poll_interval_seconds while waiting.")
@click.pass_context
def next_command(
    ctx: click.Context,
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
    from tidelore.app.feedback_events import TakeRequest, count_of_closed, take_event
    from tidelore.app.wiring import run_until_signalled
    from tidelore.feedback.repositories import choose_repos

    invocation = invocation_of(ctx)
    app = invocation.app()
    if timeout is not None and not wait:
        raise UserError("--timeout requires --wait", fix="add --wait, or remove --timeout")
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    number: int | None = None
    if pr is not None:
        place, number = repo_and_number(app.config, repo, pr)
        places = [place]
    else:
        places = choose_repos(app.config, repo)
    request = TakeRequest(places, number, wait, timeout, poll, include_closed)
    event = run_until_signalled(take_event(app, request), "no event was taken")
    if event is None:
        return Output({"event": None}, ["No events ready.", *_closed_lines(count_of_closed(app, request))])
    return Output({"event": event_data(event, lease=True)}, [*_event_lines(event), f"Lease {event.lease_id}"])


@click.command("peek", cls=LoreCommand, example="lore feedback peek --limit 5")
@REPO
@PR
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Number of items to show."
)
@click.pass_context
def peek_command(ctx: click.Context, repo: str | None, pr: str | None, limit: int) -> Output:
    """List unprocessed events without taking one.

    Events of merged and closed pull requests are marked; `lore feedback next` takes them only with --include-closed.
    """
    from tidelore.feedback.repositories import choose_repo

    invocation = invocation_of(ctx)
    number: int | None = None
    place = None
    if pr is not None:
        place, number = repo_and_number(invocation.app().config, repo, pr)
    elif repo is not None:
        place = choose_repo(invocation.app().config, repo)
    database = invocation.open_store()
    try:
        ids = None
        if place is not None:
            from tidelore.app.sources import find_followed

            ids = [find_followed(database, place).id]
        rows = peek(database, pr=number, project_ids=ids, limit=limit)
        now = SystemClock().now_ms()
        total = sum(count.pending for count in pending_counts(database, now) if _is_meant(count, ids, number))
    finally:
        database.close()
    data = {"items": [event_data(row) for row in rows], "total": total, "next": None}
    return Output(data, _peek_lines(rows, total, now))


@click.command("ack", cls=LoreCommand, example="lore feedback ack 42")
@click.argument("event", metavar="[EVENT]", type=click.IntRange(1, _LARGEST_ID), required=False)
@click.option("--lease", metavar="LEASE", help="Lease id from `lore feedback next`, instead of EVENT.")
@click.pass_context
def ack_command(ctx: click.Context, event: int | None, lease: str | None) -> Output:
    """Mark an event as done.

    EVENT is its number; --lease identifies it by its lease instead. An expired lease is accepted unless another
    consumer has taken the event since (exit 3). Repeating the command is allowed.
    """
    from tidelore.app.feedback_events import ack_event

    invocation = invocation_of(ctx)
    handle = _handle(event, lease)
    database = invocation.open_store()
    try:
        row = ack_event(database, handle, SystemClock().now_ms())
    finally:
        database.close()
    return Output({"event": event_data(row)}, [f"Event {row.id} of {_thread(row)} is done."])


@click.command("nack", cls=LoreCommand, example="lore feedback nack 42 --error 'build failed'")
@click.argument("event", metavar="[EVENT]", type=click.IntRange(1, _LARGEST_ID), required=False)
@click.option("--lease", metavar="LEASE", help="Lease id from `lore feedback next`, instead of EVENT.")
@click.option("--error", metavar="TEXT", required=True, help="Error message to record.")
@click.pass_context
def nack_command(ctx: click.Context, event: int | None, lease: str | None, error: str) -> Output:
    """Mark an event as failed and retry it later.

    EVENT is its number. The event is handed out again after handler_backoff_seconds, doubled with each failure. After
    handler_max_attempts failures the pull request is blocked.
    """
    from tidelore.app.feedback_events import nack_event
    from tidelore.store.work.tracked_pull_requests import BLOCKED, find_tracked

    invocation = invocation_of(ctx)
    handle = _handle(event, lease)
    database = invocation.open_store()
    try:
        row = nack_event(invocation.app(), database, handle, error)
        pull = None if row.pr_number is None else find_tracked(database, row.project_id, row.pr_number)
    finally:
        database.close()
    blocked = pull is not None and pull.status == BLOCKED
    told = f"Event {row.id} of {_thread(row)} failed, attempt {row.attempts}"
    if row.processed_at is not None:
        told = f"Event {row.id} of {_thread(row)} was already done."
    elif blocked:
        told += "; the pull request is blocked (`lore feedback blocked list`)."
    else:
        told += "; it will be retried."
    return Output({"event": event_data(row), "blocked": blocked}, [told])


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


def _is_meant(count: PendingCount, ids: list[int] | None, number: int | None) -> bool:
    return (ids is None or count.project_id in ids) and number in (None, count.thread_number)


def _thread(row: EventRow) -> str:
    return f"{row.repo_full_name}#{row.thread_number}"


def _event_lines(row: EventRow) -> list[str]:
    place = f", {one_line(row.path)}:{row.line or '-'}" if row.path else ""
    state = f", {row.review_state}" if row.review_state else ""
    head = f"Event {row.id}: {row.kind.replace('_', ' ')} {row.comment_id} on {_thread(row)}{place}{state}"
    lines = [head, f"{row.author or 'ghost'}, {ago(row.updated_at)}"]
    return [*lines, *([row.url] if row.url else []), "", *block(row.body, _WIDTH, "  "), ""]


def _peek_lines(rows: list[EventRow], total: int, now_ms: int) -> list[str]:
    if not rows:
        return ["No pending events."]
    cells = [
        [
            str(row.id),
            _thread(row),
            row.kind,
            row.author or "ghost",
            when(row.updated_at).removesuffix(" ago"),
            _standing(row, now_ms),
            row.body,
        ]
        for row in rows
    ]
    columns = [
        Column("EVENT", right=True),
        Column("THREAD", colour="cyan"),
        *(Column(name) for name in ("KIND", "AUTHOR", "AGE", "STATE")),
        Column("BODY", shrinks=True),
    ]
    if not on_terminal():
        return table(columns, cells)
    lines = [f"Unprocessed events (showing {len(rows):,} of {total:,})", *table(columns, cells)]
    if any(row.pr_status in TERMINAL for row in rows):
        lines.append("Take events of merged and closed pull requests with `lore feedback next --include-closed`.")
    failed = sum(row.attempts > 0 for row in rows)
    return lines + ([f"{plural(failed, 'event')} failed before; see the error with --robot."] if failed else [])


def _standing(row: EventRow, now_ms: int) -> str:
    if row.leased_until is not None and row.leased_until > now_ms:
        return "in progress"
    if row.pr_status in TERMINAL:
        return f"pull request {row.pr_status}"
    resting = row.next_attempt_at is not None and row.next_attempt_at > now_ms
    return f"retrying ({row.attempts} failed)" if resting else "pending"


_MOST_BYTES = 1_000_000
_BODY = "File with the text in Markdown; - for stdin."
_KEY = "Idempotency key: one comment is posted per key, whatever the text."


@click.command("reply", cls=LoreCommand, example="lore feedback reply --pr 12 --to 1234567 --body-file reply.md")
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@click.option("--to", metavar="COMMENT", type=click.IntRange(1, 2**63 - 1), help="Id of the comment to reply to.")
@click.option("--body-file", metavar="FILE", required=True, help=_BODY)
@click.option("--token-key", metavar="KEY", help=_KEY)
@click.pass_context
def reply_command(
    ctx: click.Context, repo: str | None, pr: str, to: int | None, body_file: str, token_key: str | None
) -> Output:
    """Reply on a pull request.

    With --to, a review comment is answered in its thread. The reply is stored before it is sent and posted exactly
    once, so the command can be repeated safely. If the outcome is unknown (exit 7), the next `lore poll github` settles
    it.
    """
    from tidelore.feedback.outbox import AnswerRequest

    invocation = invocation_of(ctx)
    place, number = repo_and_number(invocation.app().config, repo, pr)
    body = _read_body(body_file)
    return _post(invocation, place, AnswerRequest("pr", number, body, "reply", to, token_key))


@click.command("comment", cls=LoreCommand, example="lore feedback comment --issue 7 --body-file comment.md")
@REPO
@PR
@ISSUE
@click.option("--body-file", metavar="FILE", required=True, help=_BODY)
@click.option("--token-key", metavar="KEY", help=_KEY)
@click.pass_context
def comment_command(
    ctx: click.Context, repo: str | None, pr: str | None, issue: str | None, body_file: str, token_key: str | None
) -> Output:
    """Comment on a pull request or an issue.

    Like `lore feedback reply`, the comment is posted exactly once, so the command can be repeated safely.
    """
    from tidelore.feedback.outbox import AnswerRequest

    invocation = invocation_of(ctx)
    if pr is not None and issue is not None:
        raise UserError("--pr and --issue cannot be combined", fix="pass only one of them")
    place, pull, found = repo_of_either(invocation.app().config, repo, pr, issue)
    body = _read_body(body_file)
    if pull is not None:
        return _post(invocation, place, AnswerRequest("pr", pull, body, "comment", None, token_key))
    assert found is not None
    return _post(invocation, place, AnswerRequest("issue", found, body, "comment", None, token_key))


def _post(invocation: Invocation, place: ConfiguredRepo, answering: AnswerRequest) -> Output:
    from tidelore.app.feedback_tracking import post_answer
    from tidelore.app.wiring import run_until_signalled

    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    fate = "the reply may be stored; `lore poll github` completes it, and repeating the command posts it only once"
    posted = run_until_signalled(post_answer(app, place, answering), fate)
    row = posted.row
    comment = f", comment {row.comment_id}" if row.comment_id else ""
    told = f"Reply {row.id} on {row.repo_full_name}#{row.scope_number}: {row.status}{comment}"
    return Output({"answer": answer_data(row)}, [told], posted.error)


def _read_body(name: str) -> str:
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
