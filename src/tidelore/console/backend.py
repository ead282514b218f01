"""What screens work with: two background readers, search, the actions, the log and the service.

Each reader has one thread with one database connection, so that no key press waits for the database: `reader` refreshes
lists, `search_reader` searches and opens threads. A connection is opened by the first query; one that failed is closed
and opened again by the next. Changes run in a separate thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from tidelore.app.console import ConsoleViews
from tidelore.core.errors import TideloreError

if TYPE_CHECKING:
    from tidelore.app.console import ConsoleActions, ServiceThread
    from tidelore.app.wiring import App
    from tidelore.console.log import Logbook


T = TypeVar("T")


class BackgroundReader:
    """Reads views one after another in a background thread."""

    def __init__(self, app: App, name: str) -> None:
        self._views = ConsoleViews(app)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def ask(self, question: Callable[[ConsoleViews], T]) -> T:
        """Run a query and return its result; a query that was cancelled while it waited is not run."""
        return await asyncio.wrap_future(self._executor.submit(self._answer, question))

    def close(self) -> None:
        """Close the connection after the running query."""
        self._executor.submit(self._views.close)
        self._executor.shutdown(wait=True)

    def _answer(self, question: Callable[[ConsoleViews], T]) -> T:
        try:
            return question(self._views)
        except TideloreError:
            self._views.close()
            raise


class Backend:
    """Access of the screens to the database, search, actions, log and service. `actions` is None in `lore top`."""

    def __init__(
        self, app: App, logbook: Logbook, service: ServiceThread | None = None, actions: ConsoleActions | None = None
    ) -> None:
        self.app = app
        self.logbook = logbook
        self.service = service
        self.actions = actions
        self.reader = BackgroundReader(app, "reader")
        self.search_reader = BackgroundReader(app, "search-reader")
        self._acting = ThreadPoolExecutor(max_workers=1, thread_name_prefix="actions")

    @property
    def now_ms(self) -> int:
        return self.app.clock.now_ms()

    async def act(self, change: Callable[[], str]) -> str:
        """Run a change in a background thread and return its message."""
        return await asyncio.wrap_future(self._acting.submit(change))

    def close(self) -> None:
        """Finish the running change and close the readers."""
        self._acting.shutdown(wait=True)
        self.reader.close()
        self.search_reader.close()
