"""A service in a separate process, so that no key of the console waits for the interpreter lock of a sync.

The process is forked before the console starts threads, and waits until it is started. Both sides hold one end of a
socket: the console sends requests, the service its log records and, at its end, its error. If the console dies, the
socket is closed, and the service stops cleanly.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

import msgspec
from msgspec import Struct

from tidelore.core.errors import Cancelled, LockHeld, TideloreError, every_error
from tidelore.core.signals import ended_in_order

NICENESS = 5
"""How much the service gives way to the console where processors are few, so that keys do not wait for a sync."""
KILL_SECONDS = 10.0
"""How long the process may take to end after a stop request before it is killed."""


class StartableService(Protocol):
    """A service that can be started, asked to run jobs now, and stopped; `stop` waits for its end."""

    error: TideloreError | None
    on_end: Callable[[], None]

    def start(self) -> None: ...

    def run_now(self, names: Iterable[str]) -> None: ...

    def stop(self) -> None: ...


class _Request(Struct, frozen=True):
    """A request to the service: to start, to run jobs now, or to stop."""

    kind: str
    jobs: list[str] = []


class _LogLine(Struct, frozen=True, tag="log"):
    at: float
    level: int
    logger: str
    message: str


class _Ended(Struct, frozen=True, tag="ended"):
    code: str
    message: str
    fix: str | None


class ServiceProcess:
    """A service in a separate process; `error` is set if it ended without a stop request.

    Create it while the program has one thread and no connection: both are not usable in a forked process.
    """

    def __init__(self, make: Callable[[], StartableService], on_record: Callable[[logging.LogRecord], object]) -> None:
        self._on_record = on_record
        self._stopping = False
        self.error: TideloreError | None = None
        self._channel, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:  # pragma: no cover - another process
            self._channel.close()
            _run_child(theirs, make)
        theirs.close()
        self._thread = threading.Thread(target=self._listen, name="service", daemon=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def elsewhere(self) -> bool:
        """Whether another process runs the service of this database."""
        return isinstance(self.error, LockHeld)

    def start(self) -> None:
        """Start the service."""
        self._thread.start()
        self._send(_Request("start"))

    def run_now(self, names: Iterable[str]) -> None:
        """Run jobs now, even if they are backing off after a failure."""
        self._send(_Request("run_now", list(names)))

    def stop(self) -> None:
        """Stop cleanly and wait for it: pages in progress are finished, runs closed, leases released."""
        self._stopping = True
        self._send(_Request("stop"))
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join(KILL_SECONDS)
        if self._thread.is_alive():
            # What it has not closed, the next start takes over.
            os.kill(self._pid, signal.SIGKILL)
            self._thread.join()

    def _send(self, request: _Request) -> None:
        # The process may have ended by itself.
        with suppress(OSError):
            self._channel.sendall(msgspec.json.encode(request) + b"\n")

    def _listen(self) -> None:
        with self._channel, self._channel.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                self._take(msgspec.json.decode(line, type=_LogLine | _Ended))
        _, status = os.waitpid(self._pid, 0)
        if status != 0 and self.error is None and not self._stopping:
            code = os.waitstatus_to_exitcode(status)
            self.error = TideloreError(f"the process of the service ended with {code}", fix="restart the console")

    def _take(self, told: _LogLine | _Ended) -> None:
        if isinstance(told, _LogLine):
            record = logging.LogRecord(told.logger, told.level, "", 0, told.message, None, None)
            record.created = told.at
            self._on_record(record)
            return
        kind = next((kind for kind in every_error() if kind.code == told.code), TideloreError)
        self.error = kind(told.message, fix=told.fix)


class _Sender(logging.Handler):
    """Sends log records to the console."""

    def __init__(self, channel: socket.socket) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            message = f"{message}: {record.exc_info[1]!r}"
        line = _LogLine(record.created, record.levelno, record.name, message)
        # The console may be gone; the service stops then.
        with suppress(OSError):
            self._channel.sendall(msgspec.json.encode(line) + b"\n")


def _run_child(channel: socket.socket, make: Callable[[], StartableService]) -> None:
    """Be the process of the service: obey requests until one says stop, the console ends, or the service does."""
    try:
        # Ctrl+C is a key of the console.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(NICENESS)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            # Otherwise it would keep the terminal open.
            os.dup2(nothing, number)
        logger = logging.getLogger("tidelore")
        logger.handlers = [one for one in logger.handlers if isinstance(one, logging.FileHandler)]
        logger.addHandler(_Sender(channel))
        # Made here, because a thread that was made before a fork counts as ended after it.
        service = make()
        try:
            with ended_in_order("the service stops"):
                _obey(channel, service)
        except Cancelled:
            pass
        service.stop()
        if service.error is not None:
            error = _Ended(service.error.code, service.error.message, service.error.fix)
            with suppress(OSError):
                channel.sendall(msgspec.json.encode(error) + b"\n")
        logging.shutdown()
        os._exit(0)
    finally:
        os._exit(1)


def _obey(channel: socket.socket, service: StartableService) -> None:
    with channel.makefile("rb") as lines:
        for line in lines:
            request = msgspec.json.decode(line, type=_Request)
            if request.kind == "stop":
                return
            if request.kind == "start":
                service.on_end = lambda: channel.shutdown(socket.SHUT_RD)
                service.start()
            else:
                service.run_now(request.jobs)
