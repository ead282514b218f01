"""Keeps the connections of a client and reuses the one that was used last.

The library's pool looks at every connection and every request whenever one begins or ends, which took an eighth of the
time of a request. A client talks to one origin and limits its requests itself, so a stack of idle connections is
enough. How a connection is opened, and how a request is sent over it, is left to the library. Not for proxies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator

import httpcore2


class ConnectionStack(httpcore2.AsyncConnectionPool):
    """A pool in which an idle connection is checked only when a request is about to use it."""

    def __init__(
        self,
        library_pool: httpcore2.AsyncConnectionPool,
        *,
        connections: int,
    ) -> None:
        super().__init__(
            ssl_context=library_pool._ssl_context,
            max_connections=connections,
            keepalive_expiry=library_pool._keepalive_expiry,
            network_backend=library_pool._network_backend,
        )
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[httpcore2.AsyncConnectionInterface] = []
        self._busy: set[httpcore2.AsyncConnectionInterface] = set()

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        await self._acquire(request)
        connection = None
        try:
            while True:
                connection = await self._take(request.url.origin)
                try:
                    response = await connection.handle_async_request(request)
                except httpcore2.ConnectionNotAvailable:
                    # The server closed it since it was checked; nothing was sent.
                    self._busy.discard(connection)
                    continue
                break
        except BaseException:
            await self.release(connection)
            raise
        assert isinstance(response.stream, AsyncIterable)
        return httpcore2.Response(
            status=response.status,
            headers=response.headers,
            content=ReleasingStream(response.stream, self, connection),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        closing = [*self._idle, *self._busy]
        self._idle.clear()
        self._busy.clear()
        for connection in closing:
            await connection.aclose()

    async def _acquire(self, request: httpcore2.Request) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        seconds = request.extensions.get("timeout", {}).get("pool")
        try:
            async with asyncio.timeout(seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise httpcore2.PoolTimeout from None

    async def _take(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        """Return a connection that no other request uses: an idle one, or else a new one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_available() and connection.can_handle_request(origin) and not connection.has_expired():
                break
            await connection.aclose()
        else:
            connection = self.create_connection(origin)
        self._busy.add(connection)
        return connection

    async def release(self, connection: httpcore2.AsyncConnectionInterface | None) -> None:
        """End the use of a connection; close it unless it can be used again."""
        self._slots.release()
        if connection is None or connection not in self._busy:
            return
        self._busy.discard(connection)
        if connection.is_available():
            self._idle.append(connection)
        elif connection.is_connected():
            await connection.aclose()


class ReleasingStream:
    """The body of a response; closing it releases the connection."""

    def __init__(
        self, stream: AsyncIterable[bytes], stack: ConnectionStack, connection: httpcore2.AsyncConnectionInterface
    ) -> None:
        self._stream = stream
        self._stack = stack
        self._connection = connection
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        """Finish the response; a cancellation closes the connection."""
        if self._closed:
            return
        self._closed = True
        try:
            close = getattr(self._stream, "aclose", None)
            if close is not None:
                await close()
        finally:
            await self._stack.release(self._connection)
