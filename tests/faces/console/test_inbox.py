"""The first screen of the console: lists of what to read, and the thread of the selected row."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace
from tests.faces.console.copy_room import LEDGER
from tests.faces.console.stage import Seat, watch

from tidelore.app.console import ConsoleViews, ReadingRow
from tidelore.app.wiring import App
from tidelore.console.backend import BackgroundReader
from tidelore.console.inbox import InboxScreen, _line
from tidelore.console.style import short_names
from tidelore.core.config_file import parse_config
from tidelore.store.work.own_logins import save_login


def _with_login(app: App, login: str) -> App:
    (host,) = app.config.gitlab
    return replace(app, config=replace(app.config, gitlab=(replace(host, login=login),)))


def test_the_console_opens_on_the_threads_that_wait_for_the_reader(copy: App) -> None:
    async def look(seat: Seat) -> None:
        assert "Inbox · 1" in seat.text
        assert seat.column("rows", 0) == ["ledger!21"]
        assert "ledger/rounding.py:40" in seat.detail
        # The Markdown of the description is rendered: the fence is gone, its code is there.
        assert "amount = round(total, 2)" in seat.detail
        assert "```" not in seat.detail
        await seat.press("c")
        assert seat.told[-1] == f"{LEDGER}!21"

    watch(_with_login(copy, "noor"), look, first="inbox")


def test_the_arrow_keys_go_through_the_lists_and_enter_to_the_thread(copy: App) -> None:
    async def look(seat: Seat) -> None:
        assert "Your login is not known" in seat.detail
        # The whole remedy is in the list too, on as many lines as it needs.
        assert "with a token" in "\n".join(seat.lines[4:9])
        await seat.press("right", "right")
        assert "Unresolved · 1" in seat.text
        await seat.press("right")
        assert seat.column("rows", 2) == ["The quarterly report takes an hour", "Postings are rounded twice"]
        await seat.press("down", "enter")
        assert seat.console.focused is seat.console.screen.query_one("#behind")
        assert "Postings are rounded twice" in seat.detail
        await seat.press("escape", "right", "right")
        assert seat.column("rows", 0)[0].startswith("@")
        await seat.press("left", "left", "left", "left", "left")
        assert "Inbox · 0" in seat.text

    watch(copy, look, (80, 24), first="inbox")


def test_another_list_begins_in_its_own_order(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("right", "right", "right")
        newest_first = seat.column("rows", 2)
        await seat.press("s")
        assert seat.column("rows", 2) != newest_first
        await seat.press("right", "left")
        assert seat.column("rows", 2) == newest_first

    watch(copy, look, first="inbox")


def test_the_inbox_is_shown_as_soon_as_our_login_is_known(copy: App) -> None:
    async def look(seat: Seat) -> None:
        assert "Your login is not known" in seat.detail
        with closing(copy.open_store()) as database, database.transaction() as tx:
            save_login(tx, "gitlab", "noor", 1)
        await seat.press("g")
        assert "Inbox · 1" in seat.text

    watch(copy, look, first="inbox")


def test_the_inbox_of_an_empty_copy_does_not_claim_that_nothing_waits(tmp_path: Path) -> None:
    host = {"name": "gitlab", "base_url": "http://127.0.0.1:1", "projects": ["port/harbour"], "login": "mira"}
    app = App(parse_config({"gitlab": [host]}), {}, db=str(tmp_path / "lore.db"))
    app.open_store(create=True).close()

    async def look(seat: Seat) -> None:
        assert "Nothing is stored yet" in seat.detail

    watch(app, look, first="inbox")


def test_a_list_without_rows_takes_the_whole_width(copy: App) -> None:
    async def look(seat: Seat) -> None:
        shown = []
        for keys in ((), ("right", "right"), ("left", "left")):
            await seat.press(*keys)
            shown.append((seat.console.screen.query_one("#behind").display, seat.table("rows").size.width > 110))
        assert shown == [(False, True), (True, False), (False, True)]

    watch(copy, look, first="inbox")


def test_a_post_shows_its_text_once_and_its_facts_below(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.press(*["right"] * 5)
        line = seat.table("rows").line
        assert line is not None
        text = line.record.title
        assert seat.detail.count(text) == 1
        assert seat.detail.index(text) < seat.detail.index("Address ")

    watch(copy, look, first="inbox")


def test_the_question_before_resolving_shows_the_note_without_markdown(copy: App) -> None:
    with closing(copy.open_store()) as database, database.transaction() as tx:
        tx.execute("UPDATE notes SET body = 'Why not round **half to even** with `round`?' WHERE remote_id = 502")

    async def look(seat: Seat) -> None:
        await seat.press("right", "right", "e")
        assert "half to even" in seat.text
        assert "**" not in seat.text

    watch(copy, look, first="inbox", hands=True)


def test_a_thread_gets_most_of_a_small_terminal_while_it_is_read(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("right", "right")
        behind, rows = seat.console.screen.query_one("#behind"), seat.table("rows")
        before = behind.size.height
        await seat.press("enter")
        assert behind.size.height > before * 3 // 2
        assert rows.size.height >= 1
        await seat.press("escape")
        assert behind.size.height == before

    watch(copy, look, (80, 24), first="inbox")


def test_no_key_waits_for_the_store(copy: App) -> None:
    gate = threading.Event()
    ask = BackgroundReader._answer

    def blocked(reader: BackgroundReader, question: Callable[[ConsoleViews], object]) -> object:
        assert gate.wait(30)
        return ask(reader, question)

    async def look(seat: Seat) -> None:
        BackgroundReader._answer = blocked  # type: ignore[method-assign, assignment]
        try:
            keys = ("right", "right", "down", "up", "left", "tab", "escape", "right", "slash")
            await asyncio.wait_for(seat.pilot.press(*keys), 20)
            assert seat.console.screen.query_one("#filter").display
            assert "Unresolved" in str(seat.table("rows").border_title)
            assert not gate.is_set()
        finally:
            BackgroundReader._answer = ask  # type: ignore[method-assign]
            gate.set()
        await seat.settle()

    watch(copy, look, first="inbox")


def test_a_thread_whose_reading_is_cancelled_before_it_begins_leaves_no_warning(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("right", "right")
        screen = seat.console.screen
        assert isinstance(screen, InboxScreen)
        for _ in range(2):
            screen._previewed = None
            screen.update_detail()
        await seat.settle()
        # A coroutine that was never awaited would be reported here.
        gc.collect()
        assert "ledger/rounding.py:40" in seat.detail

    watch(copy, look, first="inbox")


def test_a_reload_that_is_cancelled_before_it_begins_leaves_no_warning(copy: App) -> None:
    async def look(seat: Seat) -> None:
        screen = seat.console.screen
        assert isinstance(screen, InboxScreen)
        screen.reload()
        screen.workers.cancel_node(screen)
        await asyncio.sleep(0)
        # A coroutine that was never awaited would be reported here.
        gc.collect()

    watch(copy, look, first="inbox")


def test_a_thread_that_changes_while_it_is_read_is_shown_anew_at_the_same_place(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("right", "right", "enter", "pagedown")
        screen = seat.console.screen
        assert isinstance(screen, InboxScreen)
        behind = screen.query_one("#behind")
        place = behind.scroll_y
        assert place > 0
        with closing(copy.open_store()) as database, database.transaction() as tx:
            tx.execute("UPDATE notes SET body = 'Rounded once.'")
        assert screen._seq is not None
        screen._seq -= 1
        screen.reload_now()
        await seat.settle()
        await seat.settle()
        assert "Rounded once." in seat.detail
        assert behind.scroll_y == place

    watch(copy, look, (80, 24), first="inbox")


def test_a_list_is_read_again_only_after_the_copy_has_changed(copy: App) -> None:
    views = ConsoleViews(copy)
    with closing(views):
        first = views.reading_list("issues")
        assert first is not None
        assert views.reading_list("issues", first.seq) is None
        assert views.reading_list("issues", first.seq - 1) is not None


def test_references_are_shortened_as_far_as_they_tell_projects_apart() -> None:
    assert short_names(["a/b/ledger#1", "a/b/tracking!2"]) == {
        "a/b/ledger#1": "ledger#1",
        "a/b/tracking!2": "tracking!2",
    }
    assert short_names(["a/ledger#1", "b/c/ledger!2"]) == {"a/ledger#1": "a/ledger#1", "b/c/ledger!2": "c/ledger!2"}
    assert short_names(["at://did:plc:x/post/1"]) == {"at://did:plc:x/post/1": ""}


def test_several_threads_of_one_item_are_told_apart_by_their_last_notes() -> None:
    row = ReadingRow(
        key="1", reference="a/b!4", title="Round once", state="opened", by="mira", at=0, text="@mira: Done."
    )
    assert [_line(row, "b!4", 0, several).cells[2].text for several in (False, True)] == ["Round once", "@mira: Done."]
    assert _line(replace(row, text=None), "b!4", 0, one_of_several=True).cells[2].text == "Round once"
