"""`lore scrub`: verifies stored items against the server."""

from __future__ import annotations

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer
from tidelore.cli.runs import report_data, scrub_lines

EVERYTHING = 1_000_000_000


@click.command("scrub", cls=LoreCommand, example="lore scrub --budget 50")
@click.option("--all", "everything", is_flag=True, help="Verify every item and its children once.")
@click.option("--budget", type=click.IntRange(1), default=10, show_default=True, help="Number of requests to spend.")
@click.option("-p", "--project", metavar="PATH", help="Only this configured project (path or unambiguous ending).")
@click.option("--force", is_flag=True, help="Take over the lock from another process.")
@click.pass_context
def command(ctx: click.Context, everything: bool, budget: int, project: str | None, force: bool) -> Answer:  # noqa: FBT001
    """Verify stored items against the server and correct them.

    Starts with the least recently verified items. Finds deletions and changes that the incremental lists do not show.
    One request verifies up to 100 items. `lore sync` and `lore ingest` spend a small share of their requests on the
    same check.
    """
    from tidelore.app import mirror, run_until_signalled
    from tidelore.pipeline.mirror import MirrorRequest
    from tidelore.pipeline.report import verdict
    from tidelore.sources.registry import RESOURCES

    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    spend = EVERYTHING if everything else budget
    request = MirrorRequest(RESOURCES, project, force=force, walk=False, scrub_budget=spend)
    report = run_until_signalled(mirror(app, request, "lore scrub"))
    face.open_store().close()  # so that the answer says how fresh the copy is now
    return Answer(report_data(report), scrub_lines(report), verdict(report.scrubbed))
