"""Counts issues, merge requests, topics, and what belongs to them.

What belongs to a deleted item is not counted. Imports little: `lore count` is a command that must start quickly.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.references import Kind
from tidelore.store.database.port import Database
from tidelore.store.database.statements import Where
from tidelore.store.mirror.kinds import EVENT_TABLES, PARENTS


def count_by_state(database: Database, table: str, project_id: int | None) -> dict[str, int]:
    """Return the number of live rows in each state."""
    where = _live(project_id)
    return dict(
        database.read(
            f"SELECT state, COUNT(*) FROM {table} t WHERE {where} GROUP BY state ORDER BY state", where.params
        )
    )


def count_deleted(database: Database, table: str, project_id: int | None) -> int:
    """Return the number of tombstones."""
    return _count(database, f"{table} t", Where("t.deleted_at IS NOT NULL"), project_id)


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
    parent, where = PARENTS[kind], _live(project_id)
    rows = database.read(
        "SELECT COALESCE(SUM(1 - n.is_system), 0), COALESCE(SUM(n.is_system), 0), COALESCE(SUM(CASE WHEN"
        " n.position_new_path IS NOT NULL OR n.position_old_path IS NOT NULL THEN 1 ELSE 0 END), 0)"
        f" FROM notes n JOIN discussions d ON d.id = n.discussion_id JOIN {parent.table} t"
        f" ON t.id = d.{parent.column} WHERE {where}",
        where.params,
    )
    return NoteCount(*map(int, rows[0]))


def count_files(database: Database, project_id: int | None) -> int:
    """Return how many files merge requests change at their current heads."""
    where = Where("t.deleted_at IS NULL", "f.head_sha = COALESCE(t.head_sha, '')")
    return _count(database, "mr_file_changes f JOIN merge_requests t ON t.id = f.merge_request_id", where, project_id)


def _count_children(database: Database, table: str, kind: Kind, project_id: int | None) -> int:
    parent = PARENTS[kind]
    source = f"{table} c JOIN {parent.table} t ON t.id = c.{parent.column}"
    return _count(database, source, Where("t.deleted_at IS NULL"), project_id)


def _count(database: Database, source: str, where: Where, project_id: int | None) -> int:
    where.narrow("t.project_id = :project_id", project_id=project_id)
    return int(database.read(f"SELECT COUNT(*) FROM {source} WHERE {where}", where.params)[0][0])


def _live(project_id: int | None) -> Where:
    return Where("t.deleted_at IS NULL").narrow("t.project_id = :project_id", project_id=project_id)
