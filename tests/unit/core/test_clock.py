"""Time: strict timestamps in, one format out, and clocks that a test can hold."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.manual_clock import ManualClock

from tidelore.core.clock import SharedClock, SystemClock, describe_age, format_instant, parse_instant


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-03-02T09:00:00Z", 1_772_442_000_000),
        ("2026-03-02T09:00:00.123Z", 1_772_442_000_123),
        ("2026-03-02T09:00:00.123999Z", 1_772_442_000_123),
        ("2026-03-02T10:00:00+01:00", 1_772_442_000_000),
        ("2026-03-02T01:30:00.500-07:30", 1_772_442_000_500),
        ("2026-03-02t09:00:00Z", 1_772_442_000_000),
        ("2026-03-02 09:00:00Z", 1_772_442_000_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_a_timestamp_with_an_offset_is_parsed(text: str, instant: int) -> None:
    assert parse_instant(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "0",
        "1772442000",
        "2026-03-02",
        "2026-03-02T09:00:00",
        "2026-03-02T09:00:00.123",
        "2026-W10-1T09:00:00Z",
        "20260302T090000.0000Z",
        "2026-03-02T090000.000Z",
        "2026-03-02_09:00:00Z",
        "2026-13-02T09:00:00Z",
        "2026-02-29T09:00:00Z",
        "2026-03-02T25:00:00Z",
        "2026-03-02T09:00:00+25:00",
        "2026-03-02T09:00:00 UTC",
        "0000-00-00T00:00:00Z",
        None,
        1_772_442_000,
    ],
)
def test_an_invalid_timestamp_is_refused_and_never_becomes_zero(text: object) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("instant", [0, 1, 999, 1_772_442_000_123, 253_402_300_799_999])
def test_a_formatted_timestamp_can_be_parsed_back(instant: int) -> None:
    text = format_instant(instant)
    assert len(text) == 24
    assert parse_instant(text) == instant


def test_a_time_beyond_the_calendar_is_shown_as_its_limit() -> None:
    assert format_instant(-5) == "1970-01-01T00:00:00.000Z"
    assert format_instant(10**18) == "9999-12-31T23:59:59.999Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 seconds"),
        (0, "0 seconds"),
        (1, "1 second"),
        (59.9, "59 seconds"),
        (60, "1 minute"),
        (3_599, "59 minutes"),
        (7_200, "2 hours"),
        (86_400, "1 day"),
        (518_400, "6 days"),
        (1_000_000, "1 week"),
        (5_200_000, "2 months"),
        (70_000_000, "2 years"),
    ],
)
def test_an_age_is_shown_in_its_largest_unit(seconds: float, text: str) -> None:
    assert describe_age(seconds) == text


def test_a_manual_clock_moves_only_by_hand() -> None:
    clock = ManualClock(5_000)
    assert (clock.now_ms(), clock.monotonic()) == (5_000, 0.0)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (6_500, 1.5)


def test_sleeping_on_a_manual_clock_returns_at_once_and_is_recorded() -> None:
    clock = ManualClock(0)
    before = SystemClock().monotonic()
    asyncio.run(clock.sleep(3600))
    assert SystemClock().monotonic() - before < 60
    assert clock.slept == [3600]
    assert clock.now_ms() == 3_600_000


def test_the_system_clock_moves_forward() -> None:
    clock = SystemClock()
    first = clock.monotonic()
    asyncio.run(clock.sleep(0.01))
    assert clock.monotonic() - first >= 0.01
    assert clock.now_ms() > 1_700_000_000_000


def test_a_wall_clock_that_is_moved_does_not_move_the_shared_clock() -> None:
    machine = ManualClock()
    clock = SharedClock(machine)
    assert clock.now_ms() == machine.now_ms(), "before it was set"
    clock.set(lambda: 5_000_000)
    machine.set_wall(machine.now_ms() + 3_600_000)
    assert clock.now_ms() == 5_000_000
    machine.advance(20)
    assert clock.now_ms() == 5_020_000
    assert clock.is_due


def test_an_answer_that_took_long_does_not_set_the_shared_clock() -> None:
    machine = ManualClock()
    clock = SharedClock(machine)
    clock.set(lambda: 5_000_000)

    def frozen() -> int:
        machine.advance(600)
        return 5_000_001

    clock.set(frozen)
    assert clock.now_ms() == 5_600_000
    clock.set(lambda: None)
    assert clock.now_ms() == 5_600_000, "a database without a server has no time"
