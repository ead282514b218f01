"""The durable side of one list of comments. Owns the one transaction that makes a page of them durable.

Invariants 1 and 8: versions, events with their bodies, tokens, commands, follow-ups, planned answers, quarantine and
the cursor commit together or not at all, and only while the lease is ours. Comments of threads that nobody follows
leave no row. What a version means is decided by `interpret`, before the transaction begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from tidelore.core.model import CommentRecord, Item, Rejected, RemoteId, Scope, Version
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.cursor import Cursor, Gap
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Batch, Quarantined
from tidelore.store.action_tokens import observe_in_project
from tidelore.store.cursors import load_cursor, load_gaps, save_cursor, save_gaps, set_aside
from tidelore.store.database import Database, Transaction
from tidelore.store.effects import (
    Effect,
    IgnoredComment,
    NewCommand,
    NewEvent,
    NewFollowup,
    NewRedirect,
    PlannedReply,
    TokenSeen,
)
from tidelore.store.feedback_comments import save_comments, stored_bodies, stored_comments
from tidelore.store.feedback_events import insert_events
from tidelore.store.ignored_comments import forget_ignored, save_ignored
from tidelore.store.issue_cursors import add_followups, note_redirected
from tidelore.store.leases import fence
from tidelore.store.operator_commands import insert_command
from tidelore.store.outbox import plan
from tidelore.store.poll_cursors import repo_of
from tidelore.store.quarantine import admit, due_entries, release

Interpret = Callable[[Item[CommentRecord], Version | None], Sequence[Effect] | None]
"""Says what a version means, given the stored one (its digest that of the BODY). None: not judged, so leave no row."""

REDIRECT_SOURCE = "issue_redirect"


class Judged(Struct, frozen=True):
    """A version of a comment and what it leads to."""

    item: Item[CommentRecord]
    effects: Sequence[Effect]


class ScanBatch(Struct, frozen=True):
    """What one transaction makes durable: judged comments of one kind, and every cursor that covers them.

    The first cursor is that of the list itself, whose rejected and released entries and gaps these are.
    """

    project_id: int
    repo_full_name: str
    kind: str
    judged: Sequence[Judged]
    cursors: Sequence[tuple[Scope, Cursor]] = ()
    rejected: Sequence[Rejected] = ()
    released: Sequence[str] = ()
    gaps: Sequence[Gap] | None = None


class Written(Struct, frozen=True):
    """What a transaction wrote: each thing that was not there before, and how many events were."""

    events: Sequence[NewEvent] = ()
    deduped: int = 0
    tokens: Sequence[TokenSeen] = ()
    commands: Sequence[NewCommand] = ()
    followups: int = 0
    planned: Sequence[int] = ()
    ignored: Sequence[IgnoredComment] = ()


Also = Callable[[Transaction, Written], None]
"""What else belongs into the transaction: counters, the version for which reviews were read."""


def ingest_feedback_scan_batch(
    database: Database,
    batch: ScanBatch,
    now_ms: int,
    *,
    lease: Lease | None = None,
    seam: Crashpoint = no_seam,
    also: Also | None = None,
) -> Written:
    """Write everything of the batch in one transaction, or nothing."""
    with database.transaction(durable=_plans(batch)) as tx:
        if lease is not None:
            fence(tx, lease)
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
    judged: Sequence[Judged],
    now_ms: int,
    *,
    lease: Lease | None = None,
    also: Also | None = None,
) -> Written:
    """Write what comments lead to that are stored already; their versions and the cursors stay as they are."""
    batch = ScanBatch(project_id, repo, kind, judged)
    with database.transaction(durable=_plans(batch)) as tx:
        if lease is not None:
            fence(tx, lease)
        written = _write_effects(tx, batch, now_ms)
        forget_ignored(tx, project_id, kind, [one.item.record.remote_id for one in judged])
        if also is not None:
            also(tx, written)
    return written


class FeedbackShelf:
    """Implements the engine's `Shelf` for the comments of a repository or of one thread.

    `is_followed` tells by its number whether a thread is ours to read; `also` is done in each page's transaction,
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
        on_effects: Callable[[Written], None] | None = None,
    ) -> None:
        if scope.project_id is None:
            raise ValueError(f"{scope.title} belongs to no repository")
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
        # Deletions are not listed and a deleted comment stays an event: there is nothing to verify.
        return {}

    def due_quarantined(self, limit: int) -> Sequence[Quarantined]:
        return due_entries(self._database, self._scope, self._now_ms(), limit)

    def set_aside(self, reason: str) -> None:
        with self._database.transaction() as tx:
            if self._lease is not None:
                fence(tx, self._lease)
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

    def judge(self, items: Sequence[Item[CommentRecord]]) -> list[Judged]:
        """Return what the items of followed threads lead to, in the order of their instants."""
        return judge_items(
            self._database,
            self._project_id,
            self._kind,
            [item for item in items if self._is_followed(item.record.number)],
            self._interpret,
        )


def judge_items(
    database: Database, project_id: int, kind: str, items: Sequence[Item[CommentRecord]], interpret: Interpret
) -> list[Judged]:
    """Return what versions lead to, given those that are stored, in the order of their instants."""
    stored = stored_bodies(database, project_id, kind, _numbers(item.version.id for item in items)) if items else {}
    ordered = sorted(items, key=lambda item: (item.version.updated_at, item.record.remote_id))
    judged = [(item, interpret(item, stored.get(item.version.id))) for item in ordered]
    return [Judged(item, effects) for item, effects in judged if effects is not None]


def _write_list(tx: Transaction, batch: ScanBatch, now_ms: int) -> None:
    if batch.cursors:
        home = batch.cursors[0][0]
        admit(tx, home, batch.rejected, now_ms)
        if batch.released:
            release(tx, home, batch.released)
        if batch.gaps is not None:
            save_gaps(tx, home, batch.gaps, now_ms)
    elif batch.rejected or batch.gaps:
        raise ValueError("what could not be understood belongs to a list, and none is named")
    for scope, cursor in batch.cursors:
        save_cursor(tx, scope, cursor, now_ms)


def _plans(batch: ScanBatch) -> bool:
    return any(isinstance(effect, NewRedirect | PlannedReply) for judged in batch.judged for effect in judged.effects)


def _write_effects(tx: Transaction, batch: ScanBatch, now_ms: int) -> Written:
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
    # Another version of a comment that was left out may be a command, or of an author who is allowed by now.
    forget_ignored(tx, project_id, batch.kind, {record.remote_id for record, _ in every} - kept)
    if ignored:
        save_ignored(tx, project_id, ignored)
    return Written(
        events=new_events,
        deduped=len(events) - len(new_events),
        # After the answers: one that is planned and seen on the same page has arrived.
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
