"""Walk a list that is sorted newest first and can only be paged into the past.

The durable position is a high-water mark and the gaps below the newest item seen. A walk reads the new head down to the
newest gap (or the mark), then continues where the gap stopped, so nothing is lost in a list that grows faster than it
is read. Upholds invariants 1 to 4 for descending lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import ForeignOrigin, RemoteError, RemotePermanent
from tidelore.core.model import Position
from tidelore.engine.cursor import Cursor, Gap, Validator, forward, order_key
from tidelore.engine.intake import Intake, Tally, retry_quarantined
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.engine.whole import REPEATED, PageGuard
from tidelore.engine.window import bounded

R = TypeVar("R")

LEAST_PAGES = 3
"""One for the head, one to pass an item exactly at its floor, one for the gap: with fewer no gap would ever close."""
WHOLE_SECOND_MS = 1000
"""The precision of a server's times."""
MOST_EMPTY = 10
"""A walk stops after this multiple of its page limit, counting pages with nothing above their floor."""


class NewestFirstPlan(Struct, frozen=True):
    """Limits of one walk."""

    overlap_ms: int = 0
    lookback_ms: int = 24 * 3_600_000
    max_pages: int = 100
    safe_backfill_ms: int = 86_400_000


def open_head(high_water: Position | None, gaps: Sequence[Gap], lookback_floor: int) -> Gap:
    """Return the span above everything known: down to the newest gap's top, the mark, or the look-back limit."""
    known = next((gap.top for gap in gaps if gap.top is not None), high_water)
    return Gap(None, None, lookback_floor if known is None else known.at)


def highest(*positions: Position | None) -> Position | None:
    """Return the newest of some positions, or None."""
    return max((position for position in positions if position is not None), key=order_key, default=None)


def shrink(gap: Gap, positions: Sequence[Position], next_token: str | None, overlap_ms: int) -> Gap | None:
    """Return what is left of a span after one more page, or None when its floor is passed.

    `positions` must not include pinned items: they are listed first regardless of age.
    """
    reached = bool(positions) and gap.floor is not None and positions[-1].at < gap.floor - overlap_ms
    if next_token is None or reached:
        return None
    return replace(gap, top=highest(gap.top, *positions), token=next_token)


def shows_what_comes(page: Page[object], overlap_ms: int) -> bool:
    """Return whether every later change will appear on this first page, so that "not modified" means no change.

    That is not so while a full page has only updates of the present second: further ones may be sorted after them.
    """
    if page.next_token is None:
        return True
    margin_ms = max(overlap_ms, WHOLE_SECOND_MS)
    return page.server_at is not None and any(item.at < page.server_at - margin_ms for item in page.items)


def close(top: Position | None, below: Sequence[Gap]) -> list[Gap]:
    """Join a finished span with the gap below it: everything between their tops is complete."""
    return [replace(below[0], top=highest(top, below[0].top)), *below[1:]] if below else []


class NewestFirstWalk(Generic[R]):
    """One walk down one list, with a limited number of pages."""

    def __init__(self, lister: Lister[R], intake: Intake[R], plan: NewestFirstPlan) -> None:
        self._lister = lister
        self._intake = intake
        self._plan = plan

    async def run(self) -> Tally:
        """Read the new head, then the gaps of earlier walks, at most `max_pages` in total; then the quarantine."""
        cursor = self._intake.load(self._plan.safe_backfill_ms)
        below = list(self._intake.store.gaps())
        # Every change moves to the top, so an unchanged first page means that nothing changed since it was read.
        known = None if below else cursor.validator
        first, cursor = None, replace(cursor, validator=None)
        floor = max(self._intake.now_ms() - self._plan.lookback_ms, cursor.horizon)
        spans = [open_head(cursor.watermark, below, floor), *below]
        limit, spent, read = max(self._plan.max_pages, LEAST_PAGES), 0, 0
        guard, opened_at = PageGuard(), None
        while spans and spent < limit and read < MOST_EMPTY * limit:
            span = spans[0]
            page = await self._fetch(span, spans, cursor, known)
            if page.not_modified:
                self._intake.begin(page, replace(cursor, validator=known))
                break
            if read == 0 and shows_what_comes(page, self._plan.overlap_ms):
                first = page.validator
            known, read = None, read + 1
            self._look(guard, page, spans, cursor)
            opened_at = page.server_at if opened_at is None else opened_at
            listed = (item.position for item in page.items if item.version.id not in page.pinned)
            # A time in the server's future must not become the mark: it would hide changes until then.
            positions = [position for found in listed if (position := bounded(found, opened_at)) is not None]
            # Pages with only items at the floor, or hidden ones, do not count, or a walk could use up its limit there.
            spent += any(span.floor is None or position.at > span.floor for position in positions)
            rest = shrink(span, positions, page.next_token, self._plan.overlap_ms)
            if rest is not None:
                spans = [rest, *spans[1:]]
            else:
                top = highest(span.top, *positions)
                # A gap below may continue at tokens that were already seen above it.
                spans, guard = close(top, spans[1:]), PageGuard()
                if not spans:
                    watermark = forward(cursor.watermark, top)
                    cursor = replace(cursor, watermark=watermark, complete=True, validator=first)
            self._intake.begin(page, cursor, spans)
        await retry_quarantined(self._lister, self._intake)
        return self._intake.tally

    def _look(self, guard: PageGuard, page: Page[R], spans: Sequence[Gap], cursor: Cursor) -> None:
        try:
            guard.look(page)
        except RemotePermanent as error:
            if error.reason == REPEATED:
                # Continuing at this token would only repeat the cycle.
                self._intake.store.commit(Batch((), cursor, gaps=[replace(spans[0], token=None), *spans[1:]]))
            raise

    async def _fetch(self, span: Gap, spans: Sequence[Gap], cursor: Cursor, known: Validator | None) -> Page[R]:
        try:
            return await self._intake.fetch(self._lister, ListRequest(token=span.token, validator=known))
        except RemoteError as error:
            if span.token is not None and (not error.retryable or error.status == 500):
                # The server no longer accepts its own token, so the next walk reads this span from the top.
                self._intake.store.commit(Batch((), cursor, gaps=[replace(span, token=None), *spans[1:]]))
                if isinstance(error, ForeignOrigin):
                    # A token is an address: after a change of `base_url` it leads to the old one.
                    return await self._intake.fetch(self._lister, ListRequest())
            raise
