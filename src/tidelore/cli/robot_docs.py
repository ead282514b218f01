"""`lore robot-docs`: commands, options, answers, errors and exit codes as one document for programs.

Commands, options and errors are read from the code, the fields of answers from `schemas.txt`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import click
import msgspec

from tidelore import __version__
from tidelore.cli.face import LoreCommand, global_options
from tidelore.cli.manifest import (
    describe_briefly,
    describe_command,
    describe_errors,
    describe_exit_codes,
    describe_option,
    every_command,
)
from tidelore.cli.render import Answer
from tidelore.cli.schemas import read_schema, read_sections
from tidelore.core.errors import UserError

_ENVELOPE = {
    "ok": "whether the command succeeded",
    "data": "the answer, with the fields in output; a failed command may include a partial answer",
    "error": "only if ok is false",
    "error.code": "one of the codes in errors",
    "error.message": "what failed, for people",
    "error.details": "what failed, for programs",
    "error.retryable": "whether the same command can succeed later without a correction",
    "error.fix": "what to do, or null",
    "meta.command": "the command that was run",
    "meta.version": "the version of lore",
    "meta.elapsed_ms": "duration in milliseconds",
    "meta.synced_at": "end of the last successful sync or ingest if the command reads the local copy, or null",
}


@click.command("robot-docs", cls=LoreCommand, example="lore robot-docs list issues")
@click.argument("words", metavar="COMMAND", nargs=-1)
@click.option("--brief", is_flag=True, help="Only the name and summary of each command.")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], brief: bool) -> Answer:  # noqa: FBT001
    """Describe all commands, options, errors and exit codes as JSON.

    COMMAND, such as `count` or `list issues`, selects one command or group.
    """
    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    found = _chosen(dict(every_command(root)), " ".join(words))
    data: dict[str, Any] = {"version": __version__}
    if brief:
        data["commands"] = [describe_briefly(name, command) for name, command in found.items()]
    else:
        sections = read_sections()
        shared = {option.name for option in global_options()}
        data["commands"] = [
            describe_command(name, command, shared, read_schema(name, sections)) for name, command in found.items()
        ]
    if not brief and not words:
        data |= _about_all()
    return Answer(data, msgspec.json.format(msgspec.json.encode(data), indent=2).decode().splitlines())


def _about_all() -> dict[str, Any]:
    options = [option for option in global_options() if isinstance(option, click.Option)]
    return {
        "global_options": [describe_option(option) for option in options],
        "envelope": [{"path": path, "meaning": meaning} for path, meaning in _ENVELOPE.items()],
        "errors": describe_errors(),
        "exit_codes": describe_exit_codes(),
    }


def _chosen(known: dict[str, click.Command], wanted: str) -> dict[str, click.Command]:
    """Return the named command or the commands of the named group; all of them without a name."""
    if not wanted:
        return known
    found = {name: command for name, command in known.items() if f"{name} ".startswith(f"{wanted} ")}
    if not found:
        near = get_close_matches(wanted, [*known, *(name.partition(" ")[0] for name in known)], n=1)
        raise UserError(
            f"no such command: {wanted}",
            fix=f"did you mean `lore robot-docs {near[0]}`?"
            if near
            else "`lore robot-docs --brief` lists the commands",
            command=wanted,
        )
    return found
