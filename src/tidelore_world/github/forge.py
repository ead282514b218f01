"""The simulated GitHub as the world sees it: events, requests, and the truth to compare with.

Owns the wiring of hub, limits, handlers and routes. Truth methods give what the API would show at this
moment, in the same shape, without paging, limits or faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tidelore_world.github import changes, churn, payloads, remarks
from tidelore_world.github.apps import Apps
from tidelore_world.github.disturbance import disturb
from tidelore_world.github.history import write_history
from tidelore_world.github.hub import Hub
from tidelore_world.github.lateness import LateWrites
from tidelore_world.github.limits import Limits
from tidelore_world.github.payloads import Payload
from tidelore_world.github.reads import Reads
from tidelore_world.github.routes import Router, route_table
from tidelore_world.github.serving import Desk
from tidelore_world.github.settings import GitHubSettings
from tidelore_world.github.talking import Talking
from tidelore_world.github.writes import Writes
from tidelore_world.wire import Request, Response

if TYPE_CHECKING:
    from tidelore_world.world import World

_ORIGIN = "http://127.0.0.1"


class GitHubForge(Talking):
    """A GitHub with repositories, threads, comments and reviews."""

    def __init__(self, world: World) -> None:
        super().__init__(Hub(), world.clock, world.rng)
        self._world = world
        self.settings = GitHubSettings()
        self.limits = Limits(world.clock, self.settings)
        self.apps = Apps(world.clock, self.settings, world.rng)
        self.late = LateWrites(world.clock)
        desk = Desk(self.settings, self.limits, self.apps)
        table = route_table(Reads(self.settings, world.clock), Writes(self, desk, self.late, world.rng))
        self._router = Router(self.hub, desk, table)

    def route(self, request: Request) -> tuple[str, Callable[[], Response]] | None:
        """Name the route and give its handler; None when the path belongs to somebody else."""
        self.late.land()
        return self._router.route(request)

    def other_path(self, request: Request) -> str | None:
        """Return the path by name of a request that names a repository by its number."""
        segments = request.segments
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

    def truth_repos(self) -> list[str]:
        """The full names of all repositories, oldest first."""
        return [repo.full_name for repo in self.hub.repositories.values()]

    def truth_issues(self, full_name: str, origin: str = _ORIGIN) -> list[Payload]:
        """All threads as the issues endpoint shows them (pull requests among them), by id."""
        repo = self.repository(full_name)
        return [payloads.issue(origin, repo, row) for row in repo.threads]

    def truth_pulls(self, full_name: str, origin: str = _ORIGIN) -> list[Payload]:
        """All pull requests as the list shows them, by id."""
        repo = self.repository(full_name)
        return [changes.pull(origin, repo, row) for row in repo.pulls]

    def truth_comments(self, full_name: str, number: int | None = None, origin: str = _ORIGIN) -> list[Payload]:
        """All issue comments of a repository or of one thread, by id."""
        self.late.land()
        repo = self.repository(full_name)
        rows = repo.comments if number is None else repo.comments.of(number)
        return [remarks.comment(origin, repo, row) for row in rows]

    def truth_review_comments(self, full_name: str, number: int | None = None, origin: str = _ORIGIN) -> list[Payload]:
        """All review comments of a repository or of one pull request, by id."""
        self.late.land()
        repo = self.repository(full_name)
        rows = repo.review_comments if number is None else repo.review_comments.of(number)
        return [remarks.review_comment(origin, repo, row) for row in rows]

    def truth_reviews(self, full_name: str, number: int, origin: str = _ORIGIN) -> list[Payload]:
        """All reviews of one pull request, oldest first."""
        repo = self.repository(full_name)
        return [remarks.review(origin, repo, row) for row in repo.reviews[number].values()]
