"""Decide which items of a page are new, and store them in one commit.

Invariant 1: records and the cursor that covers them are one commit. Invariant 3: an item is new when its version is not
stored, regardless of its place in the list. Invariant 6: a replayed page writes no row.

With a writer thread a page is stored while the next one is fetched. Commits stay in order, and a page is committed
before the page after the next one is requested: so a crash repeats at most two pages (invariant 2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import RemoteError
from tidelore.core.model import Item, Rejected, RemoteId, Version
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.cursor import Cursor, Gap, backfilled, why_invalid
from tidelore.engine.ports import Batch, Lister, ListRequest, Page, Pages, ScopeStore

if TYPE_CHECKING:
    # The store imports this module for its rules, and offline reads must not load asyncio.
    from tidelore.core.concurrency import Pending, WriterThread

_LOG = logging.getLogger(__name__)

MOST_RETRIED = 10
"""How many quarantined items one walk fetches again."""

R = TypeVar("R")


class Tally(Struct):
    """Counts of what a walk did, for reports and the ledger."""

    pages: int = 0
    fetched: int = 0
    created: int = 0
    changed: int = 0
    replayed: int = 0
    stale: int = 0
    quarantined: int = 0
    released: int = 0
    gone: int = 0
    not_modified: bool = False
    cursor_reset: str | None = None


class Sorted(Struct, Generic[R], frozen=True):
    """A page's items, classified."""

    created: Sequence[Item[R]]
    changed: Sequence[Item[R]]
    replayed: int
    stale: int


def sort_out(items: Sequence[Item[R]], stored: Mapping[RemoteId, Version], horizon: int = 0) -> Sorted[R]:
    """Classify items as created, changed, replayed or stale. An older version must never replace a newer one.

    What is not stored and was last updated before the horizon is left out.
    """
    newest = {item.version.id: item for item in items}
    stale = 0
    replayed = len(items) - len(newest)
    if replayed:
        # Of two with the same id the newer one counts, and of two with the same time the later one.
        newest = {item.version.id: item for item in sorted(items, key=lambda item: item.version.updated_at)}
    created: list[Item[R]] = []
    changed: list[Item[R]] = []
    for item in newest.values():
        known = stored.get(item.version.id)
        if known is None:
            if item.version.updated_at >= horizon:
                created.append(item)
        elif known == item.version:
            replayed += 1
        elif item.version.updated_at < known.updated_at:
            stale += 1
        else:
            changed.append(item)
    return Sorted(created, changed, replayed, stale)


class Intake(Generic[R]):
    """Storage for one walk: loads the cursor, commits pages and keeps the tally.

    With `thread`, `begin` stores a page in that thread while the next page is fetched. Without it nothing is fetched
    ahead: use none where a request depends on what is stored.
    """

    def __init__(
        self,
        store: ScopeStore[R],
        now_ms: Callable[[], int],
        seam: Crashpoint = no_seam,
        on_page: Callable[[Tally], None] | None = None,
        thread: WriterThread | None = None,
    ) -> None:
        self.store = store
        self.now_ms = now_ms
        self.seam = seam
        self.tally = Tally()
        self.server_at: int | None = None
        self._on_page = on_page
        self._thread = thread
        self._storing: Pending[None] | None = None
        self._uncounted: Callable[[], None] | None = None

    def load(self, safe_backfill_ms: int) -> Cursor:
        """Return the cursor. An invalid one is set aside and replaced by a bounded backfill."""
        cursor = self.store.load()
        reason = why_invalid(cursor, self.now_ms())
        if reason is None:
            return cursor
        _LOG.warning("cursor_invalid: %s", reason, extra={"event": "cursor_invalid"})
        self.store.set_aside(reason)
        self.tally.cursor_reset = reason
        return replace(backfilled(self.now_ms(), safe_backfill_ms), horizon=cursor.horizon)

    def take(
        self,
        page: Page[R],
        cursor: Cursor,
        gaps: Sequence[Gap] | None = None,
        released: Sequence[str] = (),
        gone: Sequence[RemoteId] = (),
    ) -> None:
        """Commit the new items of a page together with the cursor that covers it."""
        try:
            self._store(page, cursor, gaps, released, gone)
        finally:
            self._count()

    def begin(
        self, page: Page[R], cursor: Cursor, gaps: Sequence[Gap] | None = None, released: Sequence[str] = ()
    ) -> None:
        """Begin to commit a page as `take` does; `fetch` and `settle` wait for it."""
        assert self._storing is None, "commits stay in order"
        if self._thread is None:
            self.take(page, cursor, gaps, released)
        else:
            self._storing = self._thread.begin(lambda: self._store(page, cursor, gaps, released, ()))

    async def fetch(self, lister: Pages[R], request: ListRequest) -> Page[R]:
        """Fetch a page while the page before it is committed. When this ends, also by an error, that commit has too."""
        try:
            page = await lister.fetch(request)
            self.seam(Seam.AFTER_FETCH)
        finally:
            await self.settle()
        return page

    async def settle(self) -> None:
        """Wait until the page that is being stored is committed, and count it."""
        storing, self._storing = self._storing, None
        if storing is not None:
            try:
                await storing.wait()
            finally:
                # After a cancellation too: what is committed counts.
                self._count()

    def _count(self) -> None:
        count, self._uncounted = self._uncounted, None
        if count is not None:
            count()

    def _store(
        self,
        page: Page[R],
        cursor: Cursor,
        gaps: Sequence[Gap] | None,
        released: Sequence[str],
        gone: Sequence[RemoteId],
    ) -> None:
        """Commit a page, in any thread; it is counted in the thread of the walk."""
        stored = self.store.stored([item.version.id for item in page.items]) if page.items else {}
        found = sort_out(page.items, stored, cursor.horizon)

        def count() -> None:
            self.server_at = page.server_at or self.server_at
            tally = self.tally
            tally.pages += 1
            tally.fetched += len(page.items) + len(page.rejected)
            tally.created += len(found.created)
            tally.changed += len(found.changed)
            tally.replayed += found.replayed
            tally.stale += found.stale
            tally.quarantined += len(page.rejected)
            tally.released += len(released)
            tally.gone += len(gone)
            tally.not_modified = page.not_modified
            if self._on_page is not None:
                self._on_page(tally)

        self.seam(Seam.BEFORE_COMMIT)
        self.store.commit(Batch([*found.created, *found.changed], cursor, page.rejected, gaps, released, gone))
        # Before anything else can fail: what is committed counts.
        self._uncounted = count
        self.seam(Seam.AFTER_COMMIT)


async def retry_quarantined(lister: Lister[R], intake: Intake[R]) -> None:
    """Fetch quarantined items again, each by its own id, and release those that can be parsed or are gone."""
    await intake.settle()
    for entry in intake.store.due_quarantined(MOST_RETRIED):
        try:
            page = await lister.fetch_one(entry.locator)
        except RemoteError as error:
            page = Page(rejected=(Rejected(entry.key, entry.locator, b"", error.message),))
        # If it is rejected under a different key, release the old entry, or it would be due first at every walk.
        again = any(rejected.key == entry.key for rejected in page.rejected)
        intake.begin(page, intake.store.load(), released=() if again else (entry.key,))
        await intake.settle()
