"""Poll Bluesky accounts: read those that are due, concurrently, then verify a share of the stored posts.

Decides what a failure means for an account and for others on the same server, and when each account is polled next:
the longer an account has not posted, the longer the interval, up to the staleness bound. A failing, slow or
rate-limited account delays the poll by at most its time limit. A server that is out gets no more requests in this
poll, and its accounts stay due.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from tidelore.core.concurrency import for_each
from tidelore.core.errors import (
    BudgetSpent,
    RemoteError,
    RemotePermanent,
    RemoteTransient,
    UserError,
)
from tidelore.core.progress import OnProgress, Progress, silent
from tidelore.http.limits import SourceOutages
from tidelore.sources.bluesky.identity import why_hidden
from tidelore.sources.bluesky.source import BlueskySource
from tidelore.store.mirror.accounts import (
    ALL_ACCOUNTS,
    AccountRange,
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
from tidelore.sync.accounts import follow_configured, refresh
from tidelore.sync.mirror import note_ending
from tidelore.sync.report import (
    AccountReport,
    MakeDocuments,
    PollReport,
    RequestCount,
    account_line,
    also_to_ledger,
    poll_verdict,
    run_verdict,
)
from tidelore.sync.verification import scrub_budget

SHARE = 0.5
"""The interval as a fraction of the time since the last post: it grows by half with every poll without a new post."""
SPREAD = 0.1
"""The largest fraction by which an interval is randomly shortened, so that accounts added together do not stay in step.
It is shortened by at least half of that, so that an account polled late in a cycle is due when the next one begins."""


class Pace(Struct, frozen=True):
    """The lower and upper bound of polling intervals, in seconds."""

    interval_seconds: float
    staleness_seconds: float

    @property
    def shortest(self) -> float:
        return min(self.interval_seconds, self.staleness_seconds)

    @property
    def longest(self) -> float:
        """The longest interval; an account that falls due just after a cycle also waits for the next one."""
        return max(self.shortest, self.staleness_seconds - self.shortest)


def next_interval(pace: Pace, quiet_seconds: float | None, roll: float) -> float:
    """Return the seconds until the next poll of an account that last posted `quiet_seconds` ago (None: never).

    `roll` in [0, 1) spreads the result downward, so it never exceeds the longest interval.
    """
    wanted = pace.longest if quiet_seconds is None else quiet_seconds * SHARE
    bounded = min(max(wanted, pace.shortest), pace.longest)
    return bounded * (1.0 - SPREAD * (0.5 + roll / 2))


_LOG = logging.getLogger(__name__)

LEASE = "bluesky"
"""Only polls exclude each other; other commands may run at the same time."""
UNAVAILABLE = frozenset({400, 401, 403, 404, 410})
BLOCKED = frozenset({401, 403})
"""Statuses a server may send both to refuse one account and to refuse all requests."""
ACCOUNT_SECONDS = 120.0
STRIKES = 10
"""A server counts as out after this many failures in a row, or refusals before its first successful response."""
ACCOUNTS_AT_ONCE = 1000
"""How many accounts are loaded at a time, to bound the memory of a cycle over very many accounts."""


class PollRequest(Struct, frozen=True):
    """Options of a poll. Without `accounts` it reads those that are due; with `everyone`, also those that are not.

    `within` are the accounts of which one of several workers polls those that are due, under a lease of that range;
    one of them adds `configured` accounts.
    With `verify`, the accounts that were read are verified completely; otherwise verification gets a share of the
    requests. Without `walk` only verification is done.
    """

    accounts: tuple[str, ...] = ()
    everyone: bool = False
    full: bool = False
    force: bool = False
    documents: bool = True
    account_seconds: float = ACCOUNT_SECONDS
    scrub_budget: int | None = None
    verify: bool = False
    walk: bool = True
    within: AccountRange = ALL_ACCOUNTS
    configured: bool = True

    @property
    def lease(self) -> str:
        """The lease of these accounts; that of all accounts covers those of ranges."""
        return LEASE if self.within == ALL_ACCOUNTS else f"{LEASE} {self.within.first}-{self.within.last}"


async def poll(
    shop: Workshop,
    source: BlueskySource,
    request: PollRequest,
    count: RequestCount,
    on_progress: OnProgress = silent,
    roll: Callable[[], float] = random.random,
    make_documents: MakeDocuments | None = None,
) -> PollReport:
    """Run one poll and return its report."""
    started = shop.clock.monotonic()
    note = "full poll: account positions were reset" if request.full else None
    async with open_session(shop, force=request.force, note=note, lease=request.lease) as session:
        report = PollReport(session.run.id, taken_over=session.lease.taken_as, crashed_runs=session.crashed_runs)
        on_progress = also_to_ledger(session, on_progress, lambda: count.total)
        cycle = PollCycle(session, source, request, report, on_progress, roll)
        if request.walk:
            await cycle.run()
        session.run.set_phase("scrub")
        budget = scrub_budget(request.scrub_budget, count.total, shop.config.sync.scrub_share)
        if request.verify:
            report.verified = await verify_accounts_fully(cycle.reader, chosen_accounts(shop, request))
        elif not report.outages:
            report.verified = await verify_accounts(
                cycle.reader, budget, lambda: count.total, cycle.began_at, request.within
            )
        if request.documents and make_documents is not None:
            session.run.set_phase("docs")
            report.documents = await make_documents(session, on_progress)
        report.requests = session.counters.requests = count.total
        session.warnings = report.failed + report.unavailable + len(report.unresolved) + len(report.outages)
        if request.walk:
            note_ending(session, poll_verdict(report))
        else:
            session.warnings = sum(account.is_troubled for account in report.verified)
            report.scrubbed = [account.scope for account in report.verified]
            note_ending(session, run_verdict(report.scrubbed))
    report.seconds = shop.clock.monotonic() - started
    return report


class PollCycle:
    """A poll in progress."""

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
        self._servers = SourceOutages(STRIKES, lambda _error: True, report.outages)
        self._asking = asyncio.Lock()
        self._pace = Pace(settings.interval_minutes * 60, settings.max_staleness_minutes * 60)

    async def run(self) -> None:
        """Read all chosen or due accounts."""
        shop = self._session.shop
        database, clock = shop.database, shop.clock
        if self._request.configured and not self._request.accounts:
            self._report.unresolved = await follow_configured(shop, self._source)
            self.began_at = clock.now_ms()
        passed: set[int] = set()
        due = 0 if self._request.accounts else count_due(database, self.began_at, self._request.within)
        while batch := self._next(passed):
            passed.update(account.id for account in batch)
            self._total = max(due, len(passed))
            await self._refresh(batch)
            self.reader.begin(batch)
            await for_each(batch, self._work, side_by_side(shop.config.bluesky.max_concurrent))

    def _next(self, passed: set[int]) -> list[AccountRow]:
        """Return the next accounts to read; each account is read at most once per cycle."""
        database, request = self._session.shop.database, self._request
        if request.accounts or request.everyone or request.full:
            return [] if passed else chosen_accounts(self._session.shop, request)
        # Accounts skipped because their server is out are still due and come first, so ask for that many more.
        due = due_accounts(database, self.began_at, ACCOUNTS_AT_ONCE + self._report.left, request.within)
        return [account for account in due if account.id not in passed]

    async def _refresh(self, batch: Sequence[AccountRow]) -> None:
        """Refresh the handles of accounts read from repositories, which, unlike feeds, do not contain the handle."""
        silent_ones = [one for one in batch if self.reader.mode_of(one) == "records" and one.state != "unavailable"]
        # Outdated handles must not fail a poll.
        with suppress(RemoteError):
            await refresh(self._session.shop, self._source, silent_ones)

    async def _work(self, account: AccountRow) -> None:
        server, report = self._server(account), self._report
        if server in self._servers.out:
            report.left += 1
            return
        await self._one(account, server)
        note = f"{report.posts:,} posts, {report.active:,} active"
        self._on_progress(Progress("bluesky", "accounts", report.accounts + report.left, self._total, note))

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
        except BudgetSpent as error:
            # What was read is stored, and the account stays due.
            self._servers.failed(server, error)
            self._report.left += 1
            return
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
        # Posts found by a first read are not new activity.
        posted = report.tally.created > 0 and not report.initial
        quiet = 0.0 if posted else None if last_post_at is None else (now - last_post_at) / 1000
        interval = next_interval(self._pace, quiet, self._roll())
        # An account with more left to read is due in the next cycle, whenever that is.
        report.next_poll_at = self.began_at + 1 if report.behind else now + round(interval * 1000)
        polled = Polled(report.posts, found.newest_at, max(1, round(interval)), report.next_poll_at)
        with self._session.writing() as tx:
            note_polled(tx, account.id, polled, now)
            if found.handle is not None and found.handle != account.handle:
                rename_account(tx, account.did, found.handle, now)
                report.handle, report.renamed_from = found.handle, account.handle

    async def _is_blocked(self, account: AccountRow, server: str, error: RemotePermanent) -> bool:
        """Return whether the server refuses all requests; if so, mark it as out and leave its accounts unchanged."""
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
        """Confirm a deletion with the account's own server: only then are its posts deleted too."""
        try:
            return await self._source.is_deleted(account.did)
        except RemoteError:
            return False

    def _fail(self, account: AccountRow, report: AccountReport, server: str | None, error: RemoteError) -> None:
        """Record a failure; posts read before it are kept, and the account is retried after the shortest interval."""
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
    """Return how many accounts to read at a time: more than requests, so that none is idle while a page is stored."""
    return requests + requests // 2


def chosen_accounts(shop: Workshop, request: PollRequest) -> list[AccountRow]:
    """Return the accounts to poll: those named, all that are not paused, or those that are due now."""
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
