"""The interfaces of the engine: what a remote list and a durable store have to offer. No implementation.

`Lister` is a remote list, `ScopeStore` is the durable side of one scope. It commits records and the cursor that covers
them in one transaction (invariant 1), and is synchronous: a transaction cannot span an await.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from tidelore.core.model import Item, R_co, Rejected, RemoteId, Version
from tidelore.engine.cursor import Cursor, Gap, Validator

R_contra = TypeVar("R_contra", contravariant=True)


class ListRequest(Struct, frozen=True):
    """One page to read: `token` (the server's own, opaque) wins over `since`."""

    since: int | None = None
    token: str | None = None
    validator: Validator | None = None


class Page(Struct, Generic[R_co], frozen=True):
    """One page as it came. `next_token` is None when the server says there is no more."""

    items: Sequence[Item[R_co]] = ()
    rejected: Sequence[Rejected] = ()
    next_token: str | None = None
    server_at: int | None = None
    validator: Validator | None = None
    not_modified: bool = False
    pinned: frozenset[RemoteId] = frozenset()


class Pages(Protocol[R_co]):
    """A remote list."""

    async def fetch(self, request: ListRequest) -> Page[R_co]:
        """Read one page."""
        ...


class Lister(Pages[R_co], Protocol[R_co]):
    """A remote list for one scope, whose items can be asked for by themselves too."""

    async def fetch_one(self, locator: str) -> Page[R_co]:
        """Read one object again; an empty page means that it is gone."""
        ...


class Parent(Struct, frozen=True):
    """A parent and how far its children were read: for which version, and whether that had settled."""

    id: int
    iid: int
    updated_at: int
    synced_for: int | None
    fetched_for: int | None


class Quarantined(Struct, frozen=True):
    """Something that could not be understood and is due to be asked for again."""

    key: str
    locator: str
    attempts: int


class Batch(Struct, Generic[R_co], frozen=True):
    """What one transaction makes durable. `gone` are tombstoned: kept, marked, out of lists."""

    items: Sequence[Item[R_co]]
    cursor: Cursor
    rejected: Sequence[Rejected] = ()
    gaps: Sequence[Gap] | None = None
    released: Sequence[str] = ()
    gone: Sequence[RemoteId] = ()


class ScopeStore(Protocol[R_contra]):
    """The durable side of one scope."""

    def load(self) -> Cursor:
        """Return the scope's cursor as it is stored, valid or not."""
        ...

    def gaps(self) -> Sequence[Gap]:
        """Return the open gaps, newest first."""
        ...

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        """Return the stored version of each id that is stored."""
        ...

    def commit(self, batch: Batch[R_contra]) -> None:
        """Write everything of the batch in one transaction, or nothing."""
        ...

    def set_aside(self, reason: str) -> None:
        """Keep the invalid cursor's value where a person can find it."""
        ...

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        """Return what we hold that was created in a span, with the locator to ask for each."""
        ...

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        """Return what should be asked for again now."""
        ...
