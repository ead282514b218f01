"""What screens work with: two background readers, search, the actions, the log and the service.

Each reader has one thread with one database connection, so that no key press waits for the database: `reader` refreshes
lists, `search_reader` searches and opens threads. A connection is opened by the first query; one that failed is closed
and opened again by the next. Changes run in a separate thread. On leaving, requests that only read are cancelled;
changes get `LEAVE_SECONDS` to finish, and those that did not are reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tidelore.app.console import ConsoleViews
from tidelore.core.errors import Cancelled, TideloreError

if TYPE_CHECKING:
    from tidelore.app.console import ConsoleActions, ConsoleService
    from tidelore.app.wiring import App
    from tidelore.console.log import Logbook


T = TypeVar("T")
LEAVE_SECONDS = 5.0
"""How long a change may take after the console was left."""
CANCEL_SECONDS = 1.0
"""How long cancelled work may take to close its run and its connections."""


class BackgroundReader:
    """Reads views one after another in a background thread."""

    def __init__(self, app: App, name: str) -> None:
        self._views = ConsoleViews(app)
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def ask(self, question: Callable[[ConsoleViews], T]) -> T:
        """Run a query and return its result; a query that was cancelled while it waited is not run."""
        return await asyncio.wrap_future(self._executor.submit(self._answer, question))

    def close(self) -> None:
        """Close the connection after the running query; queries that wait are not run."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._views.close()

    def _answer(self, question: Callable[[ConsoleViews], T]) -> T:
        try:
            return question(self._views)
        except TideloreError:
            self._views.close()
            raise


class _Work(NamedTuple):
    name: str
    reads: bool
    future: Future[str]


class Backend:
    """Access of the screens to the database, search, actions, log and service. `actions` is None in `lore top`."""

    def __init__(
        self, app: App, logbook: Logbook, service: ConsoleService | None = None, actions: ConsoleActions | None = None
    ) -> None:
        self.app = app
        self.logbook = logbook
        self.service = service
        self.actions = actions
        self.reader = BackgroundReader(app, "reader")
        self.search_reader = BackgroundReader(app, "search-reader")
        self._acting = ThreadPoolExecutor(max_workers=1, thread_name_prefix="actions")
        self._work: list[_Work] = []

    @property
    def now_ms(self) -> int:
        return self.app.clock.now_ms()

    async def act(self, change: Callable[[], str], name: str, *, reads: bool = False) -> str:
        """Run a change in a background thread and return its message; `reads`: it changes nothing on a server."""
        work = _Work(name, reads, self._acting.submit(change))
        self._work = [one for one in self._work if not one.future.done()] + [work]
        # A change that waits for its turn is not given up when the screen is closed.
        return await asyncio.shield(asyncio.wrap_future(work.future))

    def close(self, tell: Callable[[str], None] = lambda _text: None) -> None:
        """Finish changes, but not for long, and close the readers; `tell` gets what the user should know."""
        self._finish_changes(tell)
        self._acting.shutdown(wait=False, cancel_futures=True)
        self.reader.close()
        self.search_reader.close()

    def _finish_changes(self, tell: Callable[[str], None]) -> None:
        pending = [one for one in self._work if not one.future.done()]
        changes = [one for one in pending if not one.reads]
        self._cancel(one for one in pending if one.reads)
        if changes:
            tell(f"Finishing: {', '.join(one.name for one in changes)} …")
            wait([one.future for one in changes], LEAVE_SECONDS)
            self._cancel(changes)
        for one in changes:
            tell(_outcome(one))

    def _cancel(self, work: Iterable[_Work]) -> None:
        for one in work:
            if one.future.cancel() or one.future.done():
                continue
            if self.actions is not None:
                self.actions.cancel()
            wait([one.future], CANCEL_SECONDS)


def _outcome(work: _Work) -> str:
    """Return what became of a change after the console was left."""
    unknown = f"Not confirmed: {work.name}. Look at it, then repeat it; the same reply is posted once."
    if not work.future.done() or work.future.cancelled():
        return unknown
    error = work.future.exception()
    if error is None:
        return work.future.result()
    known = isinstance(error, TideloreError) and not isinstance(error, Cancelled)
    return f"{work.name}: {error}" if known else unknown
