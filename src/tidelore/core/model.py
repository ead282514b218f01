"""Value types that pass between sources, engine and store: remote items, their versions, positions, scopes and records.

Data only, no decisions. Every package may import this module; it imports none.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

R_co = TypeVar("R_co", covariant=True)

RemoteId = int | str
"""The id of a remote object: a number on the forges, a URI on Bluesky."""


class Position(NamedTuple):
    """A place in a list ordered by update time; ties are broken by id."""

    at: int
    id: RemoteId


class Version(NamedTuple):
    """Identifies one version of an item. An item is new unless a version with all three values is stored."""

    id: RemoteId
    updated_at: int
    digest: bytes


class Item(Struct, Generic[R_co], frozen=True, gc=False):
    """A parsed payload: its version, the original bytes, and the record made from it.

    `at` is its position in the list it came from: its update time on a forge, its feed time on Bluesky.
    `payload_digest` is the digest of the payload, if the source has computed it for the version.

    Pages hold many items and notes, none of which can be part of a cycle: without `gc` they are not searched for one.
    """

    version: Version
    at: int
    payload: bytes
    record: R_co
    payload_digest: bytes | None = None

    @property
    def position(self) -> Position:
        return Position(self.at, self.version.id)


class Rejected(Struct, frozen=True):
    """A payload that could not be parsed. `locator` is what to fetch it by, if that is known."""

    key: str
    locator: str | None
    payload: bytes
    error: str


class Scope(Struct, frozen=True):
    """What a surface is listed for: one cursor, one watermark, one line in a report.

    Lists of a forge belong to a project; lists of an account have no project.
    """

    source: str
    surface: str
    key: str
    project_id: int | None
    title: str

    @property
    def project(self) -> int:
        """The project id; raises ValueError for lists of an account."""
        if self.project_id is None:
            raise ValueError(f"{self.surface} {self.key} has no project")
        return self.project_id


class IssueRecord(Struct, frozen=True):
    """An issue, in one format for all forges."""

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
    state_reason: str | None = None
    author_association: str | None = None
    reactions: int = 0
    node_id: str | None = None


class MergeRequestRecord(Struct, frozen=True):
    """A merge or pull request, in one format for all forges."""

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
    author_association: str | None = None
    merge_commit_sha: str | None = None
    node_id: str | None = None


class ProjectRecord(Struct, frozen=True):
    """A project or repository, as returned by the forge.

    `node_id` is its global id, where the forge has one. `has_topics`: it has topics, which can be listed by that id.
    """

    remote_id: int
    path: str
    name: str
    web_url: str | None
    archived: bool
    node_id: str | None = None
    has_topics: bool = False


class NoteRecord(Struct, frozen=True, gc=False):
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
    payload: bytes
    position_old_path: str | None = None
    position_new_path: str | None = None
    position_old_line: int | None = None
    position_new_line: int | None = None
    position_type: str | None = None
    position_line_range_start: int | None = None
    position_line_range_end: int | None = None
    position_base_sha: str | None = None
    position_start_sha: str | None = None
    position_head_sha: str | None = None
    is_internal: bool = False
    position_range_unknown: bool = False

    @property
    def is_placed(self) -> bool:
        """Whether the note refers to a position in a diff."""
        return self.position_new_path is not None or self.position_old_path is not None


class DiscussionRecord(Struct, frozen=True, gc=False):
    """A discussion with its notes in order."""

    remote_id: str
    individual_note: bool
    first_note_at: int | None
    last_note_at: int | None
    resolvable: bool
    resolved: bool
    notes: tuple[NoteRecord, ...]


class StateEventRecord(Struct, frozen=True):
    """A user closed, reopened or merged the item."""

    remote_id: int
    user_username: str | None
    state: str
    source_commit: str | None
    source_merge_request_id: int | None
    created_at: int


class LabelEventRecord(Struct, frozen=True):
    """A user added or removed a label. The name is None if the label was deleted since."""

    remote_id: int
    user_username: str | None
    action: str
    label_name: str | None
    created_at: int


class MilestoneEventRecord(Struct, frozen=True):
    """A user added or removed the milestone. The title is None if the milestone was deleted since."""

    remote_id: int
    user_username: str | None
    action: str
    milestone_title: str | None
    milestone_remote_id: int | None
    created_at: int


class TimelineEventRecord(Struct, frozen=True):
    """Something else that happened to the item: `action` is the forge's word, `subject` what it is about, or None."""

    event_key: str
    user_username: str | None
    action: str
    subject: str | None
    created_at: int


class ClosedIssueRecord(Struct, frozen=True):
    """An issue that a merge request closes. An issue of another tracker has only a key and a title."""

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
    """A user who was asked to review."""

    username: str


EventRecord = StateEventRecord | LabelEventRecord | MilestoneEventRecord | TimelineEventRecord


class StatusRecord(Struct, frozen=True):
    """The workflow status of an issue, as named by the forge."""

    name: str
    category: str | None
    color: str | None
    icon_name: str | None


class Document(Struct, frozen=True):
    """The text of one issue, merge request, discussion or post, and the fields it is searched by.

    `thread` is the issue, merge request or post it belongs to; a post has no project. `content` contains its parts in
    order, separated by form feeds.
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


ISSUE_COMMENT, REVIEW_COMMENT, REVIEW_SUMMARY = "issue_comment", "review_comment", "review_summary"
NOTE = "note"
TOPIC_COMMENT = "topic_comment"
"""The kinds of comments: in a conversation, on a line of a diff, and the text of a review."""


class CommentRecord(Struct, frozen=True, kw_only=True):
    """A comment in a thread: a conversation comment, a review comment on the diff, or the body of a review.

    `number` is the thread; `association` is the author's relation to the repository, if the server sends it. A comment
    of a deleted account has no author. The update time of a review is the time it was submitted, because its list
    contains no other time. `on` is issue or mr where issues and merge requests have separate numbers. An `internal` one
    is visible to project members only.
    """

    remote_id: int
    kind: str
    number: int
    author: str | None
    is_bot: bool
    body: str
    path: str | None = None
    line: int | None = None
    side: str | None = None
    commit_sha: str | None = None
    in_reply_to: int | None = None
    review_id: int | None = None
    review_state: str | None = None
    url: str | None = None
    created_at: int
    updated_at: int
    association: str | None = None
    start_line: int | None = None
    subject_type: str | None = None
    diff_hunk: str | None = None
    on: str | None = None
    internal: bool = False


GHOST = "ghost"
"""The account to which GitLab gives the notes of deleted accounts."""


def comment_of_note(note: NoteRecord, number: int, on: str) -> CommentRecord:
    """Return a note of an issue or a merge request as a comment."""
    author = note.author_username
    return CommentRecord(
        remote_id=note.remote_id,
        kind=NOTE,
        number=number,
        author=None if author is not None and author.casefold() == GHOST else author,
        is_bot=False,
        body=note.body,
        path=note.position_new_path or note.position_old_path,
        line=note.position_old_line if note.position_new_line is None else note.position_new_line,
        commit_sha=note.position_head_sha,
        created_at=note.created_at,
        updated_at=note.updated_at,
        start_line=note.position_line_range_start,
        on=on,
        internal=note.is_internal,
    )


class MemberRecord(Struct, frozen=True):
    """A member of a project with the access level of the forge: 50 is an owner, 30 and above may write."""

    username: str
    access_level: int


def comment_key(kind: str, remote_id: int) -> str:
    """Return the key of a comment among those of all kinds, whose ids are separate sequences."""
    return f"{kind}:{remote_id}"


class PullRecord(Struct, frozen=True):
    """The current state of a pull request: what decides whether it is followed, and its head commit."""

    number: int
    title: str
    state: str
    author: str | None
    head_sha: str
    branch: str
    labels: tuple[str, ...]
    url: str | None
    created_at: int
    updated_at: int


def pull_of(record: MergeRequestRecord) -> PullRecord:
    """Return what feedback needs to know of a merge or pull request."""
    return PullRecord(
        number=record.iid,
        title=record.title,
        state="merged" if record.merged_at is not None else record.state,
        author=record.author_username,
        head_sha=record.head_sha or "",
        branch=record.source_branch or "",
        labels=record.labels,
        url=record.web_url,
        created_at=record.created_at,
        updated_at=record.updated_at,
    )


class LinkRecord(Struct, frozen=True):
    """A shared link: its normalised URL, the URL as written, and the contents of its preview card."""

    url: str
    raw: str
    title: str | None
    description: str | None
    thumb: str | None


class PostRecord(Struct, frozen=True):
    """A post or repost. A repost has its own URI and author, and the text and links of the post it repeats.

    An edit keeps the URI, changes the `cid` and has no timestamp, so the update time of its version is always 0: only
    the digest, over URI and `cid`, distinguishes two versions. `sort_at` is the position in the list. The repository
    and the stream contain no handles, and for a repost only the URI of the repeated post. `alt_text` describes its
    images and videos; `labels` are those its author set.
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


class RepositoryRecord(Struct, frozen=True):
    """A repository of GitHub: the project, its global id, and the features that decide what can be read.

    A feature is None if the server does not report it.
    """

    project: ProjectRecord
    node_id: str | None
    fork: bool
    has_issues: bool | None
    has_discussions: bool | None


class PullIssueRecord(Struct, frozen=True):
    """The issue side of a pull request, as the list of issues shows it.

    `remote_id` is the id of this side; the pull request has another one. `node_id` is the same on both sides.
    """

    remote_id: int
    node_id: str | None
    iid: int
    comments: int
    reactions: int
    created_at: int
    updated_at: int


class ReviewThreadRecord(Struct, frozen=True):
    """The state of a review thread. `root_comment_id` is its first comment that still exists."""

    remote_id: str
    is_resolved: bool
    is_outdated: bool
    resolved_by: str | None
    path: str
    line: int | None
    subject_type: str
    root_comment_id: int | None


class TopicCommentRecord(Struct, frozen=True):
    """A comment of a discussion, or a reply to one: `parent_id` is the comment that a reply belongs to.

    A deleted comment with replies stays, without text and author, and has `deleted_at`.
    """

    remote_id: int
    node_id: str
    parent_id: int | None
    author: str | None
    association: str | None
    body: str
    is_answer: bool
    upvotes: int
    created_at: int
    updated_at: int
    deleted_at: int | None
    url: str | None
    payload: bytes


class TopicRecord(Struct, frozen=True):
    """A discussion of GitHub with all its comments; each comment is followed by its replies.

    `is_answered` is None in a category without answers.
    """

    remote_id: int
    node_id: str
    iid: int
    title: str
    body: str
    author: str | None
    association: str | None
    category: str
    is_answered: bool | None
    answer_id: int | None
    answer_chosen_at: int | None
    upvotes: int
    state: str
    state_reason: str | None
    locked: bool
    created_at: int
    updated_at: int
    closed_at: int | None
    url: str | None
    comments: tuple[TopicCommentRecord, ...]


ParentRecord = IssueRecord | MergeRequestRecord
"""The items that have children."""

ListedRecord = ParentRecord | PullIssueRecord
"""The items in a project's lists of issues and merge requests."""

ChildRecord = (
    DiscussionRecord
    | CommentRecord
    | ReviewThreadRecord
    | EventRecord
    | ClosedIssueRecord
    | FileChangeRecord
    | ReviewerRecord
)
"""The children of an issue or a merge request."""
