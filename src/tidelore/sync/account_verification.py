"""Compare Bluesky accounts with their repositories: the verification of a poll, and the audit.

Verification reads a page of a collection in the order of writing and compares it with the stored posts of that range.
It finds backdated posts, edits, and posts missing from a feed that ended early. A stored post that is not on the page
is requested by itself; it becomes a tombstone only if the server says it is gone. The position is stored, so every
difference is found after a bounded time at a fixed cost. The audit reads the repository and the feed completely and
writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec.structs import replace

from tidelore.core.concurrency import for_each
from tidelore.core.errors import RateLimited, RemoteError, RemotePermanent, TideloreError
from tidelore.core.model import Item, PostRecord
from tidelore.core.progress import OnProgress, Progress, silent
from tidelore.engine.cursor import Census
from tidelore.engine.intake import Intake
from tidelore.engine.ports import Batch, Lister, Page
from tidelore.engine.scrub import LogScrub, first_key, is_wanted
from tidelore.engine.whole import read_pages
from tidelore.sources.bluesky.identity import why_hidden
from tidelore.sources.bluesky.payloads import COLLECTIONS, split_uri
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.sources.bluesky.surfaces import RECORD_KEYS
from tidelore.store.mirror.accounts import (
    ALL_ACCOUNTS,
    SOURCE,
    SURFACES,
    AccountRange,
    AccountRow,
    account_scope,
    count_verifiable,
    least_verified,
    make_due,
)
from tidelore.store.mirror.cursors import load_cursor
from tidelore.store.mirror.posts import held_between, stored_versions
from tidelore.store.work.session import Workshop
from tidelore.sync.account_reading import AccountReader
from tidelore.sync.audit import AuditReport, Difference, ScopeAudit, audit_verdict, compare
from tidelore.sync.lists import IsOver, never
from tidelore.sync.report import AccountReport

MOST_AT_ONCE = 1000
PER_PAGE = 100
REQUESTS_EACH = 1 + len(COLLECTIONS)
"""What the verification of an account costs if its collections are short: its DID document and a page of each."""


async def verify_accounts(
    reader: AccountReader,
    budget: int,
    requests: Callable[[], int],
    before: int,
    within: AccountRange = ALL_ACCOUNTS,
) -> list[AccountReport]:
    """Verify accounts not verified since `before`, least recently verified first, until the budget is spent.

    An account whose verification an earlier run began is completed, and verified from its beginning after the others.
    """
    reports: dict[int, AccountReport] = {}
    done: set[int] = set()
    most = requests() + budget
    while turns := _turns(reader, most - requests(), before, done, within):
        for account in turns:
            if requests() >= most:
                break
            report = reports.setdefault(account.id, _report_on(account))
            under_way = reader.writer(account, reader.mode_of(account)).load().census.part
            await _verify(reader, account, report, lambda: requests() >= most)
            if isinstance(report.error, RateLimited):
                return [*reports.values()]
            if not under_way or report.is_troubled:
                done.add(account.id)
    return [*reports.values()]


async def verify_accounts_fully(reader: AccountReader, accounts: Sequence[AccountRow]) -> list[AccountReport]:
    """Verify accounts completely, regardless of cost; skip those whose first read is not complete."""
    reports = []
    for account in accounts:
        writer = reader.writer(account, reader.mode_of(account))
        cursor = writer.load()
        if cursor.complete:
            writer.commit(Batch((), replace(cursor, census=Census(verified_at=cursor.census.verified_at))))
            reports.append(_report_on(account))
            await _verify(reader, account, reports[-1], never)
    return reports


def _report_on(account: AccountRow) -> AccountReport:
    return AccountReport(account.did, account.handle, "records", initial=False)


async def _verify(reader: AccountReader, account: AccountRow, report: AccountReport, is_over: IsOver) -> None:
    """Verify one account from where its verification stopped, to its end or until the budget is spent."""
    shop = reader.session.shop
    writer = reader.writer(account, reader.mode_of(account))
    intake = Intake(writer, shop.clock.now_ms, shop.seam)
    intake.tally = report.tally
    work = LogScrub(reader.repository(account).lists(PER_PAGE), intake, RECORD_KEYS)
    try:
        while not await work.stride() and not is_over():
            pass
    except RemoteError as error:
        _note(reader, report, error)
    report.links += writer.links


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


def _turns(
    reader: AccountReader, budget: int, before: int, done: Collection[int], within: AccountRange
) -> list[AccountRow]:
    """Return accounts that are not done; each costs at least one request, so no more than the budget are needed.

    Accounts whose server does not respond stay the least recently verified and would block the others. So about every
    second run (not by the parity of its id, see `verification.share_out`) starts further down the list.
    """
    session = reader.session
    database, mode = session.shop.database, session.shop.config.bluesky.mode
    if budget <= 0:
        return []
    # Accounts that failed are still the least recently verified and come first, so ask for that many more.
    most = min(budget, MOST_AT_ONCE) + len(done)
    further: list[AccountRow] = []
    if session.run.id.bit_count() % 2:
        count = count_verifiable(database, mode, before, within)
        further = least_verified(database, mode, before, most, session.run.id % max(count, 1), within)
    first = least_verified(database, mode, before, most, within=within)
    return list({account.id: account for account in (*further, *first) if account.id not in done}.values())


async def audit_accounts(
    shop: Workshop, source: BlueskySource, accounts: Sequence[AccountRow], on_progress: OnProgress = silent
) -> AuditReport:
    """Compare these accounts with the network; one that cannot be read is reported and does not stop the others."""
    compared = 0

    async def one(account: AccountRow) -> ScopeAudit:
        nonlocal compared
        mode = account.mode or shop.config.bluesky.mode
        scope = ScopeAudit(SOURCE, SURFACES[mode], account.handle, account.last_polled_at)
        cursor = load_cursor(shop.database, account_scope(account, mode))
        if cursor.log is None or not cursor.complete:
            scope.skipped = "it was not fully fetched yet"
            return scope
        try:
            await AccountComparison(shop, source, account, scope, cursor.log.floor).run()
        except RemoteError as error:
            scope.error = error
        scope.differences.sort(key=lambda found: found.key)
        compared += 1
        on_progress(Progress("bluesky", "accounts", compared, len(accounts), f"{scope.items:,} posts compared"))
        return scope

    synced_at = max((account.last_polled_at or 0 for account in accounts), default=0)
    return AuditReport(synced_at or None, await for_each(accounts, one, shop.config.bluesky.max_concurrent))


def account_audit_verdict(report: AuditReport) -> TideloreError | None:
    """Return the error an audit of accounts ends with, if any."""
    error = audit_verdict(report)
    if error is not None and report.differences:
        error.fix = "run `lore poll bluesky --all` to fetch new posts; `lore audit bluesky --repair` corrects the rest"
    return error


class AccountComparison:
    """The comparison of one account; `scope` receives the results."""

    def __init__(
        self, shop: Workshop, source: BlueskySource, account: AccountRow, scope: ScopeAudit, floor: int
    ) -> None:
        self._shop = shop
        self._source = source
        self._account = account
        self._scope = scope
        self._floor = floor
        self._met: set[str] = set()

    async def run(self) -> None:
        """Compare the repository, then the feed."""
        did = self._account.did
        home = await self._source.home(did)
        for collection in COLLECTIONS:
            await self._compare_collection(collection, self._source.records(home, did, collection, PER_PAGE))
        async for page in read_pages(self._source.author_feed(did, PER_PAGE)):
            self._compare([item for item in page.items if item.record.sort_at >= self._floor])
            self._note_unreadable(page)
            if page.items and page.items[-1].at < self._floor:
                break
        self._scope.items = len(self._met)

    async def _compare_collection(self, collection: str, lister: Lister[PostRecord]) -> None:
        everything = map(str, held_between(self._shop.database, self._account.did, 0, None))
        held = {uri for uri in everything if split_uri(uri).collection == collection}
        async for page in read_pages(lister, first_key(held, self._floor, RECORD_KEYS) or None):
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
        stored = stored_versions(self._shop.database, unmet, self._shop.clock.now_ms())
        versions = {uri: item.version for uri, item in unmet.items()}
        for verdict, uri in compare({str(uri): version for uri, version in stored.items()}, versions):
            self._note(verdict, uri)

    def _note_unreadable(self, page: Page[PostRecord]) -> None:
        for entry in page.rejected:
            if entry.key not in self._met:
                self._met.add(entry.key)
                self._note("unreadable", entry.key)

    def _note(self, verdict: str, uri: str) -> None:
        kind = split_uri(uri).collection.rpartition(".")[2] if uri.startswith("at://") else "post"
        self._scope.differences.append(Difference(verdict, f"{kind}s", self._account.handle, None, uri, uri))
