"""A simulated network, a database file, and the polls between them, in one process: no socket, no waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.databases.migrated_file import lay_out
from tests.properties.inprocess import (
    BASE_URL,
    NEVER_SECONDS,
    Killed,
    MortalApp,
    Reaper,
    WorldTime,
    WorldTransport,
)

from tidelore.app.accounts import follow_accounts, open_network, poll_accounts
from tidelore.core.config import Config
from tidelore.core.config_file import parse_config
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import AccountRow, find_account
from tidelore.sync.account_poll import PollRequest
from tidelore.sync.report import PollReport
from tidelore_world.bluesky.records import POST, REPOST
from tidelore_world.world import World

CYCLE = 15 * 60
DAY = 86_400


class Waters:
    """A network, the copy, and whoever polls. Each poll is a process of its own, and may die."""

    def __init__(self, folder: Path, world: World | None = None, **settings: Any) -> None:
        self.world = world or World()
        self.sky = self.world.bluesky
        self.path: Path | str = folder / "lore.db"
        lay_out(folder / "lore.db")
        self.config = configured(**settings)
        self.clock = WorldTime(self.world)
        self.transport: Any = WorldTransport(self.world)
        self.killed = False

    def app(self, reaper: Reaper | None = None) -> MortalApp:
        """A fresh process."""
        return MortalApp(self.config, {}, str(self.path), self.clock, reaper or Reaper(), self.transport)

    def add(self, *handles: str, mode: Any = None) -> None:
        """Create the accounts that are not there yet, and follow all of them."""
        for handle in handles:
            if self.sky.network.find(handle) is None:
                self.sky.create_account(handle)
        asyncio.run(follow_accounts(self.app(), handles, "test", mode))

    def poll(self, reaper: Reaper | None = None, **wanted: Any) -> PollReport:
        """Poll once, and live."""
        report = self.try_poll(reaper, **wanted)
        assert report is not None, "the process was killed"
        return report

    def try_poll(self, reaper: Reaper | None = None, **wanted: Any) -> PollReport | None:
        """Poll once; None when the process died. Whoever follows a dead one takes its lease over."""
        request = PollRequest(**{"documents": False, "scrub_budget": 0, "force": self.killed, **wanted})
        if isinstance(self.transport, WorldTransport):
            # What one poll may ask is bounded, not what a whole history of them may.
            self.transport.asked.clear()
        try:
            report = asyncio.run(poll_accounts(self.app(reaper), request))
        except Killed:
            self.killed = True
            return None
        self.killed = False
        return report

    def cycle(self, **wanted: Any) -> PollReport:
        """Let an interval pass, and poll."""
        self.world.advance(CYCLE)
        return self.poll(**wanted)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The database, to look into."""
        database = open_database(str(self.path))
        migrate(database, self.clock.now_ms())
        try:
            yield database
        finally:
            database.close()

    def rows(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        with self.database() as database:
            return database.read(sql, params)

    def account(self, name: str) -> AccountRow:
        with self.database() as database:
            return find_account(database, name)

    def held(self, name: str) -> dict[str, str]:
        """What the copy holds of an account that is not deleted: cid by address."""
        did = self.sky.network.account(name).did
        rows = self.rows("SELECT uri, cid FROM posts WHERE author_did = :did AND deleted_at IS NULL", did=did)
        assert len(rows) == len(dict(rows)), "no post is stored twice"
        return dict(rows)

    def truth(self, name: str) -> dict[str, str]:
        """What the account's repository holds: cid by address."""
        rows = [row for collection in (POST, REPOST) for row in self.sky.truth_records(name, collection)]
        return {row["uri"]: row["cid"] for row in rows}

    def requests_of(self, act: Any) -> int:
        """How many requests reach the world meanwhile."""
        before = self.world.requests.total()
        act()
        return self.world.requests.total() - before


def configured(*, bluesky: dict[str, Any] | None = None, scrub_share: float = 0.0, **more: Any) -> Config:
    """Settings for a network in this process."""
    return parse_config(
        {
            "http": {"timeout_seconds": 5},
            "sync": {"scrub_share": scrub_share, "heartbeat_interval_seconds": NEVER_SECONDS},
            "bluesky": {"base_url": BASE_URL, "plc_url": BASE_URL, "max_retries": 0, **more, **(bluesky or {})},
        }
    )


__all__ = ["CYCLE", "DAY", "Killed", "Reaper", "Waters", "configured", "open_network"]
