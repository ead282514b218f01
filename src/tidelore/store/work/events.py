"""Stores feedback events and leases them to consumers (table `feedback_events`).

Also defines the effects a comment version can have: `feedback` decides them, the store writes them in the cursor's
transaction (invariant 8). Events of one thread are handed out in order, one at a time; if a consumer crashes, its
event is requeued when the lease expires. Does not decide what becomes an event, nor what follows a failure.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from tidelore.core.errors import LockHeld, NotFound
from tidelore.core.model import CommentRecord, MergeRequestRecord
from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.database.statements import Where, insert


class NewEvent(Struct, frozen=True):
    """A comment to act on. `event_key` identifies this version of it permanently."""

    event_key: str
    pr_number: int | None
    issue_number: int | None
    record: CommentRecord


class TokenSeen(Struct, frozen=True):
    """One of our own markers in a remote comment: the write it belongs to was delivered."""

    token: str
    comment_id: int
    updated_at: int


class NewCommand(Struct, frozen=True):
    """A command of an operator or of another user; `status` is pending, rejected or expired.

    `number` is the thread in which it was written.
    """

    command_key: str
    number: int
    pr_number: int | None
    record: CommentRecord
    command: str
    args: Mapping[str, str]
    status: str = "pending"
    result: str | None = None


class NewFollowup(Struct, frozen=True):
    """A comment on a source issue that has no pull request yet; it waits to be batched with others."""

    issue_number: int
    record: CommentRecord


class NewRedirect(Struct, frozen=True):
    """A comment on a source issue whose pull request exists: it is answered once with a pointer to it.

    `scope_number` is the thread in which the answer is posted, `reply_to` the comment that it must be posted below.
    """

    issue_number: int
    comment_id: int
    token: str
    body: str
    scope_number: int
    reply_to: int | None = None


class PlannedReply(Struct, frozen=True):
    """An answer to post. `scope_kind` is pr or issue, `reply_to` the review comment it replies to in its thread."""

    scope_kind: str
    scope_number: int
    reply_to: int | None
    token: str
    body: str
    source: str


class IgnoredComment(Struct, frozen=True):
    """A comment that is ignored because of its author. It is stored completely, in case that changes."""

    record: CommentRecord
    reason: str


class Consumer(Protocol):
    """Derives effects from what a writer stores, in the transaction of the writer."""

    def stored(self, tx: Transaction, project_id: int, records: Sequence[object], now_ms: int) -> None:
        """Look at records of a project that were just stored; those that do not concern it are passed over."""
        ...

    def concerns(self, project_id: int, number: int) -> bool:
        """Return whether `stored` may use comments on an issue or merge request with this number."""
        ...

    def selects(self, project_id: int, record: MergeRequestRecord) -> bool:
        """Return whether a merge request of a project is followed, where only followed ones are stored."""
        ...


Effect = NewEvent | TokenSeen | IgnoredComment | NewCommand | NewFollowup | NewRedirect | PlannedReply


FOLLOWUPS = "issue_followups"
"""The kind of an event that batches the comments on a source issue from before its pull request."""

_ONE_AT_A_TIME = {"sqlite": "SELECT 1", "postgres": "SELECT pg_advisory_xact_lock(5499822512)"}


class EventRow(Struct, frozen=True):
    """An event with every column of its row, the state of its pull request, and its discussion if that is stored."""

    id: int
    project_id: int
    repo_full_name: str
    event_key: str
    thread_number: int
    pr_number: int | None
    issue_number: int | None
    kind: str
    comment_id: int
    author: str | None
    body: str
    path: str | None
    line: int | None
    side: str | None
    commit_sha: str | None
    in_reply_to: int | None
    review_id: int | None
    review_state: str | None
    url: str | None
    association: str | None
    start_line: int | None
    subject_type: str | None
    diff_hunk: str | None
    created_at: int
    updated_at: int
    ingested_at: int
    processed_at: int | None
    attempts: int
    last_error: str | None
    next_attempt_at: int | None
    lease_id: str | None
    leased_by: str | None
    leased_until: int | None
    pr_status: str | None = None
    pr_title: str | None = None
    pr_branch: str | None = None
    pr_head_sha: str | None = None
    thread_id: str | None = None


class PendingCount(Struct, frozen=True):
    """The pending events of one thread."""

    project_id: int
    repo_full_name: str
    thread_number: int
    pending: int
    in_flight: int


_SHOWN = ("pr_status", "pr_title", "pr_branch", "pr_head_sha", "thread_id")
"""What is read with an event, and not stored in its row."""
_FIELDS = tuple(name for name in EventRow.__struct_fields__ if name not in _SHOWN)
_PULL = "FROM tracked_prs t WHERE t.project_id = {0}.project_id AND t.pr_number = {0}.pr_number"
_TRACKED = {"pr_status": "status", "pr_title": "title", "pr_branch": "branch", "pr_head_sha": "last_seen_head_sha"}


def pull_reference(table: str, number: str) -> str:
    """Return the SQL for the merge request with this number as its forge writes it, such as !58; NULL if not stored."""
    found = f"m.project_id = {table}.project_id AND m.iid = {table}.{number}"
    return f"(SELECT m.references_short FROM merge_requests m WHERE {found} ORDER BY m.id DESC LIMIT 1)"


def _shown(table: str) -> list[str]:
    pull = _PULL.format(table)
    found = [f"(SELECT t.{column} {pull}) AS {name}" for name, column in _TRACKED.items()]
    thread = (
        "SELECT d.remote_id FROM notes n JOIN discussions d ON d.id = n.discussion_id"
        f" WHERE n.project_id = {table}.project_id AND n.kind = {table}.kind AND n.remote_id = {table}.comment_id"
    )
    return [*found, f"({thread}) AS thread_id"]


_STORED = ", ".join((*_FIELDS, *_shown("feedback_events")))
_ROWS = f"SELECT {_STORED} FROM feedback_events"
_OF_E = ", ".join((*(f"e.{name}" for name in _FIELDS), *_shown("e")))
OF_ENDED = f"EXISTS (SELECT 1 {_PULL.format('e')} AND t.status IN ('merged', 'closed'))"
"""Whether the pull request of an event `e` is merged or closed."""
# The first event in a thread's queue, not leased, of a pull request that is neither blocked nor paused.
_READY = (
    "(e.next_attempt_at IS NULL OR e.next_attempt_at <= :now)"
    " AND NOT EXISTS (SELECT 1 FROM feedback_events o WHERE o.processed_at IS NULL AND o.project_id = e.project_id"
    " AND o.thread_number = e.thread_number AND (o.updated_at < e.updated_at"
    " OR (o.updated_at = e.updated_at AND o.id < e.id)))"
    " AND NOT EXISTS (SELECT 1 FROM feedback_events o WHERE o.processed_at IS NULL AND o.leased_until IS NOT NULL"
    " AND o.project_id = e.project_id AND o.thread_number = e.thread_number AND o.leased_until > :now)"
    f" AND NOT EXISTS (SELECT 1 {_PULL.format('e')} AND (t.status = 'blocked' OR t.paused = 1))"
)


def insert_events(
    tx: Transaction, project_id: int, repo: str, events: Sequence[NewEvent], now_ms: int
) -> list[NewEvent]:
    """Store events with their bodies; return those that were not stored before."""
    return [event for event in events if _insert(tx, project_id, repo, event, now_ms)]


def lease_next(
    database: Database,
    now_ms: int,
    lease_ms: int,
    holder: str,
    *,
    pr: int | None = None,
    project_ids: Sequence[int] | None = None,
    include_closed: bool = False,
) -> EventRow | None:
    """Lease the oldest event that is ready to one holder; return None if none is ready.

    Events of a merged or closed pull request are handed out only with `include_closed`. A lease that expired without a
    result counts as a failed attempt. A batch of follow-ups is consumed when it is handed out: its issue's consumed id
    moves in the same transaction.
    """
    with database.transaction() as tx:
        # Without this, two concurrent callers would each consider the other's thread free.
        tx.execute(_ONE_AT_A_TIME[database.dialect])
        # A batch of follow-ups that is being rebuilt disappears between the read and the update.
        where = _narrowed(database, pr, project_ids)
        if not include_closed:
            where.narrow(f"NOT {OF_ENDED}")
        while rows := _ready(database, now_ms, where):
            event = EventRow(*rows[0])
            leased = _lease(tx, event, holder, now_ms + lease_ms)
            if not leased:
                continue
            if event.kind == FOLLOWUPS:
                _consume(tx, event, now_ms)
            return EventRow(*leased[0])
    return None


def peek(
    database: Database,
    *,
    pr: int | None = None,
    project_ids: Sequence[int] | None = None,
    limit: int = 20,
) -> list[EventRow]:
    """Return unprocessed events, oldest first, without leasing them."""
    where = _narrowed(database, pr, project_ids)
    rows = database.read(
        f"SELECT {_OF_E} FROM feedback_events e WHERE {where} ORDER BY e.updated_at, e.id LIMIT :limit",
        {**where.params, "limit": limit},
    )
    return [EventRow(*row) for row in rows]


def ack(database: Database, handle: int | str, now_ms: int) -> EventRow:
    """Mark an event as processed, by its id or by the lease it was handed out under.

    An expired lease still counts unless another consumer took the event over; otherwise LockHeld names that consumer.
    Marking an event twice has no effect.
    """
    with database.transaction() as tx:
        event = _held(tx, handle)
        tx.execute(
            "UPDATE feedback_events SET processed_at = :now, leased_until = NULL, next_attempt_at = NULL"
            " WHERE id = :id AND processed_at IS NULL",
            {"now": now_ms, "id": event.id},
        )
        return _get(tx, event.id)


def nack(database: Database, handle: int | str, *, error: str, next_attempt_at: int | None) -> EventRow:
    """Count a failed attempt and release the event until an instant; the returned row contains the attempts.

    The same lease fails only once. A processed event stays processed.
    """
    with database.transaction() as tx:
        event = _held(tx, handle)
        if event.processed_at is not None or (isinstance(handle, str) and event.leased_until is None):
            return event
        tx.execute(
            "UPDATE feedback_events SET attempts = attempts + 1, last_error = :error, next_attempt_at = :next,"
            " leased_until = NULL WHERE id = :id",
            {"error": error, "next": next_attempt_at, "id": event.id},
        )
        return _get(tx, event.id)


def retry_now(tx: Transaction, project_id: int, thread_number: int) -> int:
    """Make the waiting events of a thread ready and reset their attempts; return how many were waiting."""
    return tx.change(
        "UPDATE feedback_events SET attempts = 0, next_attempt_at = NULL WHERE project_id = :project_id"
        " AND thread_number = :number AND processed_at IS NULL",
        {"project_id": project_id, "number": thread_number},
    )


def find_event(database: Database, event_id: int) -> EventRow:
    """Return one event."""
    return _only(database.read(f"{_ROWS} WHERE id = :id", {"id": event_id}), event_id)


def list_events(database: Database, project_id: int, thread_number: int) -> list[EventRow]:
    """Return every event of one thread, processed or not, oldest first."""
    rows = database.read(
        f"{_ROWS} WHERE project_id = :project_id AND thread_number = :number ORDER BY updated_at, id",
        {"project_id": project_id, "number": thread_number},
    )
    return [EventRow(*row) for row in rows]


def pending_counts(database: Database, now_ms: int) -> list[PendingCount]:
    """Return the numbers of waiting and leased events, by thread."""
    rows = database.read(
        "SELECT project_id, repo_full_name, thread_number, COUNT(*),"
        " COUNT(CASE WHEN leased_until > :now THEN 1 END) FROM feedback_events"
        " WHERE processed_at IS NULL GROUP BY project_id, repo_full_name, thread_number"
        " ORDER BY repo_full_name, thread_number",
        {"now": now_ms},
    )
    return [PendingCount(*row) for row in rows]


def count_of_ended(database: Database, project_ids: Collection[int], pr: int | None = None) -> int:
    """Count the unprocessed events of merged and closed pull requests in these projects."""
    where = _narrowed(database, pr, project_ids)
    rows = database.read(f"SELECT COUNT(*) FROM feedback_events e WHERE {where} AND {OF_ENDED}", where.params)
    return int(rows[0][0])


def _insert(tx: Transaction, project_id: int, repo: str, event: NewEvent, now_ms: int) -> bool:
    record = event.record
    params: dict[str, Any] = {
        "project_id": project_id,
        "repo_full_name": repo,
        "event_key": event.event_key,
        "thread_number": event.issue_number if event.pr_number is None else event.pr_number,
        "pr_number": event.pr_number,
        "issue_number": event.issue_number,
        "comment_id": record.remote_id,
        "ingested_at": now_ms,
    }
    params |= {name: getattr(record, name) for name in _FIELDS if name not in params and hasattr(record, name)}
    sql = f"{insert('feedback_events', params)} ON CONFLICT (project_id, event_key) DO NOTHING"
    return tx.change(sql, params) > 0


def _ready(database: Database, now_ms: int, where: Where) -> list[Row]:
    return database.read(
        f"SELECT {_OF_E} FROM feedback_events e {database.by_index('idx_feedback_events_pending')}"
        f" WHERE {_READY} AND {where} ORDER BY e.updated_at, e.id LIMIT 1",
        {**where.params, "now": now_ms},
    )


def _lease(tx: Transaction, event: EventRow, holder: str, until: int) -> list[Row]:
    """Lease an event; a previous lease that expired without a result counts as a failed attempt."""
    params: dict[str, object] = {"attempts": event.attempts, "error": event.last_error}
    if event.leased_until is not None:
        error = f"the lease of {event.leased_by} expired without a result"
        params = {"attempts": event.attempts + 1, "error": error}
    # The lease id contains the event id, so that an old lease still leads to the current holder.
    return tx.execute(
        "UPDATE feedback_events SET lease_id = :lease_id, leased_by = :holder, leased_until = :until,"
        " attempts = :attempts, last_error = :error WHERE id = :id AND processed_at IS NULL"
        f" RETURNING {_STORED}",
        {**params, "lease_id": f"{event.id}-{secrets.token_hex(12)}", "holder": holder, "until": until, "id": event.id},
    )


def _narrowed(database: Database, pr: int | None, project_ids: Collection[int] | None) -> Where:
    """Return the conditions for unprocessed events of a pull request, or of projects."""
    where = Where("e.processed_at IS NULL")
    where.narrow("e.pr_number = :pr", pr=pr)
    ids = None if project_ids is None else database.integers(project_ids)
    return where.narrow(f"e.project_id {database.among('projects')}", projects=ids)


def _consume(tx: Transaction, event: EventRow, now_ms: int) -> None:
    tx.execute(
        "UPDATE issue_comment_cursors SET pre_pr_last_consumed_comment_id = :comment_id, updated_at = :now"
        " WHERE project_id = :project_id AND issue_number = :number AND pre_pr_last_consumed_comment_id < :comment_id",
        {
            "comment_id": event.comment_id,
            "project_id": event.project_id,
            "number": event.issue_number,
            "now": now_ms,
        },
    )


def _held(tx: Transaction, handle: int | str) -> EventRow:
    """Return the event for an id or a lease id, which contains the event id so that a new holder can be named."""
    if isinstance(handle, int):
        return _get(tx, handle)
    number = handle.partition("-")[0]
    if not (number.isascii() and number.isdecimal()):
        raise NotFound(f"unknown lease: {handle!r}", fix="use the lease_id printed by `lore feedback next`")
    event = _get(tx, int(number))
    if event.lease_id != handle:
        raise LockHeld(
            f"event {event.id} is no longer yours, it was taken by {event.leased_by or 'another consumer'}",
            fix="take the next event with `lore feedback next`",
            event_id=event.id,
            holder=event.leased_by,
        )
    return event


def _get(tx: Transaction, event_id: int) -> EventRow:
    return _only(tx.execute(f"{_ROWS} WHERE id = :id", {"id": event_id}), event_id)


def _only(rows: list[Row], event_id: int) -> EventRow:
    if not rows:
        raise NotFound(
            f"event {event_id} not found", fix="`lore feedback peek` lists unprocessed events", event_id=event_id
        )
    return EventRow(*rows[0])
