"""Print a completion script for a shell: `lore completions`."""

from __future__ import annotations

from typing import Annotated

import click
from click.shell_completion import get_completion_class
from msgspec import Struct

from tidelore.app.answers import means
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.main import COMPLETION, lore
from tidelore.cli.output.render import Output


class CompletionScript(Struct, frozen=True):
    """The answer of `lore completions`."""

    shell: Annotated[str, means("the shell")]
    script: Annotated[str, means("the script")]


@lore_command("completions", example="lore completions bash", answer=CompletionScript)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completions_command(_invocation: Invocation, shell: str) -> Output:
    """Print a shell completion script.

    For bash, add this line to ~/.bashrc: eval "$(lore completions bash)". For zsh, the same with zsh to ~/.zshrc, after
    compinit. For fish: lore completions fish > ~/.config/fish/completions/lore.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(lore, {}, "lore", COMPLETION).source()
    return Output(CompletionScript(shell, script), script.splitlines(), verbatim=True)
