"""Finds the merge requests that a commit belongs to, by the ids of commits that are stored with them."""

from __future__ import annotations

from collections.abc import Sequence

from tidelore.store.database.port import Database


def requests_with_commits(database: Database, shas: Sequence[str], project_id: int | None) -> dict[str, int]:
    """Return the row of the merge request for each commit that merged it or is its head."""
    narrowed = "" if project_id is None else " AND m.project_id = :project_id"
    params: dict[str, object] = {"shas": database.texts(shas)}
    if project_id is not None:
        params["project_id"] = project_id
    found: dict[str, int] = {}
    # The commit that merged it is surer than its head, so it is looked up last and replaces what was found before.
    for column in ("head_sha", "merge_commit_sha"):
        rows = database.read(
            f"SELECT m.{column}, m.id FROM merge_requests m WHERE m.{column} {database.among('shas')}"
            f" AND m.deleted_at IS NULL{narrowed}",
            params,
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
