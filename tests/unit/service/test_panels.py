"""How the amounts of an hour are spread over its minutes."""

from __future__ import annotations

import pytest

from tidelore.service.panels import MINUTE_MS, MINUTES, by_minute

NOW = 1_000 * MINUTE_MS + 30_000


def test_what_happened_in_one_minute_stands_there() -> None:
    found = by_minute([(NOW, NOW, 7)], NOW)
    assert len(found) == MINUTES
    assert found[-1] == 7
    assert sum(found) == pytest.approx(7)


def test_what_took_several_minutes_is_spread_over_them() -> None:
    found = by_minute([(NOW - 3 * MINUTE_MS, NOW, 8)], NOW)
    assert found[-4:] == (2, 2, 2, 2)


def test_of_what_began_before_the_hour_only_the_rest_counts() -> None:
    found = by_minute([(NOW - 2 * MINUTES * MINUTE_MS, NOW, 121)], NOW)
    assert sum(found) == pytest.approx(MINUTES)


def test_what_lies_outside_is_left_out_and_clocks_that_jump_break_nothing() -> None:
    hour = MINUTES * MINUTE_MS
    assert sum(by_minute([(NOW - 2 * hour, NOW - hour, 5), (NOW + hour, NOW + hour, 5)], NOW)) == 0
    assert sum(by_minute([(NOW, NOW - hour, 5)], NOW)) == 5
