"""Read one Bluesky account: its author feed, newest first, or its repository, in the order of writing.

Decides where a first read begins, and ensures that switching between feed and repository leaves no gap: the new mode
continues where the other one stopped. The position in a repository is the last record key of each collection. A record
key is usually a TID, which sorts by time. But authors may choose other keys and clocks may be wrong, so only TIDs that
are not in the server's future move a position. Posts and position are written in one commit (invariant 1).
`account_poll` decides when an account is due and what a refusal means.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import RemoteError, RemoteNotFound, RemotePermanent
from tidelore.core.model import PostRecord, Rejected
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import SKEW_MS, Cursor, LogPosition, forward
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.newest_first import MOST_EMPTY, NewestFirstPlan, NewestFirstWalk
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.engine.window import believable
from tidelore.sources.bluesky.payloads import POST, REPOST, split_uri, tid_instant
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.store.mirror.accounts import NO_HANDLE, SURFACES, AccountRow, Mode, account_scope, note_home
from tidelore.store.mirror.cursors import reset_cursor, save_cursor, without_cursor
from tidelore.store.mirror.payloads import Pack
from tidelore.store.mirror.posts import PostWriter
from tidelore.store.work.session import Session
from tidelore.sync.report import AccountReport, volume_line

COLLECTIONS = (POST, REPOST)
OVERLAP_MS = 120_000
"""How far before a position to read again: keys and dates come from the authors' clocks, which may be slow."""

_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"


def key_before(instant_ms: int) -> str | None:
    """Return the greatest record key before an instant; None if there is none, as for instants before the epoch."""
    number = (instant_ms * 1000 << 10) - 1
    if number < 0:
        return None
    return "".join(_DIGITS[number >> shift & 31] for shift in range(60, -1, -5))


def start_key(reach: LogPosition, collection: str) -> str | None:
    """Return the record key after which to continue reading a collection; None to start at its beginning."""
    last = reach.keys.get(collection)
    if last is None:
        return key_before(reach.floor)
    written_at = tid_instant(last)
    return last if written_at is None or reach.behind else key_before(written_at - OVERLAP_MS)


def advance(reach: LogPosition, collection: str, keys: Iterable[str], server_at: int | None) -> LogPosition:
    """Return the position after a page: its last key that is a TID and not in the server's future."""
    known = reach.keys.get(collection, "")
    believed = [
        key
        for key in keys
        if (written_at := tid_instant(key)) is not None and (server_at is None or written_at <= server_at + SKEW_MS)
    ]
    last = max([known, *believed])
    return reach if last == known else replace(reach, keys={**reach.keys, collection: last})


SAFE_BACKFILL_MS = 86_400_000


class RecordPlan(Struct, frozen=True):
    """How much of each collection one walk reads: `max_pages` of new records, and at most as many of the overlap."""

    per_page: int
    max_pages: int


class RecordWalk:
    """A bounded walk over one repository. `behind` says whether it stopped before the end."""

    def __init__(self, listers: Mapping[str, Lister[PostRecord]], intake: Intake[PostRecord], plan: RecordPlan) -> None:
        self._listers = listers
        self._intake = intake
        self._plan = plan
        self.behind = False

    async def run(self) -> Tally:
        """Read each collection from its position on; the cursor says how far back the account is stored."""
        cursor = self._intake.load(SAFE_BACKFILL_MS)
        reach = cursor.log
        if reach is None:
            # An invalid position was replaced by an instant: everything since then is read again.
            reach = LogPosition(cursor.watermark.at if cursor.watermark else 0)
        starts = {collection: start_key(reach, collection) for collection in self._listers}
        last = list(self._listers)[-1]
        for collection, lister in self._listers.items():
            known, token = reach.keys.get(collection, ""), starts[collection]
            again = new = 0
            while True:
                page = await lister.fetch(ListRequest(token=token))
                self._intake.seam(Seam.AFTER_FETCH)
                token = following(page, self._plan.per_page)
                inside = token is not None and token < known
                again, new = again + inside, new + (not inside)
                self.behind = self.behind or (token is not None and new >= self._plan.max_pages)
                keys = [split_uri(item.record.uri).rkey for item in page.items]
                # Until the end is reached, the next walk continues exactly here, even in another process.
                whole = token is None and collection == last and not self.behind
                reach = replace(advance(reach, collection, keys, page.server_at), behind=not whole)
                cursor = _forward(replace(cursor, log=reach), page)
                self._intake.take(page, replace(cursor, complete=cursor.complete or whole))
                if token is None or new >= self._plan.max_pages:
                    break
                if inside and again >= self._plan.max_pages:
                    # The overlap holds more records than a walk may read: verification covers the rest.
                    token = known
        return self._intake.tally


def following(page: Page[PostRecord], per_page: int) -> str | None:
    """Return the token of the next page; a short page is the last one, even if the server sends a token."""
    return page.next_token if len(page.items) + len(page.rejected) >= per_page else None


def _forward(cursor: Cursor, page: Page[PostRecord]) -> Cursor:
    positions = believable((item.position for item in page.items), page.server_at)
    newest = max(positions, key=lambda position: position.at, default=None)
    return replace(cursor, watermark=forward(cursor.watermark, newest))


_LOG = logging.getLogger(__name__)
_ASKED_AGAIN = 10
_LIVELY = 5
"""The highest rate, in posts per second, at which an account can still be read to its end."""
HOME_MS = 86_400_000
"""How long the stored server of an account's repository is used without resolving it again."""

T = TypeVar("T")


class ObservedList:
    """The list of one account; records the time of its newest post and the account's current handle.

    A faulty AppView may return posts of another account. They are dropped, because a handle and a position in a list
    belong to the DID in the post, not to the account that was requested.
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


class ReadResult(Struct, frozen=True):
    """What a read found out besides the posts it stored."""

    newest_at: int | None
    handle: str | None


class AccountReader(Struct, frozen=True):
    """Reads accounts for the length of one session."""

    session: Session
    source: BlueskySource
    pack: Pack
    full: bool = False

    def mode_of(self, account: AccountRow) -> Mode:
        """Return whether an account is read from its feed or its repository."""
        return account.mode or self.session.shop.config.bluesky.mode

    def writer(self, account: AccountRow, mode: Mode) -> PostWriter:
        """Return the writer that stores what is read of an account in a mode."""
        shop = self.session.shop
        scope = account_scope(account, mode)
        return PostWriter(
            shop.database, scope, shop.clock.now_ms, lease=self.session.lease, pack=self.pack, seam=shop.seam
        )

    def begin(self, accounts: Sequence[AccountRow]) -> None:
        """Store where the first read begins, in one commit for all accounts that were never read."""
        shop = self.session.shop
        dids = [account.did for account in accounts if account.state != "established"]
        unread = without_cursor(shop.database, self.source.name, SURFACES.values(), dids)
        if self.full or not unread:
            return
        now = shop.clock.now_ms()
        start = self._lookback()
        with self.session.writing() as tx:
            for account in accounts:
                if account.did in unread:
                    mode = self.mode_of(account)
                    save_cursor(tx, account_scope(account, mode), Cursor(log=_reach(mode, start)), now)

    async def read(self, account: AccountRow, report: AccountReport) -> ReadResult:
        """Read an account up to the present; `report` shows what is stored even if the read fails half way."""
        mode = self.mode_of(account)
        writer = self.writer(account, mode)
        if self.full:
            self._forget(account)
        start = self._begin(account, writer, mode)
        shop, settings = self.session.shop, self.session.shop.config.bluesky
        intake = Intake(writer, shop.clock.now_ms, shop.seam, ReadingProgress(account.handle, report, writer))
        report.tally = intake.tally
        if mode == "feed":
            feed = ObservedList(self.source.author_feed(account.did, settings.posts_per_page), account.did)
            overlap_ms = feed_overlap_ms(settings.posts_per_page, settings.max_pages_per_user)
            plan = NewestFirstPlan(overlap_ms, shop.clock.now_ms() - start, settings.max_pages_per_user)
            await NewestFirstWalk(feed, intake, plan).run()
            await ask_again(intake, feed)
            report.behind = bool(writer.gaps())
            return ReadResult(feed.newest_at, feed.handle)
        return await self.at_home(account, lambda home: self._read_records(account, home, intake, report))

    async def at_home(self, account: AccountRow, work: Callable[[str], Awaitable[T]]) -> T:
        """Call `work` with the server of an account's repository; if the account has moved, retry at the new server."""
        home = await self._home(account, account.pds_url)
        try:
            return await work(home)
        except RemoteError as error:
            # A refusal may mean that the account has moved; no response, that its old server is gone.
            moved = None if account.pds_url is None else await self._moved_from(account, home, error)
            if moved is None:
                raise
        return await work(moved)

    async def _read_records(
        self, account: AccountRow, home: str, intake: Intake[PostRecord], report: AccountReport
    ) -> ReadResult:
        settings = self.session.shop.config.bluesky
        per_page = settings.posts_per_page
        did = account.did
        listers = {name: ObservedList(self.source.records(home, did, name, per_page), did) for name in COLLECTIONS}
        walk = RecordWalk(listers, intake, RecordPlan(per_page, settings.max_pages_per_user))
        await walk.run()
        await ask_again(intake, next(iter(listers.values())))
        report.behind = walk.behind
        return ReadResult(
            max((one.newest_at for one in listers.values() if one.newest_at is not None), default=None), None
        )

    def _begin(self, account: AccountRow, writer: PostWriter, mode: Mode) -> int:
        """Return where a first read begins; from when on the account is stored is committed before the read."""
        cursor = writer.load()
        known = cursor.log
        if known is not None:
            return known.floor
        start = floor = 0 if self.full else self._lookback()
        other = self.writer(account, "records" if mode == "feed" else "feed")
        before = other.load().log
        if before is not None:
            start = min(start, _left_off(other, before))
            floor = min(start, before.floor)
        writer.commit(Batch((), replace(cursor, log=_reach(mode, start, floor))))
        return start

    def _lookback(self) -> int:
        shop = self.session.shop
        return max(shop.clock.now_ms() - int(shop.config.bluesky.initial_lookback_hours * 3_600_000), 0)

    def _forget(self, account: AccountRow) -> None:
        with self.session.writing() as tx:
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
            raise RemoteNotFound(f"the DID document of {account.handle} does not name a data server", did=account.did)
        with self.session.writing() as tx:
            note_home(tx, account.id, home, now)
        return home

    async def _moved_from(self, account: AccountRow, home: str, error: RemoteError) -> str | None:
        if not isinstance(error, RemotePermanent) and error.status is not None:
            return None
        with suppress(RemoteError):
            again = await self._home(account, None)
            return again if again != home else None
        return None


class ReadingProgress(Struct):
    """Follows a read page by page: counts links, and logs once that one page was not enough."""

    handle: str
    report: AccountReport
    writer: PostWriter
    first: int = 0
    said: bool = False

    def __call__(self, tally: Tally) -> None:
        self.report.links = self.writer.links
        if tally.pages == 1:
            self.first = tally.created
        elif not self.said and not self.report.initial and tally.created > self.first:
            self.said = True
            _LOG.info(volume_line(self.handle))


async def ask_again(intake: Intake[PostRecord], lister: Lister[PostRecord]) -> None:
    """Fetch quarantined posts again, each by its address."""
    for entry in intake.store.due_quarantined(_ASKED_AGAIN):
        try:
            page = await lister.fetch_one(entry.locator)
        except RemoteError as error:
            page = Page(rejected=(Rejected(entry.key, entry.locator, b"", error.message),))
        again = any(rejected.key == entry.key for rejected in page.rejected)
        intake.take(page, intake.store.load(), released=() if again else (entry.key,))


def feed_overlap_ms(per_page: int, max_pages: int) -> int:
    """Return how far before its watermark a feed is read again.

    It is shorter if a walk may read only few posts: an overlap with more posts would leave no room for new ones.
    """
    return min(OVERLAP_MS, per_page * max_pages * 1000 * MOST_EMPTY // _LIVELY)


def _reach(mode: Mode, start: int, floor: int | None = None) -> LogPosition:
    """Return the initial position of an account that was never read; in a repository it includes record keys."""
    key = key_before(start) if mode == "records" else None
    return LogPosition(start if floor is None else floor, {} if key is None else dict.fromkeys(COLLECTIONS, key))


def _left_off(writer: PostWriter, reach: LogPosition) -> int:
    """Return up to when the other mode is complete: its watermark, or the start of its oldest gap."""
    cursor = writer.load()
    mark = cursor.watermark.at - OVERLAP_MS if cursor.complete and cursor.watermark else reach.floor
    return max(min([mark, *(gap.floor or 0 for gap in writer.gaps())]), 0)
