"""Statuses of issues: columns of the issue's own row, read apart from it. Owns which are due, and their writing.

An issue is due while its status was read for an older version of it than the one we hold. Invariant: a status and
the version it was read for are one commit, made only while the lease is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.lease import Lease
from tidelore.model import StatusRecord
from tidelore.store.backlog import count_due, is_due
from tidelore.store.database import Database
from tidelore.store.kinds import ISSUE
from tidelore.store.leases import fence

_COLUMNS = ("status_name", "status_category", "status_color", "status_icon_name")
_WRITE = (
    f"UPDATE issues SET {', '.join(f'{column} = :{column}' for column in _COLUMNS)},"
    " status_synced_for_updated_at = :version WHERE id = :id AND deleted_at IS NULL"
)


class DueIssue(Struct, frozen=True):
    """An issue whose status must be read, and the status we hold of it."""

    id: int
    iid: int
    updated_at: int
    held: StatusRecord | None


class StatusBoard:
    """The statuses of one project's issues. One object serves one run: an issue comes up at most once."""

    def __init__(self, database: Database, project_id: int, lease: Lease, seam: Crashpoint = no_seam) -> None:
        self._database = database
        self._project_id = project_id
        self._lease = lease
        self._seam = seam
        self._after = (-1, -1)

    def count(self) -> tuple[int, int]:
        """Return how many issues are due, and how many there are."""
        return count_due(self._database, ISSUE, "status", self._project_id)

    def due(self, limit: int) -> Sequence[DueIssue]:
        """Return the next issues that are due, the oldest change first."""
        rows = self._database.read(
            f"SELECT id, iid, updated_at, {', '.join(_COLUMNS)}"
            f" FROM issues {self._database.by_index('idx_issues_status_sync')}"
            f" WHERE project_id = :project_id AND deleted_at IS NULL AND {is_due('status')}"
            " AND (updated_at, id) > (:at, :id) ORDER BY updated_at, id LIMIT :limit",
            {"project_id": self._project_id, "at": self._after[0], "id": self._after[1], "limit": limit},
        )
        issues = [
            DueIssue(key, iid, at, None if name is None else StatusRecord(name, *rest))
            for key, iid, at, name, *rest in rows
        ]
        if issues:
            self._after = (issues[-1].updated_at, issues[-1].id)
        return issues

    def write(self, issues: Sequence[DueIssue], statuses: Mapping[int, StatusRecord | None]) -> int:
        """Store what these issues show, nothing for those that are not named, and count the changes."""
        shown = [statuses.get(issue.iid) for issue in issues]
        rows = [
            (
                *((s.name, s.category, s.color, s.icon_name) if s else (None,) * len(_COLUMNS)),
                issue.updated_at,
                issue.id,
            )
            for issue, s in zip(issues, shown, strict=True)
        ]
        with self._database.transaction() as tx:
            fence(tx, self._lease)
            tx.execute_rows(_WRITE, (*_COLUMNS, "version", "id"), rows)
            self._seam(Seam.INSIDE_COMMIT)
        return sum(issue.held != status for issue, status in zip(issues, shown, strict=True))
