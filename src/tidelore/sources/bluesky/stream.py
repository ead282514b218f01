"""The event stream of the network, as one list of batches, each with the cursor that covers it.

Owns the connections: as many as the accounts need, one queue for all, bounded, so that a slow reader slows the
servers and nothing piles up here. Refuses to store and to decide what a hole means. Invariant: a batch's cursor covers
its events and everything before; going on from it, in another process too, loses nothing the server still has.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence

from tidelore.core.clock import Clock
from tidelore.core.errors import TideloreError
from tidelore.sources.bluesky.payloads import POST, REPOST
from tidelore.sources.bluesky.stream_address import MOST_DIDS, protocol_of, split_dids
from tidelore.sources.bluesky.stream_arrivals import Arrival, Closed, Failed, Opened, Restarted
from tidelore.sources.bluesky.stream_cover import SILENCE_SECONDS, Coverage
from tidelore.sources.bluesky.stream_events import HoleFound, StreamBatch, StreamCursor, StreamEvent
from tidelore.sources.bluesky.stream_frames import Frame
from tidelore.sources.bluesky.stream_shard import Place, Shard, ShardPlan

COLLECTIONS = (POST, REPOST)
MOST_WAITING = 1000


class Jetstream:
    """The stream, filtered by accounts. Use it in `async with`; `batches` ends only with an error.

    A cursor of the other protocol is not used: it would name another place. `most_dids` is the limit of a connection.
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
        # Of several connections only one was told the event at the cursor.
        place = None if start is None else Place(start.value, start.at, own=len(parts) == 1)
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
        """Yield what was told, as it comes, at most so many events at once."""
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

    def _note(self, index: int, arrival: Opened | Closed | Restarted | Failed, now: float) -> None:
        if isinstance(arrival, Opened):
            self._coverage.opened(index, now)
        elif isinstance(arrival, Closed):
            self._coverage.closed(index)
        elif isinstance(arrival, Restarted):
            self._coverage.restart(index)
        else:
            self._failure = arrival.error
