"""What every screen works with. Owns the two readers, the hands (none where nothing may be changed) and the log.

`reader` serves the lists that are read anew again and again, `seeker` searches and opens threads, so that a search that
takes long holds up no list. Changes run in a thread of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tidelore.app.console import ConsoleSearch
from tidelore.console.reading import Reader

if TYPE_CHECKING:
    from tidelore.app.console import ConsoleActions, ServiceThread
    from tidelore.app.wiring import App
    from tidelore.console.logbook import Logbook


class Desk:
    """The doors of one console."""

    def __init__(
        self, app: App, logbook: Logbook, service: ServiceThread | None = None, hands: ConsoleActions | None = None
    ) -> None:
        self.app = app
        self.logbook = logbook
        self.service = service
        self.hands = hands
        self.reader = Reader(app.open_store, "reader")
        self.seeker = Reader(app.open_store, "seeker")
        self.finder = ConsoleSearch(app)
        self._acting = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hands")

    @property
    def now_ms(self) -> int:
        return self.app.clock.now_ms()

    async def act(self, change: Callable[[], str]) -> str:
        """Make a change beside the screen, and return what it says."""
        return await asyncio.wrap_future(self._acting.submit(change))

    def close(self) -> None:
        """Give everything back; a change that is being made is made to its end."""
        self._acting.shutdown(wait=True)
        self.reader.close()
        self.seeker.close()
