"""Reply to items and threads, and resolve or unresolve threads: exactly once, through the outbox.

Afterwards the item is refreshed like any other, so that the copy shows what the server has; if that fails, the next
sync does it. A dry run returns the exact requests and sends none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.app.answers import means
from tidelore.app.reading.refreshing import refresh_items
from tidelore.app.sources import Hub, open_hub
from tidelore.app.wiring import App
from tidelore.app.writing.targets import find_resolvable, find_target, place_of
from tidelore.core.errors import NotFound, TideloreError, UserError
from tidelore.core.progress import OnProgress, silent
from tidelore.feedback.repositories import ConfiguredRepo
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.outbox import OutboxRow
from tidelore.store.work.reply_targets import ReplyTarget

if TYPE_CHECKING:
    from tidelore.feedback.outbox import AnswerRequest
    from tidelore.feedback.resolving import Resolution, ResolvedState, Resolver
    from tidelore.sources.ports import WriteRequest

REFRESH_SECONDS = 30.0
"""How long a refresh after a write may take; the write itself is done by then."""


class PlannedRequest(Struct, frozen=True):
    """A request that would be sent."""

    method: Annotated[str, means("POST or PUT")]
    url: Annotated[str, means("its full URL")]
    body: Annotated[Mapping[str, Any], means("its JSON body")]


class StoredWrite(Struct, frozen=True):
    """A write in the outbox."""

    id: Annotated[int, means("its number in the outbox")]
    status: Annotated[str, means("planned (stored, not confirmed yet), observed (confirmed) or failed")]
    comment_id: Annotated[int | None, means("the posted comment; of a resolution, the first comment of the thread")]
    attempts: Annotated[int, means("number of attempts")]
    error: Annotated[str | None, means("why it is not confirmed, or null")]


class WriteAnswer(Struct, frozen=True, kw_only=True):
    """The answer of `lore reply`, `lore resolve` and `lore unresolve`."""

    reference: Annotated[str, means("the issue, merge request or topic")]
    thread: Annotated[str | None, means("the thread, or null for a comment on the item itself")]
    reply: Annotated[StoredWrite | None, means("the reply, or null if there is none")] = None
    resolution: Annotated[StoredWrite | None, means("the change of the thread's state, or null if none was needed")] = (
        None
    )
    state: Annotated[str | None, means("state of the thread if it was changed or checked: resolved or unresolved")] = (
        None
    )
    requests: Annotated[list[PlannedRequest], means("of a dry run: what would be sent, in this order")] = field(
        default_factory=list
    )
    refreshed: Annotated[bool, means("whether the item was read again from the server afterwards")] = False
    refresh_error: Annotated[str | None, means("why not, or null")] = None


class ReplyTo(Struct, frozen=True, kw_only=True):
    """A reply to an item, thread or comment; one comment is posted per `token_key` and place, else per text."""

    reference: str
    body: str
    project: str | None = None
    token_key: str | None = None
    resolve: bool = False
    dry_run: bool = False
    refresh: bool = True
    allow_quick_actions: bool = False


class ChangeState(Struct, frozen=True, kw_only=True):
    """A thread to resolve or unresolve."""

    reference: str
    resolved: bool = True
    project: str | None = None
    dry_run: bool = False
    refresh: bool = True


async def reply_to(
    app: App, wanted: ReplyTo, on_progress: OnProgress = silent
) -> tuple[WriteAnswer, TideloreError | None]:
    """Post a reply, and resolve the thread afterwards if wanted; also return the error if it is not confirmed."""
    from tidelore.feedback.outbox import post, refuse_commands

    target, place, project = _find(app, wanted.reference, wanted.project, to_resolve=wanted.resolve)
    answering = _answering(target, wanted)
    answer = WriteAnswer(reference=target.reference, thread=target.thread)
    async with open_hub(app, [place], create=False) as hub:
        refuse_commands(hub.source(place), answering)
        target = await _with_thread_id(hub, place, target, wanted) if wanted.resolve else target
        if wanted.dry_run:
            return replace(answer, requests=_dry_reply(hub, place, project, answering, target, wanted)), None
        project = await hub.project(place)
        resolver = _resolver(hub, place, project)
        resolution = _resolution(hub, place, target, resolved=True) if wanted.resolve else None
        also = None if resolution is None else resolver.after(resolution)
        posted = await post(hub.database, hub.source(place), project, place.host, answering, app.clock, app.seam, also)
        answer, error = replace(answer, reply=_stored(posted.row)), posted.error
        if resolution is not None and error is None:
            done = await resolver.send_after(resolution, posted.row)
            answer, error = _with_state(answer, done, resolved=True), done.error
    return await _refreshed(app, answer, on_progress, wanted=wanted.refresh), error


async def change_state(
    app: App, wanted: ChangeState, on_progress: OnProgress = silent
) -> tuple[WriteAnswer, TideloreError | None]:
    """Resolve or unresolve a thread; also return the error if that is not confirmed."""
    target, place, project = _find(app, wanted.reference, wanted.project, to_resolve=True)
    answer = WriteAnswer(reference=target.reference, thread=target.thread)
    async with open_hub(app, [place], create=False) as hub:
        target = await _with_thread_id(hub, place, target, wanted)
        resolution = _resolution(hub, place, target, resolved=wanted.resolved)
        if wanted.dry_run:
            request = hub.source(place).resolve_request(
                resolution.place(project.remote_id), resolved=resolution.resolved
            )
            return replace(answer, requests=[_planned(request)]), None
        done = await _resolver(hub, place, await hub.project(place)).resolve(resolution)
    answer = _with_state(answer, done, resolved=wanted.resolved)
    return await _refreshed(app, answer, on_progress, wanted=wanted.refresh), done.error


def _find(
    app: App, reference: str, project: str | None, *, to_resolve: bool
) -> tuple[ReplyTarget, ConfiguredRepo, ProjectRow]:
    find = find_resolvable if to_resolve else find_target
    with app.reading() as database:
        target = find(app, database, reference, project)
        if target.thread is not None and target.first is None:
            raise UserError(f"{reference} has no comment that could be answered", fix="answer the item itself")
        return target, *place_of(app, database, target)


def _answering(target: ReplyTarget, wanted: ReplyTo) -> AnswerRequest:
    from tidelore.feedback.outbox import AnswerRequest

    return AnswerRequest(
        _scope(target),
        target.number,
        wanted.body,
        "reply",
        target.first,
        wanted.token_key,
        wanted.allow_quick_actions,
    )


def _scope(target: ReplyTarget) -> Literal["pr", "issue", "topic"]:
    return "pr" if target.on == "mr" else target.on


async def _with_thread_id(
    hub: Hub, place: ConfiguredRepo, target: ReplyTarget, wanted: ReplyTo | ChangeState
) -> ReplyTarget:
    """Return a thread with the id that its forge needs for resolving; the item is refreshed if that is not stored."""
    if hub.source(place).has_discussions or target.node_id is not None:
        return target
    if not wanted.dry_run:
        await refresh_items(hub.app, [target.reference], wanted.project)
        target = find_resolvable(hub.app, hub.database, wanted.reference, wanted.project)
    if target.node_id is None:
        raise NotFound(
            f"the id of the thread {target.thread} is not stored yet",
            fix=f"read it first: lore sync --mr '{target.reference}'",
            reference=wanted.reference,
        )
    return target


def _resolution(hub: Hub, place: ConfiguredRepo, target: ReplyTarget, *, resolved: bool) -> Resolution:
    from tidelore.feedback.resolving import Resolution

    thread = target.thread if hub.source(place).has_discussions else target.node_id
    return Resolution(_scope(target), target.number, target.first or 0, thread or "", resolved)


def _resolver(hub: Hub, place: ConfiguredRepo, project: ProjectRow) -> Resolver:
    from tidelore.feedback.resolving import Resolver

    return Resolver(hub.database, hub.source(place), project, place.host, hub.app.clock, hub.app.seam)


def _dry_reply(
    hub: Hub,
    place: ConfiguredRepo,
    project: ProjectRow,
    answering: AnswerRequest,
    target: ReplyTarget,
    wanted: ReplyTo,
) -> list[PlannedRequest]:
    from tidelore.feedback.outbox import marked_answer, topic_place
    from tidelore.sources.ports import AnswerPlace

    source, threaded = hub.source(place), hub.source(place).has_discussions
    goal, _, body = marked_answer(hub.database, project, answering, hub.app.clock.now_ms(), in_discussion=threaded)
    discussion = target.thread if threaded else None
    at = AnswerPlace(project.remote_id, answering.scope_kind, answering.number, goal.reply_to, discussion)
    if target.on == "topic":
        at = topic_place(hub.database, project.id, project.remote_id, answering.number, goal.reply_to)
    requests = [_planned(source.answer_request(at, body))]
    if wanted.resolve:
        resolution = _resolution(hub, place, target, resolved=True)
        requests.append(_planned(source.resolve_request(resolution.place(project.remote_id), resolved=True)))
    return requests


def _planned(request: WriteRequest) -> PlannedRequest:
    return PlannedRequest(request.method, request.url, request.content)


def _stored(row: OutboxRow) -> StoredWrite:
    return StoredWrite(row.id, row.status, row.comment_id, row.attempts, row.last_error)


def _with_state(answer: WriteAnswer, done: ResolvedState, *, resolved: bool) -> WriteAnswer:
    state = None if done.error is not None else "resolved" if resolved else "unresolved"
    return replace(answer, resolution=None if done.row is None else _stored(done.row), state=state)


async def _refreshed(app: App, answer: WriteAnswer, on_progress: OnProgress, *, wanted: bool) -> WriteAnswer:
    """Read the item again; a failure is noted, because the write itself succeeded."""
    if not wanted:
        return answer
    # Not at the top: commands that only describe themselves import this module.
    import asyncio

    try:
        done = await asyncio.wait_for(
            refresh_items(app, [answer.reference], on_progress=on_progress), timeout=REFRESH_SECONDS
        )
        problem = next((item.error for item in done.items if item.error is not None), None)
    except TimeoutError:
        problem = f"not finished within {REFRESH_SECONDS:g} seconds"
    except TideloreError as error:
        problem = error.message
    return replace(answer, refreshed=problem is None, refresh_error=problem)
