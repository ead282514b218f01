"""A terminal that disappears, stops reading or loses its console: every process ends, and the copy is left in order."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.faces.console.copy_room import SETTINGS
from tests.faces.console.test_terminal import QUIET, Terminal

from tidelore.app.console import ConsoleActions
from tidelore.app.wiring import App
from tidelore.console import backend as console_backend
from tidelore.console.backend import Backend
from tidelore.console.log import Logbook
from tidelore.core.errors import Cancelled
from tidelore.store.database.opening import open_database

FULL = 4_000
"""When a terminal has this many unread bytes, it takes no more, or hardly any."""


def _wait_for_group(group: int, seconds: float = 60) -> None:
    """Wait until no process of a group is left; the first one is our child."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(ChildProcessError):
            os.waitpid(group, os.WNOHANG)
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        select.select([], [], [], 0.05)
    os.killpg(group, signal.SIGKILL)
    raise AssertionError("a process of the console is still running")


def _is_in_order(path: str) -> bool:
    with closing(open_database(path, create=False)) as database:
        running = database.read("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'")
        held = database.read("SELECT COUNT(*) FROM leases WHERE holder_host IS NOT NULL")
    return running == held == [(0,)]


@pytest.mark.deep
def test_a_terminal_that_is_closed_ends_the_console_and_its_service(tmp_path: Path) -> None:
    path = str(tmp_path / "fresh.db")
    terminal = Terminal(tmp_path, path, "console")
    terminal.wait_for("service here")
    os.close(terminal._fd)
    _wait_for_group(terminal.pid)
    assert _is_in_order(path)


@pytest.mark.deep
def test_a_closed_terminal_that_sends_no_signal_ends_the_console_too(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f"{SETTINGS}\n{QUIET}")
    path = str(tmp_path / "fresh.db")
    ours, theirs = pty.openpty()
    words = ["console", "--config", str(tmp_path / "config.toml"), "--db", path]
    # Not its controlling terminal, so nothing is sent to the process when it is closed.
    process = subprocess.Popen(
        [sys.executable, "-c", "from tidelore.cli.entry import run; run()", *words],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while b"service here" not in seen:
        seen += os.read(ours, 65_536)
    os.close(ours)
    assert process.wait(60) == 0
    _wait_for_group(process.pid)
    assert _is_in_order(path)


@pytest.mark.deep
def test_sigterm_ends_a_console_whose_terminal_takes_no_output(tmp_path: Path) -> None:
    path = str(tmp_path / "fresh.db")
    terminal = Terminal(tmp_path, path, "console")
    terminal.wait_for("service here")
    # Each key paints a screen that is not read, until the terminal is full and the console waits for it.
    for _ in range(40):
        terminal.press("3456712")
    while _unread(terminal._fd) < FULL:
        select.select([], [], [], 0.05)
    os.kill(terminal.pid, signal.SIGTERM)
    _wait_for_group(terminal.pid)
    assert _is_in_order(path)


def _unread(terminal: int) -> int:
    """Return how many bytes a terminal has taken that were not read."""
    return int(struct.unpack("i", fcntl.ioctl(terminal, termios.FIONREAD, b"\0" * 4))[0])


@pytest.mark.deep
def test_the_service_stops_when_its_console_is_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "fresh.db")
    terminal = Terminal(tmp_path, path, "console")
    terminal.wait_for("service here")
    os.kill(terminal.pid, signal.SIGKILL)
    _wait_for_group(terminal.pid)
    assert _is_in_order(path)


class _SlowActions(ConsoleActions):
    """Actions whose server does not answer."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.asked = threading.Event()

    def ask(self) -> str:
        async def wait() -> str:
            self.asked.set()
            await asyncio.Event().wait()
            return "done"

        return self._run(wait())


def _left(app: App, *, reads: bool) -> tuple[list[str], list[BaseException | None]]:
    """Leave the console while an action waits; return what the user is told and the errors of the actions."""
    told: list[str] = []
    actions = _SlowActions(app)
    backend = Backend(app, Logbook(), None, actions)

    async def begin() -> None:
        work = asyncio.ensure_future(backend.act(actions.ask, "Post this reply to ledger#7", reads=reads))
        await asyncio.to_thread(actions.asked.wait)
        work.cancel()

    asyncio.run(begin())
    backend.close(told.append)
    return told, [one.future.exception(10) for one in backend._work]


def test_leaving_the_console_cancels_a_refresh_at_once(copy: App) -> None:
    told, errors = _left(copy, reads=True)
    assert told == []
    assert [type(error) for error in errors] == [Cancelled]


def test_leaving_the_console_waits_for_a_reply_only_for_a_while_and_says_so(
    copy: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_backend, "LEAVE_SECONDS", 0.1)
    told, errors = _left(copy, reads=False)
    assert told[0] == "Finishing: Post this reply to ledger#7 …"
    assert "Not confirmed: Post this reply to ledger#7" in told[1]
    assert [type(error) for error in errors] == [Cancelled]
