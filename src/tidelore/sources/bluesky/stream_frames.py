"""From the stream's messages to events, for both of its protocols. Pure.

Owns the two wire shapes. A message that is no event of ours still has a position; one without a position is nothing.
Invariant: a post has the version and the payload its repository would list it with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from tidelore.core.clock import parse_instant
from tidelore.sources.bluesky.addresses import RecordAddress
from tidelore.sources.bluesky.items import reject, understand_record
from tidelore.sources.bluesky.payloads import POST, REPOST, StoredRecord
from tidelore.sources.bluesky.stream_events import (
    AccountChanged,
    HandleChanged,
    PostDeleted,
    PostWritten,
    Protocol,
    StreamEvent,
    Unreadable,
)

_FOLLOWED = frozenset({POST, REPOST})


class Commit(Struct, frozen=True):
    operation: str
    collection: str
    rkey: str
    rev: str = ""
    record: Raw = Raw(b"null")
    cid: str | None = None


class Identity(Struct, frozen=True):
    handle: str | None = None
    seq: int | None = None
    time: str | None = None


class Account(Struct, frozen=True):
    active: bool
    status: str | None = None
    seq: int | None = None
    time: str | None = None


class FirstMessage(Struct, frozen=True):
    """A message of the first protocol."""

    did: str
    time_us: int
    kind: str
    commit: Commit | None = None
    identity: Identity | None = None
    account: Account | None = None


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
    identity: Identity | None = None
    account: Account | None = None


class SecondMessage(Struct, frozen=True):
    """A message of the second protocol; an error names itself and ends the connection."""

    type: str = field(name="$type", default="")
    payload: SecondPayload | None = None
    name: str = ""
    error: str = ""


class Frame(Struct, frozen=True):
    """What one message means. `key` tells two events apart; `notice` is what the server says about the stream."""

    position: int | None = None
    key: tuple[object, ...] = ()
    at: int | None = None
    did: str = ""
    event: StreamEvent | None = None
    notice: str | None = None


_FIRST = msgspec.json.Decoder(FirstMessage)
_SECOND = msgspec.json.Decoder(SecondMessage)


def read_first(message: bytes) -> Frame:
    """Understand a message of the first protocol, or raise what says why not."""
    told = _FIRST.decode(message)
    at = told.time_us // 1000
    event, key = _event(told.did, at, told.commit, told.identity, told.account)
    return Frame(told.time_us, key, at, told.did, event)


def read_second(message: bytes) -> Frame:
    """Understand a message of the second protocol, or raise what says why not."""
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
        commit = Commit(payload.operation, payload.collection, payload.rkey, payload.rev, payload.record, payload.cid)
    event, key = _event(payload.did, at, commit, payload.identity, payload.account)
    return Frame(payload.seq, key, at, payload.did, event, notice="sync" if kind == "sync" else None)


def reader_of(protocol: Protocol) -> Callable[[bytes], Frame]:
    """Return the reader of a protocol's messages."""
    return read_first if protocol == 1 else read_second


def _event(
    did: str, at: int, commit: Commit | None, identity: Identity | None, account: Account | None
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


def _commit_event(did: str, at: int, commit: Commit) -> StreamEvent:
    uri = str(RecordAddress(did, commit.collection, commit.rkey))
    if commit.operation == "delete":
        return PostDeleted(uri, at)
    stored = StoredRecord(uri, commit.cid or "", commit.record)
    payload = msgspec.json.encode(stored)
    try:
        item = understand_record(stored, payload, seen_at=at)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return Unreadable(reject(payload, str(error)))
    return PostWritten(item)


def hello(dids: tuple[str, ...], collections: tuple[str, ...]) -> str:
    """Return the message that tells a server of the first protocol which accounts are wanted."""
    wanted: dict[str, Any] = {"wantedCollections": collections, "wantedDids": dids}
    return msgspec.json.encode({"type": "options_update", "payload": wanted}).decode()
