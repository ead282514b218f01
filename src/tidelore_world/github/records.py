"""What the simulated GitHub remembers: users, threads (issues and pull requests), comments, reviews.

Owns the value types. They are frozen: a change makes a new value, so a rendered copy can be trusted for as
long as the value is the same object. Instants are whole seconds, because the real service keeps no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

UserKind = Literal["User", "Bot", "Organization"]
ReviewState = Literal["COMMENTED", "APPROVED", "CHANGES_REQUESTED", "DISMISSED"]


@dataclass(frozen=True, slots=True)
class User:
    """An account."""

    id: int
    login: str
    kind: UserKind = "User"
    name: str | None = None


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


@dataclass(frozen=True, slots=True)
class ReviewComment:
    """A comment on a line of a pull request's diff."""

    id: int
    number: int
    author: User
    body: str
    created_s: int
    updated_s: int
    review_id: int
    path: str
    line: int
    commit_sha: str
    in_reply_to: int | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """A submitted review. The real API shows no time of its last edit."""

    id: int
    number: int
    author: User
    body: str
    state: ReviewState
    submitted_s: int
    commit_sha: str
