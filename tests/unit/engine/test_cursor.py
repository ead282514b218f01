"""The durable position: its order, its corruption rule, its stored form."""

from __future__ import annotations

import pytest
from tests.unit.engine.lists import NOW

from tidelore.core.model import Position
from tidelore.engine.cursor import (
    SKEW_MS,
    Cursor,
    Window,
    backfilled,
    decode,
    encode,
    forward,
    order_key,
    parse_id,
    why_invalid,
)


def test_a_watermark_only_moves_forward() -> None:
    low, high = Position(100, 9), Position(200, 1)
    assert forward(low, high) == forward(high, low) == high
    assert forward(None, low) == forward(low, None) == low
    assert forward(None, None) is None


def test_numbers_compare_as_numbers_and_names_as_text() -> None:
    assert order_key(Position(1, 10)) > order_key(Position(1, 9))
    assert order_key(Position(1, "at://b")) > order_key(Position(1, "at://a"))
    assert order_key(Position(1, "at://a")) > order_key(Position(1, 0))


@pytest.mark.parametrize(("at", "valid"), [(0, True), (-1, False), (NOW + SKEW_MS, True), (NOW + SKEW_MS + 1, False)])
def test_a_watermark_before_the_epoch_or_in_the_future_is_invalid(at: int, valid: bool) -> None:
    assert (why_invalid(Cursor(watermark=Position(at, 1)), NOW) is None) is valid


def test_an_empty_cursor_is_valid() -> None:
    assert why_invalid(Cursor(), NOW) is None


def test_an_invalid_cursor_becomes_a_bounded_backfill_and_never_the_latest() -> None:
    fresh = backfilled(NOW, 1000)
    assert fresh.watermark == Position(NOW - 1000, 0)
    assert (fresh.window, fresh.validator, fresh.complete) == (None, None, False)
    assert backfilled(500, 1000).watermark == Position(0, 0)


def test_a_window_round_trips_through_its_stored_form() -> None:
    for window in (
        Window(-1, None),
        Window(9, 8, "token", 2, 1, "s", "b", Position(9, 4)),
        Window(9, 8, top=Position(9, "at://x")),
    ):
        assert decode(encode(window), Window) == window
    assert encode(None) is None


@pytest.mark.parametrize("text", [None, "", "nonsense", "{}", "[1]", '{"instant": "x", "since": 1}'])
def test_an_unreadable_window_is_dropped(text: str | None) -> None:
    assert decode(text, Window) is None


def test_stored_ids_are_read_back_as_numbers_or_text() -> None:
    assert parse_id("42") == 42
    assert parse_id("at://did:plc:x/app.bsky.feed.post/3k") == "at://did:plc:x/app.bsky.feed.post/3k"
