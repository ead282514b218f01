"""The words shared by every room: what a remote object is before and after we understand it.

Owns the value types that pass between sources, engine and store. Refuses behaviour: these are facts.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

R = TypeVar("R")

RemoteId = int | str
"""A remote object's own identity: a number on the forges, a URI on Bluesky."""


class Position(NamedTuple):
    """A place in a list ordered by update time; ties are broken by id."""

    at: int
    id: RemoteId


class Version(NamedTuple):
    """What makes an item new: it counts as stored only when all three are."""

    id: RemoteId
    updated_at: int
    digest: bytes


class Item(Struct, Generic[R], frozen=True):
    """A payload that could be understood: its version, the bytes as they came, and our record of it.

    `at` is its place in the list it came from: its update time on a forge, its feed time on Bluesky.
    """

    version: Version
    at: int
    payload: bytes
    record: R

    @property
    def position(self) -> Position:
        return Position(self.at, self.version.id)


class Rejected(Struct, frozen=True):
    """A payload that could not be understood. `locator` is how to ask for it again, where that is known."""

    key: str
    locator: str | None
    payload: bytes
    error: str


class Scope(Struct, frozen=True):
    """What a surface is listed for: one cursor, one watermark, one line in a report."""

    source: str
    surface: str
    key: str
    project_id: int
    title: str


class IssueRecord(Struct, frozen=True):
    """An issue, as every forge's payload is normalised."""

    remote_id: int
    iid: int
    title: str
    description: str | None
    state: str
    author_username: str | None
    milestone_title: str | None
    due_date: str | None
    confidential: bool
    discussion_locked: bool
    issue_type: str | None
    user_notes_count: int
    time_estimate_seconds: int
    time_spent_seconds: int
    references_short: str | None
    references_full: str | None
    created_at: int
    updated_at: int
    closed_at: int | None
    web_url: str | None
    labels: tuple[str, ...]
    assignees: tuple[str, ...]


class MergeRequestRecord(Struct, frozen=True):
    """A merge or pull request, as every forge's payload is normalised."""

    remote_id: int
    iid: int
    title: str
    description: str | None
    state: str
    draft: bool
    author_username: str | None
    source_branch: str | None
    target_branch: str | None
    head_sha: str | None
    references_short: str | None
    references_full: str | None
    detailed_merge_status: str | None
    merge_user_username: str | None
    milestone_title: str | None
    user_notes_count: int
    created_at: int
    updated_at: int
    merged_at: int | None
    closed_at: int | None
    web_url: str | None
    labels: tuple[str, ...]
    assignees: tuple[str, ...]
    reviewers: tuple[str, ...]


class ProjectRecord(Struct, frozen=True):
    """A project or repository as the forge knows it."""

    remote_id: int
    path: str
    name: str
    web_url: str | None
    archived: bool
