"""The two protocols of the event stream: URLs, messages, and their conversion to events.

Pure functions. A cursor belongs to the protocol that issued it: the first counts microseconds, the second events. The
first receives its accounts in a message, because no proxy accepts a URL with ten thousand of them; the second accepts
no messages, so a connection is limited to as many accounts as fit into a URL. Invariant: a post has the same version
and payload as in its repository's list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Raw, Struct, field

from tidelore.core.clock import parse_instant
from tidelore.core.errors import ConfigError
from tidelore.core.model import Item, PostRecord, Rejected
from tidelore.sources.bluesky.payloads import POST, REPOST, RecordAddress, StoredRecord
from tidelore.sources.bluesky.transform import parse_record, reject_post

StreamProtocol = Literal[1, 2]


class StreamCursor(Struct, frozen=True):
    """A position in the stream: microseconds in the first protocol, a sequence number in the second.

    `at` is the instant of the newest event up to there in milliseconds, if known; it is not part of the text.
    """

    protocol: StreamProtocol
    value: int
    at: int | None = None

    def __str__(self) -> str:
        return f"v{self.protocol}:{self.value}"

    @classmethod
    def parse(cls, text: str, at: int | None = None) -> StreamCursor | None:
        """Return a stored cursor, or None if it cannot be parsed."""
        protocol, _, value = text.partition(":")
        if protocol not in ("v1", "v2") or not (value.isascii() and value.isdecimal()):
            return None
        return cls(1 if protocol == "v1" else 2, int(value), at)


class PostWritten(Struct, frozen=True):
    """A post or repost was created or edited."""

    item: Item[PostRecord]


class PostDeleted(Struct, frozen=True):
    """A post or repost was deleted."""

    uri: str
    at: int


class HandleChanged(Struct, frozen=True):
    """An account may have a new handle; None if the stream does not contain it."""

    did: str
    handle: str | None
    at: int


class AccountChanged(Struct, frozen=True):
    """An account became unavailable (`status` is the reason) or available again."""

    did: str
    active: bool
    status: str | None
    at: int


class Unreadable(Struct, frozen=True):
    """A post that could not be parsed."""

    rejected: Rejected


class HoleFound(Struct, frozen=True):
    """Events of these accounts before this position may be missing, so the accounts must be polled."""

    dids: tuple[str, ...]
    reason: str
    since: StreamCursor | None


StreamEvent = PostWritten | PostDeleted | HandleChanged | AccountChanged | Unreadable | HoleFound


class StreamBatch(Struct, frozen=True):
    """Events in order, and the cursor that covers them and everything before. `at` is the instant of the newest one."""

    events: tuple[StreamEvent, ...]
    cursor: StreamCursor | None
    at: int | None


SECOND_METHOD = "network.bsky.jetstream.subscribeEvents"
SUBPROTOCOL = "xrpc.v1.json"
MOST_DIDS: dict[StreamProtocol, int] = {1: 10_000, 2: 150}

OLDEST = 10**15
"""A cursor that both protocols read as a time long ago, so that the stream starts with the oldest available event."""

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def protocol_of(url: str) -> StreamProtocol:
    """Return the protocol of a URL."""
    return 2 if urlsplit(url).path.rstrip("/").endswith(f"/{SECOND_METHOD}") else 1


def stream_url(url: str) -> str:
    """Return the URL without its query, as it is opened and as its cursors are stored under."""
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
    """Return the URL of one connection."""
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
    """Split the accounts into as few parts as the limit allows, of nearly equal size; no accounts give no part."""
    ordered = sorted(set(dids))
    count = -(-len(ordered) // most)
    return [tuple(ordered[index::count]) for index in range(count)]


_FOLLOWED = frozenset({POST, REPOST})


class CommitMessage(Struct, frozen=True):
    operation: str
    collection: str
    rkey: str
    rev: str = ""
    record: Raw = Raw(b"null")
    cid: str | None = None


class IdentityMessage(Struct, frozen=True):
    handle: str | None = None
    seq: int | None = None
    time: str | None = None


class AccountMessage(Struct, frozen=True):
    active: bool
    status: str | None = None
    seq: int | None = None
    time: str | None = None


class FirstMessage(Struct, frozen=True):
    """A message of the first protocol."""

    did: str
    time_us: int
    kind: str
    commit: CommitMessage | None = None
    identity: IdentityMessage | None = None
    account: AccountMessage | None = None


class SecondPayload(Struct, frozen=True):
    type: str = field(name="$type", default="")
    seq: int = 0
    did: str = ""
    time: str = ""
    name: str = ""
    operation: str = ""
    collection: str = ""
    rkey: str = ""
    rev: str = ""
    record: Raw = Raw(b"null")
    cid: str | None = None
    identity: IdentityMessage | None = None
    account: AccountMessage | None = None


class SecondMessage(Struct, frozen=True):
    """A message of the second protocol; an error contains its name and ends the connection."""

    type: str = field(name="$type", default="")
    payload: SecondPayload | None = None
    name: str = ""
    error: str = ""


class Frame(Struct, frozen=True):
    """One parsed message. `key` identifies the event; `notice` is a message of the server about the stream."""

    position: int | None = None
    key: tuple[object, ...] = ()
    at: int | None = None
    did: str = ""
    event: StreamEvent | None = None
    notice: str | None = None


_FIRST = msgspec.json.Decoder(FirstMessage)
_SECOND = msgspec.json.Decoder(SecondMessage)


def read_first(message: bytes) -> Frame:
    """Parse a message of the first protocol, or raise DecodeError or ValueError."""
    told = _FIRST.decode(message)
    at = told.time_us // 1000
    event, key = _event(told.did, at, told.commit, told.identity, told.account)
    return Frame(told.time_us, key, at, told.did, event)


def read_second(message: bytes) -> Frame:
    """Parse a message of the second protocol, or raise DecodeError or ValueError."""
    told = _SECOND.decode(message)
    payload = told.payload
    if payload is None:
        return Frame(notice=told.name or told.error or told.type)
    kind = payload.type.rpartition("#")[2]
    if kind == "info":
        return Frame(notice=payload.name or kind)
    if payload.seq <= 0:
        raise ValueError("seq: missing")
    at = parse_instant(payload.time)
    commit = None
    if kind == "commit":
        commit = CommitMessage(
            payload.operation, payload.collection, payload.rkey, payload.rev, payload.record, payload.cid
        )
    event, key = _event(payload.did, at, commit, payload.identity, payload.account)
    return Frame(payload.seq, key, at, payload.did, event, notice="sync" if kind == "sync" else None)


def reader_of(protocol: StreamProtocol) -> Callable[[bytes], Frame]:
    """Return the parser of a protocol's messages."""
    return read_first if protocol == 1 else read_second


def _event(
    did: str, at: int, commit: CommitMessage | None, identity: IdentityMessage | None, account: AccountMessage | None
) -> tuple[StreamEvent | None, tuple[object, ...]]:
    if commit is not None:
        key: tuple[object, ...] = (did, commit.rev, commit.collection, commit.rkey, commit.operation)
        return (_commit_event(did, at, commit) if commit.collection in _FOLLOWED else None), key
    if identity is not None:
        return HandleChanged(did, identity.handle, at), (did, "identity", identity.seq, identity.time, identity.handle)
    if account is not None:
        changed = AccountChanged(did, account.active, account.status, at)
        return changed, (did, "account", account.seq, account.time, account.active)
    return None, (did, at)


def _commit_event(did: str, at: int, commit: CommitMessage) -> StreamEvent:
    uri = str(RecordAddress(did, commit.collection, commit.rkey))
    if commit.operation == "delete":
        return PostDeleted(uri, at)
    stored = StoredRecord(uri, commit.cid or "", commit.record)
    payload = msgspec.json.encode(stored)
    try:
        item = parse_record(stored, payload, seen_at=at)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return Unreadable(reject_post(payload, str(error)))
    return PostWritten(item)


def hello(dids: tuple[str, ...], collections: tuple[str, ...]) -> str:
    """Return the message that subscribes to accounts in the first protocol."""
    wanted: dict[str, Any] = {"wantedCollections": collections, "wantedDids": dids}
    return msgspec.json.encode({"type": "options_update", "payload": wanted}).decode()
