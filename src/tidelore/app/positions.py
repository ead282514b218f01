"""Read how far sources and lists have been read, and reset a reading position.

The overview of all sources is read every few seconds by `lore top` and the console.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Annotated, Any

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.status import (
    JobEntry,
    ListedRun,
    RateLimit,
    ShownRun,
    job_entry,
    listed_run,
    rate_limit,
    shown_run,
)
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.config import Config, all_hosts, sync_settings
from tidelore.core.errors import UserError
from tidelore.service.status import ServiceStatus, SourceHealth, read_service
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import SURFACES
from tidelore.store.mirror.child_progress import Backlog, present_children, read_backlog, wanted_children
from tidelore.store.mirror.cursors import CursorRow, find_cursor, list_cursors, reset_cursor
from tidelore.store.mirror.kinds import PARENT_KINDS
from tidelore.store.mirror.projects import ProjectRow, list_projects
from tidelore.store.mirror.quarantine import list_quarantine
from tidelore.store.reading.totals import STATES, read_account_totals
from tidelore.store.work import activity
from tidelore.store.work.runs import RunRecord, list_runs
from tidelore.store.work.service_records import JobRow


class ReadingPosition(Struct, frozen=True, kw_only=True):
    """The answer of `lore cursors show`."""

    source: Annotated[str, means("the configured host")]
    surface: Annotated[str, means("the list")]
    scope: Annotated[str, means("the project's number, or the account's DID")]
    project: Annotated[str | None, means("the project's path, or null")]
    account: Annotated[str | None, means("the account's handle, or null")]
    watermark_at: Annotated[Instant | None, means("time up to which the list is complete, or null")]
    watermark_id: Annotated[str | None, means("the item at the watermark")]
    complete: Annotated[bool, means("whether the first read is complete")]
    horizon_at: Annotated[
        Instant | None, means("older items, by their last update, are not stored (`mirror_since`); null for none")
    ]
    gaps: Annotated[int, means("known gaps")]
    polled_at: Annotated[Instant | None, means("last read, by the local clock")]
    verified_at: Annotated[Instant | None, means("last verification, by the server's clock")]
    etag: Annotated[str | None, means("ETag of the last response")]
    url: Annotated[str | None, means("URL of that response")]
    reading: Annotated[
        str | None, means("the window that is being read, or the last keys of a list that is read by key; or null")
    ]
    set_aside: Annotated[str | None, means("an invalid position that was replaced, or null")]
    set_aside_at: Annotated[Instant | None, means("when it was replaced")]

    @property
    def place(self) -> str:
        """The display name of the project or account it belongs to."""
        return self.project or self.account or self.scope


class PositionList(Struct, frozen=True):
    """The answer of `lore cursors list`."""

    items: Annotated[list[ReadingPosition], means("the positions")]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null: the list is complete")] = None


class ResetPosition(Struct, frozen=True):
    """The answer of `lore cursors reset`."""

    reset: Annotated[ReadingPosition, means("the position as it was")]


class SyncedProject(Struct, frozen=True, kw_only=True):
    """A project of the local copy."""

    source: Annotated[str, means("the configured host")]
    path: Annotated[str, means("the project's path")]
    remote_id: Annotated[int, means("its number there")]


class ChildBacklog(Struct, frozen=True, kw_only=True):
    """How far one kind of children of a list is behind."""

    source: Annotated[str, means("the configured host")]
    surface: Annotated[str, means("the list whose items they belong to")]
    project: Annotated[str | None, means("the project's path")]
    kind: Annotated[str, means("the kind of children: discussions, resource_events, closes_issues, diffs or reviewers")]
    due: Annotated[int, means("items with due children")]
    settling: Annotated[int, means("due items that are read once more")]
    failing: Annotated[int, means("due items that could not be read")]
    error: Annotated[str | None, means("latest error, or null")]
    unavailable: Annotated[str | None, means("why the server refuses this kind for the whole project, or null")]
    next_attempt_at: Annotated[Instant | None, means("when an unavailable kind is tried again, or null")]
    oldest_read_at: Annotated[Instant | None, means("oldest last read, or null")]


class QuarantinedItem(Struct, frozen=True, kw_only=True):
    """An item that could not be parsed."""

    surface: Annotated[str, means("the list it came from; for child items it ends in their kind")]
    scope: Annotated[str, means("the project's number; for children, with the item's: 4102/12")]
    remote_key: Annotated[str, means("its id, or its content if it has none")]
    error: Annotated[str, means("why it could not be parsed")]
    attempts: Annotated[int, means("number of attempts")]
    first_seen_at: Annotated[Instant, means("when it was first seen")]
    next_attempt_at: Annotated[Instant | None, means("next attempt")]


class AccountSummary(Struct, frozen=True, kw_only=True):
    """How many accounts are followed, and how late they are."""

    established: Annotated[int, means("accounts that are up to date")]
    new: Annotated[int, means("accounts whose first poll is not complete")]
    unavailable: Annotated[int, means("accounts refused by the network")]
    paused: Annotated[int, means("paused accounts")]
    due: Annotated[int, means("accounts that are due")]
    never_polled: Annotated[int, means("accounts never polled")]
    oldest_poll_at: Annotated[Instant | None, means("oldest last poll, or null")]
    gaps: Annotated[int, means("known gaps in feeds")]

    @property
    def states(self) -> dict[str, int]:
        """The number of accounts in each state that an account has, in the order in which they are displayed."""
        return {state: getattr(self, state) for state in STATES if getattr(self, state)}


class SyncStatus(Struct, frozen=True, kw_only=True):
    """The answer of `lore sync-status`."""

    projects: list[SyncedProject]
    cursors: Annotated[list[ReadingPosition], means("every reading position")]
    children: list[ChildBacklog]
    quarantine: list[QuarantinedItem]
    oldest_verification: Annotated[Instant | None, means("oldest last verification of a list, or null")]
    oldest_children_verification: Annotated[Instant | None, means("oldest last read of child items, or null")]
    accounts: AccountSummary
    runs: Annotated[list[ListedRun], means("the newest runs")]

    @property
    def lists(self) -> list[ReadingPosition]:
        """The positions of the lists of projects, without those of accounts."""
        return [cursor for cursor in self.cursors if cursor.surface not in SURFACES.values()]

    def children_of(self, cursor: ReadingPosition) -> list[ChildBacklog]:
        """Return the backlogs of the children of a list."""
        key = (cursor.source, cursor.surface, cursor.project)
        return [child for child in self.children if (child.source, child.surface, child.project) == key]


def sync_status(app: App, runs: int = 5) -> SyncStatus:
    """Return how far each list has been read, with the enabled kinds of children."""
    with app.reading() as database:
        projects, cursors = list_projects(database), list_cursors(database)
        homes = {(project.source, str(project.remote_id)): project for project in projects}
        children = [
            (cursor, backlog)
            for cursor in cursors
            for backlog in _backlogs(database, app.config, cursor, homes.get((cursor.source, cursor.scope)))
        ]
        quarantine, newest = list_quarantine(database), list_runs(database, runs)
        accounts = read_account_totals(database, app.clock.now_ms())
    verified = [cursor.verified_at for cursor in cursors]
    return SyncStatus(
        projects=[copy_fields(SyncedProject, project) for project in projects],
        cursors=[_position(cursor) for cursor in cursors],
        children=[_child(cursor, backlog) for cursor, backlog in children],
        quarantine=[copy_fields(QuarantinedItem, entry) for entry in quarantine],
        # Unknown while a list was never verified.
        oldest_verification=instant(_oldest(verified) if None not in verified else None),
        oldest_children_verification=instant(_oldest([backlog.oldest for _, backlog in children])),
        accounts=AccountSummary(
            **{state: accounts.states.get(state, 0) for state in STATES},
            due=accounts.due,
            never_polled=accounts.never_polled,
            oldest_poll_at=instant(accounts.oldest_poll),
            gaps=accounts.gaps,
        ),
        runs=[listed_run(run) for run in newest],
    )


def _oldest(moments: Sequence[int | None]) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _backlogs(database: Database, config: Config, cursor: CursorRow, project: ProjectRow | None) -> list[Backlog]:
    kind = PARENT_KINDS.get(cursor.surface.rpartition(".")[2])
    if kind is None or project is None:
        return []
    settings = sync_settings(config, project.source, project.configured)
    present = present_children(database, kind, project.id)
    found = [read_backlog(database, kind, name, project.id) for name in wanted_children(present, settings)]
    # What is read on demand is rarely due.
    return [backlog for backlog in found if backlog.due or backlog.kind not in kind.on_demand]


def list_positions(app: App) -> PositionList:
    """Return all reading positions."""
    with app.reading() as database:
        items = [_position(row) for row in list_cursors(database)]
    return PositionList(items, len(items))


def show_position(app: App, surface: str, scope: str) -> ReadingPosition:
    """Return one reading position."""
    with app.reading() as database:
        return _position(find_cursor(database, surface, scope))


def reset_position(app: App, surface: str, scope: str, *, force: bool, confirm: Callable[[str], bool]) -> ResetPosition:
    """Reset a reading position after `confirm` has agreed to its name; the ledger records it."""
    from tidelore.store.work.session import open_session

    with app.reading() as database:
        cursor = find_cursor(database, surface, scope)
        name = f"{cursor.surface} {cursor.place}"
        if not confirm(name):
            raise UserError(
                f"reading position of {name} was not reset: confirmation required", fix="confirm with --yes"
            )

        async def reset() -> None:
            shop = app.workshop(database, "lore cursors reset")
            async with open_session(shop, force=force, note=f"cursor reset by the operator: {name}"):
                with database.transaction() as tx:
                    reset_cursor(tx, cursor.source, cursor.surface, cursor.scope)

        run_until_signalled(reset())
    return ResetPosition(_position(cursor))


def _position(row: CursorRow) -> ReadingPosition:
    return copy_fields(ReadingPosition, row, complete=row.bootstrap_complete)


def _child(cursor: CursorRow, backlog: Backlog) -> ChildBacklog:
    place = {"source": cursor.source, "surface": cursor.surface, "project": cursor.project}
    return copy_fields(ChildBacklog, backlog, **place, oldest_read_at=backlog.oldest)


MINUTE_MS = 60_000
MINUTES = 60
"""How many minutes the activity charts cover."""
_NEWEST = 20
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


class WebSummary(Struct, frozen=True, kw_only=True):
    """The answer of `lore serve`, when it was stopped."""

    address: Annotated[str, means("the address it was served on, without the token")]
    seconds: Annotated[float, means("duration in seconds")]


def dashboard(app: App) -> SourcesOverview:
    """Return the overview; no service is started."""
    with app.reading() as database:
        return read_sources(app, database, app.clock.now_ms())


def read_sources(app: App, database: Database, now_ms: int) -> SourcesOverview:
    """Read the overview. Only bounded, indexed queries are used: the cost does not grow with the history."""
    service, since = read_service(database, now_ms), now_ms - MINUTES * MINUTE_MS
    work, arrived = activity.run_costs(database, since), activity.arrivals(database, since)
    stored = [*((one.ended_at, one.ended_at, one.items) for one in work), *((at, at, 1) for at in arrived)]
    asked = [(one.started_at, one.ended_at, one.requests) for one in work]
    return SourcesOverview(
        read_at=instant(now_ms),
        service=service_state(service),
        sources=list(_sources(database, app.config, service, now_ms)),
        running=[_active(run) for run in activity.running(database)],
        recent=[shown_run(run) for run in activity.newest_runs(database, _NEWEST)],
        requests_by_minute=[round(amount, 3) for amount in by_minute(asked, now_ms)],
        items_by_minute=[round(amount, 3) for amount in by_minute(stored, now_ms)],
        waiting=WaitingWork(
            events=activity.waiting_events(database),
            answers=activity.waiting_answers(database),
            blocked=activity.blocked_pulls(database),
            documents=activity.waiting_documents(database),
            quarantined=activity.quarantined(database),
        ),
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


def _sources(database: Database, config: Config, service: ServiceStatus, now_ms: int) -> Iterable[SourceOverview]:
    health = {entry.source: entry for entry in service.health.sources}
    read = activity.positions(database)
    kinds = source_kinds(config)
    behind = _behind(database, config, list_projects(database))
    behind["bluesky"] = activity.due_accounts(database, now_ms)
    for name in sorted({*kinds, *(job.source for job in service.jobs), *(position.source for position in read)}):
        jobs = [job for job in service.jobs if job.source == name]
        if jobs:
            facts = _of_jobs(jobs, health.get(name), now_ms, alive=service.holder is not None)
        else:
            facts = _of_positions([found for found in read if found.source == name], now_ms)
        yield SourceOverview(
            name=name,
            kind=kinds.get(name) or ("Bluesky" if name == "bluesky" else ""),
            behind=behind.get(name, 0),
            jobs=[job_entry(job) for job in jobs],
            requests=sum(job.requests for job in jobs),
            **facts,
            **rate_limit(service.budgets.get(name)),
        )


def _of_jobs(jobs: Sequence[JobRow], health: SourceHealth | None, now_ms: int, *, alive: bool) -> dict[str, Any]:
    states = {job.state for job in jobs}
    shown = next((state for state in ("running", "backing_off", "idle") if state in states), "stopped")
    worst = max(jobs, key=lambda job: job.failures)
    return {
        "state": shown if alive else "stopped",
        "lag_seconds": None if health is None else health.lag_seconds,
        "bound_seconds": None if health is None else health.bound_seconds,
        "fresh": health is None or health.ok,
        "due": sum(job.state != "running" and job.due_at is not None and job.due_at <= now_ms for job in jobs),
        "scopes": len(jobs),
        "error": worst.last_error if health is None or health.error is None else health.error,
    }


def _of_positions(read: Sequence[activity.Positions], now_ms: int) -> dict[str, Any]:
    """Return the facts of a source without jobs, from its reading positions."""
    newest = max((found.newest_at for found in read if found.newest_at is not None), default=None)
    scopes = sum(found.scopes for found in read)
    return {
        "state": "by hand" if scopes else "not read yet",
        "lag_seconds": None if newest is None else max(now_ms - newest, 0) / 1000,
        "bound_seconds": None,
        "fresh": True,
        "due": 0,
        "scopes": scopes,
        "error": None,
    }


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


def _active(run: RunRecord) -> ActiveRun:
    return copy_fields(
        ActiveRun,
        run,
        stored=run.issues_ingested + run.mrs_ingested,
        done=run.progress_done,
        total=run.progress_total,
        note=run.progress_note,
    )
