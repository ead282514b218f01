"""The queue of workers on a real server: what is put into it at the same time, and what a stopping worker leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tidelore.app.workers.queue import WorkQueue, prepare_queue
from tidelore.core.clock import SystemClock
from tidelore.core.config_file import parse_config
from tidelore.service.turns import DueScope
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.work.worker_queue import waiting_scopes

JOBS = "lore_queue.procrastinate_jobs"
SCOPES = [f"scope {number}" for number in range(40)]


@pytest.fixture
def database(postgres_address: str) -> Iterator[Database]:
    found = open_database(postgres_address)
    prepare_queue(found)
    yield found
    found.close()


def queue_of(address: str, database: Database, work: Callable[[str], Awaitable[None]], due: list[str]) -> WorkQueue:
    """A queue whose every look finds these scopes due."""

    def look() -> list[DueScope]:
        return [DueScope(name, 1.0) for name in due]

    return WorkQueue(address, parse_config({}), SystemClock(), work, look, lambda: waiting_scopes(database))


def test_scopes_that_several_workers_find_at_once_are_in_the_queue_once(
    database: Database, postgres_address: str
) -> None:
    async def never(scope: str) -> None:
        raise AssertionError(scope)

    async def defer_all() -> None:
        queues = [queue_of(postgres_address, database, never, []) for _ in range(4)]
        due = [DueScope(name, float(place)) for place, name in enumerate(SCOPES)]
        for queue in queues:
            await queue._app.open_async()
        try:
            await asyncio.gather(*(queue.defer(due[place:]) for place, queue in enumerate(queues)))
        finally:
            for queue in queues:
                await queue._app.close_async()

    asyncio.run(defer_all())
    rows = database.read(f"SELECT queueing_lock FROM {JOBS} ORDER BY priority")
    assert [name for (name,) in rows] == SCOPES


def test_a_worker_that_stops_leaves_no_job_that_belongs_to_no_worker(database: Database, postgres_address: str) -> None:
    stopped = asyncio.Event()

    async def work(scope: str) -> None:
        assert scope == "first"
        # As if a stop had come between the fetching of a job and its beginning.
        with database.transaction() as tx:
            tx.execute(
                f"INSERT INTO {JOBS} (queue_name, task_name, status, queueing_lock, args)"
                " VALUES ('scopes', 'run_scope', 'doing', 'second', '{\"scope\": \"second\"}')"
            )
        stopped.set()

    async def woken() -> None:
        await stopped.wait()

    async def run() -> None:
        await queue_of(postgres_address, database, work, ["first"]).run(1, stopped.is_set, woken)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert database.read(f"SELECT 1 FROM {JOBS} WHERE status = 'doing'") == []
    assert "second" in waiting_scopes(database)
