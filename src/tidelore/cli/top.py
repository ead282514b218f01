"""`lore top`: shows the console screens of a running service, read-only."""

from __future__ import annotations

import click

from tidelore.cli.console import THEME, watched_app
from tidelore.cli.console_data import tell_once
from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer


@click.command("top", cls=LoreCommand, example="lore top")
@THEME
@click.pass_context
def command(ctx: click.Context, theme: str) -> Answer:
    """Monitor a running service (read-only).

    Shows the screens of `lore console` from the database alone. With --robot, prints the overview once.
    """
    face = face_of(ctx)
    if face.choices.robot:
        return tell_once(face)
    app = watched_app(face, "top")
    from tidelore.console.start import run_top

    run_top(app, theme=theme, color=face.choices.color)
    return Answer(None)
