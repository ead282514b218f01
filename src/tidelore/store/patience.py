"""How long connections wait for others, and the order to stop waiting. Shared by the connections of one program.

A database may be locked by another program, or out of reach. `Limits` bound every wait; `Patience.end` is for a program
that is asked to stop: what waits at that moment gives up at once, and nothing begins to wait any more. May be called
from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec import Struct

BRIEF_SECONDS = 0.1
"""How long a statement may wait for a lock once the program is asked to stop."""


class Limits(Struct, frozen=True):
    """Seconds. `lock`: for a lock that another program holds. PostgreSQL only: `statement`, for one statement, `idle`,
    for a transaction in which nothing happens (the server ends it, so that a frozen program blocks nobody), and
    `connect`, for a new connection."""

    lock: float = 45.0
    statement: float = 600.0
    idle: float = 30.0
    connect: float = 10.0


class Patience:
    """Whether connections still wait. `limits` are None where each kind of database uses its own."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._interrupts: dict[int, Callable[[], None]] = {}

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait; return False at once when the program is asked to stop."""
        return not self._ended.wait(seconds)

    def join(self, key: int, interrupt: Callable[[], None]) -> None:
        """Let `interrupt` be called when the program is asked to stop: it ends the statement that runs."""
        with self._lock:
            self._interrupts[key] = interrupt

    def leave(self, key: int) -> None:
        """Forget a connection."""
        with self._lock:
            self._interrupts.pop(key, None)

    def end(self) -> None:
        """Wait no longer, here and in every other thread."""
        self._ended.set()
        with self._lock:
            interrupts = list(self._interrupts.values())
        for interrupt in interrupts:
            interrupt()
