"""The interfaces between the engine, the remote lists and the store. No implementation.

`Lister` is a remote list, `ScopeStore` stores one scope. It commits records and the cursor that covers them in one
transaction (invariant 1), and is synchronous: a transaction cannot span an await.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from tidelore.core.model import Item, R_co, Rejected, RemoteId, Version
from tidelore.engine.cursor import Cursor, Gap, Validator

R_contra = TypeVar("R_contra", contravariant=True)


class ListRequest(Struct, frozen=True):
    """A request for one page: `token` (opaque, from the server) takes precedence over `since`."""

    since: int | None = None
    token: str | None = None
    validator: Validator | None = None


class Page(Struct, Generic[R_co], frozen=True):
    """One page as received. `next_token` is None on the last page.

    `anchored`: the list can also be continued at an instant (`since`); otherwise only the token leads on.
    """

    items: Sequence[Item[R_co]] = ()
    rejected: Sequence[Rejected] = ()
    next_token: str | None = None
    server_at: int | None = None
    validator: Validator | None = None
    not_modified: bool = False
    pinned: frozenset[RemoteId] = frozenset()
    anchored: bool = True


class Pages(Protocol[R_co]):
    """A remote list."""

    async def fetch(self, request: ListRequest) -> Page[R_co]:
        """Read one page."""
        ...


class Lister(Pages[R_co], Protocol[R_co]):
    """A remote list for one scope, whose items can also be fetched one at a time."""

    async def fetch_one(self, locator: str) -> Page[R_co]:
        """Fetch one object again; an empty page means that it is gone."""
        ...


class Parent(Struct, frozen=True):
    """A parent, the version its children were read for, and whether that version had settled.

    `node_id` is its global id, on forges that request some children by it.
    """

    id: int
    iid: int
    updated_at: int
    synced_for: int | None
    fetched_for: int | None
    node_id: str | None = None


class Quarantined(Struct, frozen=True):
    """An item that could not be parsed and is due to be fetched again."""

    key: str
    locator: str
    attempts: int


class Batch(Struct, Generic[R_co], frozen=True):
    """The contents of one transaction. `gone` are tombstoned: kept and marked, but not listed."""

    items: Sequence[Item[R_co]]
    cursor: Cursor
    rejected: Sequence[Rejected] = ()
    gaps: Sequence[Gap] | None = None
    released: Sequence[str] = ()
    gone: Sequence[RemoteId] = ()


class ScopeStore(Protocol[R_contra]):
    """Storage interface for one scope."""

    def load(self) -> Cursor:
        """Return the stored cursor of the scope, valid or not."""
        ...

    def gaps(self) -> Sequence[Gap]:
        """Return the open gaps, newest first."""
        ...

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        """Return the stored version of each of these ids that is stored."""
        ...

    def commit(self, batch: Batch[R_contra]) -> None:
        """Write the whole batch in one transaction, or nothing."""
        ...

    def set_aside(self, reason: str) -> None:
        """Keep the value of the invalid cursor, so that it can be inspected."""
        ...

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        """Return the stored items that were created in a span, each with the locator to fetch it by."""
        ...

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        """Return the items to fetch again now."""
        ...
