"""Read one Bluesky account: its author feed, newest first, or its repository, in the order of writing.

Decides where a first read begins, and ensures that switching between feed and repository leaves no gap: the new mode
continues where the other one stopped. The engine's walks do the reading; `account_poll` decides when an account is due
and what a refusal means.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import RemoteError, RemotePermanent
from tidelore.core.model import PostRecord
from tidelore.engine.cursor import Cursor, LogPosition
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.log import LogPlan, LogWalk
from tidelore.engine.newest_first import MOST_EMPTY, NewestFirstPlan, NewestFirstWalk
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.sources.bluesky.payloads import COLLECTIONS, key_before
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.sources.bluesky.surfaces import RECORD_KEYS
from tidelore.store.mirror.accounts import SURFACES, AccountRow, Mode, account_scope, note_home
from tidelore.store.mirror.cursors import reset_cursor, save_cursor, without_cursor
from tidelore.store.mirror.payloads import Pack
from tidelore.store.mirror.posts import PostWriter
from tidelore.store.work.session import Session
from tidelore.sync.report import AccountReport, volume_line

OVERLAP_MS = 120_000
"""How far before a position to read again: keys and dates come from the authors' clocks, which may be slow."""

_LOG = logging.getLogger(__name__)
_LIVELY = 5
"""The highest rate, in posts per second, at which an account can still be read to its end."""
HOME_MS = 86_400_000
"""How long the stored server of an account's repository is used without resolving it again."""

Ask = Callable[[Lister[PostRecord]], Awaitable[Page[PostRecord]]]


class ReadResult(Struct):
    """What a read found out besides the posts it stored: the newest post, and the handle if a feed shows it."""

    newest_at: int | None = None
    handle: str | None = None


class ObservedList:
    """A list of one account; `found` receives the time of its newest post and the account's current handle.

    A faulty AppView may return posts of another account. They are dropped, because a handle and a position in a list
    belong to the DID in the post, not to the account that was requested.
    """

    def __init__(self, lister: Lister[PostRecord], did: str, found: ReadResult) -> None:
        self._lister = lister
        self._did = did
        self._found = found

    async def fetch(self, request: ListRequest) -> Page[PostRecord]:
        page = await self._lister.fetch(request)
        own = [item for item in page.items if item.record.author_did == self._did]
        if len(own) < len(page.items):
            _LOG.warning("%d posts in the list of %s belong to other accounts", len(page.items) - len(own), self._did)
            page = replace(page, items=own)
        found = self._found
        for item in page.items:
            if found.newest_at is None or item.record.sort_at > found.newest_at:
                found.newest_at = item.record.sort_at
            handle = item.record.author_handle
            if found.handle is None and handle is not None:
                found.handle = handle.lower()
        return page

    async def fetch_one(self, locator: str) -> Page[PostRecord]:
        return await self._lister.fetch_one(locator)


class Repository:
    """The repository of one account. Its server is resolved if it is not known, and again if the account has moved."""

    def __init__(self, session: Session, source: BlueskySource, account: AccountRow) -> None:
        self._session = session
        self._source = source
        self._account = account
        self._home = account.pds_url
        self._is_fresh = session.shop.clock.now_ms() - (account.pds_resolved_at or 0) < HOME_MS
        self._is_resolved = False

    def lists(self, per_page: int) -> dict[str, RepositoryList]:
        """Return the collections, each as a list in the order of writing."""
        return {collection: RepositoryList(self, collection, per_page) for collection in COLLECTIONS}

    async def ask(self, collection: str, per_page: int, work: Ask) -> Page[PostRecord]:
        """Request something of a collection; if the account has moved, request it again from the new server."""
        did, home = self._account.did, await self._server()
        try:
            return await work(self._source.records(home, did, collection, per_page))
        except RemoteError as error:
            # A refusal may mean that the account has moved; no response, that its old server is gone.
            if self._is_resolved or not (isinstance(error, RemotePermanent) or error.status is None):
                raise
            with suppress(RemoteError):
                await self._resolve()
            if self._home is None or self._home == home:
                raise
            home = self._home
        return await work(self._source.records(home, did, collection, per_page))

    async def _server(self) -> str:
        """Return the server. One that was resolved long ago is resolved again, or used if that fails."""
        if self._home is None:
            return await self._resolve()
        if not self._is_fresh:
            self._is_fresh = True
            with suppress(RemoteError):
                return await self._resolve()
        return self._home

    async def _resolve(self) -> str:
        home = await self._source.home(self._account.did)
        with self._session.writing() as tx:
            note_home(tx, self._account.id, home, self._session.shop.clock.now_ms())
        self._home, self._is_resolved = home, True
        return home


class RepositoryList:
    """One collection of a repository, wherever the account's server is."""

    def __init__(self, repository: Repository, collection: str, per_page: int) -> None:
        self._ask = partial(repository.ask, collection, per_page)

    async def fetch(self, request: ListRequest) -> Page[PostRecord]:
        return await self._ask(lambda lister: lister.fetch(request))

    async def fetch_one(self, locator: str) -> Page[PostRecord]:
        return await self._ask(lambda lister: lister.fetch_one(locator))


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
        tell = ReadingProgress(account.handle, report, writer)
        intake = Intake(writer, shop.clock.now_ms, shop.seam, tell, self.session.thread)
        report.tally = intake.tally
        did, per_page, max_pages = account.did, settings.posts_per_page, settings.max_pages_per_user
        found = ReadResult()
        if mode == "feed":
            feed = ObservedList(self.source.author_feed(did, per_page), did, found)
            plan = NewestFirstPlan(feed_overlap_ms(per_page, max_pages), shop.clock.now_ms() - start, max_pages)
            await NewestFirstWalk(feed, intake, plan).run()
            report.behind = bool(writer.gaps())
            return found
        lists = self.repository(account).lists(per_page)
        observed = {name: ObservedList(lister, did, found) for name, lister in lists.items()}
        walk = LogWalk(observed, intake, LogPlan(RECORD_KEYS, OVERLAP_MS, max_pages))
        await walk.run()
        report.behind = walk.behind
        return found

    def repository(self, account: AccountRow) -> Repository:
        """Return the repository of an account."""
        return Repository(self.session, self.source, account)

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
