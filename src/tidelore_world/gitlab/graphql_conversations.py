"""The objects below an issue or a merge request that a GraphQL query reaches: discussions, notes, positions.

Owns their field values, in GraphQL's shapes: whole seconds, global ids, no line ranges. Refuses to find parents
(`graphql_nodes`). Invariant: a note shown here is the note that REST shows, and `Shown` counts it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidelore_world.clock import iso_seconds
from tidelore_world.gitlab.items import WEB_ORIGIN
from tidelore_world.gitlab.state import Discussion, Item, MergeRequest, Note, Position, User
from tidelore_world.gitlab.view import View

T = TypeVar("T")
Node = dict[str, Any]
Arguments = Mapping[str, Any]
MAX_PAGE = 100


@dataclass(slots=True)
class Shown:
    """How much one answer shows: what takes a server its time."""

    notes: int = 0


def conversation_fields(forge: View, item: Item, shown: Shown) -> Node:
    """The fields of an issue or a merge request that lead to what was said below it."""
    threads = list(item.discussions)
    if isinstance(item, MergeRequest):
        # Notes on its commits are not in the REST list of the merge request.
        threads += item.commit_discussions
    return {
        "iid": str(item.iid),
        "userNotesCount": item.user_notes_count,
        "discussions": lambda given: array_page(
            threads, given, lambda thread: _discussion(forge, item, thread, shown), "Discussion"
        ),
    }


def array_page(rows: Sequence[T], given: Arguments, show: Callable[[T], Node | None], name: str) -> Node:
    """One page of a list that has no order of its own: the cursor is the number of rows before it."""
    first = given.get("first")
    size = MAX_PAGE if first is None else min(MAX_PAGE, int(first))
    start = _place(given.get("after"))
    page = rows[start : start + size]
    end = start + len(page)
    return {
        "__typename": f"{name}Connection",
        "nodes": [show(row) for row in page],
        "pageInfo": {
            "__typename": "PageInfo",
            "hasNextPage": end < len(rows),
            "hasPreviousPage": start > 0,
            "startCursor": _cursor(start + 1) if page else None,
            "endCursor": _cursor(end) if page else None,
        },
    }


def _cursor(place: int) -> str:
    return base64.urlsafe_b64encode(str(place).encode()).decode().rstrip("=")


def _place(cursor: Any) -> int:
    if not cursor:
        return 0
    try:
        return int(base64.urlsafe_b64decode(str(cursor) + "=="))
    except (ValueError, binascii.Error):
        return 0


def _discussion(forge: View, item: Item, thread: Discussion, shown: Shown) -> Node:
    of_commit = isinstance(item, MergeRequest) and thread in item.commit_discussions
    if of_commit:
        kind = "OutOfContextDiscussion"
    elif thread.individual_note:
        kind = "IndividualNoteDiscussion"
    else:
        kind = "DiffDiscussion" if thread.notes and thread.notes[0].position is not None else "Discussion"
    first = thread.notes[0].created_at_us if thread.notes else item.created_at_us
    return {
        "__typename": "Discussion",
        "id": f"gid://gitlab/Discussion/{thread.id}",
        "replyId": f"gid://gitlab/{kind}/{thread.id}",
        "createdAt": iso_seconds(first),
        "resolvable": any(note.resolvable for note in thread.notes),
        "resolved": all(note.resolved_at_us is not None for note in thread.notes if note.resolvable),
        "notes": lambda given: array_page(
            thread.notes, given, lambda note: _note(forge, item, note, shown, of_commit=of_commit), "Note"
        ),
    }


def _note(forge: View, item: Item, note: Note, shown: Shown, *, of_commit: bool) -> Node | None:
    shown.notes += 1
    if note.id in forge.graphql_nulls:
        return None
    place = f"commit/{'c0' * 20}" if of_commit else f"{item.kind}/{item.iid}"
    resolved_at = note.resolved_at_us
    return {
        "__typename": "Note",
        "id": f"gid://gitlab/{note.type or 'Note'}/{note.id}",
        "body": note.body,
        "author": _user(note.author),
        "system": note.system,
        "internal": note.internal,
        "createdAt": iso_seconds(note.created_at_us),
        "updatedAt": iso_seconds(note.updated_at_us),
        "resolvable": note.resolvable,
        "resolved": note.resolvable and resolved_at is not None,
        "resolvedAt": None if resolved_at is None else iso_seconds(resolved_at),
        "resolvedBy": None if note.resolved_by is None else _user(note.resolved_by),
        "url": f"{WEB_ORIGIN}/{item.project.path}/-/{place}#note_{note.id}",
        "position": None if note.position is None else _position(note.position),
    }


def _user(user: User) -> Node:
    return {
        "__typename": "UserCore",
        "id": f"gid://gitlab/User/{user.id}",
        "username": user.username,
        "name": user.name,
    }


def _position(position: Position) -> Node:
    on_text = position.position_type == "text"
    return {
        "__typename": "DiffPosition",
        "positionType": position.position_type,
        "filePath": position.new_path,
        "oldPath": position.old_path,
        "newPath": position.new_path,
        "oldLine": position.old_line if on_text else None,
        "newLine": position.new_line if on_text else None,
        "x": None if on_text else position.x,
        "y": None if on_text else position.y,
        "width": None if on_text else position.width,
        "height": None if on_text else position.height,
        "diffRefs": {
            "__typename": "DiffRefs",
            "baseSha": position.base_sha,
            "startSha": position.start_sha,
            "headSha": position.head_sha,
        },
    }
