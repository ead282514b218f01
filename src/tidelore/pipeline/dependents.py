"""The children of what a run brought: discussions, events, closed issues, files, reviewers.

Owns which kinds are read for a project and the order of the work; the engine decides parent by parent, the
parents' rows say what is due. A failing kind of one project leaves the others alone; rejected credentials or an
exhausted rate limit stop their source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType

from tidelore.core.concurrency import gather
from tidelore.core.config import Sync, sync_settings
from tidelore.core.errors import CredentialsRejected, RateLimited, RemoteError
from tidelore.core.model import ChildRecord, Scope
from tidelore.engine.dependents import DependentSync, DependentTally
from tidelore.engine.ports import Pages, Parent
from tidelore.pipeline.ingest import FAMILIES, SIDE_BY_SIDE, Target
from tidelore.pipeline.report import ChildReport, OnProgress, Progress, ScopeReport, silent
from tidelore.pipeline.slices import IsOver, never
from tidelore.session import Session
from tidelore.store.mirror.child_progress import count_due, find_refusal, wanted_children
from tidelore.store.mirror.child_writer import ChildFamily, ChildWriter
from tidelore.store.mirror.children import CLOSES_ISSUES, DIFFS, DISCUSSIONS, RESOURCE_EVENTS, REVIEWERS
from tidelore.store.mirror.projects import ProjectRow

CHILDREN: Mapping[str, ChildFamily] = MappingProxyType(
    {family.name: family for family in (DISCUSSIONS, RESOURCE_EVENTS, CLOSES_ISSUES, DIFFS, REVIEWERS)}
)
PROMPT_MS = 2000
"""How long after a change all but the notes are sure to show: the forge's clock has whole seconds."""


def kinds_of(resource: str, settings: Sync) -> tuple[str, ...]:
    """Return the kinds of children that are to be read for a list."""
    return wanted_children(FAMILIES[resource].kind, settings)


async def sync_children(
    session: Session,
    pairs: Sequence[tuple[Target, ScopeReport]],
    on_progress: OnProgress,
    failed_since: int | None = None,
    is_over: IsOver = never,
) -> None:
    """Bring the children of every due parent of these targets up to date; the reports tell what came of it.

    What failed since an instant, the start of this run, is not tried once more. Who is due when time is up stays so.
    """
    stopped: dict[str, RemoteError] = {}
    gates = {target.source.name: asyncio.Semaphore(SIDE_BY_SIDE) for target, _ in pairs}

    async def one(target: Target, report: ScopeReport) -> None:
        # All at once, there would be many under way to wait for when time is up.
        async with gates[target.source.name]:
            try:
                await _project(session, target, report, stopped, on_progress, failed_since, is_over)
            except (CredentialsRejected, RateLimited) as error:
                stopped[target.source.name] = error
                report.error = error

    ready = [(target, report) for target, report in pairs if report.home is not None and report.error is None]
    await gather(one(target, report) for target, report in ready)


async def _project(
    session: Session,
    target: Target,
    report: ScopeReport,
    stopped: Mapping[str, RemoteError],
    on_progress: OnProgress,
    failed_since: int | None,
    is_over: IsOver,
) -> None:
    project = report.home
    assert project is not None, "only targets whose project is known are worked on"
    settings = sync_settings(session.shop.config, target.source.name, target.configured)
    for kind in kinds_of(target.resource, settings):
        if target.source.name in stopped:
            report.error = stopped[target.source.name]
            return
        child = report.children.setdefault(kind, ChildReport(kind))
        due, live = count_due(session.shop.database, FAMILIES[target.resource].kind, kind, project.id)
        child.due += due
        child.unchanged = live - due
        brood = Brood(session, target, project, child, failed_since, is_over)
        if due and not brood.is_paused:
            report.tally.gone += await brood.run(report.server_at, due, on_progress)
            report.children_left |= brood.left


class Brood:
    """One kind of children of one project while it is being read; `child` is told what comes of it.

    `left`: time was up before the children of all these parents were read. `is_paused`: the server refuses this kind
    for the whole project, and the pause before the next attempt is not over.
    """

    def __init__(
        self,
        session: Session,
        target: Target,
        project: ProjectRow,
        child: ChildReport,
        failed_since: int | None = None,
        is_over: IsOver = never,
    ) -> None:
        self._shop = shop = session.shop
        self._counters = session.counters
        self._target = target
        self._project = project
        self._child = child
        self._is_over = is_over
        self.left = False
        self._settings = sync_settings(shop.config, target.source.name, target.configured)
        refused = find_refusal(shop.database, FAMILIES[target.resource].kind, child.kind, project.id)
        child.unavailable = None if refused is None else refused.error
        self.is_paused = refused is not None and shop.clock.now_ms() < refused.next_attempt_at
        self.nursery = ChildWriter(
            shop.database,
            Scope(target.source.name, target.surface, str(project.remote_id), project.id, project.path),
            FAMILIES[target.resource].kind,
            CHILDREN[child.kind],
            shop.clock.now_ms,
            lease=session.lease,
            compress=shop.config.storage.compress_raw_payloads,
            seam=shop.seam,
            seen=child.seen,
            failed_since=failed_since,
        )

    @property
    def requests_each(self) -> int:
        """How many requests one parent costs, unless its lists are long."""
        return len(self._lists(Parent(0, 0, 0, None, None)))

    async def run(self, server_at: int | None, total: int, on_progress: OnProgress) -> int:
        """Read the children of all parents that are due; return how many parents turned out to be gone."""
        work = self._sync(on_progress, total)
        return await self._read(work, work.ready(server_at))

    async def read(self, parents: Sequence[Parent], on_progress: OnProgress = silent) -> int:
        """Read the children of these parents again, due or not."""
        return await self._read(self._sync(on_progress, len(parents)), parents)

    async def _read(self, work: DependentSync[ChildRecord], parents: Iterable[Parent]) -> int:
        await work.read(takewhile(self._goes_on, parents))
        self._child.unavailable = work.unavailable
        return work.gone

    def _goes_on(self, _parent: Parent) -> bool:
        """Tell whether there is time for one more parent."""
        self.left = self._is_over()
        return not self.left

    async def _is_there(self, parent: Parent) -> bool | None:
        """Ask for a parent itself; None when the question failed, which proves nothing."""
        lister = self._target.source.listing(self._target.resource, self._project.remote_id)
        try:
            page = await lister.fetch_one(str(parent.iid))
        except (CredentialsRejected, RateLimited):
            raise
        except RemoteError:
            return None
        return bool(page.items or page.rejected)

    def _sync(self, on_progress: OnProgress, total: int) -> DependentSync[ChildRecord]:
        child, settings = self._child, self._settings
        stage = f"{self._target.resource} {child.kind}"
        told = child.tally.quarantined

        def tell(tally: DependentTally) -> None:
            nonlocal told
            self._counters.quarantined += tally.quarantined - told
            told = tally.quarantined
            done = tally.fetched + tally.failed
            on_progress(Progress(self._project.path, stage, done, total, f"{tally.pages:,} pages"))

        return DependentSync(
            self.nursery,
            self._lists,
            self._is_there,
            concurrency=settings.dependent_concurrency,
            settle_ms=int(settings.settle_seconds * 1000) if child.kind == "discussions" else PROMPT_MS,
            max_bytes=settings.max_children_bytes,
            seam=self._shop.seam,
            tally=child.tally,
            on_parent=tell,
        )

    def _lists(self, parent: Parent) -> Sequence[Pages[ChildRecord]]:
        return self._target.source.children(
            self._child.kind, self._target.resource, self._project.remote_id, parent.iid
        )
