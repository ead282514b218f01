"""Projects: from a configured name or group to a stored row, and which lists a command reads.

A project is found by the forge's own number once it is known, so a rename or a move changes its path and nothing else.
It is looked up again once a day, and when an item shows another path; an archived project is skipped. A project that
several groups and names lead to is chosen once. The items of a project are not read here.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.config import Config, GitLabHost, gitlab_host
from tidelore.core.errors import (
    ConfigError,
    CredentialsRejected,
    NotFound,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    TideloreError,
    UserError,
)
from tidelore.core.model import ProjectRecord
from tidelore.core.references import match_one
from tidelore.engine.crashpoint import Seam
from tidelore.sources.ports import RESOURCES, ProjectSource
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, find_configured, find_remote, save_project
from tidelore.store.work.session import Session
from tidelore.sync.report import ScopeKey

REFRESH_MS = 24 * 3600 * 1000


class ChosenProject(Struct, frozen=True):
    """A project to be read: the name it goes by, what a group told of it, or why it cannot be read.

    A group that could not be listed stands here for the projects it may hold.
    """

    source: str
    configured: str
    path: str
    listed: ProjectRecord | None = None
    failure: TideloreError | None = None
    is_group: bool = False


def find_chosen(
    database: Database, source: str, configured: str, listed: ProjectRecord | None = None
) -> ProjectRow | None:
    """Return the stored row of a project, if it was found before."""
    if listed is not None:
        return find_remote(database, source, listed.remote_id)
    return find_configured(database, source, configured)


async def resolve_project(
    session: Session, source: ProjectSource, configured: str, listed: ProjectRecord | None = None
) -> ProjectRow:
    """Return a project's row: as stored while that is fresh, else as its group or its forge tells it."""
    known = find_chosen(session.shop.database, source.name, configured, listed)
    fresh = known is not None and is_fresh(known, session.shop.clock.now_ms())
    if listed is not None:
        if known is not None and fresh and _says_the_same(known, configured, listed):
            return known
        return _save(session, source, configured, listed)
    if known is None:
        return await look_up(session, source, configured)
    if fresh:
        return known
    try:
        return await refresh_project(session, source, known)
    except RemoteNotFound:
        # The number we knew is gone; the same name may stand for a project that was made anew.
        return await look_up(session, source, configured)


async def refresh_project(session: Session, source: ProjectSource, known: ProjectRow) -> ProjectRow:
    """Ask the forge for a project by its number, so that a new name or path is learnt."""
    return _save(session, source, known.configured, await source.resolve(str(known.remote_id)))


async def look_up(session: Session, source: ProjectSource, configured: str) -> ProjectRow:
    """Ask the forge for a project by its name, and remember the answer."""
    return _save(session, source, configured, await source.resolve(configured))


def is_fresh(project: ProjectRow, now_ms: int) -> bool:
    """Return whether a row needs no new answer yet; one from after our clock was set back does."""
    return 0 <= now_ms - project.updated_at <= REFRESH_MS


def reason_to_skip(config: Config, project: ProjectRow) -> str | None:
    """Return why a project is left alone, or None when it is to be read. What is stored of it stays."""
    host = gitlab_host(config, project.source)
    return "archived" if project.archived and not (host is not None and host.include_archived) else None


async def find_projects(source: ProjectSource, host: GitLabHost, known: Sequence[ProjectRow]) -> list[ChosenProject]:
    """Return the projects of a host: the configured ones, then whatever else its groups hold at this moment.

    A group that cannot be listed is one failure under the name `group/*`; a source that refused us altogether
    fails for all of its projects, and is asked no more.
    """
    named = name_projects(host, known)
    groups = [ChosenProject(host.name, f"{group}/*", f"{group}/*", is_group=True) for group in host.groups]
    if source.closed is not None:
        return [replace(chosen, failure=source.closed) for chosen in (*named, *groups)]
    listed: dict[int, ProjectRecord] = {}
    failed: list[ChosenProject] = []
    try:
        for group, chosen in zip(host.groups, groups, strict=True):
            try:
                listed |= {record.remote_id: record for record in await source.group(group)}
            except (CredentialsRejected, RateLimited):
                raise
            except RemoteError as error:
                failed.append(replace(chosen, failure=error))
        if listed:
            named = [await _identify(source, chosen, known, listed) for chosen in named]
    except (CredentialsRejected, RateLimited) as error:
        return [replace(chosen, failure=error) for chosen in (*named, *groups)]
    taken = {chosen.listed.remote_id for chosen in named if chosen.listed is not None}
    grouped = [ChosenProject(host.name, r.path, r.path, r) for r in listed.values() if r.remote_id not in taken]
    return [*named, *grouped, *failed]


async def find_everywhere(
    sources: Sequence[ProjectSource], hosts: Sequence[GitLabHost], known: Sequence[ProjectRow]
) -> list[ChosenProject]:
    """Return the projects of all hosts, host by host."""
    return [
        chosen
        for source, host in zip(sources, hosts, strict=True)
        for chosen in await find_projects(source, host, known)
    ]


def name_projects(host: GitLabHost, known: Sequence[ProjectRow]) -> list[ChosenProject]:
    """Return the projects that stand in the configuration, with the paths they were last known by."""
    paths = {row.configured: row.path for row in known if row.source == host.name}
    return [ChosenProject(host.name, name, paths.get(name, name)) for name in dict.fromkeys(host.projects)]


async def _identify(
    source: ProjectSource, chosen: ChosenProject, known: Sequence[ProjectRow], listed: dict[int, ProjectRecord]
) -> ChosenProject:
    """Find out which project a configured name means, so that a group does not bring it a second time."""
    rows = [row for row in known if row.source == chosen.source and row.configured == chosen.configured]
    if rows:
        # Two of one name: the older is gone, and the name stands for one that was made anew.
        return replace(chosen, listed=listed.get(max(rows, key=lambda row: row.id).remote_id))
    found = next((record for record in listed.values() if record.path == chosen.configured), None)
    if found is not None:
        return replace(chosen, listed=found)
    try:
        # Asked for here instead of later: the answer is handed on.
        return replace(chosen, listed=await source.resolve(chosen.configured))
    except (CredentialsRejected, RateLimited):
        raise
    except RemoteError as error:
        return replace(chosen, failure=error)


def _says_the_same(known: ProjectRow, configured: str, listed: ProjectRecord) -> bool:
    stored = (known.configured, known.path, known.name, bool(known.archived))
    return stored == (configured, listed.path, listed.name, listed.archived)


def _save(session: Session, source: ProjectSource, configured: str, record: ProjectRecord) -> ProjectRow:
    with session.writing() as tx:
        project = save_project(tx, source.name, configured, record, session.shop.clock.now_ms())
    session.shop.seam(Seam.PROJECT_RESOLVED)
    return project


class ListTarget(Struct, frozen=True):
    """One list of one project. `listed` is what a group told of it, `failure` why it cannot be read at all."""

    source: ProjectSource
    configured: str
    resource: str
    listed: ProjectRecord | None = None
    failure: TideloreError | None = None

    @property
    def surface(self) -> str:
        return f"{self.source.kind}.{self.resource}"

    @property
    def key(self) -> ScopeKey:
        return self.source.name, self.configured, self.surface


def check_resources(resources: Sequence[str]) -> None:
    """Refuse a resource type that does not exist."""
    for resource in resources:
        if resource not in RESOURCES:
            raise UserError(
                f"invalid value for --type: {resource!r}",
                fix=f"use one of: {', '.join(RESOURCES)}",
                type=resource,
            )


def check_configured(config: Config) -> None:
    """Refuse to mirror nothing."""
    if not any(host.projects or host.groups for host in config.gitlab):
        raise ConfigError(
            "no project is configured",
            fix="run `lore init`, add your projects to the configuration file, then run `lore doctor`",
            key="gitlab.projects",
        )


def choose_known(config: Config, known: Sequence[ProjectRow], wanted: str) -> ChosenProject | None:
    """Return the project that is meant as far as that is known here, or None when the groups have to be asked.

    As soon as there are groups only a whole name is certain: whether an ending is unambiguous, they decide.
    """
    named = [chosen for host in config.gitlab for chosen in name_projects(host, known)]
    if not any(host.groups for host in config.gitlab):
        return choose_one(named, wanted)
    candidates = named + _stored_of_groups(config, known, {(one.source, one.configured) for one in named})
    whole = [chosen for chosen in candidates if wanted in (chosen.path, chosen.configured)]
    return whole[0] if len(whole) == 1 else None


def hosts_of(config: Config, one: ChosenProject | None) -> list[GitLabHost]:
    """Return the hosts to be opened: that of the one project that is meant, else all that have something to read."""
    return [
        host for host in config.gitlab if (host.projects or host.groups) and (one is None or one.source == host.name)
    ]


def choose_one(candidates: Sequence[ChosenProject], wanted: str) -> ChosenProject:
    """Return the one project that is meant by a whole name, or by an unambiguous ending of a path."""
    failures = [chosen.failure for chosen in candidates if chosen.failure is not None]
    projects = [chosen for chosen in candidates if not chosen.is_group]
    try:
        return match_one(wanted, projects, lambda chosen: (chosen.path, chosen.configured), "configured project")
    except NotFound:
        if failures:
            # It may well be in there: why we could not look is the more useful answer.
            raise failures[0] from None
        raise


def build_targets(
    sources: Sequence[ProjectSource], chosen: Sequence[ChosenProject], resources: Sequence[str]
) -> list[ListTarget]:
    """Return every list to read, project by project; a group that could not be listed is one of them."""
    by_name = {source.name: source for source in sources}
    targets: list[ListTarget] = []
    for one in chosen:
        kinds = ["groups"] if one.is_group else resources
        targets += [ListTarget(by_name[one.source], one.configured, kind, one.listed, one.failure) for kind in kinds]
    return targets


def _stored_of_groups(config: Config, known: Sequence[ProjectRow], named: set[tuple[str, str]]) -> list[ChosenProject]:
    """Return what is stored below the path of a configured group, and is not configured by name."""
    roots = {host.name: tuple(f"{group}/" for group in host.groups) for host in config.gitlab}
    return [
        ChosenProject(row.source, row.configured, row.path)
        for row in known
        if row.path.startswith(roots.get(row.source, ())) and (row.source, row.configured) not in named
    ]
