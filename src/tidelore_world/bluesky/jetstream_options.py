"""What a client of the event stream asks for: which protocol, which events, and from where.

Owns the parameters of both protocols and the answers to bad ones. Pure. The first protocol forgives (a cursor that is
too old silently begins at the oldest event), the second says what is wrong before it agrees to the connection.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelore_world.bluesky.failure import XrpcFailure, invalid
from tidelore_world.bluesky.settings import BlueskySettings
from tidelore_world.bluesky.stream_log import StreamEvent, StreamLog
from tidelore_world.wire import Request

FIRST_PATH = "/subscribe"
SECOND_PATH = "/xrpc/network.bsky.jetstream.subscribeEvents"
KINDS = ("commit", "identity", "account", "sync")

_FIRST_KINDS = frozenset(KINDS[:3])
_MOST_COLLECTIONS = 100
# A number below it is a sequence number to the second protocol, one above an instant in microseconds.
_LEAST_INSTANT = 10**15
_LEGACY = ("wantedCollections", "wantedDids", "requireHello", "compress")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events a client wants; an empty set wants everything."""

    dids: frozenset[str] = frozenset()
    collections: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()

    def wants(self, event: StreamEvent) -> bool:
        """Collections choose among commits only: everybody hears of accounts and identities."""
        if self.dids and event.did not in self.dids:
            return False
        if self.kinds and event.kind not in self.kinds:
            return False
        if event.kind != "commit" or not self.collections:
            return True
        return any(_matches(event.collection, wanted) for wanted in self.collections)


@dataclass(frozen=True, slots=True)
class Start:
    """Where the telling begins, and the notice that goes before it."""

    seq: int
    notice: str | None = None


def first_filter(request: Request, settings: BlueskySettings) -> Filter:
    """The filter of the first protocol, from the address."""
    query = request.query
    return _wanted(query.get("wantedDids", []), query.get("wantedCollections", []), settings)


def updated_filter(text: bytes, settings: BlueskySettings) -> Filter | None:
    """The filter a client of the first protocol sends; None for a message of another type, ValueError for a bad one."""
    message = json.loads(text)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    if message.get("type") != "options_update":
        return None
    payload = message.get("payload") or {}
    dids, collections = (payload.get(name) or [] for name in ("wantedDids", "wantedCollections"))
    if not all(isinstance(one, str) for one in (*dids, *collections)):
        raise ValueError("filters are lists of texts")
    try:
        return _wanted(dids, collections, settings)
    except XrpcFailure as error:
        raise ValueError(error.message) from error


def first_start(request: Request, log: StreamLog) -> Start:
    """Where the first protocol begins: at an instant in microseconds, or with the next event."""
    cursor = _number(request.first("cursor"))
    if cursor is None or log.seq_at(cursor) >= log.next_seq:
        return Start(log.next_seq)
    return Start(max(log.seq_at(cursor), log.floor_seq))


def second_filter(request: Request, settings: BlueskySettings) -> Filter:
    """The filter of the second protocol."""
    for name in _LEGACY:
        if name in request.query:
            raise invalid(f"{name} belongs to the first protocol")
    kinds = request.query.get("kinds", [])
    collections = request.query.get("collections", [])
    if any(kind not in KINDS for kind in kinds):
        raise invalid("kinds: unknown value")
    if collections and kinds and "commit" not in kinds:
        raise invalid("collections without commits can never apply")
    wanted = _wanted(request.query.get("dids", []), collections, settings)
    return Filter(wanted.dids, wanted.collections, frozenset(kinds))


def second_start(request: Request, log: StreamLog, settings: BlueskySettings) -> Start:
    """Where the second protocol begins: at a sequence number, or an instant, that is itself told again."""
    cursor = _number(request.first("cursor"))
    if cursor is None:
        return Start(log.next_seq)
    floor = log.floor_seq
    if cursor >= _LEAST_INSTANT:
        found = log.seq_at(cursor)
        return Start(floor, "OutdatedCursor") if found < floor or cursor < _oldest_us(log) else Start(found)
    if cursor > log.next_seq:
        return Start(log.next_seq, "FutureCursor" if settings.stream_tells_future else None)
    if cursor < floor and settings.stream_refuses_old:
        raise XrpcFailure(400, "CursorTooOld", f"the oldest event is {floor}")
    return Start(max(cursor, floor))


def _oldest_us(log: StreamLog) -> int:
    oldest = log.read(log.floor_seq, 1)
    return oldest[0].time_us if oldest else 0


def _wanted(dids: Sequence[str], collections: Sequence[str], settings: BlueskySettings) -> Filter:
    chosen = frozenset(dids)
    if len(chosen) > settings.stream_dids:
        raise invalid(f"too many wanted DIDs: {len(chosen)} > {settings.stream_dids}")
    if len(set(collections)) > _MOST_COLLECTIONS:
        raise invalid(f"too many wanted collections: {len(collections)} > {_MOST_COLLECTIONS}")
    if any(not did.startswith("did:") for did in chosen):
        raise invalid("not a DID")
    return Filter(chosen, tuple(dict.fromkeys(collections)), _FIRST_KINDS)


def _matches(collection: str, wanted: str) -> bool:
    return collection.startswith(wanted[:-1]) if wanted.endswith(".*") else collection == wanted


def _number(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit()):
        raise invalid(f"invalid cursor: {text}")
    return int(text)


def as_payload(value: dict[str, Any]) -> bytes:
    """A message as it goes over the wire."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
