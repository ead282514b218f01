"""Stream new Bluesky posts: store each event as a poll would store it, with the position that covers it.

Rows and the position of the stream are written in one commit (invariant 1); changes to accounts are written before it
and may be written twice. If the stream has a gap, the affected accounts become due at once: polls have their own
positions, which the stream never moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from tidelore.core.errors import UserError
from tidelore.core.model import Item, Position, PostRecord, Rejected, Scope
from tidelore.core.progress import OnProgress, Progress, silent
from tidelore.core.references import NO_HANDLE
from tidelore.engine.cursor import Cursor, LogPosition
from tidelore.engine.intake import Intake
from tidelore.engine.ports import Page
from tidelore.sources.bluesky.payloads import split_uri
from tidelore.sources.bluesky.stream import Jetstream
from tidelore.sources.bluesky.stream_protocol import (
    AccountChanged,
    HandleChanged,
    HoleFound,
    PostDeleted,
    PostWritten,
    StreamBatch,
    StreamCursor,
    StreamEvent,
    Unreadable,
    protocol_of,
    stream_url,
)
from tidelore.store.database.port import Transaction
from tidelore.store.mirror.accounts import (
    SOURCE,
    SURFACES,
    followed_dids,
    known_accounts,
    make_due,
    note_unavailable,
    rename_account,
)
from tidelore.store.mirror.payloads import packer
from tidelore.store.mirror.posts import PostWriter
from tidelore.store.mirror.quarantine import admit
from tidelore.store.work.session import Session, Workshop, open_session
from tidelore.sync.report import MakeDocuments, also_to_ledger

LEASE = "bluesky.stream"
"""Streams exclude each other; polls run at the same time and cover their gaps."""
SURFACE = "bluesky.stream"
EVENTS_AT_ONCE = 1000
"""The most events stored in one transaction; while one is written, the next events are buffered."""
STEP_SECONDS = 30.0
"""How often to reload the list of accounts and to generate documents."""

ONLY_CLAIMED = frozenset({"deleted", "desynchronized", "throttled"})
"""Statuses that a poll must confirm: a deletion removes posts, so the account's own server is asked for it first; the
others concern the host which sent the event, not the account."""

Connect = Callable[[Sequence[str], StreamCursor | None], Jetstream]


class StreamRequest(Struct, frozen=True):
    """Options of a stream; `seconds` is how long to follow it (None: until interrupted)."""

    seconds: float | None = None
    force: bool = False
    documents: bool = True
    step_seconds: float = STEP_SECONDS


class StreamReport(Struct):
    """What a stream has stored so far."""

    run_id: int = 0
    accounts: int = 0
    connections: int = 0
    events: int = 0
    posts: int = 0
    edited: int = 0
    deleted: int = 0
    replayed: int = 0
    urls: int = 0
    unreadable: int = 0
    holes: int = 0
    handed_over: int = 0
    renamed: int = 0
    documents: int = 0
    cursor: str | None = None
    seconds: float = 0.0


class SortedEvents(Struct, frozen=True):
    """The events of a batch, grouped by the action they require; the last event about a post wins."""

    items: list[Item[PostRecord]]
    gone: list[str]
    rejected: list[Rejected]
    others: list[HandleChanged | AccountChanged | HoleFound]


def sort_events(events: Iterable[StreamEvent]) -> SortedEvents:
    """Return the events of a batch, grouped by the action they require."""
    last: dict[str, Item[PostRecord] | None] = {}
    rejected: dict[str, Rejected] = {}
    others: list[HandleChanged | AccountChanged | HoleFound] = []
    for event in events:
        if isinstance(event, PostWritten):
            last[event.item.record.uri] = event.item
        elif isinstance(event, PostDeleted):
            last[event.uri] = None
            rejected.pop(event.uri, None)
        elif isinstance(event, Unreadable):
            rejected[event.rejected.key] = event.rejected
        else:
            others.append(event)
    items = [item for item in last.values() if item is not None]
    gone = [uri for uri, item in last.items() if item is None]
    return SortedEvents(items, gone, list(rejected.values()), others)


async def follow_stream(
    shop: Workshop,
    connect: Connect,
    request: StreamRequest,
    report: StreamReport,
    on_progress: OnProgress = silent,
    make_documents: MakeDocuments | None = None,
) -> None:
    """Follow the stream until the time is up, it fails, or it is cancelled; `report` is updated continuously."""
    clock = shop.clock
    started = clock.monotonic()
    if not followed_dids(shop.database):
        raise UserError("no accounts are followed", fix="add one with `lore accounts add HANDLE`")
    async with open_session(shop, force=request.force, lease=LEASE) as session:
        report.run_id = session.run.id
        ingestion = StreamIngestion(session, report, also_to_ledger(session, on_progress), make_documents)
        try:
            while (left := _left(request.seconds, clock.monotonic() - started)) > 0:
                dids = followed_dids(shop.database)
                async with connect(dids, ingestion.cursor()) as stream:
                    report.accounts, report.connections = len(dids), stream.connections
                    while left > 0 and dids == followed_dids(shop.database):
                        with suppress(TimeoutError):
                            async with asyncio.timeout(min(left, request.step_seconds)):
                                async for batch in stream.batches(EVENTS_AT_ONCE):
                                    ingestion.take(batch)
                        if request.documents:
                            await ingestion.document()
                        left = _left(request.seconds, clock.monotonic() - started)
        finally:
            report.seconds = clock.monotonic() - started


class StreamIngestion:
    """Stores the batches of one stream."""

    def __init__(
        self,
        session: Session,
        report: StreamReport,
        on_progress: OnProgress,
        make_documents: MakeDocuments | None = None,
    ) -> None:
        shop = session.shop
        url = stream_url(shop.config.bluesky.jetstream_url)
        scope = Scope(SOURCE, SURFACE, f"{url} v{protocol_of(url)}", None, url)
        pack = packer(compress=shop.config.storage.compress_raw_payloads)
        self._session = session
        self._report = report
        self._on_progress = on_progress
        self._make_documents = make_documents
        self._writer = PostWriter(
            shop.database, scope, shop.clock.now_ms, lease=session.lease, pack=pack, seam=shop.seam
        )
        self._intake: Intake[PostRecord] = Intake(self._writer, shop.clock.now_ms, shop.seam)
        self._marked = True

    def cursor(self) -> StreamCursor | None:
        """Return the stored position of the stream."""
        stored = self._writer.load()
        token = None if stored.log is None else stored.log.keys.get(SURFACE)
        if token is None:
            return None
        return StreamCursor.parse(token, stored.watermark.at if stored.watermark else None)

    def take(self, batch: StreamBatch) -> None:
        """Store a batch."""
        report, tally = self._report, self._intake.tally
        found = sort_events(batch.events)
        if found.others or found.rejected:
            with self._session.writing() as tx:
                self._apply(tx, found)
        before = tally.created + tally.changed
        self._intake.take(Page(found.items), self._advanced(batch), gone=found.gone)
        report.events += len(batch.events)
        report.posts, report.edited, report.replayed = tally.created, tally.changed, tally.replayed
        report.deleted += len(found.gone)
        report.unreadable += len(found.rejected)
        report.urls = self._writer.links
        report.cursor = report.cursor if batch.cursor is None else str(batch.cursor)
        self._marked = self._marked or tally.created + tally.changed > before or bool(found.gone)
        note = f"{report.posts:,} posts, {report.edited:,} edited, {report.deleted:,} deleted"
        self._on_progress(Progress("bluesky", "stream", report.events, None, note))

    async def document(self) -> None:
        """Generate the documents of posts stored since the last call."""
        if self._marked and self._make_documents is not None:
            made = await self._make_documents(self._session, silent)
            self._marked = made is None
            self._report.documents += made.regenerated if made is not None else 0

    def _advanced(self, batch: StreamBatch) -> Cursor:
        """Return the cursor after a batch; empty until a renumbered stream sends a position: the old one is invalid."""
        if batch.cursor is None:
            return Cursor()
        # The stream is resumed from the token alone; the watermark is only displayed.
        watermark = None if batch.at is None else Position(batch.at, 0)
        known = self._writer.load().watermark if watermark is None else watermark
        return Cursor(watermark=known, log=LogPosition(0, {SURFACE: str(batch.cursor)}), complete=True)

    def _apply(self, tx: Transaction, found: SortedEvents) -> None:
        now, report = self._session.shop.clock.now_ms(), self._report
        for entry in found.rejected:
            # Quarantined under the account's feed, so that its poll fetches the post again.
            admit(tx, _list_of(entry), [entry], now)
        known = known_accounts(tx, {event.did for event in found.others if not isinstance(event, HoleFound)})
        for event in found.others:
            if isinstance(event, HoleFound):
                report.holes += 1
                report.handed_over += make_due(tx, event.dids, now)
            elif event.did not in known:
                continue
            elif isinstance(event, AccountChanged):
                if event.active or event.status in ONLY_CLAIMED:
                    make_due(tx, [event.did], now)
                else:
                    note_unavailable(tx, known[event.did][0], f"account {event.status or 'inactive'}", now)
            elif event.handle is None or event.handle == NO_HANDLE:
                make_due(tx, [event.did], now)
            elif event.handle.lower() != known[event.did][1]:
                report.renamed += 1
                rename_account(tx, event.did, event.handle.lower(), now)


def _did_of(entry: Rejected) -> str:
    return split_uri(entry.locator).did if entry.locator else ""


def _list_of(entry: Rejected) -> Scope:
    did = _did_of(entry)
    return Scope(SOURCE, SURFACES["feed"], did, None, did)


def _left(seconds: float | None, passed: float) -> float:
    return float("inf") if seconds is None else seconds - passed
