"""Counts issues, merge requests, topics, and what belongs to them.

What belongs to a deleted item is not counted. Imports little: `lore count` is a command that must start quickly.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.references import Kind
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import EVENT_TABLES, ISSUE, MERGE_REQUEST, ParentKind

_PARENTS: dict[Kind, ParentKind] = {"issue": ISSUE, "mr": MERGE_REQUEST}


def count_by_state(database: Database, table: str, project_id: int | None) -> dict[str, int]:
    """Return the number of live rows in each state."""
    rows = database.read(
        f"SELECT state, COUNT(*) FROM {table} t WHERE deleted_at IS NULL{_narrowed(project_id)}"
        " GROUP BY state ORDER BY state",
        _params(project_id),
    )
    return dict(rows)


def count_deleted(database: Database, table: str, project_id: int | None) -> int:
    """Return the number of tombstones."""
    rows = database.read(
        f"SELECT COUNT(*) FROM {table} t WHERE deleted_at IS NOT NULL{_narrowed(project_id)}", _params(project_id)
    )
    return int(rows[0][0])


class NoteCount(Struct, frozen=True):
    """The numbers of user notes, of system notes, and of all notes with a position in a diff."""

    total: int = 0
    system: int = 0
    diff_notes: int = 0


def count_discussions(database: Database, kind: Kind, project_id: int | None) -> int:
    """Return how many discussions there are on issues, or on merge requests."""
    return _count_children(database, "discussions", kind, project_id)


def count_events(database: Database, kind: Kind, project_id: int | None) -> dict[str, int]:
    """Return how many events there are of each kind."""
    return {name: _count_children(database, table, kind, project_id) for name, table in EVENT_TABLES.items()}


def count_notes(database: Database, kind: Kind, project_id: int | None) -> NoteCount:
    """Return how many notes there are on issues, or on merge requests."""
    parent = _PARENTS[kind]
    rows = database.read(
        "SELECT COALESCE(SUM(1 - n.is_system), 0), COALESCE(SUM(n.is_system), 0), COALESCE(SUM(CASE WHEN"
        " n.position_new_path IS NOT NULL OR n.position_old_path IS NOT NULL THEN 1 ELSE 0 END), 0)"
        f" FROM notes n JOIN discussions d ON d.id = n.discussion_id JOIN {parent.table} t"
        f" ON t.id = d.{parent.column} WHERE t.deleted_at IS NULL{_narrowed(project_id)}",
        _params(project_id),
    )
    return NoteCount(*map(int, rows[0]))


def count_files(database: Database, project_id: int | None) -> int:
    """Return how many files merge requests change at their current heads."""
    rows = database.read(
        "SELECT COUNT(*) FROM mr_file_changes f JOIN merge_requests t ON t.id = f.merge_request_id"
        f" WHERE f.head_sha = COALESCE(t.head_sha, '') AND t.deleted_at IS NULL{_narrowed(project_id)}",
        _params(project_id),
    )
    return int(rows[0][0])


def _count_children(database: Database, table: str, kind: Kind, project_id: int | None) -> int:
    parent = _PARENTS[kind]
    rows = database.read(
        f"SELECT COUNT(*) FROM {table} c JOIN {parent.table} t ON t.id = c.{parent.column}"
        f" WHERE t.deleted_at IS NULL{_narrowed(project_id)}",
        _params(project_id),
    )
    return int(rows[0][0])


def _narrowed(project_id: int | None) -> str:
    return "" if project_id is None else " AND t.project_id = :project_id"


def _params(project_id: int | None) -> dict[str, int]:
    return {} if project_id is None else {"project_id": project_id}
