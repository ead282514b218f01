"""Run and monitor the service: `lore service`, `lore console`, `lore top`.

With --robot, `lore console` and `lore top` print the overview once and start no service.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from tidelore.app.positions import ServiceSummary, SourcesOverview, dashboard
from tidelore.cli.command import Invocation, LoreCommand, invocation_of
from tidelore.cli.output.render import Output, plural
from tidelore.core.errors import UserError
from tidelore.core.extras import require

if TYPE_CHECKING:
    from tidelore.app.serving import ServiceReport
    from tidelore.app.wiring import App


@click.command("service", cls=LoreCommand, example="lore service --once", answer=ServiceSummary)
@click.option("--once", is_flag=True, help="Run every job once, then exit; streams are skipped.")
@click.option(
    "--for",
    "seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Stop after this time; default: run until stopped.",
)
@click.option("--force", is_flag=True, help="Replace another running service.")
@click.option("--web", is_flag=True, help="Also serve the web page of `lore serve` on service.web_port.")
@click.pass_context
def service_command(ctx: click.Context, once: bool, seconds: float | None, force: bool, web: bool) -> Output:  # noqa: FBT001
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
    with _serving_pages(app) if web else nullcontext():
        report = run_service(
            app,
            ServeRequest(once, seconds, force),
            load=invocation.app,
            config_file=config_path(choices.config, os.environ),
            on_settings=log_as_asked,
        )
    return Output(report.summary, _lines(report), report.error if once else None)


@contextmanager
def _serving_pages(app: App) -> Iterator[None]:
    """Serve the web page in a thread until the block ends."""
    require("web", "`lore service --web`")
    from threading import Thread

    from tidelore.web.server import ServeWeb, WebServer

    server = WebServer(app, ServeWeb(port=app.config.service.web_port))
    server.open()
    thread = Thread(target=server.run, name="web", daemon=True)
    thread.start()
    click.echo(f"Serving {server.address}", err=True)
    try:
        yield
    finally:
        server.stop()
        thread.join()


def _lines(report: ServiceReport) -> list[str]:
    lines = [f"{name}: {error.message}" for name, error in sorted(report.errors.items())]
    jobs = plural(len(report.jobs), "job")
    return [*lines, f"{jobs}, {plural(report.ended, 'job run')} in {report.seconds:.1f} s"]


THEME = click.option(
    "--theme",
    type=click.Choice(["auto", "dark", "light"]),
    default="auto",
    help="Colour theme; auto follows the terminal. The d key switches.",
)


@click.command("console", cls=LoreCommand, example="lore console --theme dark", answer=SourcesOverview)
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
        return Output(dashboard(invocation.app()))
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


@click.command("top", cls=LoreCommand, example="lore top", answer=SourcesOverview)
@THEME
@click.pass_context
def top_command(ctx: click.Context, theme: str) -> Output:
    """Monitor a running service (read-only).

    Shows the screens of `lore console` from the database alone. With --robot, prints the overview once.
    """
    invocation = invocation_of(ctx)
    if invocation.choices.robot:
        return Output(dashboard(invocation.app()))
    app = watched_app(invocation, "top")
    from tidelore.console.app import run_top

    run_top(app, theme=theme, color=invocation.choices.color)
    return Output(None)
