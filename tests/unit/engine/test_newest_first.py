"""The spans of a newest-first list: opened, shrunk, joined and closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.engine.lists import NOW, PlainScopeStore, Script, at, item

from tidelore.core.errors import RemoteTransient
from tidelore.core.model import Position
from tidelore.engine.cursor import Cursor, Gap, Validator
from tidelore.engine.intake import Intake
from tidelore.engine.newest_first import (
    LEAST_PAGES,
    NewestFirstPlan,
    NewestFirstWalk,
    close,
    highest,
    open_head,
    shows_what_comes,
    shrink,
)
from tidelore.engine.ports import Page

TOP = Position(900, "at://top")


def descend(script: Script, store: PlainScopeStore, **plan: Any) -> None:
    asyncio.run(NewestFirstWalk(script, Intake(store, lambda: NOW), NewestFirstPlan(**plan)).run())


def test_the_head_scan_stops_at_the_newest_gap_or_the_watermark_or_the_look_back() -> None:
    assert open_head(TOP, [Gap(Position(950, "at://g"), "t", 1)], 5).floor == 950
    assert open_head(TOP, [Gap(None, "t", 1)], 5).floor == 900
    assert open_head(TOP, [], 5).floor == 900
    assert open_head(None, [], 5).floor == 5


def test_a_gap_is_closed_by_an_item_below_its_floor_and_not_by_one_at_it() -> None:
    gap = Gap(None, None, 900)
    assert shrink(gap, at((950, "b"), (900, "a")), "t", 0) == Gap(Position(950, "b"), "t", 900)
    assert shrink(gap, at((950, "b"), (899, "a")), "t", 0) is None
    assert shrink(gap, at((950, "b"), (899, "a")), "t", 1) == Gap(Position(950, "b"), "t", 900)


def test_a_gap_is_closed_by_the_end_of_the_list_and_not_by_an_empty_page() -> None:
    gap = Gap(TOP, "t", 5)
    assert shrink(gap, [], "u", 0) == Gap(TOP, "u", 5)
    assert shrink(gap, at((800, "a")), None, 0) is None


def test_a_closed_gap_raises_the_top_of_the_gap_below_it() -> None:
    below = [Gap(TOP, "t", 5), Gap(Position(4, "at://low"), "u", 1)]
    assert close(Position(950, "b"), below) == [Gap(Position(950, "b"), "t", 5), below[1]]
    assert close(None, below) == below
    assert close(Position(950, "b"), []) == []
    assert highest(None, None) is None


def test_the_watermark_moves_only_when_no_gap_is_open() -> None:
    store = PlainScopeStore(Cursor(watermark=TOP))
    pages = [Page([item(f"at://{n}", n)], next_token=str(n)) for n in (999, 998, 997)]
    descend(Script(*pages), store, max_pages=LEAST_PAGES)
    assert store.cursor.watermark == TOP
    assert store.open_gaps == (Gap(Position(999, "at://999"), "997", 900),)
    script = Script(
        Page([item("at://999", 999), item("at://998", 998)], next_token="x"),
        Page([item("at://899", 899)], next_token="y"),
    )
    descend(script, store, max_pages=LEAST_PAGES)
    assert [request.token for request in script.asked] == [None, "997"]
    assert list(store.open_gaps) == []
    assert store.cursor.watermark == Position(999, "at://999")


def test_a_first_walk_stops_at_the_horizon() -> None:
    store = PlainScopeStore(Cursor(horizon=900))
    script = Script(
        Page([item("at://999", 999)], next_token="t"),
        Page([item("at://900", 900), item("at://899", 899)], next_token="u"),
    )
    descend(script, store, lookback_ms=NOW)
    assert [request.token for request in script.asked] == [None, "t"]
    assert sorted(store.items) == ["at://900", "at://999"]
    assert store.cursor == Cursor(watermark=Position(999, "at://999"), complete=True, horizon=900)


def test_an_item_dated_ahead_of_the_server_moves_the_watermark_only_to_the_servers_time() -> None:
    store = PlainScopeStore(Cursor(watermark=TOP))
    ahead = item("at://ahead", 5000)
    descend(Script(Page([ahead, item("at://older", 850)], next_token="x", server_at=1000)), store)
    assert store.cursor.watermark == Position(1000, 0)
    # A change before that date lies behind it in the list, and is still read.
    script = Script(Page([ahead], next_token="x", server_at=2000), Page([item("at://late", 1500)], server_at=2000))
    descend(script, store)
    assert len(script.asked) == 2


def test_the_watermark_stays_when_the_newest_item_was_deleted() -> None:
    store = PlainScopeStore(Cursor(watermark=TOP))
    descend(Script(Page([item("at://older", 850)])), store)
    assert store.cursor.watermark == TOP


def test_a_pinned_item_does_not_end_the_walk() -> None:
    store = PlainScopeStore(Cursor(watermark=TOP))
    first = Page([item("at://950", 950), item("at://old", 1)], next_token="2", pinned=frozenset({"at://old"}))
    script = Script(first, Page([item("at://940", 940), item("at://890", 890)], next_token="3"))
    descend(script, store)
    assert set(store.items) == {"at://950", "at://old", "at://940", "at://890"}


def test_a_walk_limited_to_one_page_still_reads_a_page_of_its_gap() -> None:
    """Nothing is new, yet the head costs a page to see that: the gap below gets one as well."""
    store = PlainScopeStore(Cursor(), [Gap(TOP, "deep", 5)])
    script = Script(
        Page([item("at://top", 900)], next_token="h"), Page([item("at://b", 890)], next_token="i"),
        Page([item("at://deep", 3)], next_token="z"),
    )  # fmt: skip
    descend(script, store, max_pages=1)
    assert [request.token for request in script.asked] == [None, "h", "deep"]
    assert store.open_gaps == ()


@pytest.mark.parametrize(("status", "forgotten"), [(500, True), (503, False), (None, False)])
def test_a_page_token_the_server_rejects_is_dropped_and_its_gap_read_again(status: int | None, forgotten: bool) -> None:
    store = PlainScopeStore(Cursor(watermark=Position(1, "at://low")), [Gap(TOP, "bad", 5)])
    head = Page([item("at://top", 900), item("at://b", 890)], next_token="h")
    with pytest.raises(RemoteTransient):
        descend(Script(head, RemoteTransient("broken", status=status)), store)
    assert [gap.token for gap in store.open_gaps] == [None if forgotten else "bad"]
    assert store.cursor.watermark == Position(1, "at://low")


@pytest.mark.parametrize(
    ("ages", "next_token", "overlap_ms", "shown"),
    [
        ((0, 0), "2", 0, False),
        ((0, 1_000), "2", 0, False),
        ((0, 1_001), "2", 0, True),
        ((0, 5_000), "2", 5_000, False),
        ((0, 5_001), "2", 5_000, True),
        ((0, 0), None, 5_000, True),
        ((), None, 0, True),
    ],
)
def test_a_full_page_of_updates_of_the_present_second_does_not_show_every_later_change(
    ages: tuple[int, ...], next_token: str | None, overlap_ms: int, shown: bool
) -> None:
    page = Page([item(key, NOW - age) for key, age in enumerate(ages)], next_token=next_token, server_at=NOW)
    assert shows_what_comes(page, overlap_ms) is shown


def test_without_the_servers_clock_a_full_page_is_not_trusted() -> None:
    assert not shows_what_comes(Page([item(1, NOW - 86_400_000)], next_token="2"), 0)


@pytest.mark.parametrize(("age", "kept"), [(0, False), (60_000, True)])
def test_the_validator_of_the_first_page_is_kept_only_if_it_shows_what_comes(age: int, kept: bool) -> None:
    validator = Validator("https://forge.test/pulls", "one")
    first = Page([item(3, NOW), item(2, NOW - age)], next_token="2", server_at=NOW, validator=validator)
    store = PlainScopeStore()
    descend(Script(first, Page([item(1, NOW - age - 1)], server_at=NOW)), store)
    assert store.cursor.complete
    assert store.cursor.validator == (validator if kept else None)
