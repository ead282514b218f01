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


def shown(table: RowTable, column: int = 0) -> list[str]:
    return [str(table.get_row_at(row)[column]) for row in range(table.row_count)]


def test_numbers_within_names_are_sorted_as_numbers() -> None:
    names = ["tide#10", "tide#9", "Crane!2", "crane!11", "tide", "²"]
    lines = [TableRow(name, (Cell(name), Cell("1")), None) for name in names]

    async def run() -> None:
        app = Filled()
        async with app.run_test() as pilot:
            table = app.query_one(RowTable)
            table.set_lines(lines)
            table.sort_next()
            await pilot.pause()
            assert shown(table) == ["Crane!2", "crane!11", "tide", "tide#9", "tide#10", "²"]

    asyncio.run(run())


class Narrow(App[None]):
    """An app whose table leaves out its second column on a narrow terminal."""

    def compose(self) -> ComposeResult:
        columns = (TableColumn("name"), TableColumn("runs", spare=1), TableColumn("what happened before"))
        yield RowTable(columns, id="jobs")


def test_a_table_is_not_sorted_by_a_column_that_is_left_out() -> None:
    lines = [TableRow(name, (Cell(name), Cell(run), Cell("x" * 30)), None) for name, run in (("a", "2"), ("b", "1"))]

    async def run() -> None:
        app = Narrow()
        async with app.run_test(size=(60, 10)) as pilot:
            table = app.query_one(RowTable)
            table.set_lines(lines)
            table.sort_next()
            table.sort_next()
            await pilot.pause()
            assert (shown(table), "runs" in str(table.border_subtitle)) == (["b", "a"], True)
            await pilot.resize_terminal(22, 10)
            await pilot.pause()
            assert (shown(table), "runs" in str(table.border_subtitle)) == (["a", "b"], False)

    asyncio.run(run())
