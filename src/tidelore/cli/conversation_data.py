"""Renders one conversation as data, with the documented field names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelore.cli.conversation_text import View, choose_threads
from tidelore.cli.render import instant
from tidelore.store.reading.conversations import Conversation, IssueRow, MergeRequestRow, NoteRow, Thread


def conversation_data(talk: Conversation, view: View) -> dict[str, Any]:
    """Return everything about a conversation; `view` chooses the discussions."""
    parent = talk.parent
    threads, left_out = choose_threads(talk.threads, view)
    data: dict[str, Any] = {
        "project": talk.project,
        "iid": parent.iid,
        "reference": parent.references_full,
        "title": parent.title,
        "state": parent.state,
        "author": parent.author_username,
        "assignees": talk.assignees,
        "labels": talk.labels,
        "milestone": parent.milestone_title,
        "created_at": instant(parent.created_at),
        "updated_at": instant(parent.updated_at),
        "closed_at": instant(parent.closed_at),
        "deleted_at": instant(parent.deleted_at),
        "web_url": parent.web_url,
        "description": parent.description,
    }
    data |= _of_request(talk, parent) if isinstance(parent, MergeRequestRow) else _of_issue(talk, parent)
    return data | {
        "events": talk.events,
        "discussions": _discussions(threads),
        "discussions_total": len(threads) + left_out,
        "discussions_fresh": parent.discussions_fresh,
        "discussions_error": parent.discussions_error,
    }


def _of_request(talk: Conversation, parent: MergeRequestRow) -> dict[str, Any]:
    return {
        "draft": bool(parent.draft),
        "reviewers": talk.reviewers,
        "source_branch": parent.source_branch,
        "target_branch": parent.target_branch,
        "head_sha": parent.head_sha,
        "merge_status": parent.detailed_merge_status,
        "merged_by": parent.merge_user_username,
        "merged_at": instant(parent.merged_at),
        "closes_issues": [
            {
                "key": issue.issue_key,
                "iid": issue.issue_iid,
                "reference": issue.reference,
                "title": issue.title,
                "web_url": issue.web_url,
            }
            for issue in talk.closes
        ],
        "files": talk.files,
    }


def _of_issue(talk: Conversation, parent: IssueRow) -> dict[str, Any]:
    return {
        "type": parent.issue_type,
        "status": parent.status_name,
        "status_category": parent.status_category,
        "confidential": bool(parent.confidential),
        "discussion_locked": bool(parent.discussion_locked),
        "due_date": parent.due_date,
        "time_estimate_seconds": parent.time_estimate_seconds,
        "time_spent_seconds": parent.time_spent_seconds,
        "closed_by": talk.closed_by,
    }


def _discussions(threads: Sequence[Thread]) -> list[dict[str, Any]]:
    return [
        {
            "id": thread.remote_id,
            "individual": bool(thread.individual_note),
            "resolvable": bool(thread.resolvable),
            "resolved": bool(thread.resolved),
            "notes": [_note(note) for note in thread.notes],
        }
        for thread in threads
    ]


def _note(note: NoteRow) -> dict[str, Any]:
    return {
        "id": note.remote_id,
        "type": note.note_type,
        "system": bool(note.is_system),
        "internal": bool(note.is_internal),
        "author": note.author_username,
        "body": note.body,
        "created_at": instant(note.created_at),
        "updated_at": instant(note.updated_at),
        "resolvable": bool(note.resolvable),
        "resolved": bool(note.resolved),
        "resolved_by": note.resolved_by,
        "resolved_at": instant(note.resolved_at),
        "position": _position(note) if note.is_placed else None,
    }


def _position(note: NoteRow) -> dict[str, Any]:
    return {
        "type": note.position_type,
        "old_path": note.position_old_path,
        "new_path": note.position_new_path,
        "old_line": note.position_old_line,
        "new_line": note.position_new_line,
        "range_start": note.position_line_range_start,
        "range_end": note.position_line_range_end,
        "base_sha": note.position_base_sha,
        "start_sha": note.position_start_sha,
        "head_sha": note.position_head_sha,
    }
