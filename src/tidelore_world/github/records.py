"""What the simulated GitHub remembers: users, threads (issues and pull requests), comments, reviews, events.

Owns the value types. They are frozen: a change makes a new value, so a rendered copy can be trusted for as
long as the value is the same object. Instants are whole seconds, because the real service keeps no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

UserKind = Literal["User", "Bot", "Organization"]
ReviewState = Literal["COMMENTED", "APPROVED", "CHANGES_REQUESTED", "DISMISSED", "PENDING"]
FileStatus = Literal["added", "removed", "modified", "renamed", "copied", "changed", "unchanged"]
Side = Literal["LEFT", "RIGHT"]
Subject = Literal["line", "file"]
Reactions = tuple[tuple[str, int], ...]
"""How often each reaction was given, such as `("+1", 2)`; those not named have none."""


@dataclass(frozen=True, slots=True)
class User:
    """An account."""

    id: int
    login: str
    kind: UserKind = "User"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Milestone:
    """A milestone of one repository."""

    id: int
    number: int
    title: str
    creator: User
    created_s: int
    updated_s: int
    description: str = ""
    state: Literal["open", "closed"] = "open"
    closed_s: int | None = None
    due_s: int | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a pull request's diff; `patch` is None where GitHub sends none: binary or too large."""

    filename: str
    status: FileStatus = "modified"
    additions: int = 12
    deletions: int = 4
    previous_filename: str | None = None
    patch: str | None = None
    binary: bool = False

    @property
    def has_own_patch(self) -> bool:
        """Whether the patch was given and need not be invented."""
        return self.patch is not None or self.binary


@dataclass(frozen=True, slots=True)
class Pull:
    """The part of a thread that only a pull request has. Its id is not the id of the thread."""

    id: int
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    draft: bool = False
    commits: int = 1
    review_comments: int = 0
    merged_s: int | None = None
    merged_by: User | None = None
    merge_sha: str | None = None
    files: tuple[FileChange, ...] = ()
    requested_reviewers: tuple[User, ...] = ()
    requested_teams: tuple[str, ...] = ()
    fork_owner: User | None = None
    fork_id: int = 0
    fork_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """An issue, or a pull request when `pull` is there; both share one row of numbers."""

    id: int
    number: int
    title: str
    body: str
    author: User
    created_s: int
    updated_s: int
    labels: tuple[str, ...] = ()
    state: Literal["open", "closed"] = "open"
    state_reason: str | None = None
    closed_s: int | None = None
    closed_by: User | None = None
    comments: int = 0
    pull: Pull | None = None
    assignees: tuple[User, ...] = ()
    milestone: Milestone | None = None
    locked: bool = False
    lock_reason: str | None = None
    reactions: Reactions = ()
    linked_issues: tuple[int, ...] = ()
    """Issues that were linked by hand, not by a keyword in the text."""

    def with_pull(self, updated_s: int, **changes: object) -> Thread:
        """The same pull request with its own part changed."""
        return replace(self, updated_s=updated_s, pull=replace(self.require_pull(), **changes))  # type: ignore[arg-type]

    def require_pull(self) -> Pull:
        """The pull request's part; an issue has none and raises LookupError."""
        if self.pull is None:
            raise LookupError(f"#{self.number} is an issue, not a pull request")
        return self.pull


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in the conversation of an issue or pull request."""

    id: int
    number: int
    author: User
    body: str
    created_s: int
    updated_s: int
    edited_s: int | None = None
    reactions: Reactions = ()


@dataclass(frozen=True, slots=True)
class ReviewComment:
    """A comment on a line of a pull request's diff, or on a whole file.

    `line` and `start_line` are where it was written; an outdated one is shown without a place in the present diff.
    """

    id: int
    number: int
    author: User
    body: str
    created_s: int
    updated_s: int
    review_id: int
    path: str
    line: int | None
    commit_sha: str
    in_reply_to: int | None = None
    thread_id: int = 0
    start_line: int | None = None
    side: Side = "RIGHT"
    start_side: Side | None = None
    subject: Subject = "line"
    position: int | None = 1
    original_commit_sha: str = ""
    diff_hunk: str | None = None
    outdated: bool = False
    pending: bool = False
    edited_s: int | None = None
    reactions: Reactions = ()


@dataclass(frozen=True, slots=True)
class Review:
    """A review. The real API shows no time of its last edit, and a PENDING one only to its author."""

    id: int
    number: int
    author: User
    body: str
    state: ReviewState
    submitted_s: int
    commit_sha: str
    created_s: int = 0
    updated_s: int = 0

    @property
    def shown_s(self) -> int | None:
        """When it was submitted, as the API shows it: not at all while it is pending."""
        return None if self.state == "PENDING" else self.submitted_s


@dataclass(frozen=True, slots=True)
class ReviewThread:
    """The comments at one place of a diff, and whether somebody has marked them as resolved.

    It has no instant: resolving moves nothing.
    """

    id: int
    number: int
    comments: tuple[int, ...]
    resolved_by: User | None = None
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was done to a thread, as its timeline tells it; `details` depend on the kind."""

    id: int
    number: int
    kind: str
    actor: User | None
    at_s: int
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Category:
    """A category of discussions; only some accept an answer."""

    id: int
    name: str
    slug: str
    emoji: str
    answerable: bool
    created_s: int


@dataclass(frozen=True, slots=True)
class Discussion:
    """A discussion; its number is of the same row as those of issues and pull requests."""

    id: int
    number: int
    title: str
    body: str
    author: User
    category: Category
    created_s: int
    updated_s: int
    edited_s: int | None = None
    closed_s: int | None = None
    state_reason: str | None = None
    locked: bool = False
    lock_reason: str | None = None
    answer_id: int | None = None
    answer_by: User | None = None
    answer_s: int | None = None
    upvotes: int = 1
    labels: tuple[str, ...] = ()
    reactions: Reactions = ()


@dataclass(frozen=True, slots=True)
class DiscussionComment:
    """A comment on a discussion, or a reply to one.

    `deleted_s` marks what is left of a deleted comment that has replies.
    """

    id: int
    number: int
    author: User
    body: str
    created_s: int
    updated_s: int
    reply_to: int | None = None
    edited_s: int | None = None
    deleted_s: int | None = None
    upvotes: int = 1
    reactions: Reactions = ()
