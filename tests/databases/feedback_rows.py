"""Rows of feedback tables, read directly: what tests look at and the program itself never asks for."""

from __future__ import annotations

from tests.databases.feedback_samples import REPO

from tidelore.store.database.port import Database
from tidelore.store.work.action_tokens import ActionToken


def read_action_token(database: Database, token: str, repo: str = REPO) -> ActionToken | None:
    """Return one row of `action_tokens`."""
    rows = database.read(
        f"SELECT {', '.join(ActionToken.__struct_fields__)} FROM action_tokens"
        " WHERE repo_full_name = :repo AND token = :token",
        {"repo": repo, "token": token},
    )
    return ActionToken(*rows[0]) if rows else None


def count_events(database: Database, project_id: int) -> int:
    """Return how many events were ever stored of a project."""
    ((count,),) = database.read(
        "SELECT COUNT(*) FROM feedback_events WHERE project_id = :project_id", {"project_id": project_id}
    )
    return int(count)


def followup_comments(database: Database, event_id: int) -> list[int]:
    """Return the comments that a batched event carries, in the order of their ids."""
    rows = database.read(
        "SELECT comment_id FROM issue_followups WHERE event_id = :event_id ORDER BY comment_id",
        {"event_id": event_id},
    )
    return [comment_id for (comment_id,) in rows]
