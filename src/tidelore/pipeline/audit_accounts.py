"""The full comparison of accounts with the network. Owns what is read for it; refuses to write: no lease, no row.

Each account's repository is read from since when it is held to its end, then its feed down to the same instant. What
the copy holds and the repository did not show is asked for by itself; only 'gone' makes it extra.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from tidelore.core.clock import Clock
from tidelore.core.concurrency import gather
from tidelore.core.config import Config
from tidelore.core.errors import RemoteError, RemoteNotFound, TideloreError
from tidelore.core.model import Item, PostRecord
from tidelore.engine.ports import Lister, ListRequest, Page
from tidelore.pipeline.audit_report import AuditReport, Difference, ScopeAudit, judge
from tidelore.pipeline.record_positions import COLLECTIONS
from tidelore.pipeline.record_walk import following
from tidelore.pipeline.report import OnProgress, Progress, silent
from tidelore.pipeline.verify_accounts import first_key, is_wanted
from tidelore.sources.bluesky.payloads import split_uri
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import SOURCE, SURFACES, AccountRow, account_scope
from tidelore.store.mirror.cursors import load_cursor
from tidelore.store.mirror.posts import held_between, stored_versions

PER_PAGE = 100


async def audit_accounts(
    database: Database,
    config: Config,
    clock: Clock,
    source: BlueskySource,
    accounts: Sequence[AccountRow],
    on_progress: OnProgress = silent,
) -> AuditReport:
    """Compare these accounts with the network; one that cannot be read is reported, and the others go on."""
    gate = asyncio.Semaphore(config.bluesky.max_concurrent)
    compared = 0

    async def one(account: AccountRow) -> ScopeAudit:
        nonlocal compared
        mode = account.mode or config.bluesky.mode
        scope = ScopeAudit(SOURCE, SURFACES[mode], account.handle, account.last_polled_at)
        async with gate:
            cursor = load_cursor(database, account_scope(account, mode))
            reach = cursor.log
            if reach is None or not cursor.complete:
                scope.skipped = "it was not fully fetched yet"
                return scope
            try:
                await AccountComparison(database, clock, source, account, scope, reach.floor).run()
            except RemoteError as error:
                scope.error = error
            scope.differences.sort(key=lambda found: found.key)
        compared += 1
        on_progress(Progress("bluesky", "accounts", compared, len(accounts), f"{scope.items:,} posts compared"))
        return scope

    synced_at = max((account.last_polled_at or 0 for account in accounts), default=0)
    return AuditReport(synced_at or None, await gather(one(account) for account in accounts))


def judge_accounts(report: AuditReport) -> TideloreError | None:
    """Return the error an audit of accounts ends with, if any."""
    error = judge(report)
    if error is not None and report.differences:
        error.fix = "run `lore poll bluesky --all` to fetch new posts; `lore audit bluesky --repair` corrects the rest"
    return error


class AccountComparison:
    """One account while it is being compared; `scope` is told what comes of it."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        source: BlueskySource,
        account: AccountRow,
        scope: ScopeAudit,
        floor: int,
    ) -> None:
        self._database = database
        self._clock = clock
        self._source = source
        self._account = account
        self._scope = scope
        self._floor = floor
        self._met: set[str] = set()

    async def run(self) -> None:
        """Compare the repository, then the feed."""
        did = self._account.did
        home = (await self._source.document(did)).pds_url
        if home is None:
            raise RemoteNotFound(f"the DID document of {self._account.handle} names no data server", did=did)
        for collection in COLLECTIONS:
            await self._compare_collection(collection, self._source.records(home, did, collection, PER_PAGE))
        feed = self._source.author_feed(did, PER_PAGE)
        async for page in _pages(feed, None, PER_PAGE, down_to=self._floor):
            self._compare([item for item in page.items if item.record.sort_at >= self._floor])
            self._note_unreadable(page)
        self._scope.items = len(self._met)

    async def _compare_collection(self, collection: str, lister: Lister[PostRecord]) -> None:
        everything = map(str, held_between(self._database, self._account.did, 0, None))
        held = {uri for uri in everything if split_uri(uri).collection == collection}
        async for page in _pages(lister, first_key(held, self._floor) or None, PER_PAGE):
            self._compare([item for item in page.items if is_wanted(item, held, self._floor)])
            self._note_unreadable(page)
        for uri in sorted(held - self._met):
            answer = await lister.fetch_one(uri)
            self._compare(answer.items)
            if not answer.items and not answer.rejected:
                self._note("extra", uri)

    def _compare(self, items: Iterable[Item[PostRecord]]) -> None:
        unmet = {item.record.uri: item for item in items if item.record.uri not in self._met}
        self._met |= unmet.keys()
        stored = stored_versions(self._database, unmet, self._clock.now_ms())
        for uri, item in unmet.items():
            if uri not in stored:
                self._note("missing", uri)
            elif stored[uri] != item.version:
                self._note("different", uri)

    def _note_unreadable(self, page: Page[PostRecord]) -> None:
        for entry in page.rejected:
            if entry.key not in self._met:
                self._met.add(entry.key)
                self._note("unreadable", entry.key)

    def _note(self, verdict: str, uri: str) -> None:
        kind = split_uri(uri).collection.rpartition(".")[2] if uri.startswith("at://") else "post"
        self._scope.differences.append(Difference(verdict, f"{kind}s", self._account.handle, None, uri, uri))


async def _pages(
    lister: Lister[PostRecord], token: str | None, per_page: int, *, down_to: int | None = None
) -> AsyncIterator[Page[PostRecord]]:
    """Read a list to its end, or a feed down to an instant."""
    while True:
        page = await lister.fetch(ListRequest(token=token))
        yield page
        if down_to is None:
            token = following(page, per_page)
        else:
            low = bool(page.items) and page.items[-1].at < down_to
            token = None if low else page.next_token
        if token is None:
            return
