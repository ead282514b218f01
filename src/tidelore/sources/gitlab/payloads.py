"""The payloads of GitLab: the fields we use. Unknown fields are ignored, wrong types are refused.

Contains old and new names of some fields: old servers send the old ones, new servers both. Pages hold many payloads,
none of which can be part of a cycle: without `gc` they are not searched for one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Raw, Struct, field

Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that both databases can store; a larger one rejects only its item and does not fail the run."""

Moment = Annotated[datetime, Meta(tz=True)]
"""A timestamp with an offset. Decoding it here takes half the time of parsing its text: pages hold many notes."""


class User(Struct, frozen=True, gc=False):
    username: str


class Member(Struct, frozen=True, gc=False):
    username: str
    access_level: Number


class Commit(Struct, frozen=True, gc=False):
    id: str


class Label(Struct, frozen=True, gc=False):
    """A label with its details; most lists send only the name."""

    name: str


class Milestone(Struct, frozen=True, gc=False):
    title: str


class References(Struct, frozen=True, gc=False):
    short: str | None = None
    full: str | None = None


class TimeStats(Struct, frozen=True, gc=False):
    time_estimate: Number = 0
    total_time_spent: Number = 0


class Issue(Struct, frozen=True, gc=False):
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


class MergeRequest(Struct, frozen=True, gc=False):
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


class Project(Struct, frozen=True, gc=False):
    id: Number
    path_with_namespace: str
    name: str
    web_url: str | None = None
    archived: bool | None = None


class ProjectFeatures(Struct, frozen=True, gc=False):
    """Which lists of a project our user may see; null where that is not said, as without a token."""

    issues_enabled: bool | None = None
    merge_requests_enabled: bool | None = None

    def hides(self, resource: str) -> bool | None:
        """Return whether issues or merge requests are hidden from us; None if that is not said."""
        is_shown = self.issues_enabled if resource == "issues" else self.merge_requests_enabled
        return None if is_shown is None else not is_shown


class DiffLine(Struct, frozen=True, gc=False):
    line_code: str | None = None
    side: str | None = field(default=None, name="type")
    old_line: Number | None = None
    new_line: Number | None = None


class DiffLineRange(Struct, frozen=True, gc=False):
    start: DiffLine | None = None
    end: DiffLine | None = None


class DiffPosition(Struct, frozen=True, gc=False):
    base_sha: str | None = None
    start_sha: str | None = None
    head_sha: str | None = None
    old_path: str | None = None
    new_path: str | None = None
    position_type: str | None = None
    old_line: Number | None = None
    new_line: Number | None = None
    line_range: DiffLineRange | None = None


class Note(Struct, frozen=True, gc=False):
    id: Number
    created_at: Moment
    updated_at: Moment
    body: str | None = None
    note_type: str | None = field(default=None, name="type")
    author: User | None = None
    system: bool | None = None
    internal: bool | None = None
    confidential: bool | None = None
    resolvable: bool | None = None
    resolved: bool | None = None
    resolved_by: User | None = None
    resolved_at: Moment | None = None
    position: DiffPosition | None = None


class Discussion(Struct, frozen=True, gc=False):
    id: str
    notes: tuple[Raw, ...]
    individual_note: bool | None = None


class EventLabel(Struct, frozen=True, gc=False):
    name: str | None = None


class EventMilestone(Struct, frozen=True, gc=False):
    id: Number | None = None
    title: str | None = None


class StateEvent(Struct, frozen=True, gc=False):
    id: Number
    created_at: str
    state: str
    user: User | None = None
    source_commit: str | None = None
    source_merge_request_id: Number | None = None


class LabelEvent(Struct, frozen=True, gc=False):
    id: Number
    created_at: str
    action: str
    user: User | None = None
    label: EventLabel | None = None


class MilestoneEvent(Struct, frozen=True, gc=False):
    id: Number
    created_at: str
    action: str
    user: User | None = None
    milestone: EventMilestone | None = None


class ClosedIssue(Struct, frozen=True, gc=False):
    """A closing issue. Its id is a number on GitLab; one of another tracker has a string and few other fields."""

    id: Number | str
    iid: Number | None = None
    project_id: Number | None = None
    title: str | None = None
    references: References | None = None
    web_url: str | None = None


class Diff(Struct, frozen=True, gc=False):
    old_path: str
    new_path: str
    new_file: bool | None = None
    renamed_file: bool | None = None
    deleted_file: bool | None = None


class Reviewer(Struct, frozen=True, gc=False):
    user: User
