"""How far the stream is known to be complete. Pure: time is handed in.

Several connections, each telling of some accounts, share one cursor. Owns the rule for it: the least of their
positions. A connection that tells nothing would hold the cursor for ever, so one that is open and has been silent for
a while counts as having reached what the others had told by then. Invariant: the cursor never moves backwards.
"""

from __future__ import annotations

from collections import deque

SILENCE_SECONDS = 60.0


class Coverage:
    """The positions of all connections of one stream."""

    def __init__(self, count: int, start: int | None, *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._positions: list[int | None] = [start] * count
        self._quiet_since: list[float | None] = [None] * count
        self._told: deque[tuple[float, int]] = deque()
        self._reached: int | None = None
        self._silence_seconds = silence_seconds
        self._cursor = start

    @property
    def cursor(self) -> int | None:
        """The position up to which everything was told."""
        return self._cursor

    def opened(self, index: int, now: float) -> None:
        """A connection is open."""
        self._quiet_since[index] = now

    def closed(self, index: int) -> None:
        """A connection is gone: its silence means nothing."""
        self._quiet_since[index] = None

    def advance(self, index: int, position: int, now: float) -> None:
        """A connection told something."""
        known = self._positions[index]
        self._positions[index] = position if known is None else max(known, position)
        self._quiet_since[index] = now
        if len(self._positions) > 1:
            self._remember(position, now)
        covered = self._least(now)
        if covered is not None:
            self._cursor = covered if self._cursor is None else max(self._cursor, covered)

    def restart(self, index: int) -> None:
        """The positions of a connection are worth nothing any more: its server counts anew."""
        self._positions[index] = None
        self._cursor = None
        self._told.clear()
        self._reached = None

    def _remember(self, position: int, now: float) -> None:
        if not self._told or (now > self._told[-1][0] + 1 and position > self._told[-1][1]):
            self._told.append((now, position))
        while self._told and self._told[0][0] <= now - self._silence_seconds:
            self._reached = self._told.popleft()[1]

    def _least(self, now: float) -> int | None:
        found = []
        for position, since in zip(self._positions, self._quiet_since, strict=True):
            silent = since is not None and since <= now - self._silence_seconds
            if silent and self._reached is not None:
                position = self._reached if position is None else max(position, self._reached)
            if position is None:
                return None
            found.append(position)
        return min(found, default=None)
