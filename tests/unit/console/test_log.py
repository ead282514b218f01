"""Which log entries have to be drawn again."""

from __future__ import annotations

from tidelore.console.log import LogEntry, still_shown


def _entries(first: int, count: int) -> list[LogEntry]:
    # Equal neighbours, as repeated requests leave them.
    return [LogEntry("", "info", "http", f"GET /{at // 2}") for at in range(first, first + count)]


def test_entries_that_left_the_logbook_do_not_cause_a_redraw() -> None:
    shown = _entries(0, 100)
    assert still_shown(shown, _entries(0, 130)) == 100
    assert still_shown(shown, _entries(30, 100)) == 70
    assert still_shown(shown, _entries(31, 100)) == 69
    assert still_shown(shown, _entries(98, 100)) == 2


def test_other_entries_are_drawn_anew() -> None:
    assert still_shown([], _entries(0, 3)) == 0
    assert still_shown(_entries(0, 3), []) == 0
    assert still_shown(_entries(0, 100), _entries(200, 100)) == 0
    assert still_shown(_entries(0, 100), [*_entries(10, 5), *_entries(50, 5)]) == 0
