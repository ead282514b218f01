"""`App`: settings, clock and database of a command, and how it is run until a signal.

Opens the store and configures sources; the use-cases of the other modules take an `App`. Imports what only some
commands need inside functions, so that an offline read loads no HTTP client.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from tidelore.core.clock import Clock, SystemClock
from tidelore.core.config import Config, database_address
from tidelore.core.errors import Cancelled, TideloreError
from tidelore.engine.crashpoint import Crashpoint, no_seam
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database, Limits, Patience
from tidelore.store.work.service_records import paused_until, save_pause

if TYPE_CHECKING:
    from tidelore.http.response import RequestMetric
    from tidelore.http.transport import Transport
    from tidelore.sources.ports import Wiring


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


T = TypeVar("T")


class App(Struct, frozen=True):
    """Everything a face needs: settings, clock, and the doors to the rooms below.

    `patience_seconds`: how long a command waits for a server that asked for a pause, before it gives up instead.
    `insists`: whether its runs end in the ledger however long the database is out of reach, as those of a service do.
    `patience`: shared by all its connections, for a program that must be able to stop while they wait.
    """

    config: Config
    environ: Mapping[str, str]
    db: str | None = None
    clock: Clock = SystemClock()
    seam: Crashpoint = no_seam
    transport: Transport | None = None
    patience_seconds: float = 300.0
    insists: bool = False
    patience: Patience | None = None

    @property
    def address(self) -> str:
        """The database: a path, or a postgresql:// address."""
        return database_address(self.config, self.db, self.environ)

    def open_store(self, *, create: bool = False, patience: Patience | None = None) -> Database:
        """Open the database and bring its schema up to date; a reader does not create it."""
        waits = patience or self.patience or self.new_patience()
        database = open_database(self.address, create=create, patience=waits)
        try:
            migrate(database, self.clock.now_ms(), create=create)
        except BaseException:
            database.close()
            raise
        return database

    def new_patience(self) -> Patience:
        """Return how long connections wait; SQLite has its own limit."""
        storage = self.config.storage
        times = (storage.lock_timeout_seconds, storage.statement_timeout_seconds)
        limits = Limits(*times, storage.idle_in_transaction_timeout_seconds)
        return Patience(limits if self.address.startswith(("postgresql://", "postgres://")) else None)

    def wiring(self, on_request: Callable[[RequestMetric], None], patience_seconds: float | None = None) -> Wiring:
        """Return what every source is given; pauses that servers asked for are kept in the database."""
        from tidelore.sources.ports import Wiring

        patience = self.patience_seconds if patience_seconds is None else min(patience_seconds, self.patience_seconds)
        pauses = StoredPauses(self.open_store, self.clock)
        return Wiring(self.config, self.clock, self.environ, on_request, self.transport, patience, pauses)


def run_until_signalled(work: Coroutine[Any, Any, T], fate: str = "everything fetched so far is stored") -> T:
    """Run a coroutine; SIGINT and SIGTERM cancel it, so that its run row is finalised, and exit 130."""
    import asyncio
    import signal

    from tidelore.core.signals import heard

    async def supervised() -> T:
        task = asyncio.ensure_future(work)
        try:
            with heard({signal.SIGINT: task.cancel, signal.SIGTERM: task.cancel}):
                return await task
        except asyncio.CancelledError:
            raise Cancelled(f"interrupted; {fate}", fix="run the command again") from None

    return asyncio.run(supervised())
