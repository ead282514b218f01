"""The fields of robot mode are those the reference names, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.architecture.reference import fields, sections
from tests.faces.desk import CONSOLE, LEDGER, Desk

CURSOR = fields(sections("commands.md")["lore cursors show"])
SCOPE = {
    path.removeprefix("scopes[].")
    for path in fields(sections("commands.md")["lore ingest"])
    if path.startswith("scopes[].")
}
SHARED = {"scrubbed[]": SCOPE, "cursors[]": CURSOR, "items[]": CURSOR, "reset": CURSOR}


def documented(command: str) -> set[str]:
    """The paths of a command, those given by reference spelled out."""
    found: set[str] = set()
    for path in fields(sections("commands.md")[f"lore {command}"]):
        shared = SHARED.get(path)
        found |= {path} if shared is None else {f"{path}.{inner}" for inner in shared}
    return found


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


def compare(command: str, *answers: Any) -> None:
    known = documented(command)
    # A field that holds either null or an object is named by itself and by what is inside.
    objects = {path for path in known if any(other.startswith(f"{path}.") for other in known)}
    found = {path for answer in answers for path in paths(answer, known)}
    assert found | objects == known


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
