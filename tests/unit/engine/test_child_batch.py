"""The children of several parents are committed together: whole parents, few commits, nothing left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pytest
from tests.unit.engine.lists import NOW, Script, item
from tests.unit.engine.test_child_sync import SETTLE_MS, Nest, parent, there

from tidelore.core.concurrency import Pending, WriterThread
from tidelore.core.errors import IntegrityError, RateLimited
from tidelore.engine.child_batch import MOST_TOGETHER
from tidelore.engine.child_sync import ChildSync
from tidelore.engine.ports import ListRequest, Page
from tidelore.engine.whole import CHUNK_BYTES, ChildReading

CONCURRENCY = 3
T = TypeVar("T")


@pytest.fixture
def thread() -> Iterator[WriterThread]:
    thread = WriterThread()
    yield thread
    thread.close()


class Held(Nest):
    """A store whose first commit waits until it may go on."""

    def __init__(self, count: int) -> None:
        super().__init__(*(parent(n) for n in range(1, count + 1)))
        self.go_on = threading.Event()
        self.go_on.set()
        self.broken: int | None = None

    def replace(self, readings: Sequence[ChildReading[str]]) -> int:
        assert self.go_on.wait(10)
        if any(one.parent.id == self.broken for one in readings):
            raise IntegrityError("the database refused a row")
        return super().replace(readings)


def work_of(nest: Held, thread: WriterThread | None, lists: dict[int, Script] | None = None) -> ChildSync[str]:
    found = lists or {}
    return ChildSync(
        nest,
        lambda p: [found.get(p.id) or Script(Page([item(p.id, 1)], server_at=NOW + SETTLE_MS))],
        there,
        concurrency=CONCURRENCY,
        settle_ms=SETTLE_MS,
        thread=thread,
    )


def test_parents_that_are_ready_are_committed_together_up_to_a_limit_and_all_are_counted(thread: WriterThread) -> None:
    count = 2 * MOST_TOGETHER + 10
    nest = Held(count)
    work = work_of(nest, thread)
    tally = asyncio.run(work.read(work.ready(NOW)))
    assert sorted(key for commit in nest.commits for key in commit) == list(range(1, count + 1))
    assert [len(commit) for commit in nest.commits] == [MOST_TOGETHER, MOST_TOGETHER, 10]
    assert (tally.fetched, tally.settled, tally.changed) == (count, count, count)


def test_a_store_that_is_slow_lets_no_more_than_two_batches_wait(thread: WriterThread) -> None:
    nest = Held(500)
    nest.go_on.clear()
    asked = 0

    class Counted(Script):
        async def fetch(self, request: ListRequest) -> Page[str]:
            nonlocal asked
            asked += 1
            return await super().fetch(request)

    work = work_of(nest, thread, {n: Counted(Page([item(n, 1)], server_at=NOW)) for n in range(1, 501)})

    async def run() -> None:
        task = asyncio.create_task(work.read(work.ready(NOW)))
        await asyncio.sleep(0.2)
        assert asked == 2 * MOST_TOGETHER + CONCURRENCY
        nest.go_on.set()
        await task

    asyncio.run(run())
    assert len(nest.written) == 500


def test_a_full_batch_is_handed_to_the_thread_before_the_one_before_it_is_stored() -> None:
    nest = Held(2 * MOST_TOGETHER)
    nest.go_on.clear()
    handed = 0

    class Counted(WriterThread):
        def begin(self, work: Callable[[], T]) -> Pending[T]:
            nonlocal handed
            handed += 1
            return super().begin(work)

    thread = Counted()
    work = work_of(nest, thread)

    async def run() -> None:
        task = asyncio.create_task(work.read(work.ready(NOW)))
        await asyncio.sleep(0.2)
        assert (handed, nest.commits) == (2, [])
        nest.go_on.set()
        await task

    asyncio.run(run())
    thread.close()
    assert [len(commit) for commit in nest.commits] == [MOST_TOGETHER, MOST_TOGETHER]


def test_large_children_are_committed_without_waiting_for_other_parents(thread: WriterThread) -> None:
    nest = Held(3)
    big = {n: Script(Page([item(n, 1, "x" * CHUNK_BYTES)], server_at=NOW)) for n in (1, 2, 3)}
    work = work_of(nest, thread, big)
    asyncio.run(work.read(work.ready(NOW)))
    assert [len(commit) for commit in nest.commits] == [1, 1, 1]


def test_parents_that_were_read_before_the_rate_limit_are_stored(thread: WriterThread) -> None:
    nest = Held(9)
    work = work_of(nest, thread, {9: Script(RateLimited("wait an hour"))})
    with pytest.raises(RateLimited):
        asyncio.run(work.read(work.ready(NOW)))
    assert sorted(key for key, _, _ in nest.written) == [*range(1, 9)]
    assert work.tally.fetched == 8


def test_parents_that_were_read_before_a_cancellation_are_stored_and_counted(thread: WriterThread) -> None:
    nest = Held(30)
    nest.go_on.clear()
    work = work_of(nest, thread)

    async def run() -> None:
        task = asyncio.create_task(work.read(work.ready(NOW)))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.01)
        nest.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert len(nest.written) == work.tally.fetched == 30


def test_a_parent_that_cannot_be_stored_does_not_keep_the_parents_before_it_from_being_stored(
    thread: WriterThread,
) -> None:
    nest = Held(8)
    nest.broken = 5
    work = work_of(nest, thread)
    with pytest.raises(IntegrityError):
        asyncio.run(work.read(work.ready(NOW)))
    assert nest.commits == [[1], [2], [3], [4]]


def test_a_batch_that_waits_for_the_thread_is_stored_and_counted_although_the_one_before_it_fails(
    thread: WriterThread,
) -> None:
    nest = Held(2 * MOST_TOGETHER)
    nest.go_on.clear()
    nest.broken = 1
    work = work_of(nest, thread)

    async def run() -> None:
        task = asyncio.create_task(work.read(work.ready(NOW)))
        await asyncio.sleep(0.2)
        nest.go_on.set()
        with pytest.raises(IntegrityError):
            await task

    asyncio.run(run())
    assert [len(commit) for commit in nest.commits] == [MOST_TOGETHER]
    assert work.tally.fetched == MOST_TOGETHER
