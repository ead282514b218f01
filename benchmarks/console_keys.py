"""How long keys of the console wait during a first mirror: `python -m benchmarks.console_keys` is the measured program.

The console runs in a terminal as `lore console` does, with the service that mirrors in a thread of the same process;
the simulated world and the hand on the keys are other processes. A key arrives when it is written to the terminal; it
has been handled when its last handler has ended. Both are instants of the monotonic clock, which processes share.
Escape is told apart from the beginning of another key by waiting, so it has a row of its own.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, thread_time

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.message import Message
from textual.message_pump import MessagePump

from benchmarks.findings import Finding
from benchmarks.workplace import ROOT, app_of, served_world
from benchmarks.world_server import Contents
from tidelore.console.app import run_console
from tidelore.store.database.opening import open_database

BOUND_MS = 100.0
START_SECONDS = 60.0
PAUSE_SECONDS = 0.08
ESCAPE_PAUSE_SECONDS = 0.6
"""After Escape, so that the next key is not read as a part of the same sequence."""
SIZES = ((80, 24), (120, 40), (200, 60))
CONTENTS = Contents(200, 6_000, discussions=5, notes=3, events=2, files=4)
_CODES = {"right": "\x1b[C", "left": "\x1b[D", "down": "\x1b[B", "up": "\x1b[A", "enter": "\r", "tab": "\t",
          "escape": "\x1b", "pagedown": "\x1b[6~", "end": "\x1b[F"}  # fmt: skip
WALKS = {
    "inbox": "1 right right down down enter j k pagedown escape right down down right s S / a b escape left r left",
    "search": "2 n o t e enter down down s o / x escape",
    "overview": "3 down up tab s tab c enter escape ? escape",
    "feedback": "4 v v v s / a escape",
    "accounts": "5 down s / m escape",
    "runs": "6 f f down x s",
    "log": "7 w w up end / a b escape d d",
}
"""The keys pressed on each screen, in this order, so that each walk ends where a digit changes the screen."""


class HandledKey(Struct, frozen=True):
    """A key that was handled: by which screen, when it was read and handled, and the processor time of its handlers."""

    key: str
    screen: str
    read_at: float
    handled_at: float
    processor_ms: float


class KeyReport(Struct, frozen=True):
    """What the measured program saw; `blocks` are the longest handlers of any message, in milliseconds."""

    keys: list[HandledKey]
    blocks: list[tuple[float, float, str, str]]


class Delay(Struct, frozen=True):
    """How long one key waited in milliseconds, from its arrival on."""

    key: str
    screen: str
    ms: float
    processor_ms: float


def key_findings() -> Iterator[Finding]:
    """Press keys on every screen at three sizes, each during a first mirror."""
    delays: list[Delay] = []
    mirrored = True
    for size in SIZES:
        found, mirroring = measure(size)
        delays += found
        mirrored = mirrored and mirroring
    during = "during a first mirror" if mirrored else "during and after a first mirror"
    typed = [one for one in delays if one.key != "escape"]
    for name in WALKS:
        yield from _rows(f"keys on {name} {during}", [one.ms for one in typed if one.screen == name])
    yield from _rows(f"Escape {during}", [one.ms for one in delays if one.key == "escape"])
    yield from _rows(f"all keys {during}", [one.ms for one in delays], BOUND_MS)
    spent = [one.processor_ms for one in delays]
    yield Finding("console", f"all keys {during}: processor time of the slowest handler", max(spent), "ms", BOUND_MS)


def _rows(what: str, found: list[float], bound: float | None = None) -> Iterator[Finding]:
    yield Finding("console", f"{what}, {len(found):,}: median", median(found), "ms", bound)
    yield Finding("console", f"{what}: p99", quantiles(found, n=100, method="inclusive")[-1], "ms", bound)
    yield Finding("console", f"{what}: slowest", max(found), "ms")


def measure(size: tuple[int, int], rounds: int = 1) -> tuple[list[Delay], bool]:
    """Return how long each key waited, and whether the mirror was running until the last one."""
    with tempfile.TemporaryDirectory() as name, served_world(CONTENTS) as url:
        folder = Path(name)
        arrived = _drive(folder, url, size, rounds)
        report = msgspec.json.decode((folder / "report.json").read_bytes(), type=KeyReport)
        for block in report.blocks:
            print(
                f"{size[0]}x{size[1]}: {block[0]:.0f} ms ({block[1]:.0f} ms processor) {block[2]} {block[3]}",
                file=sys.stderr,
            )
        database = open_database(str(folder / "lore.db"), create=False)
        finished = database.read(
            "SELECT COUNT(*) FROM sync_runs WHERE status IN ('succeeded', 'succeeded_with_warnings')"
        )
        database.close()
    # The last key ends the program.
    if [key for key, _ in arrived] != [one.key for one in report.keys][: len(arrived)]:
        pressed, handled = " ".join(key for key, _ in arrived), " ".join(one.key for one in report.keys)
        raise RuntimeError(f"pressed {pressed}, but handled {handled}")
    delays = [
        Delay(one.key, one.screen, (one.handled_at - at) * 1000, one.processor_ms)
        for (_, at), one in zip(arrived, report.keys, strict=False)
    ]
    return delays, finished == [(0,)]


def _drive(folder: Path, url: str, size: tuple[int, int], rounds: int) -> list[tuple[str, float]]:
    """Press the keys in a terminal with the console; return each with the time it was written."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the child is another program
        os.chdir(ROOT)
        command = [sys.executable, "-m", "benchmarks.console_keys", url, str(folder)]
        os.execve(sys.executable, command, os.environ | {"TERM": "xterm-256color"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    try:
        arrived = _press(terminal, rounds)
    finally:
        # Without effect on a console that has ended; one that has not would be waited for without end.
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    if status != 0:
        raise RuntimeError(f"the console ended with {os.waitstatus_to_exitcode(status)}")
    return arrived


def _press(terminal: int, rounds: int) -> list[tuple[str, float]]:
    until, seen = monotonic() + START_SECONDS, b""
    while b"service here" not in seen:
        seen += _read(terminal, 1)
        if monotonic() > until:
            raise RuntimeError(f"the console did not start: {seen[-500:]!r}")
    arrived: list[tuple[str, float]] = []
    for key in [key for _ in range(rounds) for walk in WALKS.values() for key in walk.split()]:
        arrived.append((_NAMES.get(key, key), monotonic()))
        os.write(terminal, _CODES.get(key, key).encode())
        until = arrived[-1][1] + (ESCAPE_PAUSE_SECONDS if key == "escape" else PAUSE_SECONDS)
        while (left := until - monotonic()) > 0:
            _read(terminal, left)
    # Ctrl+C ends the console wherever the focus is.
    os.write(terminal, b"\x03")
    until = monotonic() + START_SECONDS
    while _read(terminal, 20):
        if monotonic() > until:
            raise RuntimeError("the console did not end")
    return arrived


_NAMES = {"/": "slash", "?": "question_mark"}


def _read(terminal: int, seconds: float) -> bytes:
    """Return what the terminal shows next; nothing after that time, or at its end."""
    if not select.select([terminal], [], [], seconds)[0]:
        return b""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


class Recorder:
    """Notes for each key when its last handler ended, and the longest handlers of all messages."""

    def __init__(self) -> None:
        self._keys: dict[int, tuple[events.Key, str, float, float]] = {}
        self._blocks: list[tuple[float, float, str, str]] = []

    def install(self) -> None:
        """Observe every message from now on."""
        dispatch = MessagePump._dispatch_message

        async def observed(pump: MessagePump, message: Message) -> None:
            began, spent, screen = monotonic(), thread_time(), _place(pump)
            try:
                await dispatch(pump, message)
            finally:
                ended = monotonic()
                if isinstance(message, events.Key):
                    _, first, _, before = self._keys.get(id(message), (message, screen, 0.0, 0.0))
                    cost = before + (thread_time() - spent) * 1000
                    self._keys[id(message)] = (message, first, ended, cost)
                if ended - began > BOUND_MS / 4000:
                    cost = (thread_time() - spent) * 1000
                    self._blocks.append(((ended - began) * 1000, cost, type(message).__name__, type(pump).__name__))

        MessagePump._dispatch_message = observed  # type: ignore[method-assign]

    def report(self) -> KeyReport:
        keys = [HandledKey(one.key, screen, one.time, ended, cost) for one, screen, ended, cost in self._keys.values()]
        return KeyReport(keys, sorted(self._blocks, reverse=True)[:12])


def _place(pump: MessagePump) -> str:
    """Return the name of the visible screen, or of the one below a dialog."""
    try:
        names = [getattr(screen, "PLACE", "") for screen in reversed(pump.app.screen_stack)]
    except Exception:  # noqa: BLE001 - no screen yet, or no longer
        return ""
    return next((name for name in names if name), "")


def main() -> None:
    """Run the console on a new database and write down when keys were handled."""
    url, folder = sys.argv[1], Path(sys.argv[2])
    recorder = Recorder()
    recorder.install()
    found = app_of(url, folder / "lore.db")
    # Another service on this machine may have the port.
    app = replace(found, config=replace(found.config, service=replace(found.config.service, metrics_port=0)))
    app.open_store(create=True).close()
    run_console(app, None, theme="dark", color=True)
    (folder / "report.json").write_bytes(msgspec.json.encode(recorder.report()))


if __name__ == "__main__":
    main()
