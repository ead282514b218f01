"""`lore service`: runs all configured jobs until it is stopped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.logs import set_up_logging
from tidelore.cli.render import Answer, plural
from tidelore.cli.status import job_data

if TYPE_CHECKING:
    from tidelore.app.serving import ServiceReport
    from tidelore.app.wiring import App
    from tidelore.core.errors import TideloreError


@click.command("service", cls=LoreCommand, example="lore service --once")
@click.option("--once", is_flag=True, help="Run every job once, then exit; streams are skipped.")
@click.option(
    "--for",
    "seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Stop after this time; default: run until stopped.",
)
@click.option("--force", is_flag=True, help="Replace another running service.")
@click.pass_context
def command(ctx: click.Context, once: bool, seconds: float | None, force: bool) -> Answer:  # noqa: FBT001
    """Run scheduled syncs, polls, replies and handlers as a service.

    Each job has a separate schedule. A failing source backs off while the others continue. One service runs per
    database; `lore status` shows its state. SIGTERM and SIGINT stop it with exit code 0. SIGHUP or a changed
    configuration file reloads the settings. /metrics and /healthz are served on service.metrics_port.
    """
    from tidelore.app.serving import ServeRequest, run_service
    from tidelore.core.config import config_path

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
    return [*lines, f"{jobs}, {plural(report.ended, 'job run')} in {report.seconds:.1f} s"]


def _verdict(report: ServiceReport) -> TideloreError | None:
    """Return the error of `--once`: the only one, or a partial success."""
    from tidelore.core.errors import PartialSuccess

    errors = list(report.errors.values())
    if not errors:
        return None
    if len(errors) == 1 and len(report.jobs) == 1:
        return errors[0]
    return PartialSuccess(
        f"{len(errors)} of {len(report.jobs)} jobs failed",
        fix=errors[0].fix or "`lore status` shows the errors",
        failed=[{"job": name, "code": error.code, "message": error.message} for name, error in report.errors.items()],
    )
