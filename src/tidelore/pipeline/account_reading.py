"""Reading one account, either way: its author feed, newest first, or its own repository, in the order of writing.

Owns where a first reading begins, and that the two ways hand over without a hole: whoever changes the way goes on
where the other one was. Refuses to decide when an account is due and what a refusal means.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import RemoteError, RemoteNotFound, RemotePermanent
from tidelore.core.model import PostRecord, Rejected
from tidelore.engine.cursor import Cursor, LogPosition
from tidelore.engine.gaps import MOST_EMPTY, Descent, DescentPlan
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.pipeline.poll_report import AccountReport, volume_line
from tidelore.pipeline.record_positions import COLLECTIONS, OVERLAP_MS, key_before
from tidelore.pipeline.record_walk import RecordPlan, RecordWalk
from tidelore.session import Session
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.store.mirror.accounts import NO_HANDLE, SURFACES, AccountRow, Mode, account_scope, note_home
from tidelore.store.mirror.cursors import reset_cursor, save_cursor, without_cursor
from tidelore.store.mirror.payloads import Pack
from tidelore.store.mirror.posts import PostWriter
from tidelore.store.work.leases import fence

_LOG = logging.getLogger(__name__)
_ASKED_AGAIN = 10
_LIVELY = 5
"""How many posts a second the liveliest account may write, and still be read to its end."""
HOME_MS = 86_400_000
"""How long we believe where an account's repository is without asking."""

T = TypeVar("T")


class Watched:
    """The list of one account, which notes its newest post's instant and the handle the account has today.

    An AppView that errs may answer with the posts of another account: they are left out, because a handle and a place
    in a list belong to the DID in the post and not to the account that was asked for.
    """

    def __init__(self, lister: Lister[PostRecord], did: str) -> None:
        self._lister = lister
        self._did = did
        self.newest_at: int | None = None
        self.handle: str | None = None

    async def fetch(self, request: ListRequest) -> Page[PostRecord]:
        page = await self._lister.fetch(request)
        own = [item for item in page.items if item.record.author_did == self._did]
        if len(own) < len(page.items):
            _LOG.warning("%d posts in the list of %s belong to other accounts", len(page.items) - len(own), self._did)
            page = replace(page, items=own)
        for item in page.items:
            if self.newest_at is None or item.record.sort_at > self.newest_at:
                self.newest_at = item.record.sort_at
            handle = item.record.author_handle
            if self.handle is None and handle is not None and handle != NO_HANDLE:
                self.handle = handle.lower()
        return page

    async def fetch_one(self, locator: str) -> Page[PostRecord]:
        return await self._lister.fetch_one(locator)


class Found(Struct, frozen=True):
    """What a reading learned besides the posts it stored."""

    newest_at: int | None
    handle: str | None


class Reader(Struct, frozen=True):
    """Reads accounts for the length of one session."""

    session: Session
    source: BlueskySource
    pack: Pack
    full: bool = False

    def mode_of(self, account: AccountRow) -> Mode:
        """Return how an account is read."""
        return account.mode or self.session.shop.config.bluesky.mode

    def shelf(self, account: AccountRow, mode: Mode) -> PostWriter:
        """Return the durable side of one way of reading an account."""
        shop = self.session.shop
        scope = account_scope(account, mode)
        return PostWriter(
            shop.database, scope, shop.clock.now_ms, lease=self.session.lease, pack=self.pack, seam=shop.seam
        )

    def begin(self, accounts: Sequence[AccountRow]) -> None:
        """Make durable where the first reading of accounts begins that were never read: for all in one commit."""
        shop = self.session.shop
        dids = [account.did for account in accounts if account.state != "established"]
        unread = without_cursor(shop.database, self.source.name, SURFACES.values(), dids)
        if self.full or not unread:
            return
        now = shop.clock.now_ms()
        start = self._lookback()
        with shop.database.transaction() as tx:
            fence(tx, self.session.lease)
            for account in accounts:
                if account.did in unread:
                    mode = self.mode_of(account)
                    save_cursor(tx, account_scope(account, mode), Cursor(log=_reach(mode, start)), now)

    async def read(self, account: AccountRow, report: AccountReport) -> Found:
        """Read an account up to its present; `report` is told what is stored even when it fails half way."""
        mode = self.mode_of(account)
        shelf = self.shelf(account, mode)
        if self.full:
            self._forget(account)
        start = self._begin(account, shelf, mode)
        shop, settings = self.session.shop, self.session.shop.config.bluesky
        intake = Intake(shelf, shop.clock.now_ms, shop.seam, Telling(account.handle, report, shelf))
        report.tally = intake.tally
        if mode == "feed":
            feed = Watched(self.source.author_feed(account.did, settings.posts_per_page), account.did)
            overlap_ms = feed_overlap_ms(settings.posts_per_page, settings.max_pages_per_user)
            plan = DescentPlan(overlap_ms, shop.clock.now_ms() - start, settings.max_pages_per_user)
            await Descent(feed, intake, plan).run()
            await ask_again(intake, feed)
            report.behind = bool(shelf.gaps())
            return Found(feed.newest_at, feed.handle)
        return await self.at_home(account, lambda home: self._read_records(account, home, intake, report))

    async def at_home(self, account: AccountRow, work: Callable[[str], Awaitable[T]]) -> T:
        """Do something at the server of an account's repository; when it has moved, once more at the new one."""
        home = await self._home(account, account.pds_url)
        try:
            return await work(home)
        except RemoteError as error:
            # A refusal may mean that the account lives elsewhere; a silence, that its old server is gone.
            moved = None if account.pds_url is None else await self._moved_from(account, home, error)
            if moved is None:
                raise
        return await work(moved)

    async def _read_records(
        self, account: AccountRow, home: str, intake: Intake[PostRecord], report: AccountReport
    ) -> Found:
        settings = self.session.shop.config.bluesky
        per_page = settings.posts_per_page
        did = account.did
        listers = {name: Watched(self.source.records(home, did, name, per_page), did) for name in COLLECTIONS}
        walk = RecordWalk(listers, intake, RecordPlan(per_page, settings.max_pages_per_user))
        await walk.run()
        await ask_again(intake, next(iter(listers.values())))
        report.behind = walk.behind
        return Found(max((one.newest_at for one in listers.values() if one.newest_at is not None), default=None), None)

    def _begin(self, account: AccountRow, shelf: PostWriter, mode: Mode) -> int:
        """Return where a first reading begins; since when the account is held is made durable before it."""
        cursor = shelf.load()
        known = cursor.log
        if known is not None:
            return known.floor
        start = floor = 0 if self.full else self._lookback()
        other = self.shelf(account, "records" if mode == "feed" else "feed")
        before = other.load().log
        if before is not None:
            start = min(start, _left_off(other, before))
            floor = min(start, before.floor)
        shelf.commit(Batch((), replace(cursor, log=_reach(mode, start, floor))))
        return start

    def _lookback(self) -> int:
        shop = self.session.shop
        return max(shop.clock.now_ms() - int(shop.config.bluesky.initial_lookback_hours * 3_600_000), 0)

    def _forget(self, account: AccountRow) -> None:
        with self.session.shop.database.transaction() as tx:
            fence(tx, self.session.lease)
            for surface in SURFACES.values():
                reset_cursor(tx, self.source.name, surface, account.did)

    async def _home(self, account: AccountRow, known: str | None) -> str:
        shop = self.session.shop
        now = shop.clock.now_ms()
        if known is not None and now - (account.pds_resolved_at or 0) < HOME_MS:
            return known
        try:
            home = (await self.source.document(account.did)).pds_url
        except RemoteError:
            if known is None:
                raise
            return known
        if home is None:
            raise RemoteNotFound(f"the DID document of {account.handle} names no data server", did=account.did)
        with shop.database.transaction() as tx:
            fence(tx, self.session.lease)
            note_home(tx, account.id, home, now)
        return home

    async def _moved_from(self, account: AccountRow, home: str, error: RemoteError) -> str | None:
        if not isinstance(error, RemotePermanent) and error.status is not None:
            return None
        with suppress(RemoteError):
            again = await self._home(account, None)
            return again if again != home else None
        return None


class Telling(Struct):
    """Watches a reading page by page: counts links, and says once that one page was not enough."""

    handle: str
    report: AccountReport
    shelf: PostWriter
    first: int = 0
    said: bool = False

    def __call__(self, tally: Tally) -> None:
        self.report.links = self.shelf.links
        if tally.pages == 1:
            self.first = tally.created
        elif not self.said and not self.report.initial and tally.created > self.first:
            self.said = True
            _LOG.info(volume_line(self.handle))


async def ask_again(intake: Intake[PostRecord], lister: Lister[PostRecord]) -> None:
    """Ask again, by its address, for what could not be understood."""
    for entry in intake.shelf.due_quarantined(_ASKED_AGAIN):
        try:
            page = await lister.fetch_one(entry.locator)
        except RemoteError as error:
            page = Page(rejected=(Rejected(entry.key, entry.locator, b"", error.message),))
        again = any(rejected.key == entry.key for rejected in page.rejected)
        intake.take(page, intake.shelf.load(), released=() if again else (entry.key,))


def feed_overlap_ms(per_page: int, max_pages: int) -> int:
    """Return how far below a mark a feed is read again.

    Less where only few posts fit into a walk: an overlap that holds more than that would leave it no room to go on.
    """
    return min(OVERLAP_MS, per_page * max_pages * 1000 * MOST_EMPTY // _LIVELY)


def _reach(mode: Mode, start: int, floor: int | None = None) -> LogPosition:
    """Return the reach of an account of which nothing was read yet; a repository is read from a record key on."""
    key = key_before(start) if mode == "records" else None
    return LogPosition(start if floor is None else floor, {} if key is None else dict.fromkeys(COLLECTIONS, key))


def _left_off(shelf: PostWriter, reach: LogPosition) -> int:
    """Return up to where the other way of reading has everything: to its mark, or to what it had not read yet."""
    cursor = shelf.load()
    mark = cursor.watermark.at - OVERLAP_MS if cursor.complete and cursor.watermark else reach.floor
    return max(min([mark, *(gap.floor or 0 for gap in shelf.gaps())]), 0)
