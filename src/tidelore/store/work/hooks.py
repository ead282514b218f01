"""Stores webhook deliveries and what waits to be read because of them.

Tables `hook_deliveries`, `hook_projects`. A delivery is stored once by its id and only says which item changed: the
copy is read from the forge. `count_missed` compares the stored items with the deliveries, so that a broken webhook is
visible: what polling stored although no delivery announced it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tidelore.store.database.port import Database, Transaction
from tidelore.store.database.statements import Where, insert
from tidelore.store.work.service_records import add_to_counter

RECEIVED = "lore_hooks_received_total"
MISSED = "lore_hook_missed_total"

LATE_MS = 60_000
"""How long a delivery may take before the change that it announces counts as missed."""
EARLY_MS = 120_000
"""How much earlier than the forge's time of a change its delivery may seem to arrive, because clocks differ."""

Kind = Literal["issues", "merge_requests"]


class Delivery(Struct, frozen=True):
    """An accepted delivery: what changed, by the id of the project on its forge. Without a number: something else.

    `silent`: the change may leave the update time of the item as it is, so its list does not show it. `foreign`: the
    webhook of another project announced it, which says nothing about the webhooks of this one.
    """

    source: str
    delivery_id: str
    remote_id: int
    kind: Kind | None
    number: int | None
    silent: bool
    received_at: int
    foreign: bool = False


Outcome = Literal["accepted", "duplicate", "unknown"]


def save_deliveries(database: Database, deliveries: Sequence[Delivery], projects: Mapping[int, int]) -> list[Outcome]:
    """Store deliveries of projects (row id by the forge's id), each once, and return what became of each."""
    found: list[Outcome] = []
    heard: dict[int, tuple[int, int]] = {}
    with database.transaction() as tx:
        for one in deliveries:
            project_id = projects.get(one.remote_id)
            if project_id is None:
                found.append("unknown")
                continue
            values = {
                "source": one.source,
                "delivery_id": one.delivery_id,
                "project_id": project_id,
                "kind": one.kind,
                "iid": one.number,
                "silent": int(one.silent),
                "received_at": one.received_at,
            }
            sql = f"{insert('hook_deliveries', values)} ON CONFLICT (source, delivery_id) DO NOTHING"
            stored = tx.change(sql, values)
            found.append("accepted" if stored else "duplicate")
            if stored and not one.foreign:
                first_at, _ = heard.get(project_id, (one.received_at, 0))
                heard[project_id] = (first_at, one.received_at)
        # Once for each project: in a storm nearly all deliveries are of a few. In order, so that no two writers wait
        # for each other.
        for project_id, (first_at, last_at) in sorted(heard.items()):
            tx.execute(
                "INSERT INTO hook_projects (project_id, first_at, last_at, checked_until)"
                " VALUES (:project_id, :first_at, :last_at, :first_at) ON CONFLICT (project_id)"
                " DO UPDATE SET last_at = excluded.last_at",
                {"project_id": project_id, "first_at": first_at, "last_at": last_at},
            )
    return found


def count_received(database: Database, counts: Mapping[tuple[str, str], int]) -> None:
    """Add to the counters of received deliveries, by source and result."""
    with database.transaction() as tx:
        for (source, result), amount in counts.items():
            add_to_counter(tx, RECEIVED, {"source": source, "result": result}, amount)


class Announced(Struct, frozen=True):
    """A project with waiting deliveries up to a row: the numbers of its items, by kind, that changed silently."""

    project_id: int
    configured: str
    upto: int
    silent: Mapping[str, frozenset[int]]


def waiting_projects(database: Database, source: str, limit: int, configured: str | None = None) -> list[Announced]:
    """Return the projects of a host that have waiting deliveries, the longest waiting first; each item counts once.

    With `configured`, only the project of this name.
    """
    where = Where("d.source = :source", "d.read_at IS NULL", source=source)
    where.narrow("p.configured = :configured", configured=configured)
    projects = database.read(
        "SELECT d.project_id, p.configured, MAX(d.id) FROM hook_deliveries d JOIN projects p ON p.id = d.project_id"
        f" WHERE {where} GROUP BY d.project_id, p.configured ORDER BY MIN(d.id) LIMIT :limit",
        {**where.params, "limit": limit},
    )
    rows = database.read(
        "SELECT DISTINCT project_id, kind, iid FROM hook_deliveries WHERE source = :source AND read_at IS NULL"
        f" AND silent = 1 AND kind IS NOT NULL AND project_id {database.among('ids')}",
        {"source": source, "ids": database.integers(project_id for project_id, *_ in projects)},
    )
    silent: dict[int, dict[str, set[int]]] = {}
    for project_id, kind, iid in rows:
        silent.setdefault(project_id, {}).setdefault(kind, set()).add(iid)
    return [
        Announced(project_id, name, upto, {kind: frozenset(iids) for kind, iids in silent.get(project_id, {}).items()})
        for project_id, name, upto in projects
    ]


def mark_read(database: Database, projects: Iterable[Announced], now_ms: int) -> None:
    """Record that these projects were read after their deliveries; later ones still wait."""
    with database.transaction() as tx:
        for one in projects:
            tx.execute(
                "UPDATE hook_deliveries SET read_at = :now WHERE project_id = :project_id AND id <= :upto"
                " AND read_at IS NULL",
                {"now": now_ms, "project_id": one.project_id, "upto": one.upto},
            )


def give_up_waiting(database: Database, source: str, before_ms: int, now_ms: int) -> int:
    """Stop waiting for old deliveries, whose project could not be read in time; polling reads it."""
    with database.transaction() as tx:
        return tx.change(
            "UPDATE hook_deliveries SET read_at = :now WHERE source = :source AND read_at IS NULL"
            " AND received_at < :before",
            {"now": now_ms, "source": source, "before": before_ms},
        )


def forget_deliveries(database: Database, before_ms: int) -> int:
    """Delete old deliveries, and return how many; one that the forge repeats after that is read again."""
    with database.transaction() as tx:
        return tx.change("DELETE FROM hook_deliveries WHERE received_at < :before", {"before": before_ms})


class HookedProject(Struct, frozen=True):
    """A project that has webhooks, and when its latest delivery came."""

    project_id: int
    last_at: int


def hooked_projects(database: Database) -> list[HookedProject]:
    """Return the projects that have had a delivery."""
    return [
        HookedProject(*row)
        for row in database.read("SELECT project_id, last_at FROM hook_projects ORDER BY project_id")
    ]


def live_projects(database: Database, heard_since_ms: int) -> set[int]:
    """Return the projects whose webhooks work: a delivery came since then, and no change was missed after the last."""
    rows = database.read(
        "SELECT project_id FROM hook_projects WHERE last_at >= :since AND last_at > COALESCE(missed_at, 0)",
        {"since": heard_since_ms},
    )
    return {project_id for (project_id,) in rows}


def received_ids(database: Database, source: str, ids: Sequence[str]) -> set[str]:
    """Return which of these deliveries were accepted here."""
    rows = database.read(
        f"SELECT delivery_id FROM hook_deliveries WHERE source = :source AND delivery_id {database.among('ids')}",
        {"source": source, "ids": database.texts(ids)},
    )
    return {delivery_id for (delivery_id,) in rows}


def count_missed(database: Database, source: str, now_ms: int) -> int:
    """Count the stored changes since the last check that no delivery announced, and return how many there were.

    Only projects with a delivery are compared, from their first one on. The latest change of each item counts.
    """
    until, missed = now_ms - LATE_MS, 0
    projects = database.read(
        "SELECT h.project_id, h.checked_until FROM hook_projects h JOIN projects p ON p.id = h.project_id"
        " WHERE p.source = :source AND h.checked_until < :until",
        {"source": source, "until": until},
    )
    if not projects:
        return 0
    with database.transaction() as tx:
        for project_id, since in projects:
            own = sum(_unannounced(tx, kind, project_id, since, until) for kind in ("issues", "merge_requests"))
            tx.execute(
                "UPDATE hook_projects SET checked_until = :until, missed_at = COALESCE(:missed_at, missed_at)"
                " WHERE project_id = :project_id",
                {"until": until, "project_id": project_id, "missed_at": now_ms if own else None},
            )
            missed += own
        add_to_counter(tx, MISSED, {"source": source}, missed)
    return missed


def _unannounced(tx: Transaction, kind: Kind, project_id: int, since: int, until: int) -> int:
    rows = tx.execute(
        f"SELECT COUNT(*) FROM {kind} i WHERE i.project_id = :project_id AND i.updated_at > :since"
        " AND i.updated_at <= :until AND i.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM hook_deliveries d"
        " WHERE d.project_id = i.project_id AND d.kind = :kind AND d.iid = i.iid"
        " AND d.received_at >= i.updated_at - :early)",
        {"project_id": project_id, "since": since, "until": until, "kind": kind, "early": EARLY_MS},
    )
    return int(rows[0][0])
