"""When the reviews of a pull request are read: once for each move, and once more where that second was not over."""

from __future__ import annotations

import pytest

from tidelore.feedback.pull_requests import are_reviews_due, reviews_read_for

MOVED, OVERLAP = 1_700_000_000_000, 5_000


def test_reviews_read_after_the_update_second_are_not_due_again() -> None:
    read_for = reviews_read_for(MOVED, MOVED + OVERLAP, OVERLAP)
    assert read_for == MOVED
    assert not are_reviews_due(MOVED, read_for, MOVED + 86_400_000, OVERLAP)


def test_reviews_read_within_the_update_second_are_due_again_once_it_is_over() -> None:
    read_for = reviews_read_for(MOVED, MOVED, OVERLAP)
    assert not are_reviews_due(MOVED, read_for, MOVED, OVERLAP), "asking again in the same second would never end"
    assert are_reviews_due(MOVED, read_for, MOVED + OVERLAP, OVERLAP)


@pytest.mark.parametrize("read_for", [None, MOVED - 1000])
def test_an_updated_pull_request_has_its_reviews_read_at_once(read_for: int | None) -> None:
    assert are_reviews_due(MOVED, read_for, MOVED, OVERLAP)


def test_the_settling_time_is_a_whole_second_even_without_an_overlap() -> None:
    assert reviews_read_for(MOVED, MOVED + 999, 0) == MOVED - 1
    assert reviews_read_for(MOVED, MOVED + 1000, 0) == MOVED
