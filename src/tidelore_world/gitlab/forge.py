"""The simulated GitLab, whole: rows, mutations, view, routes and history in one object the world can hold.

Owns the assembly only. Invariant: what is reachable here is what the brief of a forge asks for: `route`,
mutations, truth, `populate`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tidelore_world.gitlab import bulk, churn
from tidelore_world.gitlab.bulk_threads import Children
from tidelore_world.gitlab.history import write_history
from tidelore_world.gitlab.records import ProjectRef
from tidelore_world.gitlab.routes import find_route
from tidelore_world.gitlab.truth import Truth
from tidelore_world.wire import Request, Response


class GitLabForge(Truth):
    """A GitLab instance."""

    def route(self, request: Request) -> tuple[str, Callable[[], Response]] | None:
        """Name the route and give its handler; None when the path is not GitLab's."""
        return find_route(self, request)

    def populate(self, scale: float = 1.0) -> None:
        """Fill the months before the world's start with three projects and their conversations."""
        write_history(self, scale)

    def bulk(
        self,
        project: ProjectRef,
        issues: int = 0,
        merge_requests: int = 0,
        *,
        same_instant: bool = False,
        discussions: int = 0,
        notes: int = 0,
        events: int = 0,
        files: int = 0,
    ) -> None:
        """Add many items quickly: bare, or each with threads of `notes` notes, events of each family and files."""
        children = Children(discussions, notes, events, files) or None
        bulk.fill(self, project, issues, merge_requests, same_instant=same_instant, children=children)

    def change(
        self,
        count: int,
        rng: random.Random,
        kinds: Sequence[str] | None = None,
        advance: Callable[[float], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Make a seeded mix of changes and tell what was done."""
        return churn.change(self, count, rng, kinds, advance)

    def disturb(self, request: Request, row: Mapping[str, Any], change: Literal["edit", "delete"]) -> bool:
        """Edit or delete what a list row shows, for the faults that strike between two pages."""
        return churn.disturb(self, request, row, change)
