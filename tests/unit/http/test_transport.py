"""Private authorities and proxies, with a real TLS server and a real proxy; the choice of a proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.http.wire_server import Authority, Proxy, ScriptedServer, answer, create_authority

from tidelore.core.errors import ConfigError, RemoteError, RemotePermanent, RemoteTransient
from tidelore.http.client import HttpClient
from tidelore.http.tls import choose_proxy

TOKEN = "tok-123456789"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return create_authority(tmp_path_factory.mktemp("authority"))


async def _get(url: str, **options: str) -> int:
    async with HttpClient(url, token=TOKEN, clock=ManualClock(), max_retries=1, **options) as client:  # type: ignore[arg-type]
        return (await client.get("/x")).status


def test_a_server_with_a_configured_private_ca_is_trusted(authority: Authority) -> None:
    async def run() -> int:
        async with ScriptedServer(answer(), tls=authority.server_context()) as server:
            return await _get(server.url, ca_file=str(authority.ca_file))

    assert asyncio.run(run()) == 200


def test_an_untrusted_server_gets_no_request_and_the_error_names_the_fix(authority: Authority) -> None:
    async def run() -> tuple[RemoteError, int]:
        async with ScriptedServer(answer(), tls=authority.server_context()) as server:
            with pytest.raises(RemotePermanent) as caught:
                await _get(server.url)
            return caught.value, len(server.seen)

    error, requests = asyncio.run(run())
    assert error.reason == "untrusted_certificate"
    assert "http.ca_file" in (error.fix or "")
    assert requests == 0


def test_https_to_a_server_without_tls_fails_at_once_and_names_base_url() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(400))
        await writer.drain()
        writer.close()

    async def run() -> RemoteError:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            with pytest.raises(RemotePermanent) as caught:
                await _get(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            return caught.value

    error = asyncio.run(run())
    assert error.reason == "no_tls"
    assert "write its base_url with http://" in (error.fix or "")


def test_http_to_a_port_for_tls_names_base_url_in_the_remedy(authority: Authority) -> None:
    async def run() -> RemoteError:
        async with ScriptedServer(answer(), tls=authority.server_context()) as server:
            with pytest.raises(RemoteTransient) as caught:
                await _get(server.url.replace("https://", "http://"))
            return caught.value

    assert "write its base_url with https://" in (asyncio.run(run()).fix or "")


@pytest.mark.parametrize(
    "said",
    [
        "The plain HTTP request was sent to HTTPS port",
        "Client sent an HTTP request to an HTTPS server.",
        "You're speaking plain HTTP to an SSL-enabled server port.",
    ],
)
def test_a_port_for_tls_that_refuses_plain_http_names_base_url_in_the_remedy(said: str) -> None:
    async def run(body: str) -> RemoteError:
        async with ScriptedServer(answer(400, body.encode())) as server:
            with pytest.raises(RemotePermanent) as caught:
                await _get(server.url)
            return caught.value

    assert "write its base_url with https://" in (asyncio.run(run(said)).fix or "")
    assert "https://" not in (asyncio.run(run("bad parameter")).fix or "")


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_an_unusable_ca_file_is_a_configuration_error(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    for url in ("https://127.0.0.1", "http://127.0.0.1"):
        with pytest.raises(ConfigError) as caught:
            HttpClient(url, ca_file=str(file))
        assert caught.value.details["key"] == "http.ca_file"
        assert str(file) in str(caught.value)


def test_a_configured_proxy_carries_plain_requests() -> None:
    async def run() -> tuple[int, Proxy, ScriptedServer]:
        async with ScriptedServer(answer()) as server, Proxy() as proxy:
            return await _get(server.url, proxy=proxy.url), proxy, server

    status, proxy, server = asyncio.run(run())
    assert status == 200
    assert [seen.target for seen in proxy.requests] == [f"{server.url}/x"]
    assert len(server.seen) == 1


def test_a_configured_proxy_carries_a_tunnel_and_never_sees_the_token(authority: Authority) -> None:
    async def run() -> tuple[int, Proxy, ScriptedServer]:
        async with ScriptedServer(answer(), tls=authority.server_context()) as server, Proxy() as proxy:
            status = await _get(server.url, proxy=proxy.url, ca_file=str(authority.ca_file))
            return status, proxy, server

    status, proxy, server = asyncio.run(run())
    assert status == 200
    assert [(seen.method, seen.target) for seen in proxy.requests] == [("CONNECT", f"127.0.0.1:{server.port}")]
    assert TOKEN not in str(proxy.requests)
    assert server.seen[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_proxy_that_is_down_is_a_transient_failure_without_its_password() -> None:
    async def run() -> RemoteError:
        async with Proxy() as proxy:
            url = proxy.url.replace("//", "//user:hunter22@")
        with pytest.raises(RemoteTransient) as caught:
            await _get("http://127.0.0.1:9", proxy=url)
        return caught.value

    error = asyncio.run(run())
    assert error.reason == "connection"
    assert "hunter22" not in f"{error} {error.details}"


@pytest.mark.parametrize("proxy", ["ftp://proxy.example:1", "proxy.example:3128", "http://h:port", "socks5://h:1"])
def test_an_unusable_proxy_is_a_configuration_error(proxy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpClient("http://127.0.0.1", proxy=proxy)
    assert caught.value.details["key"] == "http.proxy"


def test_requests_to_localhost_ignore_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[int, Proxy]:
        async with ScriptedServer(answer()) as server, Proxy() as proxy:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, proxy.url)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            return await _get(server.url), proxy

    status, proxy = asyncio.run(run())
    assert status == 200
    assert proxy.requests == []


ENVIRONMENT = {
    "http": "http://p:1",
    "https": "q:2",
    "no": "internal.example, .corp.example,10.0.0.0/8,h.example:8443",
}


@pytest.mark.parametrize(
    ("url", "chosen"),
    [
        ("http://forge.example", "http://p:1"),
        ("https://forge.example", "http://q:2"),
        ("https://internal.example/x", None),
        ("https://git.internal.example", None),
        ("https://notinternal.example", "http://q:2"),
        ("https://git.corp.example", None),
        ("https://10.1.2.3", None),
        ("https://11.1.2.3", "http://q:2"),
        ("https://h.example:8443", None),
        ("https://h.example", "http://q:2"),
        ("http://127.0.0.1:8080", None),
        ("http://127.8.8.8", None),
        ("http://[::1]:80", None),
        ("http://localhost:80", None),
        ("http://sim.LOCALHOST", None),
    ],
)
def test_proxy_and_no_proxy_are_read_from_the_environment(url: str, chosen: str | None) -> None:
    assert choose_proxy(url, "", ENVIRONMENT) == chosen


def test_a_configured_proxy_takes_precedence_over_the_environment_and_no_proxy() -> None:
    assert choose_proxy("https://internal.example", "http://own:3", ENVIRONMENT) == "http://own:3"


def test_no_proxy_with_a_star_exempts_every_host() -> None:
    assert choose_proxy("https://forge.example", "", {"all": "http://p:1", "no": "*"}) is None
    assert choose_proxy("https://forge.example", "", {"all": "http://p:1"}) == "http://p:1"
    assert choose_proxy("https://forge.example", "", {}) is None
