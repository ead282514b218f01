"""The client against real sockets: bounded, discreet, loyal to one server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.sources.wire_server import Answer, Proxy, ScriptedServer, Seen, answer, create_authority

from tidelore.config import Http
from tidelore.embedding.client import JsonClient
from tidelore.errors import (
    ConfigError,
    CredentialsMissing,
    CredentialsRejected,
    RateLimited,
    RemotePermanent,
    RemoteTransient,
    ResponseTooLarge,
    TideloreError,
)

KEY = "sk-secret/0123456789"


def ask(*script: Answer, http: Http | None = None, **options: Any) -> tuple[Any, ScriptedServer, ManualClock]:
    """Ask a scripted server for a list; an error is returned, not raised."""
    clock = ManualClock()
    tls = options.pop("tls", None)

    async def run() -> tuple[Any, ScriptedServer, ManualClock]:
        async with ScriptedServer(*script, tls=tls) as server:
            settings: dict[str, Any] = {
                "timeout_seconds": 5.0,
                "key": KEY,
                "clock": clock,
                "roll": lambda: 1.0,
            } | options
            client = JsonClient(server.url, http=http or Http(max_retries=2), **settings)
            try:
                return await client.ask("POST", "x", {"a": 1}, list[int]), server, clock
            except TideloreError as error:
                return error, server, clock
            finally:
                await client.aclose()

    return asyncio.run(run())


def test_the_key_travels_in_a_header() -> None:
    value, server, _ = ask(answer(body=b"[1]"))
    assert value == [1]
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.seen[0].body == b'{"a":1}'


@pytest.mark.parametrize("fault", [answer(500), answer(body=b"[1, 2"), answer(body=b"<html>"), answer(502, b"<html>")])
def test_a_transient_fault_is_tried_again_and_then_told(fault: Answer) -> None:
    value, server, clock = ask(fault, answer(body=b"[7]"))
    assert value == [7]
    assert (len(server.seen), clock.slept) == (2, [1])
    error, server, clock = ask(fault)
    assert isinstance(error, RemoteTransient)
    assert error.details["attempts"] == len(server.seen) == 3
    assert clock.slept == [1, 2]


def test_a_named_wait_is_kept() -> None:
    value, _, clock = ask(answer(429, Retry_After="9"), answer(body=b"[7]"))
    assert (value, clock.slept) == ([7], [9])


def test_a_date_to_wait_for_is_measured_on_the_servers_clock() -> None:
    until, said = "Mon, 02 Mar 2026 09:00:20 GMT", "Mon, 02 Mar 2026 09:00:15 GMT"
    value, _, clock = ask(answer(429, Retry_After=until, Date=said), answer(body=b"[7]"))
    assert (value, clock.slept) == ([7], [5])


def test_a_wait_beyond_patience_is_told_at_once() -> None:
    error, server, clock = ask(answer(429, Retry_After="3600"))
    assert isinstance(error, RateLimited)
    assert (error.retry_after_seconds, len(server.seen), clock.slept) == (3600, 1, [])


@pytest.mark.parametrize("fault", [answer(400), answer(body=b'{"not": "a list"}'), answer(307, Location="http://x/")])
def test_what_repeats_itself_is_asked_once(fault: Answer) -> None:
    error, server, _ = ask(fault, answer(body=b"[7]"))
    assert isinstance(error, RemotePermanent)
    assert len(server.seen) == 1


def test_a_silent_server_is_given_up() -> None:
    async def hang(_: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    error, server, _ = ask(hang, timeout_seconds=0.05, http=Http(max_retries=1))
    assert isinstance(error, RemoteTransient)
    assert (error.reason, len(server.seen)) == ("timeout", 2)


def test_an_answer_above_the_limit_is_refused() -> None:
    error, _, _ = ask(answer(body=b"[" + b"1," * 5000 + b"1]"), max_response_bytes=1000)
    assert isinstance(error, ResponseTooLarge)


def test_the_key_appears_in_no_error_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    echo = answer(401, f"wrong key {KEY}".encode())

    async def drop(_: Seen, writer: asyncio.StreamWriter) -> None:
        writer.close()

    with caplog.at_level(logging.DEBUG):
        rejected, _, _ = ask(echo)
        dropped, _, _ = ask(drop, http=Http(max_retries=1))
    assert isinstance(rejected, CredentialsRejected)
    assert rejected.details["said"] == "wrong key ***"
    assert isinstance(dropped, RemoteTransient)
    for error in (rejected, dropped):
        assert KEY not in f"{error} {error.details} {error.__cause__!r} {error.__context__!r}"
    assert caplog.records
    assert KEY not in caplog.text
    assert KEY not in repr(JsonClient("http://127.0.0.1:1", http=Http(), timeout_seconds=1, key=KEY))


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_is_no_header_is_refused_unquoted(key: str) -> None:
    with pytest.raises(CredentialsMissing) as caught:
        JsonClient("http://127.0.0.1:1", http=Http(), timeout_seconds=1, key=key)
    assert key not in f"{caught.value} {caught.value.fix} {caught.value.details}"


@pytest.mark.parametrize("address", ["", "ftp://h", "http://", "http://u:hunter2@h", "http://h/?key=hunter2", "h:1"])
def test_an_address_that_is_not_plain_is_refused_unquoted(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        JsonClient(address, http=Http(), timeout_seconds=1)
    assert "hunter2" not in f"{caught.value} {caught.value.fix} {caught.value.details}"


def test_the_environments_proxy_never_sees_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    value, _, _ = ask(answer(body=b"[1]"))
    assert value == [1]


def test_a_configured_proxy_is_used() -> None:
    async def run() -> tuple[list[int], int]:
        async with ScriptedServer(answer(body=b"[1]", Connection="close")) as server, Proxy() as proxy:
            client = JsonClient(server.url, http=Http(proxy=proxy.url), timeout_seconds=5)
            value = await client.ask("POST", "x", {}, list[int])
            await client.aclose()
            return value, len(proxy.requests)

    assert asyncio.run(run()) == ([1], 1)


def test_a_proxy_that_is_none_is_told_without_its_password() -> None:
    error, _, _ = ask(answer(), http=Http(proxy="gopher://u:hunter2@h"))
    assert isinstance(error, ConfigError)
    assert "hunter2" not in f"{error} {error.fix} {error.details}"


def test_a_private_authority_is_trusted_when_it_is_named(tmp_path: Path) -> None:
    authority = create_authority(tmp_path)
    answers = answer(body=b"[1]")
    value, _, _ = ask(answers, tls=authority.server_context(), http=Http(ca_file=str(authority.ca_file)))
    assert value == [1]
    error, _, _ = ask(answers, tls=authority.server_context())
    assert isinstance(error, RemotePermanent)
    assert error.reason == "untrusted_certificate"


def test_a_missing_authority_is_told() -> None:
    error, _, _ = ask(answer(), http=Http(ca_file="nowhere.pem"))
    assert isinstance(error, ConfigError)
    assert error.details["key"] == "http.ca_file"
