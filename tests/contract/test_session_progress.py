"""What a run tells of itself reaches its row whatever stage tells it, and hinders nobody when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.faces.hosts import SteadyClock

from tidelore.core.config import Config, Sync
from tidelore.core.errors import LeaseLost
from tidelore.core.progress import EmbedReport, OnProgress, Progress, silent
from tidelore.engine.crashpoint import no_seam
from tidelore.store.database.port import Database
from tidelore.store.work.runs import RunRecord, list_records
from tidelore.store.work.session import Session, Workshop, open_session
from tidelore.sync.mirror import MirrorRequest, mirror
from tidelore.sync.report import RequestCount, also_to_ledger


@pytest.fixture
def steady() -> SteadyClock:
    return SteadyClock()


def shop_on(database: Database, clock: SteadyClock, beat_seconds: float = 30) -> Workshop:
    return Workshop(database, Config(sync=Sync(heartbeat_interval_seconds=beat_seconds)), clock, no_seam, "test")


def newest(database: Database) -> RunRecord:
    return list_records(database, 1)[0][0]


def within(shop: Workshop, act: Callable[[Session], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_session(shop, force=False) as session:
            await act(session)

    asyncio.run(run())


def test_progress_of_a_stage_reaches_the_run_record_and_the_listener(database: Database, steady: SteadyClock) -> None:
    heard: list[Progress] = []
    told = Progress("group/app", "issues", 3, None, "1 pages")

    async def act(session: Session) -> None:
        tell = also_to_ledger(session, heard.append, lambda: 17)
        steady.advance(2)
        tell(told)
        row = newest(database)
        assert (row.progress_done, row.progress_note, row.requests) == (3, "group/app issues: 1 pages", 17)

    within(shop_on(database, steady), act)
    assert heard == [told]
    assert (newest(database).progress_done, newest(database).requests) == (None, 17)


def test_progress_reported_too_early_is_written_by_the_next_heartbeat(database: Database, steady: SteadyClock) -> None:
    async def act(session: Session) -> None:
        session.tell("group/app", "issues", 3, 4, "")
        assert newest(database).progress_done is None
        steady.advance(2)
        session.counters.issues_fetched = 5
        while newest(database).progress_done is None:
            await steady.sleep(0.01)
        assert (newest(database).progress_done, newest(database).issues_fetched) == (3, 5)

    within(shop_on(database, steady, 0.01), lambda session: asyncio.wait_for(act(session), 30))


def test_progress_of_a_closed_run_is_ignored_without_an_error(database: Database, steady: SteadyClock) -> None:
    async def act(session: Session) -> None:
        with database.transaction() as tx:
            tx.execute("UPDATE sync_runs SET status = 'crashed', phase = 'crashed', finished_at = 1")
        before = newest(database)
        steady.advance(2)
        session.tell("group/app", "issues", 3, 4, "")
        assert newest(database) == before

    with pytest.raises(LeaseLost):
        within(shop_on(database, steady), act)


def test_embedding_progress_is_counted_while_running(database: Database, steady: SteadyClock) -> None:
    saw: list[tuple[int, int | None, int | None]] = []

    async def embed(made: EmbedReport, tell: OnProgress) -> None:
        for _ in range(3):
            made.embedded += 10
            steady.advance(2)
            tell(Progress("all projects", "embeddings", made.embedded, 30, "40 vectors"))
            row = newest(database)
            saw.append((row.docs_embedded, row.progress_done, row.progress_total))

    request = MirrorRequest((), walk=False, scrub_budget=0)
    asyncio.run(mirror(shop_on(database, steady), [], request, RequestCount(), silent, embed))
    assert saw == [(10, 10, 30), (20, 20, 30), (30, 30, 30)]
    assert (newest(database).docs_embedded, newest(database).progress_done) == (30, None)
