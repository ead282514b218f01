"""The scopes of a configuration: the jobs of the service, cut so small that several workers can share them.

Every project is a scope. The projects of a group are known after the scope `groups:HOST` has listed them. Documents,
vectors, the run ledger, replies of a host and the handler of a repository are a scope each, and so is each range of
accounts; documents and vectors are made a batch at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelore.app.feedback_jobs import feedback_jobs, sync_name
from tidelore.app.hooks.jobs import REST_SECONDS, hooked_hosts, look_for_waiting
from tidelore.app.service_jobs import DOCUMENTS, Syncing, SyncJob, account_jobs, copy_jobs, hook_jobs, usual_interval
from tidelore.core.config import all_hosts, forge_hosts
from tidelore.service.jobs import Job, JobResult, SyncRounds
from tidelore.service.schedule import JobSpec, bound_of
from tidelore.sources.registry import only_projects
from tidelore.store.mirror.documents import due_sources
from tidelore.store.mirror.projects import list_projects
from tidelore.store.work.hooks import waiting_projects
from tidelore.store.work.session import Workshop, open_session, project_lease

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelore.app.wiring import App
    from tidelore.core.config import Config, ForgeHost, Host
    from tidelore.http.transport import KeptTransports
    from tidelore.sources.ports import ProjectSource
    from tidelore.store.database.port import Database
    from tidelore.store.work.hooks import Announced

COMMAND = "lore worker"
BATCH = 1000
"""How many documents are generated or embedded in one turn; the rest is put into the queue again, for any worker."""
MOST_ACCOUNTS = 1000
"""How many accounts one scope polls; with more of them, several workers poll at the same time."""
MOST_ANNOUNCED = 500
"""How many projects are woken at once because of webhooks, the longest waiting first."""


class _ProjectSyncing(Syncing):
    """Syncs one project, under its lease, with what its webhooks announced; its documents are a separate scope."""

    def __init__(self, app: App, jobs: Mapping[str, SyncJob]) -> None:
        super().__init__(app, jobs)
        self._hooked = {host.name for host in hooked_hosts(app)}
        self._rounds_by_project: dict[str, SyncRounds] = {}

    def _rounds_of(self, names: Sequence[str]) -> SyncRounds:
        # One for each project: with one for all, the end of each turn would cost time for every project.
        (name,) = names
        return self._rounds_by_project.setdefault(name, SyncRounds())

    def _parts(self, jobs: Sequence[SyncJob]) -> tuple[Config, str]:
        (job,) = jobs
        assert job.project is not None, "every scope is one project"
        config = only_projects(self._app.config, job.host.name, [job.project])
        return config, project_lease(job.host.name, job.project)

    def _announced(self, jobs: Sequence[SyncJob]) -> Mapping[tuple[str, str], Announced]:
        (job,) = jobs
        if job.project is None or job.host.name not in self._hooked:
            return {}
        with self._app.store() as database:
            found = waiting_projects(database, job.host.name, 1, job.project)
        return {(job.host.name, one.configured): one for one in found}

    @property
    def specs(self) -> list[JobSpec]:
        hooked = self._hooked
        return [replace(spec, rest_seconds=REST_SECONDS) if spec.source in hooked else spec for spec in super().specs]

    async def run(self, name: str) -> JobResult:
        """Sync one project, and wake the scope of documents if some must be generated."""
        result = (await self.sync_batch([name]))[name]
        with self._app.store() as database:
            waiting = bool(due_sources(database, 1))
        return replace(result, wakes=(*result.wakes, DOCUMENTS)) if waiting else result


def build_scopes(app: App, database: Database, transports: KeptTransports | None = None) -> dict[str, Job]:
    """Return all scopes of a configuration, by name; those of projects use `transports`."""
    app = replace(app, insists=True)
    jobs = [
        *_project_jobs(replace(app, transports=transports), database),
        *_group_jobs(app),
        *feedback_jobs(app),
        *copy_jobs(app, BATCH),
    ]
    jobs += hook_jobs(app, lambda host: _look_after_hooks(app, host), asks=False)
    jobs += account_jobs(app, database, MOST_ACCOUNTS)
    # Scopes exclude each other by their leases, not by taking turns in one process.
    return {job.spec.name: replace(job, spec=replace(job.spec, turn=None, batch=None)) for job in jobs}


def _project_jobs(app: App, database: Database) -> list[Job]:
    syncing = _ProjectSyncing(app, _projects(app, database))

    def job_of(spec: JobSpec) -> Job:
        return Job(spec, lambda: syncing.run(spec.name))

    return [job_of(spec) for spec in syncing.specs]


def _projects(app: App, database: Database) -> Mapping[str, SyncJob]:
    """Return every project that is mirrored: by name, or because a group contains it."""
    usual = usual_interval(app)
    intervals = {
        (host.name, unit.project): unit.interval_seconds or usual
        for host in all_hosts(app.config)
        for unit in host.units
    }
    stored = list_projects(database)
    found: dict[str, SyncJob] = {}
    for host in forge_hosts(app.config):
        roots = tuple(f"{group}/" for group in host.groups)
        grouped = [row.configured for row in stored if row.source == host.name and row.path.startswith(roots)]
        for project in dict.fromkeys([*host.projects, *(grouped if roots else ())]):
            interval = intervals.get((host.name, project)) or intervals.get((host.name, None)) or usual
            found[sync_name(host.kind, host.name, project)] = SyncJob(host, project, interval)
    return found


def announced_scopes(app: App, database: Database, source: str) -> list[str]:
    """Return the scopes of the projects of a host whose webhooks announced something that was not read yet."""
    return _scopes_of(app, source, waiting_projects(database, source, MOST_ANNOUNCED))


def _scopes_of(app: App, source: str, waiting: Sequence[Announced]) -> list[str]:
    host = next(host for host in all_hosts(app.config) if host.name == source)
    return [sync_name(host.kind, source, one.configured) for one in waiting]


async def _look_after_hooks(app: App, host: Host) -> JobResult:
    """Wake the projects with deliveries that no worker was told of, or all of the host if webhooks missed a change."""
    waiting, missed = look_for_waiting(app, host.name)
    wakes = _scopes_of(app, host.name, waiting)
    if missed:
        with app.store() as database:
            wakes = [name for name, job in _projects(app, database).items() if job.host.name == host.name]
    return JobResult(idle=True, wakes=tuple(wakes))


def _group_jobs(app: App) -> list[Job]:
    """Return a scope for each host with groups, which finds their projects."""
    interval = usual_interval(app)

    def job_of(host: ForgeHost) -> Job:
        name = f"groups:{host.name}"
        spec = JobSpec(name, host.name, "groups", host.base_url, interval, bound_of(interval))
        return Job(spec, lambda: _find_projects(app, host))

    return [job_of(host) for host in forge_hosts(app.config) if host.groups]


async def _find_projects(app: App, host: ForgeHost) -> JobResult:
    """List the projects of the groups of a host and store those that are new."""
    from contextlib import AsyncExitStack

    from tidelore.sources.registry import open_hosts
    from tidelore.sync.projects import find_projects
    from tidelore.sync.report import RequestCount

    count = RequestCount()
    async with AsyncExitStack() as stack:
        (source,) = await open_hosts([host], app.wiring(count), stack)
        database = stack.enter_context(app.store(create=True))
        chosen = await find_projects(source, host, list_projects(database))
        error = next((one.failure for one in chosen if one.failure is not None), None)
        listed = [one for one in chosen if one.listed is not None]
        shop = app.workshop(database, COMMAND)
        await _store(shop, source, [(one.configured, one.listed) for one in listed])
        return JobResult(count.total, error, budget=count.budgets.get(host.name))


async def _store(shop: Workshop, source: ProjectSource, found: Sequence[tuple[str, object]]) -> None:
    from tidelore.core.errors import LockHeld
    from tidelore.core.model import ProjectRecord
    from tidelore.store.mirror.projects import find_remote
    from tidelore.sync.projects import resolve_project

    for configured, record in found:
        assert isinstance(record, ProjectRecord)
        if find_remote(shop.database, source.name, record.remote_id) is None:
            try:
                async with open_session(shop, force=False, lease=project_lease(source.name, configured)) as session:
                    await resolve_project(session, source, configured, record)
            except LockHeld:
                # It is being synced, so its row is there.
                continue
