"""Control a running service: stop, stop at once, run jobs now, reload the configuration.

Requests may come from a signal handler, the same event loop or another thread, at any time; those made before the
service runs are not lost. A changed configuration file is detected by time, size and inode, and read only after it has
not changed for a moment. An invalid file is logged and the previous configuration stays in use.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from tidelore.core.errors import TideloreError


class Control:
    """Passes requests to a running service."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Event | None = None
        self._stops = 0
        self._reload = False
        # A deque, because two threads may append and pop at the same time.
        self._hastened: deque[str] = deque()
        self._announced: deque[str] = deque()

    @property
    def stopping(self) -> bool:
        return self._stops > 0

    @property
    def hurried(self) -> bool:
        """Whether a stop was requested twice; then the service does not wait for running jobs."""
        return self._stops > 1

    def bind(self) -> None:
        """Attach to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def stop(self) -> None:
        """Request a clean stop; the second call requests an immediate stop."""
        self._stops += 1
        self.wake()

    def reload(self) -> None:
        """Request a reload of the configuration."""
        self._reload = True
        self.wake()

    def take_reload(self) -> bool:
        """Return whether a reload was requested, and clear the request."""
        asked, self._reload = self._reload, False
        return asked

    def run_now(self, names: Iterable[str]) -> None:
        """Request that jobs run now, even if they are backing off after a failure."""
        self._hastened.extend(names)
        self.wake()

    def take_hastened(self) -> list[str]:
        """Return the jobs requested with `run_now`, without duplicates, and clear the requests."""
        found: dict[str, None] = {}
        while self._hastened:
            found[self._hastened.popleft()] = None
        return list(found)

    def announce(self, names: Iterable[str]) -> None:
        """Report that jobs have work; unlike `run_now` this ends no back-off."""
        self._announced.extend(names)
        self.wake()

    def take_announced(self) -> list[str]:
        """Return the jobs reported with `announce`, without duplicates, and clear the reports."""
        found: dict[str, None] = {}
        while self._announced:
            found[self._announced.popleft()] = None
        return list(found)

    def wake(self) -> None:
        """Wake the service's loop."""
        if self._loop is not None and self._woken is not None:
            # The event loop may be closed already.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._woken.set)

    async def woken(self) -> None:
        """Wait for the next request."""
        assert self._woken is not None
        await self._woken.wait()
        self._woken.clear()


_LOG = logging.getLogger(__name__)
T = TypeVar("T")

STILL_SECONDS = 1.0
"""How long a changed file must stay unchanged before it is read."""


class Fingerprint(NamedTuple):
    """The attributes by which a changed file is detected."""

    modified_ns: int
    size: int
    inode: int


def fingerprint(path: str) -> Fingerprint | None:
    """Return a file's fingerprint, or None if the file does not exist."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return Fingerprint(found.st_mtime_ns, found.st_size, found.st_ino)


class ConfigReloader(Generic[T]):
    """Watches a file and reloads it as a `T`."""

    def __init__(self, path: str, load: Callable[[], T]) -> None:
        self._path = path
        self._load = load
        self._seen = fingerprint(path)
        self._latest, self._since = self._seen, 0.0

    def changed(self, now: float) -> bool:
        """Return whether the file differs from the one last read and has been stable for `STILL_SECONDS`."""
        found = fingerprint(self._path)
        if found != self._latest:
            self._latest, self._since = found, now
        return found != self._seen and now - self._since >= STILL_SECONDS

    def load(self) -> T | None:
        """Load the file; return None if it is invalid, so that the previous settings stay in use."""
        # Taken before reading, so that a change made meanwhile is noticed by the next check.
        self._seen = fingerprint(self._path)
        try:
            return self._load()
        except TideloreError as error:
            said = {"event": "config_refused", "code": error.code, "fix": error.fix}
            _LOG.error("invalid configuration, keeping the previous one: %s", error.message, extra=said)
            return None
