"""`lore service`: everything that is configured, looked after in one process until it is told to stop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer, plural
from tidelore.cli.status import job_data

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.app.service.serving import ServiceReport
    from tidelore.errors import TideloreError


@click.command("service", cls=LoreCommand)
@click.option("--once", is_flag=True, help="Give every job one turn, then end; streams are left out.")
@click.option(
    "--for",
    "seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Stop after so long; left out, it goes on until it is told to stop.",
)
@click.option("--force", is_flag=True, help="Take the place of another service that holds the lease.")
@click.pass_context
def command(ctx: click.Context, once: bool, seconds: float | None, force: bool) -> Answer:  # noqa: FBT001
    """Look after everything that is configured: syncs, polls, streams, answers, handlers, documents, vectors.

    Each has its own schedule. One source that fails is left alone for growing pauses, and the others go on. SIGTERM and
    SIGINT end it in order, with exit code 0; SIGHUP, or a change of the file, reads the configuration again. There is
    one service for a database; `lore status` shows how it stands.
    """
    from tidelore.app.service.serving import ServeRequest, run_service
    from tidelore.config import config_path

    face = face_of(ctx)
    choices = face.choices
    app = face.app()

    def log_as_asked(new: App) -> None:
        set_up_logging(new.config, verbose=choices.verbose, quiet=choices.quiet or choices.robot, service=True)

    log_as_asked(app)
    report = run_service(
        app,
        ServeRequest(once, seconds, force),
        load=face.app,
        config_file=config_path(choices.config, os.environ),
        on_settings=log_as_asked,
    )
    return Answer(_data(report), _lines(report), _verdict(report) if once else None)


def _data(report: ServiceReport) -> dict[str, Any]:
    return {
        "seconds": round(report.seconds, 3),
        "ended": report.ended,
        "jobs": [job_data(job) for job in report.jobs],
    }


def _lines(report: ServiceReport) -> list[str]:
    lines = [f"{name}: {error.message}" for name, error in sorted(report.errors.items())]
    jobs = plural(len(report.jobs), "job")
    return [*lines, f"{jobs}, {plural(report.ended, 'turn')} in {report.seconds:.1f} s"]


def _verdict(report: ServiceReport) -> TideloreError | None:
    """Return what a single round ends with: the one error there was, or that there were several."""
    from tidelore.errors import PartialSuccess

    errors = list(report.errors.values())
    if not errors:
        return None
    if len(errors) == 1 and len(report.jobs) == 1:
        return errors[0]
    return PartialSuccess(
        f"{len(errors)} of {len(report.jobs)} jobs did not end well; the others did",
        fix=errors[0].fix or "`lore status` shows what is wrong with each",
        failed=[{"job": name, "code": error.code, "message": error.message} for name, error in report.errors.items()],
    )
