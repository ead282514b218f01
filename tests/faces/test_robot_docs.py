"""`lore robot-docs` says what the code does and what the reference says, in both directions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import click
import pytest
from tests.architecture.reference import code, rows, sections
from tests.architecture.schemas import SHIPPED, every_schema, schema, shipped_text
from tests.architecture.test_docs import described, every_command
from tests.architecture.test_offline_read import SCRIPT
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import paths

from tidelore import __version__
from tidelore.cli.face import global_options
from tidelore.cli.main import COMMANDS, main
from tidelore.errors import EXIT_CODES, every_error

SHARED = {option.name for option in global_options()}


@pytest.fixture
def manifest(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["robot-docs", "--robot"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data


def by_name(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {command["name"]: command for command in manifest["commands"]}
    assert len(found) == len(manifest["commands"])
    return found


# With the code


def test_every_command_that_can_be_called_is_told_and_no_other(manifest: dict[str, Any]) -> None:
    assert set(by_name(manifest)) == set(every_command())
    assert {name.partition(" ")[0] for name in by_name(manifest)} == set(COMMANDS)


@pytest.mark.parametrize("name", every_command())
def test_a_command_line_made_from_the_manifest_is_understood_by_the_command(
    manifest: dict[str, Any], name: str
) -> None:
    command, told = every_command()[name], by_name(manifest)[name]
    arguments: list[str] = []
    for option in told["options"]:
        values = [[]] if option["type"] == "boolean" else [[sample(option)]] * (2 if option["repeatable"] else 1)
        for value in values:
            arguments += [option["names"][0], *value]
    for argument in told["arguments"]:
        arguments += [sample(argument)] * (2 if argument["repeatable"] else 1)
    context = click.Context(command, info_name=name)
    rest = command.parse_args(context, arguments)
    assert rest == []
    own = {parameter.name for parameter in command.params if parameter.name not in SHARED}
    given = {
        key for key in own if context.get_parameter_source(str(key)) is click.core.ParameterSource.COMMANDLINE
    }  # fmt: skip
    assert given == own, "the manifest leaves something out"


def sample(told: dict[str, Any]) -> str:
    """A value that fits."""
    if told["choices"]:
        return str(told["choices"][-1])
    if told["type"] == "string":
        return "x"
    least = told["minimum"] if told["minimum"] is not None else told["maximum"]
    return str(least if least is not None else 1)


@pytest.mark.parametrize("name", every_command())
def test_what_is_left_out_has_the_default_that_is_told(manifest: dict[str, Any], name: str) -> None:
    told = by_name(manifest)[name]
    command = every_command()[name]
    required: list[str] = []
    for option in told["options"]:
        required += [option["names"][0], sample(option)] if option["required"] else []
    required += [sample(argument) for argument in told["arguments"] if argument["required"]]
    context = click.Context(command, info_name=name)
    command.parse_args(context, required)
    spelled = {spelling: each for each in command.params for spelling in each.opts}
    for option in told["options"]:
        if not option["required"]:
            value = context.params[str(spelled[option["names"][0]].name)]
            assert (list(value) if option["repeatable"] else value) == option["default"], option["names"]


def test_a_value_beyond_the_bounds_that_are_told_is_refused(manifest: dict[str, Any]) -> None:
    bounded = [
        (name, option)
        for name, told in by_name(manifest).items()
        for option in told["options"]
        if option["type"] == "integer" and option["maximum"] is not None and not told["arguments"]
    ]
    assert bounded
    for name, option in bounded:
        context = click.Context(every_command()[name])
        with pytest.raises(click.BadParameter):
            every_command()[name].parse_args(context, [option["names"][0], str(option["maximum"] + 1)])


def test_all_errors_and_exit_codes_are_told(manifest: dict[str, Any]) -> None:
    assert [(e["code"], e["exit_code"], e["retryable"]) for e in manifest["errors"]] == [
        (error.code, error.exit_code, error.retryable) for error in every_error()
    ]
    assert all(error["meaning"] for error in manifest["errors"])
    assert {entry["code"]: entry["meaning"] for entry in manifest["exit_codes"]} == EXIT_CODES
    assert {error["exit_code"] for error in manifest["errors"]} | {0} == set(EXIT_CODES)


def test_the_envelope_is_the_one_that_commands_answer_with(manifest: dict[str, Any], desk: Desk) -> None:
    told = {entry["path"] for entry in manifest["envelope"]}
    documents = [desk.robot("robot-docs", "--brief").document, desk.robot("list", "issues").document]
    found = {path for document in documents for path in paths({**document, "data": None}, set())}
    found = {path if not path.startswith("error.details") else "error.details" for path in found}
    assert found | {"error"} == told


# With the reference


def test_the_shipped_field_lists_are_those_of_the_reference() -> None:
    assert SHIPPED.read_text(encoding="utf-8") == shipped_text(), "run `python -m tests.architecture.schemas`"


@pytest.mark.parametrize("name", every_command())
def test_an_answer_is_told_as_the_reference_tells_it(manifest: dict[str, Any], name: str) -> None:
    told = {field["path"]: field["meaning"] for field in by_name(manifest)[name]["output"]}
    assert told == schema(name)
    assert all(told.values())
    assert told


def test_what_the_reference_gives_by_reference_is_spelled_out() -> None:
    assert schema("scrub") == schema("ingest")
    assert {f"cursors[].{path}" for path in schema("cursors show")} < set(schema("sync-status"))
    assert "scrubbed[].children[].kind" in schema("ingest")
    for name, found in every_schema().items():
        objects = {path for path, meaning in found.items() if "with the fields of" in meaning}
        assert all(any(other.startswith(f"{path}.") for other in found) for path in objects), name


@pytest.mark.parametrize("name", every_command())
def test_the_options_are_those_of_the_reference(manifest: dict[str, Any], name: str) -> None:
    documented = {code(row[0]).split()[0] for row in rows(sections("commands.md")[f"lore {name}"])}
    assert {option["names"][0] for option in by_name(manifest)[name]["options"]} == documented


def test_the_global_options_are_told_once_for_all(manifest: dict[str, Any]) -> None:
    documented = {row[0] for row in rows(sections("commands.md")["Global options"])}
    assert {described(option)[0] for option in global_options()} == documented
    assert {option["names"][0] for option in manifest["global_options"]} == {
        code(cell).split()[0] for cell in documented
    }


def test_its_own_answer_has_the_documented_fields(manifest: dict[str, Any]) -> None:
    known = set(schema("robot-docs"))
    containers = {path for path in known if any(other.startswith(f"{path}.") for other in known)}
    # No global option has choices or is repeatable.
    empty = {"global_options[].choices[]", "global_options[].default[]"}
    assert set(paths(manifest, known)) == known - containers - empty


# How it is asked for


def test_people_get_the_same_document_indented(manifest: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["robot-docs"]) == 0
    said = capsys.readouterr().out
    assert json.loads(said) == manifest
    assert said.startswith('{\n  "version"')


def test_briefly_means_names_and_a_line_each(manifest: dict[str, Any], desk: Desk) -> None:
    data = desk.robot("robot-docs", "--brief").data
    assert data == {
        "version": __version__,
        "commands": [{"name": told["name"], "summary": told["summary"]} for told in manifest["commands"]],
    }
    assert all(told["summary"] and "\n" not in told["summary"] for told in data["commands"])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["count"], ["count"]),
        (["list", "issues"], ["list issues"]),
        (["list issues"], ["list issues"]),
        (["list"], ["list issues", "list mrs", "list posts"]),
        (["sync-runs"], ["sync-runs", "sync-runs show"]),
        (["sync-runs", "show"], ["sync-runs show"]),
    ],
)
def test_a_command_or_a_group_can_be_asked_for_alone(
    manifest: dict[str, Any], desk: Desk, words: list[str], names: list[str]
) -> None:
    document = desk.robot("robot-docs", *words).document
    assert document["meta"]["command"] == "robot-docs"
    assert document["data"] == {"version": __version__, "commands": [by_name(manifest)[name] for name in names]}


@pytest.mark.parametrize(("wrong", "near"), [("lits", "`lore robot-docs list`"), ("sho", "show"), ("zzz", "--brief")])
def test_a_command_that_does_not_exist_is_refused_with_a_near_one(desk: Desk, wrong: str, near: str) -> None:
    done = desk.robot("robot-docs", wrong)
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert near in done.error["fix"]


def test_it_loads_no_client_no_loop_and_opens_no_database(desk: Desk) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "robot-docs", "--robot", "--db", str(desk.db)],
        capture_output=True, text=True, env=dict(os.environ), check=True,
    )  # fmt: skip
    exit_code, modules = json.loads(done.stderr)
    assert exit_code == 0
    assert {"httpx2", "asyncio", "ssl", "psycopg", "rich", "tidelore_world"} & set(modules) == set()
    assert not desk.db.exists()
