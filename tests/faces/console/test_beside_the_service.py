"""The console and the service together: as many requests as the service alone, none for a look, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.faces.console.stage import seated
from tests.faces.desk import LEDGER, Desk

from tidelore.app.console import BarStatus, ServiceThread
from tidelore.app.serving import ServeRequest, serve
from tidelore.app.wiring import App
from tidelore.console.screen import TopBar
from tidelore.core.config_file import load_config
from tidelore.core.errors import NotFound, TideloreError
from tidelore.service.control import Control
from tidelore.store.work.service_records import JobRow, list_jobs

SETTINGS = '[service]\nmetrics_port = 0\n[embedding]\nprovider = "none"\n'


def app_of(desk: Desk, name: str) -> App:
    desk.configure(LEDGER, extra=SETTINGS)
    return App(load_config(str(desk.config), {}), {}, db=str(desk.folder / name))


def requests_of(app: App) -> int:
    database = app.open_store()
    try:
        return sum(job.requests for job in list_jobs(database))
    finally:
        database.close()


async def until(check: Callable[[], bool]) -> None:
    """Wait until something is so; the looking is done beside the loop."""
    for _ in range(600):
        if await asyncio.to_thread(check):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it took too long")


def had_their_turns(app: App) -> bool:
    """Tell whether every job ended once."""
    try:
        database = app.open_store()
    except NotFound:
        return False
    try:
        jobs = list_jobs(database)
        return bool(jobs) and all(job.finished_at is not None and job.state == "idle" for job in jobs)
    finally:
        database.close()


def is_served(app: App) -> bool:
    try:
        database = app.open_store()
    except NotFound:
        return False
    try:
        return database.read("SELECT COUNT(*) FROM leases WHERE name = 'service'") == [(1,)]
    finally:
        database.close()


def jobs_of(app: App, source: str | None = None) -> list[JobRow]:
    database = app.open_store()
    try:
        return [job for job in list_jobs(database) if source in (None, job.source)]
    finally:
        database.close()


def runs_of(app: App, command: str) -> int:
    """Return how many runs of a command reached their end."""
    database = app.open_store()
    try:
        asked = "SELECT COUNT(*) FROM sync_runs WHERE command = :command AND finished_at IS NOT NULL"
        return int(database.read(asked, {"command": command})[0][0])
    finally:
        database.close()


def fail_newest(app: App) -> None:
    """Let the newest sync look as if it had failed."""
    database = app.open_store()
    try:
        with database.transaction() as tx:
            tx.execute(
                "UPDATE sync_runs SET status = 'failed', phase = 'failed', error = 'no answer' WHERE id ="
                " (SELECT MAX(id) FROM sync_runs WHERE command = 'lore sync')"
            )
    finally:
        database.close()


def held(app: App) -> list[tuple[Any, ...]]:
    database = app.open_store()
    try:
        return database.read(
            "SELECT iid, title, updated_at FROM issues UNION ALL SELECT iid, title, updated_at FROM merge_requests"
        )
    finally:
        database.close()


@pytest.mark.deep
def test_the_console_sends_the_requests_of_its_service_and_none_for_its_screens(desk: Desk) -> None:
    alone = app_of(desk, "alone.db")
    asyncio.run(serve(alone, ServeRequest(once=True), Control()))
    watched = app_of(desk, "watched.db")

    async def sit() -> None:
        service = ServiceThread(watched)
        async with seated(watched, hands=True, service=service) as seat:
            await until(lambda: had_their_turns(watched))
            before = requests_of(watched)
            for place in ("overview", "feedback", "accounts", "runs", "log"):
                await seat.go(place)
                await seat.press("g", "g")
            assert "service here" in seat.text
            assert requests_of(watched) == before
        assert service.error is None
        assert not service.running

    asyncio.run(sit())
    assert requests_of(watched) == requests_of(alone) > 0
    assert sorted(held(watched)) == sorted(held(alone)) != []


@pytest.mark.deep
def test_a_confirmed_run_now_syncs_a_source_or_repeats_a_failed_run(desk: Desk) -> None:
    app = app_of(desk, "now.db")

    def syncs() -> int:
        return runs_of(app, "lore sync")

    async def sit() -> None:
        service = ServiceThread(app)
        async with seated(app, hands=True, service=service) as seat:
            await until(lambda: had_their_turns(app))
            await seat.press("g")
            assert seat.column("sources") == ["copy", "gitlab"]
            assert "Run now" in seat.footer
            before = syncs()
            await seat.press("down", "r")
            assert "Run gitlab:gitlab now?" in seat.text
            await seat.press("enter")
            assert syncs() == before
            await seat.press("r", "y")
            assert seat.told == ["gitlab:gitlab: due now"]
            await until(lambda: syncs() == before + 1 and had_their_turns(app))
            # The same for one job, in the window over the sources, which follows what becomes of it.
            await seat.press("enter", "r")
            assert "Run gitlab:gitlab now?" in seat.text
            await seat.press("y")
            await until(lambda: syncs() == before + 2)
            await seat.press("escape")
            fail_newest(app)
            await seat.go("runs")
            await seat.press("f", "r")
            assert "Run gitlab:gitlab now?" in seat.text
            assert "to finish the work of run" in seat.text
            await seat.press("y")
            await until(lambda: syncs() == before + 3)
        assert service.error is None

    asyncio.run(sit())


def test_a_console_whose_service_creates_the_database_does_not_call_it_missing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_of(desk, "created.db")
    told: list[str] = []
    tell = TopBar.tell

    def noted(bar: TopBar, standing: BarStatus | None, error: TideloreError | None) -> None:
        told.append("" if error is None else error.message)
        tell(bar, standing, error)

    monkeypatch.setattr(TopBar, "tell", noted)

    async def sit() -> None:
        async with seated(app, hands=True, service=ServiceThread(app)):
            await until(lambda: is_served(app))

    asyncio.run(sit())
    assert set(told) == {""}


@pytest.mark.deep
def test_run_now_on_a_source_runs_all_its_jobs(desk: Desk) -> None:
    app = app_of(desk, "all.db")

    async def sit() -> None:
        service = ServiceThread(app)
        async with seated(app, hands=True, service=service) as seat:
            await until(lambda: had_their_turns(app))
            await seat.press("g", "r")
            assert "Run copy now?" in seat.text
            assert "These jobs run now: documents, ledger." in seat.text
            first = {job.name: job.started_at or 0 for job in jobs_of(app) if job.source == "copy"}
            await seat.press("y")
            assert seat.told == ["2 jobs: due now"]
            await until(lambda: all((job.started_at or 0) > first.get(job.name, -1) for job in jobs_of(app, "copy")))

    asyncio.run(sit())


@pytest.mark.deep
def test_quitting_the_console_during_a_sync_loses_nothing(desk: Desk) -> None:
    app = app_of(desk, "left.db")

    async def sit(seconds: float) -> None:
        service = ServiceThread(app)
        async with seated(app, service=service):
            await asyncio.sleep(seconds)
        assert not service.running
        assert service.error is None

    for seconds in (0.05, 0.2, 0.4):
        asyncio.run(sit(seconds))
        database = app.open_store()
        assert database.read("SELECT COUNT(*) FROM sync_runs WHERE status = 'running'") == [(0,)]
        assert database.read("SELECT COUNT(*) FROM leases WHERE holder_host IS NOT NULL") == [(0,)]
        database.close()
    asyncio.run(serve(app, ServeRequest(once=True), Control()))
    whole = app_of(desk, "whole.db")
    asyncio.run(serve(whole, ServeRequest(once=True), Control()))
    assert sorted(held(app)) == sorted(held(whole)) != []


@pytest.mark.deep
def test_the_console_monitors_a_service_that_already_runs(desk: Desk) -> None:
    app = app_of(desk, "shared.db")
    first = ServiceThread(app)
    first.start()
    try:

        async def sit() -> None:
            await until(lambda: is_served(app))
            second = ServiceThread(replace(app))
            async with seated(app, hands=True, service=second) as seat:
                await until(lambda: second.error is not None)
                await seat.press("g")
                assert second.elsewhere
                assert "● service pid" in seat.lines[1]

        asyncio.run(sit())
        assert first.running
    finally:
        first.stop()
