"""Reads the stored contents of a project, for comparison with the server.

Tombstones are left out; of changed files only those of the newest head count. `holdings` reads some parents, the other
functions read a whole project. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from tidelore.core.model import (
    ClosedIssueRecord,
    FileChangeRecord,
    LabelEventRecord,
    MilestoneEventRecord,
    NoteRecord,
    ReviewerRecord,
    StateEventRecord,
    StatusRecord,
)
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import ParentKind
from tidelore.store.mirror.payloads import PayloadReader


class Holding(Struct, frozen=True):
    """One live parent: its row id, its number in the project, and the stored version."""

    id: int
    iid: int
    updated_at: int
    content_hash: bytes
    node_id: str | None = None


def holdings(database: Database, kind: ParentKind, project_id: int, remote_ids: Iterable[int]) -> dict[int, Holding]:
    """Return the stored parent for each remote id, without tombstones."""
    rows = database.read(
        f"SELECT remote_id, id, iid, updated_at, content_hash, node_id FROM {kind.table}"
        f" WHERE project_id = :project_id AND deleted_at IS NULL AND remote_id {database.among('ids')}",
        {"project_id": project_id, "ids": database.integers(remote_ids)},
    )
    return {
        remote_id: Holding(row_id, iid, updated_at, bytes(found), node_id)
        for remote_id, row_id, iid, updated_at, found, node_id in rows
    }


_OF_PARENT = "JOIN {table} c ON c.{column} = t.id"
_TABLES: Mapping[str, tuple[type[Any], str]] = MappingProxyType(
    {
        "notes": (NoteRecord, "JOIN discussions d ON d.{column} = t.id JOIN notes c ON c.discussion_id = d.id"),
        "state_events": (StateEventRecord, _OF_PARENT.replace("{table}", "resource_state_events")),
        "label_events": (LabelEventRecord, _OF_PARENT.replace("{table}", "resource_label_events")),
        "milestone_events": (MilestoneEventRecord, _OF_PARENT.replace("{table}", "resource_milestone_events")),
        "closed_issues": (ClosedIssueRecord, _OF_PARENT.replace("{table}", "mr_closes_issues")),
        "files": (
            FileChangeRecord,
            _OF_PARENT.replace("{table}", "mr_file_changes") + " AND c.head_sha = COALESCE(t.head_sha, '')",
        ),
        "reviewers": (ReviewerRecord, _OF_PARENT.replace("{table}", "mr_reviewers")),
    }
)
_LIVE = "JOIN projects p ON p.id = t.project_id WHERE p.path = :path AND t.deleted_at IS NULL"


def held_children(database: Database, name: str, kind: ParentKind, path: str) -> list[dict[str, Any]]:
    """Return every child of one kind under the live parents of a project: its columns and the parent's `iid`."""
    record, join = _TABLES[name]
    fields: Sequence[str] = [field for field in record.__struct_fields__ if field != "payload"]
    rows = database.read(
        f"SELECT t.iid, {', '.join(f'c.{field}' for field in fields)} FROM {kind.table} t"
        f" {join.format(column=kind.column)} {_LIVE}",
        {"path": path},
    )
    return [dict(zip(("iid", *fields), row, strict=True)) for row in rows]


def held_discussions(database: Database, kind: ParentKind, path: str) -> dict[tuple[int, str], bytes]:
    """Return the payload of every discussion under the live parents of a project, by the parent's iid and its id."""
    rows = database.read(
        f"SELECT t.iid, c.remote_id, r.encoding, r.payload, r.dictionary_id FROM {kind.table} t"
        f" JOIN discussions c ON c.{kind.column} = t.id JOIN raw_payloads r ON r.id = c.raw_payload_id {_LIVE}",
        {"path": path},
    )
    reader = PayloadReader(database.read)
    return {(iid, remote_id): reader.unpack(*packed) for iid, remote_id, *packed in rows}


def held_statuses(database: Database, path: str) -> dict[int, dict[str, Any]]:
    """Return the status of every live issue of a project that has one, by its iid."""
    names: Sequence[str] = StatusRecord.__struct_fields__
    rows = database.read(
        f"SELECT t.iid, {', '.join(f't.status_{name}' for name in names)} FROM issues t {_LIVE}"
        " AND t.status_name IS NOT NULL",
        {"path": path},
    )
    return {iid: dict(zip(names, values, strict=True)) for iid, *values in rows}
