"""`lore poll`: polls GitHub and Bluesky once; each has a separate module."""

from __future__ import annotations

import click

from tidelore.cli import poll_bluesky, poll_github
from tidelore.cli.face import LoreGroup, global_options


@click.group(
    "poll",
    cls=LoreGroup,
    help="Poll GitHub and Bluesky for updates.",
    no_args_is_help=True,
    params=global_options(),
    example="lore poll github",
)
def command() -> None:
    pass


command.add_command(poll_bluesky.command)
command.add_command(poll_github.command)
