"""Issues of every forge. Owns what the table `issues` holds."""

from __future__ import annotations

from tidelore.model import IssueRecord
from tidelore.store.family import Family

ISSUES: Family[IssueRecord] = Family(
    "issues",
    "issue",
    columns=(
        "iid", "title", "description", "state", "author_username", "milestone_title", "due_date",
        "issue_type", "user_notes_count", "time_estimate_seconds", "time_spent_seconds",
        "references_short", "references_full", "created_at", "updated_at", "closed_at", "web_url",
    ),
    flags=("confidential", "discussion_locked"),
    parent_column="issue_id",
    label_table="issue_labels",
    people={"assignees": "issue_assignees"},
)  # fmt: skip
