"""Start real `lore` processes in milliseconds: a server imports the program once and forks for each of them.

A forked process is a process like any other: it has its own pid, memory, descriptors and signals, and can be killed,
stopped and waited for. Only the imports are shared. Use a plain `subprocess` where starting itself is under test: the
interpreter's own variables (`PYTHON*`, the locale), import time, a limit set before the program begins.

    process = fork_lore(["sync", "--robot"], environ)
    process = fork_script(path_of_driver, ["argument"], environ)

The wall clock of a process can be moved while it runs (`CLOCK`); its monotonic clock goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import mmap
import os
import pkgutil
import random
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

LORE = "lore"
CLOCK = "LORE_TEST_CLOCK"
"""The variable that names a file with the seconds by which the wall clock of a process is wrong."""
OFFSET = struct.Struct("q")
_STATUS = struct.Struct("i")
_LENGTH = struct.Struct("I")
_IMPORTED_LATE = (
    "anyio._backends._asyncio",
    "httpx2",
    "numpy",
    "psycopg",
    "safetensors",
    "tokenizers",
    "tomllib",
    "websockets.asyncio.client",
    "zstandard",
)
"""What the program imports inside functions, or a library when it is first used."""


class ForkedProcess:
    """A running process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, status: int, stdout: TextIO | None, stderr: TextIO | None) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = stdout
        self.stderr = stderr
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        return self._await(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        code = self._await(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Signal the process unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both outputs to their end, wait for the process, and return what it wrote."""
        deadline = None if timeout is None else time.monotonic() + timeout
        streams = {stream.fileno(): stream for stream in (self.stdout, self.stderr) if stream and not stream.closed}
        pieces: dict[int, list[bytes]] = {number: [] for number in streams}
        left = set(streams)
        while left:
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0)
            ready, _, _ = select.select(list(left), [], [], remaining)
            if not ready:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            for number in ready:
                piece = os.read(number, 65536)
                pieces[number].append(piece)
                left -= set() if piece else {number}
        self.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
        texts: dict[TextIO | None, str] = {}
        for number, stream in streams.items():
            texts[stream] = b"".join(pieces[number]).decode()
            stream.close()
        return texts.get(self.stdout, ""), texts.get(self.stderr, "")

    def is_stopped(self) -> bool:
        """Return whether a signal has stopped the process, or it has ended."""
        if self.poll() is not None:
            return True
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def __del__(self) -> None:
        """Close what a test that failed has left open, so that the failure is told once and not in a later test too."""
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def _await(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            (status,) = _STATUS.unpack(os.read(self._status, _STATUS.size))
            os.close(self._status)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class _Server:
    """The connection to this process's fork server, started when it is first needed."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        # Started by a process with pytest's own descriptors: the server must not keep their pipes open.
        self._child = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__)), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        atexit.register(self._stop)

    def fork(self, program: str, argv: Sequence[str], environ: Mapping[str, str], descriptors: Sequence[int]) -> int:
        request = {"program": program, "argv": list(argv), "environ": dict(environ), "cwd": str(Path.cwd())}
        message = json.dumps(request).encode()
        socket.send_fds(self._socket, [_LENGTH.pack(len(message))], list(descriptors))
        self._socket.sendall(message)
        return int(_STATUS.unpack(_receive(self._socket, _STATUS.size))[0])

    def _stop(self) -> None:
        self._socket.close()
        self._child.wait(10)


_servers: dict[int, _Server] = {}


def fork_lore(argv: Sequence[str], environ: Mapping[str, str], **outputs: int) -> ForkedProcess:
    """Start `lore`; both outputs are pipes unless a descriptor is named for `stdout` or `stderr`."""
    return _start(LORE, argv, environ, outputs)


def fork_script(script: Path, argv: Sequence[str], environ: Mapping[str, str], **outputs: int) -> ForkedProcess:
    """Start a script as `python script argv...`."""
    return _start(str(script), argv, environ, outputs)


def _start(program: str, argv: Sequence[str], environ: Mapping[str, str], outputs: Mapping[str, int]) -> ForkedProcess:
    if os.getpid() not in _servers:
        _servers[os.getpid()] = _Server()
    with contextlib.ExitStack() as theirs:
        streams: dict[str, TextIO | None] = {}
        descriptors = [os.open(os.devnull, os.O_RDONLY)]
        theirs.callback(os.close, descriptors[0])
        for name in ("stdout", "stderr"):
            if name in outputs:
                streams[name] = None
                descriptors.append(outputs[name])
            else:
                reading, writing = os.pipe()
                theirs.callback(os.close, writing)
                streams[name] = os.fdopen(reading, encoding="utf-8")
                descriptors.append(writing)
        status, report = os.pipe()
        theirs.callback(os.close, report)
        pid = _servers[os.getpid()].fork(program, argv, environ, [*descriptors, report])
    return ForkedProcess(pid, status, streams["stdout"], streams["stderr"])


# The server


def _serve(connection: socket.socket) -> None:
    """Fork for each request until the connection closes; report each child's exit status to its own pipe."""
    _import_the_program()
    waking, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([connection.fileno(), waking], [], [])
        if waking in ready:
            os.read(waking, 4096)
        _report_the_dead(reports)
        if connection.fileno() not in ready:
            continue
        header, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 4)
        if not header:
            return
        request = json.loads(_receive(connection, _LENGTH.unpack(header)[0]))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            connection.close()
            for unused in (waking, waker, descriptors[3], *reports.values()):
                os.close(unused)
            _become(request, descriptors[:3])
        for used in descriptors[:3]:
            os.close(used)
        reports[pid] = descriptors[3]
        connection.sendall(_STATUS.pack(pid))


def _report_the_dead(reports: dict[int, int]) -> None:
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # the test did not wait for this process
            os.write(report, _STATUS.pack(status))
        os.close(report)


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Be the requested program in this fresh child; never return."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - these live as long as the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    if request["environ"].get(CLOCK):
        _move_clock(request["environ"][CLOCK])
    # A shell starts a job in the background with this signal ignored, and so the server and all its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # What an interpreter draws or looks up once when it starts must differ between forks.
    random.seed()
    tempfile.tempdir = None
    program = request["program"]
    sys.argv = [program, *request["argv"]]
    code: object = 1
    try:
        if program == LORE:
            from tidelore.cli.entry import run

            run()
        else:
            runpy.run_path(program, run_name="__main__")
        code = 0
    except SystemExit as ending:
        code = ending.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _move_clock(path: str) -> None:
    """Add the seconds in a file, which may change at any time, to the wall clock of this process."""
    with Path(path).open("rb") as file:
        memory = mmap.mmap(file.fileno(), OFFSET.size, access=mmap.ACCESS_READ)
    true_ns = time.time_ns

    def moved_ns() -> int:
        return true_ns() + int(OFFSET.unpack(memory[: OFFSET.size])[0]) * 1_000_000_000

    time.time_ns = moved_ns
    time.time = lambda: moved_ns() / 1e9


def _import_the_program() -> None:
    """Import what any command may import, so that no child has to."""
    for package in ("tidelore", "tidelore_world"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)
    for name in _IMPORTED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from tidelore.core.config_file import parse_config

    # The first configuration in a process takes ten milliseconds: its types are looked up and their validator is built.
    parse_config({"gitlab": [{"base_url": "http://127.0.0.1:9"}], "http": {"max_retries": 0}})
    # The collector would write into each object that it visits, and so copy the server's memory in each child.
    gc.collect()
    gc.freeze()


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the fork server has ended")
        received += piece
    return received


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
