"""Stores a list that contains issues and the issue side of pull requests.

The issue side carries what the list of pull requests leaves out: how many comments and reactions there are. Its version
is stored with the pull request, so that a page read twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelore.core.model import Item, ListedRecord, PullIssueRecord, RemoteId, Scope, Version
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.child_progress import make_due
from tidelore.store.mirror.parents import Family, LinkCounts, bury, held_between
from tidelore.store.mirror.payloads import Pack

_SIDE = ("comments", "reactions", "node_id", "remote_id", "updated_at", "hash", "project_id", "iid")
_UPDATE = (
    "UPDATE merge_requests SET user_notes_count = :comments, reactions = :reactions,"
    " node_id = COALESCE(:node_id, node_id), issue_remote_id = :remote_id, issue_updated_at = :updated_at,"
    " issue_content_hash = :hash WHERE project_id = :project_id AND iid = :iid AND deleted_at IS NULL"
)


class IssuesWithSides:
    """A table of issues whose list also updates the pull requests of the project."""

    def __init__(self, issues: Family, pulls: Family) -> None:
        self._issues = issues
        self._pulls = pulls

    def stored(self, database: Database, project_id: int, ids: Iterable[int]) -> dict[RemoteId, Version]:
        wanted = list(ids)
        rows = database.read(
            "SELECT issue_remote_id, issue_updated_at, issue_content_hash FROM merge_requests"
            f" WHERE project_id = :project_id AND deleted_at IS NULL AND issue_remote_id {database.among('ids')}",
            {"project_id": project_id, "ids": database.integers(wanted)},
        )
        sides: dict[RemoteId, Version] = {key: Version(key, at, bytes(found)) for key, at, found in rows}
        return self._issues.stored(database, project_id, wanted) | sides

    def held(
        self, database: Database, project_id: int, created_from: int, created_before: int | None
    ) -> dict[RemoteId, str]:
        span = (project_id, created_from, created_before)
        sides = held_between(database, self._pulls.table, *span, key="issue_remote_id")
        return self._issues.held(database, *span) | sides

    def write(
        self, tx: Transaction, project_id: int, items: Sequence[Item[ListedRecord]], now_ms: int, pack: Pack
    ) -> LinkCounts:
        issues = [item for item in items if not isinstance(item.record, PullIssueRecord)]
        sides = {item.record: item.version for item in items if isinstance(item.record, PullIssueRecord)}
        if sides:
            self._write_sides(tx, project_id, sides)
        return self._issues.write(tx, project_id, issues, now_ms, pack) if issues else LinkCounts()

    def _write_sides(self, tx: Transaction, project_id: int, sides: Mapping[PullIssueRecord, Version]) -> None:
        records = {record.iid: record for record in sides}
        rows = tx.execute(
            "SELECT id, iid, user_notes_count FROM merge_requests WHERE project_id = :project_id"
            f" AND issue_remote_id IS NOT NULL AND iid {tx.among('iids')}",
            {"project_id": project_id, "iids": tx.integers(records)},
        )
        recounted = [row_id for row_id, iid, count in rows if records[iid].comments != count]
        tx.execute_rows(
            _UPDATE,
            _SIDE,
            [
                (
                    side.comments,
                    side.reactions,
                    side.node_id,
                    side.remote_id,
                    side.updated_at,
                    version.digest,
                    project_id,
                    side.iid,
                )
                for side, version in sides.items()
            ],
        )
        make_due(tx, self._pulls.kind, "comments", project_id, recounted)

    def bury(self, tx: Transaction, scope: Scope, ids: Iterable[int], now_ms: int) -> None:
        gone = list(ids)
        self._issues.bury(tx, scope, gone, now_ms)
        rows = tx.execute(
            "SELECT id FROM merge_requests WHERE project_id = :project_id AND deleted_at IS NULL"
            f" AND issue_remote_id {tx.among('ids')}",
            {"project_id": scope.project, "ids": tx.integers(gone)},
        )
        bury(tx, scope, self._pulls.kind, [row_id for (row_id,) in rows], now_ms)
