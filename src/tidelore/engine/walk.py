"""Walk a list ordered by update time or by id: fetch a page, commit it with its cursor, continue.

This module contains the loop only; `window.py` decides and `intake.py` stores. The next request depends on the page
only, so it is sent while the page is stored. Invariant 2: a crash repeats at most two pages. Invariant 7: items that
cannot be parsed are quarantined and fetched again, and never stop a walk.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import ForeignOrigin, RemoteError, RemoteTransient
from tidelore.engine.cursor import Cursor, Window, forward
from tidelore.engine.intake import Intake, Tally, retry_quarantined
from tidelore.engine.ports import Lister, ListRequest, Page
from tidelore.engine.whole import PageGuard
from tidelore.engine.window import (
    MAX_PASSES,
    Order,
    advance,
    begin,
    believable,
    bounded,
    is_open,
    lasting,
    recall,
)

R = TypeVar("R")


class Plan(Struct, frozen=True):
    """How to read one surface."""

    order: Order = Order.UPDATED
    overlap_ms: int = 2000
    margin_ms: int = 1
    safe_backfill_ms: int = 86_400_000


class Walk(Generic[R]):
    """One walk over one scope. `run` may be cancelled at any await; everything committed is kept."""

    def __init__(self, lister: Lister[R], intake: Intake[R], plan: Plan) -> None:
        self._lister = lister
        self._intake = intake
        self._plan = plan

    async def run(self) -> Tally:
        """Read everything that may have changed since the watermark."""
        plan = self._plan
        cursor = self._intake.load(plan.safe_backfill_ms)
        started_at, opened_at = cursor.watermark, None
        remembered = cursor.window if cursor.window is not None and not is_open(cursor.window) else None
        window: Window | None = begin(cursor, plan.order, plan.overlap_ms)
        guard = PageGuard()
        while window is not None:
            page = await self._fetch(window, cursor)
            if page is None:
                window = Window(window.instant, window.since, before=window.before, passes=window.passes + 1)
                continue
            guard = guard if window.token is not None else PageGuard()
            guard.look(page)
            if page.not_modified:
                self._intake.begin(page, cursor)
                break
            opened_at = page.server_at if opened_at is None else opened_at
            positions = believable((item.position for item in page.items), page.server_at)
            step = advance(window, positions, page.next_token, plan.order, plan.margin_ms)
            remembered = step.remember or remembered
            window = None if step.window is None else recall(step.window, remembered)
            kept = remembered if window is None else window
            watermark = forward(cursor.watermark, bounded(step.watermark, opened_at))
            quiet = window is None and self._intake.tally.pages == 0 and watermark == started_at
            cursor = replace(
                cursor,
                watermark=watermark,
                window=None if kept is None else lasting(kept, opened_at, plan.overlap_ms),
                # Only the ETag of a complete one-page response may be kept, and only if the same URL is requested
                # again.
                validator=page.validator if quiet else None,
                complete=cursor.complete or window is None,
            )
            self._intake.begin(page, cursor)
        await retry_quarantined(self._lister, self._intake)
        return self._intake.tally

    async def _fetch(self, window: Window, cursor: Cursor) -> Page[R] | None:
        """Fetch the next page of a window, or return None if the server no longer knows it: the window starts over."""
        if window.passes > MAX_PASSES:
            await self._intake.settle()
            raise RemoteTransient("the list kept changing while it was read", reason="unstable_list")
        try:
            request = ListRequest(window.since, window.token, cursor.validator)
            return await self._intake.fetch(self._lister, request)
        except RemoteError as error:
            # A token is an address: after a change of `base_url` it leads to the old one.
            is_unknown = isinstance(error, ForeignOrigin) or error.status in {400, 404, 410, 422}
            if window.token is None or error.retryable or not is_unknown:
                raise
            return None
