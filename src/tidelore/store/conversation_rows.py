"""The shapes of one conversation: its parent, its notes, what it is linked to. Owns facts, no queries; pure."""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.model import FileChangeRecord


class ParentRow(Struct, frozen=True):
    """What issues and merge requests have in common; the names are those of the columns.

    `discussions_fetched_for` and `discussions_error` are of the row in `child_sync`.
    """

    id: int
    remote_id: int
    iid: int
    title: str
    description: str | None
    state: str
    author_username: str | None
    milestone_title: str | None
    references_full: str | None
    created_at: int
    updated_at: int
    closed_at: int | None
    deleted_at: int | None
    web_url: str | None
    discussions_fetched_for: int | None
    discussions_error: str | None

    @property
    def discussions_read(self) -> bool:
        """Whether the discussions were read at all; of a tombstone there is nothing to read."""
        return self.discussions_fetched_for is not None or self.deleted_at is not None

    @property
    def discussions_fresh(self) -> bool:
        """Whether they were read for this version, not for an earlier one."""
        return self.discussions_fetched_for == self.updated_at or self.deleted_at is not None


class IssueRow(ParentRow, frozen=True):
    due_date: str | None
    confidential: int
    discussion_locked: int
    issue_type: str | None
    time_estimate_seconds: int
    time_spent_seconds: int
    status_name: str | None
    status_category: str | None


class MergeRequestRow(ParentRow, frozen=True):
    draft: int
    source_branch: str | None
    target_branch: str | None
    head_sha: str | None
    detailed_merge_status: str | None
    merge_user_username: str | None
    merged_at: int | None


class NoteRow(Struct, frozen=True):
    """One note; the names are those of the columns."""

    remote_id: int
    note_type: str | None
    is_system: int
    is_internal: int
    author_username: str | None
    body: str
    created_at: int
    updated_at: int
    resolvable: int
    resolved: int
    resolved_by: str | None
    resolved_at: int | None
    position_old_path: str | None
    position_new_path: str | None
    position_old_line: int | None
    position_new_line: int | None
    position_type: str | None
    position_line_range_start: int | None
    position_line_range_end: int | None
    position_base_sha: str | None
    position_start_sha: str | None
    position_head_sha: str | None

    @property
    def is_placed(self) -> bool:
        """Whether the note stands at a place in a diff."""
        return self.position_new_path is not None or self.position_old_path is not None


class Thread(Struct, frozen=True):
    """A discussion with its notes in order."""

    remote_id: str
    individual_note: int
    resolvable: int
    resolved: int
    notes: tuple[NoteRow, ...]


class ClosedIssue(Struct, frozen=True):
    """An issue that the merge request closes."""

    issue_key: str
    issue_iid: int | None
    reference: str | None
    title: str | None
    web_url: str | None


class ClosingRequest(Struct, frozen=True):
    """A merge request that closes the issue."""

    project: str
    iid: int
    title: str
    state: str
    web_url: str | None


class Conversation(Struct, frozen=True, kw_only=True):
    """Everything the copy holds about one issue or merge request. `files` are those of its newest head."""

    parent: IssueRow | MergeRequestRow
    project: str
    labels: tuple[str, ...]
    assignees: tuple[str, ...]
    reviewers: tuple[str, ...]
    threads: tuple[Thread, ...]
    events: dict[str, int]
    closes: tuple[ClosedIssue, ...] = ()
    closed_by: tuple[ClosingRequest, ...] = ()
    files: tuple[FileChangeRecord, ...] = ()


def place(note: NoteRow) -> str | None:
    """Return where in a diff a note stands: `src/auth/login.ts:45-48`, or None.

    A line that was removed is a line of the old file; a renamed file is shown with both names.
    """
    if not note.is_placed:
        return None
    old, new = note.position_old_path, note.position_new_path
    if note.position_new_line is None and note.position_old_line is not None:
        path, line = old or new, note.position_old_line
    else:
        path = f"{old} -> {new}" if old and new and old != new else new or old
        line = note.position_new_line or 0
    start, end = note.position_line_range_start, note.position_line_range_end
    if start is not None and end is not None and start < end:
        return f"{path}:{start}-{end}"
    return f"{path}:{line}" if line else path
