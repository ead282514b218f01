"""`lore stream`: be told what is new, instead of asking for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import LoreCommand, face_of, global_options
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, plural

if TYPE_CHECKING:
    from tidelore.pipeline.stream_accounts import StreamReport


@click.group("stream", help="Be told what is new: of accounts.", no_args_is_help=True, params=global_options())
def command() -> None:
    pass


@command.command("bluesky", cls=LoreCommand)
@click.option(
    "--for",
    "seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Stop after so long; left out, it goes on until interrupted.",
)
@click.option("--force", is_flag=True, help="Take the lease over from another process that holds it.")
@click.option("--no-docs", is_flag=True, help="Make no documents; what changed stays marked for later.")
@click.pass_context
def bluesky_command(ctx: click.Context, seconds: float | None, force: bool, no_docs: bool) -> Answer:  # noqa: FBT001
    """Follow the event stream of Bluesky for the accounts you follow: posts, edits and deletions as they happen.

    An interrupted stream goes on where it stopped. What the server cannot replay any more is left to `lore poll
    bluesky`, whose accounts are then due at once. Polls may run beside it.
    """
    from tidelore.app import run_until_signalled
    from tidelore.app.bluesky import stream_accounts
    from tidelore.errors import Cancelled
    from tidelore.pipeline.stream_accounts import StreamReport, StreamRequest

    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    report = StreamReport()
    request = StreamRequest(seconds, force, documents=not no_docs)
    interrupted: Cancelled | None = None
    with progress(face) as on_progress:
        try:
            run_until_signalled(stream_accounts(app, request, report, on_progress))
        except Cancelled as error:
            interrupted = error
    return Answer(stream_data(report), stream_lines(report), interrupted)


def stream_data(report: StreamReport) -> dict[str, Any]:
    """Return what a stream brought as data."""
    data = {name: getattr(report, name) for name in report.__struct_fields__}
    return data | {"seconds": round(report.seconds, 3)}


def stream_lines(report: StreamReport) -> list[str]:
    """Return what a stream brought in words."""
    changed = f"{report.edited:,} edited, {report.deleted:,} deleted"
    lines = [
        f"{plural(report.posts, 'post')}, {changed}, {plural(report.urls, 'URL')}; {report.replayed:,} already stored"
    ]
    if report.handed_over:
        lines.append(f"{plural(report.handed_over, 'account')} left to the next poll: the stream has a hole")
    if report.unreadable:
        lines.append(f"{plural(report.unreadable, 'post')} in quarantine; the next polls ask for them again")
    lines.append(
        f"{plural(report.events, 'event')} of {plural(report.accounts, 'account')} over "
        f"{plural(report.connections, 'connection')} in {report.seconds:.1f} s"
    )
    return lines
