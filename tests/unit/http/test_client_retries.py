"""What is asked again, after which pause, and what is given up: against real servers on 127.0.0.1."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.http.asking import ask, close_early, drip, drop, fail, flood, get, get_list, hang, truncate
from tests.unit.http.wire_server import Answer, ScriptedServer, Seen, answer

from tidelore.core.errors import (
    CredentialsRejected,
    RateLimited,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
    ResponseTooLarge,
)
from tidelore.http.client import HttpClient


def test_a_304_to_an_unconditional_request_is_an_error() -> None:
    error, _, _ = ask(b"HTTP/1.1 304 Not Modified\r\n\r\n", do=fail, max_retries=0)
    assert isinstance(error, RemoteTransient)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (drop, "connection"),
        (truncate, "connection"),
        (close_early, "bad_body"),
        (answer(500), "server_error"),
        (answer(502, b"<html>"), "server_error"),
        (answer(408), "server_error"),
        (answer(body=b"<html>sign in</html>"), "bad_body"),
        (answer(body=b""), "bad_body"),
        (answer(body=b"[1, 2"), "bad_body"),
        (answer(body=b"no gzip", Content_Encoding="gzip"), "bad_body"),
        (answer(body=gzip.compress(b"[1]")[:-4], Content_Encoding="gzip"), "bad_body"),
        (answer(body=b"x", Content_Encoding="br"), "bad_body"),
    ],
)
def test_a_transient_error_is_retried_and_then_raised(fault: Answer, reason: str) -> None:
    value, server, _ = ask(fault, answer(body=b"[7]"), do=get_list)
    assert value == [7]
    assert len(server.seen) == 2
    error, server, _ = ask(fault, do=fail, max_retries=2)
    assert isinstance(error, RemoteTransient)
    assert error.reason == reason
    assert error.details["attempts"] == len(server.seen) == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RemotePermanent),
        (401, CredentialsRejected),
        (403, RemotePermanent),
        (404, RemoteNotFound),
        (405, RemotePermanent),
        (410, RemoteNotFound),
        (422, RemotePermanent),
    ],
)
def test_a_permanent_refusal_is_not_retried(status: int, kind: type[RemotePermanent]) -> None:
    error, server, clock = ask(answer(status, b'{"message":"no, because"}'), do=fail)
    assert type(error) is kind
    assert error.status == status
    assert error.details["said"] == '{"message":"no, because"}'
    assert (len(server.seen), clock.slept) == (1, [])


def test_a_legal_block_is_named_and_does_not_point_to_the_address() -> None:
    blocked = b'{"message":"Repository access blocked","block":{"reason":"dmca"}}'
    error, server, _ = ask(answer(451, blocked), do=fail)
    assert type(error) is RemotePermanent
    assert "legal reasons" in (error.fix or "")
    assert len(server.seen) == 1


def test_a_response_of_the_wrong_shape_is_a_permanent_error() -> None:
    error, server, _ = ask(answer(body=b'{"message":"hello"}'), do=fail)
    assert isinstance(error, RemotePermanent)
    assert error.reason == "bad_shape"
    assert len(server.seen) == 1


def test_a_truncated_response_is_a_transient_error() -> None:
    error, _, _ = ask(answer(body=b'{"message":"hel'), do=fail, max_retries=0)
    assert isinstance(error, RemoteTransient)
    assert error.reason == "bad_body"


def test_a_response_that_is_not_utf_8_is_a_transient_error() -> None:
    async def do(client: HttpClient, _: ScriptedServer) -> list[str]:
        return (await client.get_json("/x", as_type=list[str]))[0]

    value, server, _ = ask(answer(body=b'["\xff"]'), answer(body=b'["a"]'), do=do)
    assert value == ["a"]
    assert len(server.seen) == 2


def test_back_off_doubles_with_jitter() -> None:
    _, _, clock = ask(answer(500), do=fail, max_retries=4, retry_backoff_seconds=0.5)
    assert clock.slept == [0.5, 1.0, 2.0, 4.0]
    _, _, clock = ask(answer(500), do=fail, max_retries=2, retry_backoff_seconds=0.5, roll=lambda: 0.0)
    assert clock.slept == [0.25, 0.5]


def test_a_refused_connection_is_transient() -> None:
    async def run() -> RemoteTransient:
        async with ScriptedServer() as server:
            url = server.url
        async with HttpClient(url, clock=ManualClock(), max_retries=1) as client:
            with pytest.raises(RemoteTransient) as caught:
                await client.get("/x")
            return caught.value

    assert asyncio.run(run()).reason == "connection"


def test_a_server_that_does_not_answer_times_out() -> None:
    error, server, _ = ask(hang, do=fail, timeout_seconds=0.4, max_retries=1)
    assert error.reason == "timeout"
    assert len(server.seen) == 2


def test_a_slowly_dripping_server_hits_the_total_timeout() -> None:
    error, _, _ = ask(drip, do=fail, timeout_seconds=5, total_timeout_seconds=0.2, max_retries=0)
    assert error.reason == "timeout"


def test_an_abandoned_response_does_not_affect_the_next_request() -> None:
    value, server, _ = ask(drip, answer(body=b"[1]"), do=get_list, timeout_seconds=5, total_timeout_seconds=0.6)
    assert value == [1]
    assert [seen.connection for seen in server.seen] == [1, 2]


@pytest.mark.parametrize(
    "oversized",
    [
        flood,
        answer(body=b" " * 1_000_001),
        answer(body=gzip.compress(b" " * 50_000_000), Content_Encoding="gzip"),
    ],
)
def test_an_oversized_response_is_refused_without_retry(oversized: Answer) -> None:
    error, server, _ = ask(oversized, do=fail, max_response_bytes=1_000_000)
    assert isinstance(error, ResponseTooLarge)
    assert error.status == 200
    assert len(server.seen) == 1


def test_a_content_length_above_the_limit_is_refused_at_once() -> None:
    async def announce(_: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        await asyncio.sleep(30)

    error, _, _ = ask(announce, do=fail, timeout_seconds=20)
    assert isinstance(error, ResponseTooLarge)


def test_an_answer_of_exactly_the_limit_is_accepted() -> None:
    body = b"[" + b" " * 98 + b"]"
    assert ask(answer(body=body), do=get_list, max_response_bytes=100)[0] == []
    packed = answer(body=gzip.compress(body), Content_Encoding="gzip")
    assert ask(packed, do=get_list, max_response_bytes=100)[0] == []


def test_an_endless_error_page_still_gives_its_status() -> None:
    async def endless(_: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 99999999999\r\n\r\n" + b"nothing here " * 20_000)
        await asyncio.sleep(30)

    error, _, _ = ask(endless, do=fail, timeout_seconds=20)
    assert isinstance(error, RemoteNotFound)


def test_retry_after_replaces_back_off_and_delays_every_request() -> None:
    async def do(client: HttpClient, _: ScriptedServer) -> None:
        await client.get("/x")

    _, server, clock = ask(answer(429, Retry_After="17"), answer(), do=do)
    assert clock.slept == [17.0]
    assert len(server.seen) == 2


def test_no_request_is_sent_while_the_rate_limit_is_exhausted() -> None:
    async def do(client: HttpClient, _: ScriptedServer) -> tuple[int | None, int | None]:
        await client.get("/x")
        budget = client.governor.remaining, client.governor.reset_at
        await client.get("/y")
        return budget

    date = "Mon, 02 Mar 2026 09:00:00 GMT"
    spent = answer(RateLimit_Remaining="0", RateLimit_Reset="1772442012", Date=date)
    budget, _, clock = ask(spent, answer(), do=do)
    assert budget == (0, 1_772_442_012_000)
    assert clock.slept == [12.0]


def test_a_retry_after_beyond_the_maximum_wait_is_raised_at_once() -> None:
    async def do(client: HttpClient, server: ScriptedServer) -> list[Any]:
        return [await fail(client, server), await fail(client, server)]

    errors, server, clock = ask(answer(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="1772445600"), do=do)
    assert [type(error) for error in errors] == [RateLimited, RateLimited]
    assert [error.retry_after_seconds for error in errors] == [3600.0, 3600.0]
    assert (len(server.seen), clock.slept) == (1, [])


def test_a_secondary_rate_limit_waits_a_minute() -> None:
    body = b'{"message":"You have exceeded a secondary rate limit."}'
    _, _, clock = ask(answer(403, body), answer(403, body), answer(), do=get)
    assert clock.slept == [60.0, 120.0]


def test_a_fixed_request_rate_is_kept() -> None:
    async def do(client: HttpClient, _: ScriptedServer) -> None:
        for _i in range(3):
            await client.get("/x")

    _, _, clock = ask(answer(), do=do, rate_limit_rps=2)
    assert clock.monotonic() == 1.0
