"""Reads bounded numbers about current activity for the live dashboard.

Every query uses an index and stops after a fixed number of rows, so its cost does not grow with history; if there are
more, it returns the bound. Writes nothing.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.store.database.port import Database
from tidelore.store.database.statements import escape_like
from tidelore.store.mirror.accounts import AccountRow
from tidelore.store.mirror.child_progress import IS_DUE
from tidelore.store.mirror.kinds import ParentKind
from tidelore.store.work.action_tokens import OPEN
from tidelore.store.work.events import OF_ENDED
from tidelore.store.work.outbox import OUTBOX_ROWS, OutboxRow
from tidelore.store.work.runs import UNFINISHED, RunRecord

MOST = 500
"""The counting limit; shown as 'five hundred or more'."""
_RECENT = 400
_LATEST = 200
_ARRIVED = 10
"""The number of delivered answers to keep showing, so that users see that answers are delivered."""
_RECORDS = f"SELECT {', '.join(RunRecord.__struct_fields__)} FROM sync_runs"
_ACCOUNTS = f"SELECT {', '.join(AccountRow.__struct_fields__)} FROM accounts"


class Positions(Struct, frozen=True):
    """The cursors of one surface: how many, how many are incomplete, and the most recent poll."""

    source: str
    surface: str
    scopes: int
    unfinished: int
    newest_at: int | None


class RunCost(Struct, frozen=True):
    """The time, cost and result of one run."""

    started_at: int
    ended_at: int
    requests: int
    items: int


def positions(database: Database) -> list[Positions]:
    """Return the cursors, summed up by surface."""
    rows = database.read(
        "SELECT source, surface, COUNT(*), SUM(1 - bootstrap_complete), MAX(polled_at) FROM cursors"
        " GROUP BY source, surface ORDER BY source, surface"
    )
    return [Positions(source, surface, int(n), int(first), new) for source, surface, n, first, new in rows]


def running(database: Database) -> list[RunRecord]:
    """Return the runs in progress."""
    rows = database.read(f"{_RECORDS} WHERE status = 'running' ORDER BY id LIMIT 50")
    return [RunRecord(*row) for row in rows]


def newest_runs(database: Database, limit: int) -> list[RunRecord]:
    """Return the newest runs first."""
    return [RunRecord(*row) for row in database.read(f"{_RECORDS} ORDER BY id DESC LIMIT :limit", {"limit": limit})]


def newest_unfinished(database: Database, limit: int) -> list[RunRecord]:
    """Return the newest runs that were not completed; the phase of such a run is its final state."""
    rows = [
        row
        for end in UNFINISHED
        for row in database.read(
            f"{_RECORDS} WHERE status = :end AND phase = :end ORDER BY started_at DESC LIMIT :limit",
            {"end": end, "limit": limit},
        )
    ]
    return sorted((RunRecord(*row) for row in rows), key=lambda run: -run.id)[:limit]


def run_costs(database: Database, since_ms: int) -> list[RunCost]:
    """Return the costs and results of the newest runs that were active since an instant."""
    rows = database.read(
        "SELECT started_at, COALESCE(finished_at, heartbeat_at), requests, issues_ingested + mrs_ingested"
        " FROM sync_runs ORDER BY id DESC LIMIT :recent",
        {"recent": _RECENT},
    )
    return [RunCost(*row) for row in rows if row[1] >= since_ms]


def arrivals(database: Database, since_ms: int) -> list[int]:
    """Return when the newest posts and events since an instant were stored."""
    found: list[int] = []
    for table, column in (("posts", "first_seen_at"), ("feedback_events", "ingested_at")):
        rows = database.read(f"SELECT {column} FROM {table} ORDER BY id DESC LIMIT :most", {"most": MOST})
        found += [at for (at,) in rows if at >= since_ms]
    return found


def answers(database: Database) -> list[OutboxRow]:
    """Return the answers that were not delivered yet, newest first.

    Also returns, of the latest answers, those that could not be posted and the few that were delivered last.
    """
    waiting = database.read(f"{OUTBOX_ROWS} WHERE {OPEN} ORDER BY id LIMIT :most", {"most": _LATEST})
    latest = database.read(f"{OUTBOX_ROWS} ORDER BY id DESC LIMIT :most", {"most": _LATEST})
    rows = [OutboxRow(*row) for row in waiting]
    ended = [OutboxRow(*row) for row in latest]
    rows += [row for row in ended if row.status == "failed"]
    rows += [row for row in ended if row.status == "observed"][:_ARRIVED]
    return sorted(rows, key=lambda row: -row.id)


def accounts(database: Database, part: str) -> list[AccountRow]:
    """Return accounts by handle, filtered by a part of it, up to the limit."""
    rows = database.read(
        f"{_ACCOUNTS} WHERE handle LIKE :part ESCAPE '~' ORDER BY handle, id LIMIT :most",
        {"part": f"%{escape_like(part.lower())}%", "most": MOST},
    )
    return [AccountRow(*row) for row in rows]


def due_parents(database: Database, kind: ParentKind, name: str) -> dict[int, int]:
    """Return how many parents are due for one kind of children, by project, up to the limit in total.

    Leaves out what the server refuses for a whole project, because it is not tried again before its pause is over.
    """
    refused = (
        "SELECT project_id FROM refused_children WHERE attempts > 0 AND parent_kind = :parent_kind AND kind = :kind"
    )
    rows = database.read(
        "SELECT project_id, COUNT(*) FROM (SELECT c.project_id FROM child_sync c"
        f" {database.by_index('idx_child_sync_due')} WHERE c.parent_kind = :parent_kind AND c.kind = :kind"
        f" AND {IS_DUE} AND c.project_id NOT IN ({refused}) LIMIT :most) AS due GROUP BY project_id",
        {"most": MOST, "parent_kind": kind.table, "kind": name},
    )
    return {int(project_id): int(count) for project_id, count in rows}


def due_accounts(database: Database, now_ms: int) -> int:
    """Return how many accounts are to be polled now."""
    return _bounded(database, "accounts WHERE state <> 'paused' AND next_poll_at <= :now", now=now_ms)


def waiting_documents(database: Database) -> int:
    """Return how many documents are to be generated."""
    return _bounded(database, "dirty_sources")


def waiting_events(database: Database) -> int:
    """Return how many events of open pull requests are unprocessed."""
    return _bounded(database, f"feedback_events e WHERE e.processed_at IS NULL AND NOT {OF_ENDED}")


def waiting_answers(database: Database) -> int:
    """Return how many answers were not delivered yet."""
    return _bounded(database, f"outbox WHERE {OPEN}")


def blocked_pulls(database: Database) -> int:
    """Return how many followed pull requests are blocked."""
    return _bounded(database, "tracked_prs WHERE status = 'blocked'")


def quarantined(database: Database) -> int:
    """Return how many items are in quarantine."""
    return _bounded(database, "quarantine")


def _bounded(database: Database, source: str, **params: int) -> int:
    rows = database.read(
        f"SELECT COUNT(*) FROM (SELECT 1 FROM {source} LIMIT :most) AS found", {**params, "most": MOST}
    )
    return int(rows[0][0])
