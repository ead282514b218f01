"""The addresses of the event stream. Owns which protocol an address speaks, and how a connection asks for its part.

Pure. The first protocol is told its accounts in a message, for no proxy passes on an address of ten thousand of them;
the second takes no messages, so it is asked for as many as fit into an address that every server accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit, urlunsplit

from tidelore.core.errors import ConfigError
from tidelore.sources.bluesky.stream_events import Protocol

SECOND_METHOD = "network.bsky.jetstream.subscribeEvents"
SUBPROTOCOL = "xrpc.v1.json"
MOST_DIDS: dict[Protocol, int] = {1: 10_000, 2: 150}

OLDEST = 10**15
"""A cursor that both protocols take for an instant long ago: the telling begins with the oldest event there is."""

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def protocol_of(url: str) -> Protocol:
    """Return which protocol is spoken at an address."""
    return 2 if urlsplit(url).path.rstrip("/").endswith(f"/{SECOND_METHOD}") else 1


def stream_url(url: str) -> str:
    """Return the address as it is opened and as its cursors are filed under: without a query."""
    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme.lower())
    if scheme is None or not parts.hostname:
        raise ConfigError(
            "bluesky.jetstream_url is not a WebSocket URL",
            key="bluesky.jetstream_url",
            fix='write it like "wss://jetstream.example.com/subscribe"',
        )
    path = parts.path if parts.path.strip("/") else "/subscribe"
    return urlunsplit((scheme, parts.netloc, path, "", ""))


def connection_url(url: str, dids: Sequence[str], collections: Sequence[str], cursor: int | None) -> str:
    """Return the address of one connection."""
    query: list[tuple[str, str]] = []
    if protocol_of(url) == 1:
        query += [("requireHello", "true")]
        query += [("wantedCollections", name) for name in collections]
    else:
        query += [("collections", name) for name in collections]
        query += [("dids", did) for did in dids]
    if cursor is not None:
        query.append(("cursor", str(cursor)))
    return f"{url}?{urlencode(query, safe=':')}" if query else url


def split_dids(dids: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """Return the accounts in as few parts as the limit allows, of nearly equal size; no accounts make no part."""
    ordered = sorted(set(dids))
    count = -(-len(ordered) // most)
    return [tuple(ordered[index::count]) for index in range(count)]
