"""Describe the command line as data: `lore robot-docs`.

Commands, options and errors are read from the code, the fields of robot answers from `schemas.txt`. A section there
starts with `[command]`, or `[command] as other` when it has all fields of another command. A line starting with `>`
is a note for the reference; every other line is a path and its meaning. A meaning may end in `with the fields of
lore COMMAND`, `of PREFIX` or `of PREFIX of lore COMMAND`: `read_schema` spells these fields out.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import click
import msgspec
from msgspec import Struct

from tidelore import __version__
from tidelore.cli.command import LoreCommand, LoreGroup, global_options
from tidelore.cli.output.render import Output
from tidelore.core.errors import EXIT_CODES, IntegrityError, UserError, every_error

SCHEMAS = "schemas.txt"
_HEADING = re.compile(r"\[(?P<name>[a-z -]+)\](?: as (?P<base>[a-z -]+))?")
_WITH = re.compile(
    r"\bwith the fields of (?:lore (?P<command>[a-z -]+)|(?P<prefix>\S+)(?: of lore (?P<home>[a-z -]+))?)$"
)


class SchemaSection(Struct, frozen=True):
    """One section of the file, with references as written: `fields` maps paths to meanings."""

    base: str | None
    notes: list[str]
    fields: dict[str, str]


def read_sections() -> dict[str, SchemaSection]:
    """Return the sections by command, in the order of the file."""
    content = pkgutil.get_data("tidelore.cli", SCHEMAS)
    if content is None:
        raise IntegrityError(f"{SCHEMAS} is missing from the installation", fix="reinstall tidelore")
    found: dict[str, SchemaSection] = {}
    for part in content.decode().strip().split("\n\n"):
        first, *lines = part.splitlines()
        heading = _HEADING.fullmatch(first)
        assert heading is not None, first
        notes = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
        pairs = [line.partition(" ") for line in lines if not line.startswith("> ")]
        fields = {path: meaning for path, _, meaning in pairs}
        assert len(fields) == len(pairs), f"{first} names a field twice"
        found[heading["name"]] = SchemaSection(heading["base"], notes, fields)
    return found


def read_schema(command: str, sections: dict[str, SchemaSection] | None = None) -> dict[str, str]:
    """Return every field of a command's answer with its meaning, references spelled out."""
    known = read_sections() if sections is None else sections
    if command not in known:
        return {}
    section = known[command]
    found = read_schema(section.base, known) if section.base else {}
    for path, meaning in section.fields.items():
        found[path] = meaning
        given = _WITH.search(meaning)
        if given and given["command"]:
            found |= {f"{path}.{inner}": told for inner, told in read_schema(given["command"], known).items()}
        elif given:
            prefix = f"{given['prefix']}."
            home = read_schema(given["home"], known) if given["home"] else section.fields
            found |= {
                f"{path}.{other.removeprefix(prefix)}": told for other, told in home.items() if other.startswith(prefix)
            }
    return found


Described = dict[str, Any]
_TYPES = {"text": "string", "integer": "integer", "float": "number", "boolean": "boolean"}


def every_command(root: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Yield each command by its full name; a group only if it can be called without a subcommand."""
    for name in root.list_commands(click.Context(root)):
        command = root.get_command(click.Context(root), name)
        if command is None:
            continue
        if not isinstance(command, click.Group):
            yield name, command
            continue
        if command.invoke_without_command:
            yield name, command
        yield from ((f"{name} {inner}", found) for inner, found in every_command(command))


def describe_briefly(name: str, command: click.Command) -> Described:
    """Return the name and the summary of a command."""
    return {"name": name, "summary": paragraphs(command)[0]}


def describe_command(
    name: str, command: click.Command, shared: Collection[str | None], output: Mapping[str, str]
) -> Described:
    """Return everything about a command except the options in `shared`, which all commands have."""
    own = [parameter for parameter in command.params if parameter.name not in shared]
    arguments = [parameter for parameter in own if isinstance(parameter, click.Argument)]
    options = [parameter for parameter in own if isinstance(parameter, click.Option)]
    return {
        **describe_briefly(name, command),
        "help": "\n\n".join(paragraphs(command)),
        "usage": _usage(name, command),
        "example": command.example if isinstance(command, LoreCommand | LoreGroup) else "",
        "arguments": [_argument(argument) for argument in arguments],
        "options": [describe_option(option) for option in options],
        "output": [{"path": path, "meaning": meaning} for path, meaning in output.items()],
    }


def describe_option(option: click.Option) -> Described:
    """Return an option: its spellings, its type and its default."""
    return {
        "names": list(option.opts),
        # The spellings that negate a flag (`--no-...`), if any.
        "negations": list(option.secondary_opts),
        **_value(option, is_flag=option.is_flag),
        "metavar": None if option.is_flag else option.make_metavar(click.Context(click.Command("lore"))),
        "default": _default(option),
        "repeatable": option.multiple,
        "help": option.help or "",
    }


def describe_errors() -> list[Described]:
    """Return every error of the program."""
    return [
        {
            "code": error.code,
            "exit_code": error.exit_code,
            "retryable": error.retryable,
            "meaning": " ".join((inspect.getdoc(error) or "").split()),
        }
        for error in every_error()
    ]


def describe_exit_codes() -> list[Described]:
    """Return every exit code of the program."""
    return [{"code": code, "meaning": meaning} for code, meaning in EXIT_CODES.items()]


def _argument(argument: click.Argument) -> Described:
    name = argument.metavar or (argument.name or "").upper()
    return {"name": name, **_value(argument, is_flag=False), "repeatable": argument.nargs == -1}


def _value(parameter: click.Parameter, *, is_flag: bool) -> Described:
    kind = parameter.type
    bounds = kind if isinstance(kind, click.IntRange | click.FloatRange) else None
    return {
        "type": "boolean" if is_flag else "string" if isinstance(kind, click.Choice) else _type(kind),
        "choices": [str(choice) for choice in kind.choices] if isinstance(kind, click.Choice) else None,
        "minimum": None if bounds is None else bounds.min,
        "maximum": None if bounds is None else bounds.max,
        "required": parameter.required,
    }


def _type(kind: click.ParamType[Any]) -> str:
    return _TYPES.get(kind.name.removesuffix(" range"), "string")


def _default(option: click.Option) -> Any:
    default: Any = option.default
    if option.multiple:
        return list(default) if isinstance(default, list | tuple) else []
    if option.is_flag and not option.secondary_opts:
        return default is True
    # Ignore the internal marker that click uses for a missing default.
    return default if isinstance(default, bool | int | float | str) else None


def _usage(name: str, command: click.Command) -> str:
    # Not the group's method: it adds a placeholder for subcommands, which are described separately.
    pieces = click.Command.collect_usage_pieces(command, click.Context(command))
    return " ".join(["lore", name, *pieces])


def paragraphs(command: click.Command) -> list[str]:
    """Return the paragraphs of a command's help, each on one line; the first is the summary."""
    text = inspect.cleandoc(command.help or "")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


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
def robot_docs_command(ctx: click.Context, words: tuple[str, ...], brief: bool) -> Output:  # noqa: FBT001
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
    return Output(data, msgspec.json.format(msgspec.json.encode(data), indent=2).decode().splitlines())


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
