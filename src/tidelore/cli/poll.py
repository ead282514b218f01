"""Fetch updates from GitHub, GitLab and Bluesky: `lore poll`, `lore stream`.

Each function that polls is also called by `lore sync`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tidelore.app.accounts import AccountsPoll, follows_accounts, plan_followed, poll_followed, stream_posts
from tidelore.app.feedback_polling import (
    FeedbackPollRequest,
    PolledRepo,
    PolledRepos,
    ReposPlan,
    plan_repositories,
    poll_repositories,
)
from tidelore.app.reports import AccountsPlan, PolledAccount, PolledAccounts, StreamSummary
from tidelore.cli.command import Invocation, lore_command, lore_group
from tidelore.cli.options import duration_option
from tidelore.cli.output.render import Output, plural
from tidelore.cli.output.runs import documents_line, progress
from tidelore.core.text import one_line, shorten

_WIDTH = 100
_FINISHED = frozenset({"observed", "posted"})


_OPTIONS = (
    click.option("--full", is_flag=True, help="Read every tracked thread from the beginning."),
    click.option("--no-handler", is_flag=True, help="Do not run the handler; leave events for `lore feedback next`."),
    click.option("--force", is_flag=True, help="Take over the lock from another process."),
    click.option("--dry-run", is_flag=True, help="Print what would be done, without lock, database or network."),
)


def _poll_options(work: Callable[..., Output]) -> Callable[..., Output]:
    """Add the options of every poll of a forge."""
    for option in reversed(_OPTIONS):
        work = option(work)
    return work


@lore_command("github", example="lore poll github --repo owner/repo", answer=(PolledRepos, ReposPlan))
@click.option("--repo", metavar="OWNER/REPO", help="Only this configured repository (name or unambiguous ending).")
@_poll_options
def github_command(invocation: Invocation, /, repo: str | None, **chosen: bool) -> Output:
    """Sync GitHub repositories and act on new comments.

    Each new or edited comment on a tracked pull request becomes one event. Then operator commands are applied, pending
    replies are sent and the configured handler runs for every ready event. Without changes a poll sends four
    conditional requests per repository, or three with mirror = "followed". Exits with 7 if something could not be
    read; the rest is stored.
    """
    return _poll_forge(invocation, "github", repo, **chosen)


@lore_command("gitlab", example="lore poll gitlab --repo group/project", answer=(PolledRepos, ReposPlan))
@click.option("--repo", metavar="GROUP/PROJECT", help="Only this configured project (path or unambiguous ending).")
@_poll_options
def gitlab_command(invocation: Invocation, /, repo: str | None, **chosen: bool) -> Output:
    """Sync GitLab projects and act on new notes.

    Mirrors the projects like `lore sync`. Each new or edited note on a tracked merge request becomes one event. Then
    operator commands are applied, pending replies are sent and the configured handler runs for every ready event. Exits
    with 7 if something could not be read; the rest is stored.
    """
    return _poll_forge(invocation, "gitlab", repo, **chosen)


def _poll_forge(
    invocation: Invocation, kind: str, repo: str | None, *, full: bool, no_handler: bool, force: bool, dry_run: bool
) -> Output:
    invocation, request = invocation, FeedbackPollRequest(repo, full, force, not no_handler, kind)
    if dry_run:
        plan = plan_repositories(invocation.app(), request)
        return Output(plan, repos_plan_lines(plan))
    with progress(invocation) as on_progress:
        found, error = poll_repositories(invocation.logged_app(), request, on_progress)
    lines = repos_lines(found)
    return Output(found, lines[-1:] if invocation.choices.quiet else lines, error)


def repos_plan_lines(plan: ReposPlan) -> list[str]:
    """Return which repositories a poll would read, as text."""
    lines = ["Dry run. A poll would read:"]
    for one in plan.repos:
        how = "only what changed" if one.incremental else "every thread from the beginning"
        after = f", then run {one.handler[0]}" if one.handler else ""
        lines.append(f"  {one.source} ({one.base_url}) {one.repo}: read {how}, fetch {one.fetch}{after}")
    return lines


def repos_lines(found: PolledRepos) -> list[str]:
    """Return the result of a poll of repositories as text."""
    lines = [line for repo in found.repos for line in _repo_lines(repo)]
    lines += _effect_lines(found)
    return [*lines, f"Run {found.run_id}: {plural(found.requests, 'request')} in {found.seconds:.1f} s"]


def _repo_lines(found: PolledRepo) -> list[str]:
    if found.error is not None:
        return [f"{found.repo}: failed: {found.error.message}"]
    parts = [plural(found.effects.events, "new event")]
    counts = [(getattr(found.effects, name), word) for name, word in _WORDS.items()]
    parts += [plural(count, word) for count, word in counts if count]
    if not found.mode:
        parts = ["nothing tracked (add a pull request with `lore feedback track`)"]
    lines = [f"{found.repo}: {', '.join(parts)}"]
    lines += [f"  {ignored.text}" for ignored in found.ignored]
    lines += [f"  {step}" for step in found.moved]
    lines += [f"  {number}: tracking started by rule" for number in found.tracked]
    if found.unfinished:
        lines.append(f"  {plural(found.unfinished, 'list')} not fully read yet; the next poll continues")
    return lines + [f"  {failure.where} could not be read: {failure.message}" for failure in found.failures]


_WORDS = {
    "commands": "command",
    "followups": "comment on a source issue",
    "planned": "planned reply",
    "tokens": "confirmed reply",
}


def _effect_lines(found: PolledRepos) -> list[str]:
    lines = [f"  {one.thread} {one.command} by {one.author}: {one.status}" for one in found.commands]
    for sent in found.sent:
        why = f" ({one_line(sent.last_error)})" if sent.last_error and sent.status not in _FINISHED else ""
        lines.append(f"  reply {sent.id} to {sent.thread}: {sent.status}{why}")
    for event in found.handled:
        failed = f"failed: {one_line(event.last_error or '')}"
        told = "done" if event.processed_at is not None else failed
        lines.append(shorten(f"  event {event.id} of {event.thread}: {told}", _WIDTH))
    return lines + [f"  {trouble.where}: {trouble.message}" for trouble in found.troubles]


@lore_command(
    "bluesky",
    example="lore poll bluesky --account alice.bsky.social",
    answer=(PolledAccounts, AccountsPlan),
)
@click.option(
    "--account", metavar="NAME", multiple=True, help="Only this account, due or not: handle or DID (repeatable)."
)
@click.option("--all", "everyone", is_flag=True, help="All accounts that are not paused, due or not.")
@click.option("--full", is_flag=True, help="Read each account again from the beginning.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.option("--no-docs", is_flag=True, help="Do not update search documents; a later run will.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=120.0,
    show_default=True,
    help="Time limit per account; the next poll continues there.",
)
@click.option("--dry-run", is_flag=True, help="Print which accounts would be polled, without lock or network.")
def bluesky_command(invocation: Invocation, /, **wanted: Any) -> Output:
    """Poll Bluesky accounts for new posts.

    Polls the accounts that are due. A new account is read back bluesky.initial_lookback_hours; later polls continue
    where the last one stopped. Quiet accounts are polled less often, but at least every bluesky.max_staleness_minutes.
    An unavailable account keeps its position and is retried later. Exits with 7 if some accounts could not be read.
    """
    request = AccountsPoll(
        accounts=wanted["account"],
        everyone=wanted["everyone"],
        full=wanted["full"],
        force=wanted["force"],
        documents=not wanted["no_docs"],
        account_seconds=wanted["timeout"],
    )
    if wanted["dry_run"]:
        plan = plan_followed(invocation.app(), request)
        return Output(plan, accounts_plan_lines(plan))
    with progress(invocation) as on_progress:
        found, error = poll_followed(invocation.logged_app(), request, on_progress)
    if not found.accounts and not follows_accounts(invocation.app()):
        return Output(found, ["No accounts yet. Add one with `lore accounts add`."], error)
    return Output(found, accounts_lines(found), error)


def accounts_plan_lines(plan: AccountsPlan) -> list[str]:
    """Return which accounts a poll would read, as text."""
    lines = [f"Dry run. A poll would read {plural(plan.accounts, 'account')}."]
    return lines + [f"  {one_line(one.handle)} ({one.state})" for one in plan.chosen]


def accounts_lines(found: PolledAccounts) -> list[str]:
    """Return the result of a poll of accounts as text."""
    lines = [f"run {run_id}: marked as crashed, its process is gone" for run_id in found.crashed_runs_closed]
    lines += [one_line(line) for account in found.told if (line := _account_line(account)) is not None]
    lines += [
        f"{one_line(one.renamed_from)} was renamed to {one_line(one.handle)}" for one in found.told if one.renamed_from
    ]
    lines += [f"[ERROR] {one_line(one.account)}: {one.error}" for one in found.unresolved]
    lines += [f"[ERROR] {outage.server}: {outage.error}" for outage in found.outages]
    if found.verified:
        corrected = sum(one.posts for one in found.verified)
        gone = sum(one.gone for one in found.verified)
        lines.append(
            f"Verified {plural(len(found.verified), 'account')}: {corrected:,} corrected, {gone:,} deleted remotely"
        )
    if found.documents is not None:
        lines.append(f"Documents: {documents_line(found.documents)}")
    lines.append(
        f"{plural(found.accounts, 'account')}, {found.active:,} active, {plural(found.posts, 'post')}, "
        f"{plural(found.urls, 'URL')}, {plural(found.pages, 'page')}, {plural(found.requests, 'request')} "
        f"in {found.seconds:.1f} s"
    )
    return lines


def _account_line(account: PolledAccount) -> str | None:
    """Return the line of an account; None if it was read before and has nothing new."""
    if account.unavailable is not None:
        return f"[SKIP] {account.handle}: Account unavailable (invalid/deleted/private): {account.unavailable}"
    if account.error is not None:
        return f"[ERROR] {account.handle}: {account.error.message}"
    if not account.initial and not account.posts:
        return None
    word = "INITIAL" if account.initial else "POLL"
    return f"[{word}] {account.handle}: {account.posts} posts, {account.urls} URLs across {account.pages} pages"


poll_command = lore_group("poll", "Poll GitHub, GitLab and Bluesky for updates.", example="lore poll github")


poll_command.add_command(bluesky_command)
poll_command.add_command(github_command)
poll_command.add_command(gitlab_command)


stream_command = lore_group("stream", "Stream new Bluesky posts.", example="lore stream bluesky")


@stream_command.command("bluesky", example="lore stream bluesky --for 600", answer=StreamSummary)
@duration_option("interrupted")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.option("--no-docs", is_flag=True, help="Do not update search documents; a later run will.")
def stream_bluesky_command(invocation: Invocation, seconds: float | None, force: bool, no_docs: bool) -> Output:  # noqa: FBT001
    """Stream new Bluesky posts of followed accounts.

    Stores posts, reposts, edits and deletions as they happen. An interrupted stream continues where it stopped. If the
    server can no longer replay what was missed, the accounts become due for `lore poll bluesky`. Polls may run at the
    same time.
    """
    app = invocation.logged_app()
    with progress(invocation) as on_progress:
        found, interrupted = stream_posts(app, seconds, on_progress, force=force, documents=not no_docs)
    return Output(found, _stream_lines(found), interrupted)


def _stream_lines(report: StreamSummary) -> list[str]:
    changed = f"{report.edited:,} edited, {report.deleted:,} deleted"
    lines = [
        f"{plural(report.posts, 'post')}, {changed}, {plural(report.urls, 'URL')}; {report.replayed:,} already stored"
    ]
    if report.handed_over:
        lines.append(f"{plural(report.handed_over, 'account')} left to the next poll: the stream had a gap")
    if report.unreadable:
        lines.append(f"{plural(report.unreadable, 'post')} in quarantine; the next polls fetch them again")
    lines.append(
        f"{plural(report.events, 'event')} of {plural(report.accounts, 'account')} over "
        f"{plural(report.connections, 'connection')} in {report.seconds:.1f} s"
    )
    return lines
