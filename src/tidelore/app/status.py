"""Read what runs and what ran: the service, its jobs, runs, pending work, metrics and the checks of the database.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.wiring import App
from tidelore.core.errors import IntegrityError
from tidelore.store.work.runs import RunRecord, RunView, find_record, list_records

if TYPE_CHECKING:
    from tidelore.service.status import ServiceStatus, SourceHealth, WorkerStatus
    from tidelore.store.reading.totals import Totals
    from tidelore.store.work.service_records import BudgetRow, JobRow


class JobEntry(Struct, frozen=True, kw_only=True):
    """A job of the service."""

    name: Annotated[str, means("the job")]
    source: Annotated[str, means("the configured host, bluesky, or a local task; jobs of one source back off together")]
    kind: Annotated[str, means("sync, poll, answers, handler, stream, documents, embeddings or upkeep")]
    scope: Annotated[str, means("its target: an address or a repository")]
    state: Annotated[str, means("idle, running, backing_off or stopped")]
    due_at: Annotated[Instant | None, means("when it is due, or null while it runs")]
    started_at: Annotated[Instant | None, means("last start, or null")]
    finished_at: Annotated[Instant | None, means("last end, or null")]
    succeeded_at: Annotated[Instant | None, means("last success, or null")]
    failures: Annotated[int, means("number of consecutive failures")]
    last_error: Annotated[str | None, means("last error, or null")]
    staleness_bound_seconds: Annotated[float | None, means("maximum age of its last success, or null if it has none")]
    requests: Annotated[int, means("requests sent since it exists")]
    updated_at: Annotated[Instant, means("last change of this record")]


class RateLimit(Struct, frozen=True, kw_only=True):
    """The rate limit of a source, as it last reported it."""

    requests_left: Annotated[int | None, means("remaining requests of the rate limit, or null")] = None
    requests_allowed: Annotated[int | None, means("the rate limit, or null")] = None
    refilled_at: Annotated[Instant | None, means("when the rate limit resets, or null")] = None

    @property
    def is_low(self) -> bool:
        """Whether less than a tenth is left, or nothing if the limit is unknown."""
        left, allowed = self.requests_left, self.requests_allowed
        return left is not None and (left == 0 if allowed is None else left * 10 < allowed)


class SourceLimit(RateLimit, frozen=True, kw_only=True):
    """The rate limit of a source with its name."""

    source: Annotated[str, means("a source that reported a rate limit")]


class SourceState(RateLimit, frozen=True, kw_only=True):
    """How fresh a source is."""

    source: Annotated[str, means("the source")]
    ok: Annotated[bool, means("whether it is fresh enough")]
    job: Annotated[str, means("the job that is most overdue")]
    lag_seconds: Annotated[float, means("age of its last success")]
    bound_seconds: Annotated[float, means("maximum allowed age")]
    error: Annotated[str | None, means("last error, or null")]


class RunningService(Struct, frozen=True, kw_only=True):
    """The process that runs the service."""

    host: Annotated[str, means("its machine")]
    pid: Annotated[int, means("its process id")]
    command: Annotated[str, means("its command line")]
    since: Annotated[Instant, means("its start")]
    heartbeat_at: Annotated[Instant, means("its last heartbeat")]


class WorkedScope(Struct, frozen=True, kw_only=True):
    """A scope that a worker works on."""

    name: Annotated[str, means("the scope: a job of the list of jobs")]
    since: Annotated[Instant, means("start of this turn")]


class RunningWorker(Struct, frozen=True, kw_only=True):
    """A worker that shares the jobs of this database with others."""

    host: Annotated[str, means("its machine")]
    pid: Annotated[int, means("its process id")]
    since: Annotated[Instant, means("its start")]
    heartbeat_at: Annotated[Instant, means("its last heartbeat")]
    holds: Annotated[list[WorkedScope], means("the scopes it works on")]


class WorkerQueue(Struct, frozen=True, kw_only=True):
    """What workers distribute among them."""

    waiting: Annotated[int, means("scopes that wait for a worker")]
    running: Annotated[int, means("scopes that workers work on")]
    late_seconds: Annotated[float | None, means("for how long the oldest due scope waits, or null if none does")]


class PendingWork(Struct, frozen=True, kw_only=True):
    """Counts of pending work."""

    pulls: Annotated[dict[str, int], means("tracked pull requests by status")]
    accounts: Annotated[dict[str, int], means("followed accounts by state")]
    accounts_due: Annotated[int, means("accounts that are due")]
    events_waiting: Annotated[int, means("unprocessed events of open pull requests and issues")]
    events_in_flight: Annotated[int, means("events in progress")]
    events_of_closed: Annotated[int, means("unprocessed events of merged and closed pull requests")]
    commands_waiting: Annotated[int, means("operator commands to be applied")]
    answers_waiting: Annotated[int, means("replies that are not confirmed")]
    documents_waiting: Annotated[int, means("items whose documents are to be updated")]
    children_failing: Annotated[int, means("child lists that could not be read and are due")]
    quarantined: Annotated[int, means("items that could not be parsed")]


class ListedRun(Struct, frozen=True, kw_only=True):
    """A run, in short."""

    id: Annotated[int, means("the run; see lore sync-runs")]
    command: Annotated[str, means("the command")]
    mode: Annotated[str, means("how it ran")]
    status: Annotated[str, means("running, succeeded, failed, cancelled or crashed")]
    phase: Annotated[str, means("its last phase")]
    started_at: Annotated[Instant, means("its start")]
    finished_at: Annotated[Instant | None, means("its end, or null")]
    issues_fetched: Annotated[int, means("issues read")]
    mrs_fetched: Annotated[int, means("merge requests read")]
    issues_ingested: Annotated[int, means("issues stored")]
    mrs_ingested: Annotated[int, means("merge requests stored")]
    quarantined: Annotated[int, means("items that could not be parsed")]
    requests: Annotated[int, means("requests sent")]
    warnings_count: Annotated[int, means("number of warnings")]
    progress_done: Annotated[
        int | None, means("done part of its phase while it runs or when it crashed, otherwise null")
    ]
    progress_total: Annotated[int | None, means("total of its phase, or null")]
    progress_note: Annotated[str | None, means("current step, or null")]
    note: Annotated[str | None, means("a note about a manual action, or null")]
    error: Annotated[str | None, means("why it failed, or null")]

    @property
    def stored(self) -> int:
        """How many issues and merge requests it stored."""
        return self.issues_ingested + self.mrs_ingested


class FinishedRun(ListedRun, frozen=True, kw_only=True):
    """A run in the list of runs."""

    skipped_stale: Annotated[int, means("items skipped because the stored version is newer")]
    docs_regenerated: Annotated[int, means("documents updated")]
    docs_embedded: Annotated[int, means("documents embedded")]
    seconds: Annotated[float | None, means("duration in seconds, or null while it runs")]


class RunList(Struct, frozen=True):
    """The answer of `lore sync-runs`."""

    items: list[FinishedRun]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null: raise --limit for more")] = None


class ItemFailure(Struct, frozen=True, kw_only=True):
    """Why an item, or a list of its children, could not be refreshed."""

    entity_type: Annotated[str, means("issue or merge_request")]
    iid: Annotated[int, means("its number")]
    reference: Annotated[str, means("its full reference")]
    source: Annotated[str, means("the host")]
    stage: Annotated[
        str,
        means("fetch, discussions, resource_events, mr_closes_issues, mr_diffs or mr_reviewers"),
    ]
    code: Annotated[
        str,
        means(
            "NOT_FOUND, AUTH_FAILED, RATE_LIMITED, TIMEOUT, PROJECT_MISMATCH, UNREADABLE, FETCH_ERROR or WRITE_ERROR"
        ),
    ]
    message: Annotated[str, means("what happened")]
    held: Annotated[bool, means("whether the local copy has it although the server does not")]


class ItemOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of an item that was to be refreshed."""

    entity_type: Annotated[str, means("issue or merge_request")]
    iid: Annotated[int, means("its number")]
    reference: Annotated[str, means("its full reference")]
    source: Annotated[str, means("the host")]
    project: Annotated[str, means("the configured project")]
    fetched: Annotated[bool, means("whether it was fetched")]
    ingested: Annotated[bool, means("whether it was stored")]
    stale_skipped: Annotated[bool, means("whether it was skipped because the stored version is newer")]
    completed: Annotated[bool, means("whether it is complete")]
    fetch_failure: Annotated[ItemFailure | None, means("null, or why it could not be fetched")]
    dependent_failures: Annotated[list[ItemFailure], means("the child items that could not be fetched")]

    @property
    def failures(self) -> list[ItemFailure]:
        """All failures of the item."""
        return [*([] if self.fetch_failure is None else [self.fetch_failure]), *self.dependent_failures]


class RefreshedNumbers(Struct, frozen=True):
    """The numbers of the items that a run was asked to refresh."""

    issues: Annotated[list[int], means("the numbers of the issues")] = []
    mrs: Annotated[list[int], means("the numbers of the merge requests")] = []


class ShownRun(FinishedRun, frozen=True, kw_only=True):
    """The answer of `lore sync-runs show`."""

    heartbeat_at: Annotated[Instant, means("last heartbeat")]
    cancelled_at: Annotated[Instant | None, means("when it was cancelled, or null")]
    mirrored_at: Annotated[Instant | None, means("when all lists were read, before documents and embeddings, or null")]
    holder_host: Annotated[str, means("the machine it ran on")]
    holder_pid: Annotated[int, means("its process id")]
    holder_started: Annotated[
        str,
        means("machine, boot and pid namespace of the process and its start time, in case its id is reused"),
    ]
    surgical_iids: Annotated[RefreshedNumbers | None, means("null, or the items it was asked to refresh")]
    entity_outcomes: Annotated[list[ItemOutcome] | None, means("null, or the outcome of each named item")]
    recovery_actions: Annotated[
        list[str], means("commands that continue the run, in this order; empty if it is running or complete")
    ]


class ServiceOverview(Struct, frozen=True, kw_only=True):
    """The answer of `lore status`."""

    service: Annotated[RunningService | None, means("the running service, or null")]
    healthy: Annotated[
        bool,
        means("whether every source is fresh enough; without a service, whether the newest sync brought everything"),
    ]
    sources: list[SourceState]
    jobs: list[JobEntry]
    workers: list[RunningWorker]
    queue: Annotated[WorkerQueue | None, means("what the workers distribute, or null without workers")]
    limits: list[SourceLimit]
    waiting: PendingWork
    runs: Annotated[list[ListedRun], means("the newest runs")]


def overview(app: App, runs: int = 5) -> ServiceOverview:
    """Return the service, its jobs, pending work and recent runs."""
    from tidelore.service.status import read_overview

    with app.reading() as database:
        found = read_overview(database, app.clock.now_ms(), runs)
    service = found.service
    return ServiceOverview(
        service=running_service(service),
        healthy=found.is_healthy,
        sources=[_source(source, service) for source in service.health.sources],
        jobs=[job_entry(job) for job in service.jobs],
        workers=[_worker(one) for one in service.workers],
        queue=_queue(service),
        limits=[SourceLimit(source=name, **rate_limit(left)) for name, left in service.budgets.items()],
        waiting=_pending(found.totals),
        runs=[listed_run(run) for run in found.runs],
    )


def running_service(service: ServiceStatus) -> RunningService | None:
    """Return the process that runs the service, or None."""
    lease = service.holder
    if lease is None or lease.holder is None:
        return None
    return RunningService(
        host=lease.holder.host,
        pid=lease.holder.pid,
        command=lease.command,
        since=instant(lease.acquired_at),
        heartbeat_at=instant(lease.heartbeat_at),
    )


def _worker(found: WorkerStatus) -> RunningWorker:
    holds = [copy_fields(WorkedScope, one, since=instant(one.since)) for one in found.holds]
    return copy_fields(RunningWorker, found, since=instant(found.since), holds=holds)


def _queue(service: ServiceStatus) -> WorkerQueue | None:
    if service.queue is None:
        return None
    return WorkerQueue(waiting=service.queue.waiting, running=service.queue.running, late_seconds=service.late_seconds)


def job_entry(job: JobRow) -> JobEntry:
    """Return a job of the service."""
    return copy_fields(JobEntry, job)


def rate_limit(left: BudgetRow | None) -> dict[str, Any]:
    """Return the fields of a rate limit."""
    if left is None:
        return {}
    return {
        "requests_left": left.remaining,
        "requests_allowed": left.allowed,
        "refilled_at": instant(left.reset_at),
    }


def listed_run(run: RunView) -> ListedRun:
    """Return a run, in short."""
    return copy_fields(ListedRun, run)


def _source(source: SourceHealth, service: ServiceStatus) -> SourceState:
    return copy_fields(
        SourceState,
        source,
        **dict.fromkeys(RateLimit.__struct_fields__) | rate_limit(service.budgets.get(source.source)),
    )


def _pending(totals: Totals) -> PendingWork:
    return copy_fields(PendingWork, totals, pulls=dict(totals.pulls), accounts=dict(totals.accounts))


def list_runs(app: App, limit: int = 20, *, failed: bool = False) -> RunList:
    """Return the newest runs first; `failed` selects those that failed, crashed or were cancelled."""
    with app.reading() as database:
        runs, total = list_records(database, limit, unfinished=failed)
    return RunList([copy_fields(FinishedRun, run, seconds=_seconds(run)) for run in runs], total)


def show_run(app: App, run_id: int) -> ShownRun:
    """Return one run and how to continue it."""
    with app.reading() as database:
        return shown_run(find_record(database, run_id))


def shown_run(run: RunRecord) -> ShownRun:
    """Return everything about a run."""
    from tidelore.service.status import recovery_actions

    numbers = run.surgical_iids_json
    return copy_fields(
        ShownRun,
        run,
        seconds=_seconds(run),
        surgical_iids=None if numbers is None else msgspec.json.decode(numbers, type=RefreshedNumbers),
        entity_outcomes=None if run.outcomes_json is None else _outcomes(run.outcomes_json),
        recovery_actions=recovery_actions(run),
    )


def _outcomes(text: str) -> list[ItemOutcome]:
    from tidelore.sync.report import read_outcomes

    return item_outcomes(read_outcomes(text))


def item_outcomes(outcomes: Sequence[Struct]) -> list[ItemOutcome]:
    """Return the outcomes of the items of a surgical sync."""
    return [msgspec.convert(outcome, ItemOutcome, from_attributes=True) for outcome in outcomes]


def _seconds(run: RunRecord) -> float | None:
    return None if run.finished_at is None else (run.finished_at - run.started_at) / 1000


class MetricSample(Struct, frozen=True):
    """One value of a metric."""

    labels: Annotated[dict[str, str], means("its labels with their values")]
    value: Annotated[float, means("the value")]


class ExportedMetric(Struct, frozen=True):
    """A metric with its values."""

    name: Annotated[str, means("the exported name")]
    kind: Annotated[str, means("counter or gauge")]
    help: Annotated[str, means("what it means")]
    samples: list[MetricSample]


class Metrics(Struct, frozen=True):
    """The answer of `lore metrics`."""

    metrics: list[ExportedMetric]


def read_metrics(app: App) -> tuple[Metrics, str]:
    """Return all metrics, as data and in the Prometheus text format."""
    from tidelore.service.metrics import collect_all, render

    with app.reading() as database:
        found = collect_all(database, app.clock.now_ms())
    metrics = [
        ExportedMetric(
            metric.name, metric.kind, metric.help, [MetricSample(dict(one.labels), one.value) for one in samples]
        )
        for metric, samples in found
    ]
    return Metrics(metrics), render(found)


class CheckResult(Struct, frozen=True):
    """The result of one check."""

    check: Annotated[str, means("what was checked")]
    ok: Annotated[bool, means("whether the check passed")]
    detail: Annotated[str, means("the result, or the first violations")]
    count: Annotated[int, means("number of violations")]


class CheckResults(Struct, frozen=True):
    """The answer of `lore check`."""

    checks: list[CheckResult]

    @property
    def error(self) -> IntegrityError | None:
        """The error of the checks that failed, or None."""
        broken = [result.check for result in self.checks if not result.ok]
        if not broken:
            return None
        return IntegrityError(
            f"{len(broken)} of {len(self.checks)} checks failed: {', '.join(broken)}",
            fix="keep this database, sync into a new one with --db, and report the output of `lore check`",
        )


def check(app: App) -> CheckResults:
    """Check the database for inconsistencies; reads all of it and changes nothing."""
    from tidelore.store.mirror.check import check_database

    with app.reading() as database:
        findings = check_database(database, app.clock.now_ms())
    return CheckResults([copy_fields(CheckResult, finding) for finding in findings])
