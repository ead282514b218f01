"""`lore poll`: ask for what is new, once. What is asked, and of whom, stands in a module of each source's own."""

from __future__ import annotations

import click

from tidelore.cli import poll_bluesky, poll_github
from tidelore.cli.face import global_options


@click.group(
    "poll",
    help="Ask for what is new: of accounts, of pull requests.",
    no_args_is_help=True,
    params=global_options(),
)
def command() -> None:
    pass


command.add_command(poll_bluesky.command)
command.add_command(poll_github.command)
