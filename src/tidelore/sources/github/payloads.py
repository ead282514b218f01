"""The payloads of GitHub: the fields we use. Unknown fields are ignored, wrong types are refused."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An integer that both databases can store; a larger one rejects only its item and does not fail the run."""


class User(Struct, frozen=True):
    login: str
    kind: str | None = field(default=None, name="type")


class Label(Struct, frozen=True):
    name: str


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


class Comparison(Struct, frozen=True):
    status: str


class App(Struct, frozen=True):
    slug: str


class InstallationToken(Struct, frozen=True):
    token: str
    expires_at: str

    def __repr__(self) -> str:
        return "InstallationToken(…)"
