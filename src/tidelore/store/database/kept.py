"""Keeps connections to a PostgreSQL server for their next user.

A worker opens its database several times in each turn of a scope. A new connection costs the server a process that
knows neither tables nor plans, which is more than most turns need besides. Each connection has one user at a time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tidelore.core.clock import Clock

if TYPE_CHECKING:
    from tidelore.store.database.port import Database
    from tidelore.store.database.postgres import PostgresDatabase

MOST_KEPT = 8
CHECK_SECONDS = 10.0
"""How often the schema of the database is compared with that of the program while connections are reused."""


class KeptConnections:
    """The idle connections of one process to one database."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[PostgresDatabase] = []
        self._checked = float("-inf")
        self._is_closed = False

    def take(self) -> Database | None:
        """Return an idle connection, or None: then one must be opened and given to `adopt`."""
        with self._lock:
            if not self._idle or self._clock.monotonic() - self._checked > CHECK_SECONDS:
                return None
            found = self._idle.pop()
        return found.reuse()

    def adopt(self, database: Database) -> None:
        """Keep a connection, whose schema was just checked, when its user closes it."""
        if database.dialect == "postgres":
            self._checked = self._clock.monotonic()
            database.keeper = self._keep  # type: ignore[attr-defined]

    def _keep(self, database: PostgresDatabase) -> bool:
        with self._lock:
            if self._is_closed or len(self._idle) >= MOST_KEPT:
                return False
            self._idle.append(database)
            return True

    def close(self) -> None:
        """Close the idle connections; those in use are closed by their users."""
        with self._lock:
            self._is_closed, idle, self._idle = True, self._idle, []
        for database in idle:
            database.keeper = None
            database.close()
