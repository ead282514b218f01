"""Columns have their widths before anything is painted, and on a narrow terminal the right ones give way."""

from __future__ import annotations

import pytest
from tests.faces.console.stage import Seat, watch

from tidelore.app.wiring import App
from tidelore.console.table import Cell, TableRow


def _lines(name: str, count: int = 3) -> list[TableRow]:
    cells = (Cell(name), Cell("closed"), Cell("137d"), Cell("Vessel matching by name breaks for everybody"))
    return [TableRow(f"{name}{at}", cells, None) for at in range(count)]


def test_rows_keep_their_width_from_the_first_paint(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("search")
        table = seat.table("results")
        for name in ("a/b#1", "harborline/platform/tracking#8"):
            table.set_lines(_lines(name))
            # Painted before the table had a quiet moment to measure anything.
            assert name in "".join(segment.text for segment in table.render_line(1))
            await seat.pilot.pause()
            assert name in seat.text

    watch(copy, look, (80, 24))


@pytest.mark.deep
def test_a_changed_row_is_repainted_completely(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("search")
        table = seat.table("results")
        before = _lines("a/b#1", 1)[0]
        table.set_lines([before])
        after = TableRow(before.key, (Cell("harborline/platform/tracking#8"), *before.cells[1:]), None)
        table.set_lines([after])
        assert "harborline/platform/tracking#8" in "".join(segment.text for segment in table.render_line(1))
        await seat.pilot.pause()
        assert "harborline/platform/tracking#8" in seat.text

    watch(copy, look, (80, 24))


def test_a_long_name_is_clipped_at_its_beginning_without_horizontal_scrolling(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("search")
        table = seat.table("results")
        table.set_lines(_lines("a-very-long-group-of-people/and-their-subgroup/tracking#8"))
        await seat.pilot.pause()
        assert "tracking#8" in seat.text
        assert "Vessel matchi" in seat.text
        assert table.max_scroll_x == 0

    watch(copy, look, (80, 24))


def test_a_narrow_terminal_shortens_the_names_of_screens_and_keeps_the_status(copy: App) -> None:
    async def look(seat: Seat) -> None:
        assert "3 Overview" in seat.lines[0]
        assert "service" in seat.lines[1]
        for columns in (60, 40):
            await seat.pilot.resize_terminal(columns, 18)
            await seat.settle()
            assert "3 Overview" in seat.lines[0]
            assert "4 Feedback" not in seat.lines[0]
            assert " 7" in seat.lines[0]
            assert "service" in seat.lines[1]
        await seat.pilot.resize_terminal(100, 18)
        await seat.settle()
        assert "4 Feedback" in seat.lines[0]

    watch(copy, look, (80, 24))
