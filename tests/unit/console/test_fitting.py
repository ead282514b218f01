"""Who gives way on a narrow terminal, and what is left to read."""

from __future__ import annotations

import pytest

from tidelore.console.fitting import NAME, READABLE, choose, clip, fit
from tidelore.remote_text import width


def test_with_room_enough_every_column_is_as_wide_as_it_likes() -> None:
    assert fit([20, 10, 5, 40], [12, 10, 5, 4], 100) == (20, 10, 5, 40)


def test_the_last_column_takes_what_is_left() -> None:
    assert fit([20, 10, 90], [12, 10, 4], 60) == (20, 10, 30)


def test_the_widest_that_may_gives_way_for_the_last_to_be_read() -> None:
    widths = fit([22, 14, 16, 5, 80], [12, 14, 12, 5, 4], 68)
    assert widths[-1] == READABLE
    assert sum(widths) == 68
    assert widths[1] == 14
    assert widths[3] == 5


def test_a_long_name_gives_way_until_the_last_column_has_its_share_and_a_short_one_does_not() -> None:
    assert fit([40, 10, 90], [12, 10, 4], 72) == (38, 10, 24)
    assert fit([NAME, 20, 90], [12, 20, 4], 66) == (NAME, 20, 22)
    assert fit([NAME, 28, 90], [12, 28, 4], 66) == (NAME, 28, 14)


def test_with_room_enough_no_column_is_left_out() -> None:
    assert choose([8, 5, 6, 30], [8, 5, 6, 10], [0, 2, 1, 0], 2, 41) == [0, 1, 2, 3]


def test_what_can_be_spared_most_is_left_out_first_and_no_more_than_needed() -> None:
    assert choose([8, 5, 6, 30], [8, 5, 6, 10], [0, 2, 1, 0], 2, 40) == [0, 2, 3]
    assert choose([8, 5, 6, 30], [8, 5, 6, 10], [0, 2, 1, 0], 2, 33) == [0, 3]


def test_what_cannot_be_spared_is_shown_however_narrow_it_is() -> None:
    assert choose([8, 5, 6, 30], [8, 5, 6, 10], [0, 2, 1, 0], 2, 3) == [0, 3]


def test_the_last_column_may_be_spared_too() -> None:
    assert choose([8, 5, 30], [8, 5, 10], [0, 0, 1], 2, 20) == [0, 1]


def test_nobody_goes_below_his_floor_however_narrow_it_is() -> None:
    assert fit([22, 14, 80], [12, 14, 4], 20) == (12, 14, 4)


def test_a_single_column_has_all_of_it() -> None:
    assert fit([50], [4], 30) == (30,)


@pytest.mark.parametrize(
    ("yields", "seen"), [("end", "harborline/t…"), ("beginning", "…/tracking#22")], ids=["end", "beginning"]
)
def test_what_is_left_out_is_marked_where_it_was(yields: str, seen: str) -> None:
    shown = clip("harborline/tracking#22", 13, "end" if yields == "end" else "beginning")
    assert shown == seen
    assert width(shown) == 13
    assert clip("ledger#2", 13, "beginning") == "ledger#2"
