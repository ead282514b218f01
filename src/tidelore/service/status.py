"""The status read model. Owns the questions 'how far, how fresh, what is wrong'; never makes a network call.

Three depths, by what they cost: `read_service` reads a few rows, `read_overview` adds counts and may be asked every
second, `read_status` goes through every list and the children of its items.
"""

from __future__ import annotations

from msgspec import Struct

from tidelore.core.config import Config, sync_settings
from tidelore.core.process import is_dead
from tidelore.engine.lease import LeaseRow, why_takeable
from tidelore.service.health import Health, judge
from tidelore.store.database.port import Database
from tidelore.store.mirror.child_progress import Backlog, read_backlog, wanted_children
from tidelore.store.mirror.cursors import CursorRow, list_cursors
from tidelore.store.mirror.kinds import PARENT_KINDS
from tidelore.store.mirror.projects import ProjectRow, list_projects
from tidelore.store.mirror.quarantine import QuarantineRow, list_quarantine
from tidelore.store.reading.totals import Totals, read_totals
from tidelore.store.work.leases import LeaseTable
from tidelore.store.work.runs import RunView, last_sync, list_runs
from tidelore.store.work.service_records import BudgetRow, JobRow, list_budgets, list_jobs

LEASE = "service"
"""Whoever holds it is the service of a database."""
_SILENT_MS = 600_000


class ListStatus(Struct, frozen=True):
    """One list: its reading position, and how far the children of its items are behind."""

    cursor: CursorRow
    children: list[Backlog]


class Status(Struct, frozen=True):
    """Everything a status view shows."""

    projects: list[ProjectRow]
    lists: list[ListStatus]
    quarantine: list[QuarantineRow]
    runs: list[RunView]

    @property
    def oldest_verification(self) -> int | None:
        """When the least recently verified list was verified; None while one never was."""
        moments = [entry.cursor.verified_at for entry in self.lists]
        return min((m for m in moments if m is not None), default=None) if None not in moments else None

    @property
    def oldest_children(self) -> int | None:
        """When the children were read that were not read for the longest time; None before the first ones were."""
        moments = [backlog.oldest for entry in self.lists for backlog in entry.children]
        return min((m for m in moments if m is not None), default=None)


class ServiceStatus(Struct, frozen=True):
    """The service and its jobs. Without a holder none runs, and the jobs are as the last one left them.

    `budgets` are what sources said is left of their rate limits, as far as that still holds.
    """

    holder: LeaseRow | None
    since: int
    jobs: list[JobRow]
    health: Health
    budgets: dict[str, BudgetRow] = {}


class Overview(Struct, frozen=True):
    """What goes on, in little: the service, the newest runs, and what waits."""

    service: ServiceStatus
    runs: list[RunView]
    last_sync: RunView | None
    totals: Totals

    @property
    def is_healthy(self) -> bool:
        """Whether every source is fresh; without a service, whether the newest sync that ended brought everything."""
        if self.service.holder is not None:
            return self.service.health.ok
        return self.last_sync is None or self.last_sync.status == "succeeded"


def read_service(database: Database, now_ms: int, silent_ms: int = _SILENT_MS) -> ServiceStatus:
    """Read who runs the service, and how its jobs stand."""
    row = LeaseTable(database).read(LEASE)
    held = row is not None and why_takeable(row, now_ms, silent_ms, False, is_dead) is None
    jobs = list_jobs(database)
    since = now_ms if row is None else row.acquired_at
    budgets = {one.source: one for one in list_budgets(database) if one.is_current(now_ms)}
    return ServiceStatus(row if held else None, since, jobs, judge(jobs, since, now_ms), budgets)


def read_overview(database: Database, now_ms: int, runs: int = 5) -> Overview:
    """Read what a view shows that is drawn again and again."""
    service, newest = read_service(database, now_ms), list_runs(database, runs)
    return Overview(service, newest, last_sync(database), read_totals(database, now_ms))


def read_status(database: Database, config: Config, runs: int = 5) -> Status:
    """Read the whole status; of children, the kinds that are to be read."""
    projects = list_projects(database)
    homes = {(project.source, str(project.remote_id)): project for project in projects}
    lists = [
        ListStatus(cursor, _children(database, config, cursor, homes.get((cursor.source, cursor.scope))))
        for cursor in list_cursors(database)
    ]
    return Status(projects, lists, list_quarantine(database), list_runs(database, runs))


def _children(database: Database, config: Config, cursor: CursorRow, project: ProjectRow | None) -> list[Backlog]:
    kind = PARENT_KINDS.get(cursor.surface.rpartition(".")[2])
    if kind is None or project is None:
        return []
    settings = sync_settings(config, project.source, project.configured)
    return [read_backlog(database, kind, name, project.id) for name in wanted_children(kind, settings)]
