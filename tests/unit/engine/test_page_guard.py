"""A server whose lists never end is given up with a clear error."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from tests.unit.engine.lists import NOW, PlainScopeStore, item

from tidelore.core.errors import RemotePermanent
from tidelore.engine.cursor import Census
from tidelore.engine.intake import Intake
from tidelore.engine.newest_first import NewestFirstPlan, NewestFirstWalk
from tidelore.engine.ports import ListRequest, Page
from tidelore.engine.scrub import Scrub
from tidelore.engine.walk import Plan, Walk
from tidelore.engine.whole import IDLE_PAGES, MOST_REMEMBERED, PageGuard, read_all, read_by_creation

LATEST = 500
"""A reader that asks so often has not noticed."""


class Endless:
    """A list that always has a next page: a circle of `circle` pages, or new ones for ever."""

    def __init__(self, *, circle: int = 0, items: int = 0, each: str = "") -> None:
        self._circle, self._items, self._each = circle, items, each
        self._ids = count(1)
        self.asked = 0

    async def fetch(self, request: ListRequest) -> Page[str]:
        self.asked += 1
        assert self.asked < LATEST, "nobody stopped it"
        number = int(request.token or 0) + 1
        after = number % self._circle if self._circle else number
        rows = [item(next(self._ids), NOW - 10, self._each) for _ in range(self._items)]
        return Page(rows, next_token=str(after), server_at=NOW)

    async def fetch_one(self, locator: str) -> Page[str]:
        raise AssertionError(locator)


def intake() -> Intake[str]:
    return Intake(PlainScopeStore(), lambda: NOW)


def reason_of(work: object) -> str | None:
    with pytest.raises(RemotePermanent) as raised:
        asyncio.run(work)  # type: ignore[arg-type]
    return raised.value.reason


async def cycle_of(work: Scrub[str]) -> None:
    while not await work.stride():
        pass


async def drain(lister: Endless) -> None:
    async for _ in read_by_creation(lister):
        pass


@pytest.mark.parametrize("circle", [2, 3])
def test_pages_that_lead_back_to_each_other_end_every_walk(circle: int) -> None:
    lists = [Endless(circle=circle, items=1) for _ in range(5)]
    assert reason_of(read_all(lists[0])) == "repeated_page"
    assert reason_of(Walk(lists[1], intake(), Plan()).run()) == "repeated_page"
    assert reason_of(NewestFirstWalk(lists[2], intake(), NewestFirstPlan()).run()) == "repeated_page"
    assert reason_of(cycle_of(Scrub(lists[3], intake()))) == "repeated_page"
    assert reason_of(drain(lists[4])) == "repeated_page"
    # The two that anchor each page at an instant of its items ask once more from there.
    assert max(one.asked for one in lists) <= circle + 2


def test_endless_empty_pages_end_every_walk() -> None:
    lists = [Endless() for _ in range(5)]
    assert reason_of(read_all(lists[0])) == "endless_list"
    assert reason_of(Walk(lists[1], intake(), Plan()).run()) == "endless_list"
    assert reason_of(NewestFirstWalk(lists[2], intake(), NewestFirstPlan()).run()) == "endless_list"
    assert reason_of(cycle_of(Scrub(lists[3], intake()))) == "endless_list"
    assert reason_of(drain(lists[4])) == "endless_list"
    assert [one.asked for one in lists] == [IDLE_PAGES] * 5


def test_endless_children_of_one_parent_end_at_their_bound() -> None:
    endless = Endless(items=10, each="x" * 1000)
    assert reason_of(read_all(endless, max_bytes=100_000)) == "too_many_children"
    assert endless.asked == 11


def test_a_feed_that_leads_in_a_circle_is_read_from_its_top_the_next_time() -> None:
    store = PlainScopeStore()
    assert reason_of(NewestFirstWalk(Endless(circle=2, items=1), Intake(store, lambda: NOW), NewestFirstPlan()).run())
    assert [gap.token for gap in store.open_gaps] == [None]


def test_the_memory_of_a_guard_does_not_grow_with_its_list() -> None:
    guard = PageGuard()
    for number in range(3 * MOST_REMEMBERED // 100):
        guard.look(
            Page([item(100 * number + place, NOW - 10, "") for place in range(100)], next_token=f"page={number + 1}")
        )
    assert len(guard._met) <= MOST_REMEMBERED + 100


def test_a_verification_that_leads_in_a_circle_starts_over_at_its_span_the_next_time() -> None:
    store = PlainScopeStore()
    assert reason_of(cycle_of(Scrub(Endless(circle=2), Intake(store, lambda: NOW))))
    assert store.cursor.census == Census()
