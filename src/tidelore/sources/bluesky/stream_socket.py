"""The WebSocket of the event stream: the only module that imports the WebSocket library.

Opens, reads and closes connections, and maps failures to errors. Must not interpret messages or retry. Invariant: every
exception of the library is converted to `SocketFailure`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidProxy, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from tidelore import __version__
from tidelore.core.errors import ConfigError, RateLimited, RemoteError, RemotePermanent, RemoteTransient
from tidelore.core.redaction import redact
from tidelore.http.failures import excerpt
from tidelore.http.limits import parse_http_date
from tidelore.http.tls import add_authority, find_proxy, tls_trouble

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_UNREAD = 64
_CLOSE_SECONDS = 2.0


class SocketFailure(Exception):
    """The connection could not be opened, or ended. `status` and `said` are the server's response if it refused."""

    def __init__(self, detail: str, *, status: int | None = None, said: str = "", untrusted: bool = False) -> None:
        super().__init__(detail)
        self.status = status
        self.said = said
        self.untrusted = untrusted


class SocketOptions(Struct, frozen=True):
    """The options for opening connections."""

    timeout_seconds: float = 30.0
    ca_file: str = ""
    proxy: str = ""


class StreamSocket:
    """An open connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @property
    def server_at(self) -> int | None:
        """The server's time in its response to the handshake, if it sent one."""
        response = self._connection.response
        return None if response is None else parse_http_date(response.headers.get("date"))

    async def send(self, text: str) -> None:
        """Send a message."""
        try:
            await self._connection.send(text)
        except ConnectionClosed as error:
            raise SocketFailure(_describe(error)) from None

    async def receive(self) -> bytes:
        """Wait for the next message."""
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as error:
            raise SocketFailure(_describe(error)) from None


@asynccontextmanager
async def open_socket(url: str, subprotocol: str | None, options: SocketOptions) -> AsyncIterator[StreamSocket]:
    """Open a connection until the block ends."""
    try:
        connection = await _opening(url, subprotocol, options)
    except InvalidStatus as error:
        said = (error.response.body or b"")[:4096].decode("utf-8", "replace")
        status = error.response.status_code
        raise SocketFailure(f"the server refused (status {status})", status=status, said=redact(said)) from None
    except (InvalidURI, InvalidProxy) as error:
        raise ConfigError(
            f"invalid stream address: {redact(str(error))}",
            key="bluesky.jetstream_url",
            fix='write it like "wss://jetstream.example.com/subscribe"',
        ) from None
    except (OSError, TimeoutError, WebSocketException, EOFError) as error:
        raise SocketFailure(_describe(error), untrusted=tls_trouble(error) == "untrusted") from None
    try:
        yield StreamSocket(connection)
    finally:
        await connection.close()


def _opening(url: str, subprotocol: str | None, options: SocketOptions) -> connect:
    trusted = add_authority(ssl.create_default_context(), options.ca_file) if url.startswith("wss:") else None
    return connect(
        url,
        # The filtered stream is small, so compression would only cost both sides time.
        compression=None,
        subprotocols=[Subprotocol(subprotocol)] if subprotocol else None,
        user_agent_header=f"tidelore/{__version__}",
        proxy=find_proxy(f"http{url[2:]}", options.proxy),
        open_timeout=options.timeout_seconds,
        close_timeout=_CLOSE_SECONDS,
        max_size=MAX_MESSAGE_BYTES,
        max_queue=_UNREAD,
        ssl=trusted,
    )


def _describe(error: BaseException) -> str:
    text = redact(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_PASSING = frozenset({408, 425, 429})


def classify_socket_failure(failure: SocketFailure, url: str) -> RemoteError:
    """Return the error for a failed connection."""
    status, said = failure.status, excerpt(failure.said.encode()) or None
    if failure.untrusted:
        return RemotePermanent(
            f"the stream's certificate is not trusted: {failure}",
            url=url,
            reason="untrusted_certificate",
            fix="for a private CA, set http.ca_file to its certificate",
        )
    if status == 429:
        return RateLimited(
            "the stream server limits the number of connections", status=status, url=url, reason="rate_limit"
        )
    if status is not None and 300 <= status < 500 and status not in _PASSING:
        return RemotePermanent(
            f"the stream refused the connection (status {status})",
            status=status,
            url=url,
            reason="refused",
            fix="check bluesky.jetstream_url",
            said=said,
        )
    return RemoteTransient(
        f"cannot reach the stream: {failure}",
        status=status,
        url=url,
        reason="stream",
        fix="check bluesky.jetstream_url and the network; polling continues without the stream",
        said=said,
    )
