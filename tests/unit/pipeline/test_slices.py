"""How long a run may ask: the parts of the stages, the borders a list is left at, and whose turn comes first."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Struct
from tests.support.manual_clock import ManualClock

from tidelore.engine.ports import ListRequest, Page
from tidelore.pipeline.slices import PARTS, ScopeKey, Slice, Timed, TimeIsUp, in_turn, never


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


def test_without_a_limit_no_stage_has_an_end() -> None:
    clock = ManualClock()
    is_over = Slice(clock, None).begin("ingest")
    clock.advance(1e9)
    assert not is_over()


def test_each_stage_ends_at_its_mark_and_may_take_what_those_before_it_left() -> None:
    clock = ManualClock()
    time = Slice(clock, 100.0)
    lists = time.begin("ingest")
    clock.advance(74.5)
    assert not lists()
    clock.advance(0.5)
    assert lists()
    early = Slice(clock, 100.0).begin("dependents")
    clock.advance(89.5)
    assert not early()
    clock.advance(0.5)
    assert early()


def test_an_answer_that_comes_late_takes_nothing_of_the_next_stage() -> None:
    clock = ManualClock()
    time = Slice(clock, 100.0)
    clock.advance(500.0)
    assert time.begin("ingest")() is False
    for stage, part in PARTS.items():
        is_over = time.begin(stage)
        clock.advance(100.0 * part - 0.5)
        assert not is_over()
        clock.advance(0.5)
        assert is_over()


def test_the_parts_are_the_whole() -> None:
    assert sum(PARTS.values()) == pytest.approx(1.0)


def test_a_list_is_left_before_a_page_but_not_inside_an_instant_that_fills_several() -> None:
    over = Timed(Endless(), lambda: True)
    with pytest.raises(TimeIsUp):
        asyncio.run(over.fetch(ListRequest(since=5)))
    assert asyncio.run(over.fetch(ListRequest(since=5, token="2"))) == Page()
    assert asyncio.run(over.fetch_one("7")) == Page()
    assert asyncio.run(Timed(Endless(), never).fetch(ListRequest(since=5))) == Page()


def test_who_had_no_turn_comes_first_then_by_how_long_ago_it_was() -> None:
    lists = [Named(name) for name in "abcd"]
    order = in_turn(lists, numbered(a=9, b=7, d=8), numbered(c=1, a=0))
    assert [one.name for one in order] == ["c", "b", "d", "a"]


def test_of_equals_the_longest_unheard_of_comes_first_then_the_order_they_are_given_in() -> None:
    lists = [Named(name) for name in "abcd"]
    assert [one.name for one in in_turn(lists, {}, numbered(a=30, b=20, d=20))] == ["c", "b", "d", "a"]


def test_a_list_that_cannot_be_read_does_not_stay_the_first() -> None:
    lists = [Named("refused"), Named("well")]
    assert [one.name for one in in_turn(lists, numbered(refused=5, well=4), numbered(well=900))] == ["well", "refused"]
