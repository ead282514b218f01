"""One poll of Bluesky accounts: those that are due, concurrently, then a share of verification.

Decides what a failure means for an account and for the others on the same server, and when each is polled next: the
interval grows with the silence of an account, up to the staleness bound. A failing, slow or rate-limited account costs
the poll its own time limit at most; a server that is out is not asked again in this poll, and its accounts stay due.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence

from msgspec import Struct, field

from tidelore.core.concurrency import gather
from tidelore.core.errors import (
    RateLimited,
    RemoteError,
    RemotePermanent,
    RemoteTransient,
    TideloreError,
    UserError,
)
from tidelore.core.progress import DocumentReport, OnProgress, Progress, silent
from tidelore.sources.bluesky.identity import why_hidden
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.store.mirror.accounts import (
    SURFACES,
    AccountRow,
    Polled,
    count_due,
    due_accounts,
    find_account,
    list_accounts,
    note_failed,
    note_polled,
    note_unavailable,
    rename_account,
)
from tidelore.store.mirror.payloads import packer
from tidelore.store.mirror.posts import bury_author
from tidelore.store.work.session import Session, Workshop, open_session
from tidelore.sync.account_reading import AccountReader, ReadResult
from tidelore.sync.account_verification import verify_accounts, verify_accounts_fully
from tidelore.sync.accounts import follow_configured, refresh_if_possible
from tidelore.sync.mirror import note_ending
from tidelore.sync.report import (
    AccountReport,
    PollReport,
    RequestCount,
    RunReport,
    ScopeReport,
    account_line,
    also_to_ledger,
    run_verdict,
)
from tidelore.sync.verification import scrub_budget

SHARE = 0.5
"""Which part of a silence may pass before the account is asked again: the interval grows by half with every poll."""
SPREAD = 0.1
"""By which part an interval is shortened: at most all of it, so that accounts added together are not asked together for
ever; at least half of it, so that an account asked late in a cycle is due when the next one begins."""


class Pace(Struct, frozen=True):
    """The two bounds of an interval, in seconds."""

    interval_seconds: float
    staleness_seconds: float

    @property
    def shortest(self) -> float:
        return min(self.interval_seconds, self.staleness_seconds)

    @property
    def longest(self) -> float:
        """The ceiling: an account that falls due just after a cycle waits for the next one too."""
        return max(self.shortest, self.staleness_seconds - self.shortest)


def next_interval(pace: Pace, quiet_seconds: float | None, roll: float) -> float:
    """Return how long to leave an account alone that has been quiet so long; None: it never posted.

    `roll` in [0, 1) spreads the result downward, so it never passes the ceiling.
    """
    wanted = pace.longest if quiet_seconds is None else quiet_seconds * SHARE
    bounded = min(max(wanted, pace.shortest), pace.longest)
    return bounded * (1.0 - SPREAD * (0.5 + roll / 2))


_LOG = logging.getLogger(__name__)

LEASE = "bluesky"
"""Polls exclude each other, and nobody else."""
UNAVAILABLE = frozenset({400, 401, 403, 404, 410})
BLOCKED = frozenset({401, 403})
"""What a server answers that refuses an account, or everybody."""
ACCOUNT_SECONDS = 120.0
STRIKES = 10
"""After how many failures in a row, or refusals before any answer, a server counts as out."""
ACCOUNTS_AT_ONCE = 1000
"""How many accounts are looked up together: a cycle over very many holds no more of them in memory."""


class PollRequest(Struct, frozen=True):
    """What a poll was asked to do. Without names whoever is due; `everyone` does not wait for that.

    With `verify` those who were read are verified whole; otherwise a share of the requests is spent on verification.
    """

    accounts: tuple[str, ...] = ()
    everyone: bool = False
    full: bool = False
    force: bool = False
    documents: bool = True
    account_seconds: float = ACCOUNT_SECONDS
    scrub_budget: int | None = None
    verify: bool = False


class ServerOutages(Struct):
    """Which servers are out in this cycle: that limit our rate, fail time after time, or refuse everybody."""

    strikes: dict[str, int] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)
    out: dict[str, TideloreError] = field(default_factory=dict)

    def answered(self, server: str) -> None:
        self.heard.add(server)
        self.strikes.pop(server, None)

    def failed(self, server: str, error: TideloreError) -> None:
        self.strikes[server] = self.strikes.get(server, 0) + 1
        if isinstance(error, RateLimited) or self.strikes[server] >= STRIKES:
            self.out[server] = error

    def refused(self, server: str, error: TideloreError) -> None:
        """One that answered somebody means the account; one that refuses everybody has no quarrel with any of them."""
        if server not in self.heard:
            self.failed(server, error)


async def poll(
    shop: Workshop,
    source: BlueskySource,
    request: PollRequest,
    count: RequestCount,
    on_progress: OnProgress = silent,
    roll: Callable[[], float] = random.random,
    make_documents: MakeDocuments | None = None,
) -> PollReport:
    """Run one cycle and report."""
    started = shop.clock.monotonic()
    note = "full poll: account positions were reset" if request.full else None
    async with open_session(shop, force=request.force, note=note, lease=LEASE) as session:
        report = PollReport(session.run.id, taken_over=session.lease.taken_as, crashed_runs=session.crashed_runs)
        on_progress = also_to_ledger(session, on_progress, lambda: count.total)
        cycle = PollCycle(session, source, request, report, on_progress, roll)
        await cycle.run()
        session.run.set_phase("scrub")
        budget = request.scrub_budget
        if budget is None:
            budget = scrub_budget(count.total, shop.config.sync.scrub_share)
        if request.verify:
            report.verified = await verify_accounts_fully(cycle.reader, chosen_accounts(shop, request))
        elif not report.outages:
            report.verified = await verify_accounts(cycle.reader, budget, lambda: count.total, cycle.began_at)
        if request.documents and make_documents is not None:
            session.run.set_phase("docs")
            report.documents = await make_documents(session, on_progress)
        report.requests = session.counters.requests = count.total
        session.warnings = report.failed + report.unavailable + len(report.unresolved) + len(report.outages)
        if report.accounts and report.failed == report.accounts:
            session.error = next(account.error.message for account in report.told if account.error is not None)
    report.seconds = shop.clock.monotonic() - started
    return report


async def scrub(
    shop: Workshop,
    source: BlueskySource,
    budget: int,
    count: RequestCount,
    *,
    force: bool = False,
    make_documents: MakeDocuments | None = None,
) -> RunReport:
    """Verify accounts, the least recently verified first and each at most once, until the budget is spent."""
    started = shop.clock.monotonic()
    verified: dict[str, AccountReport] = {}
    async with open_session(shop, force=force, lease=LEASE) as session:
        session.run.set_phase("scrub")
        reader = AccountReader(session, source, packer(compress=shop.config.storage.compress_raw_payloads))
        before = shop.clock.now_ms()
        while count.total < budget:
            reports = await verify_accounts(reader, budget - count.total, lambda: count.total, before)
            new = {one.did: one for one in reports if one.did not in verified}
            verified |= new
            if not new:
                break
        documents = None if make_documents is None else await make_documents(session, silent)
        session.counters.requests = count.total
        report = RunReport(session.run.id, documents=documents, requests=count.total)
        report.taken_over, report.crashed_runs = session.lease.taken_as, session.crashed_runs
        report.scrubbed = [
            ScopeReport(
                source.name, SURFACES["records"], one.did, one.handle, one.tally, error=one.error, skipped=one.refused
            )
            for one in verified.values()
        ]
        session.warnings = sum(one.is_troubled for one in verified.values())
        note_ending(session, run_verdict(report.scrubbed))
    report.seconds = shop.clock.monotonic() - started
    return report


class PollCycle:
    """One cycle while it runs."""

    def __init__(
        self,
        session: Session,
        source: BlueskySource,
        request: PollRequest,
        report: PollReport,
        on_progress: OnProgress,
        roll: Callable[[], float],
    ) -> None:
        settings = session.shop.config.bluesky
        pack = packer(compress=session.shop.config.storage.compress_raw_payloads)
        self.reader = AccountReader(session, source, pack, request.full)
        self.began_at = session.shop.clock.now_ms()
        self._session = session
        self._source = source
        self._request = request
        self._report = report
        self._on_progress = on_progress
        self._roll = roll
        self._total = 0
        self._servers = ServerOutages(out=report.outages)
        self._asking = asyncio.Lock()
        self._pace = Pace(settings.interval_minutes * 60, settings.max_staleness_minutes * 60)

    async def run(self) -> None:
        """Read everybody whose turn it is."""
        shop = self._session.shop
        database, clock = shop.database, shop.clock
        if not self._request.accounts:
            self._report.unresolved = await follow_configured(database, self._source, shop.config, clock)
            self.began_at = clock.now_ms()
        passed: set[int] = set()
        due = 0 if self._request.accounts else count_due(database, self.began_at)
        while batch := self._next(passed):
            passed.update(account.id for account in batch)
            self._total = max(due, len(passed))
            await self._refresh(batch)
            self.reader.begin(batch)
            queue = iter(batch)
            workers = min(side_by_side(shop.config.bluesky.max_concurrent), len(batch))
            await gather(self._work(queue) for _ in range(workers))

    def _next(self, passed: set[int]) -> list[AccountRow]:
        """Return who is read next; whoever had their turn in this cycle has no second one."""
        database, request = self._session.shop.database, self._request
        if request.accounts or request.everyone or request.full:
            return [] if passed else chosen_accounts(self._session.shop, request)
        # Those left alone at a server that is out are still due: they stand before the others.
        due = due_accounts(database, self.began_at, ACCOUNTS_AT_ONCE + self._report.left)
        return [account for account in due if account.id not in passed]

    async def _refresh(self, batch: Sequence[AccountRow]) -> None:
        """A repository does not tell its owner's handle; the feed does."""
        silent_ones = [one for one in batch if self.reader.mode_of(one) == "records" and one.state != "unavailable"]
        shop = self._session.shop
        await refresh_if_possible(shop.database, self._source, shop.clock, silent_ones)

    async def _work(self, queue: Iterator[AccountRow]) -> None:
        for account in queue:
            server = self._server(account)
            if server in self._servers.out:
                self._report.left += 1
                continue
            await self._one(account, server)
            done = self._report.accounts + self._report.left
            note = f"{self._report.posts:,} posts, {self._report.active:,} active"
            self._on_progress(Progress("bluesky", "accounts", done, self._total, note))

    async def _one(self, account: AccountRow, server: str) -> None:
        mode = self.reader.mode_of(account)
        report = AccountReport(account.did, account.handle, mode, initial=not self._is_established(account))
        try:
            async with asyncio.timeout(self._request.account_seconds):
                found = await self.reader.read(account, report)
        except TimeoutError:
            self._fail(account, report, server, _too_slow(self._request.account_seconds))
        except RemotePermanent as error:
            if error.status in UNAVAILABLE and not report.tally.pages:
                if await self._is_blocked(account, server, error):
                    self._report.left += 1
                    return
                await self._refuse(account, report, error)
                if account.state != "unavailable":
                    self._servers.refused(server, error)
            else:
                self._fail(account, report, None, error)
        except RemoteError as error:
            self._fail(account, report, server, error)
        else:
            self._servers.answered(server)
            self._succeed(account, report, found)
        self._report.add(report)
        self._session.counters.quarantined += report.tally.quarantined
        line = account_line(report)
        if line is not None:
            _LOG.info("%s", line)

    def _succeed(self, account: AccountRow, report: AccountReport, found: ReadResult) -> None:
        now = self._session.shop.clock.now_ms()
        last_post_at = max((at for at in (found.newest_at, account.last_post_at) if at is not None), default=None)
        # What a first reading finds is no news of the account.
        posted = report.tally.created > 0 and not report.initial
        quiet = 0.0 if posted else None if last_post_at is None else (now - last_post_at) / 1000
        interval = next_interval(self._pace, quiet, self._roll())
        # Whoever has more to tell is heard again in the next cycle, whenever that is.
        report.next_poll_at = self.began_at + 1 if report.behind else now + round(interval * 1000)
        polled = Polled(report.posts, found.newest_at, max(1, round(interval)), report.next_poll_at)
        with self._session.writing() as tx:
            note_polled(tx, account.id, polled, now)
            if found.handle is not None and found.handle != account.handle:
                rename_account(tx, account.did, found.handle, now)
                report.handle, report.renamed_from = found.handle, account.handle

    async def _is_blocked(self, account: AccountRow, server: str, error: RemotePermanent) -> bool:
        """Return whether a server refuses everybody: then it is out, and its accounts stay as they are."""
        home = None if self.reader.mode_of(account) == "feed" else account.pds_url
        if error.status not in BLOCKED or why_hidden(error) or server == account.did:
            return False
        async with self._asking:
            if server in self._servers.out:
                return True
            try:
                if await self._source.answers_strangers(home):
                    return False
            except RemoteError as other:
                self._servers.out[server] = other
                return True
            self._servers.out[server] = _refuses_everybody(server, error)
            return True

    async def _refuse(self, account: AccountRow, report: AccountReport, error: RemotePermanent) -> None:
        hidden = why_hidden(error)
        deleted = hidden == "not found" and await self._is_deleted(account)
        reason = report.refused = f"API error: {error.status}"
        if hidden is not None:
            reason = f"account {'deleted' if deleted else hidden}"
            report.refused += f" ({reason})"
        now = self._session.shop.clock.now_ms()
        with self._session.writing() as tx:
            report.next_poll_at = note_unavailable(tx, account.id, reason, now)
            if deleted:
                bury_author(tx, account.did, now)

    async def _is_deleted(self, account: AccountRow) -> bool:
        """Ask the account's own server too: only a deleted account takes its posts with it."""
        try:
            return await self._source.is_deleted(account.did)
        except RemoteError:
            return False

    def _fail(self, account: AccountRow, report: AccountReport, server: str | None, error: TideloreError) -> None:
        """Keep what was read before the failure; the account is asked again after the shortest interval."""
        report.error = error
        if server is not None:
            self._servers.failed(server, error)
        now = self._session.shop.clock.now_ms()
        report.next_poll_at = now + round(self._pace.shortest * 1000)
        with self._session.writing() as tx:
            if report.posts:
                interval = max(1, round(self._pace.shortest))
                note_polled(tx, account.id, Polled(report.posts, None, interval, report.next_poll_at), now)
            note_failed(tx, account.id, error.message, report.next_poll_at, now)

    def _is_established(self, account: AccountRow) -> bool:
        if account.state in ("new", "established"):
            return account.state == "established" and not self._request.full
        return not self._request.full and self.reader.writer(account, self.reader.mode_of(account)).load().complete

    def _server(self, account: AccountRow) -> str:
        mode = self.reader.mode_of(account)
        return self._session.shop.config.bluesky.base_url if mode == "feed" else account.pds_url or account.did


def side_by_side(requests: int) -> int:
    """Return how many accounts are read at a time: more than requests, of which none waits while a page is stored."""
    return requests + requests // 2


def chosen_accounts(shop: Workshop, request: PollRequest) -> list[AccountRow]:
    """Return who is asked in a cycle as it stands: those named, everybody, or whoever is due."""
    if request.accounts:
        named = [find_account(shop.database, name) for name in request.accounts]
        paused = [account.handle for account in named if account.state == "paused"]
        if paused:
            raise UserError(f"{', '.join(paused)}: paused", fix=f"resume it with `lore accounts resume {paused[0]}`")
        return list({account.id: account for account in named}.values())
    if request.everyone or request.full:
        return [account for account in list_accounts(shop.database) if account.state != "paused"]
    return due_accounts(shop.database, shop.clock.now_ms())


def _refuses_everybody(server: str, error: RemotePermanent) -> RemotePermanent:
    return RemotePermanent(
        f"{server} refuses all requests (status {error.status}); no account was marked as unavailable",
        status=error.status,
        url=error.url,
        reason="blocked",
        fix="the server may block this machine: try again later, or set bluesky.base_url to another AppView",
    )


def _too_slow(seconds: float) -> RemoteTransient:
    return RemoteTransient(
        f"timed out after {seconds:g} s; fetched posts are stored and the next poll continues there",
        reason="account_timeout",
        fix="no action needed; use --timeout to allow more time per account",
    )


MakeDocuments = Callable[[Session, OnProgress], Awaitable[DocumentReport | None]]
