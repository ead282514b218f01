"""`lore scrub`: verifies stored items against the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer
from tidelore.cli.runs import report_data, scrub_lines

if TYPE_CHECKING:
    from tidelore.app.wiring import App
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.report import RunReport

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
    One request verifies up to 100 items. `lore sync`, `lore ingest` and `lore poll` spend a small share of their
    requests on the same check. What the GitLab projects leave of the budget is spent on the Bluesky accounts.
    """
    from tidelore.app.wiring import run_until_signalled
    from tidelore.sources.ports import RESOURCES
    from tidelore.sync.mirror import MirrorRequest
    from tidelore.sync.report import run_verdict

    face = face_of(ctx)
    app = face.app()
    set_up_logging(app.config, verbose=face.choices.verbose, quiet=face.choices.quiet or face.choices.robot)
    spend = EVERYTHING if everything else budget
    request = MirrorRequest(RESOURCES, project, force=force, walk=False, scrub_budget=spend)
    report = run_until_signalled(_scrub(app, request, spend))
    face.open_store().close()  # so that the answer says how fresh the copy is now
    return Answer(report_data(report), scrub_lines(report), run_verdict(report.scrubbed))


async def _scrub(app: App, request: MirrorRequest, budget: int) -> RunReport:
    """Verify the GitLab projects, then the Bluesky accounts; a user may have either."""
    from tidelore.app.bluesky import scrub_accounts
    from tidelore.app.mirroring import mirror

    projects = any(host.projects or host.groups for host in app.config.gitlab)
    report = None
    if projects or request.project is not None:
        report = await mirror(app, request, "lore scrub")
    left = budget - (report.requests if report is not None else 0)
    accounts = await scrub_accounts(app, left, force=request.force) if request.project is None and left > 0 else None
    if report is None:
        # Without projects and without accounts the error says what to configure.
        return accounts or await mirror(app, request, "lore scrub")
    if accounts is not None:
        report.scrubbed += accounts.scrubbed
        report.requests += accounts.requests
        report.seconds += accounts.seconds
    return report
