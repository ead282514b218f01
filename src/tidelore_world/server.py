"""The world on a socket: a small asyncio HTTP/1.1 server on 127.0.0.1 with keep-alive.

Owns parsing, latency and the ways a connection can break. Refuses to bind anything but the loopback
interface and to know any route. Invariant: a connection's responses leave in the order of its requests,
and a delayed one delays nobody else.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from tidelore_world.control import answer
from tidelore_world.damage import SlowResponse
from tidelore_world.faults import Broken, SimulatedTimeout
from tidelore_world.streaming import Socket, Upgrade
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

HOST = "127.0.0.1"
MAX_HEAD_BYTES = 65_536
_TLS_HANDSHAKE = b"\x16"
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class Connection(asyncio.Protocol):
    """One client connection: bytes in, requests answered one after another, bytes out."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._queue: deque[tuple[Request, float]] = deque()
        self._busy = False
        self._transport: asyncio.Transport | None = None
        self._socket: Socket | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client arrived."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The client left; what it still waits for is not computed."""
        self._transport = None
        self._queue.clear()
        self._server.connections.discard(self)
        if self._socket is not None:
            self._socket.lost()

    def pause_writing(self) -> None:
        """The client does not read what is sent."""
        if self._socket is not None:
            self._socket.pause()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._socket is not None:
            self._socket.resume()

    def data_received(self, data: bytes) -> None:
        """Collect bytes until whole requests are there; after an upgrade they are not requests any more."""
        if self._socket is not None:
            self._socket.receive(data)
            return
        self._buffer += data
        if self._buffer[:1] == _TLS_HANDSHAKE:
            # Real servers do not wait for the rest of a request either.
            self._refuse_tls()
            return
        while (request := self._take_request()) is not None:
            self._queue.append((request, self._loop.time()))
        if not self._busy:
            self._answer_next()

    def close(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _refuse_tls(self) -> None:
        if self._transport is not None:
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self._transport.close()

    def _take_request(self) -> Request | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                self.close()
            return None
        try:
            method, target, headers = _parse_head(bytes(self._buffer[:end]))
            length = int(headers.get("content-length", "0"))
        except ValueError:
            self.close()
            self._buffer.clear()
            return None
        if len(self._buffer) < end + 4 + length:
            return None
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        return Request.build(method, target, headers, body)

    def _answer_next(self) -> None:
        while self._queue and not self._busy and self._transport is not None:
            request, came_at = self._queue.popleft()
            try:
                response = answer(self._server.world, request)
            except SimulatedTimeout as fault:
                self._busy = True
                self._loop.call_later(fault.seconds, self.close)
                return
            except Broken:
                self.close()
                return
            delay = self._server.latency_seconds
            if isinstance(response, SlowResponse):
                delay += response.delay_seconds
            if delay > 0:
                self._busy = True
                # From its arrival on: how long an answer takes to make here is no part of the world.
                self._loop.call_at(came_at + delay, self._send_late, request, response)
            else:
                self._send(request, response)

    def _send_late(self, request: Request, response: Response) -> None:
        self._busy = False
        self._send(request, response)
        self._answer_next()

    def _send(self, request: Request, response: Response) -> None:
        if self._transport is None:
            return
        self._transport.write(_encode(request, response))
        if isinstance(response, Upgrade) and response.subscription is not None:
            self._socket = Socket(self._transport, response.subscription, self._server.world.lock)
            return
        announced = int(response.headers.get("content-length", len(response.body)))
        if announced != len(response.body) or request.headers.get("connection", "").lower() == "close":
            self._transport.close()


class Server:
    """The world's HTTP server; `start` and `stop` belong to the event loop's thread."""

    def __init__(self, world: World, port: int = 0, latency_seconds: float = 0.0) -> None:
        self.world = world
        self.port = port
        self.latency_seconds = latency_seconds
        self.connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The origin clients talk to."""
        return f"http://{HOST}:{self.port}"

    async def start(self) -> None:
        """Begin to listen; afterwards `port` is the real one."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: Connection(self), HOST, self.port, backlog=512)
        self.port = int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._listener is None:
            return
        self._listener.close()
        for connection in tuple(self.connections):
            connection.close()
        await asyncio.sleep(0)
        await self._listener.wait_closed()
        self._listener = None


@contextmanager
def serve(world: World, port: int = 0, latency_seconds: float = 0.0) -> Iterator[Server]:
    """Serve a world from a background thread until the block ends. Change it under `world.lock`."""
    server = Server(world, port, latency_seconds)
    loop = asyncio.new_event_loop()
    started = threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            loop.run_until_complete(server.start())
        except OSError as error:
            failure.append(error)
        started.set()
        if not failure:
            loop.run_forever()

    thread = threading.Thread(target=run, name="simulator", daemon=True)
    thread.start()
    started.wait()
    try:
        if failure:
            raise failure[0]
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(5)
            loop.call_soon_threadsafe(loop.stop)
    finally:
        thread.join(5)
        loop.close()


def run_forever(
    world: World, port: int, latency_seconds: float = 0.0, ready: Callable[[str], None] | None = None
) -> None:
    """Serve in the foreground until SIGINT or SIGTERM; `ready` is told the address once it listens."""

    async def main() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        server = Server(world, port, latency_seconds)
        await server.start()
        if ready is not None:
            ready(server.url)
        await stopped.wait()
        await server.stop()

    asyncio.run(main())


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, protocol = first.split(" ")
    if not protocol.startswith("HTTP/1."):
        raise ValueError(f"not HTTP/1: {protocol}")
    headers: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if not separator:
            raise ValueError(f"not a header: {line!r}")
        headers[name.lower()] = value.strip()
    return method, target, headers


def _encode(request: Request, response: Response) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    if "content-length" not in response.headers and response.status not in (101, 204, 304):
        lines.append(f"content-length: {len(response.body)}")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head if request.method == "HEAD" else head + response.body
