"""The payloads of GitHub: the fields we use. Unknown fields are ignored, wrong types are refused."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Raw, Struct, field

Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that both databases can store; a larger one rejects only its item and does not fail the run."""


class User(Struct, frozen=True):
    login: str
    kind: str | None = field(default=None, name="type")


class Label(Struct, frozen=True):
    name: str


class Milestone(Struct, frozen=True):
    title: str


class Reactions(Struct, frozen=True):
    total_count: Number = 0


class RepositoryName(Struct, frozen=True):
    id: Number
    full_name: str | None = None


class Branch(Struct, frozen=True):
    ref: str
    sha: str
    repo: RepositoryName | None = None


class Repository(Struct, frozen=True):
    id: Number
    full_name: str
    name: str
    html_url: str | None = None
    archived: bool | None = None
    node_id: str | None = None
    fork: bool | None = None
    has_issues: bool | None = None
    has_discussions: bool | None = None


class Comment(Struct, frozen=True):
    """A comment in the conversation of an issue or a pull request."""

    id: Number
    issue_url: str
    created_at: str
    updated_at: str
    body: str | None = None
    user: User | None = None
    author_association: str | None = None
    html_url: str | None = None


class ReviewComment(Struct, frozen=True):
    """A comment on the diff. If its lines have changed since, only the `original_*` fields contain its position."""

    id: Number
    pull_request_url: str
    created_at: str
    updated_at: str
    body: str | None = None
    user: User | None = None
    author_association: str | None = None
    html_url: str | None = None
    path: str | None = None
    line: Number | None = None
    original_line: Number | None = None
    side: str | None = None
    commit_id: str | None = None
    original_commit_id: str | None = None
    in_reply_to_id: Number | None = None
    pull_request_review_id: Number | None = None
    start_line: Number | None = None
    original_start_line: Number | None = None
    subject_type: str | None = None
    diff_hunk: str | None = None


class Review(Struct, frozen=True):
    """A review. One that is not submitted yet, visible only to its author, has no timestamp."""

    id: Number
    pull_request_url: str
    state: str
    submitted_at: str | None = None
    body: str | None = None
    user: User | None = None
    author_association: str | None = None
    html_url: str | None = None
    commit_id: str | None = None


class Pull(Struct, frozen=True):
    """A pull request. Lists omit `merged` and send only `merged_at`."""

    id: Number
    number: Number
    title: str
    state: str
    created_at: str
    updated_at: str
    head: Branch
    base: Branch
    merged: bool | None = None
    merged_at: str | None = None
    closed_at: str | None = None
    draft: bool | None = None
    user: User | None = None
    labels: tuple[Label, ...] | None = None
    html_url: str | None = None


class PullPage(Pull, frozen=True):
    """A pull request with everything that is mirrored. Only its own URL sends `merged_by`."""

    body: str | None = None
    node_id: str | None = None
    author_association: str | None = None
    merge_commit_sha: str | None = None
    merged_by: User | None = None
    milestone: Milestone | None = None
    assignees: tuple[User, ...] | None = None
    requested_reviewers: tuple[User, ...] | None = None


class PullMark(Struct, frozen=True):
    """What makes an entry of the list of issues a pull request; its contents are not used."""


class IssueType(Struct, frozen=True):
    """The type of an issue, which its organisation defined."""

    name: str


class Issue(Struct, frozen=True):
    """An entry of the list of issues: an issue, or with `pull_request` the issue side of a pull request."""

    id: Number
    number: Number
    title: str
    state: str
    created_at: str
    updated_at: str
    node_id: str | None = None
    repository_url: str | None = None
    pull_request: PullMark | None = None
    body: str | None = None
    closed_at: str | None = None
    user: User | None = None
    milestone: Milestone | None = None
    locked: bool | None = None
    comments: Number | None = None
    type: IssueType | str | None = None
    state_reason: str | None = None
    author_association: str | None = None
    reactions: Reactions | None = None
    html_url: str | None = None
    labels: tuple[str | Label, ...] | None = None
    assignees: tuple[User, ...] | None = None


class TimelineKind(Struct, frozen=True):
    """Which kind an entry of a timeline is, and whether it has an id."""

    event: str | None = None
    id: Raw = Raw(b"null")


class Team(Struct, frozen=True):
    slug: str


class Rename(Struct, frozen=True):
    to: str


class ReferringRepository(Struct, frozen=True):
    full_name: str


class ReferringIssue(Struct, frozen=True):
    """The issue or pull request that mentions another; its repository may be hidden."""

    id: Number
    number: Number
    html_url: str | None = None
    repository: ReferringRepository | None = None


class Referrer(Struct, frozen=True):
    issue: ReferringIssue | None = None


class TimelineEvent(Struct, frozen=True):
    """An event in a timeline; only a reference from elsewhere (`source`) has no id."""

    event: str
    created_at: str
    id: Number | None = None
    actor: User | None = None
    commit_id: str | None = None
    label: Label | None = None
    milestone: Milestone | None = None
    assignee: User | None = None
    requested_reviewer: User | None = None
    requested_team: Team | None = None
    rename: Rename | None = None
    lock_reason: str | None = None
    source: Referrer | None = None


class ChangedFile(Struct, frozen=True):
    filename: str
    status: str
    previous_filename: str | None = None


class Comparison(Struct, frozen=True):
    status: str


class App(Struct, frozen=True):
    slug: str


class InstallationToken(Struct, frozen=True):
    token: str
    expires_at: str

    def __repr__(self) -> str:
        return "InstallationToken(…)"
