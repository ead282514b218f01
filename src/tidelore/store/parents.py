"""What issues and merge requests have in common as rows: identity and version.

Owns the queries that are the same for both tables; the tables' own columns live in their own modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from tidelore.core.model import RemoteId, Version
from tidelore.store.database import Database, Row, Transaction
from tidelore.store.kinds import ParentKind
from tidelore.store.payloads import unpacked


class LinkCounts(Struct):
    """What a page brought besides its rows."""

    labels_created: int = 0
    assignees: int = 0
    reviewers: int = 0

    def add(self, other: LinkCounts) -> None:
        self.labels_created += other.labels_created
        self.assignees += other.assignees
        self.reviewers += other.reviewers


IDENTITY = ("remote_id", "project_id", "last_seen_at", "content_hash")
"""What every parent's row ends with, after the columns of its own table."""


def upsert_sql(kind: ParentKind, columns: Sequence[str]) -> str:
    """Return the upsert of a parent table; a row seen again is no longer a tombstone."""
    table = kind.table
    names = (*columns, *IDENTITY)
    values = ", ".join(f":{name}" for name in names)
    updates = ", ".join(f"{name} = excluded.{name}" for name in (*columns, "last_seen_at", "content_hash"))
    address = "remote_id = CAST(:remote_id AS TEXT) AND content_hash = :content_hash"
    payload = f"(SELECT id FROM raw_payloads WHERE {address})"
    return (
        f"INSERT INTO {table} ({', '.join(names)}, raw_payload_id) VALUES ({values}, {payload})"
        f" ON CONFLICT (project_id, remote_id) DO UPDATE SET {updates},"
        " raw_payload_id = excluded.raw_payload_id, deleted_at = NULL"
    )


def row_ids(tx: Transaction, table: str, project_id: int, remote_ids: Iterable[int]) -> dict[int, int]:
    """Return our row id of each remote id."""
    rows = tx.execute(
        f"SELECT remote_id, id FROM {table} WHERE project_id = :project_id AND remote_id {tx.among('ids')}",
        {"project_id": project_id, "ids": tx.integers(remote_ids)},
    )
    return dict(rows)


def silent_changes(
    tx: Transaction, kind: ParentKind, project_id: int, before: Mapping[int, Row], ids: Mapping[int, int]
) -> dict[str, list[int]]:
    """Return, for each kind of children, the parents that changed what tells of it while `updated_at` stood still.

    `before` are the rows as `telling_rows` returned them before the parents were written.
    """
    after = telling_rows(tx, kind, project_id, before)
    columns = telling_columns(kind)
    return {
        name: [
            ids[remote_id]
            for remote_id, row in after.items()
            if row[0] == before[remote_id][0] and any(row[i] != before[remote_id][i] for i in places)
        ]
        for name, tells in kind.children.items()
        if (places := [columns.index(column) for column in tells])
    }


def telling_columns(kind: ParentKind) -> tuple[str, ...]:
    """Return `updated_at` and the columns that tell of changed children."""
    return ("updated_at", *dict.fromkeys(column for tells in kind.children.values() for column in tells))


def telling_rows(tx: Transaction, kind: ParentKind, project_id: int, remote_ids: Iterable[int]) -> dict[int, Row]:
    """Return the values of `telling_columns` of each live parent."""
    rows = tx.execute(
        f"SELECT remote_id, {', '.join(telling_columns(kind))} FROM {kind.table}"
        f" WHERE project_id = :project_id AND deleted_at IS NULL AND remote_id {tx.among('ids')}",
        {"project_id": project_id, "ids": tx.integers(remote_ids)},
    )
    return {remote_id: tuple(values) for remote_id, *values in rows}


def stored_versions(
    database: Database, table: str, project_id: int, remote_ids: Iterable[int]
) -> dict[RemoteId, Version]:
    """Return the version we hold of each remote id; a tombstone holds none."""
    rows = database.read(
        f"SELECT remote_id, updated_at, content_hash FROM {table}"
        f" WHERE project_id = :project_id AND deleted_at IS NULL AND remote_id {database.among('ids')}",
        {"project_id": project_id, "ids": database.integers(remote_ids)},
    )
    return {remote_id: Version(remote_id, updated_at, bytes(digest)) for remote_id, updated_at, digest in rows}


def held_between(
    database: Database, table: str, project_id: int, created_from: int, created_before: int | None
) -> dict[RemoteId, str]:
    """Return what we hold that was created in a span: remote id and iid."""
    rows = database.read(
        f"SELECT remote_id, iid FROM {table} WHERE project_id = :project_id AND deleted_at IS NULL"
        " AND created_at >= :created_from AND created_at < :created_before",
        {
            "project_id": project_id,
            "created_from": created_from,
            "created_before": 2**62 if created_before is None else created_before,
        },
    )
    return {remote_id: str(iid) for remote_id, iid in rows}


def count_by_state(database: Database, table: str, project_id: int | None) -> dict[str, int]:
    """Return how many live rows there are of each state."""
    rows = database.read(
        f"SELECT state, COUNT(*) FROM {table} WHERE deleted_at IS NULL"
        " AND (CAST(:project_id AS BIGINT) IS NULL OR project_id = :project_id) GROUP BY state ORDER BY state",
        {"project_id": project_id},
    )
    return dict(rows)


def count_deleted(database: Database, table: str, project_id: int | None) -> int:
    """Return how many tombstones there are."""
    rows = database.read(
        f"SELECT COUNT(*) FROM {table} WHERE deleted_at IS NOT NULL"
        " AND (CAST(:project_id AS BIGINT) IS NULL OR project_id = :project_id)",
        {"project_id": project_id},
    )
    return int(rows[0][0])


def live_payloads(database: Database, table: str, path: str) -> dict[int, bytes]:
    """Return the stored payload of every live row of a project: for comparisons, not for big projects."""
    rows = database.read(
        f"SELECT t.remote_id, r.encoding, r.payload FROM {table} t JOIN raw_payloads r ON r.id = t.raw_payload_id"
        " JOIN projects p ON p.id = t.project_id WHERE p.path = :path AND t.deleted_at IS NULL",
        {"path": path},
    )
    return {remote_id: unpacked(encoding, payload) for remote_id, encoding, payload in rows}
