"""What others may ask of a running service: to stop, to stop at once, to read its settings again, to run jobs now.

Owns that it may be asked from a signal handler, from the same loop or from another thread, at any time: what was asked
before the service runs is not lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress


class Control:
    """The one handle on a running service."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Event | None = None
        self._stops = 0
        self._reload = False
        # Both of its ends may be used by different threads at the same time.
        self._hastened: deque[str] = deque()

    @property
    def stopping(self) -> bool:
        return self._stops > 0

    @property
    def hurried(self) -> bool:
        """Whether somebody asked twice: then nothing is waited for."""
        return self._stops > 1

    def bind(self) -> None:
        """Belong to the loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def stop(self) -> None:
        """Ask for an orderly end; asked again, for an end at once."""
        self._stops += 1
        self.wake()

    def reload(self) -> None:
        """Ask for the settings to be read again."""
        self._reload = True
        self.wake()

    def take_reload(self) -> bool:
        """Return whether that was asked for, once."""
        asked, self._reload = self._reload, False
        return asked

    def run_now(self, names: Iterable[str]) -> None:
        """Ask for jobs to be run at once, also those that are left alone after a failure."""
        self._hastened.extend(names)
        self.wake()

    def take_hastened(self) -> list[str]:
        """Return the jobs that was asked for, each once."""
        found: dict[str, None] = {}
        while self._hastened:
            found[self._hastened.popleft()] = None
        return list(found)

    def wake(self) -> None:
        """Let the service look up."""
        if self._loop is not None and self._woken is not None:
            # A loop that has ended looks at nothing any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._woken.set)

    async def woken(self) -> None:
        """Return when somebody asked for something."""
        assert self._woken is not None
        await self._woken.wait()
        self._woken.clear()
