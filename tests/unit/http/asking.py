"""Asking a scripted server, and the ways in which a server fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.manual_clock import ManualClock
from tests.unit.http.wire_server import Answer, ScriptedServer, Seen

from tidelore.core.errors import (
    RemotePermanent,
    RemoteTransient,
)
from tidelore.http.client import HttpClient, private_token
from tidelore.http.response import Response

TOKEN = "tok-123456789"


def ask(
    *script: Answer,
    do: Callable[[HttpClient, ScriptedServer], Awaitable[Any]],
    **options: Any,
) -> tuple[Any, ScriptedServer, ManualClock]:
    """Run `do` with a client of a scripted server; a manual clock, and a jitter that changes nothing."""
    clock = ManualClock()
    settings: dict[str, Any] = {"clock": clock, "roll": lambda: 1.0, "token": TOKEN, "auth": private_token} | options

    async def run() -> tuple[Any, ScriptedServer, ManualClock]:
        async with ScriptedServer(*script) as server, HttpClient(server.url, **settings) as client:
            return await do(client, server), server, clock

    return asyncio.run(run())


async def get(client: HttpClient, _: ScriptedServer) -> Response:
    return await client.get("/x")


async def get_list(client: HttpClient, _: ScriptedServer) -> list[int]:
    return (await client.get_json("/x", as_type=list[int]))[0]


async def fail(client: HttpClient, server: ScriptedServer) -> RemoteTransient | RemotePermanent:
    try:
        await get_list(client, server)
    except (RemoteTransient, RemotePermanent) as error:
        return error
    raise AssertionError("the request succeeded")


async def drop(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def hang(_: Seen, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def truncate(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[1, 2")
    writer.close()


async def close_early(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[1, 2")
    writer.close()


async def drip(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _i in range(1000):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def flood(_: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _i in range(200):
        writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
        await writer.drain()
