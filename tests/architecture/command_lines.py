"""Parses `lore …` lines of help texts and pages against the real command tree, without running them."""

from __future__ import annotations

import re
import shlex

import click

from tidelore.cli.command import Choices
from tidelore.cli.main import COMMANDS, lore

_COMMENT = re.compile(r"\s+#\s.*$")
_SHELL = {"|", "||", "&&", ";", ">", ">>", "<", "2>", "&"}


def explain_failure(line: str) -> str | None:
    """Return why a command line cannot be parsed, or None if it can."""
    try:
        words = shlex.split(_COMMENT.sub("", line))
    except ValueError as error:
        return str(error)
    words = words[: next((index for index, word in enumerate(words) if word in _SHELL), len(words))]
    if not words or words[0].rpartition("/")[2] != "lore":
        return "does not start with lore"
    if words[1:] == []:  # the console, or the help
        return None
    try:
        _parse(lore, "lore", words[1:], None)
    except click.exceptions.Exit:  # --help and --version
        return None
    except Exception as error:  # noqa: BLE001 - every refusal is a failure to report
        return str(error) or type(error).__name__
    return None


def _parse(command: click.Command, name: str, words: list[str], parent: click.Context | None) -> None:
    with command.make_context(name, list(words), parent=parent, obj=Choices()) as context:
        if not isinstance(command, click.Group):
            return
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        known = COMMANDS if command is lore else command.commands
        inner = command.get_command(context, rest[0]) if rest[0] in known else None
        if inner is None:
            raise click.UsageError(f"no such command: {name} {rest[0]}")
        _parse(inner, f"{name} {rest[0]}", rest[1:], context)
