"""A host that a stranger named is judged by the addresses it resolves to, when the connection is made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.http.asking import ask, fail, get_list
from tests.unit.http.wire_server import ScriptedServer, answer

from tidelore.core.errors import RemotePermanent
from tidelore.http.client import HttpClient
from tidelore.http.tls import is_allowed_address


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "192.168.3.4", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "::1", "fd00::1", "fe80::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::",
    ],
)  # fmt: skip
def test_a_private_address_is_refused_in_every_spelling(address: str) -> None:
    assert not is_allowed_address(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
def test_a_public_address_is_allowed(address: str) -> None:
    assert is_allowed_address(address)
    assert is_allowed_address(address, loopback=True)


def test_loopback_is_allowed_only_when_configured() -> None:
    assert is_allowed_address("127.0.0.1", loopback=True)
    assert not is_allowed_address("10.0.0.1", loopback=True)


def test_a_name_that_resolves_to_this_machine_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resolve(_loop: object, _host: str, port: int, **_how: Any) -> list[Any]:
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", resolve)

    async def through_a_public_name(_: HttpClient, server: ScriptedServer) -> Exception:
        address = server.url.replace("127.0.0.1", "10.0.0.1.rebind.example")
        async with HttpClient(address, reach="public") as client:
            return await fail(client, server)

    error, server, _ = ask(do=through_a_public_name)
    assert isinstance(error, RemotePermanent)
    assert error.reason == "server_refused"
    assert server.seen == []


def test_a_local_network_is_read_when_local_addresses_are_allowed() -> None:
    found, _, _ = ask(answer(body=b"[1]"), do=get_list, reach="public_or_local")
    assert found == [1]
