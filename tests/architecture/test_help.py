"""Help texts, error messages and field descriptions are short and in plain words; examples work."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.architecture.command_lines import explain_failure
from tests.architecture.command_reference import answer_notes, every_page_command
from tests.architecture.source_tree import read_modules

from tidelore.cli.command import LoreCommand, LoreGroup
from tidelore.cli.main import COMMANDS, SECTIONS, lore
from tidelore.cli.robot_docs import answer_shapes, paragraphs, read_fields
from tidelore.core.errors import every_error

LONGEST_SUMMARY = 75
BANNED = re.compile(
    r"\b(whoever|whom|somebody|nobody|everybody|(?:is|be|are) told|is no(?! longer)|so many|so long|of its own|"
    r"goes on|go on|needless|left out|nowhere|ledger|the lease over)\b",
    re.IGNORECASE,
)
"""Words that style.md does not want, and words of the code that users do not know."""


def every_node(group: click.Group, path: str = "lore") -> Iterator[tuple[str, click.Command]]:
    """Yield every group and command with its full name."""
    yield path, group
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None, f"{path} {name}"
        if isinstance(command, click.Group):
            yield from every_node(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_help_lists_every_command_in_one_section() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)


def test_every_command_has_an_example_that_parses() -> None:
    failures = []
    for path, command in every_node(lore):
        assert isinstance(command, LoreCommand | LoreGroup), path
        if not f"{command.example} ".startswith(f"{path} "):
            failures.append(f"{path}: the example is about another command: {command.example}")
        problem = explain_failure(command.example)
        if problem is not None:
            failures.append(f"{path}: {command.example}: {problem}")
        if f"Example:\n  {command.example}" not in command.get_help(click.Context(command, info_name=path)):
            failures.append(f"{path}: the help does not show the example")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize(
    "line", ["lore lits", "lore list isues", "lore list issues --stat opened", "lore count cats", "lore show mr", "ls"]
)
def test_a_wrong_example_is_found(line: str) -> None:
    assert explain_failure(line) is not None


def test_every_help_text_is_short_and_in_plain_words() -> None:
    failures = []
    for path, command in every_node(lore):
        summary = paragraphs(command)[0]
        if len(summary) > LONGEST_SUMMARY or not summary.endswith(".") or not summary[0].isupper():
            failures.append(f"{path}: the summary is one short sentence: {summary}")
        texts = [inspect.cleandoc(command.help or "")]
        texts += [option.help or "" for option in command.params if isinstance(option, click.Option)]
        for text in texts:
            if not text:
                failures.append(f"{path}: an option without help")
            failures += [f"{path}: {found.group()!r} in {text!r}" for found in BANNED.finditer(" ".join(text.split()))]
    assert not failures, "\n".join(failures)


def test_the_list_of_commands_shows_the_summary_of_each_command() -> None:
    for name, (_, summary) in COMMANDS.items():
        command = lore.get_command(click.Context(lore), name)
        assert command is not None
        assert paragraphs(command)[0] == summary, name


def test_error_messages_and_fixes_are_in_plain_words(source: Path) -> None:
    errors = {error.__name__ for error in every_error()}
    failures = []
    for module in read_modules(source):
        for call in (node for node in ast.walk(module.tree) if isinstance(node, ast.Call)):
            texts = [keyword.value for keyword in call.keywords if keyword.arg == "fix"]
            if isinstance(call.func, ast.Name) and call.func.id in errors:
                texts += call.args[:1]
            for text in texts:
                said = " ".join(ast.unparse(text).split())
                failures += [
                    f"{module.name}:{call.lineno}: {found.group()!r} in {said}" for found in BANNED.finditer(said)
                ]
    assert not failures, "\n".join(failures)


def test_descriptions_of_robot_fields_are_in_plain_words() -> None:
    failures = []
    for name, command in every_page_command().items():
        told = [*read_fields(*answer_shapes(command)).items(), *(("note", note) for note in answer_notes(command))]
        for path, meaning in told:
            failures += [f"{name} {path}: {found.group()!r} in {meaning!r}" for found in BANNED.finditer(meaning)]
    assert not failures, "\n".join(failures)
