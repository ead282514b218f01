"""Track pull requests: `lore feedback track|untrack|list|show|resume|blocked`, and the group `lore feedback`."""

from __future__ import annotations

import click

from tidelore.app.feedback_tracking import (
    STATUSES,
    BlockedList,
    PendingPull,
    PullList,
    ShownPull,
    Tracking,
    list_blocked,
    list_pulls,
    resume_tracking,
    show_pull,
    start_tracking,
    stop_tracking,
    unblock_pull,
)
from tidelore.cli.command import Invocation, lore_command, lore_group
from tidelore.cli.feedback_events import (
    HEAD,
    ISSUE,
    PR,
    REPO,
    ack_command,
    comment_command,
    nack_command,
    next_command,
    peek_command,
    reply_command,
)
from tidelore.cli.output.render import Output, ago, instant, plural
from tidelore.cli.output.table import Column, table_of
from tidelore.core.text import one_line, shorten


@lore_command("list", example="lore feedback list --status blocked", answer=PullList)
@REPO
@click.option("--status", type=click.Choice(STATUSES), help="Only pull requests with this status.")
def list_command(invocation: Invocation, repo: str | None, status: str | None) -> Output:
    """List tracked pull requests and source issues.

    Includes merged and closed ones. Reads the local copy only.
    """
    found = list_pulls(invocation.app(), repo, status)
    none = "No tracked pull requests." if not status else f"No pull requests with status {status}."
    lines = _table(found.items) if found.items else [none]
    for row in found.issues:
        leads = f"linked to #{row.pr_number}" if row.pr_number else "has no pull request yet"
        lines.append(f"{row.repo}#{row.issue_number}: source issue, {leads}")
    return Output(found, lines)


@lore_command("show", example="lore feedback show --pr 12", answer=ShownPull)
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
def show_command(invocation: Invocation, repo: str | None, pr: str) -> Output:
    """Show the state of a tracked pull request.

    Prints its status history, reading positions, events, replies and operator commands.
    """
    found = show_pull(invocation.app(), repo, pr)
    return Output(found, _show_lines(found))


def _table(items: list[PendingPull]) -> list[str]:
    return table_of(
        items,
        Column("PULL REQUEST", lambda one: one.reference, colour="cyan", path=True),
        Column("STATUS", lambda one: f"{one.status}{' (paused)' if one.paused else ''}", state=True),
        Column("PENDING", lambda one: f"{one.pending:,}", right=True),
        Column("IN PROGRESS", lambda one: f"{one.in_flight:,}", right=True, optional=True),
        Column("TITLE", lambda one: one.title or "-", shrinks=True),
    )


def _show_lines(found: ShownPull) -> list[str]:
    pull = found.pull
    lines = [f"{pull.reference} {one_line(pull.title or '')}".rstrip()]
    why = f" ({pull.blocked_reason})" if pull.blocked_reason else ""
    paused = ", paused" if pull.paused else ""
    lines.append(f"  {pull.status}{why}{paused}, {ago(pull.entered_at)}; tracked by {pull.tracked_by}")
    if pull.head_sha:
        lines.append(f"  head {pull.head_sha[:12]} of {one_line(pull.branch or '-')}")
    if pull.issue_number:
        lines.append(f"  source issue #{pull.issue_number}")
    told = f"{plural(found.events, 'event')}, {found.processed:,} done, {pull.in_flight:,} in progress"
    lines.append(f"  {told}, {pull.pending - pull.in_flight:,} pending")
    lines.append("History:")
    for step in found.history:
        detail = f": {shorten(one_line(step.detail), 80)}" if step.detail else ""
        lines.append(f"  {instant(step.at)} {step.from_status or '-'} -> {step.to_status} ({step.reason}){detail}")
    return lines + _talk_lines(found)


def _talk_lines(found: ShownPull) -> list[str]:
    lines = ["Positions:"] if found.cursors else []
    for cursor in found.cursors:
        whole = "complete" if cursor.bootstrap_complete else "incomplete"
        lines.append(f"  {cursor.surface}: {whole}, up to {instant(cursor.last_updated_at) or '-'}")
    lines += ["Answers:"] if found.answers else []
    lines += [f"  {sent.id} {sent.source}: {sent.status}, comment {sent.comment_id or '-'}" for sent in found.answers]
    lines += ["Commands:"] if found.commands else []
    lines += [f"  {instant(one.commented_at)} {one.command} by {one.author}: {one.status}" for one in found.commands]
    return lines


@lore_command("track", example="lore feedback track --pr 'owner/repo#12'", answer=Tracking)
@REPO
@PR
@ISSUE
def track_command(invocation: Invocation, repo: str | None, pr: str | None, issue: str | None) -> Output:
    """Track a pull request and turn its comments into events.

    With --issue, the source issue is tracked too: users who comment there get one notice that points to the pull
    request. With --issue alone, the issue is tracked before its pull request exists and its comments become one batched
    event.
    """
    return _output(start_tracking(invocation.logged_app(), repo, pr, issue), "is tracked")


@lore_command("untrack", example="lore feedback untrack --pr 12", answer=Tracking)
@REPO
@PR
@ISSUE
def untrack_command(invocation: Invocation, repo: str | None, pr: str | None, issue: str | None) -> Output:
    """Stop tracking a pull request or a source issue.

    Stored events and replies are kept. If it is tracked again, no event is repeated.
    """
    return _output(stop_tracking(invocation.app(), repo, pr, issue), "is no longer tracked")


@lore_command("resume", example="lore feedback resume --pr 12", answer=Tracking)
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@HEAD
def resume_command(invocation: Invocation, repo: str | None, pr: str, head_sha: str | None) -> Output:
    """Resume tracking a closed pull request.

    It must be open again on GitHub. Comments posted meanwhile are read as far back as
    comment_fetch_safe_backfill_seconds.
    """
    return _output(resume_tracking(invocation.logged_app(), repo, pr, head_sha), "is tracked again")


blocked_command = lore_group("blocked", "List or unblock blocked pull requests.", example="lore feedback blocked list")


@blocked_command.command("list", example="lore feedback blocked list --repo owner/repo", answer=BlockedList)
@REPO
def blocked_list_command(invocation: Invocation, repo: str | None) -> Output:
    """List blocked pull requests and why."""
    found = list_blocked(invocation.app(), repo)
    lines = []
    for pull in found.items:
        lines.append(f"{pull.reference}: {pull.blocked_reason}, {ago(pull.blocked_at)}")
        lines += [f"  {one_line(pull.detail)}"] if pull.detail else []
    if found.items:
        lines.append("Unblock one with `lore feedback blocked unblock --pr REF`.")
    return Output(found, lines or ["No pull request is blocked."])


@blocked_command.command("unblock", example="lore feedback blocked unblock --pr 12", answer=Tracking)
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@HEAD
def blocked_unblock_command(invocation: Invocation, repo: str | None, pr: str, head_sha: str | None) -> Output:
    """Unblock a pull request.

    Tracking continues from its current head, or from --head-sha. Comments posted while it was blocked are read by the
    next poll.
    """
    return _output(unblock_pull(invocation.logged_app(), repo, pr, head_sha), "is tracked again")


def _output(done: Tracking, told: str) -> Output:
    pull, issue = done.pull, done.issue
    lines = []
    if pull is not None:
        title = f" ({one_line(pull.title)})" if pull.title else ""
        lines.append(f"{pull.reference}{title} {told}: {pull.status}")
    if issue is not None:
        where = (
            f"comments there are redirected to #{issue.pr_number}"
            if issue.pr_number
            else "comments there become one event"
        )
        lines.append(f"{issue.repo}#{issue.issue_number}, a source issue, {told}: {where}")
    return Output(done, lines)


feedback_command = lore_group(
    "feedback", "Track pull requests, process their comments and reply.", example="lore feedback next --wait --poll"
)


for _inner in (
    track_command,
    untrack_command,
    list_command,
    show_command,
    next_command,
    peek_command,
    ack_command,
    nack_command,
    reply_command,
    comment_command,
    resume_command,
    blocked_command,
):
    feedback_command.add_command(_inner)
