"""Payload shapes of what hangs under an item: discussions, notes, events, diffs, versions, reviewers.

Owns the field names. Refuses to read a query or to change a row. Invariant: a payload is a pure function of
the row, so what the API shows and what the truth reports can never differ.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Any

from tidelore_world.clock import iso_millis
from tidelore_world.gitlab.items import Payload, instant, milestone_payload, user_payload
from tidelore_world.gitlab.state import (
    Discussion,
    Event,
    FileDiff,
    Item,
    MergeRequest,
    Note,
    Position,
    User,
    Version,
)


def noteable_type(item: Item) -> str:
    """GitLab's name for the kind of an item."""
    return "MergeRequest" if isinstance(item, MergeRequest) else "Issue"


def discussion_payload(discussion: Discussion, item: Item) -> Payload:
    """One thread with all its notes."""
    return {
        "id": discussion.id,
        "individual_note": discussion.individual_note,
        "notes": [note_payload(note, item) for note in discussion.notes],
    }


def note_payload(note: Note, item: Item) -> Payload:
    """One note. Only resolvable notes say whether they are resolved, only DiffNotes have a position."""
    created = iso_millis(note.created_at_us)
    edited = note.updated_at_us != note.created_at_us
    payload: Payload = {
        "id": note.id,
        "type": note.type,
        "body": note.body,
        "author": user_payload(note.author),
        "created_at": created,
        "updated_at": iso_millis(note.updated_at_us) if edited else created,
        "system": note.system,
        "noteable_id": item.id,
        "noteable_type": noteable_type(item),
        "project_id": item.project.id,
        "resolvable": note.resolvable,
        "confidential": note.internal,
        "internal": note.internal,
        "imported": False,
        "imported_from": "none",
        "noteable_iid": item.iid,
        "commands_changes": {},
    }
    if note.resolvable:
        payload["resolved"] = note.resolved_at_us is not None
        payload["resolved_by"] = None if note.resolved_by is None else user_payload(note.resolved_by)
        payload["resolved_at"] = instant(note.resolved_at_us)
    if note.position is not None:
        payload["commit_id"] = None
        payload["position"] = position_payload(note.position)
        payload["suggestions"] = []
    return payload


def position_payload(position: Position) -> Payload:
    """Where a DiffNote sits."""
    payload: Payload = {
        "base_sha": position.base_sha,
        "start_sha": position.start_sha,
        "head_sha": position.head_sha,
        "old_path": position.old_path,
        "new_path": position.new_path,
        "position_type": position.position_type,
    }
    if position.position_type == "image":
        return payload | {
            "width": position.width,
            "height": position.height,
            "x": position.x,
            "y": position.y,
        }
    payload |= {"old_line": position.old_line, "new_line": position.new_line, "line_range": None}
    if position.multi_line:
        first = _line_end(position, position.first_old_line, position.first_new_line)
        payload["line_range"] = {
            "start": first,
            "end": _line_end(position, position.old_line, position.new_line),
        }
    return payload


def event_payload(event: Event, item: Item) -> Payload:
    """One resource event of any family."""
    payload: Payload = {
        "id": event.id,
        "user": user_payload(event.user),
        "created_at": iso_millis(event.created_at_us),
        "resource_type": noteable_type(item),
        "resource_id": item.id,
    }
    if event.family == "state":
        return payload | {"source_commit": None, "source_merge_request_id": None, "state": event.action}
    if event.family == "label":
        return payload | {"label": _label_payload(event), "action": event.action}
    milestone = None if event.milestone is None else milestone_payload(event.milestone, item.project)
    return payload | {"milestone": milestone, "action": event.action, "state": "opened"}


def diff_payload(diff: FileDiff) -> Payload:
    """One changed file."""
    return {
        "old_path": diff.old_path,
        "new_path": diff.new_path,
        "a_mode": "0" if diff.new_file else "100644",
        "b_mode": "0" if diff.deleted_file else "100644",
        "new_file": diff.new_file,
        "renamed_file": diff.renamed_file,
        "deleted_file": diff.deleted_file,
        "generated_file": False,
        "collapsed": False,
        "too_large": False,
        "diff": diff.diff,
    }


def version_payload(version: Version, mr: MergeRequest) -> Payload:
    """One push to the source branch."""
    return {
        "id": version.id,
        "head_commit_sha": version.head_sha,
        "base_commit_sha": version.base_sha,
        "start_commit_sha": version.start_sha,
        "created_at": iso_millis(version.created_at_us),
        "merge_request_id": mr.id,
        "state": "collected",
        "real_size": str(version.files),
        "patch_id_sha": sha1(version.head_sha.encode(), usedforsecurity=False).hexdigest(),
    }


def reviewer_payload(user: User, mr: MergeRequest) -> Payload:
    """One reviewer of a merge request."""
    state = "reviewed" if mr.state == "merged" else "unreviewed"
    return {"user": user_payload(user), "state": state, "created_at": iso_millis(mr.created_at_us)}


def _label_payload(event: Event) -> dict[str, Any] | None:
    label = event.label
    if label is None:
        return None
    return {"id": label.id, "name": label.name, "color": label.color, "description": None}


def _line_end(position: Position, old_line: int | None, new_line: int | None) -> Payload:
    digest = sha1(position.new_path.encode(), usedforsecurity=False).hexdigest()
    kind = "old" if new_line is None else "new" if old_line is None else None
    return {
        "line_code": f"{digest}_{old_line or 0}_{new_line or 0}",
        "type": kind,
        "old_line": old_line,
        "new_line": new_line,
    }
