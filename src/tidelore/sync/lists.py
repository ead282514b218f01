"""Read the lists of projects, concurrently and within a time slice.

A list that fails is reported and does not stop the others; a source that refuses all requests, or does not respond
several times in a row, gets no more requests in this run. Local errors (integrity, storage, a lost lease) stop the run.
When the time slice is over, nothing is interrupted: a page being read is stored, and the next run continues at its
cursor. Each stage has a share of the slice that earlier stages cannot take, and a list that had no turn comes first in
the next slice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Generic, Literal, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.concurrency import gather
from tidelore.core.config import sync_settings
from tidelore.core.errors import RemoteError, RemoteNotFound
from tidelore.core.model import Scope
from tidelore.core.progress import OnProgress, Progress
from tidelore.engine.crashpoint import Seam
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ledger import Counters
from tidelore.engine.ports import Lister, ListRequest, Page
from tidelore.engine.walk import Plan, Walk
from tidelore.http.limits import SourceOutages
from tidelore.store.mirror.child_writer import reset_watermarks
from tidelore.store.mirror.cursors import reset_cursor
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family
from tidelore.store.mirror.projects import ProjectRow, was_renamed
from tidelore.store.work.session import Session
from tidelore.sync.projects import ListTarget, look_up, reason_to_skip, refresh_project, resolve_project
from tidelore.sync.report import ScopeKey, ScopeReport

R = TypeVar("R")

Stage = Literal["ingest", "dependents", "statuses", "scrub"]
IsOver = Callable[[], bool]

PARTS: Mapping[Stage, float] = MappingProxyType({"ingest": 0.75, "dependents": 0.15, "statuses": 0.05, "scrub": 0.05})
"""Each stage's share of the time slice; time that a stage does not use is available to the next ones."""
_ENDS = MappingProxyType(dict(zip(PARTS, accumulate(PARTS.values()), strict=True)))


def never() -> bool:
    """Return False: no time limit."""
    return False


class TimeSlice:
    """The time limit of one run, starting now."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._began = clock.monotonic()

    def begin(self, stage: Stage) -> IsOver:
        """Start a stage and return a function that says whether it must stop making requests."""
        if self._seconds is None:
            return never
        clock, began = self._clock, self._clock.monotonic()
        # A slow response in the previous stage does not shorten the share of this one.
        ends = max(self._began + self._seconds * _ENDS[stage], began + self._seconds * PARTS[stage])
        return lambda: clock.monotonic() >= ends


class TimeIsUp(Exception):
    """Stops a walk when its time is up. Used inside a stage; callers never see it."""


class TimedList(Generic[R]):
    """A list that is read until the time is up, but never interrupted within an instant that fills several pages.

    Such a window starts again if it is interrupted; interrupted every time, it might never be finished.
    """

    def __init__(self, lister: Lister[R], is_over: IsOver) -> None:
        self._lister = lister
        self._is_over = is_over

    async def fetch(self, request: ListRequest) -> Page[R]:
        if request.token is None and self._is_over():
            raise TimeIsUp
        return await self._lister.fetch(request)

    async def fetch_one(self, locator: str) -> Page[R]:
        return await self._lister.fetch_one(locator)


class Keyed(Protocol):
    """Something that belongs to one list."""

    @property
    def key(self) -> ScopeKey: ...


K = TypeVar("K", bound=Keyed)


def in_turn(lists: Sequence[K], turns: Mapping[ScopeKey, int], polled: Mapping[ScopeKey, int]) -> list[K]:
    """Return lists, least recent turn first (those without a turn before all others), then least recently polled.

    Sorting by `polled` alone is not enough: a list that cannot be read is never polled, and would always be first.
    """
    return sorted(lists, key=lambda one: (turns.get(one.key, 0), polled.get(one.key, 0)))


SIDE_BY_SIDE = 8
FAMILIES: dict[str, Family] = {"issues": ISSUES, "merge_requests": MERGE_REQUESTS}


async def ingest(
    session: Session,
    targets: Sequence[ListTarget],
    *,
    full: bool,
    on_progress: OnProgress,
    is_over: IsOver = never,
) -> list[ScopeReport]:
    """Read every target to its end, or until the time is up; return reports in the order of the targets."""
    gates = {target.source.name: asyncio.Semaphore(SIDE_BY_SIDE) for target in targets}
    outages = SourceOutages()
    resolving: dict[tuple[str, str], asyncio.Lock] = {}

    async def one(target: ListTarget) -> ScopeReport:
        report = ScopeReport(target.source.name, target.surface, target.configured, target.configured)
        async with gates[target.source.name]:
            known = target.failure or outages.reason(target.source.name)
            if known is not None:
                report.error = known
                return report
            report.list_left = is_over()
            if report.list_left:
                return report
            try:
                # Two lists of one project run concurrently; the lock makes them resolve it once.
                alone = resolving.setdefault((target.source.name, target.configured), asyncio.Lock())
                async with alone:
                    project = await resolve_project(session, target.source, target.configured, target.listed)
                report.project = project.path
                report.skipped = reason_to_skip(session.shop.config, project)
                if report.skipped is not None:
                    return report
                await ListReading(session, target, report, full, on_progress, is_over).run(project)
                outages.answered(target.source.name)
                async with alone:
                    await _follow_rename(session, target, report)
            except RemoteError as error:
                outages.failed(target.source.name, error)
                report.error = error
        return report

    return await gather(one(target) for target in targets)


async def _follow_rename(session: Session, target: ListTarget, report: ScopeReport) -> None:
    """Fetch the new path of a project if the URL of its newest item has a different path."""
    home = report.home
    table = FAMILIES[target.resource].table
    if home is not None and was_renamed(session.shop.database, home.id, table):
        report.home = await refresh_project(session, target.source, home)
        report.project = report.home.path


def writer_for(session: Session, target: ListTarget, project: ProjectRow) -> PageWriter:
    """Return the writer that stores what is read of a target."""
    scope = Scope(target.source.name, target.surface, str(project.remote_id), project.id, project.path)
    shop = session.shop
    return PageWriter(
        shop.database,
        scope,
        FAMILIES[target.resource],
        shop.clock.now_ms,
        lease=session.lease,
        compress=shop.config.storage.compress_raw_payloads,
        seam=shop.seam,
    )


class ListReading(Struct):
    """Reads one target; `counted` is what was already added to the counters of the run."""

    session: Session
    target: ListTarget
    report: ScopeReport
    full: bool
    on_progress: OnProgress
    is_over: IsOver
    counted: Tally = field(default_factory=Tally)

    async def run(self, project: ProjectRow) -> None:
        """Read the list to its end, or until the time is up."""
        try:
            await self._walk(project)
        except RemoteNotFound:
            # The known id is gone; the project may have been recreated under the same name.
            again = await look_up(self.session, self.target.source, self.target.configured)
            if again.remote_id == project.remote_id:
                raise
            await self._walk(again)
        if not self.report.list_left:
            self.session.shop.seam(Seam.SCOPE_DONE)

    async def _walk(self, project: ProjectRow) -> None:
        shop, target = self.session.shop, self.target
        writer = writer_for(self.session, target, project)
        self.report.links = writer.links
        if self.full:
            with self.session.writing() as tx:
                reset_cursor(tx, target.source.name, target.surface, str(project.remote_id))
                reset_watermarks(tx, FAMILIES[target.resource].kind, project.id)
        intake = Intake(writer, shop.clock.now_ms, shop.seam, self._tell)
        self.report.tally, self.counted = intake.tally, Tally()
        settings = sync_settings(shop.config, target.source.name, target.configured)
        lister = target.source.listing(target.resource, project.remote_id, keyset=settings.use_keyset_pagination)
        plan = Plan(overlap_ms=int(settings.cursor_rewind_seconds * 1000))
        try:
            await Walk(TimedList(lister, self.is_over), intake, plan).run()
        except TimeIsUp:
            self.report.list_left = True
        self.report.home, self.report.server_at = project, intake.server_at

    def _tell(self, tally: Tally) -> None:
        count(self.session.counters, self.target.resource, self.counted, tally)
        self.counted = replace(tally)
        found = tally.created + tally.changed
        note = f"{found:,} new or changed, {tally.pages:,} pages"
        self.on_progress(Progress(self.report.project, self.target.resource, found, None, note))


def count(counters: Counters, resource: str, before: Tally, now: Tally) -> None:
    """Add the difference between two tallies to the counters of a run."""
    fetched = now.fetched - before.fetched
    ingested = now.created + now.changed - before.created - before.changed
    if resource == "issues":
        counters.issues_fetched += fetched
        counters.issues_ingested += ingested
    else:
        counters.mrs_fetched += fetched
        counters.mrs_ingested += ingested
    counters.skipped_stale += now.stale - before.stale
    counters.quarantined += now.quarantined - before.quarantined
