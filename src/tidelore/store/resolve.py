"""Which issue or merge request is meant by a reference. Owns the rule: one candidate, or an error with a remedy.

What is named narrows: a project, a web address. Where nothing is, live rows go before tombstones and the default
project before the others; a choice that is left is the caller's, never ours.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.errors import NotFound, UserError
from tidelore.core.references import NOUNS, SIGNS, Kind, Reference, other_kind
from tidelore.store.database import Database
from tidelore.store.family import Family
from tidelore.store.issues import ISSUES
from tidelore.store.merge_requests import MERGE_REQUESTS
from tidelore.store.projects import ProjectRow, list_projects, match_project

FAMILIES: dict[Kind, Family] = {"issue": ISSUES, "mr": MERGE_REQUESTS}


class Candidate(Struct, frozen=True):
    """A row that carries the number. `configured` is the name under which its project was asked for."""

    id: int
    project_id: int
    path: str
    configured: str
    web_url: str | None
    deleted: int


def resolve(
    database: Database, kind: Kind, reference: Reference, *, project: str | None = None, default: str = ""
) -> int:
    """Return the row that is meant; `project` is what a caller named beside the reference."""
    named = _named_project(database, reference, project)
    found = _candidates(database, kind, reference.iid, named)
    if not found:
        raise _missing(database, kind, reference.iid, named)
    chosen = prefer(found, default)
    if len(chosen) == 1:
        return chosen[0].id
    sign = SIGNS[kind]
    names = _tell_apart(chosen)
    raise UserError(
        f"{sign}{reference.iid} exists in {len(names)} projects",
        fix=f"name one with --project, or use the URL: {', '.join(names)}",
        reference=f"{sign}{reference.iid}",
        candidates=names,
    )


def prefer(found: list[Candidate], default: str = "") -> list[Candidate]:
    """Return the candidates that are left: at most one of each project, the default project's if it has one."""
    live = [candidate for candidate in found if not candidate.deleted] or found
    newest = {candidate.project_id: candidate for candidate in sorted(live, key=lambda candidate: candidate.id)}
    left = list(newest.values())
    at_home = [candidate for candidate in left if default in (candidate.path, candidate.configured)]
    at_home = at_home or [candidate for candidate in left if default and candidate.path.endswith(f"/{default}")]
    return at_home if len(at_home) == 1 else left


def _tell_apart(chosen: list[Candidate]) -> list[str]:
    """Return a name for each candidate; two hosts may have a project of the same path."""
    paths = [candidate.path for candidate in chosen]
    return sorted(
        candidate.web_url if paths.count(candidate.path) > 1 and candidate.web_url else candidate.path
        for candidate in chosen
    )


def _candidates(database: Database, kind: Kind, iid: int, project: ProjectRow | None) -> list[Candidate]:
    narrowed = "" if project is None else " AND p.id = :project_id"
    # CROSS JOIN keeps this order in SQLite: one step into the index for each project, whatever the size of the copy.
    rows = database.read(
        "SELECT t.id, p.id, p.path, p.configured, p.web_url, CASE WHEN t.deleted_at IS NULL THEN 0 ELSE 1 END"
        f" FROM projects p CROSS JOIN {FAMILIES[kind].table} t"
        f" WHERE t.project_id = p.id AND t.iid = :iid{narrowed}",
        {"iid": iid} if project is None else {"iid": iid, "project_id": project.id},
    )
    return [Candidate(*row) for row in rows]


def _named_project(database: Database, reference: Reference, project: str | None) -> ProjectRow | None:
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
    """Return the project a reference names: by its web address, else by its path."""
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
    if _candidates(database, other, iid, project):
        beside = "" if project is None else f" -p {project.path}"
        fix = f"there is {NOUNS[other]} of that number: `lore show {other} {iid}{beside}`"
    else:
        fix = "if it is new, fetch it with `lore sync`"
    return NotFound(
        f"the local copy has no {NOUNS[kind].partition(' ')[2]} {SIGNS[kind]}{iid}{where}",
        fix=fix,
        reference=f"{SIGNS[kind]}{iid}",
        project=None if project is None else project.path,
    )
