"""What the copy holds of some parents: row, number and version. For comparisons; owns no table and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tidelore.store.database import Database
from tidelore.store.kinds import ParentKind


class Holding(Struct, frozen=True):
    """One live parent: our row's id, its number in the project, and the version we hold."""

    id: int
    iid: int
    updated_at: int
    content_hash: bytes


def holdings(database: Database, kind: ParentKind, project_id: int, remote_ids: Iterable[int]) -> dict[int, Holding]:
    """Return what we hold of each remote id; a tombstone holds nothing."""
    rows = database.read(
        f"SELECT remote_id, id, iid, updated_at, content_hash FROM {kind.table}"
        f" WHERE project_id = :project_id AND deleted_at IS NULL AND remote_id {database.among('ids')}",
        {"project_id": project_id, "ids": database.integers(remote_ids)},
    )
    return {
        remote_id: Holding(row_id, iid, updated_at, bytes(found)) for remote_id, row_id, iid, updated_at, found in rows
    }
