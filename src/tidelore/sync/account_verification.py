"""Compare Bluesky accounts with their repositories: the verification of a poll, and the audit.

Verification reads a page of a collection in the order of writing and compares it with the stored posts of that range.
It finds backdated posts, edits, and posts missing from a feed that ended early. A stored post that is not on the page
is requested by itself; it becomes a tombstone only if the server says it is gone. The position is stored, so every
difference is found after a bounded time at a fixed cost. The audit reads the repository and the feed completely and
writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Set

from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.concurrency import gather
from tidelore.core.config import Config
from tidelore.core.errors import RateLimited, RemoteError, RemoteNotFound, RemotePermanent, TideloreError
from tidelore.core.model import Item, PostRecord, RemoteId
from tidelore.core.progress import OnProgress, Progress, silent
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Census
from tidelore.engine.intake import Intake
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.sources.bluesky.identity import why_hidden
from tidelore.sources.bluesky.payloads import POST, split_uri
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import (
    SOURCE,
    SURFACES,
    AccountRow,
    account_scope,
    count_verifiable,
    least_verified,
    make_due,
)
from tidelore.store.mirror.cursors import load_cursor
from tidelore.store.mirror.posts import PostWriter, held_between, stored_versions
from tidelore.sync.account_reading import COLLECTIONS, AccountReader, following, key_before
from tidelore.sync.audit import AuditReport, Difference, ScopeAudit, audit_verdict
from tidelore.sync.report import AccountReport

MAX_QUESTIONS = 20
"""How many missing posts one stride requests; if more are missing, the next stride starts at the same place."""
MOST_AT_ONCE = 1000


async def verify_accounts(
    reader: AccountReader, budget: int, requests: Callable[[], int], before: int
) -> list[AccountReport]:
    """Verify accounts not verified since `before`, least recently verified first, until the budget is spent."""
    reports: list[AccountReport] = []
    spent_before = requests()
    for account in _turns(reader, budget, before):
        if requests() - spent_before >= budget:
            break
        report = AccountReport(account.did, account.handle, "records", initial=False)
        reports.append(report)
        try:
            work = AccountVerification(reader, account, report)
            while not await work.stride() and requests() - spent_before < budget:
                pass
        except RemoteError as error:
            _note(reader, report, error)
            if isinstance(error, RateLimited):
                break
    return reports


def _note(reader: AccountReader, report: AccountReport, error: RemoteError) -> None:
    """Record why an account was not verified. If its server no longer shows it, make it due for the next poll."""
    hidden = why_hidden(error) if isinstance(error, RemotePermanent) else None
    if hidden is None:
        report.error = error
        return
    report.refused = f"account {hidden}"
    session = reader.session
    with session.writing() as tx:
        make_due(tx, [report.did], session.shop.clock.now_ms())


def _turns(reader: AccountReader, budget: int, before: int) -> list[AccountRow]:
    """Return the accounts to verify. Each costs at least one request, so no more than the budget are needed.

    Accounts whose server does not respond stay the least recently verified and would block the others. So about every
    second run (not by the parity of its id, see `verification.share_out`) starts further down the list.
    """
    session = reader.session
    database, mode = session.shop.database, session.shop.config.bluesky.mode
    most = min(budget, MOST_AT_ONCE)
    if most <= 0:
        return []
    further: list[AccountRow] = []
    if session.run.id.bit_count() % 2:
        count = count_verifiable(database, mode, before)
        further = least_verified(database, mode, before, most, session.run.id % max(count, 1))
    first = least_verified(database, mode, before, most)
    return list({account.id: account for account in (*further, *first)}.values())


async def verify_accounts_fully(reader: AccountReader, accounts: Sequence[AccountRow]) -> list[AccountReport]:
    """Verify accounts completely, regardless of cost; skip those whose first read is not complete."""
    reports = []
    for account in accounts:
        if not reader.writer(account, reader.mode_of(account)).load().complete:
            continue
        report = AccountReport(account.did, account.handle, "records", initial=False)
        reports.append(report)
        try:
            work = AccountVerification(reader, account, report)
            work.begin_anew()
            while not await work.stride():
                pass
        except RemoteError as error:
            _note(reader, report, error)
    return reports


class AccountVerification:
    """The verification of one account."""

    def __init__(self, reader: AccountReader, account: AccountRow, report: AccountReport) -> None:
        shop = reader.session.shop
        self._reader = reader
        self._account = account
        self._report = report
        self._writer: PostWriter = reader.writer(account, reader.mode_of(account))
        self._intake: Intake[PostRecord] = Intake(self._writer, shop.clock.now_ms, shop.seam)
        self._per_page = 100
        report.tally = self._intake.tally

    def begin_anew(self) -> None:
        """Reset the position, so that verification starts at the beginning."""
        cursor = self._writer.load()
        self._writer.commit(Batch((), replace(cursor, census=Census(verified_at=cursor.census.verified_at))))

    async def stride(self) -> bool:
        """Verify one more page; return whether that completed the account."""
        done = await self._reader.at_home(self._account, self._stride_at)
        self._report.links = self._writer.links
        return done

    async def _stride_at(self, home: str) -> bool:
        cursor = self._writer.load()
        census, reach = cursor.census, cursor.log
        # If the start of the stored range is unknown, verify only stored posts: else the whole past would be fetched.
        floor = self._intake.now_ms() if reach is None else reach.floor
        collection, key = _place(census)
        held = {str(uri) for uri in self._writer.held(0, None) if split_uri(str(uri)).collection == collection}
        if not key:
            key = first_key(held, floor)
        lister = self._reader.source.records(home, self._account.did, collection, self._per_page)
        page = await lister.fetch(ListRequest(token=key or None))
        self._intake.seam(Seam.AFTER_FETCH)
        upto = following(page, self._per_page)
        met = {*(item.record.uri for item in page.items), *(entry.key for entry in page.rejected)}
        missing = [uri for uri in held if uri not in met and _within(uri, key, upto)]
        answers, gone = await _ask(lister, missing)
        done = len(missing) <= MAX_QUESTIONS
        if done:
            census = _onward(census, collection, upto, page.server_at or self._intake.now_ms())
        wanted = [item for item in page.items if is_wanted(item, held, floor)]
        merged = Page(
            items=[*wanted, *(item for answer in answers for item in answer.items)],
            rejected=[*page.rejected, *(entry for answer in answers for entry in answer.rejected)],
            server_at=page.server_at,
        )
        self._intake.take(merged, replace(cursor, census=census), gone=gone)
        return done and census.token is None


def first_key(held: Set[str], floor: int) -> str:
    """Return the key after which verification starts: before the floor and before every stored post."""
    least = min((split_uri(uri).rkey for uri in held), default=None)
    start = key_before(floor) or ""
    # One character less sorts before the key itself.
    return start if least is None else min(start, least[:-1])


def is_wanted(item: Item[PostRecord], held: Set[str], floor: int) -> bool:
    """Return whether the copy should contain an item: it was written since the floor, or is already stored."""
    return item.at >= floor or item.record.uri in held


def _place(census: Census) -> tuple[str, str]:
    collection, _, key = (census.token or f"{POST} ").partition(" ")
    return collection, key


def _within(uri: str, after: str, upto: str | None) -> bool:
    key = split_uri(uri).rkey
    return key > after and (upto is None or key <= upto)


async def _ask(lister: Lister[PostRecord], missing: Sequence[str]) -> tuple[list[Page[PostRecord]], list[RemoteId]]:
    """Request each missing post by itself; return the responses and the URIs of posts that are gone."""
    answers: list[Page[PostRecord]] = []
    gone: list[RemoteId] = []
    for uri in sorted(missing)[:MAX_QUESTIONS]:
        answer = await lister.fetch_one(uri)
        if answer.items or answer.rejected:
            answers.append(answer)
        else:
            gone.append(uri)
    return answers, gone


def _onward(census: Census, collection: str, upto: str | None, server_at: int) -> Census:
    """Return the census after a verified page: at the next page, at the next collection, or finished."""
    started = census.started_at if census.token is not None else server_at
    rest = COLLECTIONS[COLLECTIONS.index(collection) + 1 :] if collection in COLLECTIONS else ()
    if upto is None and not rest:
        return Census(verified_at=started)
    token = f"{collection} {upto}" if upto is not None else f"{rest[0]} "
    return Census(after=1, started_at=started, verified_at=census.verified_at, token=token)


PER_PAGE = 100


async def audit_accounts(
    database: Database,
    config: Config,
    clock: Clock,
    source: BlueskySource,
    accounts: Sequence[AccountRow],
    on_progress: OnProgress = silent,
) -> AuditReport:
    """Compare these accounts with the network; one that cannot be read is reported and does not stop the others."""
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


def account_audit_verdict(report: AuditReport) -> TideloreError | None:
    """Return the error an audit of accounts ends with, if any."""
    error = audit_verdict(report)
    if error is not None and report.differences:
        error.fix = "run `lore poll bluesky --all` to fetch new posts; `lore audit bluesky --repair` corrects the rest"
    return error


class AccountComparison:
    """The comparison of one account; `scope` receives the results."""

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
            raise RemoteNotFound(f"the DID document of {self._account.handle} does not name a data server", did=did)
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
