"""The plain children of issues and merge requests: events, closed issues, changed files, reviewers.

Owns their tables. Each table is described as data and one function writes them all: a row whose content is stored
already is not written again, one that was not seen is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec import Struct

from tidelore.core.model import (
    ChildRecord,
    ClosedIssueRecord,
    FileChangeRecord,
    Item,
    LabelEventRecord,
    MilestoneEventRecord,
    ReviewerRecord,
    StateEventRecord,
)
from tidelore.engine.whole import in_chunks
from tidelore.store.child_sync import ChildFamily, Read, Renewal, child_family
from tidelore.store.database import Row, Transaction
from tidelore.store.kinds import ParentKind
from tidelore.store.labels import relink_people


class ChildTable(Struct, frozen=True):
    """One table: which records it takes, its own columns, and how a row is known again.

    `key` are the columns that, after `prefix`, make up an item's id; `unique` is what the database holds unique.
    """

    table: str
    record: type[Struct]
    prefix: str
    key: tuple[str, ...]
    unique: tuple[str, ...]
    own: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        return self.record.__struct_fields__


_OF_A_PROJECT = ("project_id", "issue_id", "merge_request_id")
_EVENT = {"key": ("remote_id",), "unique": ("project_id", "remote_id"), "own": _OF_A_PROJECT}
_EVENTS = (
    ChildTable("resource_state_events", StateEventRecord, "state:", **_EVENT),
    ChildTable("resource_label_events", LabelEventRecord, "label:", **_EVENT),
    ChildTable("resource_milestone_events", MilestoneEventRecord, "milestone:", **_EVENT),
)
_CLOSES = ChildTable(
    "mr_closes_issues",
    ClosedIssueRecord,
    "",
    key=("issue_key",),
    unique=("merge_request_id", "issue_key"),
    own=("merge_request_id",),
)
_FILES = ChildTable(
    "mr_file_changes",
    FileChangeRecord,
    "",
    key=("old_path", "new_path"),
    unique=("merge_request_id", "head_sha", "old_path", "new_path"),
    own=("merge_request_id", "project_id", "head_sha"),
)


def _own_values(read: Read, kind: ParentKind, parent_id: int, project_id: int) -> dict[str, Any]:
    values: dict[str, Any] = {"project_id": project_id, "issue_id": None, "merge_request_id": None}
    values[kind.column] = parent_id
    return values | {"head_sha": _head(read, parent_id) if kind.column == "merge_request_id" else ""}


def _head(read: Read, parent_id: int) -> str:
    return str(read("SELECT COALESCE(head_sha, '') FROM merge_requests WHERE id = :id", {"id": parent_id})[0][0])


def _held(read: Read, table: ChildTable, kind: ParentKind, parent_id: int) -> dict[str, tuple[int, bytes]]:
    """Return what a parent holds in a table; of files, those of its newest head."""
    params: dict[str, Any] = {"parent": parent_id}
    head = ""
    if "head_sha" in table.own:
        params["head"] = _head(read, parent_id)
        head = " AND head_sha = :head"
    rows = read(
        f"SELECT id, content_hash, {', '.join(table.key)} FROM {table.table} WHERE {kind.column} = :parent{head}",
        params,
    )
    return {_key(table, key): (row_id, bytes(found)) for row_id, found, *key in rows}


def _key(table: ChildTable, values: Sequence[object]) -> str:
    return table.prefix + " -> ".join(map(str, values))


def _write(tx: Transaction, renewal: Renewal[ChildRecord], table: ChildTable) -> int:
    held = _held(tx.execute, table, renewal.kind, renewal.parent_id)
    own = _own_values(tx.execute, renewal.kind, renewal.parent_id, renewal.project_id)
    changes = 0
    seen: set[str] = set()
    for chunk in in_chunks(item for item in renewal.items if isinstance(item.record, table.record)):
        seen.update(str(item.version.id) for item in chunk)
        changed = [item for item in chunk if held.get(str(item.version.id), (0, b""))[1] != item.version.digest]
        _upsert(tx, table, [_row(table, own, item) for item in changed])
        changes += len(changed)
    gone = [row_id for key, (row_id, _) in held.items() if key not in seen]
    if gone:
        tx.execute(f"DELETE FROM {table.table} WHERE id {tx.among('ids')}", {"ids": tx.integers(gone)})
    return changes + len(gone)


def _upsert(tx: Transaction, table: ChildTable, rows: Sequence[Row]) -> None:
    if not rows:
        return
    names = (*table.own, *table.fields, "content_hash")
    updates = ", ".join(f"{name} = excluded.{name}" for name in names if name not in table.unique)
    tx.execute_rows(
        f"INSERT INTO {table.table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
        f" ON CONFLICT ({', '.join(table.unique)}) DO UPDATE SET {updates}",
        names,
        rows,
    )


def _row(table: ChildTable, own: dict[str, Any], item: Item[ChildRecord]) -> Row:
    values = [getattr(item.record, name) for name in table.fields]
    # Flags are integers because both databases store them so.
    plain = [int(value) if isinstance(value, bool) else value for value in values]
    return (*[own[name] for name in table.own], *plain, item.version.digest)


def _family(name: str, word: str, *tables: ChildTable) -> ChildFamily:
    def write(tx: Transaction, renewal: Renewal[ChildRecord]) -> int:
        return sum(_write(tx, renewal, table) for table in tables)

    def held(read: Read, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for table in tables:
            found |= {key: value for key, (_, value) in _held(read, table, kind, parent_id).items()}
        return found

    return ChildFamily(name, write, held, _counter(word))


def _counter(word: str) -> Callable[[Collection[Item[ChildRecord]]], dict[str, int]]:
    return lambda items: {word: len(items)}


def _held_reviewers(read: Read, kind: ParentKind, parent_id: int) -> dict[str, bytes]:
    rows = read(f"SELECT username FROM mr_reviewers WHERE {kind.column} = :parent", {"parent": parent_id})
    return {username: b"" for (username,) in rows}


def _write_reviewers(tx: Transaction, renewal: Renewal[ReviewerRecord]) -> int:
    before = set(_held_reviewers(tx.execute, renewal.kind, renewal.parent_id))
    names = [item.record.username for item in renewal.items]
    if before == set(names):
        return 0
    relink_people(tx, "mr_reviewers", renewal.kind.column, {renewal.parent_id: names}, fresh=False)
    return len(before ^ set(names))


RESOURCE_EVENTS = _family("resource_events", "events", *_EVENTS)
CLOSES_ISSUES = _family("closes_issues", "closed_issues", _CLOSES)
DIFFS = _family("diffs", "files", _FILES)
REVIEWERS = child_family("reviewers", ReviewerRecord, _write_reviewers, _held_reviewers, _counter("reviewers"))
