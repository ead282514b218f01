"""The console's table on a screen: what happens around its mounting."""

from __future__ import annotations

import asyncio

from textual.app import App, ComposeResult

from tidelore.console.table import Cell, RowTable, TableColumn, TableRow

COLUMNS = (TableColumn("name"), TableColumn("runs", right=True))
LINES = [TableRow(f"row {number}", (Cell(f"job {number}"), Cell(str(number))), None) for number in range(3)]


class Filled(App[None]):
    """An app whose table has its lines before it is mounted, as a refresh that comes early brings them."""

    def compose(self) -> ComposeResult:
        table = RowTable(COLUMNS, id="jobs")
        table.set_lines(LINES)
        yield table


def test_a_table_filled_before_mounting_shows_its_rows_once() -> None:
    async def run() -> None:
        app = Filled()
        async with app.run_test() as pilot:
            await pilot.pause()
            table = app.query_one(RowTable)
            assert [str(column.label) for column in table.ordered_columns] == ["name", "runs"]
            assert [str(table.get_row_at(row)[0]) for row in range(table.row_count)] == ["job 0", "job 1", "job 2"]
            table.set_lines(LINES[:2])
            assert table.row_count == 2

    asyncio.run(run())


def test_two_rows_with_the_same_key_are_both_shown() -> None:
    twins = [TableRow("port/ledger#1", (Cell(host), Cell("1")), None) for host in ("one.test", "two.test")]

    async def run() -> None:
        app = Filled()
        async with app.run_test():
            table = app.query_one(RowTable)
            table.set_lines(twins)
            assert [str(table.get_row_at(row)[0]) for row in range(table.row_count)] == ["one.test", "two.test"]
            table.set_lines(twins)
            assert table.row_count == 2

    asyncio.run(run())
