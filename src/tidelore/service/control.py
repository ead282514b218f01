"""Control a running service: stop, stop at once, run jobs now, reload the configuration.

Requests may come from a signal handler, the same event loop or another thread, at any time; those made before the
service runs are not lost. A changed configuration file is detected by time, size and inode, and read only after it was
left alone for a moment. An invalid file is logged and the previous configuration stays.
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


_LOG = logging.getLogger(__name__)
T = TypeVar("T")

STILL_SECONDS = 1.0
"""How long a changed file has to stay as it is before it is read."""


class Fingerprint(NamedTuple):
    """By what a file is known to be the same."""

    modified_ns: int
    size: int
    inode: int


def fingerprint(path: str) -> Fingerprint | None:
    """Return a file's fingerprint; None while there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return Fingerprint(found.st_mtime_ns, found.st_size, found.st_ino)


class ConfigReloader(Generic[T]):
    """Watches one file and loads it again; what is loaded is `T`."""

    def __init__(self, path: str, load: Callable[[], T]) -> None:
        self._path = path
        self._load = load
        self._seen = fingerprint(path)
        self._latest, self._since = self._seen, 0.0

    def changed(self, now: float) -> bool:
        """Tell whether the file is another one than when it was last read, and has been so for a moment."""
        found = fingerprint(self._path)
        if found != self._latest:
            self._latest, self._since = found, now
        return found != self._seen and now - self._since >= STILL_SECONDS

    def load(self) -> T | None:
        """Load the file; None when it is refused, and the old settings hold."""
        # Before it is read: what is written meanwhile is noticed the next time.
        self._seen = fingerprint(self._path)
        try:
            return self._load()
        except TideloreError as error:
            said = {"event": "config_refused", "code": error.code, "fix": error.fix}
            _LOG.error("invalid configuration, keeping the previous one: %s", error.message, extra=said)
            return None
