"""What is behind: the children that are due, settling or failing, and how long ago the others were read.

Counting costs what is due, not the length of history: the partial index holds nothing else.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.config import Sync
from tidelore.store.child_progress import due_rows, kind_params, oldest_reading
from tidelore.store.database import Database
from tidelore.store.kinds import ParentKind
from tidelore.store.refusals import find_refusal


class Backlog(Struct, frozen=True):
    """One kind of children of one list.

    `due` parents are not synced for their version. Of these the `settling` were read too soon after their change to
    be sure, and the `failing` could not be read the last time: `error` is what the latest of them met. `oldest` is
    when the children that were not read for the longest time were read. `unavailable` is why the server refuses this
    kind for the whole project: then nothing of it counts as failing, and it is tried again at `next_attempt_at`.
    """

    kind: str
    due: int
    settling: int
    failing: int
    error: str | None
    oldest: int | None
    unavailable: str | None = None
    next_attempt_at: int | None = None


def wanted_children(kind: ParentKind, settings: Sync) -> tuple[str, ...]:
    """Return the kinds of children that are to be read for a list."""
    wanted = {
        "discussions": True,
        "resource_events": settings.fetch_resource_events,
        "closes_issues": settings.fetch_mr_closes_issues,
        "diffs": settings.fetch_mr_diffs,
        "reviewers": settings.verify_reviewers,
    }
    return tuple(name for name in kind.children if wanted[name])


def count_due(database: Database, kind: ParentKind, name: str, project_id: int) -> tuple[int, int]:
    """Return how many parents of a project are due for one kind of children, and how many there are."""
    due = database.read(f"SELECT COUNT(*) {due_rows(database)}", kind_params(kind, name, project_id))
    live = database.read(
        f"SELECT COUNT(*) FROM {kind.table} WHERE project_id = :project_id AND deleted_at IS NULL",
        {"project_id": project_id},
    )
    return int(due[0][0]), int(live[0][0])


def read_backlog(database: Database, kind: ParentKind, name: str, project_id: int) -> Backlog:
    """Return how far one kind of children of a project is behind."""
    params, behind = kind_params(kind, name, project_id), due_rows(database)
    due, settling, failing = database.read(
        "SELECT COUNT(*), COUNT(CASE WHEN c.fetched_for = c.parent_updated_at THEN 1 END),"
        f" COUNT(CASE WHEN c.attempts > 0 THEN 1 END) {behind}",
        params,
    )[0]
    errors = database.read(
        f"SELECT c.last_error {behind} AND c.attempts > 0 ORDER BY c.last_attempt_at DESC, c.parent_id LIMIT 1", params
    )
    read_at = oldest_reading(database, kind, name, project_id)
    refused = find_refusal(database, kind, name, project_id)
    if refused is not None:
        return Backlog(name, int(due), int(settling), 0, None, read_at, refused.error, refused.next_attempt_at)
    return Backlog(name, int(due), int(settling), int(failing), errors[0][0] if errors else None, read_at)
