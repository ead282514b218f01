"""`lore console`: runs the service with a live dashboard."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from tidelore.cli.console_data import tell_once
from tidelore.cli.face import Face, LoreCommand, face_of
from tidelore.cli.render import Answer
from tidelore.core.errors import UserError
from tidelore.core.extras import require

if TYPE_CHECKING:
    from tidelore.app.wiring import App

THEME = click.option(
    "--theme",
    type=click.Choice(["auto", "dark", "light"]),
    default="auto",
    help="Colour theme; auto follows the terminal. The d key switches.",
)


@click.command("console", cls=LoreCommand, example="lore console --theme dark")
@THEME
@click.pass_context
def command(ctx: click.Context, theme: str) -> Answer:
    """Run the service with a live dashboard.

    Leaving with q stops the service cleanly. If a service already runs on this database, the console monitors that one.
    `lore` without a command starts the console on a terminal. With --robot, prints the overview once and starts no
    service.
    """
    face = face_of(ctx)
    if face.choices.robot:
        return tell_once(face)
    app = watched_app(face, "console")
    from tidelore.cli.logs import set_up_logging
    from tidelore.console.start import run_console
    from tidelore.core.config import config_path

    set_up_logging(app.config, verbose=face.choices.verbose, quiet=False, service=True)
    error = run_console(
        app,
        load=face.app,
        config_file=config_path(face.choices.config, os.environ),
        theme=theme,
        color=face.choices.color,
        on_leaving=lambda: click.echo("Stopping the service …", err=True),
    )
    return Answer(None, error=error)


def is_terminal() -> bool:
    """Return whether both stdin and stdout are terminals."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def watched_app(face: Face, name: str) -> App:
    """Return the application; raise UserError without a terminal."""
    if not is_terminal():
        raise UserError(
            f"`lore {name}` needs a terminal",
            fix="use `lore service` to run without a terminal, or `lore status --robot` in scripts",
        )
    require("console", f"`lore {name}`")
    return face.app()
