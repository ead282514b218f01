"""Random keys during a first mirror, on all screens and at three sizes: no error, and the console ends as it should."""

from __future__ import annotations

import fcntl
import random
import struct
import termios
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from benchmarks.workplace import served_world
from benchmarks.world_server import PROJECT, Contents
from tests.faces.console.stage import Seat, watch
from tests.faces.console.test_terminal import Terminal

from tidelore.app.console import ServiceThread
from tidelore.app.wiring import App
from tidelore.console.app import ConsoleApp
from tidelore.core.config_file import load_config

pytestmark = pytest.mark.deep
SIZES = ((80, 24), (120, 40), (200, 60))
STARTS = 16
"""In process, with the service in a thread, for each size."""
TERMINAL_STARTS = 17
"""In a terminal, with the service in a separate process, for each size; more than fifty together."""
KEYS = [
    *"1234567", *"12345", *"aersSocvupfxwdgynjk", "é", "space", "question_mark", "slash", "escape", "escape", "enter",
    "enter", "tab", "shift+tab", "up", "down", "down", "left", "right", "right", "pageup", "pagedown", "home", "end",
    "backspace",
]  # fmt: skip
_CODES = {
    "space": " ", "question_mark": "?", "slash": "/", "escape": "\x1b", "enter": "\r", "tab": "\t", "up": "\x1b[A",
    "shift+tab": "\x1b[Z", "down": "\x1b[B", "left": "\x1b[D", "right": "\x1b[C", "pageup": "\x1b[5~", "end": "\x1b[F",
    "pagedown": "\x1b[6~", "home": "\x1b[H", "backspace": "\x7f",
}  # fmt: skip


@pytest.fixture(scope="module")
def settings() -> Iterator[str]:
    """The settings of a world whose first mirror takes longer than the keys."""
    with served_world(Contents(200, 400, discussions=4, notes=3, events=2, files=2), latency_ms=100) as url:
        yield (
            f'[[gitlab]]\nbase_url = "{url}"\nprojects = ["{PROJECT}"]\nlogin = "mira"\n'
            '[service]\nmetrics_port = 0\n[embedding]\nprovider = "none"\n[http]\nmax_retries = 0\n'
        )


def _pressed(seed: str, count: int) -> list[str]:
    return random.Random(seed).choices(KEYS, k=count)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_random_keys_during_a_first_mirror_cause_no_error(
    size: tuple[int, int], settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConsoleApp, "open_url", lambda *_, **__: None)
    config = tmp_path / "config.toml"
    config.write_text(settings)
    mirroring = 0
    for start in range(STARTS):
        keys = _pressed(f"{size} {start}", 25)
        app = App(load_config(str(config), {}), {}, db=str(tmp_path / f"{start}.db"))
        app.open_store(create=True).close()

        async def look(seat: Seat, keys: list[str] = keys) -> None:
            await seat.pilot.press(*keys)
            logged = [entry for entry in seat.console.backend.logbook.entries() if entry.level == "error"]
            wrong = [told for told in seat.told if "Unexpected" in told]
            assert (seat.console.return_code or 0, logged, wrong) == (0, [], []), keys

        watch(app, look, size, hands=True, service=ServiceThread(app), first="inbox")
        mirroring += not _is_mirrored(app)
    # Most of them ended before the mirror did.
    assert mirroring > STARTS // 2


def _is_mirrored(app: App) -> bool:
    """Tell whether the first mirror was complete when the console was left; it must not be running any more."""
    with closing(app.open_store()) as database:
        assert database.read("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
        return database.read("SELECT COUNT(*) FROM sync_runs WHERE status LIKE 'succeeded%'") != [(0,)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_random_keys_in_a_terminal_leave_no_traceback_and_exit_with_0(
    size: tuple[int, int], settings: str, tmp_path: Path
) -> None:
    for start in range(TERMINAL_STARTS):
        # The first presses more keys, to get deeper.
        keys = _pressed(f"terminal {size} {start}", 60 if start == 0 else 20)
        terminal = Terminal(
            tmp_path, str(tmp_path / f"{start}.db"), "console", settings=settings, EDITOR="true", BROWSER="true"
        )
        fcntl.ioctl(terminal._fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        terminal.wait_for("service here")
        for key in keys:
            terminal.press(_CODES.get(key, key))
            terminal.drain()
        terminal.press("\x03")
        assert terminal.end() == 0, keys
        assert b"Traceback" not in terminal.seen, keys
        assert b"Unexpected error" not in terminal.seen, keys
