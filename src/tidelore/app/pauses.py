"""Keeps the pauses that servers asked for in the database, so that the next process respects them too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tidelore.core.clock import Clock
from tidelore.core.errors import TideloreError
from tidelore.store.database.port import Database
from tidelore.store.work.service_records import paused_until, save_pause

_LONGEST_MS = 86_400_000
"""A server that asks for more than a day is asked again after a day: it may have been a mistake."""


class StoredPauses:
    """Opens the database for each question: pauses are rare, and sources are opened before the database is."""

    def __init__(self, open_store: Callable[[], Database], clock: Clock) -> None:
        self._open_store = open_store
        self._clock = clock

    def until(self, source: str) -> int | None:
        """Return until when a source is to be left alone, or None; without a database nothing is known."""
        with suppress(TideloreError):
            database = self._open_store()
            try:
                return paused_until(database, source, self._clock.now_ms())
            finally:
                database.close()
        return None

    def keep(self, source: str, until_ms: int) -> None:
        """Remember a pause; where that fails, this process keeps to it all the same."""
        now = self._clock.now_ms()
        with suppress(TideloreError):
            database = self._open_store()
            try:
                save_pause(database, source, min(until_ms, now + _LONGEST_MS), now)
            finally:
                database.close()
