"""The servers of the network. Owns one HTTP client for each origin that is read, and which origins may be read at all.

An account itself says where its records live: an address that is not public https is refused, so that it cannot point
this program at the machines around it. The name is judged here, the addresses it resolves to by `public_address`. Only
when the configured servers are on this machine may others be too. Invariant: a client in use is never closed; of the
idle ones only the latest are kept.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from urllib.parse import urlsplit

from tidelore.core.errors import RemotePermanent
from tidelore.sources.credentials import is_loopback
from tidelore.sources.http import HttpClient

MOST_IDLE = 32

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


class Origins:
    """HTTP clients by origin, opened when first needed. Use `close` when done."""

    def __init__(self, connect: Callable[[str], HttpClient], *, local: bool, most_idle: int = MOST_IDLE) -> None:
        self._connect = connect
        self._local = local
        self._most_idle = most_idle
        self._clients: OrderedDict[str, HttpClient] = OrderedDict()
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def using(self, url: str) -> AsyncIterator[HttpClient]:
        """Lend the client of an origin for the length of the block; refuse one that may not be read."""
        origin = allowed_origin(url, local=self._local)
        client = self._clients.get(origin)
        if client is None:
            client = self._clients[origin] = self._connect(origin)
        self._users[origin] = self._users.get(origin, 0) + 1
        self._clients.move_to_end(origin)
        try:
            yield client
        finally:
            self._users[origin] -= 1
            if not self._users[origin]:
                del self._users[origin]
            await self._close_oldest()

    async def close(self) -> None:
        """Close every client."""
        while self._clients:
            await self._clients.popitem()[1].aclose()

    async def _close_oldest(self) -> None:
        idle = [origin for origin in self._clients if origin not in self._users]
        closing = [self._clients.pop(origin) for origin in idle[: max(0, len(idle) - self._most_idle)]]
        for client in closing:
            await client.aclose()


def allowed_origin(url: str, *, local: bool) -> str:
    """Return the origin of an address, or raise RemotePermanent when it may not be read."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port = "", None
    if host and ((local and is_loopback(url)) or (parts.scheme == "https" and _is_public(host))):
        shown = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{shown}" + (f":{port}" if port else "")
    raise RemotePermanent(
        f"refused to contact the server named by an account: {url[:200]}",
        url=url[:200],
        reason="server_refused",
    )


def _is_public(host: str) -> bool:
    try:
        return ip_address(host).is_global
    except ValueError:
        name = host.rstrip(".")
        # A name whose last part is a number is an address in an old spelling (127.1, 0x7f.1), not a name.
        return "." in name and not name.endswith(_LOCAL_ENDINGS) and not _NUMBER.fullmatch(name.rpartition(".")[2])
