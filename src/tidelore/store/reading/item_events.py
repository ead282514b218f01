"""Reads facts about one issue or merge request: its events in order, its age in the copy, and items it names."""

from __future__ import annotations

from typing import NamedTuple

from tidelore.core.references import Kind
from tidelore.store.database.port import Database
from tidelore.store.reading.conversations import FAMILIES


class ItemEvent(NamedTuple):
    """One event: `what` is the new state, or what was done with the label or milestone in `subject`."""

    at: int
    author: str | None
    kind: str
    what: str
    subject: str | None


def read_events(database: Database, kind: Kind, item_id: int) -> list[ItemEvent]:
    """Return the events of an item, oldest first."""
    column = FAMILIES[kind].parent_column
    rows = database.read(
        "SELECT created_at, user_username, 'state', state, NULL, remote_id"
        f" FROM resource_state_events WHERE {column} = :id"
        " UNION ALL SELECT created_at, user_username, 'label', action, label_name, remote_id"
        f" FROM resource_label_events WHERE {column} = :id"
        " UNION ALL SELECT created_at, user_username, 'milestone', action, milestone_title, remote_id"
        f" FROM resource_milestone_events WHERE {column} = :id",
        {"id": item_id},
    )
    return [ItemEvent(*row[:-1]) for row in sorted(rows, key=lambda row: (row[0], row[-1], row[2]))]


def current_at(database: Database, kind: Kind, item_id: int) -> int:
    """Return when the copy of an item was last known to be current: when it was read, or the list it is in."""
    table = FAMILIES[kind].table
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


def find_numbered(database: Database, path: str, iid: int) -> list[LinkedRow]:
    """Return the live issue, merge request and topic with this number in a project, by its path."""
    found = []
    for kind, table, references in (
        ("issue", "issues", "t.references_full, t.references_short"),
        ("mr", "merge_requests", "t.references_full, t.references_short"),
        ("topic", "topics", "NULL, NULL"),
    ):
        rows = database.read(
            f"SELECT p.path, t.iid, {references}, t.title, t.state FROM projects p CROSS JOIN {table} t"
            " WHERE p.path = :path AND t.project_id = p.id AND t.iid = :iid AND t.deleted_at IS NULL",
            {"path": path, "iid": iid},
        )
        found += [LinkedRow(kind, *row) for row in rows]
    return found
