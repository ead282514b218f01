"""`lore ingest`: mirror the lists of the configured projects."""

from __future__ import annotations

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer
from tidelore.cli.runs import report_data, report_lines


@click.command("ingest", cls=LoreCommand)
@click.option(
    "--type",
    "resource",
    required=True,
    metavar="TYPE",
    help="What to mirror: issues or merge_requests.",
)
@click.option("-p", "--project", metavar="PATH", help="Only this configured project (a path, or an ending of one).")
@click.option("--full", is_flag=True, help="Forget the reading positions and read everything again, children too.")
@click.option("--no-status", is_flag=True, help="Do not ask for the status of issues; a later run without this does.")
@click.option("--force", is_flag=True, help="Take the lease over from another process that holds it.")
@click.pass_context
def command(
    ctx: click.Context,
    resource: str,
    project: str | None,
    full: bool,  # noqa: FBT001
    no_status: bool,  # noqa: FBT001
    force: bool,  # noqa: FBT001
) -> Answer:
    """Mirror issues or merge requests of the configured projects, with all that belongs to them.

    Discussions and notes, state, label and milestone events; of issues their status, where the server has one; of
    merge requests the issues they close and the files they change. Only what changed since the last run is read.
    A run that was interrupted goes on where it stopped; nothing is lost and nothing is stored twice. A small share
    of each run verifies what is stored.
    """
    from tidelore.app import mirror, run_until_signalled
    from tidelore.pipeline.mirror import MirrorRequest
    from tidelore.pipeline.report import verdict

    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    request = MirrorRequest((resource,), project, full=full, force=force, statuses=not no_status)
    with progress(face) as on_progress:
        report = run_until_signalled(mirror(app, request, f"lore ingest --type {resource}", on_progress))
    face.open_store().close()  # so that the answer says how fresh the copy is now
    return Answer(report_data(report), report_lines(report, resource), verdict(report.scopes))
