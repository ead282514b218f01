"""`lore ingest`: fetches issues or merge requests of the configured projects."""

from __future__ import annotations

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.progress import progress
from tidelore.cli.render import Answer
from tidelore.cli.runs import report_data, report_lines


@click.command("ingest", cls=LoreCommand, example="lore ingest --type issues")
@click.option(
    "--type",
    "resource",
    required=True,
    metavar="TYPE",
    help="What to fetch: issues or merge_requests.",
)
@click.option("-p", "--project", metavar="PATH", help="Only this configured project (path or unambiguous ending).")
@click.option("--full", is_flag=True, help="Read everything again from the beginning.")
@click.option("--no-status", is_flag=True, help="Skip issue statuses; a later run fetches them.")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def command(
    ctx: click.Context,
    resource: str,
    project: str | None,
    full: bool,  # noqa: FBT001
    no_status: bool,  # noqa: FBT001
    force: bool,  # noqa: FBT001
) -> Answer:
    """Fetch issues or merge requests of the configured GitLab projects.

    Includes discussions, notes and resource events, the status of issues, and the closing issues and changed files of
    merge requests. Reads only changes since the last run. Unlike `lore sync`, updates no documents and no embeddings.
    """
    from tidelore.app.mirroring import mirror
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.report import run_verdict

    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    request = MirrorRequest((resource,), project, full=full, force=force, statuses=not no_status)
    with progress(face) as on_progress:
        report = run_until_signalled(mirror(app, request, f"lore ingest --type {resource}", on_progress))
    face.open_store().close()  # so that the answer says how fresh the copy is now
    return Answer(report_data(report), report_lines(report, resource), run_verdict(report.scopes, report.scrubbed))
