"""What a simulated GitLab instance holds: users, projects, issues, merge requests, discussions, events.

Owns the rows. Refuses to shape JSON or to decide when `updated_at` moves; those live in `items`, `threads`
and the mutations. Invariant: instants are microseconds, and a row's cached bytes are dropped on change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from tidelore_world.gitlab.shelf import Shelf
from tidelore_world.prose import Topic

Kind = Literal["issues", "merge_requests"]
State = Literal["opened", "closed", "merged", "locked"]
DRAFT_MARK = "Draft: "


@dataclass(slots=True, eq=False)
class User:
    """One account. Accounts never change, so the form other payloads embed is made once."""

    id: int
    username: str
    name: str
    shown: dict[str, Any] | None = None


@dataclass(slots=True, eq=False)
class Label:
    """A project label; events show it whole, items only by name."""

    id: int
    name: str
    color: str


@dataclass(slots=True, eq=False)
class Milestone:
    """A project milestone."""

    id: int
    iid: int
    title: str
    created_at_us: int
    due_date: str | None = None


@dataclass(slots=True, eq=False)
class Position:
    """Where a DiffNote sits; lines are one-based, an image has coordinates instead."""

    base_sha: str
    start_sha: str
    head_sha: str
    old_path: str
    new_path: str
    position_type: Literal["text", "image"] = "text"
    old_line: int | None = None
    new_line: int | None = None
    first_old_line: int | None = None
    first_new_line: int | None = None
    x: int | None = None
    y: int | None = None
    width: int | None = None
    height: int | None = None

    @property
    def multi_line(self) -> bool:
        """Whether the note spans a range that starts before its own line."""
        return self.first_old_line is not None or self.first_new_line is not None


@dataclass(slots=True, eq=False)
class Note:
    """One remark, by a person or by the system."""

    id: int
    author: User
    body: str
    created_at_us: int
    updated_at_us: int
    type: Literal["DiscussionNote", "DiffNote"] | None = None
    system: bool = False
    resolvable: bool = False
    resolved_by: User | None = None
    resolved_at_us: int | None = None
    position: Position | None = None
    internal: bool = False


@dataclass(slots=True, eq=False)
class Discussion:
    """A thread; a single plain comment is a thread of its own that takes no replies."""

    id: str
    individual_note: bool
    notes: list[Note] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Event:
    """A state, label or milestone change as the resource event lists show it."""

    id: int
    family: Literal["state", "label", "milestone"]
    user: User
    created_at_us: int
    action: str
    label: Label | None = None
    milestone: Milestone | None = None


@dataclass(slots=True, eq=False)
class FileDiff:
    """One changed file of a merge request."""

    old_path: str
    new_path: str
    diff: str
    new_file: bool = False
    renamed_file: bool = False
    deleted_file: bool = False


@dataclass(slots=True, eq=False)
class Version:
    """One push: the three commits a diff is made of. A forced one does not contain the head before it."""

    id: int
    head_sha: str
    base_sha: str
    start_sha: str
    created_at_us: int
    files: int
    forced: bool = False


@dataclass(slots=True, eq=False)
class Item:
    """What issues and merge requests have in common."""

    id: int
    iid: int
    project: Project
    title: str
    description: str | None
    author: User
    created_at_us: int
    updated_at_us: int
    state: State = "opened"
    labels: list[Label] = field(default_factory=list)
    milestone: Milestone | None = None
    assignees: list[User] = field(default_factory=list)
    closed_at_us: int | None = None
    closed_by: User | None = None
    user_notes_count: int = 0
    upvotes: int = 0
    downvotes: int = 0
    discussion_locked: bool | None = None
    discussions: list[Discussion] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    topic: Topic | None = None
    encoded: bytes | None = None

    kind: ClassVar[Kind]
    """Which list shows this item."""


@dataclass(slots=True, eq=False)
class Issue(Item):
    """An issue."""

    confidential: bool = False
    due_date: str | None = None
    issue_type: str = "issue"
    merge_requests_count: int = 0
    status: str | None = None

    kind: ClassVar[Kind] = "issues"


@dataclass(slots=True, eq=False)
class MergeRequest(Item):
    """A merge request."""

    source_branch: str = "feature"
    target_branch: str = "main"
    merged_at_us: int | None = None
    merge_user: User | None = None
    merge_commit_sha: str | None = None
    reviewers: list[User] = field(default_factory=list)
    has_conflicts: bool = False
    squash: bool = False
    diffs: list[FileDiff] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    closes: list[int] = field(default_factory=list)
    commit_discussions: list[Discussion] = field(default_factory=list)

    kind: ClassVar[Kind] = "merge_requests"

    @property
    def draft(self) -> bool:
        """GitLab keeps no such column: the title says it."""
        return self.title.startswith(DRAFT_MARK)

    @property
    def sha(self) -> str:
        """The head of the source branch at the latest push."""
        return self.versions[-1].head_sha


@dataclass(slots=True, eq=False)
class Project:
    """A project and its two shelves of items."""

    id: int
    path: str
    created_at_us: int
    description: str
    issues: Shelf[Issue]
    merge_requests: Shelf[MergeRequest]
    labels: dict[str, Label] = field(default_factory=dict)
    milestones: dict[str, Milestone] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    archived: bool = False
    forbidden: bool = False
    hidden: set[Kind] = field(default_factory=set)
    open_issues: int = 0
    last_activity_at_us: int = 0
    last_iid: dict[Kind, int] = field(default_factory=lambda: {"issues": 0, "merge_requests": 0})

    def shelf(self, kind: Kind) -> Shelf[Any]:
        """The shelf of one kind; the two kinds of rows have no common invariant container."""
        return self.issues if kind == "issues" else self.merge_requests
