"""What every screen shows, at every size; what its keys do; and that nothing waits for the database."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.faces.console.copy_room import LEDGER, REPO
from tests.faces.console.stage import KEYS, SIZES, Seat, watch

from tidelore.app.positions import read_sources
from tidelore.app.wiring import App
from tidelore.console.app import HELP, SCREENS, ConsoleApp
from tidelore.console.backend import Backend
from tidelore.console.log import Logbook
from tidelore.console.runs import RunsScreen
from tidelore.console.style import DARK, LIGHT
from tidelore.console.table import RowTable
from tidelore.store.database.port import Database, Patience

SHOWN = {
    "overview": (
        "Sources",
        "gitlab",
        "▲ backing off",
        "▲ 30m",
        "LEFT",
        "312/5,000",
        "1,934/2,000",
        "Requests",
        "New items",
        "██░░░░░░ 340/1,200",
        "1 pull request",
    ),
    "feedback": ("Pull requests 3", "✖ blocked", "paused", "quay#12", "force_pushed"),
    "accounts": ("@mira.test", "✖ unavailable", "■ paused", "did:plc:"),
    "runs": ("poll github", "✖ failed", "● succeeded", "▶ running", "Command"),
    "search": ("Results",),
    "log": ("run 3 failed", "127.0.0.1", "the run history"),
}


@pytest.mark.parametrize(
    "size",
    [SIZES[0], *(pytest.param(size, marks=pytest.mark.deep) for size in SIZES[1:])],
    ids=[f"{width}x{height}" for width, height in SIZES],
)
def test_every_screen_shows_its_content_and_fits_at_every_size(finished: App, size: tuple[int, int]) -> None:
    async def look(seat: Seat) -> None:
        for place, told in SHOWN.items():
            await seat.go(place)
            for wanted in told:
                assert wanted in seat.text, (place, wanted)
            assert len(seat.lines) == size[1]
            assert "stale: github" in seat.lines[1]
            assert "read-only" in seat.lines[1]
            # In a line to type in every letter is a letter: another key leads out of it.
            assert ("esc Query/results" if place == "search" else "q Quit") in seat.footer
            for table in seat.console.screen.query(RowTable):
                wide = table.virtual_size.width > table.scrollable_content_region.width
                assert not (table.display and wide), (place, table.id)
            if place == "search":
                await seat.press("escape")

    watch(finished, look, size)


@pytest.mark.deep
def test_a_low_rate_limit_is_highlighted(finished: App) -> None:
    async def look(seat: Seat) -> None:
        lines = [seat.table("sources")._all[at].cells[6] for at in range(3)]
        assert [(cell.text, cell.tone) for cell in lines] == [
            ("—", "dim"),
            ("312/5,000", "warn"),
            ("1,934/2,000", ""),
        ]
        for _ in range(7):
            await seat.press("s")
        assert "left ▲" in seat.text
        assert seat.column("sources") == ["github", "gitlab", "bluesky"]

    watch(finished, look, (200, 50))


@pytest.mark.deep
def test_optional_columns_are_hidden_on_a_narrow_terminal(finished: App) -> None:
    async def look(seat: Seat) -> None:
        assert "LEFT" in seat.text
        assert "MAX LAG" not in seat.text
        assert "HEARTBEAT" not in seat.text
        await seat.pilot.resize_terminal(200, 50)
        await seat.settle()
        assert "MAX LAG" in seat.text
        assert f"{LEDGER} discussions: 340 read" in seat.text
        await seat.pilot.resize_terminal(80, 24)
        await seat.settle()
        # What is not seen is not sorted by either.
        for _ in range(4):
            await seat.press("s")
        assert "due ▼" in seat.text

    watch(finished, look, (80, 24))


@pytest.mark.deep
def test_long_details_can_be_scrolled(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        lines = seat.detail.partition("\n\n")[0].splitlines()
        at = next(place for place, line in enumerate(lines) if line.startswith("Head"))
        assert lines[at + 1].startswith(" " * len("Pull request  "))
        assert max(map(len, lines)) <= seat.console.screen.query_one("#behind").size.width

    watch(copy, look, (120, 40))


def test_the_first_paint_does_not_wait_for_the_database(copy: App) -> None:
    gate = threading.Event()

    class Slow(App, frozen=True):
        def open_store(self, *, create: bool = False, patience: Patience | None = None) -> Database:
            assert gate.wait(30)
            return super().open_store(create=create, patience=patience)

    async def look(seat: Seat) -> None:
        assert "… loading" in seat.text
        assert "3 Overview" in seat.text
        assert seat.table("sources").row_count == 0
        gate.set()
        await seat.settle()
        assert seat.column("sources") == ["bluesky", "github", "gitlab"]

    slow = Slow(copy.config, copy.environ, db=copy.db, clock=copy.clock)

    async def sit() -> None:
        backend = Backend(slow, Logbook())
        console = ConsoleApp(backend, theme=DARK, first="overview")
        async with console.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await look(Seat(console, pilot))
        backend.close()

    asyncio.run(sit())


@pytest.mark.deep
def test_a_database_created_later_is_picked_up(copy: App, tmp_path: Path) -> None:
    missing = replace(copy, db=str(tmp_path / "later.db"))

    async def look(seat: Seat) -> None:
        assert "no database at" in seat.lines[1]
        os.link(copy.address, missing.address)
        await seat.press("g")
        assert seat.column("sources") == ["bluesky", "github", "gitlab"]
        assert "stale: github" in seat.lines[1]

    watch(missing, look, (160, 40))


@pytest.mark.deep
def test_a_failed_run_shows_its_failures_and_the_fix(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("runs")
        await seat.press("f")
        assert seat.column("runs") == ["6", "3"]
        assert "NOT_FOUND the server knows no issue 12" in seat.detail
        assert "lore sync --retry-failed 6" in seat.detail
        await seat.press("x")
        assert seat.console.clipboard == "lore sync --retry-failed 6"
        await seat.press("down", "c")
        assert seat.console.clipboard == "lore sync-runs show 3"
        await seat.press("f")
        assert seat.table("runs").row_count == 7

    watch(copy, look, (200, 50))


@pytest.mark.deep
def test_events_show_their_bodies_and_replies_their_outcome(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        assert seat.column("pulls") == ["quay#15", "quay#12", "quay#19"]
        await seat.press("v")
        assert "load in tonnes, or kilograms?" in seat.text
        await seat.press("v")
        assert "In tonnes; the unit is named now." in seat.text
        assert "○ planned" in seat.text
        assert seat.table("answers").size.height > 4
        await seat.press("v")
        assert seat.table("pulls").display

    watch(copy, look, (80, 24))


@pytest.mark.deep
def test_one_key_shows_the_jobs_of_a_source(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("down", "enter")
        assert f"github:github/{REPO}" in seat.text
        assert "answers:github" in seat.text
        await seat.press("escape")
        assert "answers:github" not in seat.text

    watch(copy, look)


@pytest.mark.deep
def test_the_help_screen_lists_the_keys_and_the_theme_can_be_changed(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("question_mark")
        assert "copy the reference" in seat.text
        await seat.press("escape", "d")
        assert seat.console.theme == LIGHT
        await seat.press("d")
        assert seat.console.theme != LIGHT
        for place in KEYS:
            await seat.go(place)
            await seat.press("question_mark", "escape") if place != "search" else None

    watch(copy, look)


def test_screens_are_mounted_before_their_key_and_do_not_query_the_database(
    copy: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    queried: set[str] = set()
    question = RunsScreen.question

    def observed(*words: Any) -> Any:
        queried.add("runs")
        return question(*words)

    monkeypatch.setattr(RunsScreen, "question", observed)

    async def look(seat: Seat) -> None:
        console = seat.console
        while not console.get_screen(HELP).is_running:
            await seat.pilot.pause(0.01)
        prepared = {name: console._screen_stacks[name][0] for name in SCREENS}
        await seat.settle()
        assert (console.current_mode, queried) == ("overview", set())
        await seat.go("runs")
        assert (console.screen, queried) == (prepared["runs"], {"runs"})
        assert "poll github" in seat.text

    watch(copy, look)


def test_help_opened_before_is_drawn_in_the_theme_chosen_since(copy: App) -> None:
    async def look(seat: Seat) -> None:
        colours = []
        for _ in range(2):
            await seat.press("question_mark")
            assert "copy the reference" in seat.text
            colours.append(seat.console.screen.query_one("#keys").styles.background)
            await seat.press("escape", "d")
        assert colours[0] != colours[1]

    watch(copy, look)


def test_ending_the_console_restores_the_garbage_collector(copy: App) -> None:
    before = gc.get_threshold()

    async def look(seat: Seat) -> None:
        assert gc.get_threshold() != before
        assert gc.get_freeze_count() > 0
        await seat.settle()

    watch(copy, look)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


@pytest.mark.deep
def test_no_colour_is_rendered_when_colours_are_off(copy: App) -> None:
    async def look(seat: Seat) -> None:
        strips = seat.console.screen._compositor.render_strips()
        colours = {
            colour.name
            for strip in strips
            for segment in strip
            if segment.style is not None
            for colour in (segment.style.color, segment.style.bgcolor)
            if colour is not None
        }
        assert colours <= {"default"}
        cursor = next(strip for strip in strips if "bluesky" in strip.text)
        assert any(segment.style is not None and segment.style.reverse for segment in cursor)

    watch(copy, look, colourless=True)


@pytest.mark.deep
def test_only_the_visible_screen_queries_the_database(copy: App, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def read(*words: Any) -> object:
        asked.append(1)
        return read_sources(*words)

    monkeypatch.setattr("tidelore.app.console.read_sources", read)

    async def look(seat: Seat) -> None:
        await seat.go("runs")
        before = len(asked)
        assert before > 0
        await seat.press("g", "g")
        assert len(asked) == before

    watch(copy, look)


def test_no_screen_is_prepared_while_the_console_closes(copy: App, monkeypatch: pytest.MonkeyPatch) -> None:
    prune = ConsoleApp._prune

    def prune_while_the_timer_fires(console: ConsoleApp, *nodes: Any, **more: Any) -> Any:
        console._prepare()
        console.action_go("log")
        return prune(console, *nodes, **more)

    async def look(_seat: Seat) -> None:
        monkeypatch.setattr(ConsoleApp, "_prune", prune_while_the_timer_fires)

    watch(copy, look, (80, 24))
