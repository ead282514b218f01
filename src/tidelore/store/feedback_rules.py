"""What must hold of feedback, as data. Owns the checks of `lore check` on what was said to us and what we answered.

Refuses to run them: `check.py` does. Each rule compares two tables that one transaction writes.
"""

from __future__ import annotations

from tidelore.store.feedback_events import FOLLOWUPS
from tidelore.store.rules import Rule

FEEDBACK_RULES = (
    Rule(
        "tracked-history",
        "the status of every tracked pull request is the last of its history",
        "pull requests whose status is not the last of their history",
        "SELECT t.repo_full_name || '#' || t.pr_number AS name FROM tracked_prs t WHERE t.status <> COALESCE("
        "(SELECT h.to_status FROM tracked_pr_history h WHERE h.tracked_pr_id = t.id ORDER BY h.id DESC LIMIT 1), '')",
    ),
    Rule(
        "event-versions",
        "every event has its stored comment version",
        "events without their comment version",
        "SELECT 'feedback_events ' || e.id AS name FROM feedback_events e LEFT JOIN feedback_comments c"
        " ON c.project_id = e.project_id AND c.kind = e.kind AND c.comment_id = e.comment_id"
        f" WHERE e.kind <> '{FOLLOWUPS}' AND (c.comment_id IS NULL OR c.updated_at < e.updated_at)",
    ),
    Rule(
        "events-in-flight",
        "no thread has two events in progress",
        "threads with two events in progress",
        "SELECT repo_full_name || '#' || thread_number AS name FROM feedback_events WHERE processed_at IS NULL"
        " AND leased_until > :latest GROUP BY project_id, repo_full_name, thread_number HAVING COUNT(*) > 1",
    ),
    Rule(
        "followups",
        "batched comments of source issues are consumed and belong to their issue",
        "batches that are not consumed, or contain comments of another issue",
        "SELECT 'feedback_events ' || e.id AS name FROM feedback_events e JOIN issue_comment_cursors c"
        " ON c.project_id = e.project_id AND c.issue_number = e.issue_number"
        f" WHERE e.kind = '{FOLLOWUPS}' AND e.lease_id IS NOT NULL AND c.pre_pr_last_consumed_comment_id < e.comment_id"
        " UNION ALL SELECT 'issue_followups ' || f.issue_number || ' ' || f.comment_id AS name FROM issue_followups f"
        " JOIN feedback_events e ON e.id = f.event_id WHERE e.project_id <> f.project_id"
        f" OR e.issue_number <> f.issue_number OR e.kind <> '{FOLLOWUPS}'",
    ),
    Rule(
        "outbox",
        "every reply has the status of its token",
        "replies without a token or with another status",
        "SELECT 'outbox ' || o.id AS name FROM outbox o LEFT JOIN action_tokens t"
        " ON t.repo_full_name = o.repo_full_name AND t.token = o.token WHERE t.token IS NULL OR t.status <> o.status"
        " OR t.project_id <> o.project_id OR t.scope_number <> o.scope_number OR t.attempt_count <> o.attempts",
    ),
)
