"""How the amounts of an hour are spread over its minutes."""

from __future__ import annotations

import pytest

from tidelore.app.positions import MINUTE_MS, MINUTES, by_minute

NOW = 1_000 * MINUTE_MS + 30_000


def test_items_of_a_run_within_one_minute_are_counted_in_that_minute() -> None:
    found = by_minute([(NOW, NOW, 7)], NOW)
    assert len(found) == MINUTES
    assert found[-1] == 7
    assert sum(found) == pytest.approx(7)


def test_items_of_a_longer_run_are_spread_over_its_minutes() -> None:
    found = by_minute([(NOW - 3 * MINUTE_MS, NOW, 8)], NOW)
    assert found[-4:] == (2, 2, 2, 2)


def test_a_run_that_began_before_the_last_hour_counts_partially() -> None:
    found = by_minute([(NOW - 2 * MINUTES * MINUTE_MS, NOW, 121)], NOW)
    assert sum(found) == pytest.approx(MINUTES)


def test_runs_outside_the_hour_are_ignored_and_a_run_ending_before_its_start_counts() -> None:
    hour = MINUTES * MINUTE_MS
    assert sum(by_minute([(NOW - 2 * hour, NOW - hour, 5), (NOW + hour, NOW + hour, 5)], NOW)) == 0
    assert sum(by_minute([(NOW, NOW - hour, 5)], NOW)) == 5
