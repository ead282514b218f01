"""Use-cases of configured sources: list them, open GitHub hosts for one command, accept a replaced repository.

`open_hub` opens the hosts and the store for the repositories of one command, and imports what only open hosts need.
When a repository is replaced, the rows of the former one stay under its current name and are no longer polled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.errors import NotFound, RemoteNotFound
from tidelore.core.references import match_one
from tidelore.feedback.lifecycle import Lifecycle
from tidelore.feedback.repositories import ConfiguredRepo
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, find_configured

if TYPE_CHECKING:
    from tidelore.app.wiring import App
    from tidelore.core.config import Config
    from tidelore.sources.github.source import GitHubSource
    from tidelore.sync.report import RequestCount


class Hub(Struct, frozen=True):
    """Open hosts and the open store of one command."""

    app: App
    database: Database
    places: Sequence[ConfiguredRepo]
    sources: dict[str, GitHubSource]
    count: RequestCount

    def source(self, place: ConfiguredRepo) -> GitHubSource:
        return self.sources[place.host.name]

    def known(self, place: ConfiguredRepo) -> ProjectRow | None:
        return find_configured(self.database, place.host.name, place.name)

    async def project(self, place: ConfiguredRepo) -> ProjectRow:
        """Request the repository and return its row; another repository under its name is refused."""
        from tidelore.feedback.repositories import verify_repository

        source, now = self.source(place), self.app.clock.now_ms()
        return await verify_repository(self.database, source, place.name, self.known(place), now)

    async def lifecycle(self, place: ConfiguredRepo, project: ProjectRow | None = None) -> Lifecycle:
        project = project or await self.project(place)
        return Lifecycle(self.database, self.source(place), project, place.host, self.app.clock)


@asynccontextmanager
async def open_hub(app: App, places: Sequence[ConfiguredRepo], *, create: bool = True) -> AsyncIterator[Hub]:
    """Open the hosts of these repositories and the store until the block ends."""
    from contextlib import AsyncExitStack

    from tidelore.sources.registry import open_github_hosts
    from tidelore.sync.report import RequestCount

    hosts = list({place.host.name: place.host for place in places}.values())
    count = RequestCount()
    async with AsyncExitStack() as stack:
        wiring = app.wiring(count)
        opened = await open_github_hosts(hosts, wiring, stack)
        database = app.open_store(create=create)
        stack.callback(database.close)
        yield Hub(app, database, places, {source.name: source for source in opened}, count)


def find_followed(database: Database, place: ConfiguredRepo) -> ProjectRow:
    """Return the row of a repository, or raise NotFound if nothing in it was ever tracked."""
    project = find_configured(database, place.host.name, place.name)
    if project is None:
        raise NotFound(
            f"nothing is tracked in {place.name} yet",
            fix=f"track a pull request with: lore feedback track --repo {place.name} --pr NUMBER",
            repo=place.name,
        )
    return project


class SourceEntry(Struct, frozen=True):
    """A project of a host. `remote_id` is None if the project was never requested."""

    source: str
    kind: str
    base_url: str
    configured: str
    path: str | None
    remote_id: int | None
    updated_at: int | None


class Accepted(Struct, frozen=True):
    """The repository of a configured name. `former` is the previous one, None if it is the same."""

    project: ProjectRow
    former: ProjectRow | None


def list_sources(config: Config, projects: Sequence[ProjectRow]) -> list[SourceEntry]:
    """Return every configured project, and the stored projects of configured hosts."""
    hosts = [("gitlab", host.name, host.base_url, host.projects) for host in config.gitlab]
    hosts += [("github", host.name, host.base_url, tuple(repo.name for repo in host.repos)) for host in config.github]
    found: list[SourceEntry] = []
    for kind, name, base_url, configured in hosts:
        stored = {row.configured: row for row in projects if row.source == name}
        for project in sorted({*configured, *stored}):
            row = stored.get(project)
            known = (None, None, None) if row is None else (row.path, row.remote_id, row.updated_at)
            found.append(SourceEntry(name, kind, base_url, project, *known))
    return found


def choose_repository(config: Config, source: str, path: str) -> ConfiguredRepo:
    """Return the configured repository, or raise NotFound."""
    host = next((host for host in config.github if host.name == source), None)
    if host is None:
        raise NotFound(
            f"no GitHub host is named {source}",
            fix="`lore sources` lists the hosts; only GitHub repositories can be accepted",
            source=source,
        )
    return ConfiguredRepo(host, match_one(path, host.repos, lambda repo: (repo.name,), "repo").name)


async def accept_repository(app: App, place: ConfiguredRepo, *, force: bool = False) -> Accepted:
    """Accept the repository that now has the configured name."""
    from tidelore.feedback.polling import LEASE
    from tidelore.feedback.repositories import verify_repository
    from tidelore.store.work.session import Workshop, open_session

    async with open_hub(app, [place]) as hub:
        source, known, now = hub.source(place), hub.known(place), app.clock.now_ms()
        record = await source.resolve(place.name)
        if known is None or record.remote_id == known.remote_id:
            return Accepted(await verify_repository(hub.database, source, place.name, known, now), None)
        former_path = await _name_now(hub, place, known)
        shop = Workshop(hub.database, app.config, app.clock, app.seam, "lore sources accept")
        note = f"{place.name}: id {record.remote_id} accepted in place of {known.remote_id}"
        async with open_session(shop, force=force, lease=LEASE, note=note) as session:
            from tidelore.feedback.repositories import store_repository
            from tidelore.store.mirror.projects import rename_repository, set_configured

            with session.writing() as tx:
                rename_repository(tx, known, former_path)
                set_configured(tx, known, former_path)
                project = store_repository(tx, hub.database, source.name, place.name, record, now)
        former = next(row for row in _projects(hub) if row.id == known.id)
        return Accepted(project, former)


async def _name_now(hub: Hub, place: ConfiguredRepo, known: ProjectRow) -> str:
    """Return the current name of a known repository; if it is gone, its old name with its id."""
    try:
        return (await hub.source(place).resolve(known.remote_id)).path
    except RemoteNotFound:
        return f"{known.path}@{known.remote_id}"


def _projects(hub: Hub) -> list[ProjectRow]:
    from tidelore.store.mirror.projects import list_projects

    return list_projects(hub.database)
