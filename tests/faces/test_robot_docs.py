"""`lore robot-docs` describes exactly the commands, options and answers that exist."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Annotated, Any

import click
import msgspec
import pytest
from tests.architecture.test_offline_read import SCRIPT
from tests.faces.desk import LEDGER, Desk
from tests.faces.test_documented_shapes import compare, paths
from tests.support.deep import gate_cases

from tidelore import __version__
from tidelore.app.answers import means
from tidelore.cli.command import global_options
from tidelore.cli.main import COMMANDS, lore, main
from tidelore.cli.robot_docs import answer_shapes, read_fields
from tidelore.core.errors import EXIT_CODES, every_error
from tidelore.core.text import estimate_tokens

SHARED = {option.name for option in global_options()}


@pytest.fixture
def manifest(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["--full", "robot-docs", "--all", "--robot"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data


def by_name(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {command["name"]: command for command in manifest["commands"]}
    assert len(found) == len(manifest["commands"])
    return found


def every_command() -> dict[str, click.Command]:
    return commands_of(lore, "")


def commands_of(group: click.Group, before: str) -> dict[str, click.Command]:
    """Walk the tree without the code under test."""
    found: dict[str, click.Command] = {}
    for name in COMMANDS if group is lore else group.commands:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if not isinstance(command, click.Group) or command.invoke_without_command:
            found[f"{before}{name}"] = command
        if isinstance(command, click.Group):
            found |= commands_of(command, f"{before}{name} ")
    return found


# With the code


def test_the_manifest_lists_exactly_the_callable_commands(manifest: dict[str, Any]) -> None:
    assert set(by_name(manifest)) == set(every_command())
    assert {name.partition(" ")[0] for name in by_name(manifest)} == set(COMMANDS)


def test_a_command_line_made_from_the_manifest_parses(manifest: dict[str, Any]) -> None:
    failures = []
    for name, command in every_command().items():
        told = by_name(manifest)[name]
        context = click.Context(command, info_name=name)
        rest = command.parse_args(context, every_argument(told))
        own = {parameter.name for parameter in command.params if parameter.name not in SHARED}
        given = {key for key in own if context.get_parameter_source(str(key)) is click.core.ParameterSource.COMMANDLINE}
        if rest or given != own:
            failures.append(f"{name}: not understood {rest}, left out of the manifest {own - given}")
    assert not failures, "\n".join(failures)


def every_argument(told: dict[str, Any]) -> list[str]:
    """Return a command line with every option and argument of the manifest."""
    arguments: list[str] = []
    for option in told["options"]:
        values = [[]] if option["type"] == "boolean" else [[sample(option)]] * (2 if option["repeatable"] else 1)
        for value in values:
            arguments += [option["names"][0], *value]
    for argument in told["arguments"]:
        arguments += [sample(argument)] * (2 if argument["repeatable"] else 1)
    return arguments


def sample(told: dict[str, Any]) -> str:
    """A value that fits."""
    if told["choices"]:
        return str(told["choices"][-1])
    if told["type"] == "string":
        return "1m" if told.get("metavar") == "DURATION" else "x"
    least = told["minimum"] if told["minimum"] is not None else told["maximum"]
    return str(least if least is not None else 1)


def test_an_omitted_option_has_the_default_of_the_manifest(manifest: dict[str, Any]) -> None:
    failures = []
    for name, command in every_command().items():
        told = by_name(manifest)[name]
        required: list[str] = []
        for option in told["options"]:
            required += [option["names"][0], sample(option)] if option["required"] else []
        required += [sample(argument) for argument in told["arguments"] if argument["required"]]
        context = click.Context(command, info_name=name)
        command.parse_args(context, required)
        spelled = {spelling: each for each in command.params for spelling in each.opts}
        for option in told["options"]:
            if not spelled[option["names"][0]].expose_value:
                continue
            value = context.params[str(spelled[option["names"][0]].name)]
            value = list(value) if option["repeatable"] else value
            if not option["required"] and value != option["default"]:
                failures.append(f"{name} {option['names'][0]}: {value!r}, not {option['default']!r}")
    assert not failures, "\n".join(failures)


def test_a_value_outside_the_manifest_bounds_is_refused(manifest: dict[str, Any]) -> None:
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


def test_the_manifest_lists_all_errors_and_exit_codes(manifest: dict[str, Any]) -> None:
    assert [(e["code"], e["exit_code"], e["retryable"]) for e in manifest["errors"]] == [
        (error.code, error.exit_code, error.retryable) for error in every_error()
    ]
    assert all(error["meaning"] for error in manifest["errors"])
    assert {entry["code"]: entry["meaning"] for entry in manifest["exit_codes"]} == EXIT_CODES
    assert {error["exit_code"] for error in manifest["errors"]} | {0} == set(EXIT_CODES)


def test_the_manifest_envelope_matches_command_answers(manifest: dict[str, Any], desk: Desk) -> None:
    told = {entry["path"] for entry in manifest["envelope"]}
    documents = [desk.robot("robot-docs", "--brief").document, desk.robot("list", "issues").document]
    desk.ingested()
    documents.append(desk.robot("list", "issues").document)
    assert "items[].title" in documents[-1]["meta"]["untrusted"]
    desk.query("UPDATE cursors SET polled_at = 1")
    desk.query("UPDATE issues SET last_seen_at = 1")
    desk.world.gitlab.forbid_project(LEDGER)
    documents.append(desk.robot("show", "issue", f"{LEDGER}#2", "--max-age", "0s").document)
    found = {path for document in documents for path in paths({**document, "data": None}, set())}
    found = {path if not path.startswith("error.details") else "error.details" for path in found}
    assert found | {"error"} == told


def test_every_command_has_the_fields_of_the_structs_it_answers_with(manifest: dict[str, Any]) -> None:
    for name, told in by_name(manifest).items():
        fields = {field["path"]: field["meaning"] for field in told["output"]}
        assert fields == read_fields(*answer_shapes(every_command()[name])), name
        assert fields, name
        assert all(fields.values()), name


def fields_of(name: str) -> set[str]:
    return set(read_fields(*answer_shapes(every_command()[name])))


def test_shared_structs_are_expanded_in_the_manifest() -> None:
    assert fields_of("scrub") == fields_of("ingest")
    assert {f"cursors[].{path}" for path in fields_of("cursors show")} < fields_of("sync-status")
    assert "scrubbed[].children[].kind" in fields_of("ingest")


class Inner(msgspec.Struct):
    value: Annotated[int, means("the value")]


class Outer(msgspec.Struct):
    plain: Annotated[str, means("a text")]
    nullable: Annotated[Inner | None, means("null, or the inner one")]
    several: list[Inner]
    pairs: Annotated[list[tuple[str, int]], means("pairs")]
    named: Annotated[dict[str, Inner], means("by name")]
    numbers: Annotated[list[int] | None, means("null, or numbers")]
    left_out: Inner | msgspec.UnsetType = msgspec.UNSET


def test_paths_and_meanings_come_from_the_annotations_of_a_struct() -> None:
    assert read_fields(Outer) == {
        "plain": "a text",
        "nullable": "null, or the inner one",
        "nullable.value": "the value",
        "several[].value": "the value",
        "pairs[][]": "pairs",
        "named.*": "by name",
        "named.*.value": "the value",
        "numbers": "null, or numbers",
        "numbers[]": "null, or numbers",
        "left_out.value": "the value",
    }


def test_the_json_schema_of_a_command_is_given_on_request(desk: Desk) -> None:
    (told,) = desk.robot("robot-docs", "count", "--schema").data["commands"]
    counts = told["schema"]["$defs"]["Counts"]
    assert told["schema"]["$ref"] == "#/$defs/Counts"
    assert counts["properties"]["project"]["description"] == "the selected project, or null for all"
    assert "required" not in counts, "without --project the short form leaves it out"
    (both,) = desk.robot("robot-docs", "poll bluesky", "--schema").data["commands"]
    assert [one["$ref"] for one in both["schema"]["anyOf"]] == ["#/$defs/PolledAccounts", "#/$defs/AccountsPlan"]
    refused = desk.robot("robot-docs", "count", "--schema", "--brief")
    assert (refused.code, refused.error["code"]) == (2, "USAGE")


def test_the_global_options_are_listed_once_for_all_commands(manifest: dict[str, Any]) -> None:
    assert [option["names"] for option in manifest["global_options"]] == [option.opts for option in global_options()]


def test_robot_docs_answers_with_the_documented_fields(manifest: dict[str, Any]) -> None:
    # The schema of a JSON schema is not ours to document.
    compare("robot-docs", manifest | {"commands": [told | {"schema": ""} for told in manifest["commands"]]})


# How it is asked for


def test_robot_docs_without_robot_prints_the_same_document_indented(
    manifest: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["robot-docs", "--all"]) == 0
    said = capsys.readouterr().out
    assert json.loads(said) == manifest
    assert said.startswith('{\n  "version"')


def test_the_index_names_every_command_and_takes_at_most_1500_tokens(
    manifest: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["robot-docs", "--robot"]) == 0
    said = capsys.readouterr().out
    data = json.loads(said)["data"]
    assert set(data["commands"]) == set(by_name(manifest))
    assert {int(code): meaning for code, meaning in data["exit_codes"].items()} == EXIT_CODES
    assert estimate_tokens(said) <= 1500
    compare("robot-docs", data)


def test_brief_robot_docs_have_command_names_and_summaries_only(manifest: dict[str, Any], desk: Desk) -> None:
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
        (["list"], ["list issues", "list mrs", "list posts", "list topics"]),
        (["sync-runs"], ["sync-runs", "sync-runs show"]),
        (["sync-runs", "show"], ["sync-runs show"]),
    ],
)
@gate_cases(3)
def test_robot_docs_can_be_limited_to_a_command_or_group(
    manifest: dict[str, Any], desk: Desk, words: list[str], names: list[str]
) -> None:
    document = desk.robot("robot-docs", *words).document
    assert document["meta"]["command"] == "robot-docs"
    assert document["data"] == {"version": __version__, "commands": [by_name(manifest)[name] for name in names]}


@pytest.mark.parametrize(("wrong", "near"), [("lits", "`lore robot-docs list`"), ("sho", "show"), ("zzz", "--brief")])
def test_robot_docs_of_an_unknown_command_suggest_a_near_one(desk: Desk, wrong: str, near: str) -> None:
    done = desk.robot("robot-docs", wrong)
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert near in done.error["fix"]


def test_robot_docs_import_no_client_or_event_loop_and_open_no_database(desk: Desk) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "robot-docs", "--all", "--robot", "--db", str(desk.db)],
        capture_output=True, text=True, env=dict(os.environ), check=True,
    )  # fmt: skip
    exit_code, modules = json.loads(done.stderr)
    assert exit_code == 0
    assert {"httpx2", "asyncio", "ssl", "psycopg", "rich", "tidelore_world.world"} & set(modules) == set()
    assert not desk.db.exists()
