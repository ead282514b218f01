"""Post answers, and resolve threads, exactly once.

An answer is stored with its token before anything is sent (invariant 6), so requesting it again, in any process, gives
the same comment. Each attempt is stored before the request. If its outcome is unknown (timeout, 5xx, lost connection,
crash), nothing is sent until the request can no longer succeed; then the thread is searched for the marker, and the
answer is posted again only if it is absent. The search reads everything written since the answer was stored, until two
passes agree, and accepts a marker only in a comment by our account. An answer that the server refused permanently is
not sent again. Writes to one host are spaced apart, also across processes.

On GitHub only review comments have threads; an answer to any other comment is posted below it in the conversation. On
GitLab every note belongs to a discussion, into which an answer is posted; its id is that of the stored note. An answer
to a comment of a topic is a reply in the thread of that comment.

Resolving a thread is stored and attempted in the same way. It needs no marker: the state of the thread shows whether an
earlier attempt succeeded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.config import FeedbackHost, RepoSettings, repo_settings
from tidelore.core.errors import (
    CredentialsRejected,
    LockHeld,
    NotFound,
    PartialSuccess,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
    TideloreError,
    UserError,
)
from tidelore.core.model import NOTE, REVIEW_COMMENT, CommentRecord, RemoteId
from tidelore.core.process import ProcessIdentity
from tidelore.core.text import one_line
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.ports import ListRequest, Pages
from tidelore.feedback.tokens import Intent, ScopeKind, action_token, find_markers, is_same_login, with_marker
from tidelore.sources.ports import TOPIC, AnswerPlace, AnswerSource
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.projects import ProjectRow, list_projects
from tidelore.store.work import outbox as rows
from tidelore.store.work.action_tokens import FAILED, OBSERVED, signing_secret
from tidelore.store.work.effects import discussion_of, find_comment, review_thread_of
from tidelore.store.work.events import EventRow, PlannedReply, list_events
from tidelore.store.work.outbox import OutboxRow, find_outbox, free_dead, new_claim, plan
from tidelore.store.work.reply_targets import find_topic_ids

SKEW_MS = 300_000
"""How far the clocks may differ before the search starts earlier: rows have our time, comments the server's."""
_PASSES = 10


class AnswerMark(Struct, frozen=True):
    """Identifies our comment: its token, and our login if the server reports it."""

    token: str
    login: str | None

    def is_on(self, record: CommentRecord) -> bool:
        ours = self.login is None or is_same_login(record.author, self.login)
        return ours and self.token in find_markers(record.body)


class ThreadPass(Struct, frozen=True):
    """The result of one pass over a thread from a given time on."""

    found: CommentRecord | None
    ids: frozenset[RemoteId]
    pages: int
    server_at: int | None


async def find_posted(
    source: AnswerSource, place: AnswerPlace, row: OutboxRow, overlap_ms: int, clock: Clock
) -> CommentRecord | None:
    """Return our comment with the token of a row, or None if it certainly does not exist."""
    own = AnswerMark(row.token, await source.login())
    pages = source.answers(place)
    since = max(row.created_at - overlap_ms - SKEW_MS, 1)
    reading = await _read(pages, own, since)
    ahead_ms = 0 if reading.server_at is None else clock.now_ms() - reading.server_at
    if reading.found is None and ahead_ms > SKEW_MS:
        since = max(since - ahead_ms, 1)
        reading = await _read(pages, own, since)
    for _ in range(_PASSES):
        if reading.found is not None or reading.pages == 1:
            return reading.found
        before, reading = reading, await _read(pages, own, since)
        if reading.found is None and reading.ids <= before.ids:
            return None
    raise RemoteTransient("the thread kept changing while it was read", reason="unsettled_thread")


async def _read(pages: Pages[CommentRecord], own: AnswerMark, since: int) -> ThreadPass:
    ids: set[RemoteId] = set()
    request, count, server_at = ListRequest(since=since), 0, None
    while True:
        page = await pages.fetch(request)
        count, server_at = count + 1, server_at or page.server_at
        for item in page.items:
            ids.add(item.version.id)
            if own.is_on(item.record):
                return ThreadPass(item.record, frozenset(ids), count, server_at)
        if any(own.token.encode() in rejected.payload for rejected in page.rejected):
            raise RemoteTransient("could not parse a comment that may be ours", reason="unreadable_comment")
        if page.next_token is None:
            return ThreadPass(None, frozenset(ids), count, server_at)
        request = ListRequest(since=since, token=page.next_token)


_LOG = logging.getLogger(__name__)

CLAIM_SECONDS = 60.0
"""How long, beyond its settling time, a row stays claimed by a process that cannot be checked for being alive."""
LONGEST_PAUSE_SECONDS = 300.0
_FIRST_PAUSE_SECONDS = 5.0
_LIMIT_PAUSE_SECONDS = 60.0


class Outbox:
    """The outbox of one host."""

    def __init__(
        self, database: Database, source: AnswerSource, settings: FeedbackHost, clock: Clock, seam: Crashpoint = no_seam
    ) -> None:
        self._database = database
        self._source = source
        self._host = settings
        self._clock = clock
        self._seam = seam

    async def send(self, outbox_id: int) -> OutboxRow:
        """Advance one answer as far as possible now, and return its row.

        A row that is finished, not due, or claimed by another process is returned unchanged.
        """
        free_dead(self._database, self._clock.now_ms())
        row = self._claim(outbox_id)
        return rows.find_outbox(self._database, outbox_id) if row is None else await self._carry(row)

    async def send_due(self, limit: int, project_ids: Collection[int] | None = None) -> list[OutboxRow]:
        """Do the same for the due answers of these projects, or of the whole host, the oldest first.

        Stops at a rate limit; raises CredentialsRejected.
        """
        free_dead(self._database, self._clock.now_ms())
        sent: list[OutboxRow] = []
        while len(sent) < limit and (row := self._claim(None, within=project_ids)) is not None:
            sent.append(await self._carry(row))
            if sent[-1].last_error == RateLimited.code:
                break
        return sent

    def _projects(self) -> dict[int, ProjectRow]:
        return {row.id: row for row in list_projects(self._database) if row.source == self._source.name}

    def _claim(
        self, outbox_id: int | None, claim_id: str | None = None, within: Collection[int] | None = None
    ) -> OutboxRow | None:
        held_ms = round((self._host.settle_write_seconds + CLAIM_SECONDS) * 1000)
        now, name = self._clock.now_ms(), claim_id or new_claim(ProcessIdentity.current())
        projects = [key for key in self._projects() if within is None or key in within]
        return rows.claim(self._database, outbox_id, now, held_ms, name, project_ids=projects)

    async def _carry(self, row: OutboxRow) -> OutboxRow:
        """Process a claimed row, and release the claim in any case except a crash."""
        assert row.claim_id is not None
        try:
            return await self._settle(row) if row.attempted_at is not None else await self._post(row)
        except LockHeld:
            return rows.find_outbox(self._database, row.id)
        finally:
            with self._database.transaction() as tx:
                rows.release(tx, row.id, row.claim_id)

    async def _settle(self, row: OutboxRow) -> OutboxRow:
        """Find out whether an earlier attempt succeeded before making another one."""
        settings = self._settings(row)
        settled_at = (row.attempted_at or 0) + round(settings.settle_write_seconds * 1000)
        if row.resolves is not None and (done := await self._check_state(row)) is not None:
            return done
        if self._clock.now_ms() < settled_at:
            return self._postpone(row, settled_at, None)
        if row.resolves is not None:
            return await self._post(row)
        _tell("token_reconcile_timeout", row)
        overlap_ms = round(settings.comment_fetch_overlap_seconds * 1000)
        try:
            found = await find_posted(self._source, self._place(row), row, overlap_ms, self._clock)
        except CredentialsRejected:
            raise
        except RemoteNotFound as error:
            # A comment or topic that is gone has no replies any more, ours neither.
            return self._refused(row, error) if row.scope_kind == TOPIC else self._wait(row, error)
        except RemoteError as error:
            # A failed search says nothing about whether the write succeeded.
            return self._wait(row, error)
        return await self._post(row) if found is None else self._observe(row, found.remote_id, found.updated_at)

    async def _check_state(self, row: OutboxRow) -> OutboxRow | None:
        """Finish a row whose thread is in the wanted state, or wait if that is unknown; None if it is in the other."""
        try:
            state = await self._source.is_resolved(self._thread_place(row))
        except CredentialsRejected:
            raise
        except RemoteNotFound as error:
            return self._refused(row, error)
        except RemoteError as error:
            return self._wait(row, error)
        return self._observe(row, row.reply_to or 0, self._clock.now_ms()) if state == row.resolves else None

    async def _post(self, row: OutboxRow) -> OutboxRow:
        settings = self._settings(row)
        attempted_at = await self._note_attempt(row)
        self._seam(Seam.BEFORE_POST)
        try:
            made = await self._write(row, settings)
        except CredentialsRejected:
            raise
        except RemotePermanent as error:
            return self._refused(row, error)
        except RemoteError as error:
            if error.reason != "unclear_write":
                return self._wait(row, error)
            made = None
        except (TimeoutError, ValueError):
            # It may have been accepted: the response was too late or could not be parsed.
            made = None
        self._seam(Seam.AFTER_POST)
        if made is None:
            settled_at = attempted_at + round(settings.settle_write_seconds * 1000)
            done = None if row.resolves is None else await self._check_state(row)
            return done or self._postpone(row, settled_at, "unclear_write")
        return self._observe(row, *made)

    async def _note_attempt(self, row: OutboxRow) -> int:
        """Store the attempt once the host's write interval has passed; return its time."""
        interval_ms = round(self._host.write_interval_seconds * 1000)
        assert row.claim_id is not None
        while True:
            self._seam(Seam.BEFORE_COMMIT)
            now = self._clock.now_ms()
            early_ms = rows.note_attempt(
                self._database, row.id, row.claim_id, now, project_ids=self._projects(), interval_ms=interval_ms
            )
            if not early_ms:
                return now
            await self._clock.sleep(early_ms / 1000)
            if self._claim(row.id, row.claim_id) is None:
                raise LockHeld("another process is sending this reply", outbox_id=row.id)

    async def _write(self, row: OutboxRow, settings: RepoSettings) -> tuple[int, int] | None:
        """Send a write; return the comment it made or whose thread it changed, with a time, or None if unclear."""
        # The request must have ended long before any process may search for its comment.
        async with asyncio.timeout(settings.settle_write_seconds / 2 or None):
            place = self._thread_place(row)
            if row.resolves is not None:
                state = await self._source.set_resolved(place, resolved=row.resolves)
                return (row.reply_to or 0, self._clock.now_ms()) if state == row.resolves else None
            made = await self._source.post_answer(place, row.body)
            return made.remote_id, made.updated_at

    def _settings(self, row: OutboxRow) -> RepoSettings:
        """Return the settings of a row's repository, by its configured name."""
        project = self._projects().get(row.project_id)
        return repo_settings(self._host, row.repo_full_name if project is None else project.configured)

    def _place(self, row: OutboxRow) -> AnswerPlace:
        """Return where a row is posted, with the id of its repository: its name may belong to another one by now."""
        project = self._projects().get(row.project_id)
        repo = row.repo_full_name if project is None else project.remote_id
        if row.scope_kind == TOPIC:
            return topic_place(self._database, row.project_id, repo, row.scope_number, row.reply_to)
        discussion = None
        if self._source.has_discussions and row.reply_to is not None:
            discussion = discussion_of(self._database, row.project_id, row.reply_to)
        elif row.resolves is not None and row.reply_to is not None:
            discussion = review_thread_of(self._database, row.project_id, row.reply_to)
        return AnswerPlace(repo, row.scope_kind, row.scope_number, row.reply_to, discussion)

    def _thread_place(self, row: OutboxRow) -> AnswerPlace:
        """Return where a row is posted; raise RemoteNotFound if its discussion is needed and not stored any more."""
        place = self._place(row)
        needs_thread = self._source.has_discussions or row.resolves is not None
        missing = needs_thread and place.reply_to is not None and place.discussion is None
        if row.scope_kind == TOPIC:
            missing = place.discussion is None or (place.reply_to is not None and place.parent is None)
        if missing:
            raise RemoteNotFound("the discussion it belongs to was deleted", status=404, reason="not_found")
        return place

    def _observe(self, row: OutboxRow, comment_id: int, updated_at: int) -> OutboxRow:
        now = self._clock.now_ms()
        with self._database.transaction() as tx:
            rows.mark_posted(tx, row.id, comment_id, now)
            done = rows.mark_observed(tx, row.id, comment_id, updated_at, now)
            self._seam(Seam.INSIDE_COMMIT)
        self._seam(Seam.AFTER_COMMIT)
        _tell("token_observed", done)
        return done

    def _refused(self, row: OutboxRow, error: RemotePermanent) -> OutboxRow:
        if error.status is None:
            # Not a response of the server: for example a certificate or redirect problem that a person can fix.
            return self._wait(row, error)
        said = error.details.get("said")
        with self._database.transaction() as tx:
            return rows.mark_failed(
                tx, row.id, f"{error.message}: {said}" if said else error.message, self._clock.now_ms()
            )

    def _wait(self, row: OutboxRow, error: RemoteError) -> OutboxRow:
        now = self._clock.now_ms()
        if isinstance(error, RateLimited):
            pause = error.retry_after_seconds or _LIMIT_PAUSE_SECONDS
            return self._postpone(row, now + round(pause * 1000), RateLimited.code)
        # Wait as long as it has been tried so far, so that the pauses double, whether posting or searching fails.
        tried = 0.0 if row.attempted_at is None else (now - row.attempted_at) / 1000
        pause = min(LONGEST_PAUSE_SECONDS, max(_FIRST_PAUSE_SECONDS, tried))
        return self._postpone(row, now + round(pause * 1000), error.message)

    def _postpone(self, row: OutboxRow, until: int, error: str | None) -> OutboxRow:
        assert row.claim_id is not None
        with self._database.transaction() as tx:
            rows.postpone(tx, row.id, row.claim_id, until, error, self._clock.now_ms())
            return rows.get_outbox(tx, row.id)


def _tell(event: str, row: OutboxRow) -> None:
    fields = {"event": event, "repo": row.repo_full_name, "number": row.scope_number, "token": row.token}
    _LOG.info("%s %s %s", event, row.thread, row.token, extra=fields | {"comment_id": row.comment_id})


_TALK = ("issue_comment", "review_summary")
_REASONS = {
    "unclear_write": "the server did not say whether it was posted",
    RateLimited.code: "rate limited by the server",
}


Also = Callable[[Transaction, OutboxRow], object]
"""What else to store in the transaction that stores an answer."""


class AnswerRequest(Struct, frozen=True):
    """An answer to post: its thread, the comment it replies to, its body, and the caller's key for it, if any.

    Lines that the server would run as commands are refused unless `allow_commands` is set.
    """

    scope_kind: ScopeKind
    number: int
    body: str
    source: str
    to: int | None = None
    token_key: str | None = None
    allow_commands: bool = False


class PostedAnswer(Struct, frozen=True):
    """The state of an answer; `error` is why it is not confirmed."""

    row: OutboxRow
    error: TideloreError | None


class AnswerTarget(Struct, frozen=True):
    """Where an answer is posted: in the thread of a review comment, or in the conversation."""

    reply_to: int | None
    key: str


async def post(
    database: Database,
    source: AnswerSource,
    project: ProjectRow,
    host: FeedbackHost,
    answering: AnswerRequest,
    clock: Clock,
    seam: Crashpoint,
    also: Also | None = None,
) -> PostedAnswer:
    """Store an answer, then send it."""
    refuse_commands(source, answering)
    answering = await _to_the_first(database, source, project, answering)
    row = plan_answer(database, project, answering, clock.now_ms(), in_discussion=source.has_discussions, also=also)
    try:
        row = await Outbox(database, source, host, clock, seam).send(row.id)
    except RemoteError as error:
        return PostedAnswer(find_outbox(database, row.id), error)
    return PostedAnswer(row, unconfirmed_error(row))


def refuse_commands(source: AnswerSource, answering: AnswerRequest) -> None:
    """Raise UserError if the server would run a line of an answer as a command.

    An answer may repeat text of others, which must not act with the rights of our token.
    """
    lines = [] if answering.allow_commands else source.commands_in(answering.body)
    if lines:
        raise UserError(
            f"the server would run a line of the body as a quick action: {one_line(lines[0])[:80]}",
            fix="write a backslash or a space before the slash, or put the line into a code block (```)",
            field="body",
            quick_actions=[one_line(line)[:80] for line in lines],
        )


async def _to_the_first(
    database: Database, source: AnswerSource, project: ProjectRow, answering: AnswerRequest
) -> AnswerRequest:
    """Return the answer as a reply to the first comment of its thread: the server accepts no other.

    The first comment is stored if the comment became an event; otherwise it is fetched.
    """
    to = answering.to
    if to is None or source.has_discussions or answering.scope_kind == TOPIC:
        return answering
    if any(event.comment_id == to for event in list_events(database, project.id, answering.number)):
        return answering
    if any(find_comment(database, project.id, kind, to) for kind in _TALK):
        return answering
    stored = find_comment(database, project.id, REVIEW_COMMENT, to)
    if stored is not None:
        return replace(answering, to=stored.in_reply_to or to)
    first = await source.first_of_thread(AnswerPlace(project.remote_id, answering.scope_kind, answering.number, to))
    return answering if first is None else replace(answering, to=first)


def plan_answer(
    database: Database,
    project: ProjectRow,
    answering: AnswerRequest,
    now_ms: int,
    *,
    in_discussion: bool = False,
    also: Also | None = None,
) -> OutboxRow:
    """Store an answer; storing the same intent again returns the existing row.

    With `in_discussion` an answer to any comment is posted into its discussion.
    """
    target, token, body = marked_answer(database, project, answering, now_ms, in_discussion=in_discussion)
    with database.transaction(durable=True) as tx:
        row = plan(
            tx,
            project.id,
            project.path,
            PlannedReply(answering.scope_kind, answering.number, target.reply_to, token, body, answering.source),
            now_ms,
        )
        if also is not None:
            also(tx, row)
    return row


def marked_answer(
    database: Database, project: ProjectRow, answering: AnswerRequest, now_ms: int, *, in_discussion: bool = False
) -> tuple[AnswerTarget, str, str]:
    """Return where an answer is posted, its token, and its body with the marker."""
    target = find_discussion(database, project, answering) if in_discussion else None
    target = target or find_target(database, project, answering)
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
    return target, token, with_marker(answering.body, token)


def topic_place(database: Database, project_id: int, repo: str | int, number: int, reply_to: int | None) -> AnswerPlace:
    """Return where an answer to a topic, or to a comment of it, is posted."""
    ids = find_topic_ids(database, project_id, number, reply_to)
    return AnswerPlace(repo, TOPIC, number, reply_to, ids.topic, ids.comment)


def find_discussion(database: Database, project: ProjectRow, answering: AnswerRequest) -> AnswerTarget | None:
    """Return the note that an answer replies to, or raise NotFound unless it is a stored note of this thread."""
    if answering.to is None:
        return None
    note, on = find_comment(database, project.id, NOTE, answering.to), "mr" if answering.scope_kind == "pr" else "issue"
    if note is None or (note.number, note.on) != (answering.number, on):
        thread = f"{project.path}{'!' if on == 'mr' else '#'}{answering.number}"
        raise NotFound(
            f"note {answering.to} is not stored as a note of {thread}",
            fix="check the number of the note; if it is new, run `lore sync` first",
            comment_id=answering.to,
        )
    return AnswerTarget(answering.to, answering.body if answering.token_key is None else answering.token_key)


def find_target(database: Database, project: ProjectRow, answering: AnswerRequest) -> AnswerTarget:
    """Return where to post an answer, based on the stored comment it replies to."""
    key = answering.token_key if answering.token_key is not None else answering.body
    to = answering.to
    if to is None or answering.scope_kind == TOPIC:
        return AnswerTarget(to, key)
    event = _newest(event for event in list_events(database, project.id, answering.number) if event.comment_id == to)
    if event is not None and event.kind == REVIEW_COMMENT:
        # The server accepts replies only to the first comment of a thread.
        return AnswerTarget(event.in_reply_to or to, key)
    known = event is not None or any(find_comment(database, project.id, kind, to) for kind in _TALK)
    if known and not find_comment(database, project.id, REVIEW_COMMENT, to):
        # With the comment id, so that the same body in reply to another comment is a different answer.
        return AnswerTarget(None, key if answering.token_key is not None else f"{to}:{key}")
    return AnswerTarget(to, key)


def unconfirmed_error(row: OutboxRow) -> TideloreError | None:
    """Return the error of a write: refused permanently, or not confirmed yet; None if it was made."""
    if row.status == OBSERVED:
        return None
    what = "reply" if row.resolves is None else f"request to {row.source} the thread"
    if row.status == FAILED:
        again = "send it with a new --token-key" if row.resolves is None else "run the command again"
        return RemotePermanent(f"the {what} was refused: {row.last_error}", fix=f"correct the problem, then {again}")
    why = f": {_REASONS.get(row.last_error, row.last_error)}" if row.last_error else ""
    return PartialSuccess(
        f"the {what} is stored but not confirmed yet{why}",
        fix="run the same command again later; it takes effect once",
    )


def _newest(events: Iterable[EventRow]) -> EventRow | None:
    return max(events, key=lambda event: event.id, default=None)
