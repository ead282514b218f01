"""The server of the running service: fixed paths, the loopback alone, and limits for slow and too many clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from tidelore.core.errors import StorageFailed, UserError
from tidelore.service import http_server
from tidelore.service.http_server import MOST_CLIENTS, StatusServer

LARGE = b"x" * 4_000_000


def hello(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello\n"]


def large(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [LARGE]


def broken(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    raise KeyError("a page")


def away(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    raise StorageFailed("the database does not answer")


def serve(work: Callable[[int], Awaitable[None]]) -> None:
    async def inside() -> None:
        server = StatusServer({"/hello": hello, "/large": large, "/broken": broken, "/away": away})
        server.open(0)
        assert server.port is not None
        try:
            await work(server.port)
        finally:
            await server.close()

    asyncio.run(inside())


async def ask(port: int, request: bytes) -> bytes:
    """Return everything that is answered: nothing when the connection is cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def answers(request: bytes) -> bytes:
    found: list[bytes] = []

    async def work(port: int) -> None:
        found.append(await ask(port, request))

    serve(work)
    return found[0]


def test_the_metrics_page_is_sent_completely_and_the_connection_closed() -> None:
    answer = answers(b"GET /hello?x=1 HTTP/1.1\r\nHost: 127.0.0.1:9464\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"Content-Length: 6" in head
    assert body == b"hello\n"


def test_a_large_page_arrives_to_its_last_byte() -> None:
    assert answers(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").endswith(b"\r\n\r\n" + LARGE)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        (b"HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET http://evil.example/hello HTTP/1.1\r\n\r\n", 404),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
        (b"GET /away HTTP/1.1\r\n\r\n", 503),
        (b"GET /hello HTTP/1.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", 431),
    ],
)
def test_other_paths_and_methods_are_refused(request_line: bytes, status: int) -> None:
    assert answers(request_line).split()[1] == str(status).encode()


@pytest.mark.parametrize("line", [b"hello", b"GET /hello HTTP/2.0"])
def test_requests_that_are_not_http_1_are_refused(line: bytes) -> None:
    answer = answers(line + b"\r\n\r\n")
    assert b"Error response" in answer
    assert b"hello\n" not in answer


@pytest.mark.parametrize("host", ["LOCALHOST:80", "127.0.0.1", "[::1]:9464", ""])
def test_every_loopback_host_header_is_accepted(host: str) -> None:
    assert answers(f"GET /hello?x=1 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).split()[1] == b"200"


def test_a_silent_client_is_disconnected_while_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CLIENT_SECONDS", 0.3)

    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /hello HT")
        assert b"200 OK" in await ask(port, b"GET /hello HTTP/1.1\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()

    serve(work)


def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CLIENT_SECONDS", 0.3)

    async def work(port: int) -> None:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", port))
            slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
            await asyncio.sleep(1)
            slow.settimeout(2)
            received = 0
            while chunk := slow.recv(65_536):
                received += len(chunk)
            assert received < len(LARGE)

    serve(work)


def test_clients_above_the_limit_are_rejected_and_the_server_keeps_serving() -> None:
    async def work(port: int) -> None:
        waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CLIENTS)]
        assert await ask(port, b"GET /hello HTTP/1.1\r\n\r\n") == b""
        for _, writer in waiting:
            writer.close()
        await asyncio.sleep(0.05)
        assert b"200 OK" in await ask(port, b"GET /hello HTTP/1.1\r\n\r\n")

    serve(work)


def test_a_port_in_use_is_reported_with_a_fix() -> None:
    async def work(port: int) -> None:
        second = StatusServer({})
        with pytest.raises(UserError) as caught:
            second.open(port)
        assert caught.value.details["port"] == port
        assert "service.metrics_port" in (caught.value.fix or "")

    serve(work)


def test_the_metrics_server_listens_on_loopback_only() -> None:
    async def work(port: int) -> None:
        with socket.socket() as other:
            other.settimeout(1)
            assert other.connect_ex(("127.0.0.2", port)) != 0

    serve(work)


def test_a_connected_client_is_disconnected_when_the_server_stops() -> None:
    async def work() -> bytes:
        server = StatusServer({"/hello": hello})
        server.open(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /hello HT")
        await asyncio.sleep(0.05)
        await server.close()
        left = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        return left

    assert asyncio.run(work()) == b""
