"""Use-cases of followed Bluesky accounts: manage them, poll, verify, audit and stream them, diagnose the network.

A command that uses the network opens it together with the store, and runs the stages of the command with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import asdict

from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.reports import (
    AccountsPlan,
    ChosenAccount,
    PolledAccounts,
    StreamSummary,
    polled_accounts,
    stream_summary,
)
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.config import Config
from tidelore.core.errors import Cancelled, NotFound, PartialSuccess, TideloreError
from tidelore.core.progress import OnProgress, silent
from tidelore.core.references import FileNames, MemberList, clean_name, parse_target
from tidelore.core.text import one_line
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror import accounts as stored
from tidelore.store.mirror.accounts import AccountRow, Mode
from tidelore.store.mirror.cursors import load_cursor, load_gaps

if TYPE_CHECKING:
    from tidelore.sources.bluesky.source import BlueskySource
    from tidelore.store.work.session import Workshop
    from tidelore.sync.account_poll import PollRequest
    from tidelore.sync.account_stream import StreamReport, StreamRequest
    from tidelore.sync.accounts import FollowResult
    from tidelore.sync.audit import AuditReport
    from tidelore.sync.diagnosis import Finding
    from tidelore.sync.report import PollReport, RequestCount, RunReport

STATES = ("new", "established", "unavailable", "paused")
MODES: tuple[Mode, ...] = ("feed", "records")
ReadingMode = Mode


class Account(Struct, frozen=True, kw_only=True):
    """A followed account."""

    did: Annotated[str, means("its DID")]
    handle: Annotated[str, means("its handle")]
    display_name: Annotated[str | None, means("its display name, or null", untrusted=True)]
    state: Annotated[str, means("new, established, unavailable or paused")]
    reason: Annotated[str | None, means("why it is unavailable or paused, or null")]
    mode: Annotated[str, means("how it is read: feed or records")]
    pds_url: Annotated[str | None, means("the server of its repository if known, or null")]
    added_by: Annotated[
        str,
        means(
            "the command that added it, config: and its name there, follows: and the account it was copied from,"
            " or list: and the list or starter pack"
        ),
    ]
    next_poll_at: Annotated[Instant | None, means("next poll, or null while paused")]
    interval_seconds: Annotated[int, means("its interval")]
    last_post_at: Annotated[Instant | None, means("its last post, or null")]
    last_polled_at: Annotated[Instant | None, means("last poll, or null")]
    posts_fetched_count: Annotated[int, means("posts fetched by polls")]
    failures: Annotated[int, means("number of consecutive failures")]
    last_error: Annotated[str | None, means("last error, or null")]
    created_at: Annotated[Instant, means("start of tracking")]


class AccountList(Struct, frozen=True, kw_only=True):
    """The answer of `lore accounts list`."""

    items: list[Account]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null: the list is complete")] = None
    states: Annotated[dict[str, int], means("number of accounts in each state")]
    configured: Annotated[list[str], means("an account of the configuration that the next poll adds")]


class FeedGap(Struct, frozen=True):
    """A part of a feed that was not read."""

    top_at: Annotated[Instant | None, means("where an open gap begins, or null for the top")]
    floor_at: Annotated[Instant | None, means("down to where it goes, or null")]


class AccountPosition(Struct, frozen=True, kw_only=True):
    """How far an account was read in one mode."""

    surface: Annotated[str, means("bluesky.author_feed or bluesky.records")]
    watermark_at: Annotated[Instant | None, means("time up to which it is complete, or null")]
    complete: Annotated[bool, means("whether its first poll is complete")]
    held_since: Annotated[Instant | None, means("since when it is held, or null")]
    verified_at: Annotated[Instant | None, means("when it was last compared with its repository, or null")]
    gaps: list[FeedGap]


class ShownAccount(Account, frozen=True, kw_only=True):
    """The answer of `lore accounts show`."""

    positions: list[AccountPosition]


class FollowedAccount(Struct, frozen=True):
    """An account that was named to be followed."""

    did: Annotated[str, means("its DID")]
    handle: Annotated[str, means("its handle")]


class UnresolvedName(Struct, frozen=True):
    """A name that no account was found for."""

    account: Annotated[str, means("a name that could not be resolved")]
    line: Annotated[int | None, means("its line in the file with accounts import, otherwise null")]
    code: Annotated[str, means("the code of the error")]
    error: Annotated[str, means("what happened")]

    @property
    def place(self) -> str:
        """The name, with its line number if it comes from a file."""
        name = one_line(self.account)
        return name if self.line is None else f"line {self.line}: {name}"


class FollowedAccounts(Struct, frozen=True):
    """The answer of `lore accounts add`, `import` and `follows`."""

    added: Annotated[list[FollowedAccount], means("the accounts that were added")]
    known: Annotated[list[FollowedAccount], means("the accounts that were followed already")]
    unresolved: list[UnresolvedName]

    @property
    def error(self) -> TideloreError | None:
        """The error of names that could not be resolved, or None."""
        if not self.unresolved:
            return None
        names = ", ".join(one.place for one in self.unresolved)
        accounts = [one.account for one in self.unresolved]
        fix = "check the spelling; if a handle was changed, use the DID"
        if not self.added and not self.known:
            return NotFound(f"could not add {names}", fix=fix, accounts=accounts)
        return PartialSuccess(f"could not add {names}; the others are followed", fix=fix, accounts=accounts)


class ChangedAccount(Struct, frozen=True):
    """An account that was to be changed."""

    did: Annotated[str, means("its DID")]
    handle: Annotated[str, means("its handle")]
    changed: Annotated[bool, means("whether it was changed")]


class AccountChanges(Struct, frozen=True, kw_only=True):
    """Accounts that were to be changed."""

    items: Annotated[list[ChangedAccount], means("the accounts that were named")]


class PausedAccounts(AccountChanges, frozen=True, kw_only=True):
    """The answer of `lore accounts pause`."""

    paused: Annotated[list[ChangedAccount], means("the accounts that were changed")]


class ResumedAccounts(AccountChanges, frozen=True, kw_only=True):
    """The answer of `lore accounts resume`."""

    resumed: Annotated[list[ChangedAccount], means("the accounts that were changed")]


class RemovedAccounts(AccountChanges, frozen=True, kw_only=True):
    """The answer of `lore accounts remove`."""

    removed: Annotated[list[ChangedAccount], means("the accounts that were changed")]


class ResetAccounts(AccountChanges, frozen=True, kw_only=True):
    """The answer of `lore accounts reset`."""

    reset: Annotated[list[ChangedAccount], means("the accounts that were changed")]


class RenamedAccount(Struct, frozen=True):
    """An account with a new handle."""

    before: Annotated[str, means("the old handle")]
    after: Annotated[str, means("the new handle")]


class RefreshedAccounts(Struct, frozen=True):
    """The answer of `lore accounts refresh`."""

    accounts: Annotated[int, means("number of accounts checked")]
    renamed: list[RenamedAccount]


def add_accounts(app: App, names: Sequence[str], mode: Mode | None) -> FollowedAccounts:
    """Follow accounts by handle, DID or URL, and the members of lists and starter packs."""
    targets = list(dict.fromkeys(parse_target(name) for name in names))
    return _follow(app, targets, "lore accounts add", mode)


def import_accounts(app: App, names: FileNames, mode: Mode | None) -> FollowedAccounts:
    """Follow the accounts that a file names."""
    return _follow(app, names.targets, "lore accounts import", mode, names)


def copy_follows(app: App, name: str, mode: Mode | None) -> FollowedAccounts:
    """Follow every account that an account follows."""
    return _followed(run_until_signalled(follow_follows(app, clean_name(name), mode), "no accounts were added"))


def _follow(
    app: App,
    targets: Sequence[str | MemberList],
    added_by: str,
    mode: Mode | None,
    file: FileNames | None = None,
) -> FollowedAccounts:
    found = run_until_signalled(follow_accounts(app, targets, added_by, mode), "no accounts were added")
    if file is not None:
        found.unresolved |= file.refused
        found.lines = file.lines
    return _followed(found)


def _followed(found: FollowResult) -> FollowedAccounts:
    unresolved = [
        UnresolvedName(name, found.lines.get(name), error.code, error.message)
        for name, error in found.unresolved.items()
    ]
    return FollowedAccounts(
        [FollowedAccount(one.did, one.handle) for one in found.created],
        [FollowedAccount(one.did, one.handle) for one in found.known],
        sorted(unresolved, key=lambda one: one.line or 0),
    )


def list_accounts(app: App, state: str | None = None) -> AccountList:
    """Return the followed accounts; configured ones can be listed before the first poll creates the database."""
    config = app.config
    every: list[AccountRow] = []
    counts: dict[str, int] = {}
    try:
        with app.reading() as database:
            every, counts = stored.list_accounts(database), stored.count_accounts(database)
    except NotFound as error:
        if not config.bluesky.accounts:
            error.fix = "add one with `lore accounts add HANDLE`, or point --db at an existing database"
            raise
    items = [account(row, config) for row in every if state in (None, row.state)]
    waiting = stored.configured_only(config.bluesky.accounts, every)
    return AccountList(items=items, total=len(items), states=counts, configured=waiting)


def show_account(app: App, name: str) -> ShownAccount:
    """Return an account with its reading positions."""
    with app.reading() as database:
        row = stored.find_account(database, name)
        positions = [_position(database, row, mode) for mode in MODES]
    return copy_fields(ShownAccount, account(row, app.config), positions=positions)


def account(row: AccountRow, config: Config) -> Account:
    """Return a stored account as an answer."""
    return copy_fields(
        Account,
        row,
        mode=row.mode or config.bluesky.mode,
        next_poll_at=None if row.state == "paused" else instant(row.next_poll_at),
    )


def _position(database: Database, row: AccountRow, mode: Mode) -> AccountPosition:
    scope = stored.account_scope(row, mode)
    cursor, gaps = load_cursor(database, scope), load_gaps(database, scope)
    return AccountPosition(
        surface=scope.surface,
        watermark_at=instant(cursor.watermark.at if cursor.watermark else None),
        complete=cursor.complete,
        held_since=instant(cursor.window.since if cursor.window else None),
        verified_at=instant(cursor.census.verified_at),
        gaps=[FeedGap(instant(gap.top.at if gap.top else None), instant(gap.floor)) for gap in gaps],
    )


Change = Callable[[Transaction, AccountRow, int], bool]


def pause_accounts(app: App, names: Sequence[str], reason: str | None) -> PausedAccounts:
    """Stop polling accounts until they are resumed."""
    items = _change(app, names, lambda tx, row, now: stored.pause_account(tx, row.id, reason, now))
    return PausedAccounts(items=items, paused=[item for item in items if item.changed])


def resume_accounts(app: App, names: Sequence[str]) -> ResumedAccounts:
    """Poll paused accounts again, from where they stopped."""
    items = _change(app, names, lambda tx, row, now: stored.resume_account(tx, row.id, now))
    return ResumedAccounts(items=items, resumed=[item for item in items if item.changed])


def remove_accounts(app: App, names: Sequence[str], *, force: bool) -> RemovedAccounts:
    """Stop following accounts; their posts are kept."""
    items = _change_alone(app, names, "removed", lambda tx, row, _now: stored.remove_account(tx, row.id), force=force)
    return RemovedAccounts(items=items, removed=[item for item in items if item.changed])


def reset_accounts(app: App, names: Sequence[str], *, force: bool) -> ResetAccounts:
    """Reset the reading positions of accounts; the next poll reads each one like a new account."""
    items = _change_alone(app, names, "reset", lambda tx, row, now: stored.reset_account(tx, row.id, now), force=force)
    return ResetAccounts(items=items, reset=[item for item in items if item.changed])


def refresh_handles(app: App, names: Sequence[str]) -> RefreshedAccounts:
    """Update the handles of these accounts, or of all."""
    rows, changed = run_until_signalled(refresh_accounts(app, names))
    return RefreshedAccounts(len(rows), [RenamedAccount(old, new) for old, new in changed])


def _change(app: App, names: Sequence[str], change: Change) -> list[ChangedAccount]:
    with app.reading() as database:
        rows, now = _find(database, names), app.clock.now_ms()
        with database.transaction() as tx:
            return _changed(rows, [row.id for row in rows if change(tx, row, now)])


def _change_alone(app: App, names: Sequence[str], word: str, change: Change, *, force: bool) -> list[ChangedAccount]:
    """Change accounts under the lock, because a running poll relies on them; the change is recorded as a run."""
    from tidelore.store.work.session import open_session
    from tidelore.sync.account_poll import LEASE

    with app.reading() as database:
        rows = _find(database, names)
        shop = app.workshop(database, f"lore accounts {word}")
        note = f"accounts {word} by the operator: {', '.join(row.handle for row in rows)}"

        async def work() -> list[int]:
            async with open_session(shop, force=force, note=note, lease=LEASE) as session:
                with session.writing() as tx:
                    return [row.id for row in rows if change(tx, row, app.clock.now_ms())]

        return _changed(rows, run_until_signalled(work(), "nothing was changed"))


def _find(database: Database, names: Sequence[str]) -> list[AccountRow]:
    rows = [stored.find_account(database, name) for name in names]
    return list({row.id: row for row in rows}.values())


def _changed(rows: Sequence[AccountRow], ids: Sequence[int]) -> list[ChangedAccount]:
    return [ChangedAccount(row.did, row.handle, row.id in ids) for row in rows]


class AccountsPoll(Struct, frozen=True, kw_only=True):
    """The options of a poll; without `accounts` it reads those that are due, with `everyone` also the others."""

    accounts: tuple[str, ...] = ()
    everyone: bool = False
    full: bool = False
    force: bool = False
    documents: bool = True
    account_seconds: float = 120.0


class OpenNetwork(Struct, frozen=True):
    """The Bluesky network and the store, opened for one command."""

    shop: Workshop
    source: BlueskySource
    count: RequestCount


@asynccontextmanager
async def open_network(app: App, command: str, *, create: bool = True) -> AsyncIterator[OpenNetwork]:
    """Open the store and the network until the block ends."""
    from tidelore.sources.bluesky.source import open_bluesky
    from tidelore.store.mirror.source_access import note_access
    from tidelore.sync.report import RequestCount

    count = RequestCount()
    with app.store(create=create) as database:
        wiring = app.wiring(count)
        async with open_bluesky(wiring) as source:
            note_access(database, wiring.accesses, app.clock.now_ms())
            shop = app.workshop(database, command)
            yield OpenNetwork(shop, source, count)


async def poll_accounts(app: App, request: PollRequest, on_progress: OnProgress = silent) -> PollReport:
    """Run one poll cycle."""
    from tidelore.documents.generation import make_documents_if_free
    from tidelore.sync.account_poll import poll

    async with open_network(app, "lore poll bluesky") as opened:
        return await poll(
            opened.shop,
            opened.source,
            request,
            opened.count,
            on_progress,
            make_documents=make_documents_if_free,
        )


def poll_followed(
    app: App, request: AccountsPoll, on_progress: OnProgress
) -> tuple[PolledAccounts, TideloreError | None]:
    """Poll accounts; also return the error of a poll that could not read everything."""
    from tidelore.sync.report import poll_verdict

    report = run_until_signalled(poll_accounts(app, _poll_request(request), on_progress))
    return polled_accounts(report), poll_verdict(report)


def plan_followed(app: App, request: AccountsPoll) -> AccountsPlan:
    """Return which accounts a poll would read, without lock or network."""
    from tidelore.sync.account_poll import chosen_accounts

    with app.store() as database:
        shop = app.workshop(database, "lore poll bluesky")
        rows = chosen_accounts(shop, _poll_request(request))
    chosen = [copy_fields(ChosenAccount, row, mode=row.mode or app.config.bluesky.mode) for row in rows]
    return AccountsPlan(accounts=len(chosen), chosen=chosen)


def follows_accounts(app: App) -> bool:
    """Return whether accounts are configured or followed."""
    if app.config.bluesky.accounts:
        return True
    try:
        with app.store() as database:
            return bool(stored.count_accounts(database))
    except NotFound:
        return False


def _poll_request(request: AccountsPoll) -> PollRequest:
    from tidelore.sync.account_poll import PollRequest

    return PollRequest(**asdict(request))


def stream_posts(
    app: App,
    seconds: float | None,
    on_progress: OnProgress,
    *,
    force: bool = False,
    documents: bool = True,
) -> tuple[StreamSummary, TideloreError | None]:
    """Stream posts until the time is up or a signal; also return the error if it was interrupted."""
    from tidelore.sync.account_stream import StreamReport, StreamRequest

    report = StreamReport()
    interrupted: Cancelled | None = None
    try:
        run_until_signalled(
            stream_accounts(app, StreamRequest(seconds, force, documents=documents), report, on_progress)
        )
    except Cancelled as error:
        interrupted = error
    return stream_summary(report), interrupted


async def scrub_accounts(app: App, budget: int, *, force: bool = False) -> RunReport | None:
    """Verify followed accounts against their repositories; return None if there are none or nothing to spend."""
    from tidelore.documents.generation import make_documents_if_free
    from tidelore.sync.account_poll import PollRequest, poll

    request = PollRequest(force=force, scrub_budget=budget, walk=False)
    async with open_network(app, "lore scrub") as opened:
        if budget <= 0 or not stored.count_accounts(opened.shop.database):
            return None
        make = make_documents_if_free
        return await poll(opened.shop, opened.source, request, opened.count, make_documents=make)


async def diagnose_network(app: App) -> list[Finding]:
    """Check that the network is reachable and that the configured accounts exist."""
    from tidelore.sources.bluesky.source import open_bluesky
    from tidelore.sync.diagnosis import examine_bluesky

    wiring = app.wiring(lambda _metric: None)
    return await examine_bluesky(open_bluesky(wiring), app.config.bluesky)


async def follow_accounts(
    app: App, targets: Sequence[str | MemberList], added_by: str, mode: Mode | None
) -> FollowResult:
    """Follow accounts and the members of lists."""
    from tidelore.sync.accounts import follow_targets

    async with open_network(app, "lore accounts add") as opened:
        return await follow_targets(opened.shop, opened.source, targets, added_by, mode)


async def follow_follows(app: App, name: str, mode: Mode | None) -> FollowResult:
    """Follow every account that an account follows."""
    from tidelore.sync.accounts import follow_follows as follow_them

    async with open_network(app, "lore accounts follows") as opened:
        return await follow_them(opened.shop, opened.source, name, mode)


async def refresh_accounts(app: App, names: Sequence[str]) -> tuple[list[AccountRow], list[tuple[str, str]]]:
    """Update the handles of these accounts, or of all; return the accounts and the handles that changed."""
    from tidelore.store.mirror.accounts import find_account, list_accounts
    from tidelore.sync.accounts import refresh

    async with open_network(app, "lore accounts refresh", create=False) as opened:
        database = opened.shop.database
        rows = [find_account(database, name) for name in names] if names else list_accounts(database)
        return rows, await refresh(opened.shop, opened.source, rows)


async def audit_accounts(app: App, name: str | None, on_progress: OnProgress = silent) -> AuditReport:
    """Compare one account, or all, with the network; writes nothing."""
    from tidelore.store.mirror.accounts import find_account, list_accounts
    from tidelore.sync.account_verification import audit_accounts as compare

    started = app.clock.monotonic()
    async with open_network(app, "lore audit bluesky", create=False) as opened:
        database = opened.shop.database
        rows = list_accounts(database) if name is None else [find_account(database, name)]
        chosen = [row for row in rows if name is not None or row.state != "paused"]
        report = await compare(opened.shop, opened.source, chosen, on_progress)
    report.requests, report.seconds = opened.count.total, app.clock.monotonic() - started
    return report


async def stream_accounts(
    app: App,
    request: StreamRequest,
    report: StreamReport,
    on_progress: OnProgress = silent,
) -> None:
    """Consume the event stream; the report is updated while it runs."""
    from tidelore.documents.generation import make_documents_if_free
    from tidelore.sources.bluesky.stream import build_stream
    from tidelore.sync.account_stream import follow_stream

    with app.store(create=True) as database:
        wiring = app.wiring(lambda _metric: None)
        shop = app.workshop(database, "lore stream bluesky")
        await follow_stream(
            shop,
            lambda dids, cursor: build_stream(wiring, dids, cursor),
            request,
            report,
            on_progress,
            make_documents_if_free,
        )
