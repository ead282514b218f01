"""The console in a real terminal, as a process of its own: painted, left with a key, and nothing left behind."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.faces.console.copy_room import SETTINGS
from tests.faces.desk import LEDGER, Desk
from tests.faces.test_documented_shapes import compare
from tests.support.deep import deep

from tidelore.app.wiring import App
from tidelore.core.errors import TideloreError
from tidelore.store.database.opening import open_database

QUIET = "[service]\nmetrics_port = 0\n"
_COLOUR = re.compile(rb"\x1b\[(?:[\d;]*;)?(?:3[0-8]|4[0-8]|9\d|10[0-7])[\d;]*m")


class Terminal:
    """A terminal of 80 by 24 with `lore` in it."""

    def __init__(
        self, folder: Path, database: str, *argv: str, settings: str = f"{SETTINGS}\n{QUIET}", **environ: str
    ) -> None:
        config = folder / "config.toml"
        config.write_text(settings)
        words = [*argv, "--config", str(config), "--db", database]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LORE_", "NO_COLOR", "XDG_"))}
        full = kept | {"TERM": "xterm-256color", "HOME": str(folder)} | environ
        self.pid, self._fd = pty.fork()
        if self.pid == 0:  # pragma: no cover - the child is another program
            os.execve(sys.executable, [sys.executable, "-c", "from tidelore.cli.entry import run; run()", *words], full)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen = b""

    def wait_for(self, text: str, seconds: float = 30) -> None:
        """Read until a text was painted."""
        until = time.monotonic() + seconds
        while text.encode() not in self.seen:
            assert time.monotonic() < until, self.seen[-2000:]
            self._read(0.1)

    def drain(self) -> None:
        """Read what there is, or wait a moment for something."""
        self._read(0.1)

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def end(self, seconds: float = 30) -> int:
        """Read to the end and return the exit code."""
        until = time.monotonic() + seconds
        while self._read(0.1):
            assert time.monotonic() < until, self.seen[-2000:]
        _, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return True
        try:
            found = os.read(self._fd, 65_536)
        except OSError:
            return False
        self.seen += found
        return bool(found)


@pytest.mark.deep
def test_lore_top_is_rendered_and_quits_with_q(copy: App, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, copy.address, "top")
    terminal.wait_for("pull request blocked")
    terminal.press("6")
    terminal.wait_for("generate-docs")
    terminal.press("q")
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.seen
    # The terminal is given back as it was: the main screen, the cursor, no mouse.
    assert terminal.seen.rindex(b"\x1b[?1049l") > terminal.seen.rindex(b"\x1b[?1049h")
    assert terminal.seen.rindex(b"\x1b[?25h") > terminal.seen.rindex(b"\x1b[?25l")


@pytest.mark.deep
def test_no_colour_codes_are_sent_when_colours_are_off(copy: App, tmp_path: Path) -> None:
    for argv, environ in (((), {"NO_COLOR": "1"}), (("--no-color",), {})):
        terminal = Terminal(tmp_path, copy.address, "top", *argv, **environ)
        terminal.wait_for("pull request blocked")
        terminal.press("q")
        assert terminal.end() == 0
        assert _COLOUR.search(terminal.seen) is None


@pytest.mark.deep
def test_colour_codes_are_sent_when_colours_are_on(copy: App, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, copy.address, "top")
    terminal.wait_for("pull request blocked")
    terminal.press("q")
    assert terminal.end() == 0
    assert _COLOUR.search(terminal.seen) is not None


def test_lore_without_arguments_opens_the_console_and_quitting_stops_the_service(tmp_path: Path) -> None:
    path = str(tmp_path / "fresh.db")
    terminal = Terminal(tmp_path, path)
    terminal.wait_for("service here")
    terminal.press("q")
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.seen
    database = open_database(path, create=False)
    assert database.read("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
    assert database.read("SELECT DISTINCT state FROM service_jobs") == [("stopped",)]
    assert database.read("SELECT holder_host FROM leases WHERE name = 'service'") == [(None,)]
    database.close()


@pytest.mark.deep
def test_a_job_runs_after_its_key_and_a_confirmation(desk: Desk, tmp_path: Path) -> None:
    desk.configure(LEDGER, extra=f'{QUIET}[embedding]\nprovider = "none"\n')
    path = str(tmp_path / "served.db")

    def turns() -> int:
        """How many syncs have reached their end."""
        with suppress(TideloreError), closing(open_database(path, create=False)) as database:
            return int(
                database.read("SELECT COUNT(*) FROM sync_runs WHERE command = 'lore sync' AND finished_at > 0")[0][0]
            )
        return 0

    def until(count: int) -> None:
        for _ in range(600):
            if turns() >= count:
                return
            terminal.drain()
        raise AssertionError(terminal.seen[-2000:])

    terminal = Terminal(tmp_path, path, "console", settings=desk.config.read_text())
    terminal.wait_for("service here")
    until(1)
    terminal.press("3")
    terminal.wait_for("Run now")
    # The sources are copy and gitlab: from the first to the second.
    terminal.press("\x1b[B")
    terminal.press("r")
    terminal.wait_for("Run gitlab:gitlab now?")
    assert turns() == 1
    terminal.press("y")
    terminal.wait_for("gitlab:gitlab: due now")
    until(2)
    terminal.press("q")
    assert terminal.end() == 0
    assert turns() == 2


@pytest.mark.parametrize(
    "leaving",
    [signal.SIGTERM, *(deep(leaving) for leaving in (signal.SIGHUP, "\x03"))],
    ids=repr,
)
@pytest.mark.deep
def test_a_signal_stops_the_console_and_its_service_cleanly(tmp_path: Path, leaving: signal.Signals | str) -> None:
    path = str(tmp_path / "fresh.db")
    terminal = Terminal(tmp_path, path, "console")
    terminal.wait_for("service here")
    if isinstance(leaving, str):
        terminal.press(leaving)
    else:
        os.kill(terminal.pid, leaving)
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.seen
    database = open_database(path, create=False)
    assert database.read("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
    assert database.read("SELECT holder_host FROM leases WHERE name = 'service'") == [(None,)]
    database.close()


@pytest.mark.parametrize("name", ["top", "console"])
def test_the_console_is_refused_without_a_terminal(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidelore.cli.main import main

    assert main([name, "--db", str(tmp_path / "lore.db")]) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_lore_without_arguments_and_terminal_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    from tidelore.cli.main import main

    assert main([]) == 2
    assert "Usage: lore" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["top", "console"])
def test_robot_mode_gives_the_first_screen_with_the_documented_fields(
    copy: App, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    from tidelore.cli.main import main

    config = tmp_path / "config.toml"
    config.write_text(SETTINGS)
    assert main(["--robot", "--full", name, "--config", str(config), "--db", copy.address]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    compare("top", data)
    assert [source["name"] for source in data["sources"]] == ["bluesky", "github", "gitlab"]
    assert [(run["id"], run["done"], run["total"]) for run in data["running"]] == [(7, 340, 1200)]
    assert [source["requests_allowed"] for source in data["sources"]] == [None, 5000, None]
    assert len(data["requests_by_minute"]) == len(data["items_by_minute"]) == 60
