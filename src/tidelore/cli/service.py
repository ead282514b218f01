"""Run and monitor the service: `lore service`, `lore worker`, `lore console`, `lore top`; its webhooks: `lore hooks`.

Also serves the web page, alone (`lore serve`) or beside the service; no other command imports the web server.

With --robot, `lore console` and `lore top` print the overview once and start no service.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from tidelore.app.hooks.installing import HookChecks, HookInstallations, check_hooks, install_hooks
from tidelore.app.positions import ServiceSummary, SourcesOverview, WebSummary, dashboard
from tidelore.app.wiring import SettingsFile
from tidelore.app.workers.summary import CONCURRENCY, WorkerSummary
from tidelore.cli.command import Invocation, lore_command, lore_group
from tidelore.cli.options import duration_option
from tidelore.cli.output.render import Output, plural, say_note, start_browser, when
from tidelore.cli.output.table import Column, table_of
from tidelore.core.errors import UserError
from tidelore.core.extras import require

if TYPE_CHECKING:
    from tidelore.app.serving import ServiceReport
    from tidelore.app.wiring import App


@lore_command("service", example="lore service --once", answer=ServiceSummary)
@click.option("--once", is_flag=True, help="Run every job once, then exit; streams are skipped.")
@duration_option("stopped")
@click.option("--force", is_flag=True, help="Replace another running service.")
@click.option("--web", is_flag=True, help="Also serve the web page of `lore serve` on service.web_port.")
def service_command(invocation: Invocation, once: bool, seconds: float | None, force: bool, web: bool) -> Output:  # noqa: FBT001
    """Sync, poll, reply and run handlers on a schedule.

    Each job has a separate schedule. A failing source backs off while the others continue. One service runs per
    database; `lore status` shows its state. SIGTERM and SIGINT stop it with exit code 0. SIGHUP or a changed
    configuration file reloads the settings. /metrics and /healthz are served on service.metrics_port.
    """
    from tidelore.app.serving import ServeRequest, run_service

    app = invocation.app()
    invocation.log_as_service(app)
    with _serving_pages(app) if web else nullcontext():
        settings = SettingsFile(invocation.config_file, invocation.app, invocation.log_as_service)
        report = run_service(app, ServeRequest(once, seconds, force), settings)
    return Output(report.summary, _lines(report), report.error if once else None)


@lore_command("worker", example="lore worker --concurrency 8", answer=WorkerSummary)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1, max=64),
    default=CONCURRENCY,
    show_default=True,
    help="How many scopes to work on at the same time.",
)
@click.option("--once", is_flag=True, help="Work until no scope is due, then exit; streams are skipped.")
@duration_option("stopped")
@click.option(
    "--hooks/--no-hooks",
    default=None,
    help="Receive webhooks on hooks.port; default: if it is set and no other worker of this machine does.",
)
def worker_command(
    invocation: Invocation,
    concurrency: int,
    once: bool,  # noqa: FBT001
    seconds: float | None,
    hooks: bool | None,  # noqa: FBT001
) -> Output:
    """Run one of several workers on PostgreSQL.

    Start any number of workers, on any number of machines, with the same configuration and database. Every project is
    synced by one worker at a time, and what a killed worker left is taken over. All workers together keep to one rate
    limit per host. `lore status` shows who works on what. SIGTERM and SIGINT stop a worker with exit code 0. SIGHUP or
    a changed configuration file reloads the settings. On SQLite use `lore service`.
    """
    from tidelore.app.workers.running import WorkRequest, run_worker

    app = invocation.app()
    invocation.log_as_service(app)
    settings = SettingsFile(invocation.config_file, invocation.app, invocation.log_as_service)
    report = run_worker(app, WorkRequest(concurrency, once, seconds, hooks), settings)
    said = f"Worked for {report.summary.seconds:.1f} s: {report.summary.ended:,} turns of scopes."
    return Output(report.summary, [said], report.error if once else None)


TOKEN_VARIABLE = "TIDELORE_WEB_TOKEN"  # noqa: S105 - the name of a variable


@lore_command("serve", example="lore serve --port 8765 --open", answer=WebSummary)
@click.option("--port", type=click.IntRange(0, 65535), help="Port; default: service.web_port. 0 takes any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need --token.")
@click.option(
    "--token",
    "with_token",
    is_flag=True,
    help=f"Require an access token: the one in {TOKEN_VARIABLE}, else a new one. It is part of the printed address.",
)
@click.option("--allow-writes", is_flag=True, help="Offer forms to reply and to resolve threads.")
@click.option("--open", "in_browser", is_flag=True, help="Open the page in the browser.")
def serve_command(
    invocation: Invocation,
    port: int | None,
    host: str,
    with_token: bool,  # noqa: FBT001
    allow_writes: bool,  # noqa: FBT001
    in_browser: bool,  # noqa: FBT001
) -> Output:
    """Serve a web page to read and search the local copy.

    Only this machine can open it. To listen on another address, add --token; the printed address contains the token.
    Pages answer with JSON to `Accept: application/json`. The page reads the local copy; its Refresh button fetches one
    item from its host. With --allow-writes it also posts replies and resolves threads, exactly once, as you. SIGINT and
    SIGTERM stop the server with exit code 0.
    """
    require("web", "`lore serve`")
    from threading import Thread

    from tidelore.web.server import ServeWeb, WebServer, new_token

    app = invocation.logged_app()
    given = app.environ.get(TOKEN_VARIABLE) or None
    token = (given or new_token()) if with_token else None
    chosen = app.config.service.web_port if port is None else port
    server = WebServer(app, ServeWeb(host=host, port=chosen, token=token, allow_writes=allow_writes))
    server.open()
    address = server.address
    began = app.clock.monotonic()
    click.echo(f"Serving {address} (Ctrl+C stops)", err=True)
    if in_browser:
        # In a thread, because the browser waits for the server, and looking for one takes up to two seconds.
        Thread(target=_open_served, args=(address,), daemon=True).start()
    server.run()
    return Output(WebSummary(address=server.plain_address, seconds=round(app.clock.monotonic() - began, 3)))


def _open_served(address: str) -> None:
    if not start_browser(address):
        say_note("no browser could be started; open the address yourself")


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


@lore_command("console", example="lore console --theme dark", answer=SourcesOverview)
@THEME
def console_command(invocation: Invocation, theme: str) -> Output:
    """Run the service with a live dashboard.

    Leaving with q stops the service cleanly. If a service already runs on this database, the console monitors that one.
    `lore` without a command starts the console on a terminal. With --robot, prints the overview once and starts no
    service.
    """
    if invocation.choices.robot:
        return Output(dashboard(invocation.app()))
    app = watched_app(invocation, "console")
    from tidelore.cli.output.logs import set_up_logging
    from tidelore.console.app import run_console

    set_up_logging(app.config, verbose=invocation.choices.verbose, quiet=False, service=True)
    error = run_console(
        app,
        SettingsFile(invocation.config_file, invocation.app),
        theme=theme,
        color=invocation.choices.color,
        tell=lambda text: click.echo(text, err=True),
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


@lore_command("top", example="lore top", answer=SourcesOverview)
@THEME
def top_command(invocation: Invocation, theme: str) -> Output:
    """Monitor a running service (read-only).

    Shows the screens of `lore console` from the database alone. With --robot, prints the overview once.
    """
    if invocation.choices.robot:
        return Output(dashboard(invocation.app()))
    app = watched_app(invocation, "top")
    from tidelore.console.app import run_top

    run_top(app, theme=theme, color=invocation.choices.color)
    return Output(None)


hooks_command = lore_group("hooks", "Install and check webhooks, which announce changes.", example="lore hooks check")


def _source_option() -> Callable[[Any], Any]:
    return click.option("--source", metavar="NAME", help="Only this host; default: every host with hook_secret_env.")


@hooks_command.command(
    "install",
    example="lore hooks install --url https://lore.example.com --dry-run",
    answer=HookInstallations,
)
@click.option("--url", required=True, help="The address at which the forges reach the service, without /hooks.")
@_source_option()
@click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
@click.option("--renew", is_flag=True, help="Store the secret again in webhooks that exist, after it was changed.")
def hooks_install_command(invocation: Invocation, url: str, source: str | None, dry_run: bool, renew: bool) -> Output:  # noqa: FBT001
    """Create the webhooks of all mirrored projects.

    Uses the API of each forge, with the secret in the variable named by hook_secret_env, and reads each webhook back. A
    webhook that exists is completed if it lacks an event, and otherwise left as it is. Exits with 7 if some failed.
    """
    done = install_hooks(invocation.logged_app(), url, source, dry_run=dry_run, renew=renew)
    lines = table_of(
        done.items,
        Column("SOURCE", lambda one: one.source),
        Column("PROJECT", lambda one: one.project),
        Column("WOULD BE" if dry_run else "DONE", lambda one: one.action),
        Column("DETAIL", lambda one: one.error or ", ".join(one.missing) or "-"),
    )
    return Output(done, lines, done.failure)


@hooks_command.command("check", example="lore hooks check", answer=HookChecks)
@click.option("--url", help="The address that was given to `lore hooks install`; default: any with our path.")
@_source_option()
def hooks_check_command(invocation: Invocation, url: str | None, source: str | None) -> Output:
    """Compare sent webhooks with received ones.

    Asks the API of each forge for the webhook of every mirrored project and its last deliveries. Exits with 7 if a
    webhook is missing, incomplete, disabled or failing.
    """
    done = check_hooks(invocation.logged_app(), url, source)
    lines = table_of(
        done.items,
        Column("SOURCE", lambda one: one.source),
        Column("PROJECT", lambda one: one.project),
        Column("STATE", lambda one: one.state),
        Column("ARRIVED", lambda one: f"{one.stored} of {one.sent}"),
        Column("LAST", lambda one: "-" if one.last_status is None else str(one.last_status)),
        Column("LAST ARRIVED", lambda one: "never" if one.last_received_at is None else when(one.last_received_at)),
        Column("DETAIL", lambda one: one.error or ", ".join(one.missing) or "-"),
    )
    return Output(done, lines, done.failure)
