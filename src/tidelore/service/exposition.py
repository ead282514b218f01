"""What others may ask the running service. Owns a small HTTP/1.1 server on the loopback: GET of a few fixed paths.

Refuses every other method and path, names of other hosts (a page in somebody's browser is not a guest here), long
requests, and clients that are slow: each has a few seconds, and each connection answers once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

from msgspec import Struct

from tidelore.errors import TideloreError, UserError

_LOG = logging.getLogger(__name__)

HOST = "127.0.0.1"
CLIENT_SECONDS = 5.0
MOST_CLIENTS = 32
MOST_BYTES = 8192
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]", ""})


class Page(Struct, frozen=True):
    """One answer."""

    status: int
    content_type: str
    body: bytes


class Exposition:
    """The server while it listens."""

    def __init__(self, pages: Mapping[str, Callable[[], Page]]) -> None:
        self._pages = pages
        self._clients: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int | None:
        """Where it listens, once it does."""
        return None if self._server is None else int(self._server.sockets[0].getsockname()[1])

    async def open(self, port: int) -> None:
        """Begin to listen."""
        try:
            self._server = await asyncio.start_server(self._greet, HOST, port, limit=MOST_BYTES)
        except OSError as error:
            raise UserError(
                f"cannot listen on {HOST}:{port}: {error.strerror or error}",
                fix="choose another service.metrics_port, or 0 for none",
                key="service.metrics_port",
                port=port,
            ) from None

    async def close(self) -> None:
        """Stop listening, and let go of whoever is still there."""
        if self._server is None:
            return
        self._server.close()
        for client in tuple(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= MOST_CLIENTS:
            writer.transport.abort()
            return
        client = asyncio.create_task(self._attend(reader, writer))
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # So that `drain` waits until everything is on its way.
        writer.transport.set_write_buffer_limits(0)
        try:
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(CLIENT_SECONDS):
                    writer.write(_render(*await self._answer(reader)))
                    await writer.drain()
        finally:
            if writer.transport.get_write_buffer_size():
                # A reader that takes nothing would keep what is not sent yet for ever.
                writer.transport.abort()
            else:
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Page, bool]:
        """Return the page for a request, and whether its body is wanted."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            return _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), True
        except asyncio.IncompleteReadError:
            return _refusal(HTTPStatus.BAD_REQUEST), True
        request = read_head(head)
        if request is None:
            return _refusal(HTTPStatus.BAD_REQUEST), True
        method, path, host = request
        if host not in _NAMES:
            return _refusal(HTTPStatus.MISDIRECTED_REQUEST), True
        if method not in ("GET", "HEAD"):
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED), True
        page = self._pages.get(path)
        return (_refusal(HTTPStatus.NOT_FOUND) if page is None else self._made(page)), method == "GET"

    def _made(self, page: Callable[[], Page]) -> Page:
        try:
            return page()
        except TideloreError as error:
            _LOG.warning("a page could not be made: %s", error.message, extra={"event": "page_failed"})
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE)
        except Exception:  # noqa: BLE001 - one question without an answer ends neither the server nor the service
            _LOG.exception("a page could not be made", extra={"event": "page_failed"})
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)


def read_head(head: str) -> tuple[str, str, str] | None:
    """Return method, path and the host's name of a request, or None when it is none of HTTP/1."""
    lines = head.split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        return None
    host = ""
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon and name.lower() == "host":
            host = value.strip().lower()
    name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return words[0], words[1].partition("?")[0], name


def _refusal(status: HTTPStatus) -> Page:
    return Page(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())


def _render(page: Page, with_body: bool) -> bytes:  # noqa: FBT001 - what `_answer` returns
    allow = "Allow: GET, HEAD\r\n" if page.status == HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nCache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (page.body if with_body else b"")
