"""Resolve and unresolve review threads exactly once, alone or after a reply.

A thread that is in the wanted state on the server already is left alone, and nothing is stored. Otherwise the intent is
stored in the outbox before the request, like an answer. Processes that want the same at the same time share one intent.
An earlier intent for the opposite that is not confirmed yet is settled first: its request may still arrive.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tidelore.core.clock import Clock
from tidelore.core.config import FeedbackHost
from tidelore.core.errors import PartialSuccess, RemoteError, RemotePermanent, TideloreError
from tidelore.engine.crashpoint import Crashpoint
from tidelore.feedback.outbox import Outbox, unconfirmed_error
from tidelore.feedback.tokens import Intent, ScopeKind, action_token
from tidelore.sources.ports import AnswerPlace, AnswerSource
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.action_tokens import PLANNED, POSTED, signing_secret
from tidelore.store.work.events import PlannedReply
from tidelore.store.work.outbox import RESOLVE, UNRESOLVE, OutboxRow, find_outbox, plan, resolutions_of


class Resolution(Struct, frozen=True):
    """A thread to resolve or unresolve: its item, its first comment and the id by which the forge knows it."""

    scope_kind: ScopeKind
    number: int
    first: int
    thread: str
    resolved: bool = True

    @property
    def source(self) -> str:
        return RESOLVE if self.resolved else UNRESOLVE

    def place(self, repo: str | int) -> AnswerPlace:
        return AnswerPlace(repo, self.scope_kind, self.number, self.first, self.thread)


class ResolvedState(Struct, frozen=True):
    """The state of an intent; `row` is None if the thread was in the wanted state already."""

    row: OutboxRow | None
    error: TideloreError | None = None


class Resolver:
    """Resolves threads of one repository."""

    def __init__(
        self,
        database: Database,
        source: AnswerSource,
        project: ProjectRow,
        host: FeedbackHost,
        clock: Clock,
        seam: Crashpoint,
    ) -> None:
        self._database = database
        self._source = source
        self._project = project
        self._clock = clock
        self._outbox = Outbox(database, source, host, clock, seam)

    async def resolve(self, wanted: Resolution) -> ResolvedState:
        """Bring a thread into the wanted state."""
        known = resolutions_of(self._database, self._project.id, wanted.first)
        waiting = [row for row in known if row.status in (PLANNED, POSTED)]
        for row in (row for row in waiting if row.source != wanted.source):
            done = await self._send(row)
            if done.row is not None and done.row.status in (PLANNED, POSTED):
                return ResolvedState(None, _opposite_waits(done.row))
        same = next((row for row in waiting if row.source == wanted.source), None)
        if same is not None:
            return await self._send(same)
        try:
            state = await self._source.is_resolved(wanted.place(self._project.remote_id))
        except RemoteError as error:
            return ResolvedState(None, error)
        if state is None:
            raise RemotePermanent("the server says that this thread cannot be resolved", reason="not_resolvable")
        if state == wanted.resolved:
            return ResolvedState(None)
        finished = sum(row.source == wanted.source for row in known)
        return await self._send(self._plan(wanted, str(finished)))

    def after(self, wanted: Resolution) -> Callable[[Transaction, OutboxRow], OutboxRow]:
        """Return what stores the intent to resolve a thread after a reply, in the transaction that stores the reply.

        It is the same intent for the same reply.
        """
        secret, now = signing_secret(self._database, self._clock.now_ms()), self._clock.now_ms()

        def store(tx: Transaction, reply: OutboxRow) -> OutboxRow:
            return self._store(tx, wanted, f"after {reply.token}", secret, now, reply.id)

        return store

    async def send_after(self, wanted: Resolution, reply: OutboxRow) -> ResolvedState:
        """Send the intent that was stored with a reply, if the reply is posted."""
        known = resolutions_of(self._database, self._project.id, wanted.first)
        return await self._send(next(row for row in known if row.after_id == reply.id))

    async def _send(self, row: OutboxRow) -> ResolvedState:
        try:
            row = await self._outbox.send(row.id)
        except RemoteError as error:
            return ResolvedState(find_outbox(self._database, row.id), error)
        return ResolvedState(row, unconfirmed_error(row))

    def _plan(self, wanted: Resolution, key: str) -> OutboxRow:
        now = self._clock.now_ms()
        secret = signing_secret(self._database, now)
        with self._database.transaction(durable=True) as tx:
            return self._store(tx, wanted, key, secret, now)

    def _store(
        self, tx: Transaction, wanted: Resolution, key: str, secret: bytes, now_ms: int, after_id: int | None = None
    ) -> OutboxRow:
        project = self._project
        intent = Intent(
            project.source, project.remote_id, wanted.scope_kind, wanted.number, wanted.first, wanted.source, key
        )
        return plan(
            tx,
            project.id,
            project.path,
            PlannedReply(
                wanted.scope_kind, wanted.number, wanted.first, action_token(intent, secret), "", wanted.source
            ),
            now_ms,
            after_id=after_id,
        )


def _opposite_waits(row: OutboxRow) -> PartialSuccess:
    return PartialSuccess(
        f"an earlier request to {row.source} this thread is not confirmed yet",
        fix="run the same command again later",
        outbox_id=row.id,
    )
