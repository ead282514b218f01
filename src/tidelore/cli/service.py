"""Run and monitor the service: `lore service`, `lore console`, `lore top`.

With --robot, `lore console` and `lore top` print the overview once and start no service.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from tidelore.cli.command import Invocation, LoreCommand, invocation_of
from tidelore.cli.output.render import Output, instant, plural
from tidelore.cli.status import budget_data, job_data
from tidelore.core.errors import UserError
from tidelore.core.extras import require

if TYPE_CHECKING:
    from tidelore.app.serving import ServiceReport
    from tidelore.app.wiring import App
    from tidelore.core.errors import TideloreError
    from tidelore.service.panels import Dashboard, SourcePanel
    from tidelore.store.work.runs import RunRecord


def dashboard_output(invocation: Invocation) -> Output:
    """Return the overview as data, read from the database; no service is started."""
    from tidelore.service.panels import read_dashboard

    app = invocation.app()
    database = invocation.open_store()
    try:
        return Output(dashboard_data(read_dashboard(database, app.config, app.clock.now_ms())))
    finally:
        database.close()


def dashboard_data(glance: Dashboard) -> dict[str, Any]:
    """Return the overview as data."""
    row = glance.service.holder
    holder = None if row is None else row.holder
    served = row is not None and holder is not None
    return {
        "read_at": instant(glance.now_ms),
        "service": {
            "running": served,
            "host": holder.host if holder is not None else None,
            "pid": holder.pid if holder is not None else None,
            "command": row.command if row is not None else None,
            "since": instant(row.acquired_at) if row is not None else None,
        },
        "sources": [_source(source) for source in glance.sources],
        "running": [_run(run) for run in glance.runs],
        "requests_by_minute": [round(amount, 3) for amount in glance.requests],
        "items_by_minute": [round(amount, 3) for amount in glance.items],
        "waiting": {
            "events": glance.events,
            "answers": glance.answers,
            "blocked": glance.blocked,
            "documents": glance.documents,
            "quarantined": glance.quarantined,
        },
    }


def _source(source: SourcePanel) -> dict[str, Any]:
    names = ("name", "kind", "state", "lag_seconds", "bound_seconds", "fresh", "due", "scopes", "behind", "requests")
    return {name: getattr(source, name) for name in (*names, "error")} | budget_data(source.left)


def _run(run: RunRecord) -> dict[str, Any]:
    return {
        "id": run.id,
        "command": run.command,
        "phase": run.phase,
        "started_at": instant(run.started_at),
        "heartbeat_at": instant(run.heartbeat_at),
        "stored": run.issues_ingested + run.mrs_ingested,
        "requests": run.requests,
        "done": run.progress_done,
        "total": run.progress_total,
        "note": run.progress_note,
    }


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
def service_command(ctx: click.Context, once: bool, seconds: float | None, force: bool) -> Output:  # noqa: FBT001
    """Run scheduled syncs, polls, replies and handlers as a service.

    Each job has a separate schedule. A failing source backs off while the others continue. One service runs per
    database; `lore status` shows its state. SIGTERM and SIGINT stop it with exit code 0. SIGHUP or a changed
    configuration file reloads the settings. /metrics and /healthz are served on service.metrics_port.
    """
    from tidelore.app.serving import ServeRequest, run_service
    from tidelore.cli.output.logs import set_up_logging
    from tidelore.core.config import config_path

    invocation = invocation_of(ctx)
    choices = invocation.choices
    app = invocation.app()

    def log_as_asked(new: App) -> None:
        set_up_logging(new.config, verbose=choices.verbose, quiet=choices.quiet or choices.robot, service=True)

    log_as_asked(app)
    report = run_service(
        app,
        ServeRequest(once, seconds, force),
        load=invocation.app,
        config_file=config_path(choices.config, os.environ),
        on_settings=log_as_asked,
    )
    return Output(_data(report), _lines(report), _verdict(report) if once else None)


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


THEME = click.option(
    "--theme",
    type=click.Choice(["auto", "dark", "light"]),
    default="auto",
    help="Colour theme; auto follows the terminal. The d key switches.",
)


@click.command("console", cls=LoreCommand, example="lore console --theme dark")
@THEME
@click.pass_context
def console_command(ctx: click.Context, theme: str) -> Output:
    """Run the service with a live dashboard.

    Leaving with q stops the service cleanly. If a service already runs on this database, the console monitors that one.
    `lore` without a command starts the console on a terminal. With --robot, prints the overview once and starts no
    service.
    """
    invocation = invocation_of(ctx)
    if invocation.choices.robot:
        return dashboard_output(invocation)
    app = watched_app(invocation, "console")
    from tidelore.cli.output.logs import set_up_logging
    from tidelore.console.app import run_console
    from tidelore.core.config import config_path

    set_up_logging(app.config, verbose=invocation.choices.verbose, quiet=False, service=True)
    error = run_console(
        app,
        load=invocation.app,
        config_file=config_path(invocation.choices.config, os.environ),
        theme=theme,
        color=invocation.choices.color,
        on_leaving=lambda: click.echo("Stopping the service …", err=True),
    )
    return Output(None, error=error)


def is_terminal() -> bool:
    """Return whether both stdin and stdout are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def watched_app(invocation: Invocation, name: str) -> App:
    """Return the application; raise UserError without a terminal."""
    if not is_terminal():
        raise UserError(
            f"`lore {name}` needs a terminal",
            fix="use `lore service` to run without a terminal, or `lore status --robot` in scripts",
        )
    require("console", f"`lore {name}`")
    return invocation.app()


@click.command("top", cls=LoreCommand, example="lore top")
@THEME
@click.pass_context
def top_command(ctx: click.Context, theme: str) -> Output:
    """Monitor a running service (read-only).

    Shows the screens of `lore console` from the database alone. With --robot, prints the overview once.
    """
    invocation = invocation_of(ctx)
    if invocation.choices.robot:
        return dashboard_output(invocation)
    app = watched_app(invocation, "top")
    from tidelore.console.app import run_top

    run_top(app, theme=theme, color=invocation.choices.color)
    return Output(None)
