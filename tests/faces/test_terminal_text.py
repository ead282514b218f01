"""Long texts on a terminal: rendered Markdown and the pager, each with its way out."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest
from tests.faces.desk import LEDGER, Desk

from tidelore.cli.output.pager import pager_command
from tidelore.core.markdown import markdown_block

MARKDOWN = "<!-- template -->\n# Plan\n\nWe use **partitions** and `vacuum`.\n\n- first\n- second\n"


@pytest.fixture
def written(desk: Desk) -> Desk:
    """A desk whose first issue is long and written in Markdown."""
    with desk.world.lock:
        text = MARKDOWN + "\n".join(f"\nparagraph {number}" for number in range(40))
        desk.world.gitlab.edit_issue(LEDGER, 1, description=text)
    assert desk.run("ingest", "--type", "issues").code == 0
    return desk


def on_a_real_terminal(desk: Desk, *argv: str, rows: int = 24, **environ: str) -> str:
    """Run a command in a process whose stdout is a terminal; return what the terminal got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in {"PAGER", "LESS", "COLUMNS", "NO_COLOR"}}
    process = subprocess.Popen(
        desk.arguments(*argv), stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=kept | environ
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass  # Linux reports the end of a terminal as an error.
    os.close(ours)
    _, problem = process.communicate(timeout=30)
    assert process.returncode == 0, problem
    return shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_rendered_markdown_in_the_pager_and_plain_text_with_plain(
    written: Desk, tmp_path: Path
) -> None:
    paged = tmp_path / "paged.txt"
    pager = f'{sys.executable} -c \'import sys; open("{paged}", "w").write(sys.stdin.read())\''
    reference = f"{LEDGER}#1"
    assert on_a_real_terminal(written, "show", "issue", reference, LORE_PAGER=pager) == ""
    text = paged.read_text()
    assert "\x1b[1mpartitions\x1b[0m" in text
    assert "**" not in text
    assert "template" not in text
    paged.unlink()
    plain = on_a_real_terminal(written, "show", "issue", reference, "--plain", LORE_PAGER=pager)
    assert "We use **partitions** and `vacuum`." in plain
    short = on_a_real_terminal(written, "show", "issue", reference, rows=200, LORE_PAGER=pager, NO_COLOR="1")
    assert "We use partitions and vacuum." in short
    assert "\x1b" not in short
    assert not paged.exists()


def test_a_pipe_gets_markdown_as_it_is_written_and_no_pager(written: Desk) -> None:
    done = written.spawn("show", "issue", f"{LEDGER}#1", LORE_PAGER="false")
    assert "We use **partitions** and `vacuum`." in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({}, ["less"]),
        ({"PAGER": "most -w"}, ["most", "-w"]),
        ({"PAGER": "more", "LORE_PAGER": "less -S"}, ["less", "-S"]),
        ({"PAGER": "more", "LORE_PAGER": ""}, []),
        ({"PAGER": "cat"}, []),
        ({"PAGER": "less '"}, []),
    ],
)
def test_the_pager_is_chosen_by_lore_pager_then_pager_then_less(environ: dict[str, str], command: list[str]) -> None:
    assert pager_command(environ) == command


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07",
        "[click](https://evil.example)",
        "\x1b[2J\x9b31m",
        "a\u202eb",
    ],
)
def test_rendered_markdown_of_others_cannot_control_the_terminal(text: str) -> None:
    shown = "\n".join(markdown_block(text, 80))
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
    if "(https" in text:
        assert "click (https://evil.example)" in click.unstyle(shown)


def test_rendered_markdown_keeps_html_code_and_image_addresses_visible() -> None:
    shown = "\n".join(markdown_block("<b>x</b>\n\n```\n<!-- kept -->\n```\n\n![alt](https://host/i.png)\n", 80))
    assert "<b>x</b>" in shown
    assert "<!-- kept -->" in shown
    assert "https://host/i.png" in shown
