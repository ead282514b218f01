"""Finds the merge requests that changed a file, under all its names, or that a commit belongs to, and their threads.

A path is a complete path or the end of one, and must match exactly one file. Only the newest head of a live merge
request counts. Every query uses an index by path, so the cost is that of this file's history. Writes nothing.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.errors import NotFound, UserError
from tidelore.store.database.port import Database
from tidelore.store.database.statements import Where
from tidelore.store.mirror.projects import ProjectRow, match_project

NAMES_LIMIT = 100
"""The maximum number of names. A file with more is generated, or several files swapped names."""


class Rename(Struct, frozen=True):
    """A merge request that renamed the file; `at` is when it was merged, otherwise last updated."""

    old_path: str
    new_path: str
    iid: int
    state: str
    at: int


class Lineage(Struct, frozen=True):
    """The names of a file, oldest first, and the renames between them; `cut` is set if there are more."""

    names: tuple[str, ...]
    renames: tuple[Rename, ...] = ()
    cut: bool = False


def follow_renames(
    start: str, renames_of: Callable[[str], Iterable[Rename]], names_limit: int = NAMES_LIMIT
) -> Lineage:
    """Return every name that renames connect with `start`; `renames_of` returns the renames from or to a name."""
    # The number of renames between a name and `start`: negative before it, positive after it.
    distances = {start: 0}
    found: dict[Rename, None] = {}
    cut = False
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        for rename in renames_of(name):
            later = rename.old_path == name
            other = rename.new_path if later else rename.old_path
            if other not in distances:
                if len(distances) >= names_limit:
                    cut = True
                    continue
                distances[other] = distances[name] + (1 if later else -1)
                waiting.append(other)
            found[rename] = None
    renames = tuple(sorted(found, key=_by_age))
    # In a cycle distances do not show age, so use the order of the renames if they form a single chain.
    names = list(dict.fromkeys(_chain(renames))) or sorted(distances, key=distances.__getitem__)
    return Lineage(tuple(names), renames, cut)


def describe_lineage(lineage: Lineage) -> str:
    """Return the names on one line, with an arrow for each rename."""
    chain = _chain(lineage.renames)
    if chain:
        return " -> ".join(chain)
    steps = {(rename.old_path, rename.new_path) for rename in lineage.renames}
    text = lineage.names[0]
    for before, after in zip(lineage.names, lineage.names[1:], strict=False):
        text += f" -> {after}" if (before, after) in steps else f", {after}"
    return text


def _chain(renames: Sequence[Rename]) -> list[str]:
    """Return the names in chronological order, with repetitions; empty if the renames do not form a single chain."""
    names: list[str] = []
    for rename in renames:
        if names[-2:] == [rename.old_path, rename.new_path]:
            # The same rename in another merge request.
            continue
        if names and names[-1] != rename.old_path:
            return []
        names += [rename.new_path] if names else [rename.old_path, rename.new_path]
    return names


def _by_age(rename: Rename) -> tuple[int, int, str]:
    return rename.at, rename.iid, rename.old_path


CURRENT = "m.id = f.merge_request_id AND f.head_sha = COALESCE(m.head_sha, '') AND m.deleted_at IS NULL"
"""The condition that a file change belongs to the newest head of a live merge request."""
_SHOWN = 20
_NEAR = 5


class FileName(Struct, frozen=True):
    """A path in a project that is changed by a merge request."""

    project_id: int
    project: str
    configured: str
    path: str


def clean_path(text: str) -> str:
    """Return a path as forges write it: relative to the repository root, without `.` and `..`."""
    path = posixpath.normpath(text.lstrip("/")) if text.strip() else "."
    if path == "." or path.split("/")[0] == "..":
        raise UserError(
            f"invalid file path: {text!r}", fix="use a path relative to the repository root, or an ending of it"
        )
    return path


def find_names(database: Database, path: str, project: ProjectRow | None, default: str = "") -> list[FileName]:
    """Return the files that a path matches, the default project's if it has any; raise an error if none match."""
    found = _whole(database, path, project) or _endings(database, path, project)
    if not found:
        raise _missing(database, path, project)
    return _at_home(found, default)


def ambiguous(path: str, found: list[FileName]) -> UserError:
    """Return the error for a path that matches several files."""
    several = len({name.project_id for name in found}) > 1
    names = [f"{name.path} in {name.project}" if several else name.path for name in found]
    more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    remedy = "name one, with --project where needed" if several else "name one"
    return UserError(
        f"{path!r} matches {len(names):,} files",
        fix=f"{remedy}: {', '.join(names[:_SHOWN])}{more}",
        path=path,
        candidates=[{"project": name.project, "path": name.path} for name in found],
    )


def _whole(database: Database, path: str, project: ProjectRow | None) -> list[FileName]:
    rows = database.read(
        "SELECT p.id, p.path, p.configured FROM projects p"
        f" WHERE ({_is_changed('p.id', ':path')}){_narrowed('p.id', project)} ORDER BY p.id",
        {"path": path} | _params(project),
    )
    return [FileName(project_id, name, configured, path) for project_id, name, configured in rows]


def _endings(database: Database, tail: str, project: ProjectRow | None) -> list[FileName]:
    """Return the paths that end in a slash and `tail`."""
    parts = [
        f"SELECT f.project_id, f.{column} AS path FROM mr_file_changes f"
        # For a path shorter than the tail, both dialects return something shorter than the tail.
        f" WHERE substr(f.{column}, length(f.{column}) - :before) = :tail{_narrowed('f.project_id', project)}"
        for column in ("new_path", "old_path")
    ]
    rows = database.read(
        f"WITH named AS ({' UNION '.join(parts)}) SELECT p.id, p.path, p.configured, n.path"
        " FROM named n JOIN projects p ON p.id = n.project_id"
        f" WHERE {_is_changed('n.project_id', 'n.path')}",
        {"tail": f"/{tail}", "before": len(tail)} | _params(project),
    )
    # Sorted here, because the two databases use different collations.
    return sorted((FileName(*row) for row in rows), key=lambda name: (name.project, name.path))


def _is_changed(project: str, path: str) -> str:
    # CROSS JOIN keeps this order in SQLite: from the few changes of that path to their merge requests.
    return " OR ".join(
        "EXISTS (SELECT 1 FROM mr_file_changes f CROSS JOIN merge_requests m"
        f" WHERE f.project_id = {project} AND f.{column} = {path} AND {CURRENT})"
        for column in ("new_path", "old_path")
    )


def _at_home(found: list[FileName], default: str) -> list[FileName]:
    named = [name for name in found if default in (name.project, name.configured)]
    return named or [name for name in found if default and name.project.endswith(f"/{default}")] or found


def _missing(database: Database, path: str, project: ProjectRow | None) -> NotFound:
    where = "" if project is None else f" of {project.path}"
    last = posixpath.basename(path)
    near = _whole(database, last, project) + _endings(database, last, project)
    if near:
        fix = "files of that name: " + ", ".join(dict.fromkeys(name.path for name in near[:_NEAR]))
    else:
        fix = "check the spelling; `lore sync` fetches changed files"
    return NotFound(f"no merge request{where} changes {path!r}", fix=fix, path=path)


def _narrowed(column: str, project: ProjectRow | None) -> str:
    return "" if project is None else f" AND {column} = :project_id"


def _params(project: ProjectRow | None) -> dict[str, int]:
    return {} if project is None else {"project_id": project.id}


_TOLD = 25
"""The maximum number of candidates for which to check whether they are names of one file."""


class FileQuestion(Struct, frozen=True, kw_only=True):
    """A query for the history of a file. `default` is the project to prefer if several match."""

    path: str
    project: str | None = None
    default: str = ""
    follow: bool = True
    merged: bool = False
    discussions: bool = False
    limit: int = 20


class FileTouch(Struct, frozen=True):
    """The change of the file in one merge request."""

    kind: str
    old_path: str
    new_path: str


class HistoryEntry(Struct, frozen=True):
    """A merge request in the history; `at` is when it was merged, otherwise last updated."""

    id: int
    iid: int
    reference: str | None
    title: str
    state: str
    author: str | None
    updated_at: int
    merged_at: int | None
    web_url: str | None
    touches: tuple[FileTouch, ...] = ()

    @property
    def at(self) -> int:
        return self.updated_at if self.merged_at is None else self.merged_at


class FileThread(Struct, frozen=True):
    """A discussion on a line of the file, by its first note there. `notes` counts its user notes."""

    id: str
    iid: int
    author: str | None
    body: str
    created_at: int
    path: str
    line: int | None
    resolvable: int
    resolved: int | None
    notes: int


class FileHistory(Struct, frozen=True):
    """The history of one file, newest first, up to the limit; the totals count all of it."""

    file: FileName
    lineage: Lineage
    entries: list[HistoryEntry]
    total: int
    threads: list[FileThread]
    threads_total: int


class _Change(NamedTuple):
    """A change of the file, and fields of its merge request; `at` is when that was merged, otherwise updated."""

    request: int
    iid: int
    state: str
    at: int
    old_path: str
    new_path: str
    new_file: int
    renamed_file: int
    deleted_file: int


class _Changes:
    """The changes of each name, read once and used both to follow renames and as the history."""

    def __init__(self, database: Database, project_id: int) -> None:
        self._database = database
        self._project_id = project_id
        self._read: dict[str, list[_Change]] = {}

    def of(self, name: str) -> list[_Change]:
        if name not in self._read:
            self._read[name] = _read_changes(self._database, self._project_id, name)
        return self._read[name]

    def renames_of(self, name: str) -> list[Rename]:
        found = [
            Rename(change.old_path, change.new_path, change.iid, change.state, change.at)
            for change in self.of(name)
            if change.renamed_file and change.old_path != change.new_path
        ]
        return sorted(found, key=lambda rename: (rename.at, rename.iid))


def read_file_history(database: Database, question: FileQuestion) -> FileHistory:
    """Return the history of the requested file."""
    path = clean_path(question.path)
    project = match_project(database, question.project) if question.project else None
    found = find_names(database, path, project, question.default)
    changes = _Changes(database, found[0].project_id)
    file, lineage = _which(path, found, changes, follow=question.follow)
    entries, total = _entries(database, lineage.names, changes, question)
    threads, threads_total = (
        _threads(database, file.project_id, lineage.names, question) if question.discussions else ([], 0)
    )
    return FileHistory(file, lineage, entries, total, threads, threads_total)


def _which(path: str, found: list[FileName], changes: _Changes, *, follow: bool) -> tuple[FileName, Lineage]:
    """Return the file and its names. Several candidates are accepted if they are names of the same file."""
    lineage = Lineage((found[0].path,))
    if follow and len(found) <= _TOLD:
        lineage = follow_renames(found[0].path, changes.renames_of)
    alike = {name.path for name in found}
    if len({name.project_id for name in found}) > 1 or not alike <= set(lineage.names):
        raise ambiguous(path, found)
    newest = [name for name in lineage.names if name in alike][-1]
    return next(name for name in found if name.path == newest), lineage


def _read_changes(database: Database, project_id: int, name: str) -> list[_Change]:
    """Read the changes with this path before or after; a change that keeps the path is returned once."""
    # CROSS JOIN keeps this order in SQLite: from the changes of that path to their merge requests.
    half = (
        "SELECT m.id, m.iid, m.state, COALESCE(m.merged_at, m.updated_at), f.old_path, f.new_path, f.new_file,"
        " f.renamed_file, f.deleted_file FROM mr_file_changes f CROSS JOIN merge_requests m"
        f" WHERE f.project_id = :project_id AND {CURRENT} AND f."
    )
    rows = database.read(
        f"{half}new_path = :path UNION ALL {half}old_path = :path AND f.new_path <> :path",
        {"project_id": project_id, "path": name},
    )
    return [_Change(*row) for row in rows]


def _entries(
    database: Database, names: Iterable[str], changes: _Changes, question: FileQuestion
) -> tuple[list[HistoryEntry], int]:
    ages: dict[int, int] = {}
    touches: dict[int, dict[FileTouch, None]] = {}
    for change in (change for name in names for change in changes.of(name)):
        if change.state == "merged" or not question.merged:
            ages[change.request] = change.at
            touches.setdefault(change.request, {})[_touch(change)] = None
    newest = sorted(ages, key=lambda request: (ages[request], request), reverse=True)[: question.limit]
    rows = database.read(
        "SELECT id, iid, references_full, title, state, author_username, updated_at, merged_at, web_url"
        f" FROM merge_requests WHERE id {database.among('ids')}",
        {"ids": database.integers(newest)},
    )
    found = {row[0]: replace(HistoryEntry(*row), touches=tuple(touches[row[0]])) for row in rows}
    return [found[request] for request in newest if request in found], len(ages)


def _touch(change: _Change) -> FileTouch:
    if change.deleted_file:
        kind = "deleted"
    elif change.new_file:
        kind = "new"
    else:
        kind = "renamed" if change.renamed_file else "modified"
    return FileTouch(kind, change.old_path, change.new_path)


def _threads(
    database: Database, project_id: int, names: Iterable[str], question: FileQuestion
) -> tuple[list[FileThread], int]:
    """Return the discussions on lines of the file; each is identified by the first of its notes there."""
    firsts: dict[int, tuple[int, int, int]] = {}
    merged = " AND m.state = 'merged'" if question.merged else ""
    for name in names:
        for column in ("new_path", "old_path"):
            rows = database.read(
                "SELECT n.discussion_id, n.position, n.created_at, n.id FROM notes n"
                " CROSS JOIN discussions d CROSS JOIN merge_requests m"
                f" WHERE n.position_{column} = :path AND n.project_id = :project_id AND n.is_system = 0"
                " AND d.id = n.discussion_id AND m.id = d.merge_request_id AND m.deleted_at IS NULL"
                f"{merged}",
                {"project_id": project_id, "path": name},
            )
            for discussion, *first in rows:
                key = (first[0], first[1], first[2])
                firsts[discussion] = min(firsts.get(discussion, key), key)
    newest = sorted(firsts.values(), key=lambda first: first[1:], reverse=True)[: question.limit]
    rows = database.read(
        "SELECT n.id, d.remote_id, m.iid, n.author_username, n.body, n.created_at,"
        " COALESCE(n.position_new_path, n.position_old_path), COALESCE(n.position_new_line, n.position_old_line),"
        " d.resolvable, d.resolved,"
        " (SELECT COUNT(*) FROM notes x WHERE x.discussion_id = d.id AND x.is_system = 0)"
        " FROM notes n JOIN discussions d ON d.id = n.discussion_id JOIN merge_requests m ON m.id = d.merge_request_id"
        f" WHERE n.id {database.among('ids')}",
        {"ids": database.integers(note for _, _, note in newest)},
    )
    found = {row[0]: FileThread(*row[1:]) for row in rows}
    # A concurrent run may have deleted a note since.
    return [found[note] for _, _, note in newest if note in found], len(firsts)


def requests_with_commits(database: Database, shas: Sequence[str], project_id: int | None) -> dict[str, int]:
    """Return the row of the merge request for each commit that merged it or is its head."""
    where = Where("m.deleted_at IS NULL", shas=database.texts(shas))
    where.narrow("m.project_id = :project_id", project_id=project_id)
    found: dict[str, int] = {}
    # The commit that merged it is surer than its head, so it is looked up last and replaces what was found before.
    for column in ("head_sha", "merge_commit_sha"):
        rows = database.read(
            f"SELECT m.{column}, m.id FROM merge_requests m WHERE m.{column} {database.among('shas')} AND {where}",
            where.params,
        )
        found |= dict(rows)
    return found


def request_with_number(database: Database, project_id: int, iid: int) -> int | None:
    """Return the row of the live merge request with this number."""
    rows = database.read(
        "SELECT id FROM merge_requests WHERE project_id = :project_id AND iid = :iid AND deleted_at IS NULL",
        {"project_id": project_id, "iid": iid},
    )
    return rows[0][0] if rows else None
