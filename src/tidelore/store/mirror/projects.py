"""Stores projects and repositories (table `projects`).

Identity is the forge's id; a path may change. A renamed repository keeps its id, and its old name may be taken by
another one: `check_identity` refuses that one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.errors import RepositoryReplaced
from tidelore.core.references import match_one
from tidelore.store.database.port import Database, Transaction

if TYPE_CHECKING:
    from tidelore.core.model import ProjectRecord

_FILED_BY_NAME = (
    "tracked_prs", "feedback_events", "action_tokens", "outbox", "operator_commands", "issue_comment_cursors",
)  # fmt: skip
_FIELDS = (
    "id, source, remote_id, path, name, configured, archived, updated_at, node_id, has_topics, base_url, tracking_rule"
)


class ProjectRow(Struct, frozen=True):
    """A stored project.

    `configured` is its name in the configuration, `updated_at` when its forge last returned it, and `base_url` at which
    address that was; None if it was not recorded. `tracking_rule`: the rule by which pull requests were last tracked.
    """

    id: int
    source: str
    remote_id: int
    path: str
    name: str
    configured: str
    archived: int
    updated_at: int
    node_id: str | None = None
    has_topics: int = 0
    base_url: str | None = None
    tracking_rule: str | None = None


def save_project(
    tx: Transaction, source: str, configured: str, record: ProjectRecord, now_ms: int, base_url: str | None = None
) -> ProjectRow:
    """Store a new or changed project; a renamed one keeps its row and its history."""
    rows = tx.execute(
        "INSERT INTO projects (source, remote_id, path, name, web_url, archived, configured, node_id, has_topics,"
        " base_url, created_at, updated_at) VALUES (:source, :remote_id, :path, :name, :web_url, :archived,"
        " :configured, :node_id, :has_topics, :base_url, :now, :now)"
        " ON CONFLICT (source, remote_id) DO UPDATE SET path = excluded.path, name = excluded.name,"
        " web_url = excluded.web_url, archived = excluded.archived, configured = excluded.configured,"
        " node_id = excluded.node_id, has_topics = excluded.has_topics,"
        " base_url = COALESCE(excluded.base_url, projects.base_url),"
        f" updated_at = excluded.updated_at RETURNING {_FIELDS}",
        {
            "source": source,
            "remote_id": record.remote_id,
            "path": record.path,
            "name": record.name,
            "web_url": record.web_url,
            "archived": int(record.archived),
            "configured": configured,
            "node_id": record.node_id,
            "has_topics": int(record.has_topics),
            "base_url": base_url,
            "now": now_ms,
        },
    )
    return ProjectRow(*rows[0])


def rename_repository(tx: Transaction, project: ProjectRow, path: str) -> None:
    """Change the path of a repository, in its row and in all rows that contain the path."""
    params = {"path": path, "id": project.id}
    for table in _FILED_BY_NAME:
        tx.execute(f"UPDATE {table} SET repo_full_name = :path WHERE project_id = :id", params)
    tx.execute("UPDATE projects SET path = :path WHERE id = :id", params)


def store_repository(
    tx: Transaction,
    database: Database,
    source: str,
    configured: str,
    record: ProjectRecord,
    now_ms: int,
    base_url: str | None = None,
) -> ProjectRow:
    """Store a repository; if it was renamed, also update the rows that contain its name."""
    known = find_remote(database, source, record.remote_id)
    if known is not None and known.path != record.path:
        rename_repository(tx, known, record.path)
    return save_project(tx, source, configured, record, now_ms, base_url)


def check_identity(project: ProjectRow, remote_id: int, name: str | None = None) -> None:
    """Raise RepositoryReplaced if `name`, by default the current name, now belongs to another repository."""
    if remote_id != project.remote_id:
        if name is not None and name != project.path:
            raise RepositoryReplaced(
                f"{name} on {project.source} is another repository now (id {remote_id}); {project.path} (id"
                f" {project.remote_id}), which had that name before, is still followed",
                fix=f"change the name in the configuration to {project.path}; to follow the other repository instead,"
                f" run `lore sources accept {project.source} {project.configured}`",
                reason="replaced",
                project=project.path,
                known_id=project.remote_id,
                found_id=remote_id,
            )
        raise RepositoryReplaced(
            f"{name or project.path} on {project.source} is another repository now (id {remote_id}, known is"
            f" {project.remote_id}); nothing was read or written",
            fix=f"correct the name in the configuration; to follow the other repository from now on, run"
            f" `lore sources accept {project.source} {project.configured}`",
            reason="replaced",
            project=project.path,
            known_id=project.remote_id,
            found_id=remote_id,
        )


def set_tracking_rule(tx: Transaction, project_id: int, rule: str) -> None:
    """Store the rule by which open pull requests were last tracked."""
    tx.execute("UPDATE projects SET tracking_rule = :rule WHERE id = :id", {"rule": rule, "id": project_id})


def set_configured(tx: Transaction, project: ProjectRow, configured: str) -> None:
    """Change the name of a project in the configuration."""
    tx.execute(
        "UPDATE projects SET configured = :configured WHERE id = :id", {"configured": configured, "id": project.id}
    )


def find_configured(database: Database, source: str, configured: str) -> ProjectRow | None:
    """Return the project that a configured name was resolved to before."""
    rows = database.read(
        f"SELECT {_FIELDS} FROM projects WHERE source = :source AND configured = :configured ORDER BY id DESC LIMIT 1",
        {"source": source, "configured": configured},
    )
    return ProjectRow(*rows[0]) if rows else None


def find_project(database: Database, project_id: int) -> ProjectRow | None:
    """Return the project with this row id."""
    rows = database.read(f"SELECT {_FIELDS} FROM projects WHERE id = :id", {"id": project_id})
    return ProjectRow(*rows[0]) if rows else None


def find_remote(database: Database, source: str, remote_id: int) -> ProjectRow | None:
    """Return the project with this id on its forge."""
    rows = database.read(
        f"SELECT {_FIELDS} FROM projects WHERE source = :source AND remote_id = :remote_id",
        {"source": source, "remote_id": remote_id},
    )
    return ProjectRow(*rows[0]) if rows else None


def was_renamed(database: Database, project_id: int, table: str) -> bool:
    """Return whether a list's newest item has a URL outside its project's URL, which was stored before it."""
    rows = database.read(
        f"SELECT p.web_url, i.web_url FROM projects p CROSS JOIN (SELECT web_url, last_seen_at FROM {table}"
        " WHERE project_id = :id ORDER BY updated_at DESC LIMIT 1) i"
        " WHERE p.id = :id AND i.last_seen_at >= p.updated_at",
        {"id": project_id},
    )
    return any(home and item and not item.startswith(f"{home}/") for home, item in rows)


def list_projects(database: Database, configured: Collection[str] | None = None) -> list[ProjectRow]:
    """Return every project, or those with one of these configured names."""
    where = "" if configured is None else f" WHERE configured {database.among('names')}"
    params = None if configured is None else {"names": database.texts(configured)}
    rows = database.read(f"SELECT {_FIELDS} FROM projects{where} ORDER BY source, path, id", params)
    return [ProjectRow(*row) for row in rows]


def find_projects(database: Database, source: str, remote_ids: Iterable[int]) -> list[ProjectRow]:
    """Return the stored projects of a host among these numbers of its forge; one too large for a column finds none."""
    rows = database.read(
        f"SELECT {_FIELDS} FROM projects WHERE source = :source AND remote_id {database.among('ids')}",
        {"source": source, "ids": database.integers(number for number in remote_ids if abs(number) < 2**63)},
    )
    return [ProjectRow(*row) for row in rows]


def match_project(database: Database, name: str) -> ProjectRow:
    """Return the one project that matches a path, or the end of one."""
    return match_one(name, list_projects(database), lambda project: (project.path, project.configured), "project")
