"""A subscription on a socket: what a forge has to tell is pushed as fast as the client reads, and no faster.

Owns the life of one WebSocket after its handshake: pings, the closing handshake, back-pressure, and the client that is
cut off. Refuses to know what is told. Invariants: the world is read under its lock; nothing is taken from the
subscription that the socket cannot take.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidelore_world import websocket
from tidelore_world.websocket import FrameReader, ProtocolError
from tidelore_world.wire import Response

_HIGH_WATER_BYTES = 256 * 1024
_TAKEN_AT_ONCE = 200


class Subscription(Protocol):
    """What a forge tells one client. `patience_seconds` is how long an overdue client may stand still."""

    @property
    def patience_seconds(self) -> float: ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Ask to be woken, from any thread, when there may be something to take."""

    def take(self, most: int) -> list[bytes]:
        """Give the next messages; none when there is nothing to tell."""

    def receive(self, text: bytes) -> int | None:
        """Hear what the client said; a code closes the connection with it."""

    def is_overdue(self) -> bool:
        """Whether the client is too far behind to be waited for."""

    def is_cut(self) -> bool:
        """Whether the connection is to be dropped without a word."""

    def cut_after(self, events: int, then: Callable[[], None]) -> None:
        """Drop the connection after so many events; `then` hears of it."""

    def leave(self) -> None:
        """The client is gone."""


@dataclass(slots=True)
class Upgrade(Response):
    """The answer after which a connection speaks WebSocket."""

    subscription: Subscription | None = None


class Socket:
    """One WebSocket connection of the server."""

    def __init__(self, transport: asyncio.Transport, subscription: Subscription, lock: threading.RLock) -> None:
        self._transport = transport
        self._subscription = subscription
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._paused = False
        self._stalls = 0
        self._woken = False
        self._closed = False
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        with lock:
            subscription.listen(self._wake)
        self._wake()

    def receive(self, data: bytes) -> None:
        """Bytes of the client arrived."""
        try:
            for message in self._reader.feed(data):
                self._hear(message)
        except ProtocolError as error:
            self._close(error.code, str(error))

    def pause(self) -> None:
        """The client does not read: wait for it, for a while."""
        self._paused = True
        self._stalls += 1
        self._loop.call_later(self._subscription.patience_seconds, self._lose_patience, self._stalls)

    def resume(self) -> None:
        """The client reads again."""
        self._paused = False
        self._pump()

    def lost(self) -> None:
        """The connection is gone."""
        self._closed = True
        with self._lock:
            self._subscription.leave()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._pump)
            except RuntimeError:  # the server's loop has ended; nobody is left to be told
                self._closed = True

    def _pump(self) -> None:
        self._woken = False
        if self._closed or self._transport.is_closing():
            return
        if self._subscription.is_cut():
            self._drop(after_sending=False)
        while not self._paused and not self._closed:
            with self._lock:
                frames = self._subscription.take(_TAKEN_AT_ONCE)
                cut = self._subscription.is_cut()
            if frames:
                self._transport.write(b"".join(websocket.encode_frame(websocket.TEXT, frame) for frame in frames))
            if cut:
                self._drop(after_sending=bool(frames))
                return
            if len(frames) < _TAKEN_AT_ONCE:
                return

    def _drop(self, *, after_sending: bool) -> None:
        """End without a closing frame; what was sent before still arrives, as far as it got."""
        self._closed = True
        if after_sending:
            self._transport.close()
        else:
            self._transport.abort()

    def _lose_patience(self, stall: int) -> None:
        if self._closed or not self._paused or stall != self._stalls:
            return
        with self._lock:
            overdue = self._subscription.is_overdue()
        if overdue:
            self._drop(after_sending=False)
        else:
            self._loop.call_later(self._subscription.patience_seconds, self._lose_patience, stall)

    def _hear(self, message: websocket.Message) -> None:
        if self._closed:
            return
        if message.opcode == websocket.PING:
            self._transport.write(websocket.encode_frame(websocket.PONG, message.payload))
        elif message.opcode == websocket.CLOSE:
            self._close(message.close_code if message.close_code != 1005 else websocket.NORMAL)
        elif message.opcode != websocket.PONG:
            with self._lock:
                code = self._subscription.receive(message.payload)
            if code is None:
                self._wake()
            else:
                self._close(code)

    def _close(self, code: int, reason: str = "") -> None:
        if not self._closed:
            self._closed = True
            self._transport.write(websocket.encode_close(code, reason))
            self._transport.close()
