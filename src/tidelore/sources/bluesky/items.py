"""From raw list items to items with a version and a place. Owns what becomes of those that cannot be understood.

One that cannot be becomes a `Rejected` beside its readable neighbours (invariant 7), named by the address it is asked
for again with. Invariant: a post has one version, whether a feed, a repository or the stream showed it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tidelore.core.content import digest
from tidelore.core.model import Item, PostRecord, Rejected, RemoteId
from tidelore.sources.bluesky.addresses import split_uri, tid_instant
from tidelore.sources.bluesky.payloads import FeedItem, StoredRecord
from tidelore.sources.bluesky.transform import is_pinned, transform_item, transform_record, version_of
from tidelore.sources.reading import refuse_nul
from tidelore.sources.splitting import original

_LOG = logging.getLogger(__name__)
_ITEM = msgspec.json.Decoder(FeedItem)
_RECORD = msgspec.json.Decoder(StoredRecord)
_SKEW_MS = 5 * 60 * 1000


class Understood(Struct):
    """A page's items, sorted by whether they could be read."""

    items: list[Item[PostRecord]]
    rejected: list[Rejected]
    pinned: set[RemoteId]


def read_feed(raws: Sequence[Raw]) -> Understood:
    """Understand what can be understood of a feed's items."""
    found = Understood([], [], set())
    for raw in raws:
        payload = bytes(raw)
        try:
            item = _ITEM.decode(payload)
            record = _checked(transform_item(item), payload)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            found.rejected.append(reject(payload, str(error)))
            continue
        version = version_of(record)
        found.items.append(Item(version, record.sort_at, payload, record))
        if is_pinned(item):
            found.pinned.add(version.id)
    return found


def read_records(raws: Sequence[Raw], server_at: int | None) -> Understood:
    """Understand what can be understood of a repository's records."""
    found = Understood([], [], set())
    for raw in raws:
        payload = bytes(raw)
        try:
            found.items.append(understand_record(_RECORD.decode(payload), payload, server_at=server_at))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            found.rejected.append(reject(payload, str(error)))
    return found


def understand_record(
    stored: StoredRecord, payload: bytes, *, seen_at: int | None = None, server_at: int | None = None
) -> Item[PostRecord]:
    """Return the item of a record, placed at the instant of writing, or raise what says why there is none."""
    record = _checked(transform_record(stored, seen_at), payload)
    written_at = seen_at if seen_at is not None else _written_at(record, server_at)
    return Item(version_of(record), written_at, payload, record)


def reject(payload: bytes, error: str) -> Rejected:
    """Name a payload that cannot be understood as well as it allows: by the address it is asked for again with."""
    payload, error = original(payload) or (payload, error)
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        value = None
    uri = _address_in(value)
    key = uri or f"content:{digest(payload).hex()}"
    _LOG.warning("could not parse item %s: %s", key, error)
    return Rejected(key, uri, payload, error)


def _address_in(value: Any) -> str | None:
    """Return the repost's own address for a repost, else that of the post or record."""
    holder = value if isinstance(value, dict) else {}
    for part in (holder.get("reason"), holder.get("post"), holder):
        uri = part.get("uri") if isinstance(part, dict) else None
        if isinstance(uri, str) and uri.startswith("at://did:") and "\x00" not in uri:
            return uri
    return None


def _checked(record: PostRecord, payload: bytes) -> PostRecord:
    if b"\\u0000" in payload:
        refuse_nul(record)
        for link in record.links:
            refuse_nul(link)
    return record


def _written_at(record: PostRecord, server_at: int | None) -> int:
    """Return when a record was written, by its key; a key that promises a later day than today is not believed."""
    written_at = tid_instant(split_uri(record.uri).rkey)
    if written_at is None or (server_at is not None and written_at > server_at + _SKEW_MS):
        return record.created_at if server_at is None else min(record.created_at, server_at)
    return written_at
