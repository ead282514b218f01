"""Turns GitHub's payloads into records, and recognises bots.

Pure functions. A timestamp that cannot be parsed, or a URL without a thread number, is an error of that item, never 0.
"""

from __future__ import annotations

from tidelore.core.model import CommentRecord, ProjectRecord, PullRecord
from tidelore.sources.github.payloads import Comment, Pull, Repository, Review, ReviewComment, User
from tidelore.sources.items import instant, optional_instant

ISSUE_COMMENT = "issue_comment"
REVIEW_COMMENT = "review_comment"
REVIEW_SUMMARY = "review_summary"

_GHOST = "ghost"
"""The account that GitHub shows as the author of comments of deleted accounts."""


def transform_comment(payload: Comment) -> CommentRecord:
    """Normalise a conversation comment, or raise ValueError naming the field."""
    return CommentRecord(
        remote_id=payload.id,
        kind=ISSUE_COMMENT,
        number=_number("issue_url", payload.issue_url),
        author=author(payload.user),
        is_bot=is_bot(payload.user),
        body=payload.body or "",
        path=None,
        line=None,
        side=None,
        commit_sha=None,
        in_reply_to=None,
        review_id=None,
        review_state=None,
        url=payload.html_url,
        created_at=instant("created_at", payload.created_at),
        updated_at=instant("updated_at", payload.updated_at),
        association=payload.author_association,
    )


def transform_review_comment(payload: ReviewComment) -> CommentRecord:
    """Normalise a comment on the diff, or raise ValueError naming the field."""
    placed = payload.line is not None
    return CommentRecord(
        remote_id=payload.id,
        kind=REVIEW_COMMENT,
        number=_number("pull_request_url", payload.pull_request_url),
        author=author(payload.user),
        is_bot=is_bot(payload.user),
        body=payload.body or "",
        path=payload.path,
        line=payload.line if placed else payload.original_line,
        side=payload.side,
        commit_sha=payload.commit_id if placed else payload.original_commit_id or payload.commit_id,
        in_reply_to=payload.in_reply_to_id,
        review_id=payload.pull_request_review_id,
        review_state=None,
        url=payload.html_url,
        created_at=instant("created_at", payload.created_at),
        updated_at=instant("updated_at", payload.updated_at),
        association=payload.author_association,
    )


def transform_review(payload: Review) -> CommentRecord | None:
    """Normalise the text of a review, or raise ValueError naming the field; None for one not submitted yet."""
    if payload.submitted_at is None:
        return None
    submitted_at = instant("submitted_at", payload.submitted_at)
    return CommentRecord(
        remote_id=payload.id,
        kind=REVIEW_SUMMARY,
        number=_number("pull_request_url", payload.pull_request_url),
        author=author(payload.user),
        is_bot=is_bot(payload.user),
        body=payload.body or "",
        path=None,
        line=None,
        side=None,
        commit_sha=payload.commit_id,
        in_reply_to=None,
        review_id=payload.id,
        review_state=payload.state,
        url=payload.html_url,
        created_at=submitted_at,
        updated_at=submitted_at,
        association=payload.author_association,
    )


def transform_pull(payload: Pull) -> PullRecord:
    """Normalise a pull request, or raise ValueError naming the field."""
    merged_at, repo = optional_instant("merged_at", payload.merged_at), payload.base.repo
    return PullRecord(
        remote_id=payload.id,
        number=payload.number,
        title=payload.title,
        state=payload.state,
        merged=bool(payload.merged) or merged_at is not None,
        merged_at=merged_at,
        closed_at=optional_instant("closed_at", payload.closed_at),
        draft=bool(payload.draft),
        author=author(payload.user),
        head_sha=payload.head.sha,
        branch=payload.head.ref,
        base_branch=payload.base.ref,
        labels=tuple(label.name for label in payload.labels or ()),
        url=payload.html_url,
        created_at=instant("created_at", payload.created_at),
        updated_at=instant("updated_at", payload.updated_at),
        repo_id=None if repo is None else repo.id,
        repo_name=None if repo is None else repo.full_name,
    )


def transform_repository(payload: Repository) -> ProjectRecord:
    """Normalise a repository."""
    return ProjectRecord(
        remote_id=payload.id,
        path=payload.full_name,
        name=payload.name,
        web_url=payload.html_url,
        archived=bool(payload.archived),
    )


def author(user: User | None) -> str | None:
    """Return the login of the author; None if the account is deleted."""
    return None if user is None or user.login.casefold() == _GHOST else user.login


def is_bot(user: User | None) -> bool:
    """Return whether the author is a bot."""
    return user is not None and (user.kind == "Bot" or user.login.casefold().endswith("[bot]"))


def _number(field: str, url: str) -> int:
    text = url.rpartition("/")[2]
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"{field}: names no thread: {url[:200]!r}")
    return int(text)
