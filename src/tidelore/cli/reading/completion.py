"""Complete the values of options and arguments in a shell. Which ones, by their names: see `COMPLETED`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from tidelore.app.reading.completion import suggest_names, suggest_references
from tidelore.cli.command import invocation_of
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
