"""Resolves a reference to an issue or merge request, and reads its whole conversation.

A reference resolves to one candidate, or to an error with a remedy: a named project or URL narrows; otherwise live rows
take precedence over tombstones and the default project over others. Every query uses an index that starts with the
parent, so the cost is that of this conversation. Writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.errors import NotFound, UserError
from tidelore.core.references import NOUNS, SIGNS, Kind, Reference, other_kind, sign_of, wrong_kind
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import EVENT_TABLES, PARENTS, TOPICS, ParentKind
from tidelore.store.mirror.projects import ProjectRow, list_projects, match_project
from tidelore.store.reading.lists import labels_of

if TYPE_CHECKING:
    from tidelore.core.model import FileChangeRecord


class ResolveCandidate(Struct, frozen=True):
    """A row with the requested number. `configured` is the name of its project in the configuration."""

    id: int
    project_id: int
    path: str
    configured: str
    web_url: str | None
    deleted: int
    references_short: str | None


def resolve(
    database: Database, kind: Kind, reference: Reference, *, project: str | None = None, default: str = ""
) -> int:
    """Return the id of the referenced row; `project` is a project named in addition to the reference."""
    named = named_project(database, reference, project)
    found = candidates(database, PARENTS[kind].table, reference.iid, named)
    if kind == "mr" and reference.is_hashed:
        found = [one for one in found if sign_of(kind, one.references_short) == "#"]
        if not found:
            raise wrong_kind(f"{reference.project or ''}#{reference.iid}", kind, reference)
    if not found:
        raise _missing(database, kind, reference.iid, named)
    return choose_candidate(found, f"{SIGNS[kind]}{reference.iid}", default)


def choose_candidate(found: list[ResolveCandidate], written: str, default: str = "") -> int:
    """Return the id of the preferred candidate, or raise UserError if several projects have one."""
    chosen = prefer(found, default)
    if len(chosen) == 1:
        return chosen[0].id
    names = _tell_apart(chosen)
    raise UserError(
        f"{written} exists in {len(names)} projects",
        fix=f"name one with --project, or use the URL: {', '.join(names)}",
        reference=written,
        candidates=names,
    )


def prefer(found: list[ResolveCandidate], default: str = "") -> list[ResolveCandidate]:
    """Return the preferred candidates: at most one per project, only the default project's if it has one."""
    live = [candidate for candidate in found if not candidate.deleted] or found
    newest = {candidate.project_id: candidate for candidate in sorted(live, key=lambda candidate: candidate.id)}
    left = list(newest.values())
    at_home = [candidate for candidate in left if default in (candidate.path, candidate.configured)]
    at_home = at_home or [candidate for candidate in left if default and candidate.path.endswith(f"/{default}")]
    return at_home if len(at_home) == 1 else left


def _tell_apart(chosen: list[ResolveCandidate]) -> list[str]:
    """Return a unique name for each candidate; two hosts may have projects with the same path."""
    paths = [candidate.path for candidate in chosen]
    return sorted(
        candidate.web_url if paths.count(candidate.path) > 1 and candidate.web_url else candidate.path
        for candidate in chosen
    )


def candidates(database: Database, table: str, iid: int, project: ProjectRow | None) -> list[ResolveCandidate]:
    """Return the rows of a table with this number, of one project or of all."""
    short = "NULL" if table == TOPICS else "t.references_short"
    narrowed = "" if project is None else " AND p.id = :project_id"
    # CROSS JOIN keeps this order in SQLite: one index lookup per project, regardless of the size of the copy.
    rows = database.read(
        "SELECT t.id, p.id, p.path, p.configured, p.web_url, CASE WHEN t.deleted_at IS NULL THEN 0 ELSE 1 END,"
        f" {short} FROM projects p CROSS JOIN {table} t"
        f" WHERE t.project_id = p.id AND t.iid = :iid{narrowed}",
        {"iid": iid} if project is None else {"iid": iid, "project_id": project.id},
    )
    return [ResolveCandidate(*row) for row in rows]


def named_project(database: Database, reference: Reference, project: str | None) -> ProjectRow | None:
    """Return the project that a reference or `project` names; raise UserError if they name two."""
    beside = match_project(database, project) if project else None
    inside = _project_of(database, reference) if reference.project else None
    if beside is not None and inside is not None and beside.id != inside.id:
        raise UserError(
            f"the reference names {inside.path}, --project names {beside.path}",
            fix="remove one of them",
            project=project,
        )
    return inside or beside


def _project_of(database: Database, reference: Reference) -> ProjectRow:
    """Return the project a reference names: by its URL, otherwise by its path."""
    if reference.address is not None:
        rows = database.read(
            "SELECT id FROM projects WHERE LOWER(web_url) = LOWER(:address)", {"address": reference.address}
        )
        found = [project for project in list_projects(database) if (project.id,) in rows]
        if len(found) == 1:
            return found[0]
    return match_project(database, reference.project or "")


def _missing(database: Database, kind: Kind, iid: int, project: ProjectRow | None) -> NotFound:
    where = "" if project is None else f" of {project.path}"
    other = other_kind(kind)
    beside = "" if project is None else f" -p {project.path}"
    if candidates(database, PARENTS[other].table, iid, project):
        fix = f"there is {NOUNS[other]} of that number: `lore show {other} {iid}{beside}`"
    elif candidates(database, TOPICS, iid, project):
        fix = f"there is a topic of that number: `lore show topic {iid}{beside}`"
    else:
        fix = "if it is new, fetch it with `lore sync`"
    return NotFound(
        f"the local copy has no {NOUNS[kind].partition(' ')[2]} {SIGNS[kind]}{iid}{where}",
        fix=fix,
        reference=f"{SIGNS[kind]}{iid}",
        project=None if project is None else project.path,
    )


class ParentRow(Struct, frozen=True):
    """Columns that issues and merge requests have in common, under the same names.

    `discussions_fetched_for` and `discussions_error` come from the row in `child_sync`.
    """

    id: int
    remote_id: int
    iid: int
    title: str
    description: str | None
    state: str
    author_username: str | None
    author_association: str | None
    milestone_title: str | None
    references_full: str | None
    created_at: int
    updated_at: int
    closed_at: int | None
    deleted_at: int | None
    web_url: str | None
    discussions_fetched_for: int | None
    discussions_error: str | None

    @property
    def discussions_read(self) -> bool:
        """Whether the discussions were ever read; always true for a tombstone, which has none."""
        return self.discussions_fetched_for is not None or self.deleted_at is not None

    @property
    def discussions_fresh(self) -> bool:
        """Whether the discussions were read for the current version, not for an earlier one."""
        return self.discussions_fetched_for == self.updated_at or self.deleted_at is not None


class IssueRow(ParentRow, frozen=True):
    due_date: str | None
    confidential: int
    discussion_locked: int
    issue_type: str | None
    time_estimate_seconds: int
    time_spent_seconds: int
    status_name: str | None
    status_category: str | None


class MergeRequestRow(ParentRow, frozen=True):
    draft: int
    source_branch: str | None
    target_branch: str | None
    head_sha: str | None
    detailed_merge_status: str | None
    merge_user_username: str | None
    merged_at: int | None


class NoteRow(Struct, frozen=True):
    """One note; the field names are those of the columns."""

    remote_id: int
    note_type: str | None
    is_system: int
    is_internal: int
    author_username: str | None
    body: str
    created_at: int
    updated_at: int
    resolvable: int
    resolved: int | None
    resolved_by: str | None
    resolved_at: int | None
    position_old_path: str | None
    position_new_path: str | None
    position_old_line: int | None
    position_new_line: int | None
    position_type: str | None
    position_line_range_start: int | None
    position_line_range_end: int | None
    position_base_sha: str | None
    position_start_sha: str | None
    position_head_sha: str | None
    url: str | None
    author_association: str | None
    review_state: str | None

    @property
    def is_placed(self) -> bool:
        """Whether the note refers to a position in a diff."""
        return self.position_new_path is not None or self.position_old_path is not None


class Thread(Struct, frozen=True):
    """A discussion with its notes in order."""

    remote_id: str
    individual_note: int
    resolvable: int
    resolved: int | None
    notes: tuple[NoteRow, ...]


class ClosedIssueRow(Struct, frozen=True):
    """An issue that the merge request closes."""

    issue_key: str
    issue_iid: int | None
    reference: str | None
    title: str | None
    web_url: str | None


class ClosingRequestRow(Struct, frozen=True):
    """A merge request that closes the issue."""

    project: str
    iid: int
    title: str
    state: str
    web_url: str | None
    project_id: int
    author_username: str | None
    author_association: str | None


class Conversation(Struct, frozen=True, kw_only=True):
    """Everything in the copy about one issue or merge request. `files` are those of its newest head."""

    parent: IssueRow | MergeRequestRow
    project: str
    project_id: int
    labels: tuple[str, ...]
    assignees: tuple[str, ...]
    reviewers: tuple[str, ...]
    threads: tuple[Thread, ...]
    events: dict[str, int]
    closes: tuple[ClosedIssueRow, ...] = ()
    closed_by: tuple[ClosingRequestRow, ...] = ()
    files: tuple[FileChangeRecord, ...] = ()


def read_conversation(database: Database, kind: Kind, parent_id: int) -> Conversation:
    """Return the conversation of one stored issue or merge request."""
    parents = PARENTS[kind]
    shape = MergeRequestRow if kind == "mr" else IssueRow
    (source, project_id, project, *values) = database.read(
        f"SELECT p.source, p.id, p.path, {_parent_columns(shape)} FROM {parents.table} t"
        " JOIN projects p ON p.id = t.project_id WHERE t.id = :id",
        {"id": parent_id, "kind": parents.table},
    )[0]
    parent: IssueRow | MergeRequestRow = shape(*values)
    return Conversation(
        parent=parent,
        project=project,
        project_id=project_id,
        labels=labels_of(database, parents, [parent_id]).get(parent_id, ()),
        assignees=_people(database, parents, "assignees", parent_id),
        reviewers=_people(database, parents, "reviewers", parent_id),
        threads=_threads(database, parents, parent_id),
        events={name: _count_events(database, parents, table, parent_id) for name, table in EVENT_TABLES.items()},
        closes=_closes(database, parent_id) if kind == "mr" else (),
        closed_by=_closed_by(database, source, parent.remote_id) if kind == "issue" else (),
        files=_files(database, parent) if isinstance(parent, MergeRequestRow) else (),
    )


def _columns(alias: str, shape: type[Struct]) -> str:
    return ", ".join(f"{alias}.{name}" for name in shape.__struct_fields__)


def _parent_columns(shape: type[Struct]) -> str:
    # Each forge has one of the two kinds.
    of_talk = (
        "(SELECT MAX(c.{0}) FROM child_sync c WHERE c.project_id = t.project_id AND c.parent_kind = :kind"
        " AND c.kind IN ('discussions', 'comments') AND c.parent_id = t.id)"
    )
    progress = {
        "discussions_fetched_for": of_talk.format("fetched_for"),
        "discussions_error": of_talk.format("last_error"),
    }
    return ", ".join(progress.get(name, f"t.{name}") for name in shape.__struct_fields__)


def _people(database: Database, parents: ParentKind, what: str, parent_id: int) -> tuple[str, ...]:
    table = parents.people.get(what)
    if table is None:
        return ()
    rows = database.read(f"SELECT username FROM {table} WHERE {parents.column} = :id", {"id": parent_id})
    return tuple(sorted(name for (name,) in rows))


def _threads(database: Database, parents: ParentKind, parent_id: int) -> tuple[Thread, ...]:
    """Return the discussions in the order in which they were started."""
    heads = database.read(
        "SELECT id, remote_id, individual_note, resolvable, resolved FROM discussions"
        f" WHERE {parents.column} = :id ORDER BY COALESCE(first_note_at, 0), id",
        {"id": parent_id},
    )
    # CROSS JOIN keeps this order in SQLite: from the parent's discussions to their notes, never through all notes.
    rows = database.read(
        f"SELECT d.id, {_columns('n', NoteRow)} FROM discussions d CROSS JOIN notes n"
        f" WHERE d.{parents.column} = :id AND n.discussion_id = d.id ORDER BY d.id, n.position, n.id",
        {"id": parent_id},
    )
    notes: dict[int, list[NoteRow]] = {}
    for discussion, *values in rows:
        notes.setdefault(discussion, []).append(NoteRow(*values))
    return tuple(
        Thread(remote_id, individual, resolvable, resolved, tuple(notes.get(row_id, ())))
        for row_id, remote_id, individual, resolvable, resolved in heads
    )


def _count_events(database: Database, parents: ParentKind, table: str, parent_id: int) -> int:
    rows = database.read(f"SELECT COUNT(*) FROM {table} WHERE {parents.column} = :id", {"id": parent_id})
    return int(rows[0][0])


def _closes(database: Database, parent_id: int) -> tuple[ClosedIssueRow, ...]:
    rows = database.read(
        f"SELECT {_columns('c', ClosedIssueRow)} FROM mr_closes_issues c WHERE c.merge_request_id = :id",
        {"id": parent_id},
    )
    return tuple(sorted((ClosedIssueRow(*row) for row in rows), key=_by_place))


def _by_place(issue: ClosedIssueRow) -> tuple[str, int, str]:
    project = (issue.reference or "").rpartition("#")[0]
    return project, issue.issue_iid or 0, issue.issue_key


def _closed_by(database: Database, source: str, remote_id: int) -> tuple[ClosingRequestRow, ...]:
    """Return the live merge requests that close an issue; remote ids are only unique on the same host."""
    rows = database.read(
        "SELECT p.path, m.iid, m.title, m.state, m.web_url, p.id, m.author_username, m.author_association"
        " FROM mr_closes_issues c"
        " JOIN merge_requests m ON m.id = c.merge_request_id JOIN projects p ON p.id = m.project_id"
        " WHERE c.issue_remote_id = :remote_id AND p.source = :source AND m.deleted_at IS NULL",
        {"remote_id": remote_id, "source": source},
    )
    return tuple(sorted((ClosingRequestRow(*row) for row in rows), key=lambda found: (found.project, found.iid)))


def _files(database: Database, parent: MergeRequestRow) -> tuple[FileChangeRecord, ...]:
    """Return the files of the newest head; until those are read, the files of the head that was read last."""
    # Not at the top: it declares the records of every source, and a conversation needs only this one.
    from tidelore.core.model import FileChangeRecord

    rows = database.read(
        f"SELECT head_sha, {_columns('f', FileChangeRecord)} FROM mr_file_changes f WHERE f.merge_request_id = :id"
        " ORDER BY f.id",
        {"id": parent.id},
    )
    heads = [row[0] for row in rows]
    head = parent.head_sha if parent.head_sha in heads else heads[-1] if heads else None
    files = [
        FileChangeRecord(old_path, new_path, *map(bool, flags))
        for head_sha, old_path, new_path, *flags in rows
        if head_sha == head
    ]
    return tuple(sorted(files, key=lambda file: (file.new_path, file.old_path)))
