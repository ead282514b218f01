"""The world: one clock, one seed, three forges, and the single door every request comes through.

Owns routing between the forges, the request count, the request log and the moment at which a fault may
strike. Refuses to know any forge's payloads. Invariant: `handle` is atomic; the lock is held from the
test hooks to the finished response, so no request ever sees half a change.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlencode

from tidelore_world.bluesky import BlueskyForge
from tidelore_world.clock import WorldClock, http_date
from tidelore_world.faults import Broken, FaultPlan
from tidelore_world.github import GitHubForge
from tidelore_world.gitlab import GitLabForge
from tidelore_world.prose import Prose
from tidelore_world.wire import Request, Response, json_response

START = "2026-03-02T09:00:00Z"
LOG_LIMIT = 20_000


class Forge(Protocol):
    """What the world asks of a forge."""

    def route(self, request: Request) -> tuple[str, Callable[[], Response]] | None:
        """Name the route and give its handler; None when the path belongs to somebody else."""


class World:
    """An empty world; forges fill it by their mutation methods or by `populate`.

    `requests` counts requests by route name. `log` keeps (method, target, status) of the latest ones while
    `keep_log` is set; a request that got no answer has status 0. `before_request` hooks may change the world.
    """

    def __init__(self, seed: int = 7, start: str = START) -> None:
        self.seed = seed
        self.lock = threading.RLock()
        self.rng = random.Random(seed)
        self.clock = WorldClock(start)
        self.prose = Prose(self.rng)
        self.faults = FaultPlan(random.Random(f"faults of {seed}"))
        self.gitlab = GitLabForge(self)
        self.github = GitHubForge(self)
        self.bluesky = BlueskyForge(self)
        self.requests: Counter[str] = Counter()
        self.log: list[tuple[str, str, int]] = []
        self.keep_log = True
        self.before_request: list[Callable[[Request], None]] = []
        # GitHub is asked first: as an Enterprise Server it has `/api/graphql`, which else is GitLab's.
        self._forges: tuple[Forge, ...] = (self.github, self.gitlab, self.bluesky)

    def admit(self, forge: Forge) -> None:
        """Serve one more forge: the paths that no other forge knows may be its."""
        self._forges = (*self._forges, forge)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self.lock:
            self.clock.advance(seconds)

    def handle(self, request: Request) -> Response:
        """Answer one request; raises `SimulatedTimeout` or `SimulatedDisconnect` when a fault says so."""
        with self.lock:
            for hook in tuple(self.before_request):
                hook(request)
            name, forge, handler = self._find(request)
            self.requests[name] += 1
            try:
                response = self.faults.answer(name, request, handler, forge, self.clock.now_us)
            except Broken:
                self._remember(request, 0)
                raise
            response.headers.setdefault("date", http_date(self.clock.now_us))
            self._remember(request, response.status)
            return response

    def _find(self, request: Request) -> tuple[str, Forge | None, Callable[[], Response]]:
        for forge in self._forges:
            found = forge.route(request)
            if found is not None:
                return found[0], forge, found[1]
        return f"{request.method} (no route)", None, _no_route

    def _remember(self, request: Request, status: int) -> None:
        if not self.keep_log:
            return
        query = urlencode(request.query, doseq=True)
        self.log.append((request.method, f"{request.path}?{query}" if query else request.path, status))
        if len(self.log) > LOG_LIMIT:
            del self.log[: LOG_LIMIT // 2]


def build_world(seed: int = 7, scale: float = 1.0, start: str = START) -> World:
    """Build a populated world; `scale` multiplies its sizes, `start` is its present."""
    world = World(seed, start)
    world.gitlab.populate(scale)
    world.github.populate(scale)
    world.bluesky.populate(scale)
    return world


def _no_route() -> Response:
    return json_response({"error": "404 Not Found"}, 404)
