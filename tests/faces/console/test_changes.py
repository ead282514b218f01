"""Nothing is written before somebody said yes; what is written is what a command would write."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.databases.samples import dump
from tests.faces.console.copy_room import REPO
from tests.faces.console.stage import Seat, watch
from tests.faces.following import Follower

from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.store.mirror.accounts import find_account
from tidelore.store.work.events import peek
from tidelore.store.work.tracked_pull_requests import BLOCKED, list_tracked, move

WRITING = (
    ("feedback", ("u",), "Unblock harborline/quay#15?"),
    ("feedback", ("down", "p"), "Pause delivery of events for harborline/quay#12?"),
    ("feedback", ("v", "r"), "Retry the events of harborline/quay#12 now?"),
    ("accounts", ("p",), "Pause @mira.test?"),
    ("runs", ("down", "r"), "Retry the failed items of run 6?"),
)


def everything(app: App) -> dict[str, list[tuple[Any, ...]]]:
    database = app.open_store()
    try:
        return dump(database)
    finally:
        database.close()


def test_a_change_needs_confirmation_and_no_changes_nothing(copy: App) -> None:
    before = everything(copy)

    async def look(seat: Seat) -> None:
        refusals = {WRITING[0][0]: ("escape", "enter", "n")}
        for place, keys, question in WRITING:
            await seat.go(place)
            await seat.press(*keys)
            assert question in seat.text
            for refusal in refusals.pop(place, ("n",)):
                if question not in seat.text:
                    await seat.press(keys[-1])
                await seat.press(refusal)
                assert question not in seat.text

    watch(copy, look, (80, 24), hands=True)
    assert everything(copy) == before


@pytest.mark.deep
def test_a_read_only_console_has_no_keys_for_changes(copy: App) -> None:
    before = everything(copy)

    async def look(seat: Seat) -> None:
        for place, keys, question in WRITING:
            await seat.go(place)
            await seat.press(*keys)
            assert question not in seat.text
            assert not {"Unblock", "Pause", "Retry"} & set(seat.footer.split())
        await seat.go("overview")
        assert "Run now" not in seat.footer
        await seat.press("r")
        assert "now?" not in seat.text
        await seat.press("enter")
        assert "ERROR" in seat.text
        assert "Run now" not in seat.footer

    watch(copy, look, (80, 24))
    assert everything(copy) == before


@pytest.mark.deep
def test_a_pull_request_can_be_paused_and_resumed(copy: App) -> None:
    def paused() -> dict[int, int]:
        database = copy.open_store()
        try:
            return {pull.pr_number: pull.paused for pull in list_tracked(database)}
        finally:
            database.close()

    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        await seat.press("down", "p", "y")
        assert paused()[12] == 1
        assert seat.told == [f"{REPO}#12: its events are paused"]
        assert seat.column("pulls", 1)[1] == "■ paused"
        await seat.press("p", "y")
        assert paused()[12] == 0

    watch(copy, look, hands=True)


@pytest.mark.deep
def test_failed_events_of_a_thread_can_be_retried_at_once(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        await seat.press("v", "down", "down", "r", "y")
        assert seat.told == [f"{REPO}#15: retrying 1 pending"]

    watch(copy, look, hands=True)
    database = copy.open_store()
    assert {event.attempts for event in peek(database)} == {0}
    database.close()


@pytest.mark.deep
def test_an_account_can_be_paused_and_resumed(copy: App) -> None:
    def state() -> str:
        database = copy.open_store()
        try:
            return find_account(database, "mira.test").state
        finally:
            database.close()

    async def look(seat: Seat) -> None:
        await seat.go("accounts")
        await seat.press("p", "y")
        assert state() == "paused"
        assert "■ paused" in seat.column("accounts", 1)[0]
        await seat.press("p")
        assert "Resume polling @mira.test?" in seat.text
        await seat.press("y")
        assert state() != "paused"

    watch(copy, look, hands=True)


@pytest.mark.deep
def test_a_failed_change_shows_the_reason_and_the_console_continues(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        await seat.press("u", "y")
        # Nobody listens at the configured address.
        assert len(seat.told) == 1
        assert "All connection attempts failed" in seat.told[0]
        assert seat.column("pulls", 1)[0] == "✖ blocked"
        await seat.go("runs")
        assert seat.table("runs").row_count == 7

    watch(copy, look, hands=True)


@pytest.mark.deep
def test_a_key_without_a_selected_row_shows_a_hint(copy: App) -> None:
    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        await seat.press("down", "u")
        assert seat.told == ["Select a blocked pull request first."]
        await seat.press("r")
        assert seat.told[1:] == ["Select an event first (press v to show events)."]
        await seat.go("runs")
        await seat.press("r")
        assert seat.told[2:] == ["Nothing to retry in this run."]
        await seat.press("f", "down", "r")
        # Nothing is served here: somebody else has to run it.
        assert seat.told[3:] == ["No job of this service repeats it. Press x to copy `lore sync`."]

    watch(copy, look, hands=True)


@pytest.mark.deep
def test_a_blocked_pull_request_is_unblocked_at_its_current_head(follower: Follower) -> None:
    follower.track()
    store = follower.store()
    (pull,) = list_tracked(store)
    with store.transaction() as tx:
        move(tx, pull, BLOCKED, "force_pushed", None, pull.updated_at)
    store.close()
    app = App(load_config(str(follower.config), {}), dict(os.environ), db=str(follower.db))

    async def look(seat: Seat) -> None:
        await seat.go("feedback")
        assert seat.column("pulls", 1) == ["✖ blocked"]
        asked = len(follower.world.log)
        await seat.press("u")
        assert len(follower.world.log) == asked
        await seat.press("y")
        assert seat.told == [f"{pull.repo_full_name}#{pull.pr_number} is tracked again"]
        assert seat.column("pulls", 1) == ["● awaiting"]

    watch(app, look, hands=True)
