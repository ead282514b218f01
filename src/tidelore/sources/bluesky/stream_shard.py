"""One connection of the event stream, opened again whenever it ends.

Owns where it goes on after an interruption: a margin before its last event in the first protocol, whose instants are
the server's own; exactly behind it in the second, whose numbers are unique. Refuses to tell an event twice. Where the
server cannot go back far enough, or has another archive than before, that is told as a hole: some servers do not say
so, therefore the first event after every opening is compared with the place that was asked for. Invariant: it takes
from the socket only what its queue has room for.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

import msgspec
from msgspec import Struct

from tidelore.core.clock import Clock
from tidelore.core.errors import TideloreError
from tidelore.retry_after import backoff_seconds
from tidelore.sources.bluesky.socket import SocketFailure, SocketOptions, StreamSocket, open_socket
from tidelore.sources.bluesky.stream_address import OLDEST, SUBPROTOCOL, connection_url, protocol_of
from tidelore.sources.bluesky.stream_arrivals import Arrival, Closed, Failed, Opened, Recent, Restarted
from tidelore.sources.bluesky.stream_events import HoleFound, Protocol, StreamCursor
from tidelore.sources.bluesky.stream_failures import judge
from tidelore.sources.bluesky.stream_frames import Frame, hello, reader_of

_LOG = logging.getLogger(__name__)
_TOO_OLD = "CursorTooOld"
_OTHER_ARCHIVE = "FutureCursor"
_SECOND_US = 1_000_000
_SKEW_US = 300 * _SECOND_US
_BUSIEST = 50
"""More events in a millisecond than the whole network has."""
_FAR = 10_000_000


class Place(Struct, frozen=True):
    """Where a stream goes on, and the instant of its newest event there.

    `own` when this very connection was told the event at that place: a server that still has it tells it again.
    """

    position: int
    at: int | None = None
    own: bool = True


class ShardPlan(Struct, frozen=True):
    """What every connection of a stream has in common."""

    url: str
    collections: tuple[str, ...]
    socket: SocketOptions = SocketOptions()
    margin_seconds: float = 5.0
    replay_seconds: float = 86_400.0
    backoff_seconds: float = 1.0
    patience: int = 5


class Shard:
    """One connection's part of a stream. Everything it has to say goes to the queue, with its index."""

    def __init__(
        self,
        plan: ShardPlan,
        index: int,
        dids: tuple[str, ...],
        start: Place | None,
        queue: asyncio.Queue[tuple[int, Arrival]],
        clock: Clock,
        roll: Callable[[], float] = random.random,
    ) -> None:
        self._plan = plan
        self._index = index
        self._dids = dids
        self._position = None if start is None else start.position
        self._place = start
        self._last_key: tuple[object, ...] | None = None
        self._is_compared = True
        self._opened_us: int | None = None
        self._server_at: int | None = None
        self._queue = queue
        self._clock = clock
        self._roll = roll
        self._protocol: Protocol = protocol_of(plan.url)
        self._read = reader_of(self._protocol)
        self._recent = Recent(round(2 * plan.margin_seconds * _SECOND_US))
        self._first = True
        self._attempt = 0

    async def run(self) -> None:
        """Keep the connection open until cancelled, or until there is no use."""
        try:
            while True:
                await self._once()
        except TideloreError as error:
            await self._put(Failed(error))

    async def _once(self) -> None:
        url = connection_url(self._plan.url, self._dids, self._plan.collections, self._resume())
        subprotocol = SUBPROTOCOL if self._protocol == 2 else None
        opened = False
        try:
            async with open_socket(url, subprotocol, self._plan.socket) as socket:
                opened = True
                await self._begin(socket)
                while True:
                    await self._take(await socket.receive())
        except SocketFailure as failure:
            if opened:
                await self._put(Closed())
            if failure.status == 400 and _TOO_OLD in failure.said and self._position != OLDEST:
                await self._lose("the stream cannot go back far enough")
                self._position = OLDEST
                return
            await self._wait(failure)

    def _resume(self) -> int | None:
        if self._position is None:
            # Nothing was told yet: both protocols take the instant of opening for the place to go on from.
            return self._opened_us
        if self._protocol == 2:
            return self._position
        return max(0, self._position - round(self._plan.margin_seconds * _SECOND_US))

    async def _begin(self, socket: StreamSocket) -> None:
        await self._put(Opened())
        self._server_at = socket.server_at
        if self._protocol == 1:
            await socket.send(hello(self._dids, self._plan.collections))
        self._is_compared = self._position is None or self._position == OLDEST
        if self._position is None:
            await self._mark()
        elif self._protocol == 1:
            await self._compare(self._position, (self._server_at or self._clock.now_ms()) * 1000)
        self._first = False

    async def _mark(self) -> None:
        """Remember where a stream begins that has told nothing yet."""
        if self._opened_us is None:
            await self._lose("the stream begins here")
        elif self._server_at is None:
            await self._lose("the stream was interrupted before the first message")
        else:
            return
        self._opened_us = self._opening_us()

    async def _compare(self, position: int, server_us: int) -> None:
        """The first protocol never says that it cannot go back so far, or that there is no such place yet."""
        if server_us - position > self._plan.replay_seconds * _SECOND_US:
            await self._lose("the stream was away longer than it can be replayed")
            self._is_compared = True
        elif position - server_us > _SKEW_US:
            await self._count_anew()

    async def _count_anew(self) -> None:
        await self._lose("the stream does not know the place it stopped at")
        self._position = self._place = self._last_key = None
        self._is_compared = True
        self._opened_us = self._opening_us()
        await self._put(Restarted())

    def _opening_us(self) -> int:
        """Return when the connection was opened, by the server's clock; by ours only where it tells none."""
        opened_ms = self._server_at if self._server_at is not None else self._clock.now_ms()
        return opened_ms * 1000 - round(self._plan.margin_seconds * _SECOND_US)

    async def _take(self, message: bytes) -> None:
        try:
            frame = self._read(message)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            _LOG.warning("could not parse a message of the stream: %s", error)
            return
        if frame.position is None:
            await self._heed(frame.notice or "")
            return
        if not self._is_compared:
            self._is_compared = True
            await self._compare_first(frame, frame.position)
        if self._is_known(frame):
            return
        self._attempt = 0
        if self._position is None or self._position == OLDEST or frame.position > self._position:
            self._position, self._last_key = frame.position, frame.key
            self._place = Place(frame.position, frame.at)
        await self._put(frame)
        if frame.notice is not None:
            await self._put(HoleFound((frame.did,), "a repository was written anew", None))

    async def _compare_first(self, frame: Frame, position: int) -> None:
        """A server that has what it was asked for begins with the event at that place, which it told before."""
        place = self._place
        if place is None:
            return
        if self._protocol == 1:
            reached = place.position + round(self._plan.margin_seconds * _SECOND_US)
            if position > reached and not self._recent.knows(frame.key):
                await self._lose("the stream does not go back to the place it stopped at")
        elif position < place.position or (position == place.position and self._is_other(frame, place)):
            await self._count_anew()
        elif position > place.position and (place.own or _is_far(position, frame.at, place)):
            await self._lose("the stream does not go back to the place it stopped at")

    def _is_other(self, frame: Frame, place: Place) -> bool:
        """Return whether another event has the number of the last one."""
        if self._last_key is not None:
            return frame.key != self._last_key
        return bool(place.at and frame.at and abs(frame.at - place.at) * 1000 > _SKEW_US)

    def _is_known(self, frame: Frame) -> bool:
        assert frame.position is not None
        if self._protocol == 2:
            return self._position is not None and self._position != OLDEST and frame.position <= self._position
        return self._recent.meets(frame.key, frame.position)

    async def _heed(self, notice: str) -> None:
        _LOG.info("the stream says: %s", notice)
        if notice == _OTHER_ARCHIVE:
            await self._count_anew()

    async def _lose(self, reason: str) -> None:
        since = None if self._position is None else StreamCursor(self._protocol, self._position)
        await self._put(HoleFound(self._dids, reason, since))

    async def _wait(self, failure: SocketFailure) -> None:
        error = judge(failure, self._plan.url)
        self._attempt += 1
        if not error.retryable or (self._first and self._attempt > self._plan.patience):
            raise error
        pause = backoff_seconds(self._attempt, self._plan.backoff_seconds, self._roll())
        _LOG.warning("the stream was interrupted (%s), next attempt in %.1f s", failure, pause)
        await self._clock.sleep(pause)

    async def _put(self, arrival: Arrival) -> None:
        await self._queue.put((self._index, arrival))


def _is_far(position: int, at: int | None, place: Place) -> bool:
    """Return whether more numbers lie between two events than the network can have had events meanwhile."""
    passed = 0 if at is None or place.at is None else max(at - place.at, 0)
    return position - place.position > _FAR + passed * _BUSIEST
