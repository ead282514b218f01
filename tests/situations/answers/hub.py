"""A repository on a simulated GitHub, served on a socket, and our side of it: a database and an open source."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.support.manual_clock import ManualClock

from tidelore.core.clock import Clock, SystemClock
from tidelore.core.config import Config, GitHubHost, Http
from tidelore.core.model import ProjectRecord
from tidelore.feedback.outbox import Outbox
from tidelore.feedback.tokens import Intent, action_token, with_marker
from tidelore.sources.github.source import GitHubSource, open_github
from tidelore.sources.ports import Wiring
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, save_project
from tidelore.store.work.action_tokens import signing_secret
from tidelore.store.work.events import PlannedReply
from tidelore.store.work.outbox import OutboxRow, find_outbox, plan
from tidelore_world.damage import SimulatedDisconnect
from tidelore_world.github.records import Comment, ReviewComment
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

T = TypeVar("T")

REPO = "harbor/cranes"
WORLD_STARTS_AT = 1_772_442_000_000
"""2026-03-02T09:00:00Z, where every world begins; a clock moved by hand begins there too."""


class LateWorld(World):
    """A world whose next writes lose their connection at once and land a while later."""

    def __init__(self) -> None:
        super().__init__()
        self.late_seconds: list[float] = []
        self.landing: list[threading.Timer] = []

    def handle(self, request: Request) -> Response:
        if request.method != "POST" or not self.late_seconds:
            return super().handle(request)
        timer = threading.Timer(self.late_seconds.pop(0), super().handle, (request,))
        self.landing.append(timer)
        timer.start()
        raise SimulatedDisconnect("the connection is lost while the write is on its way")

    def wait_for_landings(self) -> None:
        for timer in self.landing:
            timer.join(30)


@dataclass
class Hub:
    """One repository with one pull request, and the means to work on it."""

    world: LateWorld
    url: str
    database: Database
    clock: Clock = field(default_factory=ManualClock)
    host: GitHubHost = field(default_factory=GitHubHost)
    pr: int = 0
    token: str = ""

    @property
    def manual(self) -> ManualClock:
        assert isinstance(self.clock, ManualClock)
        return self.clock

    def let_pass(self, seconds: float) -> None:
        """Let time pass on both sides."""
        self.manual.advance(seconds)
        self.world.advance(seconds)

    def project(self) -> ProjectRow:
        """The repository as the database knows it."""
        repo = self.world.github.repository(REPO)
        record = ProjectRecord(repo.id, REPO, repo.name, None, archived=False)
        with self.database.transaction() as tx:
            return save_project(tx, "github", REPO, record, self.clock.now_ms())

    @asynccontextmanager
    async def source(self) -> AsyncIterator[GitHubSource]:
        config = Config(http=Http(max_retries=0, timeout_seconds=5), github=(self.host,))
        environ = {self.host.token_env: self.token} if self.token else {}
        wiring = Wiring(config, SystemClock(), environ, lambda _metric: None)
        async with open_github(self.host, wiring) as source:
            yield source

    def ask(self, work: Callable[[GitHubSource], Awaitable[T]]) -> T:
        """Do something with an open source."""

        async def inside() -> T:
            async with self.source() as source:
                return await work(source)

        return asyncio.run(inside())

    def intend(self, body: str = "Done.", *, number: int | None = None, key: str = "", **where: Any) -> OutboxRow:
        """Store an intent as `lore feedback reply` does."""
        number = number or self.pr
        reply_to = where.get("reply_to")
        repo_id = self.world.github.repository(REPO).id
        secret = signing_secret(self.database, self.clock.now_ms())
        token = action_token(Intent("github", repo_id, "pr", number, reply_to, "reply", key or body), secret)
        with self.database.transaction(durable=True) as tx:
            return plan(
                tx,
                self.project_id,
                REPO,
                PlannedReply("pr", number, reply_to, token, with_marker(body, token), "reply"),
                self.clock.now_ms(),
            )

    @property
    def project_id(self) -> int:
        ((found,),) = self.database.read("SELECT id FROM projects")
        return int(found)

    def send(self, row: OutboxRow) -> OutboxRow:
        return self.ask(lambda source: Outbox(self.database, source, self.host, self.clock).send(row.id))

    def send_due(self, limit: int = 100) -> list[OutboxRow]:
        return self.ask(lambda source: Outbox(self.database, source, self.host, self.clock).send_due(limit))

    def row(self, row: OutboxRow) -> OutboxRow:
        """An intent as it stands."""
        return find_outbox(self.database, row.id)

    def remarks(self) -> list[Comment | ReviewComment]:
        """Everything of ours that stands on the remote."""
        repo = self.world.github.repository(REPO)
        with self.world.lock:
            every: list[Comment | ReviewComment] = [*repo.comments, *repo.review_comments]
        return [remark for remark in every if "lore-action:" in remark.body]

    def posts(self) -> int:
        """How many writes reached the remote."""
        return sum(times for route, times in self.world.requests.items() if route.startswith("POST"))
