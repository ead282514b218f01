"""Connections to public addresses only, for hosts that a stranger named.

The name of a host says little: `localhost.`, `127.1` and `10.0.0.1.nip.io` all lead to private machines, and a name
may resolve differently a second later. So the addresses are looked up here, judged, and connected to as judged.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

import httpcore2

_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):
    """A host resolves to an address that may not be read."""


class PublicBackend(httpcore2.AsyncNetworkBackend):
    """Connects as another backend does, after looking up and judging the addresses of the host."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend, *, loopback: bool = False) -> None:
        self._backend = backend
        self._loopback = loopback

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._allowed_addresses(host, port, timeout)
        for address in addresses[:-1]:
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._backend.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)

    async def _allowed_addresses(self, host: str, port: int, seconds: float | None) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"looking up {host} took too long") from None
        except OSError as error:
            raise httpcore2.ConnectError(f"cannot look up {host}: {error}") from error
        addresses = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
        if not addresses or not all(is_allowed(address, loopback=self._loopback) for address in addresses):
            raise AddressRefused(f"{host} resolves to {', '.join(addresses) or 'no address'}")
        return addresses


def is_allowed(text: str, *, loopback: bool = False) -> bool:
    """Return whether an address is public, or on this machine where that is allowed."""
    address = _embedded(ip_address(text))
    return (loopback and address.is_loopback) or (address.is_global and not address.is_multicast)


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
