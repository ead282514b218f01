"""Ingestion of project lists. Owns which scopes are read, side by side, and how one failure stays one scope's.

A scope that fails is reported and the others go on; a source that refuses us, or is silent time after time, is asked
no more, with one error (`http/limits.py`). Sources are read side by side, some scopes of each at a time, in the
order they are given; when time is up, what is left of them is left. Errors of ours (integrity, storage, a lost lease)
stop the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.core.concurrency import gather
from tidelore.core.config import sync_settings
from tidelore.core.errors import RemoteError, RemoteNotFound, TideloreError
from tidelore.core.model import ProjectRecord, Scope
from tidelore.engine.crashpoint import Seam
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ledger import Counters
from tidelore.engine.walk import Plan, Walk
from tidelore.http.limits import SourceOutages
from tidelore.pipeline.projects import look_up, reason_to_skip, refresh_project, resolve_project
from tidelore.pipeline.report import OnProgress, Progress, ScopeReport
from tidelore.pipeline.slices import IsOver, ScopeKey, Timed, TimeIsUp, never
from tidelore.session import Session
from tidelore.sources.ports import ProjectSource
from tidelore.store.mirror.child_writer import reset_watermarks
from tidelore.store.mirror.cursors import reset_cursor
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS, Family
from tidelore.store.mirror.projects import ProjectRow, was_renamed
from tidelore.store.work.leases import fence

SIDE_BY_SIDE = 8
FAMILIES: dict[str, Family] = {"issues": ISSUES, "merge_requests": MERGE_REQUESTS}


class Target(Struct, frozen=True):
    """One list of one project. `listed` is what a group told of it, `failure` why it cannot be read at all."""

    source: ProjectSource
    configured: str
    resource: str
    listed: ProjectRecord | None = None
    failure: TideloreError | None = None

    @property
    def surface(self) -> str:
        return f"{self.source.kind}.{self.resource}"

    @property
    def key(self) -> ScopeKey:
        return self.source.name, self.configured, self.surface


async def ingest(
    session: Session,
    targets: Sequence[Target],
    *,
    full: bool,
    on_progress: OnProgress,
    is_over: IsOver = never,
) -> list[ScopeReport]:
    """Read every target up to its end, or until time is up; the reports come in the targets' order."""
    gates = {target.source.name: asyncio.Semaphore(SIDE_BY_SIDE) for target in targets}
    outages = SourceOutages()
    resolving: dict[tuple[str, str], asyncio.Lock] = {}

    async def one(target: Target) -> ScopeReport:
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
                await Reading(session, target, report, full, on_progress, is_over).run(project)
                outages.answered(target.source.name)
                async with alone:
                    await _follow_rename(session, target, report)
            except RemoteError as error:
                outages.failed(target.source.name, error)
                report.error = error
        return report

    return await gather(one(target) for target in targets)


async def _follow_rename(session: Session, target: Target, report: ScopeReport) -> None:
    """Learn the new path of a project whose newest item has an address under another path."""
    home = report.home
    table = FAMILIES[target.resource].table
    if home is not None and was_renamed(session.shop.database, home.id, table):
        report.home = await refresh_project(session, target.source, home)
        report.project = report.home.path


def shelf_for(session: Session, target: Target, project: ProjectRow) -> PageWriter:
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


class Reading(Struct):
    """One target while it is being read; `counted` is what the run's counters already hold of it."""

    session: Session
    target: Target
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
        shelf = shelf_for(self.session, target, project)
        self.report.links = shelf.links
        if self.full:
            with shop.database.transaction() as tx:
                fence(tx, self.session.lease)
                reset_cursor(tx, target.source.name, target.surface, str(project.remote_id))
                reset_watermarks(tx, FAMILIES[target.resource].kind, project.id)
        intake = Intake(shelf, shop.clock.now_ms, shop.seam, self._tell)
        self.report.tally, self.counted = intake.tally, Tally()
        settings = sync_settings(shop.config, target.source.name, target.configured)
        lister = target.source.listing(target.resource, project.remote_id, keyset=settings.use_keyset_pagination)
        plan = Plan(overlap_ms=int(settings.cursor_rewind_seconds * 1000))
        try:
            await Walk(Timed(lister, self.is_over), intake, plan).run()
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
