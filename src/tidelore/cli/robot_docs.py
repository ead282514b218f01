"""`lore robot-docs`: everything a program must know to call `lore`, as one document.

What it says of commands, options, errors and exit codes is read off the code. What it says of answers is read from
`schemas.txt`, a copy of the field lists in the reference that is shipped; a test holds the two equal.
"""

from __future__ import annotations

import pkgutil
from difflib import get_close_matches
from typing import Any

import click
import msgspec

from tidelore import __version__
from tidelore.cli.face import LoreCommand, global_options
from tidelore.cli.manifest import (
    Described,
    describe_briefly,
    describe_command,
    describe_errors,
    describe_exit_codes,
    describe_option,
    every_command,
)
from tidelore.cli.render import Answer
from tidelore.errors import IntegrityError, UserError

SCHEMAS = "schemas.txt"
_ENVELOPE = {
    "ok": "whether the command did what it was asked for",
    "data": "the answer, with the fields in output; of a command that failed, what it found out before",
    "error": "only when ok is false: what went wrong",
    "error.code": "one of the codes in errors",
    "error.message": "what happened, for people",
    "error.details": "the same as fields",
    "error.retryable": "whether the same command can succeed later without anything being corrected",
    "error.fix": "what to do, or null",
    "meta.command": "the command that answers",
    "meta.version": "the version of lore",
    "meta.elapsed_ms": "how long it took",
    "meta.synced_at": "the end of the last successful run, where the command reads the copy, or null",
}


@click.command("robot-docs", cls=LoreCommand)
@click.argument("words", metavar="COMMAND", nargs=-1)
@click.option("--brief", is_flag=True, help="Only the names of commands, and a line about each.")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], brief: bool) -> Answer:  # noqa: FBT001
    """Describe every command, its options and its answers, all errors and exit codes, for programs.

    COMMAND, such as 'count' or 'list issues', narrows it to one command, or to those of a group. The document is the
    same with and without --robot, but for the envelope.
    """
    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    found = _chosen(dict(every_command(root)), " ".join(words))
    data: dict[str, Any] = {"version": __version__}
    if brief:
        data["commands"] = [describe_briefly(name, command) for name, command in found.items()]
    else:
        schemas = read_schemas()
        shared = {option.name for option in global_options()}
        data["commands"] = [
            describe_command(name, command, shared, schemas.get(name, ())) for name, command in found.items()
        ]
    if not brief and not words:
        data |= _about_all()
    return Answer(data, msgspec.json.format(msgspec.json.encode(data), indent=2).decode().splitlines())


def read_schemas() -> dict[str, list[Described]]:
    """Return the fields of each command's answer, in the order of the reference."""
    content = pkgutil.get_data("tidelore.cli", SCHEMAS)
    if content is None:
        raise IntegrityError(f"{SCHEMAS} is missing from the installation", fix="install tidelore again")
    found: dict[str, list[Described]] = {}
    for part in content.decode().strip().split("\n\n"):
        heading, *lines = part.splitlines()
        fields = [line.partition(" ") for line in lines]
        found[heading.strip("[]")] = [{"path": path, "meaning": meaning.strip()} for path, _, meaning in fields]
    return found


def _about_all() -> dict[str, Any]:
    options = [option for option in global_options() if isinstance(option, click.Option)]
    return {
        "global_options": [describe_option(option) for option in options],
        "envelope": [{"path": path, "meaning": meaning} for path, meaning in _ENVELOPE.items()],
        "errors": describe_errors(),
        "exit_codes": describe_exit_codes(),
    }


def _chosen(known: dict[str, click.Command], wanted: str) -> dict[str, click.Command]:
    """Return the command of that name and those below it; all for no name."""
    if not wanted:
        return known
    found = {name: command for name, command in known.items() if f"{name} ".startswith(f"{wanted} ")}
    if not found:
        near = get_close_matches(wanted, [*known, *(name.partition(" ")[0] for name in known)], n=1)
        raise UserError(
            f"no such command: {wanted}",
            fix=f"did you mean `lore robot-docs {near[0]}`?" if near else "`lore robot-docs --brief` lists them",
            command=wanted,
        )
    return found
