"""`lore feedback track|untrack|resume|blocked`: starts, stops and resumes tracking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidelore.cli.face import Face, LoreCommand, LoreGroup, face_of, global_options
from tidelore.cli.feedback_data import issue_data, pull_data
from tidelore.cli.feedback_threads import HEAD, ISSUE, PR, REPO, read_head, repo_and_number, repo_of_either
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer, ago
from tidelore.core.errors import UserError
from tidelore.core.text import one_line

if TYPE_CHECKING:
    from tidelore.app.feedback_tracking import Followed
    from tidelore.app.wiring import App


@click.command("track", cls=LoreCommand, example="lore feedback track --pr 'owner/repo#12'")
@REPO
@PR
@ISSUE
@click.pass_context
def track_command(ctx: click.Context, repo: str | None, pr: str | None, issue: str | None) -> Answer:
    """Track a pull request and turn its comments into events.

    With --issue, the source issue is tracked too: users who comment there get one notice that points to the pull
    request. With --issue alone, the issue is tracked before its pull request exists and its comments become one batched
    event.
    """
    from tidelore.app.feedback_tracking import track
    from tidelore.app.wiring import run_until_signalled

    app = _app(face_of(ctx))
    place, pull, source_issue = repo_of_either(app.config, repo, pr, issue)
    done = run_until_signalled(track(app, place, pr=pull, issue=source_issue), "nothing was changed")
    return _answer(done, "is tracked")


@click.command("untrack", cls=LoreCommand, example="lore feedback untrack --pr 12")
@REPO
@PR
@ISSUE
@click.pass_context
def untrack_command(ctx: click.Context, repo: str | None, pr: str | None, issue: str | None) -> Answer:
    """Stop tracking a pull request or a source issue.

    Stored events and replies are kept. If it is tracked again, no event is repeated.
    """
    from tidelore.app.feedback_tracking import untrack

    face = face_of(ctx)
    app = face.app()
    if pr is not None and issue is not None:
        raise UserError(
            "--pr and --issue cannot be combined",
            fix="remove --issue: untracking a pull request includes its source issue",
        )
    place, pull, source_issue = repo_of_either(app.config, repo, pr, issue)
    database = face.open_store()
    try:
        done = untrack(app, database, place, pr=pull, issue=source_issue)
    finally:
        database.close()
    return _answer(done, "is no longer tracked")


@click.command("resume", cls=LoreCommand, example="lore feedback resume --pr 12")
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@HEAD
@click.pass_context
def resume_command(ctx: click.Context, repo: str | None, pr: str, head_sha: str | None) -> Answer:
    """Resume tracking a closed pull request.

    It must be open again on GitHub. Comments posted meanwhile are read as far back as
    comment_fetch_safe_backfill_seconds.
    """
    from tidelore.app.feedback_tracking import Followed, resume
    from tidelore.app.wiring import run_until_signalled

    app = _app(face_of(ctx))
    place, number = repo_and_number(app.config, repo, pr)
    row = run_until_signalled(resume(app, place, number, read_head(head_sha)), "nothing was changed")
    return _answer(Followed(row, None), "is tracked again")


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
def blocked_list_command(ctx: click.Context, repo: str | None) -> Answer:
    """List blocked pull requests and why they are blocked."""
    from tidelore.cli.feedback_lists import chosen_name
    from tidelore.store.work.tracked_pull_requests import BLOCKED, history, list_tracked

    face = face_of(ctx)
    name = chosen_name(face, repo)
    database = face.open_store()
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
    return Answer({"items": items, "total": len(items), "next": None}, lines or ["No pull request is blocked."])


@blocked_command.command("unblock", cls=LoreCommand, example="lore feedback blocked unblock --pr 12")
@REPO
@click.option("--pr", metavar="REF", required=True, help="Pull request: number, owner/repo#12 or URL.")
@HEAD
@click.pass_context
def blocked_unblock_command(ctx: click.Context, repo: str | None, pr: str, head_sha: str | None) -> Answer:
    """Unblock a pull request.

    Tracking continues from its current head, or from --head-sha. Comments posted while it was blocked are read by the
    next poll.
    """
    from tidelore.app.feedback_tracking import Followed, unblock
    from tidelore.app.wiring import run_until_signalled

    app = _app(face_of(ctx))
    place, number = repo_and_number(app.config, repo, pr)
    row = run_until_signalled(unblock(app, place, number, read_head(head_sha)), "nothing was changed")
    return _answer(Followed(row, None), "is tracked again")


def _app(face: Face) -> App:
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    return app


def _answer(done: Followed, told: str) -> Answer:
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
    return Answer(data, lines)
