"""`lore poll bluesky`: polls followed accounts for new posts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, instant, plural
from tidelore.cli.stages import documents_data, documents_line
from tidelore.core.text import one_line

if TYPE_CHECKING:
    from tidelore.app.wiring import App
    from tidelore.sync.account_poll import PollRequest
    from tidelore.sync.report import AccountReport, PollReport

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
def command(ctx: click.Context, /, **wanted: Any) -> Answer:
    """Poll Bluesky accounts for new posts.

    Polls the accounts that are due. A new account is read back bluesky.initial_lookback_hours; later polls continue
    where the last one stopped. Quiet accounts are polled less often, but at least every bluesky.max_staleness_minutes.
    An unavailable account keeps its position and is retried later. Exits with 7 if some accounts could not be read.
    """
    from tidelore.sync.account_poll import PollRequest

    face = face_of(ctx)
    app = face.app()
    request = PollRequest(
        wanted["account"],
        everyone=wanted["everyone"],
        full=wanted["full"],
        force=wanted["force"],
        documents=not wanted["no_docs"],
        account_seconds=wanted["timeout"],
    )
    if wanted["dry_run"]:
        return plan(app, request)
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    return run(face, app, request)


def run(face: Face, app: App, request: PollRequest) -> Answer:
    """Poll and report; `lore sync` does the same where Bluesky is the source."""
    from tidelore.app.bluesky import poll_accounts
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sync.report import poll_verdict

    with progress(face) as on_progress:
        report = run_until_signalled(poll_accounts(app, request, on_progress))
    return Answer(poll_data(report), poll_lines(report), poll_verdict(report))


def plan(app: App, request: PollRequest) -> Answer:
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
    return Answer({"dry_run": True, "accounts": len(chosen), "chosen": chosen}, lines)


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
