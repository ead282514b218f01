"""Stores followed source issues and their comments (tables `issue_comment_cursors`, `issue_followups`).

Comments made before the pull request exists wait until they are batched into one event. Until that event is leased,
comments can be added to it and edited; leasing it (`events.lease_next`) consumes its comments. The two id marks only
grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tidelore.store.database.port import Database, Transaction
from tidelore.store.database.statements import Where
from tidelore.store.work.events import FOLLOWUPS, NewEvent, NewFollowup, insert_events


class IssueCursor(Struct, frozen=True):
    """A followed source issue. `entered_at` is when it was first followed, or got its pull request.

    `judge_from` is since when stored comments are still to be judged; None if all are.
    """

    repo_full_name: str
    issue_number: int
    project_id: int
    pr_number: int | None
    pre_pr_last_consumed_comment_id: int
    post_pr_last_redirected_comment_id: int
    judge_from: int | None
    followed_at: int
    entered_at: int
    updated_at: int


class FollowupRow(Struct, frozen=True):
    """A comment that waits to be batched, or was batched."""

    project_id: int
    issue_number: int
    comment_id: int
    author: str | None
    body: str
    created_at: int
    updated_at: int


Compose = Callable[[IssueCursor, Sequence[FollowupRow]], NewEvent]
"""Returns the event for these comments, which are passed oldest first."""

_CURSORS = f"SELECT {', '.join(IssueCursor.__struct_fields__)} FROM issue_comment_cursors"
_FOLLOWUPS = f"SELECT {', '.join(FollowupRow.__struct_fields__)} FROM issue_followups"
_ISSUE = "project_id = :project_id AND issue_number = :number"
_UNTAKEN = "processed_at IS NULL AND lease_id IS NULL"


def follow_issue(
    tx: Transaction, project_id: int, repo: str, issue_number: int, *, pr_number: int | None = None, now_ms: int
) -> IssueCursor:
    """Follow a source issue, or set the pull request created for it; other known values are kept."""
    rows = tx.execute(
        "INSERT INTO issue_comment_cursors (repo_full_name, issue_number, project_id, pr_number, followed_at,"
        " entered_at, updated_at) VALUES (:repo, :number, :project_id, :pr_number, :now, :now, :now)"
        " ON CONFLICT (project_id, issue_number) DO UPDATE SET repo_full_name = excluded.repo_full_name,"
        " entered_at = CASE WHEN COALESCE(excluded.pr_number, issue_comment_cursors.pr_number, 0)"
        " = COALESCE(issue_comment_cursors.pr_number, 0) THEN issue_comment_cursors.entered_at"
        " ELSE excluded.entered_at END,"
        " pr_number = COALESCE(excluded.pr_number, issue_comment_cursors.pr_number),"
        f" updated_at = excluded.updated_at RETURNING {', '.join(IssueCursor.__struct_fields__)}",
        {"repo": repo, "number": issue_number, "project_id": project_id, "pr_number": pr_number, "now": now_ms},
    )
    return IssueCursor(*rows[0])


def begin_judging(tx: Transaction, project_id: int, issue_number: int) -> int | None:
    """Return since when stored comments of an issue are to be judged, and count them as judged; None if all are."""
    key = {"project_id": project_id, "number": issue_number}
    tx.execute(f"UPDATE issue_comment_cursors SET judge_from = judge_from WHERE {_ISSUE}", key)
    rows = tx.execute(f"SELECT judge_from FROM issue_comment_cursors WHERE {_ISSUE}", key)
    tx.execute(f"UPDATE issue_comment_cursors SET judge_from = NULL WHERE {_ISSUE}", key)
    return rows[0][0] if rows else None


def unfollow_issue(tx: Transaction, project_id: int, issue_number: int) -> bool:
    """Stop following a source issue and delete its unconsumed comments. Return False if it was not followed."""
    key = {"project_id": project_id, "number": issue_number}
    tx.execute(f"DELETE FROM issue_followups WHERE {_ISSUE} AND event_id IS NULL", key)
    return tx.change(f"DELETE FROM issue_comment_cursors WHERE {_ISSUE}", key) > 0


def followed_issues(database: Database, project_id: int | None = None) -> list[IssueCursor]:
    """Return the followed source issues, of one project or of all."""
    where = Where().narrow("project_id = :project_id", project_id=project_id)
    rows = database.read(f"{_CURSORS} WHERE {where} ORDER BY project_id, issue_number", where.params)
    return [IssueCursor(*row) for row in rows]


def find_issue(database: Database, project_id: int, issue_number: int) -> IssueCursor | None:
    """Return one followed source issue."""
    rows = database.read(f"{_CURSORS} WHERE {_ISSUE}", {"project_id": project_id, "number": issue_number})
    return IssueCursor(*rows[0]) if rows else None


def add_followups(tx: Transaction, project_id: int, followups: Sequence[NewFollowup]) -> int:
    """Store comments to be batched; return how many are new. Comments already consumed are not stored again."""
    return sum(
        tx.change(
            "INSERT INTO issue_followups (project_id, issue_number, comment_id, author, body, created_at, updated_at)"
            " VALUES (:project_id, :number, :comment_id, :author, :body, :created_at, :updated_at)"
            " ON CONFLICT (project_id, issue_number, comment_id) DO UPDATE SET author = excluded.author,"
            " body = excluded.body, updated_at = excluded.updated_at, event_id = NULL"
            " WHERE excluded.updated_at >= issue_followups.updated_at AND excluded.body <> issue_followups.body"
            " AND (issue_followups.event_id IS NULL OR EXISTS (SELECT 1 FROM feedback_events e"
            " WHERE e.id = issue_followups.event_id AND e.processed_at IS NULL AND e.lease_id IS NULL))",
            {
                "project_id": project_id,
                "number": followup.issue_number,
                "comment_id": followup.record.remote_id,
                "author": followup.record.author,
                "body": followup.record.body,
                "created_at": followup.record.created_at,
                "updated_at": followup.record.updated_at,
            },
        )
        for followup in followups
    )


def batch_followups(
    tx: Transaction, project_id: int, issue_number: int, compose: Compose, now_ms: int
) -> NewEvent | None:
    """Turn the waiting comments of an issue into one event; return None if there are none.

    Includes the comments of an earlier batch that was not leased yet.
    """
    key = {"project_id": project_id, "number": issue_number}
    waiting = tx.execute(f"{_FOLLOWUPS} WHERE {_ISSUE} AND event_id IS NULL ORDER BY comment_id", key)
    cursors = tx.execute(f"{_CURSORS} WHERE {_ISSUE}", key)
    if not waiting or not cursors:
        return None
    cursor = IssueCursor(*cursors[0])
    rows = waiting + _take_back(tx, project_id, issue_number)
    batch = sorted((FollowupRow(*row) for row in rows), key=lambda row: row.comment_id)
    event = compose(cursor, batch)
    insert_events(tx, project_id, cursor.repo_full_name, [event], now_ms)
    tx.execute(
        "UPDATE issue_followups SET event_id = (SELECT e.id FROM feedback_events e WHERE e.project_id = :project_id"
        f" AND e.event_key = :event_key) WHERE {_ISSUE} AND comment_id {tx.among('ids')}",
        {**key, "event_key": event.event_key, "ids": tx.integers(row.comment_id for row in batch)},
    )
    return event


def waiting_followups(database: Database, project_id: int) -> list[int]:
    """Return the issues with comments that wait to be batched."""
    rows = database.read(
        "SELECT DISTINCT issue_number FROM issue_followups WHERE project_id = :project_id AND event_id IS NULL"
        " ORDER BY issue_number",
        {"project_id": project_id},
    )
    return [number for (number,) in rows]


def note_redirected(tx: Transaction, project_id: int, issue_number: int, comment_id: int, now_ms: int) -> None:
    """Record that a comment after the pull request was answered with a pointer to it."""
    tx.execute(
        "UPDATE issue_comment_cursors SET post_pr_last_redirected_comment_id = :comment_id, updated_at = :now"
        f" WHERE {_ISSUE} AND post_pr_last_redirected_comment_id < :comment_id",
        {"project_id": project_id, "number": issue_number, "comment_id": comment_id, "now": now_ms},
    )


def _take_back(tx: Transaction, project_id: int, issue_number: int) -> list[tuple[object, ...]]:
    """Return the comments of batches that were not leased yet, and delete those batches.

    Locks the rows before deleting their events, so that a batch that is being leased concurrently is kept.
    """
    key = {"project_id": project_id, "number": issue_number}
    events = tx.execute(
        f"SELECT id FROM feedback_events WHERE {_ISSUE} AND kind = '{FOLLOWUPS}' AND {_UNTAKEN} ORDER BY id", key
    )
    found: list[tuple[object, ...]] = []
    for (event_id,) in events:
        # Lock the row with an update that changes nothing: a concurrent lease either waits or came first.
        if not tx.change(
            f"UPDATE feedback_events SET ingested_at = ingested_at WHERE id = :id AND {_UNTAKEN}", {"id": event_id}
        ):
            continue
        found += tx.execute(f"{_FOLLOWUPS} WHERE event_id = :id", {"id": event_id})
        tx.execute("UPDATE issue_followups SET event_id = NULL WHERE event_id = :id", {"id": event_id})
        tx.execute("DELETE FROM feedback_events WHERE id = :id", {"id": event_id})
    return found
