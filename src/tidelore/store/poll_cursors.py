"""Positions of comment lists under their documented names. Owns how surfaces and scopes of GitHub are spelled in the
one cursor table, and the hand-over of a position between a repository's feed and its threads.

Invariant 4: whatever is handed over, a watermark moves forward only.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tidelore.core.model import Position, Scope
from tidelore.engine.cursor import forward, parse_id
from tidelore.store.cursors import scope_params
from tidelore.store.database import Database, Transaction

FEEDS = ("issue_comments", "review_comments", "pulls")
"""What is listed for a whole repository."""
THREADS = (
    "pr_review_comments",
    "pr_issue_comments",
    "pr_review_summaries",
    "issue_pre_pr_followups",
    "issue_post_pr_redirects",
    "issue_operator_commands",
    "pr_review_operator_commands",
)
"""What is listed for one thread."""
_PREFIX = "github."


class PollCursor(Struct, frozen=True):
    """A position as the documented view shows it, its instants in milliseconds. Number 0 is the whole repository."""

    source: str
    repo_full_name: str
    surface: str
    scope_number: int
    last_updated_at: int | None
    last_comment_id: int | None
    bootstrap_complete: bool
    polled_at: int | None
    updated_at: int


def poll_scope(source: str, project_id: int, repo: str, surface: str, number: int = 0) -> Scope:
    """Return the scope of a surface: of one thread, or with number 0 of the whole repository."""
    if surface not in (FEEDS if number == 0 else THREADS):
        raise ValueError(f"{surface!r} is not listed for {'a thread' if number else 'a repository'}")
    key = f"{repo}#{number}" if number else repo
    return Scope(source, f"{_PREFIX}{surface}", key, project_id, f"{key} {surface}")


def repo_of(scope: Scope) -> str:
    """Return the repository a scope belongs to."""
    return scope.key.partition("#")[0]


def get_poll_cursor(
    database: Database, surface: str, scope_number: int, repo_full_name: str, *, source: str
) -> PollCursor | None:
    """Return one position, or None where nothing was ever read."""
    scope = poll_scope(source, 0, repo_full_name, surface, scope_number)
    found = _poll_cursors(database, source, " AND surface = :surface AND scope = :scope",
                          {"surface": scope.surface, "scope": scope.key})  # fmt: skip
    return found[0] if found else None


def list_poll_cursors(database: Database, source: str, repo_full_name: str) -> list[PollCursor]:
    """Return every position of a repository, its own first."""
    begin = f"{repo_full_name}#"
    found = _poll_cursors(database, source, " AND (scope = :repo OR SUBSTR(scope, 1, :size) = :begin)",
                          {"repo": repo_full_name, "begin": begin, "size": len(begin)})  # fmt: skip
    return sorted(found, key=lambda cursor: (cursor.scope_number, cursor.surface))


def upsert_poll_cursor(
    tx: Transaction,
    scope: Scope,
    *,
    last_updated_at: int | None,
    last_comment_id: int = 0,
    bootstrap_complete: bool,
    now_ms: int,
) -> Position | None:
    """Hand a position over: the watermark becomes at least this one, and is returned.

    Where it moves, or the scope stops being complete, what was being read is begun again from there.
    """
    known, complete = _standing(tx, scope)
    given = None if last_updated_at is None else Position(last_updated_at, last_comment_id)
    moved = forward(known, given)
    if (moved, bootstrap_complete) == (known, complete):
        return moved
    tx.execute(
        "INSERT INTO cursors (source, surface, scope, project_id, watermark_at, watermark_id, bootstrap_complete,"
        " updated_at) VALUES (:source, :surface, :scope, :project_id, :at, :id, :complete, :now)"
        " ON CONFLICT (source, surface, scope) DO UPDATE SET watermark_at = excluded.watermark_at,"
        " watermark_id = excluded.watermark_id, bootstrap_complete = excluded.bootstrap_complete, reading = NULL,"
        " url = NULL, etag = NULL, updated_at = excluded.updated_at",
        {
            **scope_params(scope),
            "project_id": scope.project_id,
            "at": moved.at if moved else None,
            "id": str(moved.id) if moved else None,
            "complete": int(bootstrap_complete),
            "now": now_ms,
        },
    )
    return moved


def forget_thread(tx: Transaction, source: str, repo_full_name: str, number: int) -> int:
    """Forget every position of one thread; return how many there were."""
    return tx.change(
        f"DELETE FROM cursors WHERE source = :source AND surface LIKE '{_PREFIX}%' AND scope = :scope",
        {"source": source, "scope": f"{repo_full_name}#{number}"},
    )


def _poll_cursors(database: Database, source: str, where: str, params: Mapping[str, object]) -> list[PollCursor]:
    rows = database.read(
        "SELECT surface, scope, watermark_at, watermark_id, bootstrap_complete, polled_at, updated_at FROM cursors"
        f" WHERE source = :source AND surface LIKE '{_PREFIX}%'{where}",
        {**params, "source": source},
    )
    return [
        PollCursor(source, scope.partition("#")[0], surface.removeprefix(_PREFIX), int(scope.partition("#")[2] or 0),
                   at, int(key) if key and key.isdecimal() else None, bool(complete), polled_at, updated_at)
        for surface, scope, at, key, complete, polled_at, updated_at in rows
    ]  # fmt: skip


def _standing(tx: Transaction, scope: Scope) -> tuple[Position | None, bool | None]:
    """Return a scope's watermark and whether it is complete; None and None where nothing was ever read."""
    rows = tx.execute(
        "SELECT watermark_at, watermark_id, bootstrap_complete FROM cursors"
        " WHERE source = :source AND surface = :surface AND scope = :scope",
        scope_params(scope),
    )
    if not rows:
        return None, None
    at, key, complete = rows[0]
    return (None if at is None else Position(at, parse_id(key or "0"))), bool(complete)
