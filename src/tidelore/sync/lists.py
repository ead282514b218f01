"""Read the lists of projects, concurrently and within a time slice.

A list that fails is reported and the others go on; a source that refuses all requests, or does not respond several
times in a row, is not asked again in this run. Errors of the local side (integrity, storage, a lost lease) stop the
run. When the time slice is over nothing is cut off: a page under way is stored, and the next run continues at its
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
"""What each stage may take at most when the others need theirs; what one leaves, the next may take too."""
_ENDS = MappingProxyType(dict(zip(PARTS, accumulate(PARTS.values()), strict=True)))


def never() -> bool:
    """Let a stage come to its own end."""
    return False


class TimeSlice:
    """The time of one run, from here on."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._began = clock.monotonic()

    def begin(self, stage: Stage) -> IsOver:
        """Begin a stage, and return what tells when it has to stop asking."""
        if self._seconds is None:
            return never
        clock, began = self._clock, self._clock.monotonic()
        # An answer that came late in the stage before takes nothing of what belongs to this one.
        ends = max(self._began + self._seconds * _ENDS[stage], began + self._seconds * PARTS[stage])
        return lambda: clock.monotonic() >= ends


class TimeIsUp(Exception):
    """Nothing more is asked: a signal inside a stage, which its caller never sees."""


class TimedList(Generic[R]):
    """A list that is read until time is up. Inside an instant that fills several pages it is read on.

    Such a window begins anew when it is interrupted: cut off again and again, it might never come to its end.
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
    """Something that is done about one list."""

    @property
    def key(self) -> ScopeKey: ...


K = TypeVar("K", bound=Keyed)


def in_turn(lists: Sequence[K], turns: Mapping[ScopeKey, int], polled: Mapping[ScopeKey, int]) -> list[K]:
    """Return lists by how long ago they had a turn, those that had none first; of equals, the longest unheard of.

    `polled` alone would not do: a list that cannot be read stays unheard of, and would be the first for ever.
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
    """Read every target up to its end, or until time is up; the reports come in the targets' order."""
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
                # Two lists of one project that meet here first ask for it once.
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
    """Learn the new path of a project whose newest item has an address under another path."""
    home = report.home
    table = FAMILIES[target.resource].table
    if home is not None and was_renamed(session.shop.database, home.id, table):
        report.home = await refresh_project(session, target.source, home)
        report.project = report.home.path


def writer_for(session: Session, target: ListTarget, project: ProjectRow) -> PageWriter:
    """Return the durable side of a target."""
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
    """One target while it is being read; `counted` is what the run's counters already hold of it."""

    session: Session
    target: ListTarget
    report: ScopeReport
    full: bool
    on_progress: OnProgress
    is_over: IsOver
    counted: Tally = field(default_factory=Tally)

    async def run(self, project: ProjectRow) -> None:
        """Read the target's list to its end, or until time is up."""
        try:
            await self._walk(project)
        except RemoteNotFound:
            # The number we knew is gone; the same name may stand for a project that was made anew.
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
    """Add what a page brought to the counters of its run."""
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
