"""Render one issue or merge request with its discussions, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from tidelore.cli.output.render import instant
from tidelore.core.clock import format_instant
from tidelore.core.model import FileChangeRecord
from tidelore.core.text import block, one_line
from tidelore.store.reading.conversations import (
    Conversation,
    IssueRow,
    MergeRequestRow,
    NoteRow,
    ParentRow,
    Thread,
    place,
)

_RULE = "=" * 80
_STEP = "  "


class ShownParts(Struct, frozen=True):
    """Which parts of a conversation are shown."""

    system: bool = False
    files: bool = False
    last: int | None = None
    columns: int = 80


def choose_threads(threads: Sequence[Thread], view: ShownParts) -> tuple[list[Thread], int]:
    """Return the shown threads with their shown notes, and the number of hidden earlier threads."""
    seen = [
        replace(thread, notes=tuple(n for n in thread.notes if view.system or not n.is_system)) for thread in threads
    ]
    spoken = [thread for thread in seen if thread.notes]
    skipped = 0 if view.last is None else max(len(spoken) - view.last, 0)
    return spoken[skipped:], skipped


def conversation_lines(talk: Conversation, view: ShownParts) -> list[str]:
    """Return the whole page."""
    parent = talk.parent
    name = f"Merge Request !{parent.iid}" if isinstance(parent, MergeRequestRow) else f"Issue #{parent.iid}"
    deleted = click.style(" [DELETED]", fg="red") if parent.deleted_at is not None else ""
    title = f": {one_line(parent.title)}" if parent.title else ""
    lines = [click.style(f"{name}{title}", bold=True) + deleted, _RULE]
    lines += _aligned(list(_fields(talk)), view.columns)
    if parent.deleted_at is not None:
        return [*lines, "", "Its text was removed when it was found deleted."]
    lines += ["", _heading("Description:")]
    lines += block(parent.description or "(none)", view.columns, _STEP)
    if view.files:
        lines += ["", _heading(f"Files ({len(talk.files):,}):")]
        lines += [f"{_STEP}{one_line(describe_file(file))}" for file in talk.files]
    return [*lines, *_discussion_lines(talk, view)]


def describe_file(file: FileChangeRecord) -> str:
    """Return a changed file on one line, with a letter for the kind of change."""
    if file.new_file:
        return f"A {file.new_path}"
    if file.deleted_file:
        return f"D {file.old_path}"
    if file.renamed_file or file.old_path != file.new_path:
        return f"R {file.old_path} -> {file.new_path}"
    return f"M {file.new_path}"


def describe_duration(seconds: int) -> str:
    """Return a duration in hours and minutes, as GitLab writes it."""
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    parts = [f"{hours:,}h" if hours else "", f"{minutes}m" if minutes or not hours else ""]
    return " ".join(part for part in parts if part)


def _fields(talk: Conversation) -> Iterator[tuple[str, str | None]]:
    """Yield names and values; None and empty values are not shown."""
    parent = talk.parent
    yield "Project", talk.project
    yield "State", parent.state
    if isinstance(parent, IssueRow):
        yield "Status", parent.status_name
        yield "Type", parent.issue_type if parent.issue_type not in (None, "issue") else None
        yield "Confidential", "Yes" if parent.confidential else "No"
    else:
        yield "Draft", "Yes" if parent.draft else "No"
    yield "Author", _person(parent.author_username)
    yield "Assignees", _people(talk.assignees)
    if isinstance(parent, MergeRequestRow):
        yield from _branches(parent, talk.reviewers)
    else:
        yield from _planning(parent)
    yield "Created", _day(parent.created_at)
    yield "Updated", _day(parent.updated_at)
    yield "Closed", None if parent.closed_at is None else _day(parent.closed_at)
    yield "Labels", ", ".join(talk.labels)
    yield "URL", parent.web_url
    yield from _links(talk)
    yield "Deleted", None if parent.deleted_at is None else f"found deleted on {_day(parent.deleted_at)}"


def _branches(parent: MergeRequestRow, reviewers: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    status, merged_at = parent.detailed_merge_status, parent.merged_at
    yield "Reviewers", _people(reviewers)
    yield "Source", parent.source_branch
    yield "Target", parent.target_branch
    yield "Merge Status", f"{status} (detailed_merge_status)" if status else None
    yield "Merged By", _person(parent.merge_user_username) if parent.merge_user_username else None
    yield "Merged At", None if merged_at is None else format_instant(merged_at)[:19].replace("T", " ")


def _planning(parent: IssueRow) -> Iterator[tuple[str, str | None]]:
    yield "Milestone", parent.milestone_title
    yield "Due Date", parent.due_date
    yield "Estimate", describe_duration(parent.time_estimate_seconds) if parent.time_estimate_seconds else None
    yield "Time Spent", describe_duration(parent.time_spent_seconds) if parent.time_spent_seconds else None


def _links(talk: Conversation) -> Iterator[tuple[str, str | None]]:
    if isinstance(talk.parent, IssueRow):
        found = [f"{'' if by.project == talk.project else by.project}!{by.iid} ({by.state})" for by in talk.closed_by]
        yield "Closed By", ", ".join(found)
        yield "Discussion", "locked" if talk.parent.discussion_locked else None
    else:
        yield "Milestone", talk.parent.milestone_title
        yield "Closes", ", ".join(_closed(issue.reference or issue.issue_key, talk.project) for issue in talk.closes)
        yield "Files", f"{len(talk.files):,} changed" if talk.files else None
    events = [f"{count:,} {name}" for name, count in talk.events.items() if count]
    yield "Events", ", ".join(events)


def _closed(reference: str, project: str) -> str:
    """Return a reference in its short form inside the project."""
    here = reference.startswith(f"{project}#")
    return reference.removeprefix(project) if here else reference


def _aligned(fields: Sequence[tuple[str, str | None]], columns: int) -> list[str]:
    shown = [(name, one_line(value)) for name, value in fields if value]
    margin = max(len(name) for name, _ in shown) + 2
    lines = []
    for name, value in shown:
        first, *rest = block(value, columns - margin)
        lines.append(f"{f'{name}:':<{margin}}{first}")
        lines += [f"{'':<{margin}}{line}" for line in rest]
    return lines


def _discussion_lines(talk: Conversation, view: ShownParts) -> list[str]:
    threads, skipped = choose_threads(talk.threads, view)
    lines = ["", _heading(f"Discussions ({len(threads) + skipped:,}):"), *_caveats(talk.parent)]
    if skipped:
        left_out = "1 earlier discussion" if skipped == 1 else f"{skipped:,} earlier discussions"
        lines.append(f"{_STEP}({left_out} not shown)")
    for thread in threads:
        lines += ["", *_thread(thread, view.columns)]
    return lines


def _caveats(parent: ParentRow) -> list[str]:
    """Return notes about discussions that are missing or outdated."""
    if not parent.discussions_read:
        said = "not fetched yet; run `lore sync`"
    elif not parent.discussions_fresh:
        said = "may be incomplete; run `lore sync` to update"
    else:
        return []
    return [f"{_STEP}({said})"]


def _thread(thread: Thread, columns: int) -> list[str]:
    first, *replies = thread.notes
    lines = _note_lines(first, "", columns, _STEP, resolved=bool(thread.resolved))
    for reply in replies:
        # A reply has the same position as its thread; show it only if it differs.
        lines += ["", *_note_lines(reply, place(first) or "", columns, _STEP * 2)]
    return lines


def _note_lines(note: NoteRow, known_place: str, columns: int, indent: str, *, resolved: bool = False) -> list[str]:
    where = place(note)
    marks = [
        f"[{one_line(where)}]" if where and where != known_place else "",
        "[SYSTEM]" if note.is_system else "",
        "[INTERNAL]" if note.is_internal else "",
        click.style("[RESOLVED]", fg="green") if resolved else "",
    ]
    head = " ".join([click.style(_person(note.author_username), fg="cyan"), f"({_day(note.created_at)})"])
    head = " ".join([head, *(mark for mark in marks if mark)])
    return [f"{indent}{head}:", *block(note.body, columns, indent + _STEP)]


def _heading(text: str) -> str:
    return click.style(text, bold=True)


def _person(username: str | None) -> str:
    return f"@{one_line(username)}" if username else "unknown"


def _people(names: Sequence[str]) -> str:
    return ", ".join(f"@{name}" for name in names)


def _day(instant_ms: int) -> str:
    return format_instant(instant_ms)[:10]


def conversation_data(talk: Conversation, view: ShownParts) -> dict[str, Any]:
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
        "discussions": _discussion_data(threads),
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


def _discussion_data(threads: Sequence[Thread]) -> list[dict[str, Any]]:
    return [
        {
            "id": thread.remote_id,
            "individual": bool(thread.individual_note),
            "resolvable": bool(thread.resolvable),
            "resolved": bool(thread.resolved),
            "notes": [_note_data(note) for note in thread.notes],
        }
        for thread in threads
    ]


def _note_data(note: NoteRow) -> dict[str, Any]:
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
