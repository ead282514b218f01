"""The jobs for Bluesky: polls of whoever is due, and the event stream if it is wanted. Owns their wiring.

A look costs one row: while nobody is due, and everybody who is configured is followed, nobody is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelore.app.service.forge_jobs import DOCUMENTS
from tidelore.service.outcome import Done, Job
from tidelore.service.schedule import NEVER, JobSpec, bound_of

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.core.errors import TideloreError
    from tidelore.store.database.port import Database
    from tidelore.sync.report import PollReport

COMMAND = "lore poll bluesky"
SOURCE = "bluesky"
STREAM = "bluesky stream"
LOOK_SECONDS = 30.0


def follows_somebody(app: App, database: Database) -> bool:
    """Tell whether there is anybody to poll."""
    from tidelore.store.mirror.accounts import next_due_at

    return bool(app.config.bluesky.accounts) or next_due_at(database) is not None


def bluesky_jobs(app: App) -> list[Job]:
    """Return the jobs of the accounts."""
    settings = app.config.bluesky
    interval = settings.interval_minutes * 60
    look = min(LOOK_SECONDS, interval)
    spec = JobSpec("bluesky:poll", SOURCE, "poll", settings.base_url, look, bound_of(interval), turn=SOURCE)
    jobs = [Job(spec, _Polling(app).run)]
    if settings.stream:
        # A stream's trouble is not the poller's, which covers for it.
        stream = JobSpec("bluesky:stream", STREAM, "stream", settings.jetstream_url, LOOK_SECONDS, continuous=True)
        jobs.append(Job(stream, lambda: _stream(app)))
    return jobs


class _Polling:
    """Polls whoever is due; configured names that led nowhere are tried again at the base interval."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._resolve_at = float("-inf") if app.config.bluesky.accounts else NEVER

    async def run(self) -> Done:
        from tidelore.app.bluesky import open_network
        from tidelore.sync.account_poll import PollRequest, poll

        if not self._is_due():
            return Done(idle=True)
        app = self._app
        async with open_network(app, COMMAND) as opened:
            report = await poll(opened.shop, opened.source, PollRequest(documents=False), opened.count)
        again = app.clock.monotonic() + app.config.bluesky.interval_minutes * 60
        self._resolve_at = again if report.unresolved else NEVER
        # Made by a job of their own: here they would be in the way of a sync.
        wakes = (DOCUMENTS,) if report.posts or report.verified else ()
        return Done(report.requests, _verdict(report), wakes=wakes, budget=opened.count.budgets.get(SOURCE))

    def _is_due(self) -> bool:
        from tidelore.store.mirror.accounts import due_accounts

        if self._app.clock.monotonic() >= self._resolve_at:
            return True
        database = self._app.open_store()
        try:
            return bool(due_accounts(database, self._app.clock.now_ms(), 1))
        finally:
            database.close()


def _verdict(report: PollReport) -> TideloreError | None:
    """Return what a cycle ends with. Where nobody at all could be read, that is the server's failure."""
    from tidelore.sync.report import poll_verdict

    error = poll_verdict(report)
    nobody = report.accounts == report.failed
    return next(iter(report.outages.values()), error) if error is not None and nobody else error


async def _stream(app: App) -> Done:
    from tidelore.app.bluesky import stream_accounts
    from tidelore.sync.account_stream import StreamReport, StreamRequest

    await stream_accounts(app, StreamRequest(documents=False), StreamReport())
    return Done()
