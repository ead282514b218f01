"""How many children the copy holds. Owns the counting of discussions, notes, events and changed files.

Children of a tombstone are not counted: their parent is out of every list, and so are they.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.references import Kind
from tidelore.store.conversation import EVENT_KINDS
from tidelore.store.database import Database
from tidelore.store.resolve import FAMILIES


class NoteCount(Struct, frozen=True):
    """Notes that people wrote, notes the forge wrote, and how many of all stand at a place in a diff."""

    total: int = 0
    system: int = 0
    diff_notes: int = 0


def count_discussions(database: Database, kind: Kind, project_id: int | None) -> int:
    """Return how many discussions there are on issues, or on merge requests."""
    return _count(database, "discussions", kind, project_id)


def count_events(database: Database, kind: Kind, project_id: int | None) -> dict[str, int]:
    """Return how many events there are of each kind."""
    return {name: _count(database, f"resource_{name}_events", kind, project_id) for name in EVENT_KINDS}


def count_notes(database: Database, kind: Kind, project_id: int | None) -> NoteCount:
    """Return how many notes there are on issues, or on merge requests."""
    family = FAMILIES[kind]
    rows = database.read(
        "SELECT COALESCE(SUM(1 - n.is_system), 0), COALESCE(SUM(n.is_system), 0), COALESCE(SUM(CASE WHEN"
        " n.position_new_path IS NOT NULL OR n.position_old_path IS NOT NULL THEN 1 ELSE 0 END), 0)"
        f" FROM notes n JOIN discussions d ON d.id = n.discussion_id JOIN {family.table} t"
        f" ON t.id = d.{family.parent_column} WHERE t.deleted_at IS NULL{_narrowed(project_id)}",
        _params(project_id),
    )
    return NoteCount(*map(int, rows[0]))


def count_files(database: Database, project_id: int | None) -> int:
    """Return how many files merge requests change at the heads they have."""
    rows = database.read(
        "SELECT COUNT(*) FROM mr_file_changes f JOIN merge_requests t ON t.id = f.merge_request_id"
        f" WHERE f.head_sha = COALESCE(t.head_sha, '') AND t.deleted_at IS NULL{_narrowed(project_id)}",
        _params(project_id),
    )
    return int(rows[0][0])


def _count(database: Database, table: str, kind: Kind, project_id: int | None) -> int:
    family = FAMILIES[kind]
    rows = database.read(
        f"SELECT COUNT(*) FROM {table} c JOIN {family.table} t ON t.id = c.{family.parent_column}"
        f" WHERE t.deleted_at IS NULL{_narrowed(project_id)}",
        _params(project_id),
    )
    return int(rows[0][0])


def _narrowed(project_id: int | None) -> str:
    return "" if project_id is None else " AND t.project_id = :project_id"


def _params(project_id: int | None) -> dict[str, int]:
    return {} if project_id is None else {"project_id": project_id}
