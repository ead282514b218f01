"""Stores who has access to a project, where the forge does not say it with each comment (table `project_members`).

The list is replaced as a whole; `projects.members_at` says when it was last read, also if that was refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelore.store.database.port import Database, Transaction

if TYPE_CHECKING:
    from tidelore.core.model import MemberRecord

OWNER_LEVEL, WRITER_LEVEL = 50, 30
"""GitLab's access levels: owners, and developers, who may write to the repository."""


def members_read_at(database: Database, project_id: int) -> int | None:
    """Return when the members of a project were last read; None if never."""
    rows = database.read("SELECT members_at FROM projects WHERE id = :id", {"id": project_id})
    return rows[0][0] if rows else None


def access_levels(database: Database, project_id: int) -> Mapping[str, int]:
    """Return the access levels of a project by username in lower case."""
    rows = database.read(
        "SELECT username, access_level FROM project_members WHERE project_id = :project_id", {"project_id": project_id}
    )
    return {str(username).casefold(): int(level) for username, level in rows}


def replace_members(tx: Transaction, project_id: int, members: Sequence[MemberRecord] | None, now_ms: int) -> None:
    """Store the members of a project in place of those that were known; None keeps these."""
    tx.execute("UPDATE projects SET members_at = :now WHERE id = :id", {"now": now_ms, "id": project_id})
    if members is None:
        return
    tx.execute("DELETE FROM project_members WHERE project_id = :project_id", {"project_id": project_id})
    tx.execute_rows(
        "INSERT INTO project_members (project_id, username, access_level, updated_at)"
        " VALUES (:project_id, :username, :access_level, :updated_at)",
        ("project_id", "username", "access_level", "updated_at"),
        [(project_id, member.username, member.access_level, now_ms) for member in members],
    )
