"""The whole program over a simulated world in one process: no socket, no waiting, a real database file.

Owns the way from a world to a run: a transport that answers from the world, a clock that is the world's own,
and a process that can die. A death is as hard as SIGKILL: from that instant nothing reaches the database.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.databases.migrated_file import lay_out
from tests.support.memory import memory_folder

from tidelore.app.mirroring import mirror
from tidelore.app.wiring import App
from tidelore.core.config import Config
from tidelore.core.config_file import parse_config
from tidelore.engine.crashpoint import Seam
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database, Patience
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport
from tidelore_world.faults import SimulatedDisconnect, SimulatedTimeout
from tidelore_world.wire import Request
from tidelore_world.world import World

PROJECT = "group/project"
BASE_URL = "http://127.0.0.1:9999"
TOKEN = "a-token-of-the-tests"
NEVER_SECONDS = 1e9
RUNAWAY = 3000
"""More requests than any run of a test needs: a walk that reaches this does not end by itself."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one example, in memory where the system has such a place: a disk's flushes prove nothing here."""
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        yield Path(folder)


class WorldTransport(httpx2.AsyncBaseTransport):
    """Answers requests from a world; remembers which origins were asked, and with which headers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # Two lists that are read side by side take turns, as they do on a network.
        await asyncio.sleep(0)
        url = request.url
        assert len(self.asked) < RUNAWAY, f"a walk without end: {url}"
        self.asked.append((f"{url.scheme}://{url.netloc.decode()}", dict(request.headers)))
        target = url.raw_path.decode("ascii")
        try:
            body = await request.aread()
            answer = self._world.handle(Request.build(request.method, target, dict(request.headers), body))
        except SimulatedTimeout as error:
            raise httpx2.ReadTimeout(str(error)) from None
        except SimulatedDisconnect as error:
            raise httpx2.RemoteProtocolError(str(error)) from None
        announced = answer.headers.get("content-length")
        if announced is not None and int(announced) > len(answer.body):
            raise httpx2.RemoteProtocolError("peer closed the connection before the announced end")
        return httpx2.Response(answer.status, headers=answer.headers, stream=httpx2.ByteStream(answer.body))


class WorldTime:
    """The world's clock, as a machine whose own clock is `skew_ms` off reads it. A sleep lets the world go on."""

    def __init__(self, world: World, skew_ms: int = 0) -> None:
        self._world = world
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._world.clock.now_us // 1000 + self._skew_ms

    def monotonic(self) -> float:
        return self._world.clock.now_us / 1e6

    async def sleep(self, seconds: float) -> None:
        if seconds >= NEVER_SECONDS:
            # The heartbeat: it would carry the clock away if it never had to wait.
            await asyncio.Event().wait()
        self._world.advance(seconds)
        await asyncio.sleep(0)


class Killed(BaseException):
    """The process is dead. No handler of the program may survive it."""


class Reaper:
    """Kills at the n-th visit of any seam, or of one, or never. Remembers the seams it saw."""

    def __init__(self, at_visit: int | None = None, of: Seam | None = None) -> None:
        self._at_visit = at_visit
        self._of = of
        self.visits: list[Seam] = []
        self.dead = False

    def __call__(self, seam: Seam) -> None:
        self.visits.append(seam)
        counted = len(self.visits) if self._of is None else self.visits.count(self._of)
        if self._at_visit is not None and counted > self._at_visit:
            self.dead = True
            raise Killed(seam)


class Mortal:
    """A database connection that the death of its process cuts."""

    def __init__(self, database: Database, reaper: Reaper) -> None:
        self._database = database
        self._reaper = reaper

    def __getattr__(self, name: str) -> Any:
        if self._reaper.dead and name != "close":
            raise Killed(name)
        return getattr(self._database, name)

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[Any]:
        if self._reaper.dead:
            raise Killed("transaction")
        with self._database.transaction(durable=durable) as tx:
            yield tx
            if self._reaper.dead:
                raise Killed("commit")


class MortalApp(App, frozen=True):
    """The program with a store that dies with it."""

    def open_store(self, *, create: bool = False, patience: Patience | None = None) -> Database:
        assert isinstance(self.seam, Reaper)
        return Mortal(App.open_store(self, create=create, patience=patience), self.seam)


class House:
    """A world, a database file, and the runs between them."""

    def __init__(self, folder: Path, world: World | None = None, *, skew_ms: int = 0, **settings: Any) -> None:
        self.world = world or World()
        if world is None:
            self.world.gitlab.create_project(PROJECT)
        self.path = folder / "lore.db"
        lay_out(self.path)
        self.config = build_config(**settings)
        self.clock = WorldTime(self.world, skew_ms)
        self.transport = WorldTransport(self.world)
        self.killed = False

    def app(self, reaper: Reaper) -> MortalApp:
        """A fresh process."""
        environ = {"GITLAB_TOKEN": TOKEN}
        return MortalApp(self.config, environ, str(self.path), self.clock, reaper, self.transport)

    def run(
        self,
        reaper: Reaper | None = None,
        *,
        resources: tuple[str, ...] = ("issues", "merge_requests"),
        scrub_budget: int | None = None,
        full: bool = False,
    ) -> RunReport | None:
        """Mirror once; None when the process died on the way."""
        reaper = reaper or Reaper()
        self.transport.asked.clear()
        # The lease of a process that was killed here names a pid that is alive: ours.
        request = MirrorRequest(resources, full=full, force=self.killed, scrub_budget=scrub_budget)
        try:
            report = asyncio.run(mirror(self.app(reaper), request, "ingest"))
        except Killed:
            self.killed = True
            return None
        self.killed = False
        return report

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The database, to look into."""
        database = open_database(str(self.path))
        migrate(database, self.clock.now_ms())
        try:
            yield database
        finally:
            database.close()

    def count_requests(self, act: Callable[[], Any]) -> int:
        """How many requests reach the world while `act` runs."""
        before = self.world.requests.total()
        act()
        return self.world.requests.total() - before

    def count_list_requests(self, act: Callable[[], Any]) -> int:
        """How many requests other than those for children reach the world while `act` runs."""
        before = self.world.requests.copy()
        act()
        return sum(times for route, times in (self.world.requests - before).items() if ":iid/" not in route)


def build_config(
    *,
    per_page: int = 100,
    scrub_share: float = 0.02,
    keyset: bool = False,
    max_retries: int = 3,
    concurrency: int = 10,
    reviewers: bool = False,
    graphql: str = "off",
) -> Config:
    """Settings for one project of one host."""
    return parse_config(
        {
            "http": {"per_page": per_page, "max_retries": max_retries},
            "sync": {
                "scrub_share": scrub_share,
                "use_keyset_pagination": keyset,
                "dependent_concurrency": concurrency,
                "verify_reviewers": reviewers,
                "heartbeat_interval_seconds": NEVER_SECONDS,
            },
            "gitlab": [{"base_url": BASE_URL, "projects": [PROJECT], "graphql": graphql}],
        }
    )


def decode(payload: bytes) -> Any:
    """A payload as a value: two texts of one value are equal."""
    return json.loads(payload)
