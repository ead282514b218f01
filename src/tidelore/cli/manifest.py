"""The command line as data: reads commands, arguments and options from click. Loads the commands it describes."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import click

from tidelore.cli.face import LoreCommand, LoreGroup
from tidelore.core.errors import EXIT_CODES, every_error

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
        # Some flags have a spelling that says no.
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
    # What click puts where no default was given is its own business.
    return default if isinstance(default, bool | int | float | str) else None


def _usage(name: str, command: click.Command) -> str:
    # Not a group's own way: what comes after its name is told where its commands are.
    pieces = click.Command.collect_usage_pieces(command, click.Context(command))
    return " ".join(["lore", name, *pieces])


def paragraphs(command: click.Command) -> list[str]:
    """Return the paragraphs of a command's help, each on one line; the first is the summary."""
    text = inspect.cleandoc(command.help or "")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
