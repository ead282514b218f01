"""Discussions, events, closed issues and changed files to store under a parent, written as a run writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from tests.databases.samples import CREATED, scope_of

from tidelore.core.content import digest
from tidelore.core.model import (
    ClosedIssueRecord,
    DiscussionRecord,
    FileChangeRecord,
    Item,
    NoteRecord,
    StateEventRecord,
    Version,
)
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch, Parent
from tidelore.engine.whole import ChildReading, Children
from tidelore.store.database.port import Database
from tidelore.store.mirror.child_writer import ChildFamily, ChildWriter
from tidelore.store.mirror.children import CLOSES_ISSUES, DIFFS, DISCUSSIONS, RESOURCE_EVENTS
from tidelore.store.mirror.kinds import PARENT_KINDS
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import Family
from tidelore.store.mirror.projects import ProjectRow

__all__ = ["CLOSES_ISSUES", "DIFFS", "DISCUSSIONS", "RESOURCE_EVENTS"]


def keep(database: Database, project: ProjectRow, family: Family, items: Sequence[Item[Any]], **more: Any) -> None:
    """Store parents; `gone` buries some."""
    writer = PageWriter(database, scope_of(project, f"gitlab.{family.table}"), family, lambda: CREATED + 99)
    writer.commit(Batch(list(items), Cursor(), **more))


def attach(database: Database, project: ProjectRow, table: str, iid: int, kind: ChildFamily, *items: Item[Any]) -> None:
    """Make a parent hold exactly these children."""
    ((row_id, number, updated_at),) = database.read(
        f"SELECT id, iid, updated_at FROM {table} WHERE project_id = :project AND iid = :iid",
        {"project": project.id, "iid": iid},
    )
    scope = scope_of(project, f"gitlab.{table}")
    child_writer = ChildWriter(database, scope, PARENT_KINDS[table], kind, lambda: CREATED + 99)
    parent = Parent(row_id, number, updated_at, None, None)
    child_writer.replace([ChildReading(parent, Children(items, (), 1, None), True)])


def note(remote_id: int, body: str, **changes: Any) -> NoteRecord:
    record = NoteRecord(
        remote_id=remote_id, note_type=None, is_system=False, author_username="mira", body=body,
        created_at=CREATED + remote_id, updated_at=CREATED + remote_id, position=0, resolvable=False, resolved=False,
        resolved_by=None, resolved_at=None, position_old_path=None, position_new_path=None, position_old_line=None,
        position_new_line=None, position_type=None, position_line_range_start=None, position_line_range_end=None,
        position_base_sha=None, position_start_sha=None, position_head_sha=None, payload=b"",
    )  # fmt: skip
    changed = replace(record, **changes)
    return replace(changed, payload=json.dumps({"id": remote_id, "body": body}).encode())


def placed(remote_id: int, body: str, path: str, line: int | None, **changes: Any) -> NoteRecord:
    """A note on a line of a diff."""
    where = {
        "note_type": "DiffNote",
        "position_type": "text",
        "position_old_path": path,
        "position_new_path": path,
        "position_new_line": line,
        "resolvable": True,
        "position_base_sha": "b" * 40,
        "position_start_sha": "c" * 40,
        "position_head_sha": "a" * 40,
    }
    return note(remote_id, body, **(where | changes))


def discussion(remote_id: str, *notes: NoteRecord) -> Item[DiscussionRecord]:
    ordered = tuple(replace(each, position=place) for place, each in enumerate(notes))
    resolvable = [each for each in ordered if each.resolvable]
    record = DiscussionRecord(
        remote_id=remote_id,
        individual_note=len(ordered) == 1,
        first_note_at=min((each.created_at for each in ordered), default=None),
        last_note_at=max((each.created_at for each in ordered), default=None),
        resolvable=bool(resolvable),
        resolved=bool(resolvable) and all(each.resolved for each in resolvable),
        notes=ordered,
    )
    payload = json.dumps({"id": remote_id, "notes": [each.payload.decode() for each in ordered]}).encode()
    return Item(Version(remote_id, CREATED, digest(payload)), CREATED, payload, record)


def state_event(remote_id: int, state: str = "closed") -> Item[StateEventRecord]:
    record = StateEventRecord(remote_id, "mira", state, None, None, CREATED)
    return _plain(f"state:{remote_id}", record)


def closed_issue(remote_id: int, iid: int, reference: str, title: str = "An issue") -> Item[ClosedIssueRecord]:
    record = ClosedIssueRecord(str(remote_id), remote_id, iid, 1, reference, title, f"https://forge.test/{iid}")
    return _plain(record.issue_key, record)


def file_change(old_path: str, new_path: str, **flags: bool) -> Item[FileChangeRecord]:
    named = {"new_file": False, "renamed_file": False, "deleted_file": False} | flags
    return _plain(f"{old_path} -> {new_path}", FileChangeRecord(old_path, new_path, **named))


def _plain(key: str, record: Any) -> Item[Any]:
    payload = repr(record).encode()
    return Item(Version(key, 0, digest(payload)), 0, payload, record)
