"""Search while one types, the thread behind a result, and the log; nothing of it steers the terminal."""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.faces.console.copy_room import LEDGER
from tests.faces.console.stage import Seat, watch

from tidelore.app.wiring import App


def test_search_updates_while_typing_and_opens_the_thread(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("search")
        await seat.press(*"tax office")
        assert seat.column("results") == ["ledger!21"]
        assert "1 found by keyword" in seat.text
        await seat.press("enter")
        assert seat.table("results").has_focus
        await seat.press("enter")
        assert "Because the tax office rounds half up." in seat.text
        assert "ledger/rounding.py:40" in seat.text
        await seat.press("c")
        assert seat.console.clipboard == f"{LEDGER}!21"
        await seat.press("escape", "slash")
        assert seat.console.screen.query_one("#query").has_focus
        await seat.press("ctrl+u", *"nowhere")
        assert seat.table("results").row_count == 0

    watch(copy, look, (160, 40))


def test_a_thread_opened_from_the_results_has_its_markdown_rendered_also_after_resizing(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("search")
        await seat.press(*"tax office", "enter", "enter")
        assert "  amount = round(total, 2)" in seat.text
        assert "```" not in seat.text
        await seat.pilot.resize_terminal(60, 24)
        await seat.settle()
        assert "  amount = round(total, 2)" in seat.text
        assert "```" not in seat.text

    watch(copy, look, (160, 40))


def test_a_log_without_warnings_says_so(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("log")
        await seat.press("w", "slash", *"nowhere")
        assert "No record matches; Esc clears the filter." in seat.text
        await seat.press("escape")
        assert "No record matches" not in seat.text
        assert "No warnings and errors." not in seat.text

    watch(copy, look)
    with closing(copy.open_store()) as database, database.transaction() as tx:
        tx.execute("DELETE FROM sync_runs WHERE status <> 'succeeded' OR error IS NOT NULL OR warnings_count > 0")

    async def look_again(seat: Seat) -> None:
        await seat.go("log")
        await seat.press("w")
        assert "No warnings and errors." in seat.text
        await seat.press("w")
        assert "No warnings and errors." not in seat.text

    watch(copy, look_again)


@pytest.mark.deep
def test_an_invalid_query_is_reported_and_the_next_one_works(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("search")
        await seat.press(*"type:boat")
        assert "invalid value for" in seat.text
        await seat.press("ctrl+u", *"noon")
        assert seat.column("results") == ["@mira.test"]

    watch(copy, look)


@pytest.mark.deep
def test_remote_text_cannot_send_control_sequences_to_the_terminal(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("search")
        await seat.press(*"tax office")
        assert "rounds half up." in seat.detail
        assert "\x1b" not in seat.detail
        await seat.press("enter", "enter")
        assert "rounds half up." in seat.text
        assert "\x1b" not in seat.text

    watch(copy, look)


def test_a_log_whose_drawing_is_cancelled_before_it_begins_leaves_no_warning(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("log")
        screen = seat.console.screen
        for _ in range(3):
            await screen.run_action("warnings")
        await seat.settle()
        # A coroutine that was never awaited would be reported here.
        gc.collect()

    watch(copy, look)


@pytest.mark.deep
def test_the_log_can_be_filtered_to_errors(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("log")
        assert "run 2 succeeded" in seat.text
        await seat.press("w")
        assert "run 2 succeeded" not in seat.text
        assert "run 3 failed" in seat.text
        await seat.press("w", "slash", *"github")
        assert "run 4 started" in seat.text
        assert "run 3 failed" not in seat.text
        await seat.press("escape", "c")
        assert "run 1 succeeded" in seat.console.clipboard

    watch(copy, look)


@pytest.mark.deep
def test_the_log_of_a_monitored_service_is_read_from_its_file(copy: App, tmp_path: Path) -> None:
    path = tmp_path / "lore.log"
    path.write_text(
        '{"at":"2026-03-02T09:00:00.000Z","level":"warning","logger":"tidelore.service.loop",'
        '"message":"[red]job[/] failed"}\n'
        "2026-03-02 09:00:01,123 INFO tidelore.service.loop: gitlab: 7 requests\n"
    )
    config = replace(copy.config, log=replace(copy.config.log, file=str(path)))

    async def look(seat: Seat) -> None:
        await seat.go("log")
        assert "[red]job[/] failed" in seat.text
        assert "gitlab: 7 requests" in seat.text

    watch(replace(copy, config=config), look)
