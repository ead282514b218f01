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
from tests.situations.github.truth import differences

from tidelore.app.mirroring import audit, mirror
from tidelore.core.config_file import parse_config
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
    """A world with one repository, and runs that mirror it into a file, or into the database at `address`.

    `token` is the token of the next runs; None for none.
    """

    token: str | None = TOKEN

    def __init__(self, folder: Path, world: World | None = None, *, address: str = "", **settings: Any) -> None:
        self.world = world or World(seed=5)
        if world is None:
            self.forge.create_repo(REPO)
        self.address = address or str(folder / "lore.db")
        if not address:
            lay_out(Path(self.address))
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
        environ = {} if self.token is None else {"GITHUB_TOKEN": self.token}
        return MortalApp(config, environ, self.address, self.clock, reaper or Reaper(), self.transport)

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

    def requests_are(self, expected: Counter[str]) -> None:
        """Mirror once and check which requests that costs, by route."""
        spent = self.requests(self.sync)
        assert spent == expected, f"more: {spent - expected}, fewer: {expected - spent}"

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The database, to look into."""
        database = open_database(self.address)
        migrate(database, self.clock.now_ms())
        try:
            yield database
        finally:
            database.close()

    def differences(self, repo: str = REPO) -> list[str]:
        """Return every difference between the copy of a repository and the world."""
        with self.database() as database:
            return differences(database, self.forge, repo)

    def verify(self, passes: int = 4) -> None:
        """Verify every list and every child, in several runs."""
        for _ in range(passes):
            self.world.advance(120)
            self.sync(scrub_budget=400)

    def column(self, sql: str) -> list[Any]:
        """The first value of every row."""
        return [row[0] for row in self.rows(sql)]

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[Any]:
        with self.database() as database:
            return database.read(sql, params)
