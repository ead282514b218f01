"""Service jobs of the forges, Bluesky and the local copy, and the list of all jobs of a configuration.

All hosts and repositories that are due are synced together; each gets its own result, and a host that asks for a long
pause backs off alone. A sync stops after one interval and continues in the next run with the lists it has not read, so
a first sync of hours does not block other jobs. What webhooks announce is read by a job of their host: it reads the
lists of the announced projects, as a poll does, and the announced items that no list shows; a hundred deliveries of one
project are one read. Bluesky is polled only when an account is due. Documents, vectors and the run ledger have separate
jobs.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.feedback_jobs import feedback_jobs, jobs_to_wake, sync_name
from tidelore.app.hooks.jobs import (
    LOOK_SECONDS,
    MOST_PROJECTS,
    REST_SECONDS,
    hooked_hosts,
    job_name,
    look_for_waiting,
    mark_announced,
    stretched_interval,
)
from tidelore.core.config import ForgeHost, all_hosts, forge_hosts, only_units
from tidelore.core.errors import ConfigError
from tidelore.core.extras import install_command
from tidelore.embedding.registry import missing_extra
from tidelore.service.jobs import Job, JobResult, SyncRounds, batched, sync_error
from tidelore.service.schedule import NEVER, JobSpec, bound_of
from tidelore.service.threads import run_in_thread

if TYPE_CHECKING:
    from tidelore.app.wiring import App
    from tidelore.core.config import Config, Host
    from tidelore.core.errors import TideloreError
    from tidelore.feedback.report import RepoReport
    from tidelore.store.database.port import Database
    from tidelore.store.mirror.accounts import AccountRange
    from tidelore.store.work.hooks import Announced
    from tidelore.sync.report import PollReport, RunReport, ScopeReport


_LOG = logging.getLogger(__name__)

SYNC_COMMAND = "lore sync"
SYNC_TURN = "sync"
HOOKS_COMMAND = "lore service (webhooks)"
HOOKS_SECONDS = 10.0
"""After how long a read of announced projects stops, so that polls have their turn."""
PATIENCE_SECONDS = 10.0
"""How long a joint sync waits for one host that asked for a pause; for a longer pause only that host backs off."""
SHORTEST_SLICE_SECONDS = 10.0
"""The minimum duration of a sync run, however short the interval is, because starting one has a cost."""
DOCUMENTS = "documents"
EMBEDDINGS = "embeddings"
LEDGER = "ledger"
COPY = "copy"
EMBEDDING = "embedding"
DOCUMENTS_SECONDS = 30.0
EMBEDDINGS_SECONDS = 300.0
LEDGER_SECONDS = 86_400.0
"""How often documents, vectors and the ledger are checked when no job has woken them. The check for documents is short
because it reads one row, and because streams and commands also mark documents but wake no job."""


def forge_jobs(app: App) -> list[Job]:
    """Return a sync job for each host with configured projects or groups, and for each repository of GitHub."""
    syncing = Syncing(app, _units(app))
    return [batched(spec, syncing.sync_batch) for spec in syncing.specs]


def usual_interval(app: App) -> float:
    """Return the interval of hosts and projects without a separate one, in seconds."""
    return app.config.service.gitlab_interval_seconds


def _units(app: App) -> dict[str, SyncJob]:
    mirrored = {host.name: host for host in forge_hosts(app.config)}
    usual = usual_interval(app)
    return {
        sync_name(host.kind, host.name, unit.project): SyncJob(
            mirrored[host.name], unit.project, unit.interval_seconds or usual
        )
        for host in all_hosts(app.config)
        if host.name in mirrored
        for unit in host.units
    }


def copy_jobs(app: App, batch: int | None = None) -> list[Job]:
    """Return the jobs of the local copy: documents, vectors if enabled, and the upkeep of the run ledger.

    A turn generates or embeds a `batch` of documents, by default all of them.
    """
    documents = JobSpec(DOCUMENTS, COPY, "documents", COPY, DOCUMENTS_SECONDS, turn=SYNC_TURN, asks=False)
    ledger = JobSpec(LEDGER, COPY, "upkeep", COPY, LEDGER_SECONDS, asks=False)
    jobs = [Job(documents, lambda: make_documents(app, batch)), Job(ledger, lambda: keep_ledger(app))]
    extra = missing_extra(app.config.embedding)
    if extra is not None:
        fix = install_command(extra)
        told = {"event": "extra_missing", "missing": extra}
        _LOG.warning("embeddings are not computed: the extra %r is not installed (%s)", extra, fix, extra=told)
    elif app.config.embedding.provider != "none":
        spec = JobSpec(EMBEDDINGS, EMBEDDING, "embeddings", app.config.embedding.provider, EMBEDDINGS_SECONDS)
        jobs.append(Job(spec, Embedding(app, batch).run))
    return jobs


class SyncJob(Struct, frozen=True):
    """A host that is synced by a job, or one project of it."""

    host: ForgeHost
    project: str | None
    interval: float


class Syncing:
    """Syncs any number of hosts and single projects together, and remembers which of their lists are left."""

    def __init__(self, app: App, jobs: Mapping[str, SyncJob]) -> None:
        self._app = replace(app, patience_seconds=PATIENCE_SECONDS)
        self._jobs = jobs
        self._rounds = SyncRounds()
        # No longer than the shortest interval, so that a long first sync does not delay the others.
        self._slice_seconds = max(min((job.interval for job in jobs.values()), default=0.0), SHORTEST_SLICE_SECONDS)

    @property
    def specs(self) -> list[JobSpec]:
        return [
            JobSpec(
                name,
                job.host.name,
                "sync",
                job.project or job.host.base_url,
                job.interval,
                bound_of(job.interval),
                turn=SYNC_TURN,
                batch=SYNC_TURN,
            )
            for name, job in self._jobs.items()
        ]

    async def sync_batch(self, names: Sequence[str]) -> dict[str, JobResult]:
        """Sync the hosts and projects of these jobs together."""
        from tidelore.core.errors import CredentialsMissing

        hosts = list({self._jobs[name].host.name: None for name in names})
        try:
            return await self._sync(names)
        except CredentialsMissing:
            if len(hosts) == 1:
                raise
        # No host has a token. Sync each one alone, so that its error names its own token.
        found: dict[str, JobResult] = {}
        for host in hosts:
            own = [name for name in names if self._jobs[name].host.name == host]
            try:
                found |= await self._sync(own)
            except CredentialsMissing as error:
                found |= dict.fromkeys(own, JobResult(error=error))
        return found

    async def _sync(self, names: Sequence[str]) -> dict[str, JobResult]:
        from tidelore.store.work.session import LEASE

        jobs = {name: self._jobs[name] for name in names}
        config, lease = self._parts(list(jobs.values()))
        rounds = self._rounds_of(names)
        run = await _read_projects(
            replace(self._app, config=config),
            SYNC_COMMAND,
            self._announced(list(jobs.values())),
            sampled=True,
            documents=lease == LEASE,
            seconds=self._slice_seconds,
            turns=rounds.turns,
            lease=lease,
        )
        return self._results(jobs, run, rounds.take(run.report))

    def _rounds_of(self, names: Sequence[str]) -> SyncRounds:  # noqa: ARG002 - for workers
        """Return what was read of these jobs in earlier runs."""
        return self._rounds

    def _parts(self, jobs: Sequence[SyncJob]) -> tuple[Config, str]:
        """Return the configuration of these jobs, and the lease that they need."""
        from tidelore.store.work.session import LEASE

        return only_units(self._app.config, {(job.host.name, job.project) for job in jobs}), LEASE

    def _announced(self, jobs: Sequence[SyncJob]) -> Mapping[tuple[str, str], Announced]:  # noqa: ARG002 - for workers
        """Return the projects whose webhooks announced something; in the service a separate job reads them."""
        return {}

    def _results(
        self,
        jobs: Mapping[str, SyncJob],
        run: _ProjectsRun,
        behind: Collection[tuple[str, str]],
    ) -> dict[str, JobResult]:
        stretched, report = stretched_interval(self._app), run.report
        asked = dict(report.asked)
        found: dict[str, JobResult] = {}
        for name, job in jobs.items():
            scopes = [scope for scope in report.scopes if _covers(job, scope)]
            result = run.result(self._app, job.host.name, scopes)
            asked[job.host.name] = asked.get(job.host.name, 0) - result.requests
            found[name] = replace(
                result,
                # What was read only in part is not up to date.
                fresh=not any(scope.key[:2] in behind for scope in scopes) and result.error is None,
                stretched_seconds=stretched(job.host.name, [scope.home for scope in scopes]),
            )
        for name, job in jobs.items():
            # Requests of no list (children, a login, a retry) are counted for the first job of their host.
            rest = asked.pop(job.host.name, 0)
            found[name] = replace(found[name], requests=found[name].requests + rest)
        return found


def _covers(job: SyncJob, scope: ScopeReport) -> bool:
    return scope.source == job.host.name and job.project in (None, scope.configured)


class _ProjectsRun(Struct, frozen=True):
    """A sync of some projects, and what their comments led to."""

    report: RunReport
    feedback: Mapping[int, RepoReport]

    def result(self, app: App, source: str, scopes: Sequence[ScopeReport]) -> JobResult:
        """Return what became of some lists of a host, and which jobs have work now."""
        report = self.report
        wakes = {EMBEDDINGS: None} if report.documents is not None and report.documents.regenerated else {}
        for scope in scopes:
            told = self.feedback.get(scope.home.id) if scope.home is not None else None
            if told is not None:
                wakes |= dict.fromkeys(jobs_to_wake(app, told, scope.configured))
        return JobResult(
            sum(scope.requests for scope in scopes),
            sync_error(report, scopes),
            wakes=tuple(wakes),
            budget=report.budgets.get(source),
            points=report.points.get(source),
            again=any(scope.is_left for scope in scopes),
        )


async def _read_projects(
    app: App, command: str, waiting: Mapping[tuple[str, str], Announced], *, sampled: bool = False, **wanted: Any
) -> _ProjectsRun:
    """Sync the projects of a configuration with what their webhooks announced; `sampled`: compare some threads."""
    from tidelore.app.mirroring import mirror
    from tidelore.app.wiring import FeedbackOptions
    from tidelore.sources.ports import RESOURCES
    from tidelore.sync.mirror import MirrorRequest

    announced = {key: dict(one.silent) for key, one in waiting.items()}
    feedback: dict[int, RepoReport] = {}
    options = FeedbackOptions(feedback, (lambda share: random.random() < share) if sampled else None)
    request = MirrorRequest(RESOURCES, announced=announced or None, **wanted)
    report = await mirror(app, request, command, feedback=options)
    if waiting:
        mark_announced(app, list(waiting.values()), report)
    return _ProjectsRun(report, feedback)


def hook_jobs(app: App, run: Callable[[Host], Awaitable[JobResult]], **about: Any) -> list[Job]:
    """Return a job for each host whose deliveries are accepted; `about` says more about them."""

    def job_of(host: Host) -> Job:
        spec = JobSpec(job_name(host.name), host.name, "hooks", host.base_url, LOOK_SECONDS, **about)
        return Job(spec, lambda: run(host))

    return [job_of(host) for host in hooked_hosts(app)]


async def read_announced(app: App, host: Host) -> JobResult:
    """Read what the webhooks of a host announced."""
    from tidelore.sources.registry import only_projects

    waiting, missed = look_for_waiting(app, host.name)
    if not waiting:
        # The polls that were stretched find the rest, and their interval is the usual one again.
        polls = tuple(sync_name(host.kind, host.name, unit.project) for unit in host.units)
        return JobResult(idle=True, wakes=polls if missed else ())
    chosen = {(host.name, one.configured): one for one in waiting[:MOST_PROJECTS]}
    config = only_projects(app.config, host.name, [one.configured for one in chosen.values()])
    polite = replace(app, config=config, patience_seconds=PATIENCE_SECONDS)
    run = await _read_projects(polite, HOOKS_COMMAND, chosen, documents=True, seconds=HOOKS_SECONDS, scrub_budget=0)
    result = run.result(app, host.name, run.report.scopes)
    return replace(result, requests=run.report.requests, again=result.again or len(waiting) > MOST_PROJECTS)


async def keep_ledger(app: App) -> JobResult:
    """Delete old runs and old deliveries of webhooks."""
    from tidelore.store.work.hooks import forget_deliveries
    from tidelore.store.work.runs import forget_runs

    now = app.clock.now_ms()
    with app.store() as database:
        forgotten = forget_runs(database, now, app.config.service.keep_runs_days)
        forgotten += forget_deliveries(database, now - round(app.config.hooks.keep_days * 86_400_000))
    return JobResult(idle=not forgotten)


async def make_documents(app: App, batch: int | None = None) -> JobResult:
    from tidelore.app.mirroring import document
    from tidelore.store.mirror.documents import due_sources

    with app.store() as database:
        waiting = bool(due_sources(database, 1))
    if not waiting:
        return JobResult(idle=True)
    report = await run_in_thread(lambda: document(app, full=False, force=False, limit=batch))
    done = report.regenerated + report.unchanged + report.removed
    return JobResult(wakes=(EMBEDDINGS,) if report.regenerated else (), again=batch is not None and done >= batch)


class Embedding:
    """Computes embeddings. The first run skips the quick check, because the model may have changed."""

    def __init__(self, app: App, batch: int | None = None) -> None:
        self._app = app
        self._batch = batch
        self._looked = False

    async def run(self) -> JobResult:
        done = await run_in_thread(self._embed)
        self._looked = True
        return done

    async def _embed(self) -> JobResult:
        from tidelore.app.mirroring import embed
        from tidelore.store.reading.totals import lacks_vectors

        with self._app.store() as database:
            needed = lacks_vectors(database)
        if self._looked and not needed:
            return JobResult(idle=True)
        made = await embed(self._app, limit=self._batch)
        again = self._batch is not None and made.embedded >= self._batch
        return JobResult(error=made.error, idle=not made.embedded and made.error is None, again=again)


POLL_COMMAND = "lore poll bluesky"
BLUESKY = "bluesky"
STREAM = "bluesky stream"
BLUESKY_LOOK_SECONDS = 30.0


def follows_somebody(app: App, database: Database) -> bool:
    """Return whether there are accounts to poll."""
    from tidelore.store.mirror.accounts import next_due_at

    return bool(app.config.bluesky.accounts) or next_due_at(database) is not None


def account_jobs(app: App, database: Database, most: int | None = None) -> list[Job]:
    """Return the jobs of followed accounts, if there are any; with `most`, a job for each range of as many ids."""
    from tidelore.store.mirror.accounts import account_ranges

    if not follows_somebody(app, database):
        return []
    ranges = [] if most is None else account_ranges(database, most)
    return bluesky_jobs(app, ranges if len(ranges) > 1 else ())


def bluesky_jobs(app: App, ranges: Sequence[AccountRange] = ()) -> list[Job]:
    """Return the jobs of Bluesky: one that polls all accounts, or one for each range of them."""
    settings = app.config.bluesky
    interval = settings.interval_minutes * 60
    look = min(BLUESKY_LOOK_SECONDS, interval)

    def job_of(name: str, polling: _Polling) -> Job:
        spec = JobSpec(name, BLUESKY, "poll", settings.base_url, look, bound_of(interval), turn=BLUESKY)
        return Job(spec, polling.run)

    jobs = [job_of(f"bluesky:poll:{one.first}-{one.last}", _Polling(app, one, one == ranges[0])) for one in ranges]
    if not ranges:
        jobs = [job_of("bluesky:poll", _Polling(app))]
    if settings.stream:
        # A separate source, so that a failing stream does not pause the poll, which covers for it.
        stream = JobSpec(
            "bluesky:stream", STREAM, "stream", settings.jetstream_url, BLUESKY_LOOK_SECONDS, continuous=True
        )
        jobs.append(Job(stream, lambda: _stream(app)))
    return jobs


class _Polling:
    """Polls due accounts, those of a range if one is given.

    One of the jobs adds `configured` accounts; names that could not be resolved are retried at the base interval.
    """

    def __init__(self, app: App, within: AccountRange | None = None, configured: bool = True) -> None:  # noqa: FBT001
        self._app = app
        self._within = within
        self._configured = configured
        self._resolve_at = float("-inf") if configured and app.config.bluesky.accounts else NEVER

    async def run(self) -> JobResult:
        from tidelore.app.accounts import open_network
        from tidelore.store.mirror.accounts import ALL_ACCOUNTS
        from tidelore.sync.account_poll import PollRequest, poll

        within = self._within or ALL_ACCOUNTS
        if not self._is_due(within):
            return JobResult(idle=True)
        app = self._app
        request = PollRequest(documents=False, within=within, configured=self._configured)
        async with open_network(app, POLL_COMMAND) as opened:
            report = await poll(opened.shop, opened.source, request, opened.count)
        again = app.clock.monotonic() + app.config.bluesky.interval_minutes * 60
        self._resolve_at = again if report.unresolved else NEVER
        # Documents are generated by a separate job: here they would block a sync.
        wakes = (DOCUMENTS,) if report.posts or report.verified else ()
        return JobResult(report.requests, _verdict(report), wakes=wakes, budget=opened.count.budgets.get(BLUESKY))

    def _is_due(self, within: AccountRange) -> bool:
        from tidelore.store.mirror.accounts import due_accounts

        if self._app.clock.monotonic() >= self._resolve_at:
            return True
        with self._app.store() as database:
            return bool(due_accounts(database, self._app.clock.now_ms(), 1, within))


def _verdict(report: PollReport) -> TideloreError | None:
    """Return the error of a poll cycle. If no account could be read, that is the server's failure."""
    from tidelore.sync.report import poll_verdict

    error = poll_verdict(report)
    nobody = report.accounts == report.failed
    return next(iter(report.outages.values()), error) if error is not None and nobody else error


async def _stream(app: App) -> JobResult:
    from tidelore.app.accounts import stream_accounts
    from tidelore.sync.account_stream import StreamReport, StreamRequest

    await stream_accounts(app, StreamRequest(documents=False), StreamReport())
    return JobResult()


def build_jobs(app: App, database: Database) -> list[Job]:
    """Return all jobs of a configuration."""
    app = replace(app, insists=True)
    hooks = hook_jobs(app, lambda host: read_announced(app, host), turn=SYNC_TURN, rest_seconds=REST_SECONDS)
    return [*forge_jobs(app), *feedback_jobs(app), *hooks, *account_jobs(app, database), *copy_jobs(app)]


def build_some_jobs(app: App, database: Database) -> list[Job]:
    """Return all jobs, or raise ConfigError if the configuration contains no source."""
    jobs = build_jobs(app, database)
    refuse_idle([job.spec for job in jobs])
    return jobs


def refuse_idle(specs: Iterable[JobSpec]) -> None:
    """Raise ConfigError if there is no job that reads a source."""
    if not any(spec.staleness_bound_seconds is not None for spec in specs):
        raise ConfigError(
            "nothing to do: no projects, repositories or accounts are configured",
            fix="add projects under [[gitlab]], repositories under [[github.repos]], or accounts under [bluesky]",
            key="gitlab.projects",
        )
