"""A page is fetched while the page before it is stored: never further ahead, in order, and errors come in order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.engine.lists import NOW, PlainScopeStore, Script, item

from tidelore.core.concurrency import WriterThread
from tidelore.core.errors import RemoteTransient, StorageFailed
from tidelore.core.model import RemoteId
from tidelore.engine.intake import Intake
from tidelore.engine.log import KeyScheme, LogPlan, LogWalk
from tidelore.engine.newest_first import NewestFirstPlan, NewestFirstWalk
from tidelore.engine.ports import Batch, ListRequest, Page
from tidelore.engine.walk import Plan, Walk
from tidelore.sync.lists import TimedList, TimeIsUp

SLOW_SECONDS = 0.01
PAGES = 5


@pytest.fixture
def thread() -> Iterator[WriterThread]:
    thread = WriterThread()
    yield thread
    thread.close()


class Observed(Script):
    """A list that remembers how many pages were committed when each page was requested."""

    def __init__(self, store: PlainScopeStore, *pages: Page[str] | RemoteTransient) -> None:
        super().__init__(*pages)
        self._store = store
        self.committed: list[int] = []
        self.on_fetch: Callable[[], None] = lambda: None

    async def fetch(self, request: ListRequest) -> Page[str]:
        self.committed.append(len(self._store.batches))
        self.on_fetch()
        return await super().fetch(request)


def slowly(_batch: Batch[Any]) -> None:
    time.sleep(SLOW_SECONDS)


def rising(count: int = PAGES) -> list[Page[str]]:
    """Pages of a list by update time."""
    return [Page([item(n, 100 * n)], next_token=None if n == count else str(n)) for n in range(1, count + 1)]


def of_log(count: int = PAGES) -> list[Page[str]]:
    return [Page([item(f"p/{n}", n)], next_token=None if n == count else str(n)) for n in range(1, count + 1)]


def split(key: RemoteId) -> tuple[str, str]:
    part, _, rest = str(key).partition("/")
    return part, rest


KEYS = KeyScheme(split, int, str)


def updated(lister: TimedList[str] | Observed, intake: Intake[str]) -> Any:
    return Walk(lister, intake, Plan()).run()


def falling(lister: Observed, intake: Intake[str]) -> Any:
    return NewestFirstWalk(lister, intake, NewestFirstPlan(0, NOW, 100)).run()


def logged(lister: Observed, intake: Intake[str]) -> Any:
    return LogWalk({"p": lister}, intake, LogPlan(KEYS, 5)).run()


@pytest.mark.parametrize(("walk", "pages"), [(updated, rising()), (falling, rising()), (logged, of_log())])
def test_a_page_is_fetched_while_the_page_before_it_is_stored_and_no_further_ahead(
    thread: WriterThread, walk: Callable[[Observed, Intake[str]], Any], pages: list[Page[str]]
) -> None:
    store = PlainScopeStore()
    store.on_commit = slowly
    lister = Observed(store, *pages)
    tally = asyncio.run(walk(lister, Intake(store, lambda: NOW, thread=thread)))
    assert lister.committed == [0, *range(PAGES - 1)], "the page before the one that is being stored is committed"
    assert [entry.version.id for batch in store.batches for entry in batch.items] == [
        entry.version.id for page in pages for entry in page.items
    ]
    assert tally.pages == PAGES


def test_an_error_in_the_page_fetched_ahead_is_raised_after_the_page_before_it_is_committed(
    thread: WriterThread,
) -> None:
    store = PlainScopeStore()
    store.on_commit = slowly
    intake = Intake(store, lambda: NOW, thread=thread)
    lister = Observed(store, *rising()[:2], RemoteTransient("try later"))
    with pytest.raises(RemoteTransient, match="try later"):
        asyncio.run(updated(lister, intake))
    assert set(store.items) == {1, 2}
    assert intake.tally.pages == 2


def test_a_page_fetched_ahead_of_a_commit_that_fails_is_not_stored(thread: WriterThread) -> None:
    store = PlainScopeStore()

    def refuse_the_second(batch: Batch[Any]) -> None:
        slowly(batch)
        if batch.items and batch.items[0].version.id == 2:
            raise StorageFailed("the disk is full")

    store.on_commit = refuse_the_second
    intake = Intake(store, lambda: NOW, thread=thread)
    lister = Observed(store, *rising()[:2], RemoteTransient("the error of the page ahead comes second"))
    with pytest.raises(StorageFailed):
        asyncio.run(updated(lister, intake))
    assert set(store.items) == {1}
    assert len(lister.committed) == 3


def test_a_cancelled_walk_ends_when_the_page_that_is_being_stored_is_committed_and_counted(
    thread: WriterThread,
) -> None:
    store, begun, go_on = PlainScopeStore(), threading.Event(), threading.Event()

    def wait(_batch: Batch[Any]) -> None:
        begun.set()
        assert go_on.wait(10)

    store.on_commit = wait
    intake = Intake(store, lambda: NOW, thread=thread)

    async def cancel_while_storing() -> None:
        task = asyncio.create_task(updated(Observed(store, *rising()), intake))
        await asyncio.to_thread(begun.wait)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done(), "the commit goes on"
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_while_storing())
    assert set(store.items) == {1}
    assert intake.tally.pages == 1


def test_a_page_fetched_ahead_when_the_time_is_up_is_stored_and_none_is_requested_after_it(
    thread: WriterThread,
) -> None:
    store, over = PlainScopeStore(), False
    store.on_commit = slowly
    intake = Intake(store, lambda: NOW, thread=thread)
    lister = Observed(
        store, *(Page([item(n, 100 * n), item(-n, 100 * n + 1)], next_token="next") for n in range(1, PAGES))
    )

    def end_in_the_third() -> None:
        nonlocal over
        over = len(lister.committed) == 3

    lister.on_fetch = end_in_the_third
    timed = TimedList(lister, lambda: over)
    with pytest.raises(TimeIsUp):
        asyncio.run(updated(timed, intake))
    assert {1, 2, 3} == {key for key in store.items if isinstance(key, int) and key > 0}
    assert timed.requests == intake.tally.pages == 3


def test_without_a_writer_thread_no_page_is_fetched_before_the_commit() -> None:
    store = PlainScopeStore()
    lister = Observed(store, *rising())
    asyncio.run(updated(lister, Intake(store, lambda: NOW)))
    assert lister.committed == [*range(PAGES)]
