"""What is done with a list: narrowed, sorted, followed by the cursor, copied from, opened."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.faces.console.copy_room import REPO
from tests.faces.console.stage import Seat, watch
from tests.support.manual_clock import ManualClock

from tidelore.app.wiring import App
from tidelore.console.table import RowTable, TableColumn
from tidelore.core.process import ProcessIdentity
from tidelore.engine.ledger import Run
from tidelore.store.work.runs import RunTable


@pytest.mark.deep
def test_an_empty_list_says_why_it_is_empty(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("runs")
        await seat.press("slash", *"zzz")
        assert "No row matches “zzz”; Esc clears the filter." in seat.text
        await seat.press("escape")
        assert "No row matches" not in seat.text
        await seat.go("accounts")
        await seat.press("slash", *"zzz")
        assert "No account matches" in seat.text
        await seat.press("escape")
        await seat.go("search")
        assert "Results appear as you type." in seat.text
        await seat.press(*"zzzz")
        assert "no document contains any of these words" in seat.text

    watch(copy, look, (80, 24))


def test_a_list_says_that_it_is_loading_until_its_rows_are_known(copy: App) -> None:
    async def look(seat: Seat) -> None:
        table = RowTable((TableColumn("NAME"),), id="ships", empty="No ships yet.")
        await seat.console.screen.mount(table)
        assert table.why_empty() == "… loading"
        table.set_lines([])
        assert table.why_empty() == "No ships yet."

    watch(copy, look)


@pytest.mark.deep
def test_a_list_without_focus_keeps_its_first_row_selected(copy: App) -> None:
    async def look(seat: Seat) -> None:
        table = seat.table("newest")
        assert not table.has_focus
        assert (table.cursor_row, seat.column("newest")[0]) == (0, "7")
        database = copy.open_store()
        Run.start(
            RunTable(database), ManualClock(copy.clock.now_ms()), "lore sync", ProcessIdentity.current()
        ).finish_succeeded()
        database.close()
        await seat.press("g")
        assert (table.cursor_row, seat.column("newest")[0]) == (0, "8")

    watch(copy, look)


@pytest.mark.deep
def test_a_filter_applies_while_typing_and_escape_clears_it(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("runs")
        assert seat.table("runs").row_count == 7
        await seat.press("slash", *"poll")
        assert seat.column("runs", 1) == ["poll github"]
        await seat.press("enter")
        assert seat.table("runs").has_focus
        assert "1 of 7" in seat.text
        await seat.press("escape")
        assert seat.table("runs").row_count == 7

    watch(copy, look)


@pytest.mark.deep
def test_the_account_filter_queries_the_database(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("accounts")
        await seat.press("slash", *"noo")
        assert seat.column("accounts") == ["@noor.test"]
        await seat.press("escape")
        assert seat.table("accounts").row_count == 3

    watch(copy, look)


@pytest.mark.deep
def test_a_list_can_be_sorted_by_the_next_column_and_reversed(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("runs")
        assert seat.column("runs") == ["7", "6", "5", "4", "3", "2", "1"]
        await seat.press("s", "s")
        assert seat.column("runs", 1)[:2] == ["generate-docs", "poll github"]
        assert "command ▲" in seat.text
        await seat.press("S")
        assert seat.column("runs", 1)[-1] == "generate-docs"
        for _ in range(5):
            await seat.press("s")
        assert "requests ▼" in seat.text
        assert seat.column("runs", 6)[0] == "480"

    watch(copy, look)


@pytest.mark.deep
def test_the_cursor_stays_on_its_row_when_rows_are_inserted_before_it(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("runs")
        await seat.press("down", "down")
        chosen = seat.table("runs").line
        assert chosen is not None
        database = copy.open_store()
        Run.start(
            RunTable(database), ManualClock(copy.clock.now_ms()), "lore sync", ProcessIdentity.current()
        ).finish_succeeded()
        database.close()
        await seat.press("g")
        assert seat.column("runs")[0] == "8"
        line = seat.table("runs").line
        assert line is not None
        assert line.key == chosen.key

    watch(copy, look)


@pytest.mark.deep
def test_a_reference_can_be_copied_and_its_web_page_opened(copy: App, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url, **_more: opened.append(url))

    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        await seat.press("c", "o")
        assert seat.console.clipboard == f"{REPO}#15"
        assert opened == [f"https://github.test/{REPO}/pull/15"]
        await seat.go("runs")
        await seat.press("o")
        assert len(opened) == 1

    watch(copy, look)


@pytest.mark.deep
def test_only_a_web_address_from_remote_data_is_opened(copy: App, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url, **_more: opened.append(url))
    database = copy.open_store()
    with database.transaction() as tx:
        tx.execute("UPDATE tracked_prs SET url = 'file:///etc/passwd'")
    database.close()

    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        await seat.press("o")
        assert opened == []
        assert seat.told == ["This item has no web page."]

    watch(copy, look)


def test_accounts_whose_names_begin_alike_can_be_told_apart(copy: App) -> None:
    with closing(copy.open_store()) as database, database.transaction() as tx:
        tx.execute("UPDATE accounts SET handle = 'aoife-brannigan' || id || '.harbour.example'")

    async def look(seat: Seat) -> None:
        await seat.go("accounts")
        shown = seat.column("accounts")
        assert len(set(shown)) == len(shown) > 1

    for size in ((80, 24), (120, 40)):
        watch(copy, look, size)
