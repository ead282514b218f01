"""`lore stream`: streams new Bluesky posts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import LoreCommand, LoreGroup, face_of, global_options
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer, plural

if TYPE_CHECKING:
    from tidelore.sync.account_stream import StreamReport


@click.group(
    "stream",
    cls=LoreGroup,
    help="Stream new Bluesky posts.",
    no_args_is_help=True,
    params=global_options(),
    example="lore stream bluesky",
)
def command() -> None:
    pass


@command.command("bluesky", cls=LoreCommand, example="lore stream bluesky --for 600")
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
def bluesky_command(ctx: click.Context, seconds: float | None, force: bool, no_docs: bool) -> Answer:  # noqa: FBT001
    """Stream new Bluesky posts of followed accounts.

    Stores posts, reposts, edits and deletions as they happen. An interrupted stream continues where it stopped. If the
    server can no longer replay what was missed, the accounts become due for `lore poll bluesky`. Polls may run at the
    same time.
    """
    from tidelore.app.bluesky import stream_accounts
    from tidelore.app.wiring import run_until_signalled
    from tidelore.core.errors import Cancelled
    from tidelore.sync.account_stream import StreamReport, StreamRequest

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
