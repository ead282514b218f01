"""Use-cases of events: take the next one, optionally waiting and polling; acknowledge it or report a failure.

Needs no lease: an event is claimed by its row. A failing poll does not end the wait, unless it can never succeed
(missing or rejected credentials, invalid configuration).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.config import GitHubHost, RepoSettings, github_host, repo_settings
from tidelore.core.errors import ConfigError, CredentialsMissing, CredentialsRejected, LockHeld, NotFound, TideloreError
from tidelore.core.process import ProcessIdentity
from tidelore.feedback.delivery import fail, next_event, succeed
from tidelore.feedback.events import reconsider
from tidelore.feedback.repositories import ConfiguredRepo
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, find_configured, list_projects
from tidelore.store.work.events import EventRow, count_of_ended, find_event

if TYPE_CHECKING:
    from tidelore.app.wiring import App

LOOK_SECONDS = 1.0
"""How often the database is checked while a consumer waits."""
_HOPELESS = (CredentialsMissing, CredentialsRejected, ConfigError)


class TakeRequest(Struct, frozen=True):
    """Which event to take. Without `wait` the database is checked once; `timeout_seconds` limits the wait."""

    places: Sequence[ConfiguredRepo]
    pr: int | None = None
    wait: bool = False
    timeout_seconds: float | None = None
    poll: bool = False
    include_closed: bool = False


async def take_event(app: App, request: TakeRequest) -> EventRow | None:
    """Lease the next event of these repositories; with `wait`, wait until there is one."""
    database = app.open_store(create=request.poll)
    try:
        return await _Taking(app, database, request).run()
    finally:
        database.close()


def count_of_closed(app: App, request: TakeRequest) -> int:
    """Count the unprocessed events that are excluded because their pull request is merged or closed."""
    if request.include_closed:
        return 0
    database = app.open_store()
    try:
        found = [find_configured(database, place.host.name, place.name) for place in request.places]
        return count_of_ended(database, [project.id for project in found if project is not None], request.pr)
    finally:
        database.close()


class _Taking:
    def __init__(self, app: App, database: Database, request: TakeRequest) -> None:
        self._app = app
        self._database = database
        self._request = request
        self._polled_at: float | None = None

    async def run(self) -> EventRow | None:
        clock, request = self._app.clock, self._request
        limit = request.timeout_seconds
        began = clock.monotonic()
        self._apply_settings()
        while True:
            error = await self._poll_if_due()
            event = self._look()
            if event is not None:
                return event
            if error is not None and (not request.wait or isinstance(error, _HOPELESS)):
                raise error
            passed = clock.monotonic() - began
            if not request.wait or (limit is not None and passed >= limit):
                return None
            await clock.sleep(LOOK_SECONDS if limit is None else min(LOOK_SECONDS, limit - passed))

    def _apply_settings(self) -> None:
        """Create events for comments that an earlier list of allowed users excluded."""
        for place in self._request.places:
            project = find_configured(self._database, place.host.name, place.name)
            if project is not None:
                reconsider(self._database, project, place.settings, self._app.clock.now_ms())

    def _look(self) -> EventRow | None:
        found = [
            (place, find_configured(self._database, place.host.name, place.name)) for place in self._request.places
        ]
        known = [(place, project) for place, project in found if project is not None]
        if not known:
            return None
        seconds = max(place.settings.event_lease_seconds for place, _ in known)
        projects = [project for _, project in known]
        now = self._app.clock.now_ms()
        return next_event(
            self._database,
            projects,
            now,
            seconds,
            holder(),
            pr=self._request.pr,
            include_closed=self._request.include_closed,
        )

    async def _poll_if_due(self) -> TideloreError | None:
        if not self._request.poll:
            return None
        now = self._app.clock.monotonic()
        interval = min(place.settings.poll_interval_seconds for place in self._request.places)
        if self._polled_at is not None and now - self._polled_at < interval:
            return None
        self._polled_at = now
        from tidelore.app.feedback_polling import FeedbackPollRequest, poll_github
        from tidelore.feedback.actions import overall_error
        from tidelore.feedback.report import poll_error

        places = self._request.places
        only = places[0].name if len(places) == 1 else None
        try:
            done = await poll_github(
                self._app, FeedbackPollRequest(only, handler=False, command="lore feedback next --poll")
            )
        except LockHeld:
            # Another process is polling; its events are found in the database.
            return None
        except TideloreError as error:
            return error
        return overall_error(poll_error(done.report), done.actions)


def ack_event(database: Database, handle: int | str, now_ms: int) -> EventRow:
    """Mark an event as done."""
    return succeed(database, handle, now_ms)


def nack_event(app: App, database: Database, handle: int | str, error: str) -> EventRow:
    """Mark an event as failed: it is retried later, or its pull request is blocked."""
    number = handle if isinstance(handle, int) else _number(handle)
    event = find_event(database, number)
    project = next(row for row in list_projects(database) if row.id == event.project_id)
    return fail(database, project.source, handle, error, _settings(app, project), app.clock.now_ms())


def holder() -> str:
    """Return the name of this consumer, shown to others while it holds the lease."""
    identity = ProcessIdentity.current()
    return f"lore feedback next on {identity.host}, pid {identity.pid}"


def _number(lease: str) -> int:
    head = lease.partition("-")[0]
    if not (head.isascii() and head.isdecimal() and len(head) < 19):
        raise NotFound(f"unknown lease: {lease!r}", fix="use the lease_id printed by `lore feedback next`")
    return int(head)


def _settings(app: App, project: ProjectRow) -> RepoSettings:
    """Return a repository's settings, or the defaults if it is no longer configured."""
    return repo_settings(github_host(app.config, project.source) or GitHubHost(), project.configured)
