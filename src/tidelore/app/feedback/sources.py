"""Which project a configured name stands for. Owns the list of all hosts and projects, and how another repository
under a known name is accepted.

What is stored of the former one stays, under the name it has now; nothing of it is followed any more by this name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from tidelore.core.errors import NotFound, RemoteNotFound
from tidelore.core.references import match_one
from tidelore.feedback.places import Place
from tidelore.store.mirror.projects import ProjectRow

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.app.feedback.hub import Hub
    from tidelore.core.config import Config


class SourceEntry(Struct, frozen=True):
    """A project of a host. Without a `remote_id` the host was never asked for it."""

    source: str
    kind: str
    base_url: str
    configured: str
    path: str | None
    remote_id: int | None
    updated_at: int | None


class Accepted(Struct, frozen=True):
    """The repository of a configured name. `former` is the one it stood for, None where that is the same."""

    project: ProjectRow
    former: ProjectRow | None


def list_sources(config: Config, projects: Sequence[ProjectRow]) -> list[SourceEntry]:
    """Return every configured project, and those that are stored of a configured host."""
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


def choose_repository(config: Config, source: str, path: str) -> Place:
    """Return the configured repository that is meant, or raise NotFound."""
    host = next((host for host in config.github if host.name == source), None)
    if host is None:
        raise NotFound(
            f"no GitHub host is named {source}",
            fix="`lore sources` lists the hosts; only repositories on GitHub can be taken over under their name",
            source=source,
        )
    return Place(host, match_one(path, host.repos, lambda repo: (repo.name,), "repo").name)


async def accept_repository(app: App, place: Place, *, force: bool = False) -> Accepted:
    """Let a configured name stand for the repository that answers under it now."""
    from tidelore.app.feedback.hub import open_hub
    from tidelore.feedback.identity import find_repository
    from tidelore.feedback.polling import LEASE
    from tidelore.store.work.session import Workshop, open_session

    async with open_hub(app, [place]) as hub:
        source, known, now = hub.source(place), hub.known(place), app.clock.now_ms()
        record = await source.resolve(place.name)
        if known is None or record.remote_id == known.remote_id:
            return Accepted(await find_repository(hub.database, source, place.name, known, now), None)
        former_path = await _name_now(hub, place, known)
        shop = Workshop(hub.database, app.config, app.clock, app.seam, "lore sources accept")
        note = f"{place.name}: id {record.remote_id} accepted in place of {known.remote_id}"
        async with open_session(shop, force=force, lease=LEASE, note=note) as session:
            from tidelore.feedback.identity import learn
            from tidelore.store.mirror.projects import rename_repository, set_configured
            from tidelore.store.work.leases import fence

            with hub.database.transaction() as tx:
                fence(tx, session.lease)
                rename_repository(tx, known, former_path)
                set_configured(tx, known, former_path)
                project = learn(tx, hub.database, source.name, place.name, record, now)
        former = next(row for row in _projects(hub) if row.id == known.id)
        return Accepted(project, former)


async def _name_now(hub: Hub, place: Place, known: ProjectRow) -> str:
    """Return the name a known repository has now; where it is gone, its old name with its number."""
    try:
        return (await hub.source(place).resolve(known.remote_id)).path
    except RemoteNotFound:
        return f"{known.path}@{known.remote_id}"


def _projects(hub: Hub) -> list[ProjectRow]:
    from tidelore.store.mirror.projects import list_projects

    return list_projects(hub.database)
