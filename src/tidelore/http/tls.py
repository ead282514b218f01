"""Connection settings: trusted certificates, proxies, and the IP addresses that may be connected to.

A private CA of `http.ca_file` is added to the certificates that the machine trusts and never replaces them. A proxy of
the environment is never used for loopback hosts; a configured one is used for everything. A host name that comes from a
third party may only resolve to public addresses. The name itself cannot be checked (`127.1` and `10.0.0.1.nip.io` lead
to private machines, and a name may resolve differently a second later), so this module resolves it, checks the
addresses and connects to exactly those.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpcore2

from tidelore.core.errors import ConfigError

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
"""The reasons that OpenSSL, depending on its version, gives for bytes that are not a TLS record."""


def add_authority(context: ssl.SSLContext, ca_file: str) -> ssl.SSLContext:
    """Return the context with the private CA added to its trusted certificates."""
    if not ca_file:
        return context
    try:
        context.load_verify_locations(Path(ca_file).expanduser())
    except OSError as error:  # ssl.SSLError, for a file that holds no certificate, is one
        detail = error.strerror or str(error)
    else:
        return context
    raise ConfigError(
        f"invalid http.ca_file: {ca_file}: {detail}",
        key="http.ca_file",
        fix="set it to a readable PEM file with the CA certificates",
    )


def tls_trouble(error: BaseException | None) -> Literal["untrusted", "no_tls"] | None:
    """Return whether an error was caused by an untrusted certificate, or by an answer that is not TLS."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return "untrusted"
    return "no_tls" if error is not None and error.reason in _NOT_TLS else None


def choose_proxy(base_url: str, configured: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy for a host. `environment` is what `urllib.request.getproxies` returns."""
    if configured:
        return configured
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    if is_loopback(base_url) or _is_excepted(host, parts.port, environment.get("no", "")):
        return None
    proxy = environment.get(parts.scheme) or environment.get("all")
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(url: str) -> bool:
    """Return whether a URL is on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int | None, exceptions: str) -> bool:
    """Return whether NO_PROXY matches, read as curl does: names with their subdomains, addresses, networks, `*`."""
    for entry in exceptions.lower().split(","):
        name = entry.strip().lstrip(".")
        if name == "*" or (name and (host == name or host.endswith(f".{name}") or name == f"{host}:{port}")):
            return True
        try:
            if "/" in name and ip_address(host) in ip_network(name, strict=False):
                return True
        except ValueError:
            continue
    return False


_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):
    """A host resolves to an address that must not be connected to."""


class PublicBackend(httpcore2.AsyncNetworkBackend):
    """Network backend that resolves a host, checks its addresses and connects through another backend."""

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
        if not addresses or not all(is_allowed_address(address, loopback=self._loopback) for address in addresses):
            raise AddressRefused(f"{host} resolves to {', '.join(addresses) or 'no address'}")
        return addresses


def is_allowed_address(text: str, *, loopback: bool = False) -> bool:
    """Return whether an address is public, or a loopback address if `loopback` is set."""
    address = _embedded(ip_address(text))
    return (loopback and address.is_loopback) or (address.is_global and not address.is_multicast)


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address embedded in an IPv6 address; any other address unchanged."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def find_proxy(base_url: str, configured: str) -> str | None:
    """Return the proxy for a host: the configured one, or the one set in the environment."""
    return choose_proxy(base_url, configured, getproxies())
