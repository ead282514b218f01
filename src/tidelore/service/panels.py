"""Read models of the console's dashboard and feedback screen.

They are read every few seconds, so only bounded, indexed queries are used: the cost does not grow with the history.
Never makes a network call. Health is computed by `status.assess_health`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.config import Config, all_hosts, sync_settings
from tidelore.service.status import ServiceStatus, SourceHealth, read_service
from tidelore.store.database.port import Database
from tidelore.store.mirror.child_progress import wanted_children
from tidelore.store.mirror.kinds import PARENT_KINDS
from tidelore.store.mirror.projects import ProjectRow, list_projects
from tidelore.store.work import activity
from tidelore.store.work.activity import Positions
from tidelore.store.work.events import EventRow, PendingCount, peek, pending_counts
from tidelore.store.work.outbox import OutboxRow
from tidelore.store.work.runs import RunRecord
from tidelore.store.work.service_records import BudgetRow, JobRow
from tidelore.store.work.tracked_pull_requests import AWAITING, BLOCKED, TrackedPr, list_tracked

MINUTE_MS = 60_000
MINUTES = 60
"""How many minutes the activity charts cover."""
_LATEST = 200
_NEWEST = 20


class SourcePanel(Struct, frozen=True):
    """One source. `scopes` counts its jobs, or its reading positions if no service has run it; `behind` counts items
    with unread children, or accounts that are due. `bound_seconds` is None without a staleness bound, `left` is None if
    the source reports no rate limit.
    """

    name: str
    kind: str
    state: str
    lag_seconds: float | None
    bound_seconds: float | None
    fresh: bool
    due: int
    scopes: int
    behind: int
    requests: int
    error: str | None
    jobs: tuple[JobRow, ...] = ()
    left: BudgetRow | None = None


class Dashboard(Struct, frozen=True):
    """The data of the overview screen. `requests` and `items` are counted per minute, the current one last."""

    now_ms: int
    service: ServiceStatus
    sources: tuple[SourcePanel, ...]
    runs: tuple[RunRecord, ...]
    newest: tuple[RunRecord, ...]
    requests: tuple[float, ...]
    items: tuple[float, ...]
    events: int
    answers: int
    blocked: int
    documents: int
    quarantined: int


class FeedbackPanel(Struct, frozen=True):
    """Tracked pull requests, their pending events, and pending replies."""

    pulls: tuple[TrackedPr, ...]
    waiting: dict[tuple[int, int], PendingCount]
    events: tuple[EventRow, ...]
    answers: tuple[OutboxRow, ...]


def read_dashboard(database: Database, config: Config, now_ms: int) -> Dashboard:
    """Read the data of the overview screen."""
    service = read_service(database, now_ms)
    since = now_ms - MINUTES * MINUTE_MS
    work = activity.run_costs(database, since)
    arrived = activity.arrivals(database, since)
    return Dashboard(
        now_ms=now_ms,
        service=service,
        sources=tuple(_sources(database, config, service, now_ms)),
        runs=tuple(activity.running(database)),
        newest=tuple(activity.newest_runs(database, _NEWEST)),
        requests=by_minute(((e.started_at, e.ended_at, e.requests) for e in work), now_ms),
        items=by_minute([*((e.ended_at, e.ended_at, e.items) for e in work), *((at, at, 1) for at in arrived)], now_ms),
        events=activity.waiting_events(database),
        answers=activity.waiting_answers(database),
        blocked=activity.blocked_pulls(database),
        documents=activity.waiting_documents(database),
        quarantined=activity.quarantined(database),
    )


def read_feedback_panel(database: Database, now_ms: int) -> FeedbackPanel:
    """Read the data of the feedback screen: open tracked pull requests, blocked ones first."""
    pulls = list_tracked(database, statuses=(BLOCKED, AWAITING))
    waiting = {(count.project_id, count.thread_number): count for count in pending_counts(database, now_ms)}
    return FeedbackPanel(
        tuple(sorted(pulls, key=lambda pull: pull.status != BLOCKED)),
        waiting,
        tuple(peek(database, limit=_LATEST)),
        tuple(activity.answers(database)),
    )


def by_minute(amounts: Iterable[tuple[int, int, int]], now_ms: int) -> tuple[float, ...]:
    """Spread amounts evenly over the minutes from their start to their end; earlier minutes are left out."""
    first = now_ms // MINUTE_MS - MINUTES + 1
    steps = [0.0] * (MINUTES + 1)
    for begin_ms, end_ms, amount in amounts:
        begin, end = begin_ms // MINUTE_MS - first, max(end_ms, begin_ms) // MINUTE_MS - first
        if end >= 0 and begin < MINUTES:
            share = amount / (end - begin + 1)
            steps[max(begin, 0)] += share
            steps[min(end + 1, MINUTES)] -= share
    # Rounding errors could leave a sum slightly below zero.
    return tuple(max(total, 0.0) for total in accumulate(steps[:MINUTES]))


def source_kinds(config: Config) -> dict[str, str]:
    """Return the kind of every configured source by name."""
    found = {host.name: host.title for host in all_hosts(config)}
    return found | ({"bluesky": "Bluesky"} if config.bluesky.accounts else {})


def _sources(database: Database, config: Config, service: ServiceStatus, now_ms: int) -> Iterable[SourcePanel]:
    health = {entry.source: entry for entry in service.health.sources}
    read = activity.positions(database)
    kinds = source_kinds(config)
    behind = _behind(database, config, list_projects(database))
    behind["bluesky"] = activity.due_accounts(database, now_ms)
    for name in sorted({*kinds, *(job.source for job in service.jobs), *(position.source for position in read)}):
        kind = kinds.get(name) or ("Bluesky" if name == "bluesky" else "")
        jobs = [job for job in service.jobs if job.source == name]
        if jobs:
            panel = _from_jobs(name, kind, jobs, health.get(name), now_ms, alive=service.holder is not None)
        else:
            panel = _from_positions(name, kind, [found for found in read if found.source == name], now_ms)
        yield replace(panel, behind=behind.get(name, 0), left=service.budgets.get(name))


def _from_jobs(
    name: str, kind: str, jobs: Sequence[JobRow], health: SourceHealth | None, now_ms: int, *, alive: bool
) -> SourcePanel:
    states = {job.state for job in jobs}
    shown = next((state for state in ("running", "backing_off", "idle") if state in states), "stopped")
    worst = max(jobs, key=lambda job: job.failures)
    return SourcePanel(
        name,
        kind,
        shown if alive else "stopped",
        None if health is None else health.lag_seconds,
        None if health is None else health.bound_seconds,
        health is None or health.ok,
        sum(job.state != "running" and job.due_at is not None and job.due_at <= now_ms for job in jobs),
        len(jobs),
        0,
        sum(job.requests for job in jobs),
        worst.last_error if health is None or health.error is None else health.error,
        tuple(jobs),
    )


def _from_positions(name: str, kind: str, read: Sequence[Positions], now_ms: int) -> SourcePanel:
    """Return the panel of a source without jobs, from its reading positions."""
    newest = max((found.newest_at for found in read if found.newest_at is not None), default=None)
    lag = None if newest is None else max(now_ms - newest, 0) / 1000
    scopes = sum(found.scopes for found in read)
    return SourcePanel(name, kind, "by hand" if scopes else "not read yet", lag, None, True, 0, scopes, 0, 0, None)


def _behind(database: Database, config: Config, projects: Sequence[ProjectRow]) -> dict[str, int]:
    homes = {project.id: project for project in projects}
    found: dict[str, int] = {}
    for kind in PARENT_KINDS.values():
        for name in kind.children:
            for project_id, count in activity.due_parents(database, kind, name).items():
                project = homes.get(project_id)
                if project is None:
                    continue
                settings = sync_settings(config, project.source, project.configured)
                if name in wanted_children(kind, settings):
                    found[project.source] = found.get(project.source, 0) + count
    return found
