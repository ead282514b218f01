"""A repository of the simulated GitHub, a database file, and mirroring runs between them in one process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.databases.migrated_file import lay_out
from tests.properties.inprocess import (
    BASE_URL,
    NEVER_SECONDS,
    TOKEN,
    Killed,
    MortalApp,
    Reaper,
    WorldTime,
    WorldTransport,
)

from tidelore.app.mirroring import audit, mirror
from tidelore.core.config import parse_config
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.sync.audit import AuditReport
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport
from tidelore_world.github.forge import GitHubForge
from tidelore_world.world import World

REPO = "octo/tide"
BOTH = ("issues", "merge_requests")


class GitHubHouse:
    """A world with one repository, and runs that mirror it."""

    def __init__(self, folder: Path, world: World | None = None, **settings: Any) -> None:
        self.world = world or World(seed=5)
        if world is None:
            self.forge.create_repo(REPO)
        self.path = folder / "lore.db"
        lay_out(self.path)
        self.settings = settings
        self.transport = WorldTransport(self.world)
        self.killed = False

    @property
    def forge(self) -> GitHubForge:
        return self.world.github

    @property
    def clock(self) -> WorldTime:
        return WorldTime(self.world)

    def app(self, reaper: Reaper | None = None) -> MortalApp:
        """A fresh process."""
        sync = {"scrub_share": 0.0, "heartbeat_interval_seconds": NEVER_SECONDS, **self.settings.get("sync", {})}
        host = {"base_url": BASE_URL, "repos": [REPO], **self.settings.get("host", {})}
        http = {"per_page": 100, "max_retries": 3, **self.settings.get("http", {})}
        config = parse_config({"http": http, "sync": sync, "github": [host]})
        environ = {"GITHUB_TOKEN": TOKEN}
        return MortalApp(config, environ, str(self.path), self.clock, reaper or Reaper(), self.transport)

    def run(self, reaper: Reaper | None = None, **request: Any) -> RunReport | None:
        """Mirror once; None when the process died on the way."""
        self.transport.asked.clear()
        wanted = MirrorRequest(request.pop("resources", BOTH), force=self.killed, **request)
        try:
            report = asyncio.run(mirror(self.app(reaper), wanted, "lore sync"))
        except Killed:
            self.killed = True
            return None
        self.killed = False
        return report

    def sync(self, **request: Any) -> RunReport:
        """Mirror once, without any trouble."""
        report = self.run(**request)
        assert report is not None
        assert [scope.error for scope in report.scopes if scope.error is not None] == []
        return report

    def audit(self) -> AuditReport:
        return asyncio.run(audit(self.app(), None))

    def requests(self, act: Callable[[], Any]) -> Counter[str]:
        """Which requests reach the world while `act` runs, by route."""
        before = self.world.requests.copy()
        act()
        return self.world.requests - before

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The database, to look into."""
        database = open_database(str(self.path))
        migrate(database, self.clock.now_ms())
        try:
            yield database
        finally:
            database.close()

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Any]:
        with self.database() as database:
            return database.read(sql, params)
