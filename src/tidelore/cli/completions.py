"""`lore completions`: prints a shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tidelore.cli.face import LoreCommand
from tidelore.cli.render import Answer


@click.command("completions", cls=LoreCommand, example="lore completions bash")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> Answer:
    """Print a shell completion script.

    For bash, add this line to ~/.bashrc: eval "$(lore completions bash)"
    """
    from tidelore.cli.main import COMPLETION, lore

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(lore, {}, "lore", COMPLETION).source()
    return Answer({"shell": shell, "script": script}, script.splitlines())
