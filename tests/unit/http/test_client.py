"""The client against real servers on 127.0.0.1: what is sent, what comes back, what is measured."""

from __future__ import annotations

import asyncio
import gzip

import httpx2
import pytest
from tests.unit.http.asking import TOKEN, ask, get, hang
from tests.unit.http.wire_server import ScriptedServer, Seen, answer

from tidelore.core.errors import (
    ConfigError,
    CredentialsMissing,
)
from tidelore.http.client import HttpClient
from tidelore.http.pagination import Params
from tidelore.http.response import RequestMetric, Response


def test_a_request_carries_token_query_and_only_expected_headers() -> None:
    async def do(client: HttpClient, server: ScriptedServer) -> None:
        params: Params = {"a": "x y", "n": 1, "yes": True, "no": False, "none": None, "labels[]": ["p", "q"]}
        await client.get("/projects/group%2Fname/issues", params)

    _, server, _ = ask(answer(), do=do, user_agent="tester/1", headers={"X-Api": "2"})
    seen = server.seen[0]
    assert seen.target == ("/projects/group%2Fname/issues?a=x+y&n=1&yes=true&no=false&labels%5B%5D=p&labels%5B%5D=q")
    assert seen.headers["private-token"] == TOKEN
    assert seen.headers["user-agent"] == "tester/1"
    assert seen.headers["x-api"] == "2"
    assert "cookie" not in seen.headers


def test_a_base_url_with_a_path_is_kept() -> None:
    async def run() -> str:
        async with ScriptedServer(answer()) as server:
            async with HttpClient(f"{server.url}/gitlab/") as client:
                await client.get("/api/v4/x?y=1", {"z": 2})
            return server.seen[0].target

    assert asyncio.run(run()) == "/gitlab/api/v4/x?y=1&z=2"


def test_connections_are_kept_alive_and_cookies_are_not() -> None:
    async def do(client: HttpClient, server: ScriptedServer) -> None:
        for _ in range(3):
            await client.get("/x")

    _, server, _ = ask(answer(Set_Cookie="a=b"), do=do)
    assert {seen.connection for seen in server.seen} == {1}
    assert all("cookie" not in seen.headers for seen in server.seen)


def test_a_reply_has_status_url_etag_and_the_servers_clock() -> None:
    reply, server, _ = ask(answer(body=b"[1]", ETag='W/"v1"', Date="Mon, 02 Mar 2026 09:00:00 GMT"), do=get)
    assert (reply.status, reply.body, reply.etag) == (200, b"[1]", 'W/"v1"')
    assert reply.url == f"{server.url}/x"
    assert reply.server_at == 1_772_442_000_000
    assert reply.headers["CONTENT-type"] == "application/json"
    assert not reply.not_modified


def test_repeated_headers_are_joined() -> None:
    raw = b"HTTP/1.1 200 OK\r\nLink: <a>; rel=prev\r\nContent-Length: 0\r\nlink: <b>; rel=next\r\n\r\n"
    reply, _, _ = ask(raw, do=get)
    assert reply.headers["link"] == "<a>; rel=prev, <b>; rel=next"


def test_an_unchanged_resource_is_not_modified() -> None:
    async def do(client: HttpClient, _: ScriptedServer) -> tuple[list[int] | None, Response]:
        return await client.get_json("/x", as_type=list[int], etag='"v1"')

    (value, reply), server, _ = ask(b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n', do=do)
    assert value is None
    assert reply.not_modified
    assert reply.etag == '"v1"'
    assert server.seen[0].headers["if-none-match"] == '"v1"'


class Crowd:
    """A server's step that counts how many requests are under way."""

    running = most = 0

    async def __call__(self, _: Seen, writer: asyncio.StreamWriter) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.02)
        self.running -= 1
        writer.write(answer())
        await writer.drain()


def test_no_more_requests_run_at_once_than_allowed() -> None:
    async def do(client: HttpClient, _: ScriptedServer) -> None:
        await asyncio.gather(*(client.get(f"/{n}") for n in range(12)))

    crowd = Crowd()
    _, server, _ = ask(crowd, do=do, max_concurrency=3)
    assert crowd.most == 3
    assert {seen.connection for seen in server.seen} == {1, 2, 3}


def test_clients_sharing_slots_share_the_limit_of_concurrent_requests() -> None:
    crowd = Crowd()

    async def run() -> None:
        slots = asyncio.Semaphore(2)
        async with (
            ScriptedServer(crowd) as one,
            ScriptedServer(crowd) as other,
            HttpClient(one.url, slots=slots) as first,
            HttpClient(other.url, slots=slots) as second,
        ):
            await asyncio.gather(*(client.get(f"/{n}") for client in (first, second) for n in range(5)))

    asyncio.run(run())
    assert crowd.most == 2


def test_every_request_is_measured() -> None:
    metrics: list[RequestMetric] = []

    async def do(client: HttpClient, _: ScriptedServer) -> None:
        await client.get_json("/a%2Fb?private_token=hidden99", as_type=list[int], route=None)
        await client.get("/c", route="gitlab.issues", etag="x")

    ask(
        answer(500, b"12345"),
        answer(body=b"nope"),
        answer(301, b"", Location="/d"),
        answer(body=gzip.compress(b"[1]" + b" " * 1000), Content_Encoding="gzip"),
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        do=do,
        on_request=metrics.append,
    )
    packed = len(gzip.compress(b"[1]" + b" " * 1000))
    assert [(m.method, m.route, m.status, m.bytes, m.attempt, m.outcome) for m in metrics] == [
        ("GET", "/a%2Fb", 500, 5, 1, "transient"),
        ("GET", "/a%2Fb", 200, 4, 2, "transient"),
        ("GET", "/a%2Fb", 301, 0, 3, "redirect"),
        ("GET", "/d", 200, packed, 3, "ok"),
        ("GET", "gitlab.issues", 304, 0, 1, "not_modified"),
    ]


def test_a_cancelled_request_is_measured_and_frees_its_slot() -> None:
    metrics: list[RequestMetric] = []
    arrived = asyncio.Event()

    async def arrive(seen: Seen, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await hang(seen, writer)

    async def do(client: HttpClient, _: ScriptedServer) -> Response:
        task = asyncio.create_task(client.get("/slow"))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await client.get("/x")

    reply, _, _ = ask(arrive, answer(), do=do, on_request=metrics.append, max_concurrency=1)
    assert reply.status == 200
    assert [metric.outcome for metric in metrics] == ["cancelled", "ok"]


def test_a_transport_passed_by_the_caller_is_used_and_not_closed() -> None:
    class Counting(httpx2.MockTransport):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    transport = Counting(lambda request: httpx2.Response(200, content=b"[3]"))

    async def run() -> list[int]:
        async with HttpClient("http://simulator.example", transport=transport) as client:
            return (await client.get_json("/x", as_type=list[int]))[0]

    assert asyncio.run(run()) == [3]
    assert transport.closed == 0


@pytest.mark.parametrize("url", ["", "gitlab.example.com", "ftp://h/", "https://", "https://h/?a=1", "http://h\n/"])
def test_an_invalid_base_url_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError):
        HttpClient(url)


@pytest.mark.parametrize("token", ["abcd efgh", "abcdefgh\n", "abcdéfgh"])
def test_a_token_that_is_not_a_valid_header_value_is_refused_without_quoting_it(token: str) -> None:
    with pytest.raises(CredentialsMissing) as caught:
        HttpClient("http://127.0.0.1", token=token)
    assert "abcd" not in str(caught.value)


def test_the_url_of_a_request_is_known_before_it_is_sent() -> None:
    async def do(client: HttpClient, _: ScriptedServer) -> tuple[str, str]:
        return client.address("/a%2Fb", {"page": 2}), (await client.get("/a%2Fb", {"page": 2})).url

    (before, after), server, _ = ask(answer(), do=do)
    assert before == after == f"{server.url}/a%2Fb?page=2"
