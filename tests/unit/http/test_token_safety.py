"""The token goes to the configured origin and nowhere else: no other host, no log, no exception, no repr."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.http.wire_server import Answer, ScriptedServer, answer

from tidelore.core.errors import ForeignOrigin, RemoteError, RemotePermanent
from tidelore.http.client import HttpClient, bearer, private_token

TOKEN = "tok-123456789"

Job = Callable[[HttpClient, ScriptedServer, ScriptedServer], Awaitable[None]]


def _with_stranger(job: Job, *script: Answer) -> tuple[ScriptedServer, ScriptedServer]:
    async def run() -> tuple[ScriptedServer, ScriptedServer]:
        async with ScriptedServer(*script) as home, ScriptedServer(answer()) as stranger:
            async with HttpClient(
                home.url, token=TOKEN, auth=private_token, clock=ManualClock(), max_retries=1
            ) as client:
                await job(client, home, stranger)
            return home, stranger

    return asyncio.run(run())


def test_an_absolute_url_of_the_same_origin_is_requested() -> None:
    async def job(client: HttpClient, home: ScriptedServer, _: ScriptedServer) -> None:
        await client.get(f"http://user:pw@127.0.0.1:{home.port}/repositories/9/issues?page=2#top")

    home, _ = _with_stranger(job, answer())
    assert home.seen[0].target == "/repositories/9/issues?page=2"
    assert home.seen[0].headers["private-token"] == TOKEN
    assert "authorization" not in home.seen[0].headers


@pytest.mark.parametrize(
    "form",
    [
        "http://127.0.0.1:{stranger}/x",
        "//127.0.0.1:{stranger}/x",
        "https://127.0.0.1:{home}/x",
        "http://localhost:{home}/x",
        "http://127.0.0.1:{home}@127.0.0.1:{stranger}/x",
        "http://127.0.0.1:{home}\\@127.0.0.1:{stranger}/x",
        "http:127.0.0.1:{stranger}/x",
        "HTTP://127.0.0.1:{stranger}",
        "ftp://127.0.0.1:{home}/x",
        "file:///etc/hostname",
        "http://[/x",
        "http://127.0.0.1:{home}.evil.example/x",
    ],
)
@pytest.mark.parametrize("method", ["get", "write"])
def test_a_url_of_another_origin_is_refused_before_anything_is_sent(form: str, method: str) -> None:
    async def job(client: HttpClient, home: ScriptedServer, stranger: ScriptedServer) -> None:
        with pytest.raises(ForeignOrigin):
            await getattr(client, method)(form.format(home=home.port, stranger=stranger.port))

    home, stranger = _with_stranger(job, answer())
    assert stranger.seen == []
    assert home.seen == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_origin_is_refused(status: int) -> None:
    async def job(client: HttpClient, home: ScriptedServer, stranger: ScriptedServer) -> None:
        with pytest.raises(ForeignOrigin):
            await client.get(f"/go?to={stranger.port}")

    async def redirect(seen, writer) -> None:  # type: ignore[no-untyped-def]
        writer.write(answer(status, b"", Location=f"http://127.0.0.1:{seen.target.split('=')[1]}/x"))
        await writer.drain()

    home, stranger = _with_stranger(job, redirect)
    assert len(home.seen) == 1
    assert stranger.seen == []


def test_a_redirect_within_the_origin_is_followed_with_its_validator() -> None:
    async def job(client: HttpClient, home: ScriptedServer, _: ScriptedServer) -> None:
        reply = await client.get("/old/name?page=2", etag='"v"')
        assert reply.url == f"{home.url}/repositories/9?page=2"

    home, _ = _with_stranger(job, answer(301, b"", Location="/repositories/9?page=2"), answer())
    assert [seen.target for seen in home.seen] == ["/old/name?page=2", "/repositories/9?page=2"]
    assert home.seen[1].headers["if-none-match"] == '"v"'
    assert home.seen[1].headers["private-token"] == TOKEN


def test_a_redirect_loop_ends_in_an_error() -> None:
    async def job(client: HttpClient, home: ScriptedServer, _: ScriptedServer) -> None:
        with pytest.raises(RemotePermanent) as caught:
            await client.get("/x")
        assert caught.value.reason == "too_many_redirects"

    home, _ = _with_stranger(job, answer(302, b"", Location="/x"))
    assert len(home.seen) == 4


def test_a_redirect_without_a_location_is_an_error() -> None:
    async def job(client: HttpClient, home: ScriptedServer, _: ScriptedServer) -> None:
        with pytest.raises(RemotePermanent):
            await client.get("/x")

    home, _ = _with_stranger(job, answer(302, b""))
    assert len(home.seen) <= 4


async def _drop(_: object, writer: asyncio.StreamWriter) -> None:
    writer.close()


ECHO = f'{{"message":"bad token {TOKEN}","private_token={TOKEN}":1}}'.encode()


@pytest.mark.parametrize("auth", [bearer, private_token])
@pytest.mark.parametrize(
    "fault",
    [
        answer(400, ECHO),
        answer(401, ECHO),
        answer(500, ECHO),
        answer(429, ECHO),
        answer(body=ECHO[:-5]),
        _drop,
    ],
)
def test_the_token_is_in_no_log_exception_or_repr(
    fault: Answer, auth: Callable[[str], tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []

    async def run() -> None:
        options = {"token": TOKEN, "auth": auth, "clock": ManualClock(), "max_retries": 1}
        async with ScriptedServer(fault) as server, HttpClient(server.url, **options) as client:  # type: ignore[arg-type]
            shown.append(repr(client) + repr(vars(client)["_headers"]) + repr(client.governor))
            try:
                await client.get_json("/x", {"private_token": TOKEN}, as_type=list[int])
            except RemoteError as error:
                shown.append("".join(traceback.format_exception(error)))
                shown.append(f"{error!r} {error.details} {error.__cause__!r} {error.__context__!r}")

    asyncio.run(run())
    records = [record for record in caplog.records if record.name.startswith("tidelore")]
    assert any(record.levelno == logging.DEBUG and "GET" in record.getMessage() for record in records)
    assert len(shown) == 3
    assert TOKEN not in "".join(shown) + "".join(record.getMessage() for record in caplog.records)


def test_a_log_record_has_method_url_and_status(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="tidelore")

    async def job(client: HttpClient, home: ScriptedServer, _: ScriptedServer) -> None:
        await client.get("/issues?page=2&private_token=abcdefgh")

    home, _ = _with_stranger(job, answer(500), answer(body=b"[1]"))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert lines == [
        f"GET {home.url}/issues?page=2&private_token=***: status 500, 0 ms, 2 bytes, attempt 1, transient",
        f"GET {home.url}/issues?page=2&private_token=***: status 200, 0 ms, 3 bytes, attempt 2, ok",
    ]


@pytest.mark.parametrize("before", range(180, 201, 4))
def test_a_token_cut_by_the_end_of_an_excerpt_is_fully_redacted(before: int) -> None:
    async def job(client: HttpClient, _home: ScriptedServer, _stranger: ScriptedServer) -> None:
        with pytest.raises(RemotePermanent) as raised:
            await client.get("/x")
        assert "tok-1" not in f"{raised.value.message} {raised.value!r} {vars(raised.value)}"

    _with_stranger(job, answer(status=400, body=b"-" * before + TOKEN.encode()))
