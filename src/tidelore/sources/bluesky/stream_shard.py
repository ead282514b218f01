"""One connection of the event stream, which is reopened whenever it ends.

Resumes a margin before its last event in the first protocol, whose positions are times, and exactly after it in the
second, whose numbers are unique; no event is passed on twice. If the server cannot go back far enough, or has another
archive than before, a `HoleFound` is passed on. Some servers do not report that, so the first event after every opening
is compared with the requested position. Invariants: it reads from the socket only what its queue has room for, and
remembers only as many events as a replay can repeat.
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
from tidelore.http.limits import backoff_seconds
from tidelore.sources.bluesky.stream_protocol import (
    OLDEST,
    SUBPROTOCOL,
    Frame,
    HoleFound,
    StreamCursor,
    StreamProtocol,
    connection_url,
    hello,
    protocol_of,
    reader_of,
)
from tidelore.sources.bluesky.stream_socket import (
    SocketFailure,
    SocketOptions,
    StreamSocket,
    classify_socket_failure,
    open_socket,
)


class ShardOpened(Struct, frozen=True):
    """A connection was opened."""


class ShardClosed(Struct, frozen=True):
    """A connection ended."""


class ShardRestarted(Struct, frozen=True):
    """The server restarted its numbering."""


class ShardFailed(Struct, frozen=True):
    """A connection failed with an error that a retry cannot fix."""

    error: TideloreError


Arrival = Frame | HoleFound | ShardOpened | ShardClosed | ShardRestarted | ShardFailed


class RecentEvents:
    """The most recent events, to recognise those that are replayed after an interruption."""

    def __init__(self, span: int) -> None:
        self._span = span
        self._seen: dict[tuple[object, ...], int] = {}
        self._room = 1024

    def knows(self, key: tuple[object, ...]) -> bool:
        """Return whether an event was seen before."""
        return key in self._seen

    def meets(self, key: tuple[object, ...], position: int) -> bool:
        """Return whether an event was seen before, and remember it."""
        if key in self._seen:
            return True
        self._seen[key] = position
        if len(self._seen) > self._room:
            self._seen = {known: at for known, at in self._seen.items() if at >= position - self._span}
            self._room = 2 * len(self._seen) + 1024
        return False


_LOG = logging.getLogger(__name__)
_TOO_OLD = "CursorTooOld"
_OTHER_ARCHIVE = "FutureCursor"
_SECOND_US = 1_000_000
_SKEW_US = 300 * _SECOND_US
_BUSIEST = 50
"""Events per millisecond; more than the whole network has."""
_FAR = 10_000_000


class ResumePoint(Struct, frozen=True):
    """The position where a stream resumes, and the instant of its newest event there.

    `own`: this connection received the event at that position, so a server that still has it sends it again.
    """

    position: int
    at: int | None = None
    own: bool = True


class ShardPlan(Struct, frozen=True):
    """The settings that all connections of a stream share."""

    url: str
    collections: tuple[str, ...]
    socket: SocketOptions = SocketOptions()
    margin_seconds: float = 5.0
    replay_seconds: float = 86_400.0
    backoff_seconds: float = 1.0
    patience: int = 5


class Shard:
    """One connection of a stream. It puts everything it receives into the queue, with its index."""

    def __init__(
        self,
        plan: ShardPlan,
        index: int,
        dids: tuple[str, ...],
        start: ResumePoint | None,
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
        self._protocol: StreamProtocol = protocol_of(plan.url)
        self._read = reader_of(self._protocol)
        self._recent = RecentEvents(round(2 * plan.margin_seconds * _SECOND_US))
        self._first = True
        self._attempt = 0

    async def run(self) -> None:
        """Keep the connection open until cancelled, or until an error that a retry cannot fix."""
        try:
            while True:
                await self._once()
        except TideloreError as error:
            await self._put(ShardFailed(error))

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
                await self._put(ShardClosed())
            if failure.status == 400 and _TOO_OLD in failure.said and self._position != OLDEST:
                await self._lose("the server cannot replay far enough back")
                self._position = OLDEST
                return
            await self._wait(failure)

    def _resume(self) -> int | None:
        if self._position is None:
            # No event yet: both protocols accept the time of opening as the position to resume from.
            return self._opened_us
        if self._protocol == 2:
            return self._position
        return max(0, self._position - round(self._plan.margin_seconds * _SECOND_US))

    async def _begin(self, socket: StreamSocket) -> None:
        await self._put(ShardOpened())
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
        """Remember the start of a stream that has sent no event yet."""
        if self._opened_us is None:
            await self._lose("the stream begins here")
        elif self._server_at is None:
            await self._lose("the stream was interrupted before the first message")
        else:
            return
        self._opened_us = self._opening_us()

    async def _compare(self, position: int, server_us: int) -> None:
        """Check the position against the server's clock.

        The first protocol does not report that it cannot go back far enough, or that a position is in the future.
        """
        if server_us - position > self._plan.replay_seconds * _SECOND_US:
            await self._lose("the stream was interrupted for longer than the server can replay")
            self._is_compared = True
        elif position - server_us > _SKEW_US:
            await self._count_anew()

    async def _count_anew(self) -> None:
        await self._lose("the server does not know the position where the stream stopped")
        self._position = self._place = self._last_key = None
        self._is_compared = True
        self._opened_us = self._opening_us()
        await self._put(ShardRestarted())

    def _opening_us(self) -> int:
        """Return when the connection was opened, by the server's clock; by ours if the server sent no time."""
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
            self._place = ResumePoint(frame.position, frame.at)
        await self._put(frame)
        if frame.notice is not None:
            await self._put(HoleFound((frame.did,), "a repository was rewritten", None))

    async def _compare_first(self, frame: Frame, position: int) -> None:
        """Check the first event: a server that still has the requested position starts with the known event there."""
        place = self._place
        if place is None:
            return
        if self._protocol == 1:
            reached = place.position + round(self._plan.margin_seconds * _SECOND_US)
            if position > reached and not self._recent.knows(frame.key):
                await self._lose("the server no longer has the position where the stream stopped")
        elif position < place.position or (position == place.position and self._is_other(frame, place)):
            await self._count_anew()
        elif position > place.position and (place.own or _is_far(position, frame.at, place)):
            await self._lose("the server no longer has the position where the stream stopped")

    def _is_other(self, frame: Frame, place: ResumePoint) -> bool:
        """Return whether the event is a different one with the same number as the last one."""
        if self._last_key is not None:
            return frame.key != self._last_key
        return bool(place.at and frame.at and abs(frame.at - place.at) * 1000 > _SKEW_US)

    def _is_known(self, frame: Frame) -> bool:
        assert frame.position is not None
        if self._protocol == 2:
            return self._position is not None and self._position != OLDEST and frame.position <= self._position
        return self._recent.meets(frame.key, frame.position)

    async def _heed(self, notice: str) -> None:
        _LOG.info("message from the stream server: %s", notice)
        if notice == _OTHER_ARCHIVE:
            await self._count_anew()

    async def _lose(self, reason: str) -> None:
        since = None if self._position is None else StreamCursor(self._protocol, self._position)
        await self._put(HoleFound(self._dids, reason, since))

    async def _wait(self, failure: SocketFailure) -> None:
        error = classify_socket_failure(failure, self._plan.url)
        self._attempt += 1
        if not error.retryable or (self._first and self._attempt > self._plan.patience):
            raise error
        pause = backoff_seconds(self._attempt, self._plan.backoff_seconds, self._roll())
        _LOG.warning("the stream was interrupted (%s), next attempt in %.1f s", failure, pause)
        await self._clock.sleep(pause)

    async def _put(self, arrival: Arrival) -> None:
        await self._queue.put((self._index, arrival))


def _is_far(position: int, at: int | None, place: ResumePoint) -> bool:
    """Return whether the gap between two positions is larger than the number of events the network could have had."""
    passed = 0 if at is None or place.at is None else max(at - place.at, 0)
    return position - place.position > _FAR + passed * _BUSIEST
