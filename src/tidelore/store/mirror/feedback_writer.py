"""Stores a page of GitHub comments and their effects in one transaction.

Invariants 1 and 8: comment versions, events with bodies, tokens, commands, follow-ups, planned answers, quarantine and
the cursor commit together, under the lease. `interpret` decides what a version means before the transaction begins. A
version is new if it is not in `feedback_comments` (invariant 3); the digest of the body distinguishes an edit from a
mere change of the update time. Comments of authors who are not allowed are kept in `ignored_comments`, so that a
changed list of users can be applied without requesting them again. Comments of threads that are not followed are not
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.model import CommentRecord, Item, Rejected, RemoteId, Scope, Version
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.cursor import Cursor, Gap
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Batch, Quarantined
from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.mirror.cursors import load_cursor, load_gaps, repo_of, save_cursor, save_gaps, set_aside
from tidelore.store.mirror.quarantine import admit, due_entries, release
from tidelore.store.work.action_tokens import observe_in_project
from tidelore.store.work.events import (
    Effect,
    IgnoredComment,
    NewCommand,
    NewEvent,
    NewFollowup,
    NewRedirect,
    PlannedReply,
    TokenSeen,
    insert_events,
)
from tidelore.store.work.followed_issues import add_followups, note_redirected
from tidelore.store.work.leases import writing
from tidelore.store.work.operator_commands import insert_command
from tidelore.store.work.outbox import plan


def body_digest(body: str) -> bytes:
    """Return a digest by which two bodies can be compared."""
    return digest(body.encode())


def stored_comments(database: Database, project_id: int, kind: str, ids: Iterable[int]) -> dict[RemoteId, Version]:
    """Return the version of each stored comment, with the digest of its payload."""
    rows = _stored(database, project_id, kind, ids, "digest")
    return {key: Version(key, updated_at, bytes(found)) for key, updated_at, found in rows}


def stored_bodies(database: Database, project_id: int, kind: str, ids: Iterable[int]) -> dict[RemoteId, Version]:
    """Return the version of each stored comment, with the digest of its body."""
    rows = _stored(database, project_id, kind, ids, "body_digest")
    return {key: Version(key, updated_at, bytes(found)) for key, updated_at, found in rows}


def save_comments(tx: Transaction, project_id: int, kind: str, items: Sequence[Item[CommentRecord]]) -> None:
    """Store the versions of a page; an older one never replaces a newer one."""
    tx.execute_many(
        "INSERT INTO feedback_comments (project_id, kind, comment_id, number, updated_at, digest, body_digest, author)"
        " VALUES (:project_id, :kind, :comment_id, :number, :updated_at, :digest, :body_digest, :author)"
        " ON CONFLICT (project_id, kind, comment_id) DO UPDATE SET number = excluded.number,"
        " updated_at = excluded.updated_at, digest = excluded.digest, body_digest = excluded.body_digest,"
        " author = excluded.author WHERE excluded.updated_at >= feedback_comments.updated_at",
        [
            {
                "project_id": project_id,
                "kind": kind,
                "comment_id": item.record.remote_id,
                "number": item.record.number,
                "updated_at": item.version.updated_at,
                "digest": item.version.digest,
                "body_digest": body_digest(item.record.body),
                "author": item.record.author,
            }
            for item in items
        ],
    )


def _stored(database: Database, project_id: int, kind: str, ids: Iterable[int], column: str) -> list[Row]:
    return database.read(
        f"SELECT comment_id, updated_at, {column} FROM feedback_comments WHERE project_id = :project_id"
        f" AND kind = :kind AND comment_id {database.among('ids')}",
        {"project_id": project_id, "kind": kind, "ids": database.integers(ids)},
    )


class IgnoredAuthor(Struct, frozen=True):
    """An author whose comments in one thread were ignored."""

    number: int
    author: str | None
    association: str | None
    reason: str


class IgnoredCount(Struct, frozen=True):
    """How many comments of how many accounts of a project were ignored for one reason."""

    project_id: int
    reason: str
    comments: int
    accounts: int


def save_ignored(tx: Transaction, project_id: int, ignored: Sequence[IgnoredComment]) -> None:
    """Store ignored comments; an older version never replaces a newer one."""
    tx.execute_many(
        "INSERT INTO ignored_comments (project_id, kind, comment_id, number, author, association, reason, updated_at,"
        " record) VALUES (:project_id, :kind, :comment_id, :number, :author, :association, :reason, :updated_at,"
        " :record) ON CONFLICT (project_id, kind, comment_id) DO UPDATE SET number = excluded.number,"
        " author = excluded.author, association = excluded.association, reason = excluded.reason,"
        " updated_at = excluded.updated_at, record = excluded.record"
        " WHERE excluded.updated_at >= ignored_comments.updated_at",
        [
            {
                "project_id": project_id,
                "kind": one.record.kind,
                "comment_id": one.record.remote_id,
                "number": one.record.number,
                "author": one.record.author,
                "association": one.record.association,
                "reason": one.reason,
                "updated_at": one.record.updated_at,
                "record": msgspec.json.encode(one.record).decode(),
            }
            for one in ignored
        ],
    )


def forget_ignored(tx: Transaction, project_id: int, kind: str, ids: Iterable[int]) -> None:
    """Delete comments that are no longer ignored."""
    tx.execute_many(
        "DELETE FROM ignored_comments WHERE project_id = :project_id AND kind = :kind AND comment_id = :comment_id",
        [{"project_id": project_id, "kind": kind, "comment_id": comment_id} for comment_id in ids],
    )


def ignored_authors(database: Database, project_id: int) -> list[IgnoredAuthor]:
    """Return the authors whose comments were ignored in a project, for each thread."""
    rows = database.read(
        "SELECT DISTINCT number, author, association, reason FROM ignored_comments WHERE project_id = :project_id",
        {"project_id": project_id},
    )
    return [IgnoredAuthor(*row) for row in rows]


def ignored_comments(
    database: Database, project_id: int, by: IgnoredAuthor, limit: int | None = None
) -> list[CommentRecord]:
    """Return the ignored comments of one author in one thread, oldest first."""
    params: dict[str, object] = {"project_id": project_id, "number": by.number, "reason": by.reason}
    same = ""
    for name, value in (("author", by.author), ("association", by.association)):
        same += f" AND {name} IS NULL" if value is None else f" AND {name} = :{name}"
        params |= {} if value is None else {name: value}
    most = "" if limit is None else f" LIMIT {limit:d}"
    rows = database.read(
        f"SELECT record FROM ignored_comments WHERE project_id = :project_id AND number = :number"
        f" AND reason = :reason{same} ORDER BY updated_at, comment_id{most}",
        params,
    )
    return [msgspec.json.decode(record, type=CommentRecord) for (record,) in rows]


def count_ignored(database: Database) -> list[IgnoredCount]:
    """Return how many comments were ignored, by project and reason."""
    rows = database.read(
        "SELECT project_id, reason, COUNT(*), COUNT(DISTINCT LOWER(author)) FROM ignored_comments"
        " GROUP BY project_id, reason ORDER BY project_id, reason"
    )
    return [IgnoredCount(*row) for row in rows]


Interpret = Callable[[Item[CommentRecord], Version | None], Sequence[Effect] | None]
"""Return the effects of a version, given the stored one (with the digest of its BODY). None: not judged, not stored."""

REDIRECT_SOURCE = "issue_redirect"


class JudgedComment(Struct, frozen=True):
    """A version of a comment and its effects."""

    item: Item[CommentRecord]
    effects: Sequence[Effect]


class ScanBatch(Struct, frozen=True):
    """The contents of one transaction: judged comments of one kind, and every cursor that covers them.

    The first cursor is that of the list itself; `rejected`, `released` and `gaps` belong to it.
    """

    project_id: int
    repo_full_name: str
    kind: str
    judged: Sequence[JudgedComment]
    cursors: Sequence[tuple[Scope, Cursor]] = ()
    rejected: Sequence[Rejected] = ()
    released: Sequence[str] = ()
    gaps: Sequence[Gap] | None = None


class WrittenEffects(Struct, frozen=True):
    """What a transaction wrote: the new rows, and how many events already existed."""

    events: Sequence[NewEvent] = ()
    deduped: int = 0
    tokens: Sequence[TokenSeen] = ()
    commands: Sequence[NewCommand] = ()
    followups: int = 0
    planned: Sequence[int] = ()
    ignored: Sequence[IgnoredComment] = ()


Also = Callable[[Transaction, WrittenEffects], None]
"""Additional writes for the same transaction: counters, the version for which reviews were read."""


def ingest_feedback_scan_batch(
    database: Database,
    batch: ScanBatch,
    now_ms: int,
    *,
    lease: Lease | None = None,
    seam: Crashpoint = no_seam,
    also: Also | None = None,
) -> WrittenEffects:
    """Write the whole batch in one transaction, or nothing."""
    with writing(database, lease, durable=_plans(batch)) as tx:
        if batch.judged:
            save_comments(tx, batch.project_id, batch.kind, [judged.item for judged in batch.judged])
        written = _write_effects(tx, batch, now_ms)
        _write_list(tx, batch, now_ms)
        if also is not None:
            also(tx, written)
        seam(Seam.INSIDE_COMMIT)
    return written


def ingest_stored_comments(
    database: Database,
    project_id: int,
    repo: str,
    kind: str,
    judged: Sequence[JudgedComment],
    now_ms: int,
    *,
    lease: Lease | None = None,
    also: Also | None = None,
) -> WrittenEffects:
    """Write the effects of comments that are already stored; their versions and the cursors do not change."""
    batch = ScanBatch(project_id, repo, kind, judged)
    with writing(database, lease, durable=_plans(batch)) as tx:
        written = _write_effects(tx, batch, now_ms)
        forget_ignored(tx, project_id, kind, [one.item.record.remote_id for one in judged])
        if also is not None:
            also(tx, written)
    return written


class FeedbackWriter:
    """Implements the engine's `ScopeStore` for the comments of a repository or of one thread.

    `is_followed` returns whether the thread with a number is followed; `also` is run in each page's transaction,
    `on_effects` after it.
    """

    def __init__(
        self,
        database: Database,
        scope: Scope,
        kind: str,
        interpret: Interpret,
        is_followed: Callable[[int], bool],
        now_ms: Callable[[], int],
        *,
        lease: Lease | None = None,
        seam: Crashpoint = no_seam,
        also: Also | None = None,
        on_effects: Callable[[WrittenEffects], None] | None = None,
    ) -> None:
        if scope.project_id is None:
            raise ValueError(f"{scope.title} has no repository")
        self._database = database
        self._scope = scope
        self._project_id = scope.project_id
        self._kind = kind
        self._interpret = interpret
        self._is_followed = is_followed
        self._now_ms = now_ms
        self._lease = lease
        self._seam = seam
        self._also = also
        self._on_effects = on_effects

    def load(self) -> Cursor:
        return load_cursor(self._database, self._scope)

    def gaps(self) -> Sequence[Gap]:
        return load_gaps(self._database, self._scope)

    def stored(self, ids: Iterable[RemoteId]) -> Mapping[RemoteId, Version]:
        return stored_comments(self._database, self._project_id, self._kind, _numbers(ids))

    def held(self, created_from: int, created_before: int | None) -> Mapping[RemoteId, str]:  # noqa: ARG002
        # Deletions are not listed, and a deleted comment remains an event, so there is nothing to verify.
        return {}

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        return due_entries(self._database, self._scope, self._now_ms(), limit)

    def set_aside(self, reason: str) -> None:
        with writing(self._database, self._lease) as tx:
            set_aside(tx, self._scope, reason, self._now_ms())

    def commit(self, batch: Batch[CommentRecord]) -> None:
        written = ingest_feedback_scan_batch(
            self._database,
            ScanBatch(
                self._project_id,
                repo_of(self._scope),
                self._kind,
                self.judge(batch.items),
                [(self._scope, batch.cursor)],
                batch.rejected,
                [*batch.released, *(str(item.version.id) for item in batch.items)],
                batch.gaps,
            ),
            self._now_ms(),
            lease=self._lease,
            seam=self._seam,
            also=self._also,
        )
        if self._on_effects is not None:
            self._on_effects(written)

    def judge(self, items: Sequence[Item[CommentRecord]]) -> list[JudgedComment]:
        """Return the items of followed threads with their effects, oldest first."""
        return judge_items(
            self._database,
            self._project_id,
            self._kind,
            [item for item in items if self._is_followed(item.record.number)],
            self._interpret,
        )


def judge_items(
    database: Database, project_id: int, kind: str, items: Sequence[Item[CommentRecord]], interpret: Interpret
) -> list[JudgedComment]:
    """Return versions with their effects, given the stored versions, oldest first."""
    stored = stored_bodies(database, project_id, kind, _numbers(item.version.id for item in items)) if items else {}
    ordered = sorted(items, key=lambda item: (item.version.updated_at, item.record.remote_id))
    judged = [(item, interpret(item, stored.get(item.version.id))) for item in ordered]
    return [JudgedComment(item, effects) for item, effects in judged if effects is not None]


def _write_list(tx: Transaction, batch: ScanBatch, now_ms: int) -> None:
    if batch.cursors:
        home = batch.cursors[0][0]
        admit(tx, home, batch.rejected, now_ms)
        if batch.released:
            release(tx, home, batch.released)
        if batch.gaps is not None:
            save_gaps(tx, home, batch.gaps, now_ms)
    elif batch.rejected or batch.gaps:
        raise ValueError("rejected items and gaps need the cursor of their list")
    for scope, cursor in batch.cursors:
        save_cursor(tx, scope, cursor, now_ms)


def _plans(batch: ScanBatch) -> bool:
    return any(isinstance(effect, NewRedirect | PlannedReply) for judged in batch.judged for effect in judged.effects)


def _write_effects(tx: Transaction, batch: ScanBatch, now_ms: int) -> WrittenEffects:
    project_id, repo = batch.project_id, batch.repo_full_name
    every = [(judged.item.record, effect) for judged in batch.judged for effect in judged.effects]
    events = [effect for _, effect in every if isinstance(effect, NewEvent)]
    new_events = insert_events(tx, project_id, repo, events, now_ms)
    commands = [effect for _, effect in every if isinstance(effect, NewCommand)]
    followups = [effect for _, effect in every if isinstance(effect, NewFollowup)]
    tokens = [(record.number, effect) for record, effect in every if isinstance(effect, TokenSeen)]
    planned = {
        _plan(tx, project_id, repo, effect, now_ms)
        for _, effect in every
        if isinstance(effect, NewRedirect | PlannedReply)
    }
    ignored = [effect for _, effect in every if isinstance(effect, IgnoredComment)]
    kept = {one.record.remote_id for one in ignored}
    # A new version of an ignored comment may be a command, or its author may be allowed by now.
    forget_ignored(tx, project_id, batch.kind, {record.remote_id for record, _ in every} - kept)
    if ignored:
        save_ignored(tx, project_id, ignored)
    return WrittenEffects(
        events=new_events,
        deduped=len(events) - len(new_events),
        # After the answers: one that is planned and seen on the same page counts as delivered.
        tokens=[
            seen
            for number, seen in tokens
            if observe_in_project(tx, project_id, number, seen.token, seen.comment_id, seen.updated_at, now_ms)
        ],
        commands=[command for command in commands if insert_command(tx, project_id, repo, command, now_ms)],
        followups=add_followups(tx, project_id, followups),
        planned=sorted(planned),
        ignored=ignored,
    )


def _plan(tx: Transaction, project_id: int, repo: str, effect: NewRedirect | PlannedReply, now_ms: int) -> int:
    if isinstance(effect, NewRedirect):
        note_redirected(tx, project_id, effect.issue_number, effect.comment_id, now_ms)
        effect = PlannedReply("issue", effect.scope_number, None, effect.token, effect.body, REDIRECT_SOURCE)
    row = plan(
        tx, project_id=project_id, repo=repo, token=effect.token, scope_kind=effect.scope_kind,
        scope_number=effect.scope_number, reply_to=effect.reply_to, body=effect.body, source=effect.source,
        now_ms=now_ms,
    )  # fmt: skip
    return row.id


def _numbers(ids: Iterable[RemoteId]) -> list[int]:
    return [key for key in ids if isinstance(key, int)]
