"""Statuses of issues: columns of the issue's own row, read apart from it. Owns which are due, and their writing.

An issue is due while its status was read for an older version of it than the one we hold. Invariant: a status and
the version it was read for are one commit, made only while the lease is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from tidelore.core.model import StatusRecord
from tidelore.engine.crashpoint import Crashpoint, Seam, no_seam
from tidelore.engine.lease import Lease
from tidelore.engine.ports import Parent
from tidelore.store.backlog import count_due
from tidelore.store.child_progress import IS_DUE, kind_params, record_read
from tidelore.store.database import Database
from tidelore.store.kinds import ISSUE
from tidelore.store.leases import fence

_COLUMNS = ("status_name", "status_category", "status_color", "status_icon_name")
_WRITE = (
    f"UPDATE issues SET {', '.join(f'{column} = :{column}' for column in _COLUMNS)}"
    " WHERE id = :id AND deleted_at IS NULL"
)
_KIND = "status"


class DueIssue(Struct, frozen=True):
    """An issue whose status must be read, and the status we hold of it."""

    id: int
    iid: int
    updated_at: int
    held: StatusRecord | None


class StatusBoard:
    """The statuses of one project's issues. One object serves one run: an issue comes up at most once."""

    def __init__(
        self,
        database: Database,
        project_id: int,
        now_ms: Callable[[], int],
        lease: Lease,
        seam: Crashpoint = no_seam,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._project_id = project_id
        self._lease = lease
        self._seam = seam
        self._after = (-1, -1)

    def count(self) -> tuple[int, int]:
        """Return how many issues are due, and how many there are."""
        return count_due(self._database, ISSUE, _KIND, self._project_id)

    def due(self, limit: int) -> Sequence[DueIssue]:
        """Return the next issues that are due, the oldest change first."""
        rows = self._database.read(
            f"SELECT c.parent_id, p.iid, c.parent_updated_at, {', '.join(f'p.{name}' for name in _COLUMNS)}"
            f" FROM child_sync c {self._database.by_index('idx_child_sync_due')} JOIN issues p ON p.id = c.parent_id"
            " WHERE c.project_id = :project_id AND c.parent_kind = :parent_kind AND c.kind = :kind"
            f" AND {IS_DUE} AND (c.parent_updated_at, c.parent_id) > (:at, :id)"
            " ORDER BY c.parent_updated_at, c.parent_id LIMIT :limit",
            {
                **kind_params(ISSUE, _KIND, self._project_id),
                "at": self._after[0],
                "id": self._after[1],
                "limit": limit,
            },
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
            (*((s.name, s.category, s.color, s.icon_name) if s else (None,) * len(_COLUMNS)), issue.id)
            for issue, s in zip(issues, shown, strict=True)
        ]
        with self._database.transaction() as tx:
            fence(tx, self._lease)
            tx.execute_rows(_WRITE, (*_COLUMNS, "id"), rows)
            for issue in issues:
                parent = Parent(issue.id, issue.iid, issue.updated_at, None, None)
                record_read(tx, ISSUE, _KIND, self._project_id, parent, settled=True, now_ms=self._now_ms())
            self._seam(Seam.INSIDE_COMMIT)
        return sum(issue.held != status for issue, status in zip(issues, shown, strict=True))
