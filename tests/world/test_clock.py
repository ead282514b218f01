"""The world's clock and the text forms of instants."""

from __future__ import annotations

import pytest

from tidelore_world.clock import WorldClock, http_date, iso_millis, iso_seconds, parse_iso

NINE = 1_772_442_000_000_000  # 2026-03-02T09:00:00Z


def test_the_world_clock_stands_still_until_advanced() -> None:
    clock = WorldClock("2026-03-02T09:00:00Z")
    assert (clock.now_us, clock.now_us) == (NINE, NINE)
    clock.advance(0.000001)
    clock.advance(61)
    assert clock.now_us == NINE + 61_000_001
    assert clock.iso_ms() == "2026-03-02T09:01:01.000Z"
    assert clock.iso_s() == "2026-03-02T09:01:01Z"


def test_the_world_clock_refuses_to_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        WorldClock("2026-03-02T09:00:00Z").advance(-1)


@pytest.mark.parametrize(
    ("us", "millis", "seconds"),
    [
        (NINE, "2026-03-02T09:00:00.000Z", "2026-03-02T09:00:00Z"),
        (NINE + 123_999, "2026-03-02T09:00:00.123Z", "2026-03-02T09:00:00Z"),
        (NINE + 999_999, "2026-03-02T09:00:00.999Z", "2026-03-02T09:00:00Z"),
        (NINE - 1, "2026-03-02T08:59:59.999Z", "2026-03-02T08:59:59Z"),
    ],
)
def test_formatted_times_are_truncated_and_never_rounded_up(us: int, millis: str, seconds: str) -> None:
    assert iso_millis(us) == millis
    assert iso_seconds(us) == seconds


def test_http_date_is_in_gmt() -> None:
    assert http_date(NINE + 999_999) == "Mon, 02 Mar 2026 09:00:00 GMT"


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2026-03-02T09:00:00Z", NINE),
        ("2026-03-02T09:00:00.123Z", NINE + 123_000),
        ("2026-03-02T09:00:00.123456Z", NINE + 123_456),
        ("2026-03-02T09:00:00.1234569Z", NINE + 123_456),
        ("2026-03-02T10:30:00+01:30", NINE),
        ("2026-03-02T04:00:00-0500", NINE),
        ("2026-03-02T11:00:00+02", NINE),
        ("2026-03-02T09:00:00", NINE),
        ("2026-03-02 09:00Z", NINE),
        ("2026-03-02", NINE - 9 * 3_600_000_000),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_iso_times_are_parsed_to_the_microsecond(text: str, us: int) -> None:
    assert parse_iso(text) == us


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "2026-03-02T25:00:00Z", "1772442000", "2026-03-02T"])
def test_an_invalid_iso_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_iso(text)


def test_a_formatted_time_parses_back() -> None:
    assert parse_iso(iso_millis(NINE + 7_654_321)) == NINE + 7_654_000
