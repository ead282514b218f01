"""Where output goes: data on stdout, progress on a terminal's stderr only, and no stdout that ends in a traceback."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faces.desk import COMMAND, LEDGER, Desk
from tests.support.deep import gate_cases

ESCAPE = "\x1b["


def on_a_terminal(argv: list[str], typed: str = "", **environ: str) -> tuple[int, str, str]:
    """Run a command whose stdin and stderr are a terminal; return its code, stdout, and what the terminal showed."""
    main_end, far_end = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        argv,
        stdin=far_end,
        stdout=subprocess.PIPE,
        stderr=far_end,
        env=plain | {"TERM": "xterm-256color", "COLUMNS": "100"} | environ,
        text=True,
    )
    os.close(far_end)
    if typed:
        os.write(main_end, typed.encode())
    shown = b""
    while True:
        try:
            chunk = os.read(main_end, 65536)
        except OSError:
            # Linux answers so when the last writer has gone.
            break
        if not chunk:
            break
        shown += chunk
    os.close(main_end)
    out, _ = process.communicate(timeout=30)
    return process.returncode, out, shown.decode()


def test_progress_is_drawn_on_stderr_and_the_report_on_stdout(desk: Desk) -> None:
    code, out, shown = on_a_terminal(desk.arguments("ingest", "--type", "issues"))
    assert code == 0
    assert "Total: 7 issues" in out
    assert ESCAPE not in out
    assert f"{LEDGER} issues" in shown
    assert "Total" not in shown


@pytest.mark.parametrize("flag", ["--quiet", "--robot"])
@gate_cases(1)
def test_no_progress_is_drawn_with_quiet(desk: Desk, flag: str) -> None:
    code, out, shown = on_a_terminal(desk.arguments("ingest", "--type", "issues", flag))
    assert (code, shown) == (0, "")
    assert out


def test_no_progress_is_drawn_without_a_terminal(desk: Desk) -> None:
    done = desk.spawn("ingest", "--type", "issues", FORCE_COLOR="")
    assert done.code == 0
    assert done.err == ""
    assert ESCAPE not in done.out


def test_an_error_is_coloured_on_a_terminal_only(desk: Desk) -> None:
    _, _, shown = on_a_terminal(desk.arguments("cuont"))
    assert f"{ESCAPE}31m" in shown
    assert ESCAPE not in desk.spawn("cuont").err


@pytest.mark.parametrize(("flags", "environ"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})])
@pytest.mark.parametrize("argv", [["cuont"], ["ingest", "--type", "issues"]], ids=" ".join)
@gate_cases(2)
def test_colours_can_be_turned_off(desk: Desk, argv: list[str], flags: list[str], environ: dict[str, str]) -> None:
    _, _, shown = on_a_terminal(desk.arguments(*flags, *argv), **environ)
    assert shown
    # Moving the cursor is no colour; `ESC [ ... m` is, unless it only resets.
    assert re.findall(r"\x1b\[(?!0?m)[0-9;]*3[0-9](?:;[0-9]+)*m", shown) == []


def test_an_empty_no_color_variable_is_ignored(desk: Desk) -> None:
    _, _, shown = on_a_terminal(desk.arguments("cuont"), NO_COLOR="")
    assert f"{ESCAPE}31m" in shown


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 2)])
def test_a_confirmation_is_asked_on_the_terminal_and_not_on_stdout(desk: Desk, typed: str, code: int) -> None:
    desk.ingested()
    done, out, shown = on_a_terminal(desk.arguments("cursors", "reset", "gitlab.issues", "ledger"), typed)
    assert done == code
    assert f"Reset gitlab.issues {LEDGER}?" in shown
    assert "[y/N]" not in out


@pytest.mark.parametrize(
    "argv", [["--help"], ["count"], ["--robot", "count"], ["demo", "--scale", "0.1"]], ids=" ".join
)
def test_a_closed_pipe_is_not_a_failure(desk: Desk, argv: list[str]) -> None:
    desk.ingested()
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            desk.arguments(*argv), stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stdout_does_not_crash(desk: Desk) -> None:
    desk.ingested()
    shell = ["sh", "-c", '"$@" >&-', "sh"]
    done = subprocess.run([*shell, *desk.arguments("count")], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    failed = subprocess.run([*shell, *desk.arguments("cuont")], capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("mode", [[], ["--robot"]])
def test_a_full_disk_behind_stdout_is_reported(desk: Desk, mode: list[str]) -> None:
    desk.ingested()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            desk.arguments("count", *mode), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot write to stdout: No space left on device\n"


NAME = "häfen/記録-😀"


def test_every_character_is_written_to_a_utf_8_reader(desk: Desk) -> None:
    desk.world.gitlab.create_project(NAME)
    desk.configure(NAME)
    done = desk.spawn("ingest", "--type", "issues", PYTHONIOENCODING="utf-8")
    assert f"{NAME}: 0 issues fetched" in done.out


def test_a_terminal_that_cannot_show_a_character_shows_a_substitute(desk: Desk) -> None:
    desk.world.gitlab.create_project(NAME)
    desk.configure(NAME)
    done = desk.spawn("ingest", "--type", "issues", encoding="latin-1", PYTHONIOENCODING="latin-1")
    assert done.code == 0
    assert "häfen/??-?: 0 issues fetched" in done.out


def test_robot_mode_is_utf_8_on_any_terminal(desk: Desk) -> None:
    desk.world.gitlab.create_project(NAME)
    desk.configure(NAME)
    done = desk.spawn("ingest", "--type", "issues", "--robot", PYTHONIOENCODING="latin-1")
    assert done.data["scopes"][0]["project"] == NAME
    assert NAME in done.out


def test_the_installed_command_is_this_program(home: Path) -> None:
    script = Path(sys.executable).with_name("lore")
    assert script.exists(), "install the package before testing it"
    commands = ([str(script), "--version"], [*COMMAND, "--version"], [*COMMAND, "--version", "--no-color"])
    answers = {subprocess.run(c, capture_output=True, text=True, timeout=60, check=True).stdout for c in commands}
    assert len(answers) == 1
