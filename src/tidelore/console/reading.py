"""Reads beside the screen. Owns one thread with one connection, so that no key ever waits for the database.

The connection is opened by the first question, in the thread: the screen is painted before. One that failed is closed
and opened anew by the next question, so a database that comes back is found again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tidelore.core.errors import TideloreError
from tidelore.store.database.port import Database

T = TypeVar("T")


class Reader:
    """Answers questions to the database, one after another."""

    def __init__(self, open_store: Callable[[], Database], name: str) -> None:
        self._open_store = open_store
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._database: Database | None = None

    async def ask(self, question: Callable[[Database], T]) -> T:
        """Return the answer to a question; one that nobody waits for any more is not put if its turn has not come."""
        return await asyncio.wrap_future(self._executor.submit(self._answer, question))

    def close(self) -> None:
        """Give the connection back; what is being answered is answered first."""
        self._executor.submit(self._give_back)
        self._executor.shutdown(wait=True)

    def _answer(self, question: Callable[[Database], T]) -> T:
        if self._database is None:
            self._database = self._open_store()
        try:
            return question(self._database)
        except TideloreError:
            self._give_back()
            raise

    def _give_back(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
