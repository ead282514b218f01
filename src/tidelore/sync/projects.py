"""Resolve configured names and groups to stored projects, and choose which lists a command reads.

Once a project is known, its lists are read by the forge's id, so a rename or a move only changes its path. It is looked
up again once a day, and when the URL of an item has a different path; where names belong to projects, a name that was
taken over by another project is refused. Archived projects are skipped. A project that
matches several groups and names is chosen once. The items of a project are not read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.config import (
    Config,
    ForgeHost,
    ProjectHost,
    Sync,
    feedback_settings,
    find_host,
    forge_host,
    forge_hosts,
    sync_settings,
)
from tidelore.core.errors import (
    ConfigError,
    CredentialsRejected,
    NotFound,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RepositoryReplaced,
    TideloreError,
    UserError,
)
from tidelore.core.model import ProjectRecord, Scope
from tidelore.core.references import match_one, parse_horizon
from tidelore.engine.crashpoint import Seam
from tidelore.sources.ports import RESOURCES, TOPICS, ProjectSource, Resource, TopicSource
from tidelore.store.database.port import Database
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family
from tidelore.store.mirror.projects import (
    ProjectRow,
    check_identity,
    find_configured,
    find_remote,
    store_repository,
)
from tidelore.store.work.session import Session
from tidelore.sync.report import ScopeKey

REFRESH_MS = 24 * 3600 * 1000


class ChosenProject(Struct, frozen=True):
    """A project to read: its configured name, its record if a group listed it, or why it cannot be read.

    With `is_group`, it represents the unknown projects of a group that could not be listed. Of one that is `followed`
    only followed items are stored.
    """

    source: str
    configured: str
    path: str
    listed: ProjectRecord | None = None
    failure: TideloreError | None = None
    is_group: bool = False
    followed: bool = False


def find_chosen(
    database: Database, source: str, configured: str, listed: ProjectRecord | None = None
) -> ProjectRow | None:
    """Return the stored row of a project, or None."""
    if listed is not None:
        return find_remote(database, source, listed.remote_id)
    return find_configured(database, source, configured)


async def resolve_project(
    session: Session, source: ProjectSource, configured: str, listed: ProjectRecord | None = None
) -> ProjectRow:
    """Return a project's row; if it is missing or outdated, update it from its group's listing or the forge."""
    known = find_chosen(session.shop.database, source.name, configured, listed)
    confirmed = await confirm_address(session.shop.config, source, known)
    if confirmed is not None:
        return _save(session, source, configured, confirmed)
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
        if source.owns_names:
            raise
        return await find_again(session, source, known)


async def confirm_address(config: Config, source: ProjectSource, known: ProjectRow | None) -> ProjectRecord | None:
    """Look up a known project by its path if the `base_url` of its host was changed; return None if it was not.

    Raises RepositoryReplaced if another project has that path there: on another server the ids mean other projects.
    """
    address = _address(config, source)
    if known is None or known.base_url in (None, address):
        return None
    record = await source.resolve(known.path)
    if record.remote_id != known.remote_id:
        raise RepositoryReplaced(
            f"{known.path} at {address} is another project (id {record.remote_id}) than at {known.base_url} (id"
            f" {known.remote_id}); nothing was read",
            fix=f"correct base_url of {source.name}; another server needs a table with another name",
            reason="replaced",
            project=known.path,
            known_id=known.remote_id,
            found_id=record.remote_id,
        )
    return record


async def refresh_project(session: Session, source: ProjectSource, known: ProjectRow) -> ProjectRow:
    """Fetch a known project and store its current name and path.

    Raises RepositoryReplaced if its name was taken over, on a forge where names belong to projects.
    """
    record = await source.resolve(known.path if source.owns_names else known.remote_id)
    if source.owns_names:
        check_identity(known, record.remote_id)
    return _save(session, source, known.configured, record)


async def find_again(session: Session, source: ProjectSource, known: ProjectRow) -> ProjectRow:
    """Fetch the project that has the name of a known one whose id was not found: it may have been recreated.

    Raises RepositoryReplaced where names belong to projects.
    """
    if source.owns_names:
        return await refresh_project(session, source, known)
    return await look_up(session, source, known.configured)


async def look_up(session: Session, source: ProjectSource, configured: str) -> ProjectRow:
    """Fetch a project by its configured name and store it."""
    return _save(session, source, configured, await source.resolve(configured))


def is_fresh(project: ProjectRow, now_ms: int) -> bool:
    """Return whether a row need not be fetched again yet. A row from the future must be (clock set back)."""
    return 0 <= now_ms - project.updated_at <= REFRESH_MS


def reason_to_skip(config: Config, project: ProjectRow) -> str | None:
    """Return why to skip a project, or None to read it. Stored items of a skipped project are kept."""
    host = forge_host(config, project.source)
    return "archived" if project.archived and not (host is not None and host.include_archived) else None


def mirror_since(config: Config, source: str, configured: str) -> str:
    """Return the configured horizon of a project: its own, or that of its host."""
    host, settings = find_host(config, source), feedback_settings(config, source, configured)
    overrides = host.overrides if isinstance(host, ProjectHost) else ()
    own = [one.mirror_since for one in overrides if one.project == configured and one.mirror_since is not None]
    shared = settings or host
    return own[0] if own else "" if shared is None else shared.mirror_since


def horizon_of(config: Config, source: str, configured: str, clock: Clock) -> int:
    """Return from when on the items of a project are mirrored, by their last update (epoch ms); 0 for everything."""
    text, now = mirror_since(config, source, configured), clock.now_ms()
    found = parse_horizon(text, now)
    if found > now:
        raise ConfigError(
            f"mirror_since of {configured} is in the future: {text!r}",
            fix='use a date in the past, such as "2025-01-01", or a duration such as "365d"',
            key="mirror_since",
        )
    return found


async def find_projects(source: ProjectSource, host: ForgeHost, known: Sequence[ProjectRow]) -> list[ChosenProject]:
    """Return the projects of a host: those configured by name, then the others that its groups contain.

    A group that cannot be listed is one failure under the name `group/*`. If the source rejects the credentials or
    limits the rate, all of its projects fail and it gets no more requests.
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
    sources: Sequence[ProjectSource], hosts: Sequence[ForgeHost], known: Sequence[ProjectRow]
) -> list[ChosenProject]:
    """Return the projects of all hosts, host by host."""
    return [
        chosen
        for source, host in zip(sources, hosts, strict=True)
        for chosen in await find_projects(source, host, known)
    ]


def name_projects(host: ForgeHost, known: Sequence[ProjectRow]) -> list[ChosenProject]:
    """Return the projects configured by name, with their last known paths."""
    paths = {row.configured: row.path for row in known if row.source == host.name}
    return [
        ChosenProject(host.name, name, paths.get(name, name), followed=name in host.followed)
        for name in dict.fromkeys(host.projects)
    ]


async def _identify(
    source: ProjectSource, chosen: ChosenProject, known: Sequence[ProjectRow], listed: dict[int, ProjectRecord]
) -> ChosenProject:
    """Resolve a configured name, so that a group does not add the same project again."""
    rows = [row for row in known if row.source == chosen.source and row.configured == chosen.configured]
    if rows:
        # Two rows with one name: the project was recreated, and the newer row is the current one.
        return replace(chosen, listed=listed.get(max(rows, key=lambda row: row.id).remote_id))
    found = next((record for record in listed.values() if record.path == chosen.configured), None)
    if found is not None:
        return replace(chosen, listed=found)
    try:
        # Fetched here instead of later: the record is passed on.
        return replace(chosen, listed=await source.resolve(chosen.configured))
    except (CredentialsRejected, RateLimited):
        raise
    except RemoteError as error:
        return replace(chosen, failure=error)


def _says_the_same(known: ProjectRow, configured: str, listed: ProjectRecord) -> bool:
    stored = (known.configured, known.path, known.name, bool(known.archived), known.node_id, bool(known.has_topics))
    return stored == (configured, listed.path, listed.name, listed.archived, listed.node_id, listed.has_topics)


def _save(session: Session, source: ProjectSource, configured: str, record: ProjectRecord) -> ProjectRow:
    database, now, address = session.shop.database, session.shop.clock.now_ms(), _address(session.shop.config, source)
    with session.writing() as tx:
        project = store_repository(tx, database, source.name, configured, record, now, address)
    session.shop.seam(Seam.PROJECT_RESOLVED)
    return project


def _address(config: Config, source: ProjectSource) -> str | None:
    """Return the configured address of a host."""
    host = find_host(config, source.name)
    return None if host is None else host.base_url


_BASES: Mapping[str, Family] = MappingProxyType({"issues": ISSUES, "merge_requests": MERGE_REQUESTS})


@cache
def _family(name: str, resource: Resource) -> Family:
    return _BASES[name].of_source(resource.children, resource.asides, resource.by_columns, resource.keeps)


def family_of(source: ProjectSource, resource: str) -> Family:
    """Return how the issues or merge requests of a source are stored."""
    return _family(resource, source.resources[resource])


class ListTarget(Struct, frozen=True):
    """One list of one project. `listed` is its record if a group listed it; `failure` is why it cannot be read.

    Of a `followed` one only followed items are stored.
    """

    source: ProjectSource
    configured: str
    resource: str
    listed: ProjectRecord | None = None
    failure: TideloreError | None = None
    followed: bool = False

    @property
    def surface(self) -> str:
        return f"{self.source.kind}.{self.resource}"

    @property
    def is_feed(self) -> bool:
        """Whether it lists the comments of the whole project."""
        return self.resource in self.source.feeds

    @property
    def is_topics(self) -> bool:
        """Whether it lists topics."""
        return self.resource == TOPICS

    @property
    def has_sides(self) -> bool:
        """Whether it lists issues and the issue sides of merge requests."""
        return self.has_parents and self.source.resources[self.resource].has_sides

    @property
    def has_parents(self) -> bool:
        """Whether it lists issues or merge requests."""
        return self.resource in self.source.resources

    @property
    def key(self) -> ScopeKey:
        return self.source.name, self.configured, self.surface

    @property
    def family(self) -> Family:
        """How its issues or merge requests are stored."""
        return family_of(self.source, self.resource)

    def scope(self, project: ProjectRow) -> Scope:
        """Return the scope of this list, under which its position is stored."""
        return Scope(self.source.name, self.surface, str(project.remote_id), project.id, project.path)

    def settings(self, config: Config) -> Sync:
        """Return the settings that apply to its project."""
        return sync_settings(config, self.source.name, self.configured)

    def stored_project(self, database: Database) -> ProjectRow | None:
        """Return the stored row of its project, or None."""
        return find_chosen(database, self.source.name, self.configured, self.listed)


def check_resources(resources: Sequence[str]) -> None:
    """Raise UserError for an unknown resource type."""
    for resource in resources:
        if resource not in RESOURCES:
            raise UserError(
                f"invalid value for --type: {resource!r}",
                fix=f"use one of: {', '.join(RESOURCES)}",
                type=resource,
            )


def check_configured(config: Config) -> None:
    """Raise ConfigError if no project or group is configured."""
    if not forge_hosts(config):
        # `lore init` refuses to replace a file.
        fix = (
            "run `lore init`, add your projects to the configuration file, then run `lore doctor`"
            if config == Config()
            else "add your projects under [[gitlab]] or your repositories under [[github]] in the configuration file, "
            "or follow Bluesky accounts with `lore accounts add HANDLE`"
        )
        raise ConfigError("no project is configured", fix=fix, key="gitlab.projects")


def choose_known(config: Config, known: Sequence[ProjectRow], wanted: str) -> ChosenProject | None:
    """Return the project that `wanted` names, or None if the groups must be listed to find it.

    If groups are configured, only a full name is certain: a suffix may also match a project of a group.
    """
    named = [chosen for host in forge_hosts(config) for chosen in name_projects(host, known)]
    if not any(host.groups for host in forge_hosts(config)):
        return choose_one(named, wanted)
    candidates = named + _stored_of_groups(config, known, {(one.source, one.configured) for one in named})
    whole = [chosen for chosen in candidates if wanted in (chosen.path, chosen.configured)]
    return whole[0] if len(whole) == 1 else None


def hosts_of(config: Config, one: ChosenProject | None) -> list[ForgeHost]:
    """Return the hosts to open: the host of `one`, or all hosts with configured projects or groups."""
    return [host for host in forge_hosts(config) if one is None or one.source == host.name]


def choose_one(candidates: Sequence[ChosenProject], wanted: str) -> ChosenProject:
    """Return the project with this full name, or with this unambiguous path suffix."""
    failures = [chosen.failure for chosen in candidates if chosen.failure is not None]
    projects = [chosen for chosen in candidates if not chosen.is_group]
    try:
        return match_one(wanted, projects, lambda chosen: (chosen.path, chosen.configured), "configured project")
    except NotFound:
        if failures:
            # The project may be in a group that could not be listed: that error is more useful.
            raise failures[0] from None
        raise


def build_targets(
    sources: Sequence[ProjectSource], chosen: Sequence[ChosenProject], resources: Sequence[str]
) -> list[ListTarget]:
    """Return every list to read, project by project; a group that could not be listed is one target."""
    by_name = {source.name: source for source in sources}
    targets: list[ListTarget] = []
    for one in chosen:
        source = by_name[one.source]
        kinds = ["groups"] if one.is_group else lists_of(source, resources, followed=one.followed)
        targets += [ListTarget(source, one.configured, kind, one.listed, one.failure, one.followed) for kind in kinds]
    return targets


def lists_of(source: ProjectSource, resources: Sequence[str], *, followed: bool = False) -> list[str]:
    """Return the lists of a source to read for these types of items, in their order.

    The comments of a whole project are read only with all types: without their parents they cannot be stored. Topics
    are read with all types too, and last. Of a project of which only followed items are stored, merge requests and
    comments are listed.
    """
    wanted = [name for name in source.resources if name in resources]
    if followed:
        return ["merge_requests", *source.feeds] if len(wanted) == len(source.resources) else []
    if len(wanted) < len(source.resources):
        return wanted
    return [*wanted, *source.feeds, *([TOPICS] if isinstance(source, TopicSource) else [])]


def _stored_of_groups(config: Config, known: Sequence[ProjectRow], named: set[tuple[str, str]]) -> list[ChosenProject]:
    """Return stored projects under the path of a configured group that are not configured by name."""
    roots = {host.name: tuple(f"{group}/" for group in host.groups) for host in forge_hosts(config)}
    return [
        ChosenProject(row.source, row.configured, row.path)
        for row in known
        if row.path.startswith(roots.get(row.source, ())) and (row.source, row.configured) not in named
    ]
