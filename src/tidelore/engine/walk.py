"""The walk over a list ordered by update time or by id: fetch a page, commit it with its cursor, go on.

Owns the loop; `window.py` decides, `intake.py` makes durable. Invariant 2: a crash repeats at most one
page. Invariant 7: what cannot be understood is quarantined, asked for again, and stops nothing.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Cursor, Window, forward
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ports import Lister, ListRequest, Page
from tidelore.engine.window import MAX_PASSES, Order, advance, begin, believable, recall
from tidelore.errors import RemoteError, RemoteTransient
from tidelore.model import Rejected

R = TypeVar("R")


class Plan(Struct, frozen=True):
    """How one surface is read."""

    order: Order = Order.UPDATED
    overlap_ms: int = 2000
    margin_ms: int = 1
    safe_backfill_ms: int = 86_400_000
    retry_limit: int = 10


class Walk(Generic[R]):
    """One walk over one scope. `run` may be cancelled at any await; everything committed stays."""

    def __init__(self, lister: Lister[R], intake: Intake[R], plan: Plan) -> None:
        self._lister = lister
        self._intake = intake
        self._plan = plan

    async def run(self) -> Tally:
        """Read everything that may have changed since the watermark."""
        cursor = self._intake.load(self._plan.safe_backfill_ms)
        started_at, remembered = cursor.watermark, cursor.window
        window: Window | None = begin(cursor, self._plan.order, self._plan.overlap_ms)
        while window is not None:
            page = await self._fetch(window, cursor)
            self._intake.seam(Seam.AFTER_FETCH)
            if page.not_modified:
                self._intake.take(page, cursor)
                break
            positions = believable((item.position for item in page.items), page.server_at)
            step = advance(window, positions, page.next_token, self._plan.order, self._plan.margin_ms)
            remembered = step.remember or remembered
            window = None if step.window is None else recall(step.window, remembered)
            watermark = forward(cursor.watermark, step.watermark)
            quiet = window is None and self._intake.tally.pages == 0 and watermark == started_at
            cursor = replace(
                cursor,
                watermark=watermark,
                window=remembered if window is None else window,
                # Only a complete one-page answer whose address will be asked again may be remembered.
                validator=page.validator if quiet else None,
                complete=cursor.complete or window is None,
            )
            self._intake.take(page, cursor)
            if window is not None and window.passes > MAX_PASSES:
                raise RemoteTransient("the list kept changing while it was read", reason="unstable_list")
        await self._retry_quarantined(cursor)
        return self._intake.tally

    async def _fetch(self, window: Window, cursor: Cursor) -> Page[R]:
        request = ListRequest(window.since, window.token, cursor.validator)
        try:
            return await self._lister.fetch(request)
        except RemoteError as error:
            if request.token is None or error.retryable or error.status not in {400, 404, 410, 422}:
                raise
            # The server no longer knows the page an interrupted walk stopped at: its window starts over.
            return await self._lister.fetch(replace(request, token=None))

    async def _retry_quarantined(self, cursor: Cursor) -> None:
        """Ask again, by its own id, for what could not be understood."""
        for entry in self._intake.shelf.due_quarantined(self._plan.retry_limit):
            try:
                page = await self._lister.fetch_one(entry.locator)
            except RemoteError as error:
                page = Page(rejected=(Rejected(entry.key, entry.locator, b"", error.message),))
            self._intake.take(page, cursor, released=() if page.rejected else (entry.key,))
