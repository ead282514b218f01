"""Read how far sources and lists have been read, and reset a reading position.

The overview of all sources is read every few seconds by `lore top` and the console.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

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
from tidelore.core.errors import UserError
from tidelore.service.panels import SourcePanel, read_dashboard
from tidelore.service.status import ListStatus, ServiceStatus, read_status
from tidelore.store.database.port import Database
from tidelore.store.mirror.accounts import SURFACES
from tidelore.store.mirror.cursors import CursorRow, find_cursor, list_cursors, reset_cursor
from tidelore.store.reading.totals import STATES, read_account_totals
from tidelore.store.work import activity
from tidelore.store.work.runs import RunRecord


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
    """Return how far each list has been read."""
    with app.reading() as database:
        status = read_status(database, app.config, runs)
        accounts = read_account_totals(database, app.clock.now_ms())
    return SyncStatus(
        projects=[copy_fields(SyncedProject, project) for project in status.projects],
        cursors=[_position(entry.cursor) for entry in status.lists],
        children=[child for entry in status.lists for child in _children(entry)],
        quarantine=[copy_fields(QuarantinedItem, entry) for entry in status.quarantine],
        oldest_verification=instant(status.oldest_verification),
        oldest_children_verification=instant(status.oldest_children),
        accounts=AccountSummary(
            **{state: accounts.states.get(state, 0) for state in STATES},
            due=accounts.due,
            never_polled=accounts.never_polled,
            oldest_poll_at=instant(accounts.oldest_poll),
            gaps=accounts.gaps,
        ),
        runs=[listed_run(run) for run in status.runs],
    )


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


def _children(entry: ListStatus) -> list[ChildBacklog]:
    cursor = entry.cursor
    return [
        copy_fields(
            ChildBacklog,
            backlog,
            source=cursor.source,
            surface=cursor.surface,
            project=cursor.project,
            oldest_read_at=instant(backlog.oldest),
        )
        for backlog in entry.children
    ]


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
