"""Counts how complete the copy is: for each project and kind of list or children, what is stored, due or failing."""

from __future__ import annotations

from typing import NamedTuple

from tidelore.store.database.port import Database
from tidelore.store.database.statements import Where
from tidelore.store.mirror.kinds import POSITIONS


class ListCoverage(NamedTuple):
    """A list of a project: how many items are stored, whether its first reading is complete, and when it was read.

    Items last updated before `horizon_at` were left out.
    """

    source: str
    project: str
    surface: str
    stored: int
    is_complete: int
    polled_at: int | None
    horizon_at: int | None


class ChildCoverage(NamedTuple):
    """One kind of children of all issues or merge requests of a project, counted by their parents."""

    source: str
    project: str
    parent_kind: str
    kind: str
    parents: int
    current: int
    outdated: int
    never_read: int
    failing: int


class Refusal(NamedTuple):
    """A kind of children that the server refuses for a whole project."""

    source: str
    project: str
    parent_kind: str
    kind: str
    error: str


_COUNTED = {"issues": "issues", "merge_requests": "merge_requests", "pulls": "merge_requests", "topics": "topics"}


def read_lists(database: Database) -> list[ListCoverage]:
    """Return the lists of every project, with the number of live items stored from them."""
    totals = {
        (project_id, table): int(count)
        for table in ("issues", "merge_requests", "topics")
        for project_id, count in database.read(
            f"SELECT project_id, COUNT(*) FROM {table} WHERE deleted_at IS NULL GROUP BY project_id"
        )
    }
    rows = database.read(
        "SELECT c.project_id, p.source, p.path, c.surface, c.bootstrap_complete, c.watermark_at, c.polled_at,"
        " c.horizon_at FROM cursors c JOIN projects p ON p.id = c.project_id ORDER BY p.path, c.surface"
    )
    found = []
    for project_id, source, path, surface, complete, watermark, *times in rows:
        table = _COUNTED.get(surface.rpartition(".")[2])
        if table is not None:
            whole = int(bool(complete) or watermark is not None)
            found.append(ListCoverage(source, path, surface, totals.get((project_id, table), 0), whole, *times))
    return found


def read_children(database: Database, project_id: int | None = None) -> list[ChildCoverage]:
    """Return how far each kind of children was read in every project."""
    # What is read on demand counts only while it is due.
    where = Where(f"NOT (c.kind = '{POSITIONS}' AND c.synced_for >= c.parent_updated_at)")
    where.narrow("c.project_id = :project_id", project_id=project_id)
    rows = database.read(
        "SELECT p.source, p.path, c.parent_kind, c.kind, COUNT(*),"
        " SUM(CASE WHEN c.fetched_for = c.parent_updated_at THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN c.fetched_for < c.parent_updated_at THEN 1 ELSE 0 END),"
        " SUM(CASE WHEN c.fetched_for IS NULL THEN 1 ELSE 0 END), SUM(CASE WHEN c.attempts > 0 THEN 1 ELSE 0 END)"
        f" FROM child_sync c JOIN projects p ON p.id = c.project_id WHERE {where}"
        " GROUP BY p.source, p.path, c.parent_kind, c.kind ORDER BY p.path, c.parent_kind, c.kind",
        where.params,
    )
    return [ChildCoverage(*row[:4], *map(int, row[4:])) for row in rows]


def read_refusals(database: Database) -> list[Refusal]:
    """Return the kinds of children that count as unavailable."""
    rows = database.read(
        "SELECT p.source, p.path, r.parent_kind, r.kind, r.error FROM refused_children r"
        " JOIN projects p ON p.id = r.project_id WHERE r.attempts > 0"
    )
    return [Refusal(*row) for row in rows]


def request_rate(database: Database) -> float | None:
    """Return how many requests a second the last runs made; None if there were none long enough to tell."""
    rows = database.read(
        "SELECT requests, finished_at - started_at FROM sync_runs WHERE finished_at IS NOT NULL AND requests >= 20"
        " ORDER BY id DESC LIMIT 5"
    )
    sent, spent = sum(row[0] for row in rows), sum(row[1] for row in rows)
    return sent * 1000 / spent if spent > 0 else None
