"""`lore poll github`: polls tracked pull requests for comments and processes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, plural
from tidelore.core.text import one_line, shorten

if TYPE_CHECKING:
    from tidelore.app.feedback_polling import FeedbackPollRequest, PollOutcome
    from tidelore.app.wiring import App
    from tidelore.core.config import Config
    from tidelore.feedback.actions import ActionReport
    from tidelore.feedback.report import RepoReport
    from tidelore.store.work.events import EventRow

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
def command(ctx: click.Context, repo: str | None, full: bool, no_handler: bool, force: bool, dry_run: bool) -> Answer:  # noqa: FBT001
    """Poll tracked pull requests for new comments.

    Each new or edited comment becomes one event. Then operator commands are applied, pending replies are sent and the
    configured handler runs for every ready event. A poll without changes costs three requests per repository. Exits
    with 7 if something could not be read; the rest is stored.
    """
    from tidelore.app.feedback_polling import FeedbackPollRequest

    face = face_of(ctx)
    app = face.app()
    request = FeedbackPollRequest(repo, full=full, force=force, handler=not no_handler)
    if dry_run:
        return plan(app.config, request)
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    return run(face, app, request)


def run(face: Face, app: App, request: FeedbackPollRequest) -> Answer:
    """Poll and report; `lore sync` does the same where GitHub is the source."""
    from tidelore.app.feedback_polling import poll_github
    from tidelore.app.wiring import run_until_signalled
    from tidelore.feedback.actions import overall_error
    from tidelore.feedback.report import poll_error

    with progress(face) as on_progress:
        from tidelore.core.progress import Progress

        def on_repo(found: RepoReport) -> None:
            told = "failed" if found.error is not None else plural(found.effects["events"], "new event")
            on_progress(Progress(found.repo, "comments", 1, 1, told))

        def on_event(event: EventRow) -> None:
            told = "done" if event.processed_at is not None else "failed"
            on_progress(Progress(event.repo_full_name, "handler", 0, None, f"event {event.id} {told}"))

        outcome = run_until_signalled(poll_github(app, request, on_repo, on_event))
    return Answer(_data(outcome), _lines(face, outcome), overall_error(poll_error(outcome.report), outcome.actions))


def plan(config: Config, request: FeedbackPollRequest) -> Answer:
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
    return Answer({"dry_run": True, "repos": repos}, lines)


def _data(outcome: PollOutcome) -> dict[str, Any]:
    from tidelore.cli.feedback_data import answer_data, command_data, error_data, event_data

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
    from tidelore.cli.feedback_data import error_data

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


def _lines(face: Face, outcome: PollOutcome) -> list[str]:
    lines = [line for found in outcome.report.repos for line in _repo_lines(found)]
    lines += _deed_lines(outcome.actions)
    told = f"{plural(outcome.requests, 'request')} in {outcome.seconds:.1f} s"
    lines.append(f"Run {outcome.report.run_id}: {told}")
    return lines if not face.choices.quiet else lines[-1:]


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


def _deed_lines(actions: ActionReport) -> list[str]:
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
