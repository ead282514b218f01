"""Connections are reused, never shared by two requests, bounded in number, and closed when a response is abandoned."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.http.wire_server import ScriptedServer, Seen, answer

from tidelore.http.client import HttpClient
from tidelore.http.transport import open_transport


def client_of(server: ScriptedServer, connections: int = 10, slots: int = 10) -> HttpClient:
    transport = open_transport(server.url, connections=connections)
    return HttpClient(server.url, clock=ManualClock(), transport=transport, max_concurrency=slots)


def test_requests_one_after_another_use_one_connection() -> None:
    async def run() -> set[int]:
        async with ScriptedServer(answer()) as server, HttpClient(server.url, clock=ManualClock()) as client:
            for _ in range(5):
                await client.get("/x")
            return {seen.connection for seen in server.seen}

    assert asyncio.run(run()) == {1}


def test_concurrent_requests_have_a_connection_each_and_no_more_than_allowed() -> None:
    async def run() -> tuple[int, int]:
        held, release = asyncio.Queue[None](), asyncio.Event()

        async def hold(_: Seen, writer: asyncio.StreamWriter) -> None:
            held.put_nowait(None)
            await release.wait()
            writer.write(answer())
            await writer.drain()

        async with ScriptedServer(hold) as server:
            client = client_of(server, connections=3, slots=8)
            tasks = [asyncio.create_task(client.get("/x")) for _ in range(8)]
            for _ in range(3):
                await held.get()
            before = len(server.seen)
            release.set()
            await asyncio.gather(*tasks)
            await client._transport.aclose()
            return before, len({seen.connection for seen in server.seen})

    assert asyncio.run(run()) == (3, 3)


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    async def last(_: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(answer())
        await writer.drain()
        writer.close()

    async def run() -> list[int]:
        async with ScriptedServer(last, answer()) as server, HttpClient(server.url, clock=ManualClock()) as client:
            await client.get("/x")
            await asyncio.gather(*server._open)
            await client.get("/x")
            await client.get("/x")
            return [seen.connection for seen in server.seen]

    assert asyncio.run(run()) == [1, 2, 2]


def test_a_cancelled_response_closes_its_connection_and_frees_its_place() -> None:
    async def run() -> tuple[list[int], int]:
        started = asyncio.Event()

        async def half(_: Seen, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(body=b"[1, 2, 3]")[:-4])
            await writer.drain()
            started.set()
            await asyncio.Event().wait()

        async with ScriptedServer(half, answer()) as server:
            client = client_of(server, connections=1)
            task = asyncio.create_task(client.get("/x"))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.get("/x")
            stack = client._transport._pool  # type: ignore[attr-defined]
            kept = len(stack._idle) + len(stack._busy)
            await client._transport.aclose()
            return [seen.connection for seen in server.seen], kept

    assert asyncio.run(run()) == ([1, 2], 1)


def test_a_failed_connection_frees_its_place() -> None:
    async def run() -> list[str]:
        async with ScriptedServer(answer()) as server:
            url = server.url
        transport = open_transport(url, connections=1)
        client = HttpClient(url, clock=ManualClock(), transport=transport, max_retries=0)
        failures = []
        for _ in range(3):
            with pytest.raises(Exception, match="ConnectError") as caught:
                await client.get("/x")
            failures.append(type(caught.value).__name__)
        return failures

    assert asyncio.run(run()) == ["RemoteTransient"] * 3
