"""What polls cost. Owns the table `poll_costs`: how each repository was read last, and what reading it otherwise is
expected to cost. Refuses to choose: that is decided above.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.store.database import Database, Transaction


class PollCost(Struct, frozen=True):
    """How a repository was read last (`repo` or `thread`), and the requests a poll by feeds is expected to take."""

    mode: str
    feed_requests: float


def load_cost(database: Database, project_id: int) -> PollCost | None:
    """Return what is known of a repository's polls."""
    rows = database.read(
        "SELECT mode, feed_requests FROM poll_costs WHERE project_id = :project_id", {"project_id": project_id}
    )
    return PollCost(*rows[0]) if rows else None


def save_cost(tx: Transaction, project_id: int, cost: PollCost, now_ms: int) -> None:
    """Keep what a poll taught."""
    tx.execute(
        "INSERT INTO poll_costs (project_id, mode, feed_requests, updated_at)"
        " VALUES (:project_id, :mode, :feed_requests, :now) ON CONFLICT (project_id) DO UPDATE SET"
        " mode = excluded.mode, feed_requests = excluded.feed_requests, updated_at = excluded.updated_at",
        {"project_id": project_id, "mode": cost.mode, "feed_requests": cost.feed_requests, "now": now_ms},
    )
