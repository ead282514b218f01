"""Merge and pull requests of every forge. Owns the table `merge_requests` and what hangs on its rows."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from tidelore.model import Item, MergeRequestRecord
from tidelore.store.database import Row, Transaction
from tidelore.store.labels import relink_labels, relink_people
from tidelore.store.parents import IDENTITY, LinkCounts, row_ids, upsert_sql

TABLE = "merge_requests"
RESOURCE_TYPE = "merge_request"

_COLUMNS = (
    "iid", "title", "description", "state", "author_username", "source_branch", "target_branch",
    "head_sha", "references_short", "references_full", "detailed_merge_status", "merge_user_username",
    "milestone_title", "user_notes_count", "created_at", "updated_at", "merged_at", "closed_at", "web_url",
)  # fmt: skip
_FLAGS = ("draft",)
_NAMES = (*_COLUMNS, *_FLAGS, *IDENTITY)
_UPSERT = upsert_sql(TABLE, (*_COLUMNS, *_FLAGS))
_values = attrgetter(*_COLUMNS)
_PARENT = "merge_request_id"


def write_merge_requests(
    tx: Transaction, project_id: int, items: Sequence[Item[MergeRequestRecord]], known: set[int], now_ms: int
) -> LinkCounts:
    """Upsert merge requests whose payloads are stored, and link labels, assignees and reviewers anew."""
    tx.execute_rows(_UPSERT, _NAMES, [_row(project_id, item, now_ms) for item in items])
    ids = row_ids(tx, TABLE, project_id, [item.record.remote_id for item in items])
    counts = LinkCounts()
    for fresh in (True, False):
        group = [item.record for item in items if (item.record.remote_id not in known) is fresh]
        if not group:
            continue
        counts.labels_created += relink_labels(
            tx, project_id, "mr_labels", _PARENT, {ids[r.remote_id]: r.labels for r in group}, fresh
        )
        counts.assignees += relink_people(
            tx, "mr_assignees", _PARENT, {ids[r.remote_id]: r.assignees for r in group}, fresh
        )
        counts.reviewers += relink_people(
            tx, "mr_reviewers", _PARENT, {ids[r.remote_id]: r.reviewers for r in group}, fresh
        )
    return counts


def _row(project_id: int, item: Item[MergeRequestRecord], now_ms: int) -> Row:
    """Return the values of `_NAMES`; flags are integers because both databases store them so."""
    record = item.record
    return (
        *_values(record),
        int(record.draft),
        record.remote_id,
        project_id,
        now_ms,
        item.version.digest,
    )
