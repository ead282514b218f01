"""A followed repository: a world that answers, a database file, and polls between them, each like a process of its own.

The clock is the world's own, so nothing waits. Whatever is asked of the database is asked between two polls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.databases.migrated_file import lay_out
from tests.properties.inprocess import NEVER_SECONDS, Killed, Mortal, Reaper, WorldTime, WorldTransport

from tidelore.app.feedback_polling import repo_report
from tidelore.core.clock import format_instant
from tidelore.core.config import Config, GitHubHost
from tidelore.core.config_file import parse_config
from tidelore.feedback.actions import CommandRunner
from tidelore.feedback.consumer import FeedbackConsumer
from tidelore.feedback.lifecycle import Lifecycle, block_pull
from tidelore.feedback.report import FeedbackPollReport, RepoReport
from tidelore.sources.github.source import GitHubSource, open_github
from tidelore.sources.ports import RESOURCES, Wiring
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.followed_issues import follow_issue
from tidelore.store.work.session import Workshop, open_session
from tidelore.store.work.tracked_pull_requests import TrackedPr, find_tracked
from tidelore.sync.mirror import MirrorRequest, mirror
from tidelore.sync.projects import build_targets, name_projects, resolve_project
from tidelore.sync.report import RequestCount
from tidelore_world.github.forge import GitHubForge
from tidelore_world.github.records import Comment, ReviewComment, Thread
from tidelore_world.world import World

T = TypeVar("T")
REPO = "octo/tide"
SOURCE = "github"


@dataclass
class Bench:
    """Polls one host of one world. Without an `url` the world is asked in process, without a socket."""

    world: World
    folder: Path
    url: str = ""
    per_page: int = 100
    killed: bool = False
    own_login: str | None = None
    skew_ms: int = 0
    host: dict[str, Any] = field(default_factory=lambda: {"mirror": "followed"})
    repos: list[dict[str, Any]] = field(default_factory=lambda: [{"name": REPO}])
    connection: Callable[[Database, Reaper], Database] = Mortal
    count: RequestCount = field(default_factory=RequestCount)
    is_sampled: Callable[[float], bool] | None = None

    @property
    def hub(self) -> GitHubForge:
        return self.world.github

    @property
    def clock(self) -> WorldTime:
        return WorldTime(self.world, self.skew_ms)

    @property
    def config(self) -> Config:
        host = {"name": SOURCE, "base_url": self.url or "http://127.0.0.1:9999", "repos": self.repos, **self.host}
        return parse_config(
            {
                "http": {"max_retries": 0, "per_page": self.per_page, "timeout_seconds": 5},
                "sync": {"heartbeat_interval_seconds": NEVER_SECONDS},
                "github": [host],
            }
        )

    @property
    def github(self) -> GitHubHost:
        return self.config.github[0]

    @contextmanager
    def database(self) -> Iterator[Database]:
        lay_out(self.folder / "lore.db")
        database = open_database(str(self.folder / "lore.db"))
        try:
            migrate(database, self.clock.now_ms())
            yield database
        finally:
            database.close()

    def run(self, work: Callable[[Workshop, GitHubSource], Awaitable[T]], reaper: Reaper | None = None) -> T:
        """Work in a fresh process, which a reaper may kill."""
        reaper, config = reaper or Reaper(), self.config
        transport = None if self.url else WorldTransport(self.world)

        async def inside(database: Database) -> T:
            self.count = RequestCount()
            wiring = Wiring(config, self.clock, {}, self.count, transport)
            async with open_github(config.github[0], wiring) as source:
                return await work(Workshop(database, config, self.clock, reaper, "lore poll github"), source)

        with self.database() as database:
            return asyncio.run(inside(self.connection(database, reaper)))

    def poll_all(self, *, full: bool = False, reaper: Reaper | None = None) -> FeedbackPollReport | None:
        """Poll every repository once; None when the process died on the way."""

        async def work(shop: Workshop, source: GitHubSource) -> FeedbackPollReport:
            chosen = name_projects(self.github.mirrored, [])
            targets = build_targets([source], chosen, RESOURCES)
            logins = {SOURCE: self.own_login}
            consumer = FeedbackConsumer(
                shop.database, shop.config, shop.clock, {SOURCE: source}, logins, self.is_sampled
            )
            # The lease of a process that was killed here names a pid that is alive: ours.
            request = MirrorRequest(RESOURCES, force=self.killed, scan=full)
            ran = await mirror(shop, targets, request, self.count, lambda _progress: None, consumer=consumer)
            found = [repo_report(ran, consumer.reports, SOURCE, one.configured) for one in chosen]
            return FeedbackPollReport(ran.run_id, found, ran.requests, ran.seconds)

        try:
            report = self.run(work, reaper)
        except Killed:
            self.killed = True
            return None
        self.killed = False
        return report

    def try_poll(self, *, full: bool = False) -> RepoReport:
        """Poll the one repository, whatever comes of it."""
        report = self.poll_all(full=full)
        assert report is not None
        (repo,) = report.repos
        return repo

    def poll(self, *, full: bool = False) -> RepoReport:
        """Poll the one repository, without any trouble."""
        repo = self.try_poll(full=full)
        assert repo.error is None, repo.error
        assert not repo.failures, repo.failures
        return repo

    def settle(self, polls: int = 4, seconds: float = 60) -> None:
        """Poll until nothing is unfinished and everything quiet is known to be quiet."""
        for _ in range(polls):
            self.world.advance(seconds)
            self.poll()

    def project(self, name: str = REPO) -> ProjectRow:
        async def work(shop: Workshop, source: GitHubSource) -> ProjectRow:
            async with open_session(shop, force=self.killed) as session:
                return await resolve_project(session, source, name)

        return self.run(work)

    def live(self, act: Callable[[Lifecycle], Awaitable[T]]) -> T:
        """Do what an operator does to a pull request."""
        project = self.project()
        return self.run(lambda shop, source: act(Lifecycle(shop.database, source, project, self.github, self.clock)))

    def track(self, *numbers: int, issue: int | None = None) -> None:
        for number in numbers:
            self.live(lambda life, number=number: life.track(number, issue_number=issue))  # type: ignore[misc]

    def block(self, number: int, reason: str = "handler_failed") -> TrackedPr:
        with self.database() as database:
            return block_pull(database, self.row(number), reason, None, self.clock.now_ms())

    def unblock(self, number: int) -> TrackedPr:
        return self.live(lambda life: life.unblock(number))

    def follow(self, issue: int, pr: int | None = None) -> None:
        project = self.project()
        with self.database() as database, database.transaction() as tx:
            follow_issue(tx, project.id, project.path, issue, pr_number=pr, now_ms=self.clock.now_ms())

    def apply_commands(self) -> list[str]:
        """Apply what is stored; return the commands that were applied."""
        project = self.project()
        applied = self.run(
            lambda shop, source: CommandRunner(shop.database, source, project, self.github, self.clock).apply_pending()
        )
        return [command.command for command in applied]

    def row(self, number: int) -> TrackedPr:
        with self.database() as database:
            ((project_id,),) = database.read("SELECT id FROM projects WHERE configured = :name", {"name": REPO})
            found = find_tracked(database, project_id, number)
        assert found is not None
        return found

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        with self.database() as database:
            return database.read(sql)

    def write(self, sql: str) -> None:
        with self.database() as database, database.transaction() as tx:
            tx.execute(sql)

    def event_keys(self) -> list[str]:
        """The events, by the order of their instants."""
        return [key for (key,) in self.read("SELECT event_key FROM feedback_events ORDER BY updated_at, id")]

    def bodies(self) -> list[str]:
        """What the events say, in the same order."""
        return [body for (body,) in self.read("SELECT body FROM feedback_events ORDER BY updated_at, id")]

    def counted(self, act: Callable[[], object]) -> Counter[str]:
        """The requests that reach the world meanwhile, by the last word of their route; all of them under `all`."""
        before = len(self.world.log)
        act()
        spent = self.world.log[before:]
        names = Counter(target.partition("?")[0].rpartition("/")[2] for _, target, _ in spent)
        return Counter({**names, "all": len(spent), "304": sum(status == 304 for _, _, status in spent)})


def key(said: Comment | ReviewComment) -> str:
    """The key of the event that a comment is at this moment."""
    kind = "review_comment" if isinstance(said, ReviewComment) else "issue_comment"
    return f"{said.number}:{kind}:{said.id}:{instant(said.updated_s)}"


def instant(second: int) -> str:
    """A second as the remote writes it."""
    return f"{format_instant(second * 1000)[:19]}Z"


def open_pulls(world: World, count: int = 1, repo: str = REPO) -> Sequence[Thread]:
    """A repository with so many pull requests, opened a minute ago."""
    if world.github.hub.named(repo) is None:
        world.github.create_repo(repo)
    pulls = [world.github.create_pull(repo, f"Change {number}", author="robin") for number in range(count)]
    world.advance(60)
    return pulls
