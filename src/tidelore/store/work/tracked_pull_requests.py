"""Stores tracked pull requests and their status history (tables `tracked_prs`, `tracked_pr_history`).

Every change of status adds a history row in its transaction, and is made only if the status is still the one it was
decided for. Does not decide which changes are legal.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import IllegalTransition
from tidelore.core.model import PullRecord
from tidelore.store.database.port import Database, Transaction
from tidelore.store.database.statements import Where, insert
from tidelore.store.mirror.kinds import MERGE_REQUEST
from tidelore.store.reading.lists import labels_of

AWAITING, BLOCKED, MERGED, CLOSED = "awaiting_feedback", "blocked", "merged", "closed"
STATUSES = (AWAITING, BLOCKED, MERGED, CLOSED)
TERMINAL = frozenset({MERGED, CLOSED})

_MUTABLE = frozenset({"paused", "last_seen_head_sha", "issue_number", "pull_updated_at", "judge_from"})


class TrackedPr(Struct, frozen=True):
    """A followed pull request with every column of its row."""

    id: int
    project_id: int
    repo_full_name: str
    pr_number: int
    issue_number: int | None
    branch: str | None
    title: str | None
    author: str | None
    url: str | None
    status: str
    paused: int
    last_seen_head_sha: str | None
    blocked_reason: str | None
    blocked_at: int | None
    tracked_by: str
    pull_updated_at: int | None
    judge_from: int | None
    scan_due: int
    compared_at: int | None
    entered_at: int
    created_at: int
    updated_at: int


class StatusStep(Struct, frozen=True):
    """One entry of a pull request's history."""

    id: int
    from_status: str | None
    to_status: str
    reason: str
    detail: str | None
    at: int


_COLUMNS = ", ".join(TrackedPr.__struct_fields__)
_ROWS = f"SELECT {_COLUMNS} FROM tracked_prs"


def track(
    tx: Transaction,
    project_id: int,
    repo: str,
    pr_number: int,
    *,
    issue_number: int | None,
    tracked_by: str,
    now_ms: int,
) -> TrackedPr:
    """Track a pull request. One that is already tracked keeps its status, even a terminal one."""
    values = {
        "project_id": project_id,
        "repo_full_name": repo,
        "pr_number": pr_number,
        "issue_number": issue_number,
        "tracked_by": tracked_by,
        "updated_at": now_ms,
    }
    new = {**values, "status": AWAITING, "entered_at": now_ms, "created_at": now_ms}
    key = "ON CONFLICT (project_id, pr_number) DO NOTHING"
    created = tx.execute(f"{insert('tracked_prs', new)} {key} RETURNING {_COLUMNS}", new)
    if created:
        tracked = TrackedPr(*created[0])
        _remember(tx, tracked.id, None, AWAITING, "tracked", f"by {tracked_by}", now_ms)
        return tracked
    # An operator's request takes precedence over a rule; the repository may have been renamed.
    changed = tx.execute(
        "UPDATE tracked_prs SET repo_full_name = :repo_full_name, updated_at = :updated_at,"
        " issue_number = COALESCE(:issue_number, issue_number),"
        " tracked_by = CASE WHEN :tracked_by = 'operator' THEN 'operator' ELSE tracked_by END"
        f" WHERE project_id = :project_id AND pr_number = :pr_number RETURNING {_COLUMNS}",
        values,
    )
    return TrackedPr(*changed[0])


def untrack(tx: Transaction, tracked_id: int) -> bool:
    """Stop tracking; deletes the history and keeps the events. Return False if it was not tracked."""
    return tx.change("DELETE FROM tracked_prs WHERE id = :id", {"id": tracked_id}) > 0


def find_tracked(database: Database, project_id: int, pr_number: int) -> TrackedPr | None:
    """Return a followed pull request by its number."""
    rows = database.read(
        f"{_ROWS} WHERE project_id = :project_id AND pr_number = :pr_number",
        {"project_id": project_id, "pr_number": pr_number},
    )
    return TrackedPr(*rows[0]) if rows else None


def list_tracked(
    database: Database,
    *,
    repo: str | None = None,
    project_id: int | None = None,
    statuses: Collection[str] | None = None,
) -> list[TrackedPr]:
    """Return tracked pull requests by repository and number; `repo` is compared ignoring case."""
    where = Where().narrow("project_id = :project_id", project_id=project_id)
    where.narrow("LOWER(repo_full_name) = :repo", repo=None if repo is None else repo.lower())
    names = None if statuses is None else database.texts(statuses)
    where.narrow(f"status {database.among('statuses')}", statuses=names)
    rows = database.read(f"{_ROWS} WHERE {where} ORDER BY repo_full_name, pr_number", where.params)
    return [TrackedPr(*row) for row in rows]


def move(
    tx: Transaction,
    tracked: TrackedPr,
    to_status: str,
    reason: str,
    detail: str | None,
    now_ms: int,
    **columns: Any,
) -> TrackedPr:
    """Change the status as decided for the row as it was read, and add a history entry.

    Becoming blocked stores the reason and the time, leaving it clears them. Raises IllegalTransition if the status has
    changed meanwhile, because the decision was made for another state.
    """
    unknown = columns.keys() - _MUTABLE
    if unknown:
        raise ValueError(f"tracked_prs has no columns {sorted(unknown)} that a step may set")
    blocked = to_status == BLOCKED
    values = {
        **columns,
        "status": to_status,
        "blocked_reason": reason if blocked else None,
        "blocked_at": now_ms if blocked else None,
        "entered_at": now_ms,
        "updated_at": now_ms,
    }
    changes = ", ".join(f"{name} = :{name}" for name in values)
    rows = tx.execute(
        f"UPDATE tracked_prs SET {changes} WHERE id = :id AND status = :from_status RETURNING {_COLUMNS}",
        {**values, "id": tracked.id, "from_status": tracked.status},
    )
    if not rows:
        raise IllegalTransition(
            f"{tracked.pr_number} of {tracked.repo_full_name} is no longer {tracked.status}",
            fix="check it with `lore feedback show`",
            before=tracked.status,
            after=to_status,
        )
    _remember(tx, tracked.id, tracked.status, to_status, reason, detail, now_ms)
    return TrackedPr(*rows[0])


def note_pull(tx: Transaction, tracked: TrackedPr, pull: PullRecord, now_ms: int) -> TrackedPr:
    """Store the details of a pull request. The head is stored only if none is known: a new one is judged first.

    A snapshot older than the stored one changes nothing.
    """
    rows = tx.execute(
        "UPDATE tracked_prs SET branch = :branch, title = :title, author = :author, url = :url,"
        " last_seen_head_sha = COALESCE(last_seen_head_sha, :head_sha), pull_updated_at = :pull_updated_at,"
        " updated_at = :now WHERE id = :id AND COALESCE(pull_updated_at, 0) <= :pull_updated_at"
        f" RETURNING {_COLUMNS}",
        {
            "branch": pull.branch,
            "title": pull.title,
            "author": pull.author,
            "url": pull.url,
            "head_sha": pull.head_sha,
            "pull_updated_at": pull.updated_at,
            "now": now_ms,
            "id": tracked.id,
        },
    )
    return TrackedPr(*rows[0]) if rows else tracked


def set_head(tx: Transaction, tracked_id: int, head_sha: str, now_ms: int) -> None:
    """Store a head that was judged to follow the known one."""
    tx.execute(
        "UPDATE tracked_prs SET last_seen_head_sha = :head_sha, updated_at = :now WHERE id = :id",
        {"head_sha": head_sha, "now": now_ms, "id": tracked_id},
    )


def begin_judging(tx: Transaction, tracked_id: int) -> int | None:
    """Return since when stored comments of a pull request are to be judged, and count them as judged; None if all are.

    Called in the transaction that judges them. A later request to judge again waits for it.
    """
    # Lock the row with an update that changes nothing: otherwise a request made meanwhile would be lost.
    tx.execute("UPDATE tracked_prs SET judge_from = judge_from WHERE id = :id", {"id": tracked_id})
    rows = tx.execute("SELECT judge_from FROM tracked_prs WHERE id = :id", {"id": tracked_id})
    tx.execute("UPDATE tracked_prs SET judge_from = NULL WHERE id = :id", {"id": tracked_id})
    return rows[0][0] if rows else None


def set_scan_due(tx: Transaction, tracked_id: int, *, due: bool) -> None:
    """Record whether all comments of a pull request are to be read again from the beginning."""
    tx.execute("UPDATE tracked_prs SET scan_due = :due WHERE id = :id", {"due": int(due), "id": tracked_id})


def note_compared(tx: Transaction, tracked_id: int, now_ms: int) -> None:
    """Record that a pull request is compared with the server now."""
    tx.execute("UPDATE tracked_prs SET compared_at = :now WHERE id = :id", {"now": now_ms, "id": tracked_id})


class MirroredPull(Struct, frozen=True):
    """A followed pull request as the copy has it. `is_read`: its comments and reviews were read for this version."""

    tracked: TrackedPr
    pull: PullRecord
    is_read: bool


_PULL = (
    "m.iid, m.title, CASE WHEN m.merged_at IS NULL THEN m.state ELSE 'merged' END, m.author_username,"
    " COALESCE(m.head_sha, ''), COALESCE(m.source_branch, ''), m.web_url, m.created_at, m.updated_at"
)
_UNREAD = (
    "EXISTS (SELECT 1 FROM child_sync c WHERE c.project_id = m.project_id AND c.parent_kind = 'merge_requests'"
    " AND c.kind IN ('comments', 'reviews', 'discussions') AND c.parent_id = m.id"
    " AND COALESCE(c.fetched_for, -1) < c.parent_updated_at)"
)


def mirrored_pulls(database: Database, project_id: int) -> list[MirroredPull]:
    """Return the open followed pull requests of a project that are stored, as the copy has them."""
    of_tracked = ", ".join(f"t.{name}" for name in TrackedPr.__struct_fields__)
    rows = database.read(
        f"SELECT {_UNREAD}, {_PULL}, {of_tracked} FROM tracked_prs t JOIN merge_requests m"
        " ON m.project_id = t.project_id AND m.iid = t.pr_number AND m.deleted_at IS NULL"
        " WHERE t.project_id = :project_id AND t.status IN ('awaiting_feedback', 'blocked') ORDER BY t.pr_number",
        {"project_id": project_id},
    )
    return [MirroredPull(TrackedPr(*row[10:]), _pull(*row[1:10]), not row[0]) for row in rows]


def _pull(number: int, title: str, state: str, author: str | None, head: str, branch: str, *rest: Any) -> PullRecord:
    return PullRecord(number, title, state, author, head, branch, (), *rest)


def open_pulls(database: Database, project_id: int) -> list[PullRecord]:
    """Return the open pull requests of a project that are stored, with their labels."""
    rows = database.read(
        f"SELECT m.id, {_PULL} FROM merge_requests m WHERE m.project_id = :project_id AND m.deleted_at IS NULL"
        " AND m.state IN ('open', 'opened') ORDER BY m.iid",
        {"project_id": project_id},
    )
    labels = labels_of(database, MERGE_REQUEST, [row[0] for row in rows])
    return [replace(_pull(*columns), labels=labels.get(row_id, ())) for row_id, *columns in rows]


def set_paused(tx: Transaction, tracked_id: int, paused: bool, now_ms: int) -> bool:  # noqa: FBT001 - the value to set
    """Pause or resume handing out events. Return False if nothing changed."""
    return (
        tx.change(
            "UPDATE tracked_prs SET paused = :paused, updated_at = :now WHERE id = :id AND paused <> :paused",
            {"paused": int(paused), "now": now_ms, "id": tracked_id},
        )
        > 0
    )


def history(database: Database, tracked_id: int) -> list[StatusStep]:
    """Return every history entry of a pull request, oldest first."""
    rows = database.read(
        f"SELECT {', '.join(StatusStep.__struct_fields__)} FROM tracked_pr_history WHERE tracked_pr_id = :id"
        " ORDER BY id",
        {"id": tracked_id},
    )
    return [StatusStep(*row) for row in rows]


def _remember(
    tx: Transaction, tracked_id: int, before: str | None, after: str, reason: str, detail: str | None, now_ms: int
) -> None:
    tx.execute(
        "INSERT INTO tracked_pr_history (tracked_pr_id, from_status, to_status, reason, detail, at)"
        " VALUES (:id, :before, :after, :reason, :detail, :now)",
        {"id": tracked_id, "before": before, "after": after, "reason": reason, "detail": detail, "now": now_ms},
    )
