"""Who gives way on a narrow terminal, and what is left to read."""

from __future__ import annotations

import pytest

from tidelore.console.table import NAME, READABLE, choose_columns, clip, fit_widths
from tidelore.core.text import width


def test_every_column_gets_its_preferred_width_when_there_is_room() -> None:
    assert fit_widths([20, 10, 5, 40], [12, 10, 5, 4], 100) == (20, 10, 5, 40)


def test_the_last_column_takes_the_remaining_width() -> None:
    assert fit_widths([20, 10, 90], [12, 10, 4], 60) == (20, 10, 30)


def test_the_widest_column_shrinks_until_the_last_one_is_readable() -> None:
    widths = fit_widths([22, 14, 16, 5, 80], [12, 14, 12, 5, 4], 68)
    assert widths[-1] == READABLE
    assert sum(widths) == 68
    assert widths[1] == 14
    assert widths[3] == 5


def test_a_long_name_column_shrinks_for_the_last_column_and_a_short_one_does_not() -> None:
    assert fit_widths([40, 10, 90], [12, 10, 4], 72) == (38, 10, 24)
    assert fit_widths([NAME, 20, 90], [12, 20, 4], 66) == (NAME, 20, 22)
    assert fit_widths([NAME, 28, 90], [12, 28, 4], 66) == (NAME, 28, 14)


def test_no_column_is_dropped_when_there_is_room() -> None:
    assert choose_columns([8, 5, 6, 30], [8, 5, 6, 10], [0, 2, 1, 0], 2, 41) == [0, 1, 2, 3]


def test_the_least_important_columns_are_dropped_first_and_only_as_many_as_needed() -> None:
    assert choose_columns([8, 5, 6, 30], [8, 5, 6, 10], [0, 2, 1, 0], 2, 40) == [0, 2, 3]
    assert choose_columns([8, 5, 6, 30], [8, 5, 6, 10], [0, 2, 1, 0], 2, 33) == [0, 3]


def test_required_columns_are_shown_on_any_width() -> None:
    assert choose_columns([8, 5, 6, 30], [8, 5, 6, 10], [0, 2, 1, 0], 2, 3) == [0, 3]


def test_the_last_column_is_dropped_when_it_is_optional() -> None:
    assert choose_columns([8, 5, 30], [8, 5, 10], [0, 0, 1], 2, 20) == [0, 1]


def test_no_column_shrinks_below_its_minimum_width() -> None:
    assert fit_widths([22, 14, 80], [12, 14, 4], 20) == (12, 14, 4)


def test_a_single_column_takes_the_whole_width() -> None:
    assert fit_widths([50], [4], 30) == (30,)


@pytest.mark.parametrize(
    ("yields", "seen"), [("end", "harborline/t…"), ("beginning", "…/tracking#22")], ids=["end", "beginning"]
)
def test_a_clipped_text_shows_an_ellipsis_where_it_was_cut(yields: str, seen: str) -> None:
    shown = clip("harborline/tracking#22", 13, "end" if yields == "end" else "beginning")
    assert shown == seen
    assert width(shown) == 13
    assert clip("ledger#2", 13, "beginning") == "ledger#2"
