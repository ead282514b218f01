"""The forges of the source contract: for each a project in a world, what people do there, and runs that mirror it.

The tests use only what every forge has: issues with a title and a text, comments, edits and deletions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tests.databases.migrated_file import lay_out
from tests.properties.inprocess import BASE_URL, NEVER_SECONDS, Killed, MortalApp, Reaper, WorldTime, WorldTransport
from tests.toy.world import Ticket, ToyForge

from tidelore.app.mirroring import audit, mirror, surgical_sync
from tidelore.core.config import Config, forge_hosts
from tidelore.core.config_file import parse_config
from tidelore.core.references import Reference
from tidelore.sources.ports import ProjectSource
from tidelore.sources.registry import host_tables, open_hosts
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.check import check_database
from tidelore.sync.audit import AuditReport
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport, SurgicalReport
from tidelore.sync.surgical_preflight import RequestedItem, SurgicalFlags
from tidelore_world.world import World

T = TypeVar("T")
PROJECT = "harbour/tides"
RESOURCES = ("issues", "merge_requests")

Shown = dict[int, tuple[str, str, str, tuple[str, ...]]]
"""Issues by number: title, text, state, and what was said."""


class SourceHouse:
    """A world with one project of one forge, a database, and runs of the program between them."""

    kind: str
    quiet_requests: int
    """How many requests a run makes if nothing has happened."""
    projects_key = "projects"
    host_keys: Mapping[str, Any] = MappingProxyType({})
    """More keys of the host's table."""

    def __init__(self, folder: Path, per_page: int = 3) -> None:
        self.world = World(seed=11)
        self.path = folder / "lore.db"
        self.per_page = per_page
        self.transport = WorldTransport(self.world)
        self.killed = False
        lay_out(self.path)
        self.found()

    # What people do. Each forge has its own words for it.

    def found(self) -> None:
        """Create the project."""
        raise NotImplementedError

    def open(self, title: str, text: str = "") -> int:
        """Open an issue and return its number."""
        raise NotImplementedError

    def edit(self, number: int, text: str) -> None:
        raise NotImplementedError

    def close(self, number: int) -> None:
        raise NotImplementedError

    def delete(self, number: int) -> None:
        """Delete an issue without a trace in any list."""
        raise NotImplementedError

    def say(self, number: int, text: str) -> Any:
        """Comment on an issue and return the comment."""
        raise NotImplementedError

    def unsay(self, number: int, comment: Any) -> None:
        """Delete a comment."""
        raise NotImplementedError

    def truth(self) -> Shown:
        """What the server shows."""
        raise NotImplementedError

    # What the program does.

    @property
    def clock(self) -> WorldTime:
        return WorldTime(self.world)

    def tree(self, base_url: str, **sync: Any) -> dict[str, Any]:
        """The configuration, as TOML has it."""
        quiet = {"scrub_share": 0.0, "heartbeat_interval_seconds": NEVER_SECONDS}
        return {
            "http": {"per_page": self.per_page, "max_retries": 1},
            "sync": {**quiet, **sync},
            self.kind: [{"name": "there", "base_url": base_url, self.projects_key: [PROJECT], **self.host_keys}],
        }

    def config(self) -> Config:
        return parse_config(self.tree(BASE_URL), tables=host_tables)

    def app(self, reaper: Reaper | None = None) -> MortalApp:
        """A fresh process."""
        return MortalApp(self.config(), {}, str(self.path), self.clock, reaper or Reaper(), self.transport)

    def run(self, reaper: Reaper | None = None, **request: Any) -> RunReport | None:
        """Mirror once; None if the process died on the way."""
        self.transport.asked.clear()
        wanted = MirrorRequest(RESOURCES, force=self.killed, **request)
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

    def ask(self, question: Callable[[ProjectSource], Awaitable[T]]) -> T:
        """Open the source and ask it something."""

        async def run() -> T:
            app = self.app()
            async with AsyncExitStack() as stack:
                (source,) = await open_hosts(forge_hosts(app.config), app.wiring(lambda _metric: None), stack)
                return await question(source)

        return asyncio.run(run())

    def refresh(self, number: int) -> SurgicalReport:
        """Refresh one issue."""
        report = SurgicalReport()
        asked = [RequestedItem("issue", Reference(number, PROJECT))]
        asyncio.run(surgical_sync(self.app(), asked, SurgicalFlags(no_embed=True), report, force=False))
        return report

    def count_requests(self, act: Callable[[], object]) -> int:
        """How many requests reach the world while `act` runs."""
        before = self.world.requests.total()
        act()
        return self.world.requests.total() - before

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

    def change(self, sql: str) -> None:
        """Falsify the copy."""
        with self.database() as database, database.transaction() as tx:
            assert tx.change(sql, {}) == 1

    def copy(self) -> Shown:
        """What the copy has."""
        said: dict[int, list[str]] = {}
        for iid, body in self.rows(
            "SELECT i.iid, n.body FROM notes n JOIN discussions d ON d.id = n.discussion_id"
            " JOIN issues i ON i.id = d.issue_id WHERE n.is_system = 0 ORDER BY n.remote_id"
        ):
            said.setdefault(iid, []).append(body)
        rows = self.rows("SELECT iid, title, description, state FROM issues WHERE deleted_at IS NULL")
        return {iid: (title, text or "", state, tuple(said.get(iid, ()))) for iid, title, text, state in rows}

    def problems(self) -> list[str]:
        """What `lore check` finds."""
        with self.database() as database:
            return [found.detail for found in check_database(database, self.clock.now_ms()) if not found.ok]


class GitLabHouse(SourceHouse):
    kind = "gitlab"
    quiet_requests = 2

    def found(self) -> None:
        self.world.gitlab.create_project(PROJECT)

    def open(self, title: str, text: str = "") -> int:
        return self.world.gitlab.create_issue(PROJECT, title=title, description=text).iid

    def edit(self, number: int, text: str) -> None:
        self.world.gitlab.edit_issue(PROJECT, number, description=text)

    def close(self, number: int) -> None:
        self.world.gitlab.close_issue(PROJECT, number)

    def delete(self, number: int) -> None:
        self.world.gitlab.delete_issue(PROJECT, number)

    def say(self, number: int, text: str) -> Any:
        return self.world.gitlab.add_note(self.world.gitlab.issue(PROJECT, number), text)

    def unsay(self, number: int, comment: Any) -> None:
        self.world.gitlab.delete_note(self.world.gitlab.issue(PROJECT, number), comment)

    def truth(self) -> Shown:
        threads = self.world.gitlab.truth_all_discussions("issues", PROJECT)
        said = {
            iid: tuple(note["body"] for thread in found for note in thread["notes"] if not note["system"])
            for iid, found in threads.items()
        }
        return {
            row["iid"]: (row["title"], row["description"] or "", row["state"], said.get(row["iid"], ()))
            for row in self.world.gitlab.truth_issues(PROJECT)
        }


class GitHubHouse(SourceHouse):
    kind = "github"
    projects_key = "repos"
    quiet_requests = 4

    def found(self) -> None:
        self.world.github.create_repo(PROJECT)

    def open(self, title: str, text: str = "") -> int:
        return self.world.github.create_issue(PROJECT, title, text).number

    def edit(self, number: int, text: str) -> None:
        self.world.github.edit_thread(PROJECT, number, body=text)

    def close(self, number: int) -> None:
        self.world.github.close(PROJECT, number)

    def delete(self, number: int) -> None:
        self.world.github.delete_issue(PROJECT, number)

    def say(self, number: int, text: str) -> Any:
        return self.world.github.comment(PROJECT, number, text)

    def unsay(self, number: int, comment: Any) -> None:
        self.world.github.delete_comment(comment.id)

    def truth(self) -> Shown:
        said: dict[int, list[str]] = {}
        for row in self.world.github.truth_comments(PROJECT):
            said.setdefault(int(row["issue_url"].rpartition("/")[2]), []).append(row["body"])
        state = {"open": "opened", "closed": "closed"}
        return {
            row["number"]: (row["title"], row["body"] or "", state[row["state"]], tuple(said.get(row["number"], ())))
            for row in self.world.github.truth_issues(PROJECT)
        }


class ToyHouse(SourceHouse):
    kind = "toy"
    quiet_requests = 1

    def found(self) -> None:
        self.forge = ToyForge(self.world)
        self.world.admit(self.forge)
        self.forge.create_board(PROJECT)

    def ticket(self, number: int) -> Ticket:
        return self.forge.board(PROJECT).tickets[number]

    def open(self, title: str, text: str = "") -> int:
        return self.forge.open_ticket(PROJECT, title, text).number

    def edit(self, number: int, text: str) -> None:
        self.forge.edit_ticket(self.ticket(number), text=text)

    def close(self, number: int) -> None:
        self.forge.edit_ticket(self.ticket(number), is_open=False)

    def delete(self, number: int) -> None:
        self.forge.delete_ticket(PROJECT, self.ticket(number))

    def say(self, number: int, text: str) -> Any:
        return self.forge.say(self.ticket(number), text)

    def unsay(self, number: int, comment: Any) -> None:
        self.forge.unsay(self.ticket(number), comment)

    def truth(self) -> Shown:
        return {
            number: (
                ticket.title,
                ticket.text,
                "opened" if ticket.is_open else "closed",
                tuple(remark.text for remark in ticket.remarks),
            )
            for number, ticket in self.forge.board(PROJECT).tickets.items()
        }


HOUSES: dict[str, type[SourceHouse]] = {house.kind: house for house in (GitLabHouse, GitHubHouse, ToyHouse)}
