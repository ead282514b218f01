"""One issue or merge request with everything said about it. Owns the read model; writes nothing.

Every query goes through an index that starts with the parent, so its cost is that of this conversation alone.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.model import FileChangeRecord
from tidelore.core.references import Kind
from tidelore.store.conversation_rows import (
    ClosedIssue,
    ClosingRequest,
    Conversation,
    IssueRow,
    MergeRequestRow,
    NoteRow,
    Thread,
)
from tidelore.store.database import Database, Row
from tidelore.store.family import Family
from tidelore.store.resolve import FAMILIES

EVENT_KINDS = ("state", "label", "milestone")


def read_conversation(database: Database, kind: Kind, parent_id: int) -> Conversation:
    """Return the conversation of one row of the copy."""
    family = FAMILIES[kind]
    shape = MergeRequestRow if kind == "mr" else IssueRow
    (source, project, *values) = database.read(
        f"SELECT p.source, p.path, {_parent_columns(shape)} FROM {family.table} t"
        " JOIN projects p ON p.id = t.project_id LEFT JOIN child_sync c ON c.project_id = t.project_id"
        " AND c.parent_kind = :kind AND c.kind = 'discussions' AND c.parent_id = t.id WHERE t.id = :id",
        {"id": parent_id, "kind": family.table},
    )[0]
    parent: IssueRow | MergeRequestRow = shape(*values)
    return Conversation(
        parent=parent,
        project=project,
        labels=_labels(database, family, parent_id),
        assignees=_people(database, family, "assignees", parent_id),
        reviewers=_people(database, family, "reviewers", parent_id),
        threads=_threads(database, family, parent_id),
        events={name: _count_events(database, family, name, parent_id) for name in EVENT_KINDS},
        closes=_closes(database, parent_id) if kind == "mr" else (),
        closed_by=_closed_by(database, source, parent.remote_id) if kind == "issue" else (),
        files=_files(database, parent) if isinstance(parent, MergeRequestRow) else (),
    )


def _columns(alias: str, shape: type[Struct]) -> str:
    return ", ".join(f"{alias}.{name}" for name in shape.__struct_fields__)


def _parent_columns(shape: type[Struct]) -> str:
    progress = {"discussions_fetched_for": "c.fetched_for", "discussions_error": "c.last_error"}
    return ", ".join(progress.get(name, f"t.{name}") for name in shape.__struct_fields__)


def _labels(database: Database, family: Family, parent_id: int) -> tuple[str, ...]:
    rows = database.read(
        f"SELECT l.name FROM {family.label_table} x JOIN labels l ON l.id = x.label_id"
        f" WHERE x.{family.parent_column} = :id",
        {"id": parent_id},
    )
    # Sorted here: the two databases do not agree on the order of words.
    return tuple(sorted(name for (name,) in rows))


def _people(database: Database, family: Family, what: str, parent_id: int) -> tuple[str, ...]:
    table = family.people.get(what)
    if table is None:
        return ()
    rows = database.read(f"SELECT username FROM {table} WHERE {family.parent_column} = :id", {"id": parent_id})
    return tuple(sorted(name for (name,) in rows))


def _threads(database: Database, family: Family, parent_id: int) -> tuple[Thread, ...]:
    """Return the discussions in the order in which they were begun."""
    heads = database.read(
        "SELECT id, remote_id, individual_note, resolvable, resolved FROM discussions"
        f" WHERE {family.parent_column} = :id ORDER BY COALESCE(first_note_at, 0), id",
        {"id": parent_id},
    )
    # CROSS JOIN keeps this order in SQLite: from the parent's discussions into their notes, never through all notes.
    rows = database.read(
        f"SELECT d.id, {_columns('n', NoteRow)} FROM discussions d CROSS JOIN notes n"
        f" WHERE d.{family.parent_column} = :id AND n.discussion_id = d.id ORDER BY d.id, n.position, n.id",
        {"id": parent_id},
    )
    notes: dict[int, list[NoteRow]] = {}
    for discussion, *values in rows:
        notes.setdefault(discussion, []).append(NoteRow(*values))
    return tuple(
        Thread(remote_id, individual, resolvable, resolved, tuple(notes.get(row_id, ())))
        for row_id, remote_id, individual, resolvable, resolved in heads
    )


def _count_events(database: Database, family: Family, name: str, parent_id: int) -> int:
    rows = database.read(
        f"SELECT COUNT(*) FROM resource_{name}_events WHERE {family.parent_column} = :id", {"id": parent_id}
    )
    return int(rows[0][0])


def _closes(database: Database, parent_id: int) -> tuple[ClosedIssue, ...]:
    rows = database.read(
        f"SELECT {_columns('c', ClosedIssue)} FROM mr_closes_issues c WHERE c.merge_request_id = :id",
        {"id": parent_id},
    )
    return tuple(sorted((ClosedIssue(*row) for row in rows), key=_by_place))


def _by_place(issue: ClosedIssue) -> tuple[str, int, str]:
    project = (issue.reference or "").rpartition("#")[0]
    return project, issue.issue_iid or 0, issue.issue_key


def _closed_by(database: Database, source: str, remote_id: int) -> tuple[ClosingRequest, ...]:
    """Return the live merge requests that close an issue; only those of its own host know it by this number."""
    rows = database.read(
        "SELECT p.path, m.iid, m.title, m.state, m.web_url FROM mr_closes_issues c"
        " JOIN merge_requests m ON m.id = c.merge_request_id JOIN projects p ON p.id = m.project_id"
        " WHERE c.issue_remote_id = :remote_id AND p.source = :source AND m.deleted_at IS NULL",
        {"remote_id": remote_id, "source": source},
    )
    return tuple(sorted((ClosingRequest(*row) for row in rows), key=lambda found: (found.project, found.iid)))


def _files(database: Database, parent: MergeRequestRow) -> tuple[FileChangeRecord, ...]:
    """Return the files of the newest head; until its own are read, those of the head that was read last."""
    rows = database.read(
        f"SELECT head_sha, {_columns('f', FileChangeRecord)} FROM mr_file_changes f WHERE f.merge_request_id = :id"
        " ORDER BY f.id",
        {"id": parent.id},
    )
    heads = [row[0] for row in rows]
    head = parent.head_sha if parent.head_sha in heads else heads[-1] if heads else None
    return tuple(
        sorted((_file(row) for row in rows if row[0] == head), key=lambda file: (file.new_path, file.old_path))
    )


def _file(row: Row) -> FileChangeRecord:
    _, old_path, new_path, *flags = row
    return FileChangeRecord(old_path, new_path, *map(bool, flags))
