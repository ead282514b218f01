"""Verification of accounts against their own repositories: what neither a feed nor a resume token can see.

Owns one stride: a page of a collection in the order of writing, compared with what we hold of that span. What is not
held, or in another version, is taken: a backdated post, an edit, what a feed that ended early did not show. What we
hold and the page does not show is asked for by itself; only 'gone' makes a tombstone. The place is durable, so every
difference has a bounded life at a fixed cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from msgspec.structs import replace

from tidelore.core.errors import RateLimited, RemoteError, RemotePermanent
from tidelore.core.model import Item, PostRecord, RemoteId
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import Census
from tidelore.engine.intake import Intake
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.pipeline.account_reading import Reader
from tidelore.pipeline.poll_report import AccountReport
from tidelore.pipeline.record_positions import COLLECTIONS, key_before
from tidelore.pipeline.record_walk import following
from tidelore.sources.bluesky.identity import why_hidden
from tidelore.sources.bluesky.payloads import POST, split_uri
from tidelore.store.mirror.accounts import AccountRow, count_verifiable, least_verified, make_due
from tidelore.store.mirror.posts import PostWriter
from tidelore.store.work.leases import fence

MAX_QUESTIONS = 20
"""How many missing posts one stride asks for; if more are missing, the next starts at the same place."""
MOST_AT_ONCE = 1000


async def verify(reader: Reader, budget: int, requests: Callable[[], int], before: int) -> list[AccountReport]:
    """Verify accounts, the least recently verified first, until the budget is spent or all were since `before`."""
    reports: list[AccountReport] = []
    spent_before = requests()
    for account in _turns(reader, budget, before):
        if requests() - spent_before >= budget:
            break
        report = AccountReport(account.did, account.handle, "records", initial=False)
        reports.append(report)
        try:
            work = Verification(reader, account, report)
            while not await work.stride() and requests() - spent_before < budget:
                pass
        except RemoteError as error:
            _note(reader, report, error)
            if isinstance(error, RateLimited):
                break
    return reports


def _note(reader: Reader, report: AccountReport, error: RemoteError) -> None:
    """Note why an account was not verified. One that its server does not show any more is left to the next poll."""
    hidden = why_hidden(error) if isinstance(error, RemotePermanent) else None
    if hidden is None:
        report.error = error
        return
    report.refused = f"account {hidden}"
    session = reader.session
    with session.shop.database.transaction() as tx:
        fence(tx, session.lease)
        make_due(tx, [report.did], session.shop.clock.now_ms())


def _turns(reader: Reader, budget: int, before: int) -> list[AccountRow]:
    """Return whose turn it is. Each costs a request at least, so no more than the budget are needed.

    Those whose server does not answer stay the least recently verified: every second run, not by parity, begins
    further down, so that they do not keep the turn for ever.
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


async def verify_whole(reader: Reader, accounts: Sequence[AccountRow]) -> list[AccountReport]:
    """Verify accounts from their beginning to their end, whatever it costs; not those that were never read whole."""
    reports = []
    for account in accounts:
        if not reader.shelf(account, reader.mode_of(account)).load().complete:
            continue
        report = AccountReport(account.did, account.handle, "records", initial=False)
        reports.append(report)
        try:
            work = Verification(reader, account, report)
            work.begin_anew()
            while not await work.stride():
                pass
        except RemoteError as error:
            _note(reader, report, error)
    return reports


class Verification:
    """One account while it is being verified."""

    def __init__(self, reader: Reader, account: AccountRow, report: AccountReport) -> None:
        shop = reader.session.shop
        self._reader = reader
        self._account = account
        self._report = report
        self._shelf: PostWriter = reader.shelf(account, reader.mode_of(account))
        self._intake: Intake[PostRecord] = Intake(self._shelf, shop.clock.now_ms, shop.seam)
        self._per_page = 100
        report.tally = self._intake.tally

    def begin_anew(self) -> None:
        """Forget how far a verification under way has come."""
        cursor = self._shelf.load()
        self._shelf.commit(Batch((), replace(cursor, census=Census(verified_at=cursor.census.verified_at))))

    async def stride(self) -> bool:
        """Verify one more page; return whether that completed the account."""
        done = await self._reader.at_home(self._account, self._stride_at)
        self._report.links = self._shelf.links
        return done

    async def _stride_at(self, home: str) -> bool:
        cursor = self._shelf.load()
        census, reach = cursor.census, cursor.log
        # Where nobody knows since when it is held, only what is held is verified: else its whole past would come.
        floor = self._intake.now_ms() if reach is None else reach.floor
        collection, key = _place(census)
        held = {str(uri) for uri in self._shelf.held(0, None) if split_uri(str(uri)).collection == collection}
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
    """Return the key behind which a verification begins: before the floor, and before all that is held."""
    least = min((split_uri(uri).rkey for uri in held), default=None)
    start = key_before(floor) or ""
    # One character less sorts before the key itself.
    return start if least is None else min(start, least[:-1])


def is_wanted(item: Item[PostRecord], held: Set[str], floor: int) -> bool:
    """Return whether the copy should hold an item: it was written since the floor, or is held already."""
    return item.at >= floor or item.record.uri in held


def _place(census: Census) -> tuple[str, str]:
    collection, _, key = (census.token or f"{POST} ").partition(" ")
    return collection, key


def _within(uri: str, after: str, upto: str | None) -> bool:
    key = split_uri(uri).rkey
    return key > after and (upto is None or key <= upto)


async def _ask(lister: Lister[PostRecord], missing: Sequence[str]) -> tuple[list[Page[PostRecord]], list[RemoteId]]:
    """Ask by itself for each post that was not met: what is there, and what is gone."""
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
    """Return the census after a verified page: at the next one, at the next collection, or at its end."""
    started = census.started_at if census.token is not None else server_at
    rest = COLLECTIONS[COLLECTIONS.index(collection) + 1 :] if collection in COLLECTIONS else ()
    if upto is None and not rest:
        return Census(verified_at=started)
    token = f"{collection} {upto}" if upto is not None else f"{rest[0]} "
    return Census(after=1, started_at=started, verified_at=census.verified_at, token=token)
