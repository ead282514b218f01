"""The status read model. Owns the questions 'how far, how fresh, what is wrong'; never makes a network call."""

from __future__ import annotations

from msgspec import Struct

from tidelore.config import Config, sync_settings
from tidelore.store.backlog import Backlog, read_backlog, wanted_children
from tidelore.store.cursors import CursorRow, list_cursors
from tidelore.store.database import Database
from tidelore.store.kinds import PARENT_KINDS
from tidelore.store.projects import ProjectRow, list_projects
from tidelore.store.quarantine import QuarantineRow, list_quarantine
from tidelore.store.runs import RunView, list_runs


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
