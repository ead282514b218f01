"""Issues of every forge. Owns what the table `issues` holds."""

from __future__ import annotations

from tidelore.store.family import Family
from tidelore.store.kinds import ISSUE

ISSUES = Family(
    ISSUE,
    "issue",
    columns=(
        "iid", "title", "description", "state", "author_username", "milestone_title", "due_date",
        "issue_type", "user_notes_count", "time_estimate_seconds", "time_spent_seconds",
        "references_short", "references_full", "created_at", "updated_at", "closed_at", "web_url",
    ),
    flags=("confidential", "discussion_locked"),
    label_table="issue_labels",
    people={"assignees": "issue_assignees"},
)  # fmt: skip
