"""The statuses of what a run brought, where the forge offers them.

Owns the order of asking: the first answer of a source tells whether it has statuses at all, then the others are
read side by side. Refuses to fail a run: statuses that could not be read are a warning of their project, and its
issues stay due. A source without statuses is told of once, and its issues count as read: a quiet run asks nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from tidelore.core.concurrency import gather
from tidelore.core.errors import CredentialsRejected, RateLimited, RemoteError
from tidelore.core.model import StatusRecord
from tidelore.engine.crashpoint import Seam
from tidelore.pipeline.ingest import Target
from tidelore.pipeline.report import ChildReport, OnProgress, Progress, ScopeReport
from tidelore.pipeline.slices import IsOver, never
from tidelore.session import Session
from tidelore.sources.ports import ProjectSource
from tidelore.store.mirror.child_writer import DueIssue, StatusWriter
from tidelore.store.mirror.projects import ProjectRow

AT_ONCE = 100
"""How many statuses one request asks for."""
KIND = "status"
_LOG = logging.getLogger(__name__)


class _Project(Struct):
    """One project while its statuses are being read."""

    source: ProjectSource
    home: ProjectRow
    board: StatusWriter
    report: ScopeReport
    child: ChildReport


class StatusStage:
    """The statuses of one run. It remembers what it was refused, so that nothing is asked or told twice."""

    def __init__(self, session: Session, on_progress: OnProgress, *, wanted: bool) -> None:
        self._session = session
        self._on_progress = on_progress
        self._wanted = wanted
        self._without: set[str] = set()
        self._stopped: dict[str, RemoteError] = {}
        self._failed: dict[int, RemoteError] = {}

    async def sync(self, targets: Sequence[Target], reports: Sequence[ScopeReport], is_over: IsOver = never) -> None:
        """Read the status of every due issue of what was reported; the reports are told what came of it."""
        by_scope = {(target.source.name, target.configured, target.surface): target for target in targets}
        projects: dict[int, _Project] = {}
        for report in reports if self._wanted else ():
            target, home = by_scope[report.source, report.configured, report.surface], report.home
            if target.resource != "issues" or home is None or report.error is not None or home.id in projects:
                continue
            if report.source not in self._stopped and home.id not in self._failed:
                projects[home.id] = self._open(target, report, home)
        by_source: dict[str, list[_Project]] = {}
        for project in projects.values():
            by_source.setdefault(project.source.name, []).append(project)
        await gather([self._source(found, is_over) for found in by_source.values()])
        for project in projects.values():
            self._conclude(project)

    def _open(self, target: Target, report: ScopeReport, home: ProjectRow) -> _Project:
        shop = self._session.shop
        board = StatusWriter(shop.database, home.id, shop.clock.now_ms, self._session.lease, shop.seam)
        child = report.children.setdefault(KIND, ChildReport(KIND, vital=False))
        due, live = board.count()
        child.due += due
        child.unchanged = live - due
        return _Project(target.source, home, board, report, child)

    async def _source(self, projects: Sequence[_Project], is_over: IsOver) -> None:
        batches = self._batches(projects, is_over)
        await self._work(islice(batches, 1))
        workers = self._session.shop.config.sync.dependent_concurrency
        await gather([self._work(batches) for _ in range(workers)])

    def _batches(self, projects: Sequence[_Project], is_over: IsOver) -> Iterator[tuple[_Project, Sequence[DueIssue]]]:
        for project in projects:
            while project.child.due and self._refusal(project) is None and (issues := project.board.due(AT_ONCE)):
                if is_over():
                    project.report.children_left = True
                    break
                yield project, issues

    async def _work(self, batches: Iterator[tuple[_Project, Sequence[DueIssue]]]) -> None:
        for project, issues in batches:
            try:
                await self._read(project, issues)
            except (CredentialsRejected, RateLimited) as error:
                self._tell(project.source.name, error, told=project.source.name in self._stopped)
                self._stopped.setdefault(project.source.name, error)
            except RemoteError as error:
                self._tell(project.home.path, error, told=project.home.id in self._failed)
                self._failed.setdefault(project.home.id, error)

    async def _read(self, project: _Project, issues: Sequence[DueIssue]) -> None:
        source, tally, seam = project.source, project.child.tally, self._session.shop.seam
        statuses: Mapping[int, StatusRecord | None] | None = None
        if source.name not in self._without:
            statuses = await source.statuses(project.home.path, [issue.iid for issue in issues])
            tally.pages += 1
            seam(Seam.AFTER_FETCH)
            if statuses is None:
                self._do_without(project)
        seam(Seam.BEFORE_COMMIT)
        tally.changed += project.board.write(issues, statuses or {})
        seam(Seam.AFTER_COMMIT)
        tally.fetched += len(issues)
        tally.settled += len(issues)
        project.child.seen["statuses"] += sum(status is not None for status in (statuses or {}).values())
        note = f"{tally.pages:,} pages"
        self._on_progress(Progress(project.home.path, "issues status", tally.fetched, project.child.due, note))

    def _do_without(self, project: _Project) -> None:
        name = project.source.name
        if name not in self._without:
            self._without.add(name)
            warning = f"{name} has no issue statuses; use --no-status to skip the request"
            project.report.warnings.append(warning)
            _LOG.warning("%s", warning)

    def _tell(self, subject: str, error: RemoteError, *, told: bool) -> None:
        if not told:
            _LOG.warning("%s: failed to fetch issue statuses: %s", subject, error.message)

    def _refusal(self, project: _Project) -> RemoteError | None:
        return self._stopped.get(project.source.name) or self._failed.get(project.home.id)

    def _conclude(self, project: _Project) -> None:
        error, child = self._refusal(project), project.child
        if error is not None and child.due > child.tally.fetched:
            child.tally.failed = child.due - child.tally.fetched
            project.report.warnings.append(f"failed to fetch issue statuses: {error.message}")
