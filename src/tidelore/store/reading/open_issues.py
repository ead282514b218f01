"""Reads the texts of open issues, to compare them with each other."""

from __future__ import annotations

from typing import NamedTuple

from tidelore.store.database.port import Database


class OpenIssue(NamedTuple):
    """An open issue with its text."""

    id: int
    project: str
    iid: int
    references_full: str | None
    title: str
    description: str
    author: str | None
    created_at: int
    updated_at: int
    web_url: str | None


def read_open_issues(database: Database, project_id: int | None, limit: int) -> list[OpenIssue]:
    """Return the open issues that were updated last, newest first."""
    narrowed = "" if project_id is None else " AND t.project_id = :project_id"
    rows = database.read(
        "SELECT t.id, p.path, t.iid, t.references_full, t.title, COALESCE(t.description, ''), t.author_username,"
        " t.created_at, t.updated_at, t.web_url FROM issues t JOIN projects p ON p.id = t.project_id"
        f" WHERE t.deleted_at IS NULL AND t.state = 'opened'{narrowed}"
        " ORDER BY t.updated_at DESC, t.id DESC LIMIT :limit",
        {"limit": limit} | ({} if project_id is None else {"project_id": project_id}),
    )
    return [OpenIssue(*row) for row in rows]
