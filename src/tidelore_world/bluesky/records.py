"""What the simulated network remembers: accounts, and the records in their repositories.

Owns the types and, per account, two orders of the same records: by record key (the order of writing, what the
PDS lists) and by sort time (what the AppView's author feed shows). Refuses to know requests.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelore_world.bluesky.cursors import Place
from tidelore_world.bluesky.ids import record_uri

POST = "app.bsky.feed.post"
REPOST = "app.bsky.feed.repost"
FOLLOW = "app.bsky.graph.follow"
LIST = "app.bsky.graph.list"
LIST_ITEM = "app.bsky.graph.listitem"
STARTER_PACK = "app.bsky.graph.starterpack"
PROFILE = "app.bsky.actor.profile"


@dataclass(frozen=True, slots=True)
class Card:
    """A page a post shows as a preview."""

    url: str
    title: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One record; an edit makes a new value with the same key and another CID."""

    did: str
    collection: str
    rkey: str
    cid: str
    value: Mapping[str, Any]
    indexed_us: int
    created_us: int

    @property
    def uri(self) -> str:
        """Its address, which outlives edits."""
        return record_uri(self.did, self.collection, self.rkey)

    @property
    def sort_us(self) -> int:
        """Where it stands in a feed: at the earlier of its own date and its indexing."""
        return min(self.created_us, self.indexed_us)

    @property
    def place(self) -> Place:
        """Its position among the items of a feed."""
        return (self.sort_us // 1000, self.cid)


class Shelf:
    """The records of one collection in order of their keys."""

    __slots__ = ("_keys", "_rows")

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._rows: dict[str, Record] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, rkey: str) -> Record | None:
        """The record with this key, if it is still there."""
        return self._rows.get(rkey)

    def put(self, record: Record) -> None:
        """Add a record, or replace the one with the same key."""
        if record.rkey not in self._rows:
            insort(self._keys, record.rkey)
        self._rows[record.rkey] = record

    def remove(self, rkey: str) -> Record:
        """Take a record away and return it."""
        record = self._rows.pop(rkey)
        del self._keys[bisect_left(self._keys, rkey)]
        return record

    def rows(self) -> list[Record]:
        """All records in the order they were written."""
        return [self._rows[key] for key in self._keys]

    def page(self, limit: int, after: str | None, *, ascending: bool) -> list[Record]:
        """Up to `limit` records strictly behind the key `after`, in the direction of the walk."""
        if ascending:
            start = 0 if after is None else bisect_right(self._keys, after)
            keys = self._keys[start : start + limit]
        else:
            stop = len(self._keys) if after is None else bisect_left(self._keys, after)
            keys = self._keys[max(0, stop - limit) : stop][::-1]
        return [self._rows[key] for key in keys]


class Feed:
    """The posts and reposts of one account in order of sort time."""

    __slots__ = ("_rows", "places")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._rows: dict[Place, Record] = {}

    def put(self, record: Record) -> None:
        """Add an item."""
        insort(self.places, record.place)
        self._rows[record.place] = record

    def remove(self, record: Record) -> None:
        """Take an item away."""
        del self.places[bisect_left(self.places, record.place)]
        del self._rows[record.place]

    def at(self, index: int) -> Record:
        """The item at an ascending position."""
        return self._rows[self.places[index]]


@dataclass(slots=True, eq=False)
class Account:
    """An account. Its DID never changes; its handle may."""

    did: str
    handle: str
    display_name: str
    description: str
    created_us: int
    status: str | None = None
    """Why it is not shown: deactivated, suspended, takendown or deleted; None while it is active."""
    pinned_uri: str | None = None
    handle_is_valid: bool = True
    """Whether the handle points back to the account; if not, views show `handle.invalid`."""
    feed: Feed = field(default_factory=Feed)
    collections: dict[str, Shelf] = field(default_factory=dict)
    followers: int = 0

    @property
    def active(self) -> bool:
        """Whether the network shows it."""
        return self.status is None

    def shelf(self, collection: str) -> Shelf:
        """The records of one collection."""
        return self.collections.setdefault(collection, Shelf())
