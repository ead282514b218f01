"""What to ask next: the pure decisions over a list ordered by update time or by id."""

from __future__ import annotations

from tests.unit.engine.lists import NOW, at

from tidelore.core.model import Position
from tidelore.engine.cursor import SKEW_MS, Cursor, Window
from tidelore.engine.window import (
    ALL_TIME,
    Order,
    advance,
    begin,
    believable,
    bounded,
    is_open,
    lasting,
    recall,
)

UPDATED, BY_ID = Order.UPDATED, Order.ID


def test_a_first_walk_starts_at_the_beginning() -> None:
    assert begin(Cursor(), UPDATED, 2000) == Window(instant=-1, since=None)


def test_a_walk_starts_the_overlap_before_its_watermark() -> None:
    assert begin(Cursor(watermark=Position(10_000, 7)), UPDATED, 2000) == Window(instant=8000, since=8000)


def test_the_overlap_does_not_reach_before_the_epoch() -> None:
    assert begin(Cursor(watermark=Position(500, 7)), UPDATED, 2000).since == 0


def test_an_id_ordered_scan_is_one_window_over_all_time() -> None:
    assert begin(Cursor(), BY_ID, 0) == Window(instant=ALL_TIME, since=None)
    assert begin(Cursor(watermark=Position(9000, 1)), BY_ID, 5000) == Window(instant=ALL_TIME, since=4000)


def test_an_interrupted_window_continues_where_it_stopped_and_is_read_once_more() -> None:
    saved = Window(instant=9000, since=8999, token="page 2", pages=1, seen="digest", top=Position(9000, 4))
    resumed = begin(Cursor(watermark=Position(9000, 4), window=saved), UPDATED, 2000)
    assert (resumed.token, resumed.pages, resumed.seen) == ("page 2", 1, "digest")
    assert resumed.since == 7000
    assert resumed.before not in ("", resumed.seen)


def test_a_pass_that_was_interrupted_starts_over_against_the_digest_before_it() -> None:
    saved = Window(instant=9000, since=8999, token="page 2", pages=1, passes=3, seen="half", before="whole")
    resumed = begin(Cursor(watermark=Position(9000, 4), window=saved), UPDATED, 2000)
    assert resumed == Window(instant=9000, since=7000, before="whole", passes=1)


def test_a_remembered_complete_window_is_not_treated_as_interrupted() -> None:
    kept = Window(instant=9000, since=8999, before="whole")
    assert not is_open(kept)
    assert begin(Cursor(watermark=Position(20_000, 4), window=kept), UPDATED, 2000).since == 18_000


def test_the_next_request_starts_at_the_last_instant_of_the_page() -> None:
    step = advance(Window(-1, None), at((100, 1), (200, 2)), "page 2", UPDATED, 1)
    assert step.window == Window(instant=200, since=199)
    assert step.watermark == Position(200, 2)


def test_a_short_page_ends_the_walk() -> None:
    step = advance(Window(-1, None), at((100, 1), (200, 2)), None, UPDATED, 1)
    assert step.window is None
    assert step.watermark == Position(200, 2)


def test_an_empty_list_ends_the_walk_and_does_not_move_the_watermark() -> None:
    step = advance(Window(-1, None), [], None, UPDATED, 1)
    assert (step.window, step.watermark) == (None, None)


def test_an_empty_page_with_a_next_page_is_not_the_end() -> None:
    step = advance(Window(8000, 8000), [], "page 2", UPDATED, 1)
    assert step.window is not None
    assert step.window.token == "page 2"
    assert step.watermark is None


def test_server_page_links_are_followed_while_a_whole_page_shares_one_instant() -> None:
    step = advance(Window(8000, 8000), at((9000, 3), (9000, 2)), "page 2", UPDATED, 1)
    assert step.window is not None
    assert (step.window.token, step.window.instant, step.window.since) == ("page 2", 9000, 8000)
    assert step.watermark == Position(9000, 3)


def test_a_window_of_two_pages_is_read_again_before_moving_on() -> None:
    first = advance(Window(8000, 8000), at((9000, 4), (9000, 3)), "page 2", UPDATED, 1).window
    assert first is not None
    second = advance(first, at((9000, 2), (9500, 9)), "page 3", UPDATED, 1)
    assert second.window is not None
    assert (second.window.token, second.window.passes, second.window.pages) == (None, 1, 0)
    assert second.watermark == Position(9000, 2)


def test_two_identical_passes_end_the_window() -> None:
    pages = (at((9000, 4), (9000, 3)), "page 2"), (at((9000, 2), (9500, 9)), "page 3")
    window: Window | None = Window(8000, 8000)
    for positions, token in pages * 2:
        assert window is not None
        step = advance(window, positions, token, UPDATED, 1)
        window = step.window
    assert window == Window(instant=9500, since=9499)
    assert step.watermark == Position(9500, 9)
    assert step.remember is not None
    assert step.remember.instant == 9000


def test_a_pass_with_a_different_result_is_followed_by_another() -> None:
    window: Window | None = Window(8000, 8000)
    for positions, token in (
        (at((9000, 4), (9000, 3)), "page 2"),
        (at((9000, 1)), None),
        (at((9000, 3), (9000, 2)), "page 2"),
        (at((9000, 1)), None),
    ):
        assert window is not None
        window = advance(window, positions, token, UPDATED, 1).window
    assert window is not None
    assert (window.passes, window.token) == (2, None)


def test_an_id_ordered_scan_moves_its_watermark_only_when_all_of_it_was_read_twice() -> None:
    window: Window | None = Window(ALL_TIME, None)
    marks = []
    for positions, token in ((at((900, 1), (500, 2)), "page 2"), (at((700, 3)), None)) * 2:
        assert window is not None
        step = advance(window, positions, token, BY_ID, 1)
        window = step.window
        marks.append(step.watermark)
    assert marks == [None, None, None, Position(900, 1)]
    assert window is None


def test_an_id_ordered_scan_of_one_page_is_read_once() -> None:
    step = advance(Window(ALL_TIME, None), at((900, 1), (500, 2)), None, BY_ID, 1)
    assert (step.window, step.watermark) == (None, Position(900, 1))


def test_times_after_the_servers_clock_do_not_move_the_watermark() -> None:
    positions = at((NOW, 1), (NOW + SKEW_MS, 2), (NOW + SKEW_MS + 1, 3))
    assert believable(positions, NOW) == positions[:2]
    assert believable(positions, None) == positions


def test_a_watermark_does_not_pass_the_servers_clock_at_the_first_answer() -> None:
    assert bounded(Position(NOW + 1, 5), NOW) == Position(NOW, 0)
    assert bounded(Position(NOW, 5), NOW) == Position(NOW, 5)
    assert bounded(Position(NOW + 1, 5), None) == Position(NOW + 1, 5)
    assert bounded(None, NOW) is None


def test_a_remembered_digest_applies_only_to_the_same_instant() -> None:
    kept = Window(instant=9000, since=None, before="whole")
    assert recall(Window(9000, 8999, token="page 2", pages=1), kept).before == "whole"
    assert recall(Window(9001, 8999), kept).before == ""
    assert recall(Window(9000, 8999, before="own"), kept).before == "own"
    assert recall(Window(9000, 8999), None).before == ""


def test_a_digest_is_kept_after_the_walk_only_when_its_instant_is_over() -> None:
    window = Window(instant=9000, since=8999, before="whole")
    assert lasting(window, 11_000, 2000).before == "whole"
    assert lasting(window, 10_999, 2000).before == ""
    assert lasting(window, None, 2000).before == ""
    assert lasting(Window(ALL_TIME, None, before="whole"), None, 2000).before == "whole"
