"""How often an account is asked: soon after a post, ever later in a silence, never later than the bound."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.sync.account_poll import SHARE, SPREAD, Pace, next_interval

PACE = Pace(15 * 60, 240 * 60)
HOUR = 3600.0
LATEST = 1 - SPREAD / 2
"""What a roll of 0 leaves of an interval."""


def test_an_account_that_just_posted_is_polled_at_the_base_interval() -> None:
    assert next_interval(PACE, 0, 0) == PACE.interval_seconds * LATEST


def test_an_account_that_never_posted_is_polled_at_the_maximum_interval() -> None:
    assert next_interval(PACE, None, 0) == PACE.longest * LATEST


def test_a_longer_silence_never_makes_the_interval_shorter() -> None:
    found = [next_interval(PACE, quiet * 600, 0) for quiet in range(300)]
    assert found == sorted(found)
    assert found[0] < found[12] < found[40]


def test_polling_intervals_are_randomised_so_that_accounts_spread_out() -> None:
    assert next_interval(PACE, HOUR, 0.1) != next_interval(PACE, HOUR, 0.9)


def test_an_account_polled_late_in_a_cycle_is_due_at_the_start_of_the_next() -> None:
    asked_after_seconds = PACE.interval_seconds * SPREAD / 2
    assert asked_after_seconds + next_interval(PACE, 0, 0) <= PACE.interval_seconds


@given(
    interval=st.floats(1, 86_400),
    staleness=st.floats(1, 86_400),
    quiet=st.none() | st.floats(0, 1e10),
    roll=st.floats(0, 1, exclude_max=True),
)
def test_every_account_is_polled_within_the_maximum_interval(
    interval: float, staleness: float, quiet: float | None, roll: float
) -> None:
    pace = Pace(interval, staleness)
    found = next_interval(pace, quiet, roll)
    assert 0 < found <= staleness
    # Where the bound leaves room for both: the interval, and the wait for the next cycle.
    if staleness >= 2 * interval:
        assert found + interval <= staleness * (1 + 1e-9)


@given(quiet=st.floats(0, 1e7), roll=st.floats(0, 1, exclude_max=True))
def test_a_post_is_found_within_half_the_preceding_silence_or_one_interval(quiet: float, roll: float) -> None:
    assert next_interval(PACE, quiet, roll) <= max(quiet * SHARE, PACE.interval_seconds)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_adaptive_polling_of_342_typical_accounts_costs_a_third_of_polling_all(seed: int) -> None:
    """342 accounts, of which 10 to 30 post in a quarter of an hour: a few all day, most of them rarely."""
    rng = random.Random(seed)
    rates = [rng.lognormvariate(-4.6, 1.6) for _ in range(342)]  # posts in a quarter of an hour
    cycles, asked, active = 4 * 24 * 7, 0, 0
    last_post = [0.0] * len(rates)
    seen_post = [0.0] * len(rates)
    due = [0.0] * len(rates)
    for cycle in range(cycles):
        now = cycle * PACE.interval_seconds
        for index, rate in enumerate(rates):
            if rng.random() < 1 - 2.718281828 ** (-rate):
                last_post[index] = now
                active += 1
            if due[index] > now:
                continue
            asked += 1
            new = last_post[index] > seen_post[index]
            seen_post[index] = last_post[index]
            due[index] = now + next_interval(PACE, 0.0 if new else now - seen_post[index], rng.random())
    assert 5 <= active / cycles <= 40
    assert 3 * asked <= cycles * len(rates)
