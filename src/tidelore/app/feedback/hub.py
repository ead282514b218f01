"""Open hosts and the store, for the length of one command. Owns which repositories they stand for.

What only an open host needs is imported when one is opened: reading events from the copy loads no client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.errors import NotFound
from tidelore.feedback.lifecycle import Lifecycle
from tidelore.feedback.places import Place
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, find_configured

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.sources.github.source import GitHubSource
    from tidelore.sync.report import RequestCount


class Hub(Struct, frozen=True):
    """Open hosts and the store, for the length of one command."""

    app: App
    database: Database
    places: Sequence[Place]
    sources: dict[str, GitHubSource]
    count: RequestCount

    def source(self, place: Place) -> GitHubSource:
        return self.sources[place.host.name]

    def known(self, place: Place) -> ProjectRow | None:
        return find_configured(self.database, place.host.name, place.name)

    async def project(self, place: Place) -> ProjectRow:
        """Return the repository's row, after it was asked for: another one under its name is refused."""
        from tidelore.feedback.identity import find_repository

        source, now = self.source(place), self.app.clock.now_ms()
        return await find_repository(self.database, source, place.name, self.known(place), now)

    async def lifecycle(self, place: Place, project: ProjectRow | None = None) -> Lifecycle:
        project = project or await self.project(place)
        return Lifecycle(self.database, self.source(place), project, place.host, self.app.clock)


@asynccontextmanager
async def open_hub(app: App, places: Sequence[Place], *, create: bool = True) -> AsyncIterator[Hub]:
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


def find_followed(database: Database, place: Place) -> ProjectRow:
    """Return the row of a repository, or raise NotFound while nothing of it was ever followed."""
    project = find_configured(database, place.host.name, place.name)
    if project is None:
        raise NotFound(
            f"nothing is tracked in {place.name} yet",
            fix=f"track a pull request with: lore feedback track --repo {place.name} --pr NUMBER",
            repo=place.name,
        )
    return project
