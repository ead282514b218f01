"""The event stream (Jetstream): combines all connections into batches, each with the cursor that covers it.

Opens as many connections as the accounts need, with one bounded queue for all, so a slow reader slows the servers down
and memory stays bounded. The cursor is the lowest position of all connections; a connection that is open and has been
silent for a while counts as having reached what the others had sent by then. Stores nothing and does not decide how to
handle a gap. Invariant: a batch's cursor covers its events and everything before and never moves backwards; resuming
from it, also in another process, loses nothing that the server still has.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from tidelore.core.clock import Clock
from tidelore.core.errors import TideloreError
from tidelore.sources.bluesky.payloads import COLLECTIONS
from tidelore.sources.bluesky.stream_protocol import (
    MOST_DIDS,
    Frame,
    HoleFound,
    StreamBatch,
    StreamCursor,
    StreamEvent,
    protocol_of,
    split_dids,
    stream_url,
)
from tidelore.sources.bluesky.stream_shard import (
    Arrival,
    ResumePoint,
    Shard,
    ShardClosed,
    ShardFailed,
    ShardOpened,
    ShardPlan,
    ShardRestarted,
)
from tidelore.sources.bluesky.stream_socket import SocketOptions
from tidelore.sources.ports import Wiring

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
        """The position up to which all events have arrived."""
        return self._cursor

    def opened(self, index: int, now: float) -> None:
        """Record that a connection was opened."""
        self._quiet_since[index] = now

    def closed(self, index: int) -> None:
        """Record that a connection was closed, so that its silence no longer counts."""
        self._quiet_since[index] = None

    def advance(self, index: int, position: int, now: float) -> None:
        """Record that a connection sent an event."""
        known = self._positions[index]
        self._positions[index] = position if known is None else max(known, position)
        self._quiet_since[index] = now
        if len(self._positions) > 1:
            self._remember(position, now)
        covered = self._least(now)
        if covered is not None:
            self._cursor = covered if self._cursor is None else max(self._cursor, covered)

    def restart(self, index: int) -> None:
        """Discard the positions of a connection whose server restarted its numbering."""
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


MOST_WAITING = 1000


class Jetstream:
    """The stream, filtered by accounts. Use it in `async with`; `batches` ends only with an error.

    A cursor of the other protocol is ignored: it would mean another position. `most_dids` is the limit per connection.
    """

    def __init__(
        self,
        plan: ShardPlan,
        dids: Sequence[str],
        *,
        cursor: StreamCursor | None,
        clock: Clock,
        most_dids: int | None = None,
        most_waiting: int = MOST_WAITING,
        silence_seconds: float = SILENCE_SECONDS,
        roll: Callable[[], float] = random.random,
    ) -> None:
        self.protocol = protocol_of(plan.url)
        self.url = plan.url
        start = cursor if cursor is not None and cursor.protocol == self.protocol else None
        value = None if start is None else start.value
        parts = split_dids(dids, most_dids or MOST_DIDS[self.protocol])
        # With several connections only one of them received the event at the cursor.
        place = None if start is None else ResumePoint(start.value, start.at, own=len(parts) == 1)
        self._clock = clock
        self._queue: asyncio.Queue[tuple[int, Arrival]] = asyncio.Queue(most_waiting)
        self._coverage = Coverage(len(parts), value, silence_seconds=silence_seconds)
        self._shards = [Shard(plan, index, part, place, self._queue, clock, roll) for index, part in enumerate(parts)]
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: TideloreError | None = None

    @property
    def connections(self) -> int:
        """How many connections the accounts need."""
        return len(self._shards)

    async def __aenter__(self) -> Jetstream:
        self._tasks = [asyncio.create_task(shard.run()) for shard in self._shards]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def batches(self, most: int = 500) -> AsyncIterator[StreamBatch]:
        """Yield events as they arrive, at most `most` at once."""
        while self._shards:
            arrivals = [await self._queue.get()]
            while len(arrivals) < most and not self._queue.empty():
                arrivals.append(self._queue.get_nowait())
            batch = self._assemble(arrivals)
            if batch is not None:
                yield batch
            if self._failure is not None:
                raise self._failure

    def _assemble(self, arrivals: Sequence[tuple[int, Arrival]]) -> StreamBatch | None:
        events: list[StreamEvent] = []
        at: int | None = None
        moved = False
        now = self._clock.monotonic()
        for index, arrival in arrivals:
            if isinstance(arrival, Frame):
                assert arrival.position is not None
                self._coverage.advance(index, arrival.position, now)
                moved = True
                at = arrival.at if at is None or arrival.at is None else max(at, arrival.at)
                if arrival.event is not None:
                    events.append(arrival.event)
            elif isinstance(arrival, HoleFound):
                events.append(arrival)
            else:
                self._note(index, arrival, now)
        if not events and not moved:
            return None
        value = self._coverage.cursor
        return StreamBatch(tuple(events), None if value is None else StreamCursor(self.protocol, value), at)

    def _note(self, index: int, arrival: ShardOpened | ShardClosed | ShardRestarted | ShardFailed, now: float) -> None:
        if isinstance(arrival, ShardOpened):
            self._coverage.opened(index, now)
        elif isinstance(arrival, ShardClosed):
            self._coverage.closed(index)
        elif isinstance(arrival, ShardRestarted):
            self._coverage.restart(index)
        else:
            self._failure = arrival.error


def build_stream(wiring: Wiring, dids: Sequence[str], cursor: StreamCursor | None) -> Jetstream:
    """Return the event stream for these accounts, not yet open."""
    config, settings = wiring.config, wiring.config.bluesky
    plan = ShardPlan(
        stream_url(settings.jetstream_url),
        COLLECTIONS,
        SocketOptions(config.http.timeout_seconds, config.http.ca_file, config.http.proxy),
        backoff_seconds=settings.retry_backoff_ms / 1000,
        patience=settings.max_retries,
    )
    return Jetstream(plan, dids, cursor=cursor, clock=wiring.clock)
