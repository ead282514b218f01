"""Merge and pull requests of every forge. Owns what the table `merge_requests` holds."""

from __future__ import annotations

from tidelore.store.family import Family
from tidelore.store.kinds import MERGE_REQUEST

MERGE_REQUESTS = Family(
    MERGE_REQUEST,
    "merge_request",
    columns=(
        "iid", "title", "description", "state", "author_username", "source_branch", "target_branch",
        "head_sha", "references_short", "references_full", "detailed_merge_status", "merge_user_username",
        "milestone_title", "user_notes_count", "created_at", "updated_at", "merged_at", "closed_at", "web_url",
    ),
    flags=("draft",),
    label_table="mr_labels",
    people={"assignees": "mr_assignees", "reviewers": "mr_reviewers"},
)  # fmt: skip
