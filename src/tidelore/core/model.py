"""Value types that pass between sources, engine and store: remote items, their versions, positions, scopes and records.

Data only, no behaviour. Every room may import this module; it imports none.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

R_co = TypeVar("R_co", covariant=True)

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


class Item(Struct, Generic[R_co], frozen=True):
    """A payload that could be understood: its version, the bytes as they came, and our record of it.

    `at` is its place in the list it came from: its update time on a forge, its feed time on Bluesky.
    """

    version: Version
    at: int
    payload: bytes
    record: R_co

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
    """What a surface is listed for: one cursor, one watermark, one line in a report.

    The lists of a forge belong to a project, those of an account to none.
    """

    source: str
    surface: str
    key: str
    project_id: int | None
    title: str

    @property
    def project(self) -> int:
        """The project of a forge's list."""
        if self.project_id is None:
            raise ValueError(f"{self.surface} {self.key} belongs to no project")
        return self.project_id


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


class NoteRecord(Struct, frozen=True):
    """One note of a discussion. The `position_*` fields place a review note in a diff."""

    remote_id: int
    note_type: str | None
    is_system: bool
    author_username: str | None
    body: str
    created_at: int
    updated_at: int
    position: int
    resolvable: bool
    resolved: bool
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
    payload: bytes
    is_internal: bool = False

    @property
    def is_placed(self) -> bool:
        """Whether the note stands at a place in a diff."""
        return self.position_new_path is not None or self.position_old_path is not None


class DiscussionRecord(Struct, frozen=True):
    """A discussion with its notes in order."""

    remote_id: str
    individual_note: bool
    first_note_at: int | None
    last_note_at: int | None
    resolvable: bool
    resolved: bool
    notes: tuple[NoteRecord, ...]


class StateEventRecord(Struct, frozen=True):
    """Somebody closed, reopened or merged."""

    remote_id: int
    user_username: str | None
    state: str
    source_commit: str | None
    source_merge_request_id: int | None
    created_at: int


class LabelEventRecord(Struct, frozen=True):
    """Somebody added or removed a label; a label that was deleted since has no name."""

    remote_id: int
    user_username: str | None
    action: str
    label_name: str | None
    created_at: int


class MilestoneEventRecord(Struct, frozen=True):
    """Somebody added or removed the milestone; one that was deleted since has no title."""

    remote_id: int
    user_username: str | None
    action: str
    milestone_title: str | None
    milestone_remote_id: int | None
    created_at: int


class ClosedIssueRecord(Struct, frozen=True):
    """An issue that a merge request closes; one of another tracker has a key and a title only."""

    issue_key: str
    issue_remote_id: int | None
    issue_iid: int | None
    issue_project_remote_id: int | None
    reference: str | None
    title: str | None
    web_url: str | None


class FileChangeRecord(Struct, frozen=True):
    """A file that a merge request changes."""

    old_path: str
    new_path: str
    new_file: bool
    renamed_file: bool
    deleted_file: bool


class ReviewerRecord(Struct, frozen=True):
    """Somebody who is asked to review."""

    username: str


ParentRecord = IssueRecord | MergeRequestRecord
"""What a project's lists hold."""

EventRecord = StateEventRecord | LabelEventRecord | MilestoneEventRecord
ChildRecord = DiscussionRecord | EventRecord | ClosedIssueRecord | FileChangeRecord | ReviewerRecord
"""What hangs on an issue or a merge request."""


class StatusRecord(Struct, frozen=True):
    """Where an issue stands in its project's workflow, as the forge names it."""

    name: str
    category: str | None
    color: str | None
    icon_name: str | None


class Document(Struct, frozen=True):
    """The text of one issue, merge request, discussion or post, and what it is found by.

    `thread` is the issue, merge request or post it belongs to; a post has no project. `content` holds its parts in
    order, parted by form feeds.
    """

    source_type: str
    source_id: int
    project_id: int | None
    thread_type: str
    thread_id: int
    title: str
    state: str
    author_username: str | None
    participants: tuple[str, ...]
    labels: tuple[str, ...]
    paths: tuple[str, ...]
    identifiers: tuple[str, ...]
    content: str
    url: str | None
    created_at: int
    updated_at: int


class CommentRecord(Struct, frozen=True):
    """A comment of a thread, of whichever kind: in the talk, at a place in the diff, or the words of a review.

    `number` is the thread, `association` how the author stands to the repository, where the server says so. A ghost,
    whose account is gone, has no author. The update time of a review is the time
    it was submitted: its list shows no other.
    """

    remote_id: int
    kind: str
    number: int
    author: str | None
    is_bot: bool
    body: str
    path: str | None
    line: int | None
    side: str | None
    commit_sha: str | None
    in_reply_to: int | None
    review_id: int | None
    review_state: str | None
    url: str | None
    created_at: int
    updated_at: int
    association: str | None = None


class PullRecord(Struct, frozen=True):
    """A pull request as it stands: what decides whether it is followed, and against which head. `repo_id` and
    `repo_name` are those of the repository it belongs to, where the remote says so.
    """

    remote_id: int
    number: int
    title: str
    state: str
    merged: bool
    merged_at: int | None
    closed_at: int | None
    draft: bool
    author: str | None
    head_sha: str
    branch: str
    base_branch: str
    labels: tuple[str, ...]
    url: str | None
    created_at: int
    updated_at: int
    repo_id: int | None = None
    repo_name: str | None = None


class LinkRecord(Struct, frozen=True):
    """An address somebody shared: as it is compared, as it was written, and what its card says of it."""

    url: str
    raw: str
    title: str | None
    description: str | None
    thumb: str | None


class PostRecord(Struct, frozen=True):
    """A post or repost. A repost has its own address and author, and the text and links of what it repeats.

    An edit keeps the address, changes the `cid` and has no time of its own, so the update time of its version is
    always 0: only the digest, over address and `cid`, tells two versions apart. `sort_at` is the place in the list.
    The repository and the stream name no handle, and show of a repost only whose post it repeats. `alt_text` describes
    its images and videos, `labels` are those its author gave it.
    """

    uri: str
    cid: str
    kind: str
    author_did: str
    author_handle: str | None
    text: str
    langs: tuple[str, ...]
    reply_parent: str | None
    reply_root: str | None
    quoted_uri: str | None
    subject_uri: str | None
    created_at: int
    indexed_at: int | None
    sort_at: int
    links: tuple[LinkRecord, ...]
    url: str | None
    embed_kind: str | None
    alt_text: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
