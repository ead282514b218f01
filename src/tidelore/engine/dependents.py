"""Children of a changed parent. Owns when a parent is due, when it has settled, and read-all-then-write.

All pages of one parent are read and understood BEFORE anything of it is written; then its children, the
sweep of those that vanished, and its watermark are one commit. Any failure leaves the parent's children
as they were and the parent due (invariant 7). A parent counts as synced only when its children were read
`settle_ms` after its `updated_at` on the SERVER's clock: a forge touches a parent at most once a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.ports import ListRequest, Pages, R_contra
from tidelore.engine.window import MAX_PASSES
from tidelore.errors import CredentialsRejected, RateLimited, RemoteError, RemoteNotFound, RemoteTransient
from tidelore.model import Item, R_co, Rejected

C = TypeVar("C")

DUE_AT_ONCE = 200
"""How many due parents are held in memory."""


class Parent(Struct, frozen=True):
    """A parent and how far its children were read: for which version, and whether that had settled."""

    id: int
    iid: int
    updated_at: int
    synced_for: int | None
    fetched_for: int | None


class Due(Enum):
    """What to do about a parent's children."""

    FETCH = "fetch"
    WAIT = "wait"
    DONE = "done"


class Children(Struct, Generic[R_co], frozen=True):
    """Everything one parent has now, as far as it could be understood."""

    items: Sequence[Item[R_co]]
    rejected: Sequence[Rejected]
    pages: int
    server_at: int | None


class Nursery(Protocol[R_contra]):
    """The durable side of parents and their children."""

    def due(self, limit: int) -> Sequence[Parent]:
        """Return parents not yet synced for their version, each at most once per run, oldest change first."""
        ...

    def replace(self, parent: Parent, children: Children[R_contra], *, settled: bool) -> int:
        """Upsert the children, sweep those not seen and move the watermark, in one transaction; count changes."""
        ...

    def record_failure(self, parent: Parent, error: str, rejected: Sequence[Rejected] = ()) -> None:
        """Write the failure to the parent's sync health columns, what was rejected to quarantine, nothing else."""
        ...


class DependentTally(Struct):
    """What became of the parents that were due."""

    fetched: int = 0
    settled: int = 0
    waiting: int = 0
    failed: int = 0
    quarantined: int = 0
    pages: int = 0
    changed: int = 0


def is_settled(updated_at: int, server_at: int | None, settle_ms: int) -> bool:
    """Return whether a read at `server_at` shows all that its `updated_at` will ever tell of."""
    return server_at is not None and server_at - updated_at >= settle_ms


def decide(parent: Parent, server_now: int | None, settle_ms: int) -> Due:
    """Return whether a parent's children must be read now."""
    if parent.synced_for is not None and parent.synced_for >= parent.updated_at:
        return Due.DONE
    if parent.fetched_for is None or parent.fetched_for < parent.updated_at:
        return Due.FETCH
    return Due.FETCH if is_settled(parent.updated_at, server_now, settle_ms) else Due.WAIT


async def read_all(lister: Pages[C]) -> Children[C]:
    """Read every page of a list; one that took several pages is read until two passes agree."""
    before: tuple[object, ...] | None = None
    total = 0
    for _ in range(MAX_PASSES):
        items: dict[object, Item[C]] = {}
        rejected: dict[str, Rejected] = {}
        pages, token = 0, None
        server_at: int | None = None
        while True:
            page = await lister.fetch(ListRequest(token=token))
            pages, total = pages + 1, total + 1
            # The first page's clock: a child added after it was answered may be missing from this pass.
            server_at = page.server_at if server_at is None else server_at
            items.update((item.version.id, item) for item in page.items)
            rejected.update((entry.key, entry) for entry in page.rejected)
            token = page.next_token
            if token is None:
                break
        seen = (*sorted(map(str, items)), *sorted(rejected))
        if pages == 1 or seen == before:
            return Children(list(items.values()), list(rejected.values()), total, server_at)
        before = seen
    raise RemoteTransient("the children kept changing while they were read", reason="unstable_list")


async def read_lists(listers: Sequence[Pages[C]]) -> Children[C]:
    """Read all lists that make up one kind of children; the earliest clock of them is the clock of all."""
    parts = [await read_all(lister) for lister in listers]
    clocks = [part.server_at for part in parts]
    return Children(
        [item for part in parts for item in part.items],
        [entry for part in parts for entry in part.rejected],
        sum(part.pages for part in parts),
        None if None in clocks else min(clock for clock in clocks if clock is not None),
    )


class DependentSync(Generic[C]):
    """Brings one kind of children of all due parents up to date, with bounded concurrency.

    `missing` are the parents whose children the server does not know: either they are gone, or that is a failure.
    """

    def __init__(
        self,
        nursery: Nursery[C],
        lists_of: Callable[[Parent], Sequence[Pages[C]]],
        *,
        concurrency: int,
        settle_ms: int,
        seam: Crashpoint = no_seam,
        tally: DependentTally | None = None,
        on_parent: Callable[[DependentTally], None] = lambda _tally: None,
    ) -> None:
        self._nursery = nursery
        self._lists_of = lists_of
        self._concurrency = concurrency
        self._settle_ms = settle_ms
        self._seam = seam
        self._on_parent = on_parent
        self.tally = DependentTally() if tally is None else tally
        self.missing: list[Parent] = []

    async def read(self, parents: Iterable[Parent]) -> DependentTally:
        """Read the children of these parents, due or not; one that fails is recorded and the others go on."""
        queue = iter(parents)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._concurrency):
                    group.create_task(self._work(queue))
        except BaseExceptionGroup as several:
            # The caller waits for an error of the tree, not for a bundle of them.
            raise several.exceptions[0] from None
        return self.tally

    def ready(self, server_now: int | None) -> Iterator[Parent]:
        """Yield the parents whose children must be read now, as they are asked for."""
        while parents := self._nursery.due(DUE_AT_ONCE):
            for parent in parents:
                if decide(parent, server_now, self._settle_ms) is Due.FETCH:
                    yield parent
                else:
                    self.tally.waiting += 1

    async def _work(self, queue: Iterator[Parent]) -> None:
        for parent in queue:
            await self._sync(parent)
            self._on_parent(self.tally)

    async def _sync(self, parent: Parent) -> None:
        tally = self.tally
        try:
            children = await read_lists(self._lists_of(parent))
        except (CredentialsRejected, RateLimited):
            raise
        except RemoteError as error:
            if isinstance(error, RemoteNotFound):
                self.missing.append(parent)
            else:
                tally.failed += 1
            self._nursery.record_failure(parent, error.message)
            return
        self._seam(Seam.AFTER_FETCH)
        tally.pages += children.pages
        if children.rejected:
            tally.quarantined += len(children.rejected)
            self._nursery.record_failure(parent, children.rejected[0].error, children.rejected)
            return
        settled = is_settled(parent.updated_at, children.server_at, self._settle_ms)
        self._seam(Seam.BEFORE_COMMIT)
        tally.changed += self._nursery.replace(parent, children, settled=settled)
        self._seam(Seam.AFTER_COMMIT)
        tally.fetched += 1
        tally.settled += settled
