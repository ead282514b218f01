"""Fetch updates from GitHub and Bluesky: `lore poll`, `lore stream`.

Each function that polls is also called by `lore sync`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.command import Invocation, LoreCommand, LoreGroup, global_options, invocation_of
from tidelore.cli.output.logs import set_up_logging
from tidelore.cli.output.render import Output, instant, plural
from tidelore.cli.output.runs import documents_data, documents_line, progress
from tidelore.core.text import one_line, shorten

if TYPE_CHECKING:
    from tidelore.app.feedback_polling import FeedbackPollRequest, PollOutcome
    from tidelore.app.wiring import App
    from tidelore.core.config import Config
    from tidelore.feedback.actions import ActionReport
    from tidelore.feedback.report import RepoReport
    from tidelore.store.work.events import EventRow
    from tidelore.sync.account_poll import PollRequest as AccountRequest
    from tidelore.sync.account_stream import StreamReport
    from tidelore.sync.report import AccountReport, PollReport


EFFECTS = ("events", "deduped", "tokens", "commands", "followups", "planned")
_WIDTH = 100
_FINISHED = frozenset({"observed", "posted"})


@click.command("github", cls=LoreCommand, example="lore poll github --repo owner/repo")
@click.option("--repo", metavar="OWNER/REPO", help="Only this configured repository (name or unambiguous ending).")
@click.option("--full", is_flag=True, help="Read every tracked thread from the beginning.")
@click.option("--no-handler", is_flag=True, help="Do not run the handler; leave events for `lore feedback next`.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, without lock, database or network.")
@click.pass_context
def github_command(
    ctx: click.Context,
    repo: str | None,
    full: bool,  # noqa: FBT001
    no_handler: bool,  # noqa: FBT001
    force: bool,  # noqa: FBT001
    dry_run: bool,  # noqa: FBT001
) -> Output:
    """Poll tracked pull requests for new comments.

    Each new or edited comment becomes one event. Then operator commands are applied, pending replies are sent and the
    configured handler runs for every ready event. A poll without changes costs three requests per repository. Exits
    with 7 if something could not be read; the rest is stored.
    """
    from tidelore.app.feedback_polling import FeedbackPollRequest

    invocation = invocation_of(ctx)
    app = invocation.app()
    request = FeedbackPollRequest(repo, full=full, force=force, handler=not no_handler)
    if dry_run:
        return plan_github(app.config, request)
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    return poll_repositories(invocation, app, request)


def poll_repositories(invocation: Invocation, app: App, request: FeedbackPollRequest) -> Output:
    """Poll GitHub and return the report; also used by `lore sync`."""
    from tidelore.app.feedback_polling import poll_github
    from tidelore.app.wiring import run_until_signalled
    from tidelore.feedback.actions import overall_error
    from tidelore.feedback.report import poll_error

    with progress(invocation) as on_progress:
        from tidelore.core.progress import Progress

        def on_repo(found: RepoReport) -> None:
            told = "failed" if found.error is not None else plural(found.effects["events"], "new event")
            on_progress(Progress(found.repo, "comments", 1, 1, told))

        def on_event(event: EventRow) -> None:
            told = "done" if event.processed_at is not None else "failed"
            on_progress(Progress(event.repo_full_name, "handler", 0, None, f"event {event.id} {told}"))

        outcome = run_until_signalled(poll_github(app, request, on_repo, on_event))
    return Output(
        _data(outcome), _lines(invocation, outcome), overall_error(poll_error(outcome.report), outcome.actions)
    )


def plan_github(config: Config, request: FeedbackPollRequest) -> Output:
    """Return which repositories a poll would read."""
    from tidelore.feedback.repositories import choose_repos

    places = choose_repos(config, request.repo)
    repos = [
        {
            "source": place.host.name,
            "base_url": place.host.base_url,
            "repo": place.name,
            "fetch": place.settings.fetch,
            "incremental": place.settings.incremental and not request.full,
            "handler": list(place.settings.handler) if request.handler else [],
        }
        for place in places
    ]
    lines = ["Dry run. A poll would read:"]
    for told in repos:
        how = "only what changed" if told["incremental"] else "every thread from the beginning"
        handler = told["handler"]
        after = f", then run {handler[0]}" if isinstance(handler, list) and handler else ""
        lines.append(
            f"  {told['source']} ({told['base_url']}) {told['repo']}: read {how}, fetch {told['fetch']}{after}"
        )
    return Output({"dry_run": True, "repos": repos}, lines)


def _data(outcome: PollOutcome) -> dict[str, Any]:
    from tidelore.cli.output.feedback import answer_data, command_data, error_data, event_data

    actions = outcome.actions
    return {
        "run_id": outcome.report.run_id,
        "requests": outcome.requests,
        "seconds": round(outcome.seconds, 3),
        "repos": [_repo(found) for found in outcome.report.repos],
        "commands": [command_data(row) for row in actions.commands],
        "sent": [answer_data(row) for row in actions.sent],
        "handled": [event_data(row) for row in actions.handled],
        "troubles": [{"where": trouble.where, **(error_data(trouble.error) or {})} for trouble in actions.troubles],
    }


def _repo(found: RepoReport) -> dict[str, Any]:
    from tidelore.cli.output.feedback import error_data

    return {
        "source": found.source,
        "repo": found.repo,
        "mode": found.mode or None,
        "requests": found.requests,
        "unfinished": found.unfinished,
        "tracked": found.tracked,
        "moved": found.moved,
        "effects": {name: found.effects[name] for name in EFFECTS},
        "ignored": [
            {"reason": reason, "comments": sum(authors.values()), "accounts": len(authors)}
            for reason, authors in found.ignored.items()
        ],
        "surfaces": [
            {"surface": name, **{field: getattr(tally, field) for field in tally.__struct_fields__}}
            for name, tally in found.surfaces.items()
        ],
        "failures": [{"where": where, **(error_data(error) or {})} for where, error in found.failures.items()],
        "error": error_data(found.error),
    }


def _lines(invocation: Invocation, outcome: PollOutcome) -> list[str]:
    lines = [line for found in outcome.report.repos for line in _repo_lines(found)]
    lines += _effect_lines(outcome.actions)
    told = f"{plural(outcome.requests, 'request')} in {outcome.seconds:.1f} s"
    lines.append(f"Run {outcome.report.run_id}: {told}")
    return lines if not invocation.choices.quiet else lines[-1:]


def _repo_lines(found: RepoReport) -> list[str]:
    if found.error is not None:
        return [f"{found.repo}: failed: {found.error.message}"]
    from tidelore.feedback.events import describe_ignored

    counts = found.effects
    parts = [plural(counts["events"], "new event")]
    parts += [plural(counts[name], word) for name, word in _WORDS.items() if counts[name]]
    if not found.mode:
        parts = ["nothing tracked (add a pull request with `lore feedback track`)"]
    lines = [f"{found.repo}: {', '.join(parts)}"]
    lines += [
        f"  {describe_ignored(reason, sum(authors.values()), len(authors))}"
        for reason, authors in found.ignored.items()
    ]
    lines += [f"  {step}" for step in found.moved]
    lines += [f"  #{number}: tracking started by rule" for number in found.tracked]
    if found.unfinished:
        lines.append(f"  {plural(found.unfinished, 'thread list')} not fully read yet; the next poll continues")
    return lines + [f"  {where} could not be read: {error.message}" for where, error in found.failures.items()]


_WORDS = {
    "commands": "command",
    "followups": "comment on a source issue",
    "planned": "planned reply",
    "tokens": "confirmed reply",
}


def _effect_lines(actions: ActionReport) -> list[str]:
    lines = [
        f"  {row.repo_full_name}#{row.issue_number} {row.command} by {row.author}: {row.status}"
        for row in actions.commands
    ]
    for row in actions.sent:
        why = f" ({one_line(row.last_error)})" if row.last_error and row.status not in _FINISHED else ""
        lines.append(f"  reply {row.id} to {row.repo_full_name}#{row.scope_number}: {row.status}{why}")
    for event in actions.handled:
        failed = f"failed: {one_line(event.last_error or '')}"
        told = "done" if event.processed_at is not None else failed
        lines.append(shorten(f"  event {event.id} of {event.repo_full_name}#{event.thread_number}: {told}", _WIDTH))
    return lines + [f"  {trouble.where}: {trouble.error.message}" for trouble in actions.troubles]


_COUNTS = ("accounts", "active", "posts", "urls", "pages", "unavailable", "failed", "left", "requests")


@click.command("bluesky", cls=LoreCommand, example="lore poll bluesky --account alice.bsky.social")
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
@click.pass_context
def bluesky_command(ctx: click.Context, /, **wanted: Any) -> Output:
    """Poll Bluesky accounts for new posts.

    Polls the accounts that are due. A new account is read back bluesky.initial_lookback_hours; later polls continue
    where the last one stopped. Quiet accounts are polled less often, but at least every bluesky.max_staleness_minutes.
    An unavailable account keeps its position and is retried later. Exits with 7 if some accounts could not be read.
    """
    from tidelore.sync.account_poll import PollRequest as AccountRequest

    invocation = invocation_of(ctx)
    app = invocation.app()
    request = AccountRequest(
        wanted["account"],
        everyone=wanted["everyone"],
        full=wanted["full"],
        force=wanted["force"],
        documents=not wanted["no_docs"],
        account_seconds=wanted["timeout"],
    )
    if wanted["dry_run"]:
        return plan_bluesky(app, request)
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    return poll_followed(invocation, app, request)


def poll_followed(invocation: Invocation, app: App, request: AccountRequest) -> Output:
    """Poll Bluesky and return the report; also used by `lore sync`."""
    from tidelore.app.accounts import poll_accounts
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sync.report import poll_verdict

    with progress(invocation) as on_progress:
        report = run_until_signalled(poll_accounts(app, request, on_progress))
    return Output(poll_data(report), poll_lines(report), poll_verdict(report))


def plan_bluesky(app: App, request: AccountRequest) -> Output:
    """Return which accounts a poll would read."""
    from tidelore.store.work.session import Workshop
    from tidelore.sync.account_poll import chosen_accounts

    database = app.open_store()
    try:
        rows = chosen_accounts(Workshop(database, app.config, app.clock, app.seam, "lore poll bluesky"), request)
    finally:
        database.close()
    chosen = [
        {
            "did": row.did,
            "handle": row.handle,
            "state": row.state,
            "mode": row.mode or app.config.bluesky.mode,
            "next_poll_at": instant(row.next_poll_at),
        }
        for row in rows
    ]
    lines = [f"Dry run. A poll would read {plural(len(chosen), 'account')}."]
    lines += [f"  {one_line(row.handle)} ({row.state})" for row in rows]
    return Output({"dry_run": True, "accounts": len(chosen), "chosen": chosen}, lines)


def poll_data(report: PollReport) -> dict[str, Any]:
    """Return the report of a poll as data."""
    return {
        "run_id": report.run_id,
        **{name: getattr(report, name) for name in _COUNTS},
        "seconds": round(report.seconds, 3),
        "crashed_runs_closed": report.crashed_runs,
        "lease": report.taken_over,
        "told": [_account(account) for account in report.told],
        "verified": [_account(account) for account in report.verified],
        "unresolved": [{"account": name, "error": error.message} for name, error in report.unresolved.items()],
        "outages": [{"server": name, "error": error.message} for name, error in report.outages.items()],
        "documents": documents_data(report.documents),
    }


def poll_lines(report: PollReport) -> list[str]:
    """Return the report of a poll as text."""
    from tidelore.sync.report import account_line

    lines = [f"run {run_id}: marked as crashed, its process is gone" for run_id in report.crashed_runs]
    lines += [one_line(line) for account in report.told if (line := account_line(account)) is not None]
    lines += [
        f"{one_line(one.renamed_from)} was renamed to {one_line(one.handle)}" for one in report.told if one.renamed_from
    ]
    lines += [f"[ERROR] {one_line(name)}: {error.message}" for name, error in report.unresolved.items()]
    lines += [f"[ERROR] {server}: {error.message}" for server, error in report.outages.items()]
    if report.verified:
        corrected = sum(one.tally.created + one.tally.changed for one in report.verified)
        gone = sum(one.tally.gone for one in report.verified)
        lines.append(
            f"Verified {plural(len(report.verified), 'account')}: {corrected:,} corrected, {gone:,} deleted remotely"
        )
    if report.documents is not None:
        lines.append(f"Documents: {documents_line(report.documents)}")
    lines.append(
        f"{plural(report.accounts, 'account')}, {report.active:,} active, {plural(report.posts, 'post')}, "
        f"{plural(report.urls, 'URL')}, {plural(report.pages, 'page')}, {plural(report.requests, 'request')} "
        f"in {report.seconds:.1f} s"
    )
    return lines


def _account(account: AccountReport) -> dict[str, Any]:
    error = account.error
    return {
        "did": account.did,
        "handle": account.handle,
        "mode": account.mode,
        "initial": account.initial,
        "posts": account.posts,
        "edited": account.tally.changed,
        "urls": account.links,
        "pages": account.tally.pages,
        "gone": account.tally.gone,
        "quarantined": account.tally.quarantined,
        "behind": account.behind,
        "unavailable": account.refused,
        "renamed_from": account.renamed_from,
        "next_poll_at": instant(account.next_poll_at),
        "error": error and {"code": error.code, "message": error.message, "retryable": error.retryable},
    }


@click.group(
    "poll",
    cls=LoreGroup,
    help="Poll GitHub and Bluesky for updates.",
    no_args_is_help=True,
    params=global_options(),
    example="lore poll github",
)
def poll_command() -> None:
    pass


poll_command.add_command(bluesky_command)
poll_command.add_command(github_command)


@click.group(
    "stream",
    cls=LoreGroup,
    help="Stream new Bluesky posts.",
    no_args_is_help=True,
    params=global_options(),
    example="lore stream bluesky",
)
def stream_command() -> None:
    pass


@stream_command.command("bluesky", cls=LoreCommand, example="lore stream bluesky --for 600")
@click.option(
    "--for",
    "seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Stop after this time; default: run until interrupted.",
)
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.option("--no-docs", is_flag=True, help="Do not update search documents; a later run will.")
@click.pass_context
def stream_bluesky_command(ctx: click.Context, seconds: float | None, force: bool, no_docs: bool) -> Output:  # noqa: FBT001
    """Stream new Bluesky posts of followed accounts.

    Stores posts, reposts, edits and deletions as they happen. An interrupted stream continues where it stopped. If the
    server can no longer replay what was missed, the accounts become due for `lore poll bluesky`. Polls may run at the
    same time.
    """
    from tidelore.app.accounts import stream_accounts
    from tidelore.app.wiring import run_until_signalled
    from tidelore.core.errors import Cancelled
    from tidelore.sync.account_stream import StreamReport, StreamRequest

    invocation = invocation_of(ctx)
    app = invocation.app()
    set_up_logging(
        app.config, verbose=invocation.choices.verbose, quiet=invocation.choices.quiet or invocation.choices.robot
    )
    report = StreamReport()
    request = StreamRequest(seconds, force, documents=not no_docs)
    interrupted: Cancelled | None = None
    with progress(invocation) as on_progress:
        try:
            run_until_signalled(stream_accounts(app, request, report, on_progress))
        except Cancelled as error:
            interrupted = error
    return Output(stream_data(report), stream_lines(report), interrupted)


def stream_data(report: StreamReport) -> dict[str, Any]:
    """Return the report of a stream as data."""
    data = {name: getattr(report, name) for name in report.__struct_fields__}
    return data | {"seconds": round(report.seconds, 3)}


def stream_lines(report: StreamReport) -> list[str]:
    """Return the report of a stream as text."""
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
