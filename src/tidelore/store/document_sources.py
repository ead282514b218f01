"""What documents are made of, read for many sources at once. Owns the queries, refuses to compose text.

A source that is gone, or whose parent is a tombstone, is not returned: its document has to go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tidelore.store.database import Database
from tidelore.store.family import Family
from tidelore.store.issues import ISSUES
from tidelore.store.merge_requests import MERGE_REQUESTS

FAMILIES: dict[str, Family] = {"issue": ISSUES, "merge_request": MERGE_REQUESTS}


class ParentSource(Struct, frozen=True):
    """An issue or merge request with whoever and whatever belongs to it."""

    id: int
    project_id: int
    title: str
    description: str | None
    state: str
    author_username: str | None
    url: str | None
    created_at: int
    updated_at: int
    labels: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class NoteSource(Struct, frozen=True):
    """One note somebody wrote, with its place in a diff."""

    remote_id: int
    author_username: str | None
    body: str
    created_at: int
    updated_at: int
    old_path: str | None
    new_path: str | None
    old_line: int | None
    new_line: int | None
    range_start: int | None
    range_end: int | None
    is_internal: int = 0


class ThreadSource(Struct, frozen=True):
    """A discussion, what it belongs to, and its notes in order."""

    id: int
    parent_type: str
    parent: ParentSource
    notes: tuple[NoteSource, ...]


def read_parents(database: Database, source_type: str, ids: Sequence[int]) -> dict[int, ParentSource]:
    """Return the live ones of these parents."""
    family = FAMILIES[source_type]
    wanted = {"ids": database.integers(ids)}
    rows = database.read(
        "SELECT id, project_id, title, description, state, author_username, web_url, created_at, updated_at"
        f" FROM {family.table} WHERE deleted_at IS NULL AND id {database.among('ids')}",
        wanted,
    )
    labels = _grouped(
        database.read(
            f"SELECT x.{family.parent_column}, l.name FROM {family.label_table} x JOIN labels l ON l.id = x.label_id"
            f" WHERE x.{family.parent_column} {database.among('ids')} ORDER BY l.name",
            wanted,
        )
    )
    people = _people(database, family, wanted)
    paths = _paths(database, wanted) if source_type == "merge_request" else {}
    return {
        row[0]: replace(
            ParentSource(*row),
            labels=labels.get(row[0], ()),
            people=people.get(row[0], ()),
            paths=paths.get(row[0], ()),
        )
        for row in rows
    }


def read_threads(database: Database, ids: Sequence[int]) -> dict[int, ThreadSource]:
    """Return those of these discussions that are there, belong to something live, and hold a word of somebody."""
    wanted = {"ids": database.integers(ids)}
    rows = database.read(
        f"SELECT id, issue_id, merge_request_id FROM discussions WHERE id {database.among('ids')}", wanted
    )
    homes = {
        row_id: ("issue", issue) if issue is not None else ("merge_request", request) for row_id, issue, request in rows
    }
    parents = {
        source_type: read_parents(database, source_type, [key for kind, key in homes.values() if kind == source_type])
        for source_type in FAMILIES
    }
    notes = _grouped_notes(
        database.read(
            "SELECT discussion_id, remote_id, author_username, body, created_at, updated_at, position_old_path,"
            " position_new_path, position_old_line, position_new_line, position_line_range_start,"
            " position_line_range_end, is_internal"
            f" FROM notes WHERE discussion_id {database.among('ids')} AND is_system = 0"
            " ORDER BY discussion_id, position",
            wanted,
        )
    )
    return {
        row_id: ThreadSource(row_id, kind, parents[kind][parent_id], notes[row_id])
        for row_id, (kind, parent_id) in homes.items()
        if parent_id in parents[kind] and row_id in notes
    }


def _people(database: Database, family: Family, wanted: dict[str, Any]) -> dict[int, tuple[str, ...]]:
    """Return whoever has to do with a parent: assigned, asked to review, or heard in a note."""
    column = family.parent_column
    parts = [
        f"SELECT {column} AS parent, username FROM {table} WHERE {column} {database.among('ids')}"
        for table in family.people.values()
    ]
    parts.append(
        f"SELECT d.{column}, n.author_username FROM discussions d JOIN notes n ON n.discussion_id = d.id"
        f" WHERE d.{column} {database.among('ids')} AND n.is_system = 0 AND n.author_username IS NOT NULL"
    )
    return _grouped(database.read(f"{' UNION '.join(parts)} ORDER BY 1, 2", wanted))


def _paths(database: Database, wanted: dict[str, Any]) -> dict[int, tuple[str, ...]]:
    rows = database.read(
        "SELECT f.merge_request_id, f.new_path FROM mr_file_changes f JOIN merge_requests m"
        " ON m.id = f.merge_request_id AND f.head_sha = COALESCE(m.head_sha, '')"
        f" WHERE f.merge_request_id {database.among('ids')}"
        " UNION SELECT f.merge_request_id, f.old_path FROM mr_file_changes f JOIN merge_requests m"
        " ON m.id = f.merge_request_id AND f.head_sha = COALESCE(m.head_sha, '')"
        f" WHERE f.merge_request_id {database.among('ids')} ORDER BY 1, 2",
        wanted,
    )
    return _grouped(rows)


def _grouped(rows: Sequence[tuple[Any, ...]]) -> dict[int, tuple[str, ...]]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return {key: tuple(values) for key, values in found.items()}


def _grouped_notes(rows: Sequence[tuple[Any, ...]]) -> dict[int, tuple[NoteSource, ...]]:
    found: defaultdict[int, list[NoteSource]] = defaultdict(list)
    for key, *values in rows:
        found[key].append(NoteSource(*values))
    return {key: tuple(values) for key, values in found.items()}
