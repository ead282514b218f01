"""Stores writes before they are sent, and the claims of the processes that send them (table `outbox`).

A write is an answer, or resolves or unresolves a review thread.

One process at a time works on a row. An attempt is stored durably before the request is sent, so after a crash it is
known which writes may have been delivered. A claim contains the identity of its process, so the claims of a killed
process on this machine are released at once; claims of other machines last until they expire. Does not post: `feedback`
does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from secrets import token_hex

from msgspec import Struct
from msgspec.structs import asdict

from tidelore.core.errors import LockHeld, NotFound
from tidelore.core.process import ProcessIdentity, is_dead
from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.database.statements import Where, insert
from tidelore.store.work.action_tokens import (
    OPEN,
    PLANNED,
    STATUSES,
    record_action_token_attempt,
    record_action_token_failed,
    record_action_token_observed,
    record_action_token_planned,
    record_action_token_posted,
)
from tidelore.store.work.events import PlannedReply, pull_reference

_ONE_AT_A_TIME = {"sqlite": "SELECT 1", "postgres": "SELECT pg_advisory_xact_lock(5499822513)"}


class OutboxRow(Struct, frozen=True):
    """An intent with every column of its row. `pull_reference` is read with it: the merge request it is posted on."""

    id: int
    project_id: int
    repo_full_name: str
    token: str
    scope_kind: str
    scope_number: int
    reply_to: int | None
    body: str
    source: str
    status: str
    attempts: int
    attempted_at: int | None
    claim_id: str | None
    claimed_until: int | None
    next_attempt_at: int | None
    comment_id: int | None
    last_error: str | None
    created_at: int
    updated_at: int
    after_id: int | None = None
    pull_reference: str | None = None

    @property
    def thread(self) -> str:
        """The thread it belongs to, as its forge writes it."""
        named = self.pull_reference if self.scope_kind == "pr" else None
        return f"{self.repo_full_name}{named or f'#{self.scope_number}'}"

    @property
    def resolves(self) -> bool | None:
        """Whether it resolves (True) or unresolves (False) the thread of `reply_to`; None for an answer."""
        return _RESOLUTIONS.get(self.source)


RESOLVE, UNRESOLVE = "resolve", "unresolve"
"""The sources of the rows that change the state of a thread instead of posting a comment."""
_RESOLUTIONS = {RESOLVE: True, UNRESOLVE: False}

_COLUMNS = ", ".join((*OutboxRow.__struct_fields__[:-1], pull_reference("outbox", "scope_number")))
OUTBOX_ROWS = f"SELECT {_COLUMNS} FROM outbox"
_FREE = "(claimed_until IS NULL OR claimed_until <= :now)"
_FREE_OR_OURS = "(claimed_until IS NULL OR claimed_until <= :now OR claim_id = :claim_id)"
_DUE = "(next_attempt_at IS NULL OR next_attempt_at <= :now)"
_IN_TURN = (
    "(after_id IS NULL OR EXISTS (SELECT 1 FROM outbox b WHERE b.id = outbox.after_id AND b.status = 'observed'))"
)


def plan(
    tx: Transaction, project_id: int, repo: str, reply: PlannedReply, now_ms: int, *, after_id: int | None = None
) -> OutboxRow:
    """Store an intent and its token. If the token exists, return its row in whatever status.

    Looked up by project and not by name, because a renamed repository keeps its intents. With `after_id` it is sent
    only after that row was observed, and fails with it.
    """
    known = tx.execute(
        "SELECT repo_full_name FROM action_tokens WHERE project_id = :project_id AND token = :token",
        {"project_id": project_id, "token": reply.token},
    )
    repo = str(known[0][0]) if known else repo
    record_action_token_planned(tx, project_id, repo, reply, now_ms)
    own = {"project_id": project_id, "repo_full_name": repo, "status": PLANNED, "after_id": after_id}
    values = {**own, **asdict(reply), "created_at": now_ms, "updated_at": now_ms}
    sql = f"{insert('outbox', values)} ON CONFLICT (repo_full_name, token) DO NOTHING RETURNING {_COLUMNS}"
    key = {"repo": repo, "token": reply.token}
    rows = tx.execute(sql, values)
    rows = rows or tx.execute(f"{OUTBOX_ROWS} WHERE repo_full_name = :repo AND token = :token", key)
    return OutboxRow(*rows[0])


def claim(
    database: Database,
    outbox_id: int | None,
    now_ms: int,
    claim_ms: int,
    claim_id: str,
    *,
    project_ids: Collection[int] | None = None,
) -> OutboxRow | None:
    """Claim a row for this process: the given one, or the first that is due.

    Returns None if the row is finished or not due yet, or if another process works on it. An expired claim is free; the
    holder of a claim can renew it by passing the row's id.
    """
    where = Where(OPEN, _FREE if outbox_id is None else _FREE_OR_OURS, _DUE, _IN_TURN, now=now_ms, claim_id=claim_id)
    ids = None if project_ids is None else database.integers(project_ids)
    where.narrow(f"project_id {database.among('projects')}", projects=ids)
    if outbox_id is not None:
        candidates: list[Row] = [(outbox_id,)]
    else:
        candidates = database.read(f"SELECT id FROM outbox WHERE {where} ORDER BY id", where.params)
    for (candidate,) in candidates:
        with database.transaction() as tx:
            rows = tx.execute(
                f"UPDATE outbox SET claim_id = :claim_id, claimed_until = :until WHERE id = :id AND {where}"
                f" RETURNING {_COLUMNS}",
                {**where.params, "until": now_ms + claim_ms, "id": candidate},
            )
        if rows:
            return OutboxRow(*rows[0])
    return None


def note_attempt(
    database: Database,
    outbox_id: int,
    claim_id: str,
    now_ms: int,
    *,
    project_ids: Collection[int] = (),
    interval_ms: int = 0,
) -> int:
    """Durably record that a write is about to be attempted; return 0, or how many milliseconds too early it is.

    `project_ids` are those of one host: no two attempts on them are recorded within the interval, in any process.
    Raises LockHeld if the claim is no longer ours: then we must not write.
    """
    with database.transaction(durable=True) as tx:
        tx.execute(_ONE_AT_A_TIME[database.dialect])
        last = _last_attempt(tx, project_ids) if project_ids else None
        if last is not None and now_ms - last < interval_ms:
            return min(last + interval_ms - now_ms, interval_ms)
        rows = tx.execute(
            "UPDATE outbox SET attempts = attempts + 1, attempted_at = :now, updated_at = :now"
            f" WHERE id = :id AND claim_id = :claim_id AND {OPEN} RETURNING repo_full_name, token",
            {"id": outbox_id, "claim_id": claim_id, "now": now_ms},
        )
        if not rows:
            raise LockHeld("another process is sending this reply", fix="wait for it to finish", outbox_id=outbox_id)
        repo, token = rows[0]
        record_action_token_attempt(tx, repo, token, now_ms)
    return 0


def mark_posted(tx: Transaction, outbox_id: int, comment_id: int | None, now_ms: int) -> OutboxRow:
    """Record that a write was accepted, and the id of the new comment if the response contained it."""
    row = get_outbox(tx, outbox_id)
    if record_action_token_posted(tx, row.repo_full_name, row.token, now_ms):
        tx.execute(
            "UPDATE outbox SET comment_id = :comment_id, last_error = NULL WHERE id = :id",
            {"comment_id": comment_id, "id": outbox_id},
        )
    return get_outbox(tx, outbox_id)


def mark_observed(tx: Transaction, outbox_id: int, comment_id: int, updated_at: int, now_ms: int) -> OutboxRow:
    """Record that the comment was seen on the server."""
    row = get_outbox(tx, outbox_id)
    record_action_token_observed(tx, row.repo_full_name, row.token, comment_id, updated_at, now_ms)
    return get_outbox(tx, outbox_id)


def mark_failed(tx: Transaction, outbox_id: int, error: str, now_ms: int) -> OutboxRow:
    """Record that a write was refused permanently; a row that was observed meanwhile stays observed."""
    row = get_outbox(tx, outbox_id)
    if record_action_token_failed(tx, row.repo_full_name, row.token, now_ms):
        tx.execute("UPDATE outbox SET last_error = :error WHERE id = :id", {"error": error, "id": outbox_id})
        for (follower,) in tx.execute(f"SELECT id FROM outbox WHERE after_id = :id AND {OPEN}", {"id": outbox_id}):
            mark_failed(tx, follower, "the reply before it was refused", now_ms)
    return get_outbox(tx, outbox_id)


def postpone(
    tx: Transaction, outbox_id: int, claim_id: str, next_attempt_at: int, error: str | None, now_ms: int
) -> bool:
    """Release a claim until an instant. Return False, changing nothing, if it is no longer ours."""
    return (
        tx.change(
            "UPDATE outbox SET next_attempt_at = :next, last_error = COALESCE(:error, last_error), claim_id = NULL,"
            f" claimed_until = NULL, updated_at = :now WHERE id = :id AND claim_id = :claim_id AND {OPEN}",
            {"next": next_attempt_at, "error": error, "id": outbox_id, "claim_id": claim_id, "now": now_ms},
        )
        > 0
    )


def release(tx: Transaction, outbox_id: int, claim_id: str) -> None:
    """Release a claim immediately, unless it is no longer ours."""
    tx.execute(
        "UPDATE outbox SET claim_id = NULL, claimed_until = NULL WHERE id = :id AND claim_id = :claim_id",
        {"id": outbox_id, "claim_id": claim_id},
    )


def get_outbox(tx: Transaction, outbox_id: int) -> OutboxRow:
    """Return one row inside a transaction."""
    return _only(tx.execute(f"{OUTBOX_ROWS} WHERE id = :id", {"id": outbox_id}), outbox_id)


def find_outbox(database: Database, outbox_id: int) -> OutboxRow:
    """Return one row."""
    return _only(database.read(f"{OUTBOX_ROWS} WHERE id = :id", {"id": outbox_id}), outbox_id)


def list_outbox(
    database: Database,
    *,
    project_ids: Collection[int] | None = None,
    statuses: Collection[str] = STATUSES,
) -> list[OutboxRow]:
    """Return intents, the oldest first."""
    where = Where(f"status {database.among('statuses')}", statuses=database.texts(statuses))
    ids = None if project_ids is None else database.integers(project_ids)
    where.narrow(f"project_id {database.among('projects')}", projects=ids)
    return [OutboxRow(*row) for row in database.read(f"{OUTBOX_ROWS} WHERE {where} ORDER BY id", where.params)]


def resolutions_of(database: Database, project_id: int, comment_id: int) -> list[OutboxRow]:
    """Return the rows that resolve or unresolve the thread of a first comment, the oldest first."""
    found = database.read(
        f"{OUTBOX_ROWS} WHERE project_id = :project_id AND reply_to = :comment_id"
        f" AND source {database.among('sources')} ORDER BY id",
        {"project_id": project_id, "comment_id": comment_id, "sources": database.texts(_RESOLUTIONS)},
    )
    return [OutboxRow(*row) for row in found]


def _last_attempt(tx: Transaction, project_ids: Collection[int]) -> int | None:
    rows = tx.execute(
        "SELECT MAX((SELECT MAX(o.attempted_at) FROM outbox o WHERE o.project_id = p.id)) FROM projects p"
        f" WHERE p.id {tx.among('projects')}",
        {"projects": tx.integers(project_ids)},
    )
    return None if rows[0][0] is None else int(rows[0][0])


def _only(rows: list[Row], outbox_id: int) -> OutboxRow:
    if not rows:
        raise NotFound(f"reply {outbox_id} not found or already posted", outbox_id=outbox_id)
    return OutboxRow(*rows[0])


def new_claim(holder: ProcessIdentity) -> str:
    """Return a unique id for a claim of this process."""
    return f"{holder.host}:{holder.pid}:{holder.started}:{token_hex(8)}"


def holder_of(claim_id: str) -> ProcessIdentity | None:
    """Return the process that made a claim; None if its id does not contain it."""
    parts = claim_id.rsplit(":", 3)
    if len(parts) != 4 or not (parts[1].isascii() and parts[1].isdigit()):
        return None
    return ProcessIdentity(parts[0], int(parts[1]), parts[2])


def free_dead(database: Database, now_ms: int, gone: Callable[[ProcessIdentity], bool] = is_dead) -> int:
    """Release the claims of processes known to have ended; return the number of rows."""
    held = database.read(f"SELECT id, claim_id FROM outbox WHERE {OPEN} AND claimed_until > :now", {"now": now_ms})
    dead = [(row, claim) for row, claim in held if (holder := holder_of(claim)) is not None and gone(holder)]
    freed = 0
    for row, claim in dead:
        with database.transaction() as tx:
            # Compare the claim id, so that a row claimed by another process meanwhile is not changed.
            freed += tx.change(
                "UPDATE outbox SET claim_id = NULL, claimed_until = NULL WHERE id = :id AND claim_id = :claim",
                {"id": row, "claim": claim},
            )
    return freed
