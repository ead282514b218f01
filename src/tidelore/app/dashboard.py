"""The overview of all sources for `lore top` and the console: state, lag, running and recent runs, pending work.

It is read every few seconds. Reads the local database only.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.status import JobEntry, RateLimit, ShownRun, job_entry, rate_limit, shown_run
from tidelore.app.wiring import App
from tidelore.service.panels import SourcePanel, read_dashboard
from tidelore.service.status import ServiceStatus
from tidelore.store.database.port import Database
from tidelore.store.work import activity
from tidelore.store.work.runs import RunRecord

MOST = activity.MOST
"""Counts stop here; shown as 'five hundred or more'."""


class ServiceState(Struct, frozen=True, kw_only=True):
    """Whether a service runs, and where."""

    running: Annotated[bool, means("whether a service runs on this database")]
    host: Annotated[str | None, means("its machine")] = None
    pid: Annotated[int | None, means("its process id")] = None
    command: Annotated[str | None, means("its command line")] = None
    since: Annotated[Instant | None, means("its start")] = None


class SourceOverview(RateLimit, frozen=True, kw_only=True):
    """One source."""

    name: Annotated[str, means("the source")]
    kind: Annotated[str, means("GitLab, GitHub or Bluesky; empty for local tasks")]
    state: Annotated[
        str, means("running, backing_off, idle, stopped; `by hand` or `not read yet` if no service runs it")
    ]
    lag_seconds: Annotated[float | None, means("age of the oldest last success of its jobs")]
    bound_seconds: Annotated[float | None, means("maximum allowed age, or null if there is none")]
    fresh: Annotated[bool, means("whether it is fresh enough")]
    due: Annotated[int, means("jobs that are due")]
    scopes: Annotated[int, means("its jobs, or its reading positions if no service runs it")]
    behind: Annotated[int, means("items with due children, or accounts that are due")]
    requests: Annotated[int, means("requests of its jobs so far")]
    error: Annotated[str | None, means("its last error")]
    jobs: Annotated[list[JobEntry], means("its jobs; empty if no service runs it")]


class ActiveRun(Struct, frozen=True, kw_only=True):
    """A run that goes on."""

    id: Annotated[int, means("a running run")]
    command: Annotated[str, means("the command")]
    phase: Annotated[str, means("its phase")]
    started_at: Annotated[Instant, means("its start")]
    heartbeat_at: Annotated[Instant, means("its last heartbeat")]
    stored: Annotated[int, means("issues and merge requests stored so far")]
    requests: Annotated[int, means("requests recorded so far")]
    done: Annotated[int | None, means("done part of its phase, or null")]
    total: Annotated[int | None, means("total of its phase, or null if unknown")]
    note: Annotated[str | None, means("current step, or null")]


class WaitingWork(Struct, frozen=True, kw_only=True):
    """Pending work; each count stops at 500."""

    events: Annotated[int, means("unprocessed events")]
    answers: Annotated[int, means("replies that are not confirmed")]
    blocked: Annotated[int, means("pull requests that are blocked")]
    documents: Annotated[int, means("documents to be updated")]
    quarantined: Annotated[int, means("entries that could not be parsed")]


class SourcesOverview(Struct, frozen=True, kw_only=True):
    """The answer of `lore top`.

    Counts stop at 500.
    """

    read_at: Annotated[Instant, means("time of this overview")]
    service: ServiceState
    sources: list[SourceOverview]
    running: list[ActiveRun]
    recent: Annotated[list[ShownRun], means("the newest runs")]
    requests_by_minute: Annotated[list[float], means("requests of the last hour, the current minute last")]
    items_by_minute: Annotated[list[float], means("new items of the last hour, the current minute last")]
    waiting: WaitingWork


class ServiceSummary(Struct, frozen=True, kw_only=True):
    """The answer of `lore service`."""

    seconds: Annotated[float, means("duration in seconds")]
    ended: Annotated[int, means("number of finished job runs")]
    jobs: list[JobEntry]


def dashboard(app: App) -> SourcesOverview:
    """Return the overview; no service is started."""
    with app.reading() as database:
        return read_sources(app, database, app.clock.now_ms())


def read_sources(app: App, database: Database, now_ms: int) -> SourcesOverview:
    """Read the overview."""
    found = read_dashboard(database, app.config, now_ms)
    return SourcesOverview(
        read_at=instant(found.now_ms),
        service=service_state(found.service),
        sources=[_source(panel) for panel in found.sources],
        running=[_active(run) for run in found.runs],
        recent=[shown_run(run) for run in found.newest],
        requests_by_minute=[round(amount, 3) for amount in found.requests],
        items_by_minute=[round(amount, 3) for amount in found.items],
        waiting=copy_fields(WaitingWork, found),
    )


def service_state(service: ServiceStatus) -> ServiceState:
    """Return whether a service runs, and where."""
    lease = service.holder
    if lease is None or lease.holder is None:
        return ServiceState(running=False)
    holder = lease.holder
    return ServiceState(
        running=True, host=holder.host, pid=holder.pid, command=lease.command, since=instant(lease.acquired_at)
    )


def _source(panel: SourcePanel) -> SourceOverview:
    limit = dict.fromkeys(RateLimit.__struct_fields__) | rate_limit(panel.left)
    return copy_fields(SourceOverview, panel, **limit, jobs=[job_entry(job) for job in panel.jobs])


def _active(run: RunRecord) -> ActiveRun:
    return copy_fields(
        ActiveRun,
        run,
        stored=run.issues_ingested + run.mrs_ingested,
        done=run.progress_done,
        total=run.progress_total,
        note=run.progress_note,
    )
