"""Complete commands and values in a shell: `lore completions` prints the script. Completed values: see `COMPLETED`."""

from __future__ import annotations

from typing import Annotated

import click
from click.shell_completion import CompletionItem, get_completion_class
from msgspec import Struct

from tidelore.app.answers import means
from tidelore.app.reading.completion import suggest_names, suggest_references
from tidelore.cli.command import Invocation, invocation_of, lore_command
from tidelore.cli.main import COMPLETION, lore
from tidelore.cli.output.render import Output
from tidelore.core.errors import TideloreError
from tidelore.core.references import KINDS, Kind

COMPLETED = {
    "reference": "reference",
    "labels": "label",
    "project": "project",
    "author": "user",
    "assignee": "user",
    "reviewer": "user",
}
"""The parameters that are completed from the local copy, by name."""
_OF_COMMAND: dict[str, tuple[Kind, ...]] = {"issue": ("issue",), "mr": ("mr",)}


def complete_values(command: click.Command) -> None:
    """Let a shell complete the values of a command and of its subcommands from the local copy."""
    for parameter in command.params:
        if parameter.name in COMPLETED:
            parameter._custom_shell_complete = complete
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        complete_values(inner)


def complete(ctx: click.Context, parameter: click.Parameter, begin: str) -> list[CompletionItem]:
    """Return what a value may be completed to."""
    kind = COMPLETED[parameter.name or ""]
    if ctx.info_name in ("post", "topic", "posts") and kind in ("reference", "user"):
        return []
    try:
        app = invocation_of(ctx).app()
    except TideloreError:
        return []
    if kind == "reference":
        found = suggest_references(app, _OF_COMMAND.get(ctx.info_name or "", KINDS), begin)
    else:
        found = suggest_names(app, kind, begin)
    return [CompletionItem(one.word, help=one.meaning or None) for one in found]


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
    return Output(CompletionScript(shell, script), script.splitlines())
