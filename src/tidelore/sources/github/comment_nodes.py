"""Parses comments of issues and pull requests as GraphQL shows them, into the versions that REST gives.

A comment read by either way has the same key and the same content, so that the comments of many items can be compared
with the stored ones by few queries. What differs is read again by REST: only payloads of REST are stored.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from tidelore.core.model import ISSUE_COMMENT, REVIEW_COMMENT, CommentRecord, Item, Version, comment_key
from tidelore.sources.github.graphql import Actor, actor_login
from tidelore.sources.github.payloads import Number
from tidelore.sources.github.surfaces import COMMENTS, REVIEW_COMMENTS
from tidelore.sources.items import instant

ISSUE_COMMENT_FIELDS = "fullDatabaseId body url createdAt updatedAt authorAssociation author { __typename login }"
REVIEW_COMMENT_FIELDS = (
    f"{ISSUE_COMMENT_FIELDS} path line originalLine startLine originalStartLine subjectType diffHunk"
    " commit { oid } originalCommit { oid } replyTo { fullDatabaseId } pullRequestReview { fullDatabaseId }"
)


_REST_LOGINS = {"copilot-pull-request-reviewer[bot]": "Copilot", "copilot-swe-agent[bot]": "Copilot"}
"""How REST names the author of a comment where it differs; the author of a review it names as GraphQL does."""


class Numbered(Struct, frozen=True, rename="camel"):
    """An object of which only the number is used."""

    full_database_id: Number | str | None = None


class Commit(Struct, frozen=True):
    oid: str


class _Comment(Struct, frozen=True, rename="camel", kw_only=True):
    full_database_id: Number | str
    body: str
    created_at: str
    updated_at: str
    url: str | None = None
    author_association: str | None = None
    author: Actor | None = None


class _ReviewComment(_Comment, frozen=True, rename="camel", kw_only=True):
    path: str | None = None
    line: Number | None = None
    original_line: Number | None = None
    start_line: Number | None = None
    original_start_line: Number | None = None
    subject_type: str | None = None
    diff_hunk: str | None = None
    commit: Commit | None = None
    original_commit: Commit | None = None
    reply_to: Numbered | None = None
    pull_request_review: Numbered | None = None


_comment = msgspec.json.Decoder(_Comment)
_review_comment = msgspec.json.Decoder(_ReviewComment)


def read_issue_comment(payload: bytes, number: int) -> Item[CommentRecord]:
    """Parse one comment in the conversation of an issue or a pull request."""
    parsed = _comment.decode(payload)
    record = CommentRecord(kind=ISSUE_COMMENT, number=number, **_common(parsed))
    return _item(payload, record, COMMENTS.version_digest(record))


def read_review_comment(payload: bytes, number: int, side: str | None) -> Item[CommentRecord]:
    """Parse one comment on the diff. Its side is that of its thread."""
    parsed = _review_comment.decode(payload)
    placed = parsed.line is not None
    commit, original = _oid(parsed.commit), _oid(parsed.original_commit)
    record = CommentRecord(
        kind=REVIEW_COMMENT,
        number=number,
        path=parsed.path,
        line=parsed.line if placed else parsed.original_line,
        side=side,
        commit_sha=commit if placed else original or commit,
        in_reply_to=None if parsed.reply_to is None else whole_number(parsed.reply_to.full_database_id),
        review_id=(
            None if parsed.pull_request_review is None else whole_number(parsed.pull_request_review.full_database_id)
        ),
        start_line=parsed.start_line if placed else parsed.original_start_line,
        subject_type=None if parsed.subject_type is None else parsed.subject_type.lower(),
        diff_hunk=parsed.diff_hunk,
        **_common(parsed),
    )
    return _item(payload, record, REVIEW_COMMENTS.version_digest(record))


def shown_author(actor: Actor | None) -> tuple[str | None, bool]:
    """Return the author as REST shows that of a review, None for a deleted account, and whether it is a bot."""
    login = actor_login(actor)
    is_ghost = login is not None and login.casefold() == "ghost"
    return None if is_ghost else login, login is not None and login.casefold().endswith("[bot]")


def whole_number(text: int | str | None) -> int | None:
    """Return a BigInt, which is written as a text."""
    if text is None or isinstance(text, int):
        return text
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"fullDatabaseId: not a number: {text[:40]!r}")
    return int(text)


def _common(parsed: _Comment) -> dict[str, Any]:
    author, is_bot = shown_author(parsed.author)
    return {
        "remote_id": whole_number(parsed.full_database_id),
        "author": _REST_LOGINS.get(author or "", author),
        "is_bot": is_bot,
        "body": parsed.body,
        "url": parsed.url,
        "created_at": instant("createdAt", parsed.created_at),
        "updated_at": instant("updatedAt", parsed.updated_at),
        "association": parsed.author_association,
    }


def _item(payload: bytes, record: CommentRecord, content: bytes) -> Item[CommentRecord]:
    version = Version(comment_key(record.kind, record.remote_id), record.updated_at, content)
    return Item(version, record.updated_at, payload, record)


def _oid(commit: Commit | None) -> str | None:
    return None if commit is None else commit.oid
