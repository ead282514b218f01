"""Reads the events of one issue or merge request, where its review threads stand in the diff, its age in the copy, and
items that it names.

Every query starts at the parent and uses an index, so its cost is that of this conversation. Writes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from tidelore.core.references import Kind
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import EVENT_TABLES, PARENTS

_EVENTS = {
    "state": ("t.state", "NULL"),
    "label": ("t.action", "t.label_name"),
    "milestone": ("t.action", "t.milestone_title"),
    "timeline": ("t.action", "t.subject"),
}
"""For each kind of event, the columns with what happened and with its subject."""


class EventRow(Struct, frozen=True):
    """An event. `subject` is the label or milestone (None if it was deleted since), or what another event is about."""

    kind: str
    action: str
    subject: str | None
    actor: str | None
    created_at: int


class ThreadContextRow(Struct, frozen=True):
    """What a thread says beside its notes: the lines of the diff it was written below, and how it was resolved."""

    remote_id: str
    diff_hunk: str | None
    is_outdated: int | None
    resolved_by: str | None


def read_events(database: Database, kind: Kind, parent_id: int) -> list[EventRow]:
    """Return the events of an issue or merge request, the oldest first."""
    column = PARENTS[kind].column
    found: list[EventRow] = []
    for name, (action, subject) in _EVENTS.items():
        rows = database.read(
            f"SELECT {action}, {subject}, t.user_username, t.created_at FROM {EVENT_TABLES[name]} t"
            f" WHERE t.{column} = :id ORDER BY t.created_at, t.id",
            {"id": parent_id},
        )
        found += [EventRow(name, *row) for row in rows]
    return sorted(found, key=lambda event: event.created_at)


def read_thread_contexts(database: Database, kind: Kind, parent_id: int) -> list[ThreadContextRow]:
    """Return the context of each thread of an issue or merge request that has a place in the diff."""
    column = PARENTS[kind].column
    # CROSS JOIN keeps this order in SQLite: from the parent's discussions to their notes, never through all notes.
    rows = database.read(
        "SELECT d.remote_id, n.diff_hunk, d.is_outdated, d.resolved_by FROM discussions d CROSS JOIN notes n"
        f" WHERE d.{column} = :id AND n.discussion_id = d.id"
        " AND (n.position_new_path IS NOT NULL OR n.position_old_path IS NOT NULL)"
        " ORDER BY d.id, n.position, n.id",
        {"id": parent_id},
    )
    first: dict[str, ThreadContextRow] = {}
    for row in rows:
        first.setdefault(row[0], ThreadContextRow(*row))
    return list(first.values())


def current_at(database: Database, kind: Kind, item_id: int) -> int:
    """Return when the copy of an item was last known to be current: when it was read, or the list it is in."""
    table = PARENTS[kind].table
    ((seen, project_id),) = database.read(
        f"SELECT last_seen_at, project_id FROM {table} WHERE id = :id", {"id": item_id}
    )
    names = ("issues",) if kind == "issue" else ("merge_requests", "pulls")
    rows = database.read(
        "SELECT surface, polled_at FROM cursors WHERE project_id = :project_id AND polled_at IS NOT NULL"
        " AND reading IS NULL",
        {"project_id": project_id},
    )
    polled = [at for surface, at in rows if surface.rpartition(".")[2] in names]
    return max(int(seen), *polled) if polled else int(seen)


class LinkedRow(NamedTuple):
    """An issue, merge request or topic that a text names."""

    kind: str
    project: str
    iid: int
    references_full: str | None
    references_short: str | None
    title: str
    state: str
    project_id: int
    author: str | None
    association: str | None


def find_numbered(database: Database, path: str, iid: int) -> list[LinkedRow]:
    """Return the live issue, merge request and topic with this number in a project, by its path."""
    found = []
    for kind, table, references in (
        ("issue", "issues", "t.references_full, t.references_short"),
        ("mr", "merge_requests", "t.references_full, t.references_short"),
        ("topic", "topics", "NULL, NULL"),
    ):
        rows = database.read(
            f"SELECT p.path, t.iid, {references}, t.title, t.state, p.id, t.author_username,"
            f" t.author_association FROM projects p CROSS JOIN {table} t"
            " WHERE p.path = :path AND t.project_id = p.id AND t.iid = :iid AND t.deleted_at IS NULL",
            {"path": path, "iid": iid},
        )
        found += [LinkedRow(kind, *row) for row in rows]
    return found
