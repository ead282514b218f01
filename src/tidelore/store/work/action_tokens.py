"""Stores the tokens that mark our own writes (table `action_tokens`) and the secret they are signed with.

A token and its outbox row change together and only forward: planned -> posted -> observed, or failed. A step back, or
away from observed or failed, changes nothing and returns False. The secret (table `local_secrets`) is never shown or
logged.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from tidelore.store.database.port import Database, Row, Transaction
from tidelore.store.database.statements import insert
from tidelore.store.work.events import PlannedReply

PLANNED, POSTED, OBSERVED, FAILED = "planned", "posted", "observed", "failed"
STATUSES = (PLANNED, POSTED, OBSERVED, FAILED)
OPEN = "status IN ('planned', 'posted')"
"""The condition for unfinished rows, written as in the indexes."""

_SECRET_BYTES = 32
_FROM = {POSTED: "status = 'planned'", OBSERVED: OPEN, FAILED: OPEN}


class ActionToken(Struct, frozen=True):
    """A token with every column of its row."""

    repo_full_name: str
    token: str
    project_id: int
    scope_kind: str
    scope_number: int
    source: str
    status: str
    attempt_count: int
    observed_comment_id: int | None
    observed_updated_at: int | None
    created_at: int
    updated_at: int


class TokenCount(Struct, frozen=True):
    """How many tokens of one source have one status."""

    status: str
    source: str
    count: int


_ROWS = f"SELECT {', '.join(ActionToken.__struct_fields__)} FROM action_tokens"
_KEY = "repo_full_name = :repo AND token = :token"


def find_secret(database: Database) -> bytes | None:
    """Return the secret that tokens are signed with, or None if none was created yet."""
    rows = database.read("SELECT secret FROM local_secrets WHERE name = 'action_tokens'")
    return bytes(rows[0][0]) if rows else None


def signing_secret(database: Database, now_ms: int) -> bytes:
    """Return the secret that tokens are signed with. The first call of any process creates it."""
    known = find_secret(database)
    if known is not None:
        return known
    with database.transaction(durable=True) as tx:
        tx.execute(
            "INSERT INTO local_secrets (name, secret, created_at) VALUES ('action_tokens', :secret, :now)"
            " ON CONFLICT (name) DO NOTHING",
            {"secret": secrets.token_bytes(_SECRET_BYTES), "now": now_ms},
        )
    made = find_secret(database)
    assert made is not None
    return made


def find_tokens(database: Database, project_id: int, tokens: Iterable[str]) -> dict[str, ActionToken]:
    """Return those of these tokens that we signed for a project."""
    wanted = list(tokens)
    if not wanted:
        return {}
    rows = database.read(
        f"{_ROWS} WHERE project_id = :project_id AND token {database.among('tokens')}",
        {"project_id": project_id, "tokens": database.texts(wanted)},
    )
    return {row.token: row for row in _tokens(rows)}


def record_action_token_planned(tx: Transaction, project_id: int, repo: str, reply: PlannedReply, now_ms: int) -> bool:
    """Store an intent before any request is sent. Return False if it was stored before; it is not changed."""
    own = {"project_id": project_id, "repo_full_name": repo, "status": PLANNED}
    planned = {name: getattr(reply, name) for name in ("token", "scope_kind", "scope_number", "source")}
    values = {**own, **planned, "created_at": now_ms, "updated_at": now_ms}
    return tx.change(f"{insert('action_tokens', values)} ON CONFLICT (repo_full_name, token) DO NOTHING", values) > 0


def record_action_token_attempt(tx: Transaction, repo: str, token: str, now_ms: int) -> None:
    """Count an attempt that is about to be made."""
    tx.execute(
        f"UPDATE action_tokens SET attempt_count = attempt_count + 1, updated_at = :now WHERE {_KEY}",
        {"repo": repo, "token": token, "now": now_ms},
    )


def record_action_token_posted(tx: Transaction, repo: str, token: str, now_ms: int) -> bool:
    """Record that a write was accepted."""
    return _step(tx, repo, token, POSTED, now_ms)


def record_action_token_observed(
    tx: Transaction, repo: str, token: str, comment_id: int, updated_at: int, now_ms: int
) -> bool:
    """Record that a comment with this token was seen. For a failed token, store the comment but keep the status."""
    observed = {"observed_comment_id": comment_id, "observed_updated_at": updated_at}
    if _step(tx, repo, token, OBSERVED, now_ms, **observed):
        return True
    tx.execute(
        "UPDATE action_tokens SET observed_comment_id = :comment_id, observed_updated_at = :updated_at"
        f" WHERE {_KEY} AND status = 'failed' AND observed_comment_id IS NULL",
        {"repo": repo, "token": token, "comment_id": comment_id, "updated_at": updated_at},
    )
    return False


def record_action_token_failed(tx: Transaction, repo: str, token: str, now_ms: int) -> bool:
    """Record that a write was refused permanently."""
    return _step(tx, repo, token, FAILED, now_ms)


def observe_in_project(
    tx: Transaction, project_id: int, number: int, token: str, comment_id: int, updated_at: int, now_ms: int
) -> bool:
    """Record a token seen in a thread. It counts only if we planned it for this thread: it may have been copied.

    Looked up by project and not by repository name, because a renamed repository keeps its intents.
    """
    names = tx.execute(
        "SELECT repo_full_name FROM action_tokens WHERE project_id = :project_id AND token = :token"
        " AND scope_number = :number",
        {"project_id": project_id, "token": token, "number": number},
    )
    moved = [record_action_token_observed(tx, repo, token, comment_id, updated_at, now_ms) for (repo,) in names]
    return any(moved)


def unobserved(database: Database) -> list[ActionToken]:
    """Return the tokens that were not seen yet and did not fail, oldest first."""
    return _tokens(database.read(f"{_ROWS} WHERE {OPEN} ORDER BY created_at, token"))


def token_counts(database: Database) -> list[TokenCount]:
    """Return how many tokens have each status, by source."""
    rows = database.read("SELECT status, source, COUNT(*) FROM action_tokens GROUP BY status, source")
    return [TokenCount(*row) for row in sorted(rows)]


def _step(tx: Transaction, repo: str, token: str, status: str, now_ms: int, **columns: Any) -> bool:
    """Change a token and its outbox row; the condition on the status makes this safe against concurrent changes."""
    key = {"repo": repo, "token": token, "status": status, "now": now_ms}
    extra = "".join(f", {name} = :{name}" for name in columns)
    where = f"{_KEY} AND {_FROM[status]}"
    moved = tx.change(
        f"UPDATE action_tokens SET status = :status, updated_at = :now{extra} WHERE {where}", {**key, **columns}
    )
    if not moved:
        return False
    # Finished rows need no claim and no next attempt.
    done = "" if status == POSTED else ", claim_id = NULL, claimed_until = NULL, next_attempt_at = NULL"
    if "observed_comment_id" in columns:
        done += ", comment_id = :comment_id, last_error = NULL"
        key["comment_id"] = columns["observed_comment_id"]
    tx.execute(f"UPDATE outbox SET status = :status, updated_at = :now{done} WHERE {where}", key)
    return True


def _tokens(rows: list[Row]) -> list[ActionToken]:
    return [ActionToken(*row) for row in rows]
