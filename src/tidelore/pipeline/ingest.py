"""Ingestion of project lists. Owns which scopes are read, side by side, and how one failure stays one scope's.

A scope that fails is reported and the others go on; a source that refuses us, or is silent time after time, is asked
no more, with one error (`sources.attendance`). Sources are read side by side, some scopes of each at a time. Errors of
ours (integrity, storage, a lost lease) stop the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tidelore.config import sync_settings
from tidelore.engine.crashpoint import Seam
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.walk import Plan, Walk
from tidelore.errors import RemoteError, RemoteNotFound, TideloreError
from tidelore.model import ProjectRecord, Scope
from tidelore.pipeline.projects import look_up, reason_to_skip, resolve_project
from tidelore.pipeline.report import OnProgress, Progress, ScopeReport
from tidelore.session import Session
from tidelore.sources.attendance import Attendance
from tidelore.sources.registry import ProjectSource
from tidelore.store.cursors import reset_cursor
from tidelore.store.family import Family
from tidelore.store.issues import ISSUES
from tidelore.store.leases import fence
from tidelore.store.merge_requests import MERGE_REQUESTS
from tidelore.store.nursery import reset_watermarks
from tidelore.store.projects import ProjectRow
from tidelore.store.shelf import ParentShelf
from tidelore.together import together

SIDE_BY_SIDE = 8
FAMILIES: dict[str, Family[Any]] = {"issues": ISSUES, "merge_requests": MERGE_REQUESTS}


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


async def ingest(
    session: Session,
    targets: Sequence[Target],
    *,
    full: bool,
    on_progress: OnProgress,
) -> list[ScopeReport]:
    """Read every target up to its end; the reports come in the targets' order."""
    gates = {target.source.name: asyncio.Semaphore(SIDE_BY_SIDE) for target in targets}
    attendance = Attendance()
    resolving: dict[tuple[str, str], asyncio.Lock] = {}

    async def one(target: Target) -> ScopeReport:
        report = ScopeReport(target.source.name, target.surface, target.configured, target.configured)
        async with gates[target.source.name]:
            known = target.failure or attendance.absence(target.source.name)
            if known is not None:
                report.error = known
                return report
            try:
                # Two lists of one project that meet here first ask for it once.
                async with resolving.setdefault((target.source.name, target.configured), asyncio.Lock()):
                    project = await resolve_project(session, target.source, target.configured, target.listed)
                report.project = project.path
                report.skipped = reason_to_skip(session.shop.config, project)
                if report.skipped is not None:
                    return report
                await Reading(session, target, report, full, on_progress).run(project)
                attendance.answered(target.source.name)
            except RemoteError as error:
                attendance.failed(target.source.name, error)
                report.error = error
        _count(session, target.resource, report)
        return report

    return await together(one(target) for target in targets)


def shelf_for(session: Session, target: Target, project: ProjectRow) -> ParentShelf[Any]:
    """Return the durable side of a target."""
    scope = Scope(target.source.name, target.surface, str(project.remote_id), project.id, project.path)
    shop = session.shop
    return ParentShelf(
        shop.database,
        scope,
        FAMILIES[target.resource],
        shop.clock.now_ms,
        lease=session.lease,
        compress=shop.config.storage.compress_raw_payloads,
        seam=shop.seam,
    )


class Reading(Struct, frozen=True):
    """One target while it is being read."""

    session: Session
    target: Target
    report: ScopeReport
    full: bool
    on_progress: OnProgress

    async def run(self, project: ProjectRow) -> None:
        """Read the target's list to its end."""
        try:
            await self._walk(project)
        except RemoteNotFound:
            # The number we knew is gone; the same name may stand for a project that was made anew.
            again = await look_up(self.session, self.target.source, self.target.configured)
            if again.remote_id == project.remote_id:
                raise
            await self._walk(again)
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
        self.report.tally = intake.tally
        settings = sync_settings(shop.config, target.source.name, target.configured)
        lister = target.source.listing(target.resource, project.remote_id, keyset=settings.use_keyset_pagination)
        plan = Plan(overlap_ms=int(settings.cursor_rewind_seconds * 1000))
        await Walk(lister, intake, plan).run()
        self.report.home, self.report.server_at = project, intake.server_at

    def _tell(self, tally: Tally) -> None:
        found = tally.created + tally.changed
        note = f"{found:,} new or changed, {tally.pages:,} pages"
        self.on_progress(Progress(self.report.project, self.target.resource, found, None, note))


def _count(session: Session, resource: str, report: ScopeReport) -> None:
    counters, tally = session.counters, report.tally
    ingested = tally.created + tally.changed
    if resource == "issues":
        counters.issues_fetched += tally.fetched
        counters.issues_ingested += ingested
    else:
        counters.mrs_fetched += tally.fetched
        counters.mrs_ingested += ingested
    counters.skipped_stale += tally.stale
    counters.quarantined += tally.quarantined
