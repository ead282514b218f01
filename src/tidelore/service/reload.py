"""New settings while the service runs. Owns when the file is read again, and that a bad one changes nothing.

A file counts as changed by its time, size and inode, so that an editor which writes another file in its place is
noticed too; but not before it has been left alone for a moment: half a file may be a valid one. Refuses to judge
settings: who loads them does, and what is refused is told in one line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from tidelore.core.errors import TideloreError

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


class Reloading(Generic[T]):
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
