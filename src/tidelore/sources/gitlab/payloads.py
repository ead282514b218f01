"""The shapes GitLab sends. Owns which fields we rely on; unknown fields are ignored, wrong types refused.

Old and new names stand side by side: old servers send the old ones, new servers both.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""What both databases can store; a greater one is a mistake of that item and not the end of a run."""


class User(Struct, frozen=True):
    username: str


class Label(Struct, frozen=True):
    """A label with its details; most lists send the name alone."""

    name: str


class Milestone(Struct, frozen=True):
    title: str


class References(Struct, frozen=True):
    short: str | None = None
    full: str | None = None


class TimeStats(Struct, frozen=True):
    time_estimate: Number = 0
    total_time_spent: Number = 0


class Issue(Struct, frozen=True):
    id: Number
    iid: Number
    title: str
    state: str
    created_at: str
    updated_at: str
    description: str | None = None
    closed_at: str | None = None
    author: User | None = None
    milestone: Milestone | None = None
    due_date: str | None = None
    confidential: bool | None = None
    discussion_locked: bool | None = None
    issue_type: str | None = None
    user_notes_count: Number | None = None
    time_stats: TimeStats | None = None
    references: References | None = None
    web_url: str | None = None
    labels: tuple[str | Label, ...] | None = None
    assignees: tuple[User, ...] | None = None


class MergeRequest(Struct, frozen=True):
    id: Number
    iid: Number
    title: str
    state: str
    created_at: str
    updated_at: str
    description: str | None = None
    merged_at: str | None = None
    closed_at: str | None = None
    author: User | None = None
    draft: bool | None = None
    work_in_progress: bool | None = None
    source_branch: str | None = None
    target_branch: str | None = None
    sha: str | None = None
    references: References | None = None
    detailed_merge_status: str | None = None
    merge_status: str | None = None
    merge_user: User | None = None
    merged_by: User | None = None
    milestone: Milestone | None = None
    user_notes_count: Number | None = None
    web_url: str | None = None
    labels: tuple[str | Label, ...] | None = None
    assignees: tuple[User, ...] | None = None
    reviewers: tuple[User, ...] | None = None


class Project(Struct, frozen=True):
    id: Number
    path_with_namespace: str
    name: str
    web_url: str | None = None
    archived: bool | None = None
