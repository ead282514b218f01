"""What a connection of the event stream hands on, and how it knows again what it has told.

Owns those shapes. Invariant: the memory of what was told is bounded by the span in which a replay can repeat it.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.errors import TideloreError
from tidelore.sources.bluesky.stream_events import HoleFound
from tidelore.sources.bluesky.stream_frames import Frame


class Opened(Struct, frozen=True):
    """A connection is open."""


class Closed(Struct, frozen=True):
    """A connection ended."""


class Restarted(Struct, frozen=True):
    """The server counts anew."""


class Failed(Struct, frozen=True):
    """There is no use in trying again."""

    error: TideloreError


Arrival = Frame | HoleFound | Opened | Closed | Restarted | Failed


class Recent:
    """The events of the last moments: what is replayed after an interruption is known again."""

    def __init__(self, span: int) -> None:
        self._span = span
        self._seen: dict[tuple[object, ...], int] = {}
        self._room = 1024

    def knows(self, key: tuple[object, ...]) -> bool:
        """Return whether an event was met before."""
        return key in self._seen

    def meets(self, key: tuple[object, ...], position: int) -> bool:
        """Return whether an event was met before, and remember it."""
        if key in self._seen:
            return True
        self._seen[key] = position
        if len(self._seen) > self._room:
            self._seen = {known: at for known, at in self._seen.items() if at >= position - self._span}
            self._room = 2 * len(self._seen) + 1024
        return False
