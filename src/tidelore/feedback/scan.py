"""Read one list of comments with the engine's walk, store its effects and count what was read.

A first read may be limited to a number of pages per poll: it stops between two pages and the next poll continues
there. The pass that confirms a first read is never interrupted, or it would start again every time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.model import CommentRecord, Item, RemoteId, Scope, Version
from tidelore.engine.cursor import Cursor, Gap, forward
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ports import Batch, Lister, ListRequest, Page, Quarantined
from tidelore.engine.walk import Plan, Walk
from tidelore.engine.window import Order
from tidelore.feedback.context import Context
from tidelore.feedback.events import interpret
from tidelore.feedback.report import (
    COMMANDS_SEEN,
    EVENTS_DEDUPED,
    EVENTS_INGESTED,
    FETCH_PAGES,
    FETCH_REQUESTS,
    FETCHED,
    NEW,
    REPLAYED,
    RepoReport,
)
from tidelore.feedback.tokens import find_markers
from tidelore.store.database.port import Transaction
from tidelore.store.mirror.feedback_writer import Also, FeedbackWriter, WrittenEffects
from tidelore.store.work.action_tokens import ActionToken, find_tokens
from tidelore.store.work.service_records import add_to_counter
from tidelore.store.work.session import Session

_LOG = logging.getLogger(__name__)
_WHOLE_SECONDS_MS = 1000


class RationSpent(Exception):
    """Stops a first read whose page limit is used up; the next poll continues it."""


class Ration(Struct):
    """How many more pages of first reads a poll may read in a repository."""

    left: int


class Rationed:
    """A list that counts its requests, and whose first pass is limited by a ration."""

    def __init__(self, lister: Lister[CommentRecord], ration: Ration | None, *, confirming: bool) -> None:
        self._lister = lister
        self._ration = ration
        self._confirming = confirming
        self.requests = 0

    async def fetch(self, request: ListRequest) -> Page[CommentRecord]:
        # If the list is read from the start again, it is the pass that confirms the first.
        self._confirming = self._confirming or (request.token is None and self.requests > 0)
        if self._ration is not None and not self._confirming:
            if self._ration.left <= 0:
                raise RationSpent
            self._ration.left -= 1
        self.requests += 1
        return await self._lister.fetch(request)

    async def fetch_one(self, locator: str) -> Page[CommentRecord]:
        self.requests += 1
        return await self._lister.fetch_one(locator)


class FromTheStart:
    """A writer for reading a list from its beginning; the stored position is kept and only moves forward."""

    def __init__(self, writer: FeedbackWriter) -> None:
        self._writer = writer
        self._known = writer.load()

    def load(self) -> Cursor:
        return Cursor()

    def commit(self, batch: Batch[CommentRecord]) -> None:
        watermark = forward(self._known.watermark, batch.cursor.watermark)
        cursor = replace(self._known, watermark=watermark, window=None, validator=None)
        self._writer.commit(replace(batch, cursor=replace(cursor, complete=cursor.complete or batch.cursor.complete)))

    def gaps(self) -> Sequence[Gap]:
        return self._writer.gaps()

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        return self._writer.stored(ids)

    def set_aside(self, reason: str) -> None:
        self._writer.set_aside(reason)

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:
        return self._writer.held(created_from, created_before)

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        return self._writer.due_quarantined(limit)


class Scanner(Struct, frozen=True):
    """Reads lists of one repository for one poll."""

    session: Session
    report: RepoReport
    context: Context

    def writer(self, scope: Scope, kind: str, also: Also | None = None) -> FeedbackWriter:
        """Return the writer of a list; effects are counted in the transaction that stores them."""
        shop = self.session.shop

        def in_transaction(tx: Transaction, written: WrittenEffects) -> None:
            add_to_counter(tx, EVENTS_INGESTED, {}, len(written.events))
            add_to_counter(tx, EVENTS_DEDUPED, {}, written.deduped)
            add_to_counter(tx, COMMANDS_SEEN, {}, len(written.commands))
            if also is not None:
                also(tx, written)

        return FeedbackWriter(
            shop.database,
            scope,
            kind,
            lambda item, stored: interpret(item, stored, self.context, self._signed(scope, item)),
            lambda number: self.context.role(number) != "none",
            shop.clock.now_ms,
            lease=self.session.lease,
            seam=shop.seam,
            also=in_transaction,
            on_effects=partial(self._note, scope),
        )

    def _signed(self, scope: Scope, item: Item[CommentRecord]) -> Mapping[str, ActionToken]:
        """Return the tokens we signed among the markers of a comment."""
        assert scope.project_id is not None
        return find_tokens(self.session.shop.database, scope.project_id, find_markers(item.record.body))

    def _note(self, scope: Scope, written: WrittenEffects) -> None:
        found = {
            "events": len(written.events),
            "deduped": written.deduped,
            "tokens": len(written.tokens),
            "commands": len(written.commands),
            "followups": written.followups,
            "planned": len(written.planned),
        }
        self.report.effects.update({name: count for name, count in found.items() if count})
        for ignored in written.ignored:
            self.report.ignore(ignored.reason, ignored.record.author)
        for seen in written.tokens:
            _tell("token_observed", scope, comment_id=seen.comment_id)

    async def read(
        self,
        scope: Scope,
        kind: str,
        lister: Lister[CommentRecord],
        order: Order,
        *,
        ration: Ration | None = None,
        from_start: bool = False,
    ) -> bool:
        """Read a list to its end; return False if the ration was used up before."""
        surface = scope.surface.partition(".")[2]
        shop, settings = self.session.shop, self.context.settings
        writer = self.writer(scope, kind)
        known = writer.load()
        confirming = known.window is not None and known.window.passes > 0
        paged = Rationed(lister, ration, confirming=confirming)
        intake = Intake(FromTheStart(writer) if from_start else writer, shop.clock.now_ms, shop.seam)
        plan = Plan(
            order=order,
            overlap_ms=round(settings.comment_fetch_overlap_seconds * 1000),
            margin_ms=_WHOLE_SECONDS_MS,
            safe_backfill_ms=round(settings.comment_fetch_safe_backfill_seconds * 1000),
        )
        kind_of_scan = "incremental_scan_started" if known.complete and not from_start else "incremental_scan_backfill"
        _tell(kind_of_scan, scope)
        try:
            await Walk(paged, intake, plan).run()
        except RationSpent:
            return False
        finally:
            self.count(surface, paged.requests, intake.tally)
        _tell("incremental_scan_completed", scope, pages=intake.tally.pages, new=intake.tally.created)
        return True

    def count(self, surface: str, requests: int, tally: Tally) -> None:
        """Add the requests and results of a read to the report and to the stored counters."""
        found = self.report.surface(surface)
        pages = 0 if tally.not_modified else tally.pages
        amounts = {
            FETCH_REQUESTS: requests,
            FETCH_PAGES: pages,
            FETCHED: tally.fetched,
            NEW: tally.created + tally.changed,
            REPLAYED: tally.replayed,
        }
        found.requests += requests
        found.pages += pages
        found.fetched += tally.fetched
        found.new += tally.created + tally.changed
        found.replayed += tally.replayed
        with self.session.shop.database.transaction() as tx:
            for name, amount in amounts.items():
                add_to_counter(tx, name, {"surface": surface}, amount)
        self.session.note()


def _tell(event: str, scope: Scope, **facts: object) -> None:
    _LOG.info(
        "%s: %s", event, scope.title, extra={"event": event, "scope": scope.key, "surface": scope.surface, **facts}
    )
