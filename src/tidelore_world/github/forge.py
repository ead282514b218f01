"""The simulated GitHub as the world sees it: events, requests, and the truth to compare with.

Owns the wiring of hub, limits, handlers and routes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tidelore_world.github import bulk, churn
from tidelore_world.github.apps import Apps
from tidelore_world.github.disturbance import disturb
from tidelore_world.github.graphql import GraphQL
from tidelore_world.github.history import write_history
from tidelore_world.github.hooks import Hooks
from tidelore_world.github.hub import Hub
from tidelore_world.github.lateness import LateWrites
from tidelore_world.github.limits import Limits
from tidelore_world.github.reads import Reads
from tidelore_world.github.routes import Router, below_enterprise, route_table
from tidelore_world.github.serving import Desk
from tidelore_world.github.truth import Truth
from tidelore_world.github.writes import Writes
from tidelore_world.wire import Request, Response

if TYPE_CHECKING:
    from tidelore_world.world import World


class GitHubForge(Truth):
    """A GitHub with repositories, issues, pull requests, reviews and discussions."""

    def __init__(self, world: World) -> None:
        super().__init__(Hub(), world.clock, world.rng)
        self._world = world
        self.limits = Limits(world.clock, self.settings)
        self.apps = Apps(world.clock, self.settings, world.rng)
        self.late = LateWrites(world.clock)
        desk = Desk(self.settings, self.limits, self.apps)
        reads = Reads(self.hub, self.settings, world.clock)
        self._hooks = Hooks()
        self.hooks = self._hooks.rows
        table = route_table(reads, Writes(self, desk, self.late, world.rng), self._hooks)
        self._router = Router(self.hub, desk, table, GraphQL(self, desk))

    def route(self, request: Request) -> tuple[str, Callable[[], Response]] | None:
        """Name the route and give its handler; None when the path belongs to somebody else."""
        self.land_late_writes()
        return self._router.route(request)

    def other_path(self, request: Request) -> str | None:
        """Return the path by name of a request that names a repository by its number."""
        segments = below_enterprise(request).segments
        if segments[0] != "repositories" or len(segments) < 2 or not segments[1].isdecimal():
            return None
        repo = self.hub.repositories.get(int(segments[1]))
        return None if repo is None else "/".join(("/repos", repo.full_name, *segments[2:]))

    def disturb(self, request: Request, row: Mapping[str, Any], change: Literal["edit", "delete"]) -> bool:  # noqa: ARG002
        """Edit or delete what a list row shows, for the faults that strike between two pages."""
        return disturb(self, row, change)

    def populate(self, scale: float = 1.0) -> None:
        """Fill the hub with two repositories and the months of work before the world's present."""
        write_history(self, self._world.prose, self._world.rng, self._world.clock.now_us, scale)

    def change(
        self,
        count: int,
        rng: random.Random,
        kinds: Sequence[str] | None = None,
        advance: Callable[[float], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Let a seeded mix of things happen; answers what was done."""
        return churn.change(self, self._world.prose, count, rng, kinds, advance)

    def bulk(self, full_name: str, *, pulls: int = 0, issues: int = 0, threads: int = 0, comments: int = 0) -> None:
        """Add many pull requests and issues fast, each with so many review threads of so many comments."""
        bulk.fill(self, self._world.prose, full_name, pulls=pulls, issues=issues, threads=threads, comments=comments)

    def land_late_writes(self) -> None:
        """Let everything happen that was accepted and is due."""
        self.late.land()
