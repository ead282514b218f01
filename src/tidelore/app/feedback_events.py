"""Use-cases of events: take the next one, optionally waiting and polling; acknowledge it, report a failure, reply.

Needs no lease: an event is claimed by its row. A failing poll does not end the wait, unless it can never succeed
(missing or rejected credentials, invalid configuration).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct

from tidelore.app.answers import copy_fields, means
from tidelore.app.feedback_tracking import Event, Reply, event, reply, repo_and_number, repo_of_either
from tidelore.app.sources import find_followed, open_hub
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.config import RepoSettings, default_settings, feedback_settings
from tidelore.core.errors import (
    ConfigError,
    CredentialsMissing,
    CredentialsRejected,
    LockHeld,
    NotFound,
    TideloreError,
    UserError,
)
from tidelore.core.process import ProcessIdentity
from tidelore.feedback.repositories import ConfiguredRepo, choose_repo, choose_repos
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, find_configured, list_projects
from tidelore.store.work import events as stored
from tidelore.store.work.events import EventRow, PendingCount, count_of_ended, find_event
from tidelore.store.work.tracked_pull_requests import BLOCKED, find_tracked

if TYPE_CHECKING:
    from tidelore.feedback.outbox import AnswerRequest, PostedAnswer

LOOK_SECONDS = 1.0
"""How often the database is checked while a consumer waits."""
_HOPELESS = (CredentialsMissing, CredentialsRejected, ConfigError)


class TakenEvent(Event, frozen=True, kw_only=True):
    """An event with its lease, which only the consumer that takes it gets."""

    lease_id: Annotated[str | None, means("the lease, for ack and nack")]


class NextEvent(Struct, frozen=True):
    """The answer of `lore feedback next`."""

    event: Annotated[TakenEvent | None, means("null, or the event")]
    of_closed: Annotated[
        int, means("without an event: unprocessed events of merged and closed pull requests, see --include-closed")
    ] = 0


class PendingEvents(Struct, frozen=True):
    """The answer of `lore feedback peek`."""

    items: Annotated[list[Event], means("the events")]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null: raise --limit for more")] = None


class ProcessedEvent(Struct, frozen=True):
    """The answer of `lore feedback ack`."""

    event: Annotated[Event, means("the event")]


class FailedEvent(Struct, frozen=True):
    """The answer of `lore feedback nack`."""

    event: Annotated[Event, means("the event")]
    blocked: Annotated[bool, means("whether its pull request is blocked")]


class PostedReply(Struct, frozen=True):
    """The answer of `lore feedback reply` and `comment`."""

    answer: Annotated[Reply, means("the reply")]


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
    with app.store(create=request.poll) as database:
        return await _Taking(app, database, request).run()


def count_of_closed(app: App, request: TakeRequest) -> int:
    """Count the unprocessed events that are excluded because their pull request is merged or closed."""
    if request.include_closed:
        return 0
    with app.store() as database:
        found = [find_configured(database, place.host.name, place.name) for place in request.places]
        return count_of_ended(database, [project.id for project in found if project is not None], request.pr)


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
        from tidelore.feedback.consumer import FeedbackConsumer

        consumer = FeedbackConsumer(self._database, self._app.config, self._app.clock, {})
        for place in self._request.places:
            project = find_configured(self._database, place.host.name, place.name)
            if project is not None:
                consumer.reconsider(project.id, self._database.transaction)

    def _look(self) -> EventRow | None:
        from tidelore.feedback.delivery import next_event

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
        from tidelore.app.feedback_polling import FeedbackPollRequest, poll_places
        from tidelore.feedback.actions import overall_error
        from tidelore.feedback.report import poll_error

        request = FeedbackPollRequest(handler=False, command="lore feedback next --poll")
        try:
            done = await poll_places(self._app, self._request.places, request)
        except LockHeld:
            # Another process is polling; its events are found in the database.
            return None
        except TideloreError as error:
            return error
        return overall_error(poll_error(done.report), done.actions)


def take_next(
    app: App,
    repo: str | None = None,
    pr: str | None = None,
    *,
    wait: bool = False,
    timeout: float | None = None,
    poll: bool = False,
    include_closed: bool = False,
) -> NextEvent:
    """Take the oldest ready event; with `wait`, wait until there is one."""
    if timeout is not None and not wait:
        raise UserError("--timeout requires --wait", fix="add --wait, or remove --timeout")
    places, number = choose_repos(app.config, repo) if pr is None else [], None
    if pr is not None:
        place, number = repo_and_number(app.config, repo, pr)
        places = [place]
    request = TakeRequest(places, number, wait, timeout, poll, include_closed)
    row = run_until_signalled(take_event(app, request), "no event was taken")
    if row is None:
        return NextEvent(None, count_of_closed(app, request))
    return NextEvent(copy_fields(TakenEvent, event(row), lease_id=row.lease_id))


def peek(app: App, repo: str | None = None, pr: str | None = None, limit: int = 20) -> PendingEvents:
    """Return unprocessed events without taking one."""
    number: int | None = None
    place = None
    if pr is not None:
        place, number = repo_and_number(app.config, repo, pr)
    elif repo is not None:
        place = choose_repo(app.config, repo)
    with app.reading() as database:
        ids = None if place is None else [find_followed(database, place).id]
        rows = stored.peek(database, pr=number, project_ids=ids, limit=limit)
        counts = stored.pending_counts(database, app.clock.now_ms())
    total = sum(count.pending for count in counts if _is_meant(count, ids, number))
    return PendingEvents([event(row) for row in rows], total)


def _is_meant(count: PendingCount, ids: list[int] | None, number: int | None) -> bool:
    return (ids is None or count.project_id in ids) and number in (None, count.thread_number)


def acknowledge(app: App, handle: int | str) -> ProcessedEvent:
    """Mark an event, named by its number or its lease, as done."""
    with app.reading() as database:
        return ProcessedEvent(event(ack_event(database, handle, app.clock.now_ms())))


def report_failure(app: App, handle: int | str, error: str) -> FailedEvent:
    """Mark an event, named by its number or its lease, as failed."""
    with app.reading() as database:
        row = nack_event(app, database, handle, error)
        pull = None if row.pr_number is None else find_tracked(database, row.project_id, row.pr_number)
    return FailedEvent(event(row), pull is not None and pull.status == BLOCKED)


class ReplyRequest(Struct, frozen=True, kw_only=True):
    """A reply or comment on a thread; one comment is posted per `token_key`, whatever the text."""

    repo: str | None = None
    pr: str | None = None
    issue: str | None = None
    body: str
    source: Literal["reply", "comment"]
    reply_to: int | None = None
    token_key: str | None = None
    allow_quick_actions: bool = False


def post_reply(app: App, request: ReplyRequest) -> tuple[PostedReply, TideloreError | None]:
    """Post a reply exactly once; also return the error if it could not be confirmed."""
    from tidelore.feedback.outbox import AnswerRequest

    if request.pr is not None and request.issue is not None:
        raise UserError("--pr and --issue cannot be combined", fix="pass only one of them")
    place, pull, issue = repo_of_either(app.config, request.repo, request.pr, request.issue)
    kind: Literal["pr", "issue"] = "issue" if pull is None else "pr"
    number = pull if pull is not None else issue or 0
    answering = AnswerRequest(
        kind, number, request.body, request.source, request.reply_to, request.token_key, request.allow_quick_actions
    )
    fate = "the reply may be stored; the next poll completes it, and repeating the command posts it only once"
    posted = run_until_signalled(post_answer(app, place, answering), fate)
    return PostedReply(reply(posted.row)), posted.error


def ack_event(database: Database, handle: int | str, now_ms: int) -> EventRow:
    """Mark an event as done."""
    from tidelore.feedback.delivery import succeed

    return succeed(database, handle, now_ms)


def nack_event(app: App, database: Database, handle: int | str, error: str) -> EventRow:
    """Mark an event as failed: it is retried later, or its pull request is blocked."""
    from tidelore.feedback.delivery import fail

    number = handle if isinstance(handle, int) else _number(handle)
    event = find_event(database, number)
    project = next(row for row in list_projects(database) if row.id == event.project_id)
    return fail(database, handle, error, _settings(app, project), app.clock.now_ms())


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
    return feedback_settings(app.config, project.source, project.configured) or default_settings()


async def post_answer(app: App, place: ConfiguredRepo, answering: AnswerRequest) -> PostedAnswer:
    """Store a reply and send it; if it could not be confirmed, the next poll settles it."""
    from tidelore.feedback.outbox import post

    async with open_hub(app, [place]) as hub:
        project = await hub.project(place)
        return await post(hub.database, hub.source(place), project, place.host, answering, app.clock, app.seam)
