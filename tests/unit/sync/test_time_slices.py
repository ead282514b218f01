"""How long a run may ask: the parts of the stages, the borders a list is left at, and whose turn comes first."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Struct
from tests.support.manual_clock import ManualClock

from tidelore.engine.ports import ListRequest, Page
from tidelore.sync.ingest import in_turn
from tidelore.sync.lists import PARTS, TimedList, TimeIsUp, TimeSlice, never
from tidelore.sync.report import ScopeKey


class Endless:
    """A list that answers whatever it is asked."""

    async def fetch(self, _request: ListRequest) -> Page[str]:
        return Page()

    async def fetch_one(self, _locator: str) -> Page[str]:
        return Page()


class Named(Struct, frozen=True):
    name: str

    @property
    def key(self) -> ScopeKey:
        return "lab", self.name, "gitlab.issues"


def numbered(**numbers: int) -> dict[ScopeKey, int]:
    return {Named(name).key: number for name, number in numbers.items()}


def test_without_a_time_limit_no_stage_is_cut_off() -> None:
    clock = ManualClock()
    is_over = TimeSlice(clock, None).begin("ingest")
    clock.advance(1e9)
    assert not is_over()


def test_each_stage_ends_at_its_share_of_the_time_and_may_use_earlier_leftovers() -> None:
    clock = ManualClock()
    time = TimeSlice(clock, 100.0)
    lists = time.begin("ingest")
    clock.advance(74.5)
    assert not lists()
    clock.advance(0.5)
    assert lists()
    early = TimeSlice(clock, 100.0).begin("dependents")
    clock.advance(89.5)
    assert not early()
    clock.advance(0.5)
    assert early()


def test_a_stage_that_overran_does_not_shorten_the_next_stages_share() -> None:
    clock = ManualClock()
    time = TimeSlice(clock, 100.0)
    clock.advance(500.0)
    assert time.begin("ingest")() is False
    for stage, part in PARTS.items():
        is_over = time.begin(stage)
        clock.advance(100.0 * part - 0.5)
        assert not is_over()
        clock.advance(0.5)
        assert is_over()


def test_the_time_shares_of_all_stages_add_up_to_one() -> None:
    assert sum(PARTS.values()) == pytest.approx(1.0)


def test_a_list_is_interrupted_between_pages_but_not_within_one_instant() -> None:
    over = TimedList(Endless(), lambda: True)
    with pytest.raises(TimeIsUp):
        asyncio.run(over.fetch(ListRequest(since=5)))
    assert asyncio.run(over.fetch(ListRequest(since=5, token="2"))) == Page()
    assert asyncio.run(over.fetch_one("7")) == Page()
    assert asyncio.run(TimedList(Endless(), never).fetch(ListRequest(since=5))) == Page()


def test_lists_without_a_turn_come_first_then_the_least_recently_read() -> None:
    lists = [Named(name) for name in "abcd"]
    order = in_turn(lists, numbered(a=9, b=7, d=8), numbered(c=1, a=0))
    assert [one.name for one in order] == ["c", "b", "d", "a"]


def test_lists_with_equal_turns_are_ordered_by_last_answer_then_by_given_order() -> None:
    lists = [Named(name) for name in "abcd"]
    assert [one.name for one in in_turn(lists, {}, numbered(a=30, b=20, d=20))] == ["c", "b", "d", "a"]


def test_a_failing_list_does_not_stay_first_in_the_order() -> None:
    lists = [Named("refused"), Named("well")]
    assert [one.name for one in in_turn(lists, numbered(refused=5, well=4), numbered(well=900))] == ["well", "refused"]
