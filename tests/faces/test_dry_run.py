"""`lore sync --dry-run` of named items as a real process: nothing is opened, made, asked for or looked up."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faces.desk import LEDGER, Desk
from tests.support.deep import gate_cases

ELSEWHERE = "https://forge.invalid"
NAMED = ("sync", "--issue", f"{LEDGER}#2", "--mr", f"{LEDGER}!1", "--issue", f"{ELSEWHERE}/harbor/quay/-/issues/7")
CLIENTS = ("apsw", "psycopg", "keyring")
"""Without these no database is opened, and no keyring."""


@pytest.fixture
def watched(desk: Desk) -> Desk:
    """Two hosts, one of which needs a token, and a sign-in tool that remembers that it was called."""
    other = f'[[gitlab]]\nname = "elsewhere"\nbase_url = "{ELSEWHERE}"\nprojects = ["harbor/quay"]\n'
    desk.config.write_text(other + desk.config.read_text())
    tools = desk.folder / "tools"
    tools.mkdir()
    for name in ("glab", "gh", "git", "python"):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\necho "$@" >> "{called(desk)}"\nexit 1\n')
        tool.chmod(0o755)
    desk.environ |= {"PATH": str(tools), "GITLAB_TOKEN": "", "PYTHONPROFILEIMPORTTIME": "1", "HOME": str(desk.folder)}
    return desk


def called(desk: Desk) -> Path:
    return desk.folder / "called"


def imported(err: str) -> set[str]:
    """The packages of a process that tells what it imports."""
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in err.splitlines() if "|" in line}


def contents(desk: Desk) -> dict[str, tuple[int, bytes]]:
    """Every file of the desk, to the byte, and when it was written."""
    files = [path for path in sorted(desk.folder.rglob("*")) if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.parametrize("copy", [True, False], ids=["a-copy", "no-copy"])
def test_a_dry_run_changes_no_file_and_sends_no_request(watched: Desk, copy: bool) -> None:
    if copy:
        assert watched.run("sync", "--issue", f"{LEDGER}#1").code == 0
        watched.query("UPDATE issues SET title = 'older than what is true'")
    before, asked = contents(watched), watched.world.requests.total()
    assert (str(watched.db) in before) is copy
    assert not [name for name in before if name.endswith(("-wal", "-shm", "-journal"))]

    done = watched.spawn(*NAMED, "--dry-run", "--robot")

    assert done.code == 0, done
    assert [target["reference"] for target in done.data["targets"]] == [
        f"{LEDGER}#2",
        "harbor/quay#7",
        f"{LEDGER}!1",
    ]
    assert contents(watched) == before
    assert watched.world.requests.total() == asked
    assert not imported(done.err) & set(CLIENTS)
    assert not called(watched).exists()


def test_the_same_command_without_dry_run_needs_a_token_and_opens_the_database(watched: Desk) -> None:
    """Otherwise the test above could not fail."""
    watched.run("sync", "--issue", f"{LEDGER}#1", "--no-embed")
    done = watched.spawn(*NAMED, "--robot")
    assert (done.code, done.error["code"]) == (4, "SURGICAL_PREFLIGHT_FAILED"), done
    assert [failure["code"] for failure in done.document["data"]["entity_failures"]] == ["AUTH_FAILED"]
    assert called(watched).read_text()
    assert "apsw" in imported(done.err)


@pytest.mark.parametrize(
    "argv",
    [
        ["--issue", "0"],
        ["--issue", f"{LEDGER}#1", "--full"],
        ["--issue", f"{LEDGER}#1", "--no-docs"],
        ["--issue", "nowhere/at-all#1", "--dry-run"],
    ],
)
@gate_cases(2)
def test_invalid_arguments_are_refused_before_anything_is_opened(watched: Desk, argv: list[str]) -> None:
    before = contents(watched)
    done = watched.spawn("sync", *argv, "--robot")
    assert done.code in {2, 6}, done
    assert contents(watched) == before
    assert not imported(done.err) & set(CLIENTS)
    assert not called(watched).exists()
