"""The fields of robot mode are those that `lore robot-docs` names, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from tests.architecture.command_reference import every_page_command
from tests.faces.desk import CONSOLE, LEDGER, Desk

from tidelore.cli.robot_docs import answer_schema, answer_shapes, read_fields


def paths(value: Any, known: set[str], here: str = "") -> Iterator[str]:
    """Every path that leads to a plain value; keys that are data become `*` where the reference says so."""
    if isinstance(value, dict):
        for key, inner in value.items():
            free = f"{here}.*" if here else "*"
            yield from paths(inner, known, free if free in known else f"{here}.{key}" if here else key)
    elif value == [] and f"{here}[]" in known:
        yield f"{here}[]"
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, known, f"{here}[]")
    else:
        yield here


def empty(value: Any, known: set[str], here: str = "") -> Iterator[str]:
    """Every path that holds nothing: null, or an empty list or object, so that what is inside cannot be seen."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            free = f"{here}.*" if here else "*"
            yield from empty(inner, known, free if free in known else f"{here}.{key}" if here else key)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from empty(inner, known, f"{here}[]")
    elif value is None or value in ([], {}):
        yield here


def differences(known: set[str], answers: tuple[Any, ...]) -> list[str]:
    """The paths that are told and not documented, or documented and not told although there is something to tell."""
    found = {path for answer in answers for path in paths(answer, known)}
    hollow = {path for answer in answers for path in empty(answer, known)}
    # A field that holds either null or an object is named by itself and by what is inside.
    objects = {path for path in known if any(other.startswith((f"{path}.", f"{path}[]")) for other in known)}
    hidden = {path for path in known for above in hollow if path.startswith((f"{above}.", f"{above}[]"))}
    return sorted((found - known) | (known - found - objects - hidden))


def compare(command: str, *answers: Any) -> None:
    """Compare answers with the fields of the Structs a command may answer with; each answer has those of one."""
    shapes = [set(read_fields(shape)) for shape in answer_shapes(every_page_command()[command])]
    fitting = [next((known for known in shapes if not set(paths(one, known)) - known), shapes[0]) for one in answers]
    for known in shapes:
        told = tuple(one for one, fit in zip(answers, fitting, strict=True) if fit is known)
        assert not told or differences(known, told) == [], command
    for answer in answers if command != "robot-docs" else ():
        fits_schema(command, answer)


def fits_schema(command: str, answer: Any) -> None:
    """Compare an answer with the JSON schema that `lore robot-docs --schema` gives to programs."""
    jsonschema.validate(answer, answer_schema(every_page_command()[command]))


@pytest.fixture
def filled(desk: Desk) -> Desk:
    """A copy with something in every corner: a run, a quarantined item, a deletion."""
    fault = desk.world.faults.add("invalid_timestamp", "/projects/:id/issues", 1)
    desk.ingested()
    assert fault.fired
    desk.ingested("merge_requests")
    return desk


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("list issues", []),
        ("list mrs", []),
        ("sync-status", []),
        ("cursors list", []),
        ("cursors show", ["gitlab.issues", "ledger"]),
        ("cursors reset", ["gitlab.issues", "ledger", "--yes"]),
        ("check", []),
        ("doctor", []),
        ("generate-docs", []),
        ("completions", ["fish"]),
        ("init", ["--overwrite", "-p", "a/b"]),
    ],
)
def test_every_command_answers_with_the_documented_fields(filled: Desk, command: str, argv: list[str]) -> None:
    filled.set_clock()
    compare(command, filled.robot(*command.split(), *argv).data)


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("list issues", []),
        ("list mrs", []),
        ("list posts", []),
        ("show issue", ["2", "-p", "ledger"]),
        ("search", ["crane"]),
        ("threads", []),
        ("context", ["harbor/platform/ledger#2"]),
        ("changes", ["--since", "2020-01-01"]),
        ("count", []),
        ("status", []),
        ("sync-status", []),
        ("sync-runs", []),
        ("coverage", []),
        ("cursors list", []),
        ("metrics", []),
        ("doctor", []),
        ("robot-docs", ["list issues"]),
    ],
)
@pytest.mark.parametrize("full", [[], ["--full"]])
def test_the_short_and_the_full_form_of_an_answer_fit_its_schema(
    filled: Desk, command: str, argv: list[str], full: list[str]
) -> None:
    told = filled.run(*full, *command.split(), *argv, "--robot")
    fits_schema(command, told.document["data"])


def test_a_run_is_reported_with_the_documented_fields(filled: Desk) -> None:
    filled.world.gitlab.forbid_project(CONSOLE)
    filled.world.advance(3600)
    filled.world.gitlab.add_note(filled.world.gitlab.issue(LEDGER, 2), body="The crane stops at 40 %.")
    filled.query("UPDATE leases SET holder_host = 'elsewhere', holder_pid = 1, holder_started = 'x', heartbeat_at = 1")
    filled.query("UPDATE sync_runs SET status = 'running', finished_at = NULL, heartbeat_at = 1 WHERE id = 1")
    done = filled.robot("ingest", "--type", "issues")
    assert done.code == 7
    data = done.document["data"]
    assert data["lease"] == "stale"
    assert data["crashed_runs_closed"] == [1]
    scrubbed = filled.robot("scrub", "--all").document["data"]
    assert scrubbed["scopes"] == []
    assert any(scope["error"] for scope in scrubbed["scrubbed"])
    compare("ingest", data, scrubbed)
