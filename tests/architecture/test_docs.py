"""The reference pages and the code say the same, in both directions."""

from __future__ import annotations

import ast
import tomllib
import types
import typing
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from tests.architecture.reference import code, preface, rows, sections
from tests.architecture.source_tree import read_modules

from tidelore.cli.face import global_options
from tidelore.cli.main import COMMANDS, lore
from tidelore.config import Config, GitHubHost, GitHubRepo, GitLabHost, ProjectOverride
from tidelore.errors import EXIT_CODES, TideloreError, every_error

NOT_READ = "†"
TABLES: dict[str, type[msgspec.Struct]] = {
    "Top level": Config,
    "[[gitlab]]": GitLabHost,
    "[[gitlab.overrides]]": ProjectOverride,
    "[[github]]": GitHubHost,
    "[[github.repos]]": GitHubRepo,
} | {
    f"[{info.name}]": info.type
    for info in msgspec.structs.fields(Config)
    if isinstance(info.type, type) and issubclass(info.type, msgspec.Struct)
}


# Errors


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.code)
def test_every_error_is_documented_as_it_is(error: type[TideloreError]) -> None:
    documented = {code(row[0]): row for row in rows(preface("errors.md"))}
    row = documented[error.code]
    assert row[1] == str(error.exit_code)
    assert row[2] == ("yes" if error.retryable else "no")
    assert row[3]
    assert row[4]


def test_no_error_is_documented_that_does_not_exist() -> None:
    documented = [code(row[0]) for row in rows(preface("errors.md"))]
    assert documented == list(dict.fromkeys(documented))
    assert set(documented) == {error.code for error in every_error()}


def test_codes_are_unique_and_exit_codes_documented() -> None:
    codes = [error.code for error in every_error()]
    assert len(codes) == len(set(codes))
    documented = {int(row[0]) for row in rows(sections("errors.md")["Exit codes"])}
    assert documented == {0} | {error.exit_code for error in every_error()}
    assert {int(row[0]): row[1] for row in rows(sections("errors.md")["Exit codes"])} == EXIT_CODES


# Configuration


def documented_keys(heading: str) -> dict[str, list[str]]:
    found = {title.removesuffix(NOT_READ).strip(): text for title, text in sections("configuration.md").items()}
    return {code(row[0]): row for row in rows(found[heading])}


def test_every_table_of_the_configuration_is_documented() -> None:
    titles = {title.removesuffix(NOT_READ).strip() for title in sections("configuration.md")}
    assert titles == set(TABLES)


@pytest.mark.parametrize("heading", TABLES)
def test_every_key_is_documented_with_its_type_and_default(heading: str) -> None:
    shape = TABLES[heading]
    documented = documented_keys(heading)
    nested = {heading.strip("[]") for heading in TABLES}
    expected = {
        info.name: info for info in msgspec.structs.fields(shape) if not (shape is Config and info.name in nested)
    }
    assert set(documented) == set(expected)
    for name, info in expected.items():
        _, kind, default, meaning = documented[name]
        assert kind == kind_of(info.type), name
        assert default_of(default) == plain(info), name
        assert meaning, name


def default_of(cell: str) -> Any:
    if cell in {"—", "required"}:
        return cell
    return tomllib.loads(f"value = {code(cell)}")["value"]


def plain(info: msgspec.structs.FieldInfo) -> Any:
    if info.default is msgspec.NODEFAULT:
        return "required"
    return "—" if info.default is None else list(info.default) if isinstance(info.default, tuple) else info.default


def kind_of(annotation: Any) -> str:
    """Name a type as the page does."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kind_of(arguments[0])
    if origin in {typing.Union, types.UnionType}:
        return kind_of(next(argument for argument in arguments if argument is not type(None)))
    if origin is typing.Literal:
        return "one of " + ", ".join(f'`"{value}"`' for value in arguments)
    if origin is tuple:
        inner = arguments[0]
        is_table = isinstance(inner, type) and issubclass(inner, msgspec.Struct)
        return "list of tables" if is_table else f"list of {kind_of(inner)}s"
    return {str: "string", bool: "boolean", int: "integer", float: "number"}[annotation]


@pytest.mark.parametrize(
    "heading", ["Top level", "[storage]", "[http]", "[sync]", "[log]", "[embedding]", "[[gitlab]]"]
)
def test_a_key_is_marked_exactly_when_nothing_reads_it(source: Path, heading: str) -> None:
    read = attributes_read(source)
    for name, row in documented_keys(heading).items():
        assert (NOT_READ in row[0]) == (name not in read), name


def attributes_read(source: Path) -> set[str]:
    """The attributes taken from something called after the settings: `config.sync.scrub_share`, `host.groups`."""
    owners = {"config", "settings", "host", "storage", "http", "sync", "log"}
    return {
        node.attr
        for module in read_modules(source)
        if module.name != "cli.doctor"  # which tells what is configured in vain
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).rpartition(".")[2] in owners
    }


# Commands


def every_command() -> dict[str, click.Command]:
    return commands_of(lore, "")


def commands_of(group: click.Group, before: str) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name in COMMANDS if group is lore else group.commands:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if not isinstance(command, click.Group) or command.invoke_without_command:
            found[f"{before}{name}"] = command
        if isinstance(command, click.Group):
            found |= commands_of(command, f"{before}{name} ")
    return found


def described(option: click.Parameter) -> tuple[str, str]:
    """An option as the page shows it: its names with the metavar, and its default."""
    assert isinstance(option, click.Option)
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names, "—" if option.secondary_opts and option.default is not True else "off"
    metavar = option.make_metavar(click.Context(click.Command("x")))
    shown = f"{names[:-1]} {metavar}`"
    if option.required:
        return shown, "required"
    has_none = option.multiple or not isinstance(option.default, int | float | str)
    return shown, "—" if has_none else f"`{option.default}`"


def test_every_command_is_documented_and_no_other() -> None:
    documented = {title.removeprefix("lore ") for title in sections("commands.md") if title.startswith("lore ")}
    assert documented == set(every_command())


@pytest.mark.parametrize("name", every_command())
def test_every_option_is_documented_with_its_default_and_no_other(name: str) -> None:
    shared = {option.name for option in global_options()}
    own = [p for p in every_command()[name].params if isinstance(p, click.Option) and p.name not in shared]
    documented = {row[0]: row[1] for row in rows(sections("commands.md")[f"lore {name}"])}
    assert documented == dict(described(option) for option in own)


def test_the_global_options_are_documented_and_no_other() -> None:
    documented = {row[0]: row[1] for row in rows(sections("commands.md")["Global options"])}
    assert documented == dict(described(option) for option in global_options())
