"""The client against real sockets: bounded, discreet, loyal to one server."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.http.wire_server import Answer, Proxy, ScriptedServer, Seen, answer, create_authority

from tidelore.core.config import Http
from tidelore.core.errors import (
    ConfigError,
    CredentialsMissing,
    CredentialsRejected,
    RateLimited,
    RemotePermanent,
    RemoteTransient,
    ResponseTooLarge,
    TideloreError,
)
from tidelore.embedding.client import JsonClient

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


def test_the_api_key_is_sent_in_a_header() -> None:
    value, server, _ = ask(answer(body=b"[1]"))
    assert value == [1]
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.seen[0].body == b'{"a":1}'


@pytest.mark.parametrize("fault", [answer(500), answer(body=b"[1, 2"), answer(body=b"<html>"), answer(502, b"<html>")])
def test_a_transient_error_is_retried_and_then_raised(fault: Answer) -> None:
    value, server, clock = ask(fault, answer(body=b"[7]"))
    assert value == [7]
    assert (len(server.seen), clock.slept) == (2, [1])
    error, server, clock = ask(fault)
    assert isinstance(error, RemoteTransient)
    assert error.details["attempts"] == len(server.seen) == 3
    assert clock.slept == [1, 2]


def test_a_retry_after_in_seconds_is_respected() -> None:
    value, _, clock = ask(answer(429, Retry_After="9"), answer(body=b"[7]"))
    assert (value, clock.slept) == ([7], [9])


def test_a_retry_after_date_is_measured_on_the_servers_clock() -> None:
    until, said = "Mon, 02 Mar 2026 09:00:20 GMT", "Mon, 02 Mar 2026 09:00:15 GMT"
    value, _, clock = ask(answer(429, Retry_After=until, Date=said), answer(body=b"[7]"))
    assert (value, clock.slept) == ([7], [5])


def test_a_retry_after_beyond_the_maximum_wait_is_raised_at_once() -> None:
    error, server, clock = ask(answer(429, Retry_After="3600"))
    assert isinstance(error, RateLimited)
    assert (error.retry_after_seconds, len(server.seen), clock.slept) == (3600, 1, [])


@pytest.mark.parametrize("fault", [answer(400), answer(body=b'{"not": "a list"}'), answer(307, Location="http://x/")])
def test_a_permanent_error_is_not_retried(fault: Answer) -> None:
    error, server, _ = ask(fault, answer(body=b"[7]"))
    assert isinstance(error, RemotePermanent)
    assert len(server.seen) == 1


def test_a_server_that_does_not_answer_times_out() -> None:
    async def hang(_: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    error, server, _ = ask(hang, timeout_seconds=0.05, http=Http(max_retries=1))
    assert isinstance(error, RemoteTransient)
    assert (error.reason, len(server.seen)) == ("timeout", 2)


def test_a_response_above_the_size_limit_is_refused() -> None:
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
def test_a_key_that_is_not_a_valid_header_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(CredentialsMissing) as caught:
        JsonClient("http://127.0.0.1:1", http=Http(), timeout_seconds=1, key=key)
    assert key not in f"{caught.value} {caught.value.fix} {caught.value.details}"


@pytest.mark.parametrize("address", ["", "ftp://h", "http://", "http://u:hunter2@h", "http://h/?key=hunter2", "h:1"])
def test_an_invalid_base_url_is_refused_without_quoting_it(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        JsonClient(address, http=Http(), timeout_seconds=1)
    assert "hunter2" not in f"{caught.value} {caught.value.fix} {caught.value.details}"


def test_requests_to_localhost_ignore_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_invalid_proxy_is_a_config_error_without_its_password() -> None:
    error, _, _ = ask(answer(), http=Http(proxy="gopher://u:hunter2@h"))
    assert isinstance(error, ConfigError)
    assert "hunter2" not in f"{error} {error.fix} {error.details}"


def test_a_configured_private_ca_is_trusted(tmp_path: Path) -> None:
    authority = create_authority(tmp_path)
    answers = answer(body=b"[1]")
    value, _, _ = ask(answers, tls=authority.server_context(), http=Http(ca_file=str(authority.ca_file)))
    assert value == [1]
    error, _, _ = ask(answers, tls=authority.server_context())
    assert isinstance(error, RemotePermanent)
    assert error.reason == "untrusted_certificate"


def test_a_missing_ca_file_is_reported() -> None:
    error, _, _ = ask(answer(), http=Http(ca_file="nowhere.pem"))
    assert isinstance(error, ConfigError)
    assert error.details["key"] == "http.ca_file"
