"""Who gives way on a narrow terminal, and what is left to read."""

from __future__ import annotations

import pytest

from tidelore.console.fitting import READABLE, clip, fit
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
