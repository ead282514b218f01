"""Converts payloads of the toy tracker to records. Pure functions."""

from __future__ import annotations

from tests.toy.payloads import Board, Remark, Ticket

from tidelore.core.model import ISSUE_COMMENT, CommentRecord, IssueRecord, ProjectRecord


def transform_board(payload: Board, web_url: str) -> ProjectRecord:
    return ProjectRecord(
        remote_id=payload.id,
        path=payload.path,
        name=payload.path.rpartition("/")[2],
        web_url=web_url + payload.url,
        archived=payload.retired,
    )


def transform_ticket(payload: Ticket, web_url: str) -> IssueRecord:
    return IssueRecord(
        remote_id=payload.id,
        iid=payload.number,
        title=payload.title,
        description=payload.text,
        state="opened" if payload.open else "closed",
        author_username=payload.by,
        milestone_title=None,
        due_date=None,
        confidential=False,
        discussion_locked=False,
        issue_type=None,
        user_notes_count=payload.remarks,
        time_estimate_seconds=0,
        time_spent_seconds=0,
        references_short=f"#{payload.number}",
        references_full=None,
        created_at=_instant("opened", payload.opened),
        updated_at=_instant("changed", payload.changed),
        closed_at=None,
        web_url=web_url + payload.url,
        labels=payload.tags,
        assignees=(),
    )


def transform_remark(payload: Remark) -> CommentRecord:
    return CommentRecord(
        remote_id=payload.id,
        kind=ISSUE_COMMENT,
        number=payload.ticket,
        author=payload.by,
        is_bot=False,
        body=payload.text,
        created_at=_instant("at", payload.at),
        updated_at=_instant("changed", payload.changed),
    )


def _instant(field: str, value: int) -> int:
    if value < 0:
        raise ValueError(f"{field}: {value} is before 1970")
    return value
