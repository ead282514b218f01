"""Write manual pages from the help texts: `lore man`.

One page, `lore(1)`, describes all commands; the wheel installs it. `lore man COMMAND` prints the page of one command.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Annotated

import click
from msgspec import Struct

from tidelore import __version__
from tidelore.app.answers import means
from tidelore.cli.command import Invocation, LoreCommand, LoreGroup, global_options, lore_command
from tidelore.cli.output.render import Output
from tidelore.core.errors import EXIT_CODES, UserError

_ENVIRONMENT = {
    "LORE_CONFIG": "Configuration file; default: tidelore/config.toml in XDG_CONFIG_HOME or ~/.config.",
    "LORE_DB": "Database file or postgresql:// URL; default: tidelore/lore.db in XDG_DATA_HOME or ~/.local/share.",
    "LORE_PAGER, PAGER": "Pager of long texts on a terminal; default: less. Empty or cat: no pager.",
    "NO_COLOR": "Disable colours.",
    "COLUMNS": "Width of tables and texts.",
}


class ManualPage(Struct, frozen=True):
    """The answer of `lore man`."""

    name: Annotated[str, means("the name of the page")]
    page: Annotated[str, means("the page in the man format of roff")]


@lore_command("man", example="lore man search | man -l -", answer=ManualPage)
@click.argument("command", nargs=-1)
def man_command(_invocation: Invocation, command: tuple[str, ...]) -> Output:
    """Print a man page.

    Without COMMAND, the page lore(1), which the package installs.
    """
    root = click.get_current_context().find_root().command
    assert isinstance(root, click.Group)
    if not command:
        page = manual(root)
        return Output(ManualPage("lore", page), page.splitlines(), verbatim=True)
    found = dict(_every_command(root, "lore"))
    name = " ".join(["lore", *command])
    if name not in found:
        raise UserError(f"no such command: {' '.join(command)}", fix="`lore --help` lists the commands")
    lines = [_title(name.replace(" ", "-")), ".SH NAME", f"{_text(name)} \\- {_text(_summary(found[name]))}"]
    lines += [".SH SYNOPSIS", *_synopsis(name, found[name]), ".SH DESCRIPTION", *_description(found[name])]
    lines += [".SH OPTIONS", *_options(found[name].params), ".SH EXAMPLE", *_example(found[name])]
    lines += [".SH SEE ALSO", ".BR lore (1)"]
    return Output(ManualPage(name.replace(" ", "-"), "\n".join(lines) + "\n"), lines, verbatim=True)


def manual(root: click.Group) -> str:
    """Return the page lore(1)."""
    lines = [_title("lore"), ".SH NAME", f"lore \\- {_text(_summary(root))}"]
    lines += [".SH SYNOPSIS", ".B lore", "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]"]
    lines += [".SH DESCRIPTION", *_paragraphs(inspect.cleandoc(root.help or ""))]
    lines += ["Data goes to stdout; progress, logs and errors go to stderr."]
    lines += [".SH OPTIONS", "Allowed before and after the command.", *_options(global_options()), ".SH COMMANDS"]
    shared = {option.opts[0] for option in global_options()}
    for name, command in _every_command(root, "lore"):
        if isinstance(command, click.Group) and not command.invoke_without_command:
            continue
        lines += [f".SS {_text(name)}", *_synopsis(name, command), ".PP", *_description(command)]
        lines += _options([one for one in command.params if one.opts[0] not in shared])
        lines += [".PP", "Example:", *_example(command)]
    lines += [".SH EXIT STATUS"]
    lines += [line for code, meaning in EXIT_CODES.items() for line in (".TP", f".B {code}", _text(meaning))]
    lines += [".SH ENVIRONMENT"]
    lines += [line for name, text in _ENVIRONMENT.items() for line in (".TP", f".B {_text(name)}", _text(text))]
    return "\n".join(lines) + "\n"


def _every_command(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _every_command(command, f"{path} {name}")


def _title(name: str) -> str:
    # Without a date: the page changes only with the program.
    return f'.TH "{_text(name.upper())}" 1 "" "lore {__version__}" "Tidelore"'


def _summary(command: click.Command) -> str:
    first = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return " ".join(first.split()).rstrip(".")


def _synopsis(name: str, command: click.Command) -> list[str]:
    pieces = click.Command.collect_usage_pieces(command, click.Context(command))
    return [f".B {_text(name)}", _text(" ".join(pieces))]


def _description(command: click.Command) -> list[str]:
    return list(_paragraphs(inspect.cleandoc(command.help or "")))


def _paragraphs(text: str) -> Iterator[str]:
    for at, paragraph in enumerate(text.split("\n\n")):
        if at:
            yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _options(parameters: Sequence[click.Parameter]) -> list[str]:
    lines = []
    for option in parameters:
        if isinstance(option, click.Option) and not option.hidden:
            names = ", ".join((*option.opts, *option.secondary_opts))
            value = "" if option.is_flag else f" {option.make_metavar(click.Context(click.Command('x')))}"
            lines += [".TP", f".B {_text(names + value)}", _text(option.help or "")]
    return lines


def _example(command: click.Command) -> list[str]:
    assert isinstance(command, LoreCommand | LoreGroup)
    return [".PP", ".RS", ".nf", _text(command.example), ".fi", ".RE"]


def _text(text: str) -> str:
    """Return text with everything escaped that roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return re.sub(r"^\.", r"\\&.", escaped)
