"""Use-cases of configured sources: list and diagnose them, open hosts for feedback, accept a replaced repository.

`open_hub` opens the hosts and the store for the repositories of one command, and imports what only open hosts need.
When a repository is replaced, the rows of the former one stay under its current name and are no longer polled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.reports import CHILD_NAMES
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.clock import format_instant
from tidelore.core.config import Bluesky, Config, all_hosts, feedback_hosts, repo_settings
from tidelore.core.errors import ConfigError, NotFound, RemoteNotFound, TideloreError
from tidelore.core.references import match_one
from tidelore.feedback.lifecycle import Lifecycle
from tidelore.feedback.repositories import ConfiguredRepo
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import count_accounts
from tidelore.store.mirror.child_progress import list_refusals
from tidelore.store.mirror.projects import ProjectRow, find_configured, list_projects
from tidelore.store.work.effects import count_ignored

if TYPE_CHECKING:
    from tidelore.sources.ports import FeedbackSource
    from tidelore.sync.diagnosis import Finding
    from tidelore.sync.report import RequestCount


class Hub(Struct, frozen=True):
    """Open hosts and the open store of one command."""

    app: App
    database: Database
    places: Sequence[ConfiguredRepo]
    sources: dict[str, FeedbackSource]
    count: RequestCount
    accesses: Mapping[str, str] = MappingProxyType({})

    def source(self, place: ConfiguredRepo) -> FeedbackSource:
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

    from tidelore.sources.registry import open_feedback_hosts
    from tidelore.sync.report import RequestCount

    hosts = list({place.host.name: place.host for place in places}.values())
    count = RequestCount()
    async with AsyncExitStack() as stack:
        wiring = app.wiring(count)
        opened = await open_feedback_hosts(hosts, wiring, stack)
        database = stack.enter_context(app.store(create=create))
        yield Hub(app, database, places, {source.name: source for source in opened}, count, wiring.accesses)


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
    """A project of a host."""

    source: Annotated[str, means("the configured host")]
    kind: Annotated[str, means("gitlab or github")]
    base_url: Annotated[str, means("its base_url")]
    configured: Annotated[str, means("the project as configured")]
    path: Annotated[str | None, means("the name it has now, or null if it was not read yet")]
    remote_id: Annotated[int | None, means("its id on the host, or null if it was not read yet")]
    updated_at: Annotated[Instant | None, means("when the host last described it, or null")]


class SourceList(Struct, frozen=True):
    """The answer of `lore sources`."""

    items: list[SourceEntry]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null: the list is complete")] = None


class FormerRepository(Struct, frozen=True):
    """The repository that a name stood for before."""

    path: Annotated[str, means("the name under which its stored data is kept")]
    remote_id: Annotated[int, means("its id")]


class AcceptedRepository(Struct, frozen=True, kw_only=True):
    """The answer of `lore sources accept`."""

    source: Annotated[str, means("the configured host")]
    configured: Annotated[str, means("the repository as configured")]
    path: Annotated[str, means("the name it has now")]
    remote_id: Annotated[int, means("its id from now on")]
    former: Annotated[
        FormerRepository | None,
        means("the repository that the name stood for, or null if the id is unchanged"),
    ]


_CHECK_SECONDS = 10
"""How long a check waits for a response, at most twice."""


class WrittenConfig(Struct, frozen=True):
    """The answer of `lore init`."""

    path: Annotated[str, means("path of the file")]
    projects: Annotated[list[str], means("the projects in it")]
    repos: Annotated[list[str], means("the GitHub repositories in it")]


class DiagnosisFinding(Struct, frozen=True):
    """The result of one check."""

    subject: Annotated[str, means("what was checked")]
    ok: Annotated[bool, means("whether it is in order")]
    detail: Annotated[str, means("what was found")]
    fix: Annotated[str | None, means("what to do, or null")]


class Diagnosis(Struct, frozen=True):
    """The answer of `lore doctor`."""

    findings: list[DiagnosisFinding]


class Accepted(Struct, frozen=True):
    """The repository of a configured name. `former` is the previous one, None if it is the same."""

    project: ProjectRow
    former: ProjectRow | None


def list_sources(app: App) -> SourceList:
    """Return every configured project, and the stored projects of configured hosts."""
    try:
        with app.reading() as database:
            projects = list_projects(database)
    except NotFound:
        projects = []
    found: list[SourceEntry] = []
    for host in all_hosts(app.config):
        stored = {row.configured: row for row in projects if row.source == host.name}
        for project in sorted({*host.configured, *stored}):
            row = stored.get(project)
            known = (None, None, None) if row is None else (row.path, row.remote_id, instant(row.updated_at))
            found.append(SourceEntry(host.name, host.kind, host.base_url, project, *known))
    return SourceList(found, len(found))


def accept(app: App, source: str, path: str, *, force: bool = False) -> AcceptedRepository:
    """Accept the repository that now has the configured name."""
    place = choose_repository(app.config, source, path)
    done = run_until_signalled(accept_repository(app, place, force=force), "nothing was changed")
    former = None if done.former is None else copy_fields(FormerRepository, done.former)
    return copy_fields(AcceptedRepository, done.project, former=former)


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
    from tidelore.feedback.repositories import verify_repository
    from tidelore.store.work.session import open_session

    async with open_hub(app, [place]) as hub:
        source, known, now = hub.source(place), hub.known(place), app.clock.now_ms()
        record = await source.resolve(place.name)
        if known is None or record.remote_id == known.remote_id:
            return Accepted(await verify_repository(hub.database, source, place.name, known, now), None)
        former_path = await _name_now(hub, place, known)
        shop = app.workshop(hub.database, "lore sources accept")
        note = f"{place.name}: id {record.remote_id} accepted in place of {known.remote_id}"
        async with open_session(shop, force=force, note=note) as session:
            from tidelore.store.mirror.projects import rename_repository, set_configured, store_repository

            with session.writing() as tx:
                rename_repository(tx, known, former_path)
                set_configured(tx, known, former_path)
                project = store_repository(tx, hub.database, source.name, place.name, record, now)
        former = next(row for row in list_projects(hub.database) if row.id == known.id)
        return Accepted(project, former)


async def _name_now(hub: Hub, place: ConfiguredRepo, known: ProjectRow) -> str:
    """Return the current name of a known repository; if it is gone, its old name with its id."""
    try:
        return (await hub.source(place).resolve(known.remote_id)).path
    except RemoteNotFound:
        return f"{known.path}@{known.remote_id}"


def diagnose_setup(app: App, config_file: str, *, offline: bool = False) -> tuple[Diagnosis, TideloreError | None]:
    """Check the configuration, the database and every source; also return the error of the first problem."""
    from tidelore.app.mirroring import diagnose

    findings = [_check_configuration(app.config, config_file), _check_database(app)]
    if all_hosts(app.config) and not offline:
        findings += run_until_signalled(diagnose(_hasty(app)))
    findings += _check_bluesky(app, offline=offline)
    findings += _stored_findings(app)
    told = [
        DiagnosisFinding(found.subject, found.ok, found.detail, None if found.error is None else found.error.fix)
        for found in findings
    ]
    return Diagnosis(told), next((finding.error for finding in findings if finding.error is not None), None)


def _hasty(app: App) -> App:
    """Return the same application with shorter waits: an unreachable host would take two minutes otherwise."""
    http, bluesky = app.config.http, app.config.bluesky
    short = replace(
        http, timeout_seconds=min(http.timeout_seconds, _CHECK_SECONDS), max_retries=min(http.max_retries, 1)
    )
    accounts = replace(bluesky, max_retries=min(bluesky.max_retries, 1))
    return replace(app, config=replace(app.config, http=short, bluesky=accounts))


def _check_configuration(config: Config, file: str) -> Finding:
    import stat
    from pathlib import Path

    from tidelore.sync.diagnosis import Finding

    path = Path(file)
    if not path.exists():
        return Finding("configuration", True, f"no file at {path}, using defaults (create one with `lore init`)")
    bits = stat.S_IMODE(path.stat().st_mode)
    hosts = feedback_hosts(config)
    runs_program = any(repo_settings(host, name).handler for host in hosts for name in ("", *host.configured))
    # A user who can write the file can also configure a program to run. A group often contains only the user, so
    # group access is a problem only if a program is configured.
    if bits & (0o022 if runs_program else 0o002):
        what = " and it names a program to run" if runs_program else ""
        problem = ConfigError(
            f"other users can change the configuration{what}", fix=f"chmod 600 {path}", file=str(path)
        )
        return Finding("configuration", False, f"{path}: {problem.message} (mode {bits:04o})", problem)
    return Finding("configuration", True, str(path))


def _check_database(app: App) -> Finding:
    import stat
    from pathlib import Path

    from tidelore.sync.diagnosis import Finding, trouble

    try:
        database = app.open_store()
    except NotFound:
        return Finding("database", True, f"no file at {app.address} yet; `lore sync` creates it")
    except TideloreError as error:
        return trouble("database", error)
    dialect = database.dialect
    database.close()
    if dialect == "sqlite" and stat.S_IMODE(Path(app.address).stat().st_mode) & 0o077:
        problem = TideloreError("other users can read the file", fix=f"chmod 600 {app.address}")
        return Finding("database", False, f"{app.address}: other users can read the file", problem)
    return Finding("database", True, f"{dialect}, schema up to date")


def _check_bluesky(app: App, *, offline: bool) -> list[Finding]:
    """Check Bluesky if accounts are followed there or its settings were changed."""
    from tidelore.app.accounts import diagnose_network
    from tidelore.sync.diagnosis import examine_accounts, examine_stream

    followed = None
    with _usable_store(app) as database:
        if database is not None and count_accounts(database):
            followed = examine_accounts(database)
    if followed is None and app.config.bluesky == Bluesky():
        return []
    findings = [] if offline else run_until_signalled(diagnose_network(_hasty(app)))
    return [*findings, examine_stream(app.config.bluesky), *([] if followed is None else [followed])]


def _stored_findings(app: App) -> list[Finding]:
    """Return the children that servers refuse for whole projects, and the comments ignored because of their author."""
    from tidelore.feedback.events import describe_ignored
    from tidelore.sync.diagnosis import Finding

    findings: list[Finding] = []
    with _usable_store(app) as database:
        if database is None:
            return []
        names = {project.id: f"{project.source} {project.path}" for project in list_projects(database)}
        for one in list_refusals(database):
            kind = CHILD_NAMES.get(one.kind, one.kind.replace("_", " "))
            told = f"unavailable ({one.error}); next attempt {format_instant(one.next_attempt_at)}"
            subject = f"{names[one.project_id]} {one.parent_kind.replace('_', ' ')}"
            findings.append(Finding(subject, True, f"{kind}: {told}"))
        for ignored in count_ignored(database):
            told = describe_ignored(ignored.reason, ignored.comments, ignored.accounts)
            findings.append(Finding(names[ignored.project_id], True, told))
    return findings


@contextmanager
def _usable_store(app: App) -> Iterator[Database | None]:
    """Open the database until the block ends; None if that is not possible, which another check reports."""
    try:
        database = app.open_store()
    except TideloreError:
        yield None
        return
    with closing(database):
        yield database
