"""Answers somebody asks us to post. Owns the intent: where it stands, whom it answers, what makes it the same one.

Stored with its token before anything is sent (invariant 6): however often and in however many processes the same
answer is asked for, it is one comment. Only review comments have threads of their own; an answer to any other comment
stands below it in the talk.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.config import GitHubHost
from tidelore.core.errors import PartialSuccess, RateLimited, RemoteError, RemotePermanent, TideloreError
from tidelore.engine.crashpoint import Crashpoint
from tidelore.feedback.outbox import Outbox, Poster
from tidelore.feedback.tokens import Intent, ScopeKind, action_token, with_marker
from tidelore.sources.github.transform import REVIEW_COMMENT
from tidelore.store.database.port import Database
from tidelore.store.mirror.feedback_writer import stored_comments
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.action_tokens import FAILED, OBSERVED, signing_secret
from tidelore.store.work.events import EventRow, list_events
from tidelore.store.work.outbox import OutboxRow, find_outbox, plan

_TALK = ("issue_comment", "review_summary")
_REASONS = {
    "unclear_write": "the server did not say whether it was posted",
    RateLimited.code: "rate limited by the server",
}


class Answering(Struct, frozen=True):
    """What is to be said: in which thread, in answer to which comment, under which word of the caller's own."""

    scope_kind: ScopeKind
    number: int
    body: str
    source: str
    to: int | None = None
    token_key: str | None = None


class Posted(Struct, frozen=True):
    """How far an answer has come; `error` is why it is not confirmed."""

    row: OutboxRow
    error: TideloreError | None


class Target(Struct, frozen=True):
    """Where an answer is posted: into the thread of a review comment, or into the talk."""

    reply_to: int | None
    key: str


async def post(
    database: Database,
    source: Poster,
    project: ProjectRow,
    host: GitHubHost,
    answering: Answering,
    clock: Clock,
    seam: Crashpoint,
) -> Posted:
    """Store an answer, then send it."""
    answering = await _to_the_first(database, source, project, answering)
    row = plan_answer(database, project, answering, clock.now_ms())
    try:
        row = await Outbox(database, source, host, clock, seam).send(row.id)
    except RemoteError as error:
        return Posted(find_outbox(database, row.id), error)
    return Posted(row, judge(row))


async def _to_the_first(database: Database, source: Poster, project: ProjectRow, answering: Answering) -> Answering:
    """Return an answer addressed to the first comment of its thread: the remote takes no other.

    Of a comment that became an event that is stored; any other is asked for, and told by the remote.
    """
    to = answering.to
    if to is None or any(event.comment_id == to for event in list_events(database, project.id, answering.number)):
        return answering
    if any(stored_comments(database, project.id, kind, [to]) for kind in _TALK):
        return answering
    page = await source.thread(project.remote_id, REVIEW_COMMENT, answering.number).fetch_one(str(to))
    first = next((item.record.in_reply_to for item in page.items), None)
    return answering if first is None else replace(answering, to=first)


def plan_answer(database: Database, project: ProjectRow, answering: Answering, now_ms: int) -> OutboxRow:
    """Make an intent durable; the same intent again is the row that is there."""
    target = find_target(database, project, answering)
    intent = Intent(
        project.source,
        project.remote_id,
        answering.scope_kind,
        answering.number,
        target.reply_to,
        answering.source,
        target.key,
    )
    token = action_token(intent, signing_secret(database, now_ms))
    body = with_marker(answering.body, token)
    with database.transaction(durable=True) as tx:
        return plan(
            tx,
            project_id=project.id,
            repo=project.path,
            token=token,
            scope_kind=answering.scope_kind,
            scope_number=answering.number,
            reply_to=target.reply_to,
            body=body,
            source=answering.source,
            now_ms=now_ms,
        )


def find_target(database: Database, project: ProjectRow, answering: Answering) -> Target:
    """Return where an answer belongs, by what is stored of the comment it answers."""
    key = answering.token_key if answering.token_key is not None else answering.body
    to = answering.to
    if to is None:
        return Target(None, key)
    event = _newest(event for event in list_events(database, project.id, answering.number) if event.comment_id == to)
    if event is not None and event.kind == REVIEW_COMMENT:
        # The remote takes answers to the first comment of a thread alone.
        return Target(event.in_reply_to or to, key)
    known = event is not None or any(stored_comments(database, project.id, kind, [to]) for kind in _TALK)
    if known and not stored_comments(database, project.id, REVIEW_COMMENT, [to]):
        # So that the same words to another comment are another answer.
        return Target(None, key if answering.token_key is not None else f"{to}:{key}")
    return Target(to, key)


def judge(row: OutboxRow) -> TideloreError | None:
    """Return what is wrong with an answer: refused for good, or not confirmed yet."""
    if row.status == OBSERVED:
        return None
    if row.status == FAILED:
        return RemotePermanent(
            f"the reply was refused: {row.last_error}",
            fix="correct the problem, then send it with a new --token-key",
        )
    why = f": {_REASONS.get(row.last_error, row.last_error)}" if row.last_error else ""
    return PartialSuccess(
        f"the reply is stored but not confirmed yet{why}",
        fix="run `lore poll github` or the same command again later; the reply is posted once",
    )


def _newest(events: Iterable[EventRow]) -> EventRow | None:
    return max(events, key=lambda event: event.id, default=None)
