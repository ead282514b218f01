"""Shell completion of references, labels, projects and users from the local copy."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time

import pytest
from tests.faces.desk import COMMAND, CONSOLE, LEDGER, Desk

from tidelore.app.reading.completion import suggest_names, suggest_references
from tidelore.app.wiring import App, load_settings


def test_a_shell_completes_a_label_of_the_copy(desk: Desk) -> None:
    with desk.world.lock:
        desk.world.gitlab.edit_issue(LEDGER, 2, labels=["bug", "breaking"])
    desk.ingested()
    words = ["lore", "--db", str(desk.db), "--config", str(desk.config), "list", "issues", "--label", "b"]
    environ = {"_LORE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=os.environ | environ, timeout=60, check=True)
    assert done.stdout.split() == ["plain,breaking", "plain,bug"]


@pytest.fixture
def app(desk: Desk) -> App:
    desk.ingested()
    desk.ingested("merge_requests")
    return App(load_settings(str(desk.config)), {}, db=str(desk.db))


def test_references_are_completed_by_number_and_by_project(app: App) -> None:
    assert {one.word for one in suggest_references(app, ("issue",), "")} == {
        *(f"{LEDGER}#{number}" for number in range(1, 6)),
        *(f"{CONSOLE}#{number}" for number in (1, 2)),
    }
    assert {one.word for one in suggest_references(app, ("issue",), f"{LEDGER}#4")} == {f"{LEDGER}#4"}
    assert {one.word for one in suggest_references(app, ("mr",), f"{CONSOLE}!")} == {
        f"{CONSOLE}!{n}" for n in (1, 2, 3)
    }
    assert {one.word for one in suggest_references(app, ("issue", "mr"), "3")} == {"3"}
    assert all(one.meaning for one in suggest_references(app, ("issue",), "3"))
    assert {one.word for one in suggest_references(app, ("issue",), "harbor/w")} == {f"{CONSOLE}#"}


def test_projects_are_completed_by_any_part_of_their_path(app: App) -> None:
    assert [one.word for one in suggest_names(app, "project", "led")] == [LEDGER]
    assert [one.word for one in suggest_names(app, "project", "harbor/")] == [LEDGER, CONSOLE]
    assert suggest_names(app, "label", "100%_") == []


def test_without_a_database_nothing_is_suggested_and_none_is_created(desk: Desk) -> None:
    app = App(load_settings(str(desk.config)), {}, db=str(desk.db))
    assert suggest_references(app, ("issue",), "1") == []
    assert suggest_names(app, "label", "") == []
    assert not desk.db.exists()


def _installed(desk: Desk, shell: str) -> dict[str, str]:
    """Return the environment of a shell in which `lore` is a command; skip where the shell is not installed."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: `apt-get install {shell}`")
    with desk.world.lock:
        desk.world.gitlab.edit_issue(LEDGER, 2, labels=["bug", "breaking"])
    desk.ingested()
    program = desk.folder / "bin" / "lore"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from tidelore.cli.entry import run; run()" "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "LORE_DB": str(desk.db), "LORE_CONFIG": str(desk.config), "TERM": "xterm"}


@pytest.mark.deep
def test_fish_completes_commands_and_labels_with_the_printed_script(desk: Desk) -> None:
    environ = _installed(desk, "fish") | {"HOME": str(desk.folder)}
    script = 'lore completions fish | source; complete -C "lore thr"; complete -C "lore list issues --label b"'
    done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, env=environ, timeout=120, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["threads", "breaking", "bug"]


@pytest.mark.deep
def test_zsh_completes_commands_and_labels_with_the_printed_script(desk: Desk) -> None:
    environ = _installed(desk, "zsh")
    (desk.folder / ".zshrc").write_text(
        'PS1=ready; autoload -Uz compinit; compinit -u; eval "$(lore completions zsh)"\n'
    )
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the child is another program
        os.execvpe("zsh", ["zsh", "-i"], environ | {"ZDOTDIR": str(desk.folder), "HOME": str(desk.folder)})
    try:
        _read_until(terminal, b"ready")
        os.write(terminal, b"lore thr\t")
        _read_until(terminal, b"eads")
        os.write(terminal, b"\x15lore list issues --label b\t\t")
        _read_until(terminal, b"breaking")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def _read_until(terminal: int, wanted: bytes, seconds: float = 60) -> None:
    """Read from a terminal until it shows a text."""
    seen, until = b"", time.monotonic() + seconds
    while wanted not in seen:
        assert time.monotonic() < until, seen
        seen += os.read(terminal, 65_536)
