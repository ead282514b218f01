"""The status read model. Owns the questions 'how far, how fresh, what is wrong'; never makes a network call."""

from __future__ import annotations

from msgspec import Struct

from tidelore.store.cursors import CursorRow, list_cursors
from tidelore.store.database import Database
from tidelore.store.projects import ProjectRow, list_projects
from tidelore.store.quarantine import QuarantineRow, list_quarantine
from tidelore.store.runs import RunView, list_runs


class Status(Struct, frozen=True):
    """Everything a status view shows."""

    projects: list[ProjectRow]
    cursors: list[CursorRow]
    quarantine: list[QuarantineRow]
    runs: list[RunView]

    @property
    def oldest_verification(self) -> int | None:
        """When the least recently verified list was verified; None while one never was."""
        moments = [cursor.verified_at for cursor in self.cursors]
        return min((m for m in moments if m is not None), default=None) if None not in moments else None


def read_status(database: Database, runs: int = 5) -> Status:
    """Read the whole status."""
    return Status(list_projects(database), list_cursors(database), list_quarantine(database), list_runs(database, runs))
