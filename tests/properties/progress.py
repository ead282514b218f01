"""How far children were read: what a database holds as complete, and what was asked for.

Both speak of (project, list, number of the parent, kind of children), so that one can be held against the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import PARENT_KINDS

Task = tuple[int, str, int, str]
_CHILD = re.compile(r"/projects/(\d+)/(issues|merge_requests)/(\d+)/(\w+)")
_EVENTS = ("resource_state_events", "resource_label_events", "resource_milestone_events")


def completed(database: Database) -> set[Task]:
    """What was read, written and had settled; not what is read on demand."""
    found: set[Task] = set()
    for table, kind in PARENT_KINDS.items():
        for name in set(kind.children) - set(kind.on_demand):
            rows = database.read(
                f"SELECT o.remote_id, p.iid FROM {table} p JOIN projects o ON o.id = p.project_id"
                " JOIN child_sync c ON c.project_id = p.project_id AND c.parent_id = p.id"
                " WHERE c.parent_kind = :table AND c.kind = :name AND c.synced_for >= p.updated_at",
                {"table": table, "name": name},
            )
            found |= {(project, table, iid, name) for project, iid in rows}
    return found


def asked_for(log: Iterable[tuple[str, str, int]]) -> list[Task]:
    """The children that were asked for, one entry for each request of a first page."""
    found = [_CHILD.search(target) for _, target, _ in log if "&page=" not in target and "?page=" not in target]
    return [
        (int(match[1]), match[2], int(match[3]), "resource_events" if match[4] in _EVENTS else match[4])
        for match in found
        if match is not None
    ]
