"""Sync the children of changed parents: which parents are due, when one has settled, and what a refusal means.

All pages of one parent are read and parsed before anything of it is written; then its children, the removal of those
that vanished, and its watermark are one commit. Any failure leaves the parent's children as they were and the parent
due (invariant 7). A parent counts as synced only when its children were read `settle_ms` after its `updated_at` on the
server's clock: a forge touches a parent at most once a minute.

When a kind of children is refused for several parents in a row, while the parents themselves can be read, it is
unavailable for the whole project (the endpoint is newer than the server, a feature is disabled, the token may not read
it): the other parents are not requested, and it is tried again with growing pauses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from msgspec import Struct

from tidelore.core.errors import (
    AccessRefused,
    CredentialsRejected,
    IntegrityError,
    QueryLimited,
    RateLimited,
    RemoteError,
    RemoteNotFound,
)
from tidelore.core.model import Rejected
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.ports import Pages, Parent, R_contra
from tidelore.engine.whole import ChildReading, read_lists

if TYPE_CHECKING:
    # The store imports this module for its rules, and offline reads must not load asyncio.
    from tidelore.core.concurrency import WriterThread
    from tidelore.engine.child_batch import ChildBatch

IN_A_ROW = 3
"""After this many refused parents in a row the cause is probably not the single parent."""
AFTER_SUCCESS = 10
"""The same threshold, once the children of another parent could be read in this run."""
_REFUSED = frozenset({403, 404, 405, 410})
_FIRST_PAUSE_MS = 3_600_000
_LONGEST_PAUSE_MS = 7 * 86_400_000


def is_refusal(error: RemoteError) -> bool:
    """Return whether the server refused the request in a way that may apply to the whole project."""
    return error.status in _REFUSED


def pause_ms(attempts: int) -> int:
    """Return how long to leave an unavailable kind alone: doubles with each attempt, from an hour to a week."""
    return min(_FIRST_PAUSE_MS << min(max(attempts, 1) - 1, 30), _LONGEST_PAUSE_MS)


C = TypeVar("C")

DUE_AT_ONCE = 200
"""The number of due parents to hold in memory."""


class Due(Enum):
    """What to do about a parent's children."""

    FETCH = "fetch"
    WAIT = "wait"
    DONE = "done"


class ChildStore(Protocol[R_contra]):
    """Storage interface for parents and their children."""

    def due(self, limit: int) -> Sequence[Parent]:
        """Return parents not yet synced for their version, each at most once per run, oldest change first."""
        ...

    def replace(self, readings: Sequence[ChildReading[R_contra]]) -> int:
        """Upsert the children of parents, sweep those not seen and move their watermarks, in one transaction.

        Return how many children changed.
        """
        ...

    def record_failure(self, parent: Parent, error: str, rejected: Sequence[Rejected] = ()) -> None:
        """Record the failure in the parent's sync health columns and quarantine `rejected`; change nothing else."""
        ...

    def bury(self, parents: Sequence[int]) -> None:
        """Tombstone parents that no longer exist on the server."""
        ...

    def is_unavailable(self) -> bool:
        """Return whether this kind of children was refused for the whole project at the last attempt."""
        ...

    def record_refusal(self, parents: Sequence[Parent], error: str) -> bool:
        """Record parents that were refused this kind; return whether it is now unavailable for the project."""
        ...

    def clear_refusals(self) -> None:
        """Clear the refusals, after the children of a parent could be read."""
        ...


class ChildTally(Struct):
    """Counts of what happened to the due parents."""

    fetched: int = 0
    settled: int = 0
    waiting: int = 0
    failed: int = 0
    quarantined: int = 0
    pages: int = 0
    changed: int = 0


def is_settled(updated_at: int, server_at: int | None, settle_ms: int) -> bool:
    """Return whether a read at `server_at` is late enough to include every change up to this `updated_at`."""
    return server_at is not None and server_at - updated_at >= settle_ms


def decide(parent: Parent, server_now: int | None, settle_ms: int) -> Due:
    """Return whether a parent's children must be read now."""
    if parent.synced_for is not None and parent.synced_for >= parent.updated_at:
        return Due.DONE
    if parent.fetched_for is None or parent.fetched_for < parent.updated_at:
        return Due.FETCH
    return Due.FETCH if is_settled(parent.updated_at, server_now, settle_ms) else Due.WAIT


class ChildSync(Generic[C]):
    """Sync one kind of children for all due parents, with bounded concurrency.

    `is_there` requests a parent itself: True when it responds, False when it is gone, None when that is unknown. `gone`
    counts the parents that were deleted; `unavailable` is why this kind cannot be read in the whole project. With
    `thread`, the children of several parents are committed together in that thread.
    """

    def __init__(
        self,
        store: ChildStore[C],
        lists_of: Callable[[Parent], Sequence[Pages[C]]],
        is_there: Callable[[Parent], Awaitable[bool | None]],
        *,
        concurrency: int,
        settle_ms: int,
        max_bytes: int | None = None,
        seam: Crashpoint = no_seam,
        tally: ChildTally | None = None,
        on_parent: Callable[[ChildTally], None] = lambda _tally: None,
        thread: WriterThread | None = None,
    ) -> None:
        self._store = store
        self._lists_of = lists_of
        self._is_there = is_there
        self._concurrency = concurrency
        self._settle_ms = settle_ms
        self._max_bytes = max_bytes
        self._seam = seam
        self._on_parent = on_parent
        self._thread = thread
        self._batch: ChildBatch[C] | None = None
        self._refused: list[tuple[Parent, RemoteError]] = []
        self._in_a_row = 0
        self._read_any = False
        self._suspect = store.is_unavailable()
        self.tally = ChildTally() if tally is None else tally
        self.gone = 0
        self.unavailable: str | None = None

    async def read(self, parents: Iterable[Parent]) -> ChildTally:
        """Read the children of these parents, due or not. A failure is recorded and does not stop the others."""
        queue = iter(parents)
        while self.unavailable is None:
            try:
                await self._store_beside(queue)
            except BaseExceptionGroup as several:
                # Callers handle single errors from our error tree, not exception groups.
                raise _first(several) from None
            halted = self._is_halted
            await self._judge_refused()
            if not halted:
                break
        return self.tally

    def ready(self, server_now: int | None) -> Iterator[Parent]:
        """Yield the parents whose children must be read now, loading them lazily."""
        while parents := self._store.due(DUE_AT_ONCE):
            for parent in parents:
                if decide(parent, server_now, self._settle_ms) is Due.FETCH:
                    yield parent
                else:
                    self.tally.waiting += 1

    @property
    def _is_halted(self) -> bool:
        """Whether enough parents in a row were refused that requests stop until those refusals are examined."""
        if self._suspect:
            # One parent is enough to find out whether the server offers this kind now.
            return self._in_a_row > 0
        return self._in_a_row >= (AFTER_SUCCESS if self._read_any else IN_A_ROW)

    async def _store_beside(self, queue: Iterator[Parent]) -> None:
        """Read the children of all parents and commit them meanwhile; at the end everything that was read is stored."""
        if self._thread is None:
            await self._work_through(queue)
            return
        import asyncio

        from tidelore.engine.child_batch import ChildBatch

        self._batch = ChildBatch(self._thread, self._store_together, self._count)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._batch.work())
            await self._work_through(queue)
            self._batch.close()

    async def _work_through(self, queue: Iterator[Parent]) -> None:
        # Imported here because the store imports this module for its rules, and offline reads must not load asyncio.
        import asyncio

        if self._suspect:
            await self._work(queue, lambda: not self._suspect)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work(queue))

    async def _work(self, queue: Iterator[Parent], is_done: Callable[[], bool] = lambda: False) -> None:
        while not self._is_halted and not is_done():
            parent = next(queue, None)
            if parent is None:
                return
            await self._sync(parent)

    async def _sync(self, parent: Parent) -> None:
        tally = self.tally
        try:
            children = await read_lists(self._lists_of(parent), self._max_bytes)
        except (CredentialsRejected, RateLimited, QueryLimited):
            raise
        except RemoteError as error:
            if is_refusal(error):
                self._refused.append((parent, error))
                self._in_a_row += 1
            else:
                self._fail(parent, error)
            return
        self._seam(Seam.AFTER_FETCH)
        tally.pages += children.pages
        self._note_answered()
        if children.rejected:
            tally.quarantined += len(children.rejected)
            self._store.record_failure(parent, children.rejected[0].error, children.rejected)
            self._on_parent(tally)
            return
        reading = ChildReading(parent, children, is_settled(parent.updated_at, children.server_at, self._settle_ms))
        if self._batch is not None:
            await self._batch.add(reading)
        else:
            self._count([reading], self._store_together([reading]))

    def _store_together(self, readings: Sequence[ChildReading[C]]) -> int:
        """Commit the children of parents, in any thread; return how many changed."""
        for _ in readings:
            self._seam(Seam.BEFORE_COMMIT)
        try:
            changed = self._store.replace(readings)
        except IntegrityError:
            if len(readings) == 1:
                raise
            # One parent that cannot be stored must not keep those before it from being stored.
            changed = sum(self._store.replace([reading]) for reading in readings)
        for _ in readings:
            self._seam(Seam.AFTER_COMMIT)
        return changed

    def _count(self, readings: Sequence[ChildReading[C]], changed: int) -> None:
        self.tally.changed += changed
        self.tally.fetched += len(readings)
        self.tally.settled += sum(reading.settled for reading in readings)
        self._on_parent(self.tally)

    def _note_answered(self) -> None:
        self._in_a_row = 0
        if not self._read_any:
            self._read_any, self._suspect = True, False
            self._store.clear_refusals()

    async def _judge_refused(self) -> None:
        """Classify refusals: the parent was deleted, the parent was refused, or the kind is refused project-wide."""
        refused, self._refused, self._in_a_row = self._refused, [], 0
        answering: list[Parent] = []
        failed: list[tuple[Parent, RemoteError]] = []
        for parent, error in refused:
            # A forbidden parent exists; request only a few, to make sure that the parents themselves are not refused,
            # and none if the token may not read this part of any parent.
            enough = 0 if isinstance(error, AccessRefused) else IN_A_ROW
            known = not isinstance(error, RemoteNotFound) and len(answering) >= enough
            there = True if known else await self._is_there(parent)
            if there is False and isinstance(error, RemoteNotFound):
                self._store.bury([parent.id])
                self.gone += 1
                continue
            failed.append((parent, error))
            if there:
                answering.append(parent)
        if len(answering) >= (AFTER_SUCCESS if self._read_any else 1):
            reason = failed[-1][1].message
            if self._store.record_refusal(answering, reason):
                self.unavailable = reason
                return
        for parent, error in failed:
            self._fail(parent, error)

    def _fail(self, parent: Parent, error: RemoteError) -> None:
        self.tally.failed += 1
        self._store.record_failure(parent, error.message)
        self._on_parent(self.tally)


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first single error of a group."""
    first = several.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
