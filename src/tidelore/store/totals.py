"""How much waits, in numbers. Owns the cheap counts of a status view: each is read from an index, none from the copy.

A view that is drawn every second may ask for these, however large the copy is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from tidelore.store.action_tokens import OPEN
from tidelore.store.child_progress import IS_DUE
from tidelore.store.database import Database
from tidelore.store.feedback_events import OF_ENDED
from tidelore.store.kinds import PARENT_KINDS, ParentKind


class Totals(Struct, frozen=True):
    """What waits for whom. `pulls` and `accounts` are counted by their status.

    Events of merged or closed pull requests wait for nobody, and are counted apart.
    """

    pulls: Mapping[str, int]
    accounts: Mapping[str, int]
    accounts_due: int
    events_waiting: int
    events_in_flight: int
    events_of_closed: int
    commands_waiting: int
    answers_waiting: int
    documents_waiting: int
    quarantined: int
    children_failing: int = 0


def read_totals(database: Database, now_ms: int) -> Totals:
    """Return what waits."""
    now = {"now": now_ms}
    events = database.read(
        f"SELECT COUNT(*), COUNT(CASE WHEN e.leased_until > :now THEN 1 END), COUNT(CASE WHEN {OF_ENDED} THEN 1 END)"
        " FROM feedback_events e WHERE e.processed_at IS NULL",
        now,
    )[0]
    return Totals(
        pulls=dict(database.read("SELECT status, COUNT(*) FROM tracked_prs GROUP BY status ORDER BY status")),
        accounts=dict(database.read("SELECT state, COUNT(*) FROM accounts GROUP BY state ORDER BY state")),
        accounts_due=_count(database, "accounts WHERE state <> 'paused' AND next_poll_at <= :now", now),
        events_waiting=int(events[0]) - int(events[2]),
        events_in_flight=int(events[1]),
        events_of_closed=int(events[2]),
        commands_waiting=_count(database, "operator_commands WHERE status = 'pending'"),
        answers_waiting=_count(database, f"outbox WHERE {OPEN}"),
        documents_waiting=_count(database, "dirty_sources"),
        quarantined=_count(database, "quarantine"),
        children_failing=sum(
            _failing(database, kind, name) for kind in PARENT_KINDS.values() for name in kind.children
        ),
    )


def has_answers_to_send(database: Database, project_ids: Collection[int], now_ms: int) -> bool:
    """Tell whether a command waits to be applied, or an answer is due, in one of these repositories."""
    ours = f"project_id {database.among('projects')}"
    params = {"projects": database.integers(project_ids), "now": now_ms}
    due = "(next_attempt_at IS NULL OR next_attempt_at <= :now) AND (claimed_until IS NULL OR claimed_until <= :now)"
    known = {"projects": params["projects"]}
    return bool(
        database.read(f"SELECT 1 FROM outbox WHERE {OPEN} AND {ours} AND {due} LIMIT 1", params)
        or database.read(f"SELECT 1 FROM operator_commands WHERE status = 'pending' AND {ours} LIMIT 1", known)
    )


def lacks_vectors(database: Database) -> bool:
    """Tell whether a document has no vector of what it says, of any model."""
    rows = database.read(
        "SELECT 1 FROM documents d WHERE NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.document_id = d.id"
        " AND e.position = 0 AND e.content_hash = d.content_hash) LIMIT 1"
    )
    return bool(rows)


def _failing(database: Database, kind: ParentKind, name: str) -> int:
    """Count the due child lists that could not be read; what is refused for a whole project is no failure."""
    refused = (
        "SELECT project_id FROM refused_children WHERE attempts > 0 AND parent_kind = :parent_kind AND kind = :kind"
    )
    return _count(
        database,
        f"child_sync c {database.by_index('idx_child_sync_due')} WHERE c.parent_kind = :parent_kind AND c.kind = :kind"
        f" AND {IS_DUE} AND c.attempts > 0 AND c.project_id NOT IN ({refused})",
        {"parent_kind": kind.table, "kind": name},
    )


def _count(database: Database, what: str, params: Mapping[str, object] | None = None) -> int:
    return int(database.read(f"SELECT COUNT(*) FROM {what}", params)[0][0])
