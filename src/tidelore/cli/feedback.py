"""Track pull requests: `lore feedback track|untrack|list|show|resume|blocked`, and the group `lore feedback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.command import Invocation, LoreCommand, LoreGroup, global_options, invocation_of
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
    read_head,
    reply_command,
    repo_and_number,
    repo_of_either,
)
from tidelore.cli.output.feedback import (
    answer_data,
    command_data,
    issue_data,
    position_data,
    pull_data,
    step_data,
    waiting_by_thread,
)
from tidelore.cli.output.logs import set_up_logging
from tidelore.cli.output.render import Output, ago, plural
from tidelore.cli.output.table import Column, table
from tidelore.core.clock import SystemClock
from tidelore.core.errors import NotFound, UserError
from tidelore.core.text import one_line, shorten
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import list_poll_cursors
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.events import list_events, pending_counts
from tidelore.store.work.followed_issues import followed_issues
from tidelore.store.work.operator_commands import list_commands
from tidelore.store.work.outbox import list_outbox
from tidelore.store.work.tracked_pull_requests import STATUSES, TrackedPr, find_tracked, history, list_tracked

if TYPE_CHECKING:
    from tidelore.app.feedback_tracking import Followed
    from tidelore.app.wiring import App


_LATEST = 20


@click.command("list", cls=LoreCommand, example="lore feedback list --status blocked")
@REPO
@click.option("--status", type=click.Choice(STATUSES), help="Only pull requests with this status.")
@click.pass_context
def list_command(ctx: click.Context, repo: str | None, status: str | None) -> Output:
    """List tracked pull requests and source issues.

    Includes merged and closed ones. Reads the local copy only.
    """
    invocation = invocation_of(ctx)
    name = chosen_name(invocation, repo)
    database = invocation.open_store()
    try:
        rows = list_tracked(database, repo=name, statuses=None if status is None else (status,))
        issues = [] if status else [row for row in followed_issues(database) if name in (None, row.repo_full_name)]
        waiting = waiting_by_thread(pending_counts(database, SystemClock().now_ms()))
    finally:
        database.close()
    items = [pull_data(row, waiting) for row in rows]
    data = {"items": items, "total": len(items), "next": None, "issues": [issue_data(row) for row in issues]}
    lines = (
        _table(items)
        if items
        else ["No tracked pull requests." if not status else f"No pull requests with status {status}."]
    )
    for row in issues:
        leads = f"linked to #{row.pr_number}" if row.pr_number else "has no pull request yet"
        lines.append(f"{row.repo_full_name}#{row.issue_number}: source issue, {leads}")
    return Output(data, lines)


@click.command("show", cls=LoreCommand, example="lore feedback show --pr 12")
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@click.pass_context
def show_command(ctx: click.Context, repo: str | None, pr: str) -> Output:
    """Show the state of a tracked pull request.

    Prints its status history, reading positions, events, replies and operator commands.
    """
    from tidelore.app.sources import find_followed

    invocation = invocation_of(ctx)
    place, number = repo_and_number(invocation.app().config, repo, pr)
    database = invocation.open_store()
    try:
        project = find_followed(database, place)
        row = find_tracked(database, project.id, number)
        if row is None:
            raise NotFound(
                f"{project.path}#{number} is not tracked",
                fix=f"follow it with: lore feedback track --repo {project.path} --pr {number}",
                number=number,
            )
        data = _shown(database, project, row)
    finally:
        database.close()
    return Output(data, _show_lines(data, row))


def chosen_name(invocation: Invocation, repo: str | None) -> str | None:
    """Return the stored name of the chosen repository; None for all."""
    if repo is None:
        return None
    from tidelore.feedback.repositories import choose_repo
    from tidelore.store.mirror.projects import find_configured

    place = choose_repo(invocation.app().config, repo)
    database = invocation.open_store()
    try:
        project = find_configured(database, place.host.name, place.name)
    finally:
        database.close()
    return place.name if project is None else project.path


def _shown(database: Database, project: ProjectRow, row: TrackedPr) -> dict[str, Any]:
    number = row.pr_number
    events = list_events(database, project.id, number)
    waiting = waiting_by_thread(pending_counts(database, SystemClock().now_ms()))
    answers = [sent for sent in list_outbox(database, project_ids=[project.id]) if sent.scope_number == number]
    commands = [
        found
        for found in list_commands(database, project_id=project.id, limit=1000)
        if number in (found.issue_number, found.pr_number)
    ]
    cursors = list_poll_cursors(database, project.source, project.path)
    return {
        "pull": pull_data(row, waiting),
        "events": len(events),
        "processed": sum(event.processed_at is not None for event in events),
        "history": [step_data(step) for step in history(database, row.id)],
        "cursors": [position_data(cursor) for cursor in cursors if cursor.scope_number == number],
        "answers": [answer_data(sent) for sent in answers[-_LATEST:]],
        "commands": [command_data(found) for found in commands[:_LATEST]],
    }


def _table(items: list[dict[str, Any]]) -> list[str]:
    rows = [
        [
            f"{item['repo']}#{item['pr_number']}",
            f"{item['status']}{' (paused)' if item['paused'] else ''}",
            f"{item['pending']:,}",
            f"{item['in_flight']:,}",
            item["title"] or "-",
        ]
        for item in items
    ]
    columns = [
        Column("PULL REQUEST", colour="cyan"),
        Column("STATUS", state=True),
        Column("PENDING", right=True),
        Column("IN PROGRESS", right=True),
        Column("TITLE", shrinks=True),
    ]
    return table(columns, rows)


def _show_lines(data: dict[str, Any], row: TrackedPr) -> list[str]:
    pull = data["pull"]
    lines = [f"{pull['repo']}#{pull['pr_number']} {one_line(pull['title'] or '')}".rstrip()]
    why = f" ({pull['blocked_reason']})" if pull["blocked_reason"] else ""
    paused = ", paused" if pull["paused"] else ""
    lines.append(f"  {pull['status']}{why}{paused}, {ago(row.entered_at)}; tracked by {pull['tracked_by']}")
    if pull["head_sha"]:
        lines.append(f"  head {pull['head_sha'][:12]} of {one_line(pull['branch'] or '-')}")
    if pull["issue_number"]:
        lines.append(f"  source issue #{pull['issue_number']}")
    told = f"{plural(data['events'], 'event')}, {data['processed']:,} done, {pull['in_flight']:,} in progress"
    lines.append(f"  {told}, {pull['pending'] - pull['in_flight']:,} pending")
    lines.append("History:")
    for step in data["history"]:
        detail = f": {shorten(one_line(step['detail']), 80)}" if step["detail"] else ""
        lines.append(f"  {step['at']} {step['from_status'] or '-'} -> {step['to_status']} ({step['reason']}){detail}")
    return lines + _talk_lines(data)


def _talk_lines(data: dict[str, Any]) -> list[str]:
    lines = ["Positions:"] if data["cursors"] else []
    for cursor in data["cursors"]:
        whole = "complete" if cursor["bootstrap_complete"] else "incomplete"
        lines.append(f"  {cursor['surface']}: {whole}, up to {cursor['last_updated_at'] or '-'}")
    lines += ["Answers:"] if data["answers"] else []
    for sent in data["answers"]:
        lines.append(f"  {sent['id']} {sent['source']}: {sent['status']}, comment {sent['comment_id'] or '-'}")
    lines += ["Commands:"] if data["commands"] else []
    for found in data["commands"]:
        lines.append(f"  {found['commented_at']} {found['command']} by {found['author']}: {found['status']}")
    return lines


@click.command("track", cls=LoreCommand, example="lore feedback track --pr 'owner/repo#12'")
@REPO
@PR
@ISSUE
@click.pass_context
def track_command(ctx: click.Context, repo: str | None, pr: str | None, issue: str | None) -> Output:
    """Track a pull request and turn its comments into events.

    With --issue, the source issue is tracked too: users who comment there get one notice that points to the pull
    request. With --issue alone, the issue is tracked before its pull request exists and its comments become one batched
    event.
    """
    from tidelore.app.feedback_tracking import track
    from tidelore.app.wiring import run_until_signalled

    app = _app(invocation_of(ctx))
    place, pull, source_issue = repo_of_either(app.config, repo, pr, issue)
    done = run_until_signalled(track(app, place, pr=pull, issue=source_issue), "nothing was changed")
    return _output(done, "is tracked")


@click.command("untrack", cls=LoreCommand, example="lore feedback untrack --pr 12")
@REPO
@PR
@ISSUE
@click.pass_context
def untrack_command(ctx: click.Context, repo: str | None, pr: str | None, issue: str | None) -> Output:
    """Stop tracking a pull request or a source issue.

    Stored events and replies are kept. If it is tracked again, no event is repeated.
    """
    from tidelore.app.feedback_tracking import untrack

    invocation = invocation_of(ctx)
    app = invocation.app()
    if pr is not None and issue is not None:
        raise UserError(
            "--pr and --issue cannot be combined",
            fix="remove --issue: untracking a pull request includes its source issue",
        )
    place, pull, source_issue = repo_of_either(app.config, repo, pr, issue)
    database = invocation.open_store()
    try:
        done = untrack(app, database, place, pr=pull, issue=source_issue)
    finally:
        database.close()
    return _output(done, "is no longer tracked")


@click.command("resume", cls=LoreCommand, example="lore feedback resume --pr 12")
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@HEAD
@click.pass_context
def resume_command(ctx: click.Context, repo: str | None, pr: str, head_sha: str | None) -> Output:
    """Resume tracking a closed pull request.

    It must be open again on GitHub. Comments posted meanwhile are read as far back as
    comment_fetch_safe_backfill_seconds.
    """
    from tidelore.app.feedback_tracking import Followed, resume
    from tidelore.app.wiring import run_until_signalled

    app = _app(invocation_of(ctx))
    place, number = repo_and_number(app.config, repo, pr)
    row = run_until_signalled(resume(app, place, number, read_head(head_sha)), "nothing was changed")
    return _output(Followed(row, None), "is tracked again")


@click.group(
    "blocked",
    cls=LoreGroup,
    help="List or unblock blocked pull requests.",
    no_args_is_help=True,
    params=global_options(),
    example="lore feedback blocked list",
)
def blocked_command() -> None:
    pass


@blocked_command.command("list", cls=LoreCommand, example="lore feedback blocked list --repo owner/repo")
@REPO
@click.pass_context
def blocked_list_command(ctx: click.Context, repo: str | None) -> Output:
    """List blocked pull requests and why they are blocked."""
    from tidelore.store.work.tracked_pull_requests import BLOCKED

    invocation = invocation_of(ctx)
    name = chosen_name(invocation, repo)
    database = invocation.open_store()
    try:
        rows = list_tracked(database, repo=name, statuses=(BLOCKED,))
        details = {row.id: history(database, row.id)[-1].detail for row in rows}
    finally:
        database.close()
    items = [{**pull_data(row), "detail": details[row.id]} for row in rows]
    lines = []
    for row in rows:
        lines.append(f"{row.repo_full_name}#{row.pr_number}: {row.blocked_reason}, {ago(row.blocked_at)}")
        lines += [f"  {one_line(text)}" for text in [details[row.id]] if text]
    if rows:
        lines.append("Unblock one with `lore feedback blocked unblock --pr REF`.")
    return Output({"items": items, "total": len(items), "next": None}, lines or ["No pull request is blocked."])


@blocked_command.command("unblock", cls=LoreCommand, example="lore feedback blocked unblock --pr 12")
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@HEAD
@click.pass_context
def blocked_unblock_command(ctx: click.Context, repo: str | None, pr: str, head_sha: str | None) -> Output:
    """Unblock a pull request.

    Tracking continues from its current head, or from --head-sha. Comments posted while it was blocked are read by the
    next poll.
    """
    from tidelore.app.feedback_tracking import Followed, unblock
    from tidelore.app.wiring import run_until_signalled

    app = _app(invocation_of(ctx))
    place, number = repo_and_number(app.config, repo, pr)
    row = run_until_signalled(unblock(app, place, number, read_head(head_sha)), "nothing was changed")
    return _output(Followed(row, None), "is tracked again")


def _app(invocation: Invocation) -> App:
    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    return app


def _output(done: Followed, told: str) -> Output:
    pull, issue = done.pull, done.issue
    data = {"pull": None if pull is None else pull_data(pull), "issue": None if issue is None else issue_data(issue)}
    lines = []
    if pull is not None:
        title = f" ({one_line(pull.title)})" if pull.title else ""
        lines.append(f"{pull.repo_full_name}#{pull.pr_number}{title} {told}: {pull.status}")
    if issue is not None:
        where = (
            f"comments there are redirected to #{issue.pr_number}"
            if issue.pr_number
            else "comments there become one event"
        )
        lines.append(f"{issue.repo_full_name}#{issue.issue_number}, a source issue, {told}: {where}")
    return Output(data, lines)


@click.group(
    "feedback",
    cls=LoreGroup,
    help="Track pull requests, process their comments and reply.",
    no_args_is_help=True,
    params=global_options(),
    example="lore feedback next --wait --poll",
)
def feedback_command() -> None:
    pass


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
