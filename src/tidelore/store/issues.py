"""Issues of every forge. Owns the table `issues` and what hangs on its rows."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from tidelore.model import IssueRecord, Item
from tidelore.store.database import Row, Transaction
from tidelore.store.labels import relink_labels, relink_people
from tidelore.store.parents import IDENTITY, LinkCounts, row_ids, upsert_sql

TABLE = "issues"
RESOURCE_TYPE = "issue"

_COLUMNS = (
    "iid", "title", "description", "state", "author_username", "milestone_title", "due_date",
    "issue_type", "user_notes_count", "time_estimate_seconds", "time_spent_seconds",
    "references_short", "references_full", "created_at", "updated_at", "closed_at", "web_url",
)  # fmt: skip
_FLAGS = ("confidential", "discussion_locked")
_NAMES = (*_COLUMNS, *_FLAGS, *IDENTITY)
_UPSERT = upsert_sql(TABLE, (*_COLUMNS, *_FLAGS))
_values = attrgetter(*_COLUMNS)


def write_issues(
    tx: Transaction, project_id: int, items: Sequence[Item[IssueRecord]], known: set[int], now_ms: int
) -> LinkCounts:
    """Upsert issues whose payloads are stored, and link their labels and assignees anew."""
    tx.execute_rows(_UPSERT, _NAMES, [_row(project_id, item, now_ms) for item in items])
    ids = row_ids(tx, TABLE, project_id, [item.record.remote_id for item in items])
    counts = LinkCounts()
    for fresh in (True, False):
        group = [item.record for item in items if (item.record.remote_id not in known) is fresh]
        if not group:
            continue
        counts.labels_created += relink_labels(
            tx, project_id, "issue_labels", "issue_id", {ids[r.remote_id]: r.labels for r in group}, fresh
        )
        counts.assignees += relink_people(
            tx, "issue_assignees", "issue_id", {ids[r.remote_id]: r.assignees for r in group}, fresh
        )
    return counts


def _row(project_id: int, item: Item[IssueRecord], now_ms: int) -> Row:
    """Return the values of `_NAMES`; flags are integers because both databases store them so."""
    record = item.record
    return (
        *_values(record),
        int(record.confidential),
        int(record.discussion_locked),
        record.remote_id,
        project_id,
        now_ms,
        item.version.digest,
    )
