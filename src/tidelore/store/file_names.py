"""Which file is meant by a path. Owns the rule: a whole path, else an ending of one; one file, or an error.

Only the newest head of a live merge request counts. A whole path costs two steps into the indexes for each project; an
ending costs one pass over them, never over the rows.
"""

from __future__ import annotations

import posixpath

from msgspec import Struct

from tidelore.core.errors import NotFound, UserError
from tidelore.store.database import Database
from tidelore.store.projects import ProjectRow

CURRENT = "m.id = f.merge_request_id AND f.head_sha = COALESCE(m.head_sha, '') AND m.deleted_at IS NULL"
"""What makes a file change one of the newest head of a live merge request."""
_SHOWN = 20
_NEAR = 5


class FileName(Struct, frozen=True):
    """A path in a project that some merge request changes."""

    project_id: int
    project: str
    configured: str
    path: str


def clean_path(text: str) -> str:
    """Return a path as forges write it: from the root of the repository, without detours."""
    path = posixpath.normpath(text.lstrip("/")) if text.strip() else "."
    if path == "." or path.split("/")[0] == "..":
        raise UserError(
            f"invalid file path: {text!r}", fix="use a path relative to the repository root, or an ending of it"
        )
    return path


def find_names(database: Database, path: str, project: ProjectRow | None, default: str = "") -> list[FileName]:
    """Return what a path can mean, the default project's if it has any; never nothing."""
    found = _whole(database, path, project) or _endings(database, path, project)
    if not found:
        raise _missing(database, path, project)
    return _at_home(found, default)


def ambiguous(path: str, found: list[FileName]) -> UserError:
    """Return the error for a path that several files have."""
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
    """Return the paths that end in a slash and the tail."""
    parts = [
        f"SELECT f.project_id, f.{column} AS path FROM mr_file_changes f"
        # A path shorter than the tail gives something shorter than the tail, in either dialect.
        f" WHERE substr(f.{column}, length(f.{column}) - :before) = :tail{_narrowed('f.project_id', project)}"
        for column in ("new_path", "old_path")
    ]
    rows = database.read(
        f"WITH named AS ({' UNION '.join(parts)}) SELECT p.id, p.path, p.configured, n.path"
        " FROM named n JOIN projects p ON p.id = n.project_id"
        f" WHERE {_is_changed('n.project_id', 'n.path')}",
        {"tail": f"/{tail}", "before": len(tail)} | _params(project),
    )
    # Sorted here: the two databases do not agree on the order of words.
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
