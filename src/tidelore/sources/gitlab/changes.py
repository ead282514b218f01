"""What a merge request changes: the issues it closes, its files, and who is asked to review it. Pure.

The content of each is its record: a closed issue's payload shows the whole issue, and its new comment is no
change of the merge request.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.model import ClosedIssueRecord, FileChangeRecord, Item, ReviewerRecord, Version
from tidelore.sources.gitlab.payloads import Number, References, User

C = TypeVar("C", ClosedIssueRecord, FileChangeRecord)


class ClosedIssue(Struct, frozen=True):
    """An issue of GitLab has a number as its id, one of another tracker a text and little else."""

    id: Number | str
    iid: Number | None = None
    project_id: Number | None = None
    title: str | None = None
    references: References | None = None
    web_url: str | None = None


class Diff(Struct, frozen=True):
    old_path: str
    new_path: str
    new_file: bool | None = None
    renamed_file: bool | None = None
    deleted_file: bool | None = None


class Reviewer(Struct, frozen=True):
    user: User


_closed_issue = msgspec.json.Decoder(ClosedIssue)
_diff = msgspec.json.Decoder(Diff)
_reviewer = msgspec.json.Decoder(Reviewer)


def read_closed_issue(payload: bytes) -> Item[ClosedIssueRecord]:
    """Understand one issue that would be closed."""
    parsed = _closed_issue.decode(payload)
    record = ClosedIssueRecord(
        issue_key=str(parsed.id),
        issue_remote_id=parsed.id if isinstance(parsed.id, int) else None,
        issue_iid=parsed.iid,
        issue_project_remote_id=parsed.project_id,
        reference=parsed.references.full if parsed.references else None,
        title=parsed.title,
        web_url=parsed.web_url,
    )
    return _item(record.issue_key, payload, record)


def read_diff(payload: bytes) -> Item[FileChangeRecord]:
    """Understand one changed file; its text is not kept."""
    parsed = _diff.decode(payload)
    record = FileChangeRecord(
        old_path=parsed.old_path,
        new_path=parsed.new_path,
        new_file=bool(parsed.new_file),
        renamed_file=bool(parsed.renamed_file),
        deleted_file=bool(parsed.deleted_file),
    )
    return _item(f"{record.old_path} -> {record.new_path}", payload, record)


def read_reviewer(payload: bytes) -> Item[ReviewerRecord]:
    """Understand one reviewer."""
    record = ReviewerRecord(_reviewer.decode(payload).user.username)
    return Item(Version(record.username, 0, b""), 0, payload, record)


def _item(key: str, payload: bytes, record: C) -> Item[C]:
    return Item(Version(key, 0, digest(msgspec.json.encode(record))), 0, payload, record)
