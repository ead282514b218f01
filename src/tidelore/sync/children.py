"""Read the children of changed items (discussions, events, closed issues, files, reviewers) and issue statuses.

The engine decides parent by parent; this module decides which kinds are read for a project and in which order. A kind
that fails for one project does not affect the others; rejected credentials or an exhausted rate limit stop their
source. Statuses that could not be read are a warning and stay due; those of a source without statuses are unavailable,
like any other kind of children that is refused for a whole project.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, takewhile
from types import MappingProxyType

from msgspec import Struct

from tidelore.core.concurrency import gather
from tidelore.core.config import Config
from tidelore.core.errors import (
    BudgetSpent,
    CredentialsRejected,
    FeatureDisabled,
    QueryLimited,
    RateLimited,
    RemoteError,
)
from tidelore.core.model import ChildRecord, StatusRecord
from tidelore.core.progress import OnProgress, Progress, page_count, silent
from tidelore.engine.child_sync import ChildSync, ChildTally
from tidelore.engine.crashpoint import Seam
from tidelore.engine.ports import Pages, Parent
from tidelore.http.limits import SourceOutages
from tidelore.sources.compare import compared
from tidelore.sources.ports import ProjectSource
from tidelore.store.mirror.child_progress import count_due, find_refusal, parents_by_number, wanted_children
from tidelore.store.mirror.child_writer import ChildFamily, ChildWriter, DueIssue, StatusWriter
from tidelore.store.mirror.children import (
    CLOSES_ISSUES,
    DIFFS,
    DISCUSSIONS,
    LINE_RANGES,
    RESOURCE_EVENTS,
    REVIEWERS,
)
from tidelore.store.mirror.comments import COMMENTS, REVIEWS, THREADS, settle_comments
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.session import Session
from tidelore.sync.lists import SIDE_BY_SIDE, IsOver, never
from tidelore.sync.projects import ListTarget
from tidelore.sync.report import ChildReport, RunConsumer, ScopeReport

_FAMILIES = (DISCUSSIONS, COMMENTS, REVIEWS, THREADS, RESOURCE_EVENTS, CLOSES_ISSUES, DIFFS, REVIEWERS, LINE_RANGES)
CHILDREN: Mapping[str, ChildFamily] = MappingProxyType({family.name: family for family in _FAMILIES})
AT_ONCE = 1000
"""How many parents to announce to a source: several of its pages, because the next one is asked for in advance."""
PROMPT_MS = 2000
"""How long after a change all children except notes are certainly visible: the forge's clock has whole seconds."""


def kinds_of(target: ListTarget, config: Config) -> tuple[str, ...]:
    """Return the kinds of children to read for a list, without those that are read on demand."""
    if not target.has_parents:
        return ()
    kind = target.family.kind
    return tuple(name for name in wanted_children(kind, target.settings(config)) if name not in kind.on_demand)


FED = ("comments", "threads")
"""The kinds of children that need the feeds of a project: its comments, and the states of the threads they make."""


async def sync_children(
    session: Session,
    pairs: Sequence[tuple[ListTarget, ScopeReport]],
    on_progress: OnProgress,
    failed_since: int | None = None,
    is_over: IsOver = never,
    only: Callable[[str], bool] = lambda _kind: True,
) -> None:
    """Bring the children of every due parent of these targets up to date, and update the reports.

    Parents that failed after `failed_since`, the start of this run, are not retried. Parents that are left when the
    time is up stay due, and so do comments and threads whose feeds were not read to their end. `only` chooses kinds.
    """
    unread = unread_feeds(pairs)
    outages = SourceOutages(most=None)
    gates = {target.source.name: asyncio.Semaphore(SIDE_BY_SIDE) for target, _ in pairs}

    async def one(target: ListTarget, report: ScopeReport) -> None:
        # Limited, because requests in progress have to be waited for when the time is up.
        async with gates[target.source.name]:
            left_out: Collection[str] = FED if (report.source, report.configured) in unread else ()
            if target.followed:
                # Comments are read with the feeds or thread by thread. A timeline grows with the thread.
                left_out = {*left_out, "comments", "resource_events"}
            wanted = kinds_of(target, session.shop.config)
            kinds = [kind for kind in wanted if kind not in left_out and only(kind)]
            try:
                await _project(session, target, report, kinds, outages, on_progress, failed_since, is_over)
            except (CredentialsRejected, RateLimited) as error:
                outages.failed(target.source.name, error)
                report.children_left |= isinstance(error, BudgetSpent)
                report.error = None if isinstance(error, BudgetSpent) else error

    ready = [(target, report) for target, report in pairs if report.home is not None and report.error is None]
    await gather(one(target, report) for target, report in ready)


CONVERSATIONS = frozenset({"discussions", "comments", "reviews", "threads"})
"""The kinds of children that make up what was said: they are read first, and can be searched before the others come."""
MANY_DUE = 300
"""From this many parents on whose other children are due, what was said is made searchable first."""
POSITIONS_AT_ONCE = 200
"""How many merge requests a run asks for the line ranges of their notes, at most, in one project."""


def count_others(session: Session, pairs: Sequence[tuple[ListTarget, ScopeReport]]) -> int:
    """Return how many parents are due for children that are not a part of what was said; one counts for each kind."""
    found, shop = 0, session.shop
    for target, report in pairs:
        if report.home is None or report.error is not None or not target.has_parents:
            continue
        for kind in set(kinds_of(target, shop.config)) - CONVERSATIONS:
            found += count_due(shop.database, target.family.kind, kind, report.home.id)[0]
    return found


async def sync_positions(
    session: Session,
    pairs: Sequence[tuple[ListTarget, ScopeReport]],
    on_progress: OnProgress,
    is_over: IsOver = never,
) -> int:
    """Read the line ranges of notes that were stored without them, of some merge requests; return how many changed.

    The others stay due. A failure is recorded with its parent and does not affect the run.
    """
    changed = 0
    for target, report in pairs:
        if not target.has_parents or report.home is None or report.error is not None:
            continue
        parents = target.family.kind
        for kind in (name for name in parents.on_demand if name in parents.children):
            due, _ = count_due(session.shop.database, parents, kind, report.home.id)
            child = ChildReport(kind, vital=False, due=min(due, POSITIONS_AT_ONCE))
            children = ProjectChildren(session, target, report.home, child, is_over=is_over)
            if not due or children.is_paused:
                continue
            report.children[kind] = child
            try:
                await children.run(report.server_at, child.due, on_progress, at_most=POSITIONS_AT_ONCE)
            except (CredentialsRejected, RateLimited) as error:
                _LOG.warning("%s: failed to fetch line ranges: %s", report.home.path, error.message)
                return changed
            changed += child.tally.changed
    return changed


def unread_feeds(pairs: Sequence[tuple[ListTarget, ScopeReport]]) -> set[tuple[str, str]]:
    """Return the projects whose feeds are left for the next run: that costs far less than asking each parent."""
    return {(report.source, report.configured) for target, report in pairs if target.is_feed and report.list_left}


def settle_feeds(session: Session, pairs: Sequence[tuple[ListTarget, ScopeReport]]) -> None:
    """Count the comments of a project as read after all its feeds were read to their end in this run."""
    feeds: dict[tuple[str, int], dict[str, int]] = {}
    horizons: dict[int, int] = {}
    for target, report in pairs:
        done = report.home is not None and report.error is None and not report.list_left
        if target.is_feed and done and report.home is not None and report.opened_at is not None:
            feeds.setdefault((target.source.name, report.home.id), {})[target.resource] = report.opened_at
            horizons[report.home.id] = max(report.horizon, horizons.get(report.home.id, 0))
    for target, report in pairs:
        home = report.home
        if not target.has_parents or home is None or not target.source.feeds or target.followed:
            continue
        read_at = feeds.get((target.source.name, home.id), {})
        if read_at.keys() == target.source.feeds.keys():
            kind, now = target.family.kind, session.shop.clock.now_ms()
            times = {"read_at": min(read_at.values()), "settle_ms": PROMPT_MS, "now_ms": now}
            with session.writing() as tx:
                settle_comments(tx, kind, home.id, **times, horizon=horizons[home.id])


SCANNED = ("discussions", "comments", "reviews")
"""The kinds of children that are comments."""


async def scan_threads(
    session: Session, source: ProjectSource, project: ProjectRow, numbers: Collection[int], consumer: RunConsumer
) -> None:
    """Read all comments of these threads from the beginning, due or not, and store what differs."""
    for resource in source.resources:
        target = ListTarget(source, project.configured, resource)
        kind = target.family.kind
        for parent in parents_by_number(session.shop.database, kind, project.id, numbers):
            for name in (name for name in SCANNED if name in kind.children):
                child = ChildReport(name)
                children = ProjectChildren(session, target, project, child)
                error: str | None = None
                try:
                    await children.read([parent])
                    error = children.writer.last_failure(parent) if child.tally.failed else None
                except (CredentialsRejected, RateLimited):
                    raise
                except RemoteError as failure:
                    error = failure.message
                # An issue may have the number of a tracked merge request.
                if error is not None or resource == "merge_requests":
                    consumer.note_scan(session, project.id, parent.iid, error)


async def _project(
    session: Session,
    target: ListTarget,
    report: ScopeReport,
    kinds: Sequence[str],
    outages: SourceOutages,
    on_progress: OnProgress,
    failed_since: int | None,
    is_over: IsOver,
) -> None:
    project = report.home
    assert project is not None, "only targets whose project is known are worked on"
    for kind in kinds:
        report.error = outages.reason(target.source.name)
        if report.error is not None:
            return
        child = report.children.setdefault(kind, ChildReport(kind))
        parents = target.family.kind
        due, live = count_due(session.shop.database, parents, kind, project.id)
        child.due += due
        child.unchanged = live - due
        children = ProjectChildren(session, target, project, child, failed_since, is_over)
        if due and not children.is_paused:
            report.tally.gone += await children.run(report.server_at, due, on_progress)
            report.children_left |= children.left


class ProjectChildren:
    """Reads one kind of children of one project; `child` receives the results.

    `left`: the time was up before the children of all parents were read. `is_paused`: the server refuses this kind for
    the whole project, and the pause before the next attempt is not over. `limited`: the limit for queries was reached.
    """

    def __init__(
        self,
        session: Session,
        target: ListTarget,
        project: ProjectRow,
        child: ChildReport,
        failed_since: int | None = None,
        is_over: IsOver = never,
    ) -> None:
        self._shop = shop = session.shop
        self._counters = session.counters
        self._thread = session.thread
        self._target = target
        self._project = project
        self._child = child
        self._is_over = is_over
        self.left = False
        self.limited: QueryLimited | None = None
        self._settings = target.settings(shop.config)
        parents = target.family.kind
        refused = find_refusal(shop.database, parents, child.kind, project.id)
        child.unavailable = None if refused is None else refused.error
        self.is_paused = refused is not None and shop.clock.now_ms() < refused.next_attempt_at
        self.writer = ChildWriter(
            shop.database,
            target.scope(project),
            parents,
            CHILDREN[child.kind],
            shop.clock.now_ms,
            lease=session.lease,
            compress=shop.config.storage.compress_raw_payloads,
            seam=shop.seam,
            seen=child.seen,
            failed_since=failed_since,
            consumer=session.consumer,
        )

    @property
    def requests_each(self) -> int:
        """How many requests one parent, or those read at once, cost if each list fits on one page."""
        return 1 if self.at_once > 1 else len(self._lists(Parent(0, 0, 0, None, None)))

    @property
    def at_once(self) -> int:
        """How many parents the same requests read, if the source answers for many at once."""
        return self._target.source.parents_per_request(self._child.kind)

    @property
    def is_stopped(self) -> bool:
        """Whether no more children of this kind can be read in this run."""
        return self.left or self.limited is not None or self._child.unavailable is not None

    @property
    def shared_requests(self) -> str:
        """A name for the requests that read these children; other kinds of the same name are read by them too."""
        return self._target.source.shared_requests(self._child.kind)

    async def run(self, server_at: int | None, total: int, on_progress: OnProgress, at_most: int | None = None) -> int:
        """Read the children of all due parents, or of some; return how many parents turned out to be gone."""
        work = self._sync(on_progress, total)
        return await self._read(work, self._announced(islice(work.ready(server_at), at_most)))

    async def read(self, parents: Sequence[Parent], on_progress: OnProgress = silent) -> int:
        """Read the children of these parents again, due or not."""
        return await self._read(self._sync(on_progress, len(parents)), self._announced(iter(parents)))

    async def verify(self, parents: Sequence[Parent], on_progress: OnProgress = silent) -> int:
        """Read the children of these parents again; where a glance shows that nothing differs, that is enough."""
        work = self._sync(on_progress, len(parents), self._compared)
        return await self._read(work, self._announced(iter(parents)))

    def _compared(self, parent: Parent) -> Sequence[Pages[ChildRecord]]:
        return compared(self._lists(parent), cache(lambda: self.writer.held(parent)))

    def _announced(self, parents: Iterator[Parent]) -> Iterator[Parent]:
        """Yield parents after saying in advance which come next."""
        while batch := list(islice(parents, AT_ONCE)):
            project = self._project
            self._target.source.announce(
                self._child.kind, self._target.resource, project.remote_id, project.path, batch
            )
            yield from batch

    async def _read(self, work: ChildSync[ChildRecord], parents: Iterable[Parent]) -> int:
        try:
            await work.read(takewhile(self._goes_on, parents))
        except QueryLimited as error:
            # Kinds that are read by other requests go on; this one stays due.
            self.limited = error
            tally = self._child.tally
            tally.failed += max(1, self._child.due - tally.fetched - tally.waiting - tally.failed)
            _LOG.warning("%s: failed to fetch %s: %s", self._project.path, self._child.kind, error.message)
        except FeatureDisabled as error:
            # Not recorded as refused: they are read as soon as the project shows the parents again.
            self._child.unavailable = error.message
            return work.gone
        self._child.unavailable = work.unavailable
        return work.gone

    def _goes_on(self, _parent: Parent) -> bool:
        """Return whether there is time for another parent."""
        self.left = self._is_over()
        return not self.left

    async def _is_there(self, parent: Parent) -> bool | None:
        """Return whether a parent still exists on the server; None if the request failed.

        Raises FeatureDisabled if the project hides all parents of this kind.
        """
        lister = self._target.source.listing(self._target.resource, self._project.remote_id)
        try:
            page = await lister.fetch_one(str(parent.iid))
        except (CredentialsRejected, FeatureDisabled, RateLimited):
            raise
        except RemoteError:
            return None
        return bool(page.items or page.rejected)

    def _sync(
        self,
        on_progress: OnProgress,
        total: int,
        lists_of: Callable[[Parent], Sequence[Pages[ChildRecord]]] | None = None,
    ) -> ChildSync[ChildRecord]:
        child, settings = self._child, self._settings
        stage = f"{self._target.resource} {child.kind}"
        told = child.tally.quarantined

        def tell(tally: ChildTally) -> None:
            nonlocal told
            self._counters.quarantined += tally.quarantined - told
            told = tally.quarantined
            done = tally.fetched + tally.failed
            on_progress(Progress(self._project.path, stage, done, total, page_count(tally.pages)))

        return ChildSync(
            self.writer,
            lists_of or self._lists,
            self._is_there,
            concurrency=settings.dependent_concurrency,
            settle_ms=int(settings.settle_seconds * 1000) if child.kind == "discussions" else PROMPT_MS,
            max_bytes=settings.max_children_bytes,
            seam=self._shop.seam,
            tally=child.tally,
            on_parent=tell,
            thread=self._thread,
        )

    def _lists(self, parent: Parent) -> Sequence[Pages[ChildRecord]]:
        return self._target.source.children(self._child.kind, self._target.resource, self._project.remote_id, parent)


STATUSES_AT_ONCE = 100
"""How many statuses to fetch per request."""
STATUS_KIND = "status"
_LOG = logging.getLogger(__name__)


class _StatusProject(Struct):
    """A project whose statuses are being read."""

    source: ProjectSource
    home: ProjectRow
    board: StatusWriter
    report: ScopeReport
    child: ChildReport


def _has_statuses(target: ListTarget) -> bool:
    return target.has_parents and STATUS_KIND in target.source.resources[target.resource].asides


class StatusStage:
    """Reads the statuses of one run. Remembers failures, so that nothing is requested or reported twice."""

    def __init__(self, session: Session, on_progress: OnProgress, *, wanted: bool) -> None:
        self._session = session
        self._on_progress = on_progress
        self._wanted = wanted
        self._without: set[str] = set()
        self._stopped: dict[str, RemoteError] = {}
        self._failed: dict[int, RemoteError] = {}

    async def sync(
        self, targets: Sequence[ListTarget], reports: Sequence[ScopeReport], is_over: IsOver = never
    ) -> None:
        """Read the status of every due issue in the projects of these reports, and update the reports."""
        by_key = {target.key: target for target in targets}
        projects: dict[int, _StatusProject] = {}
        for report in reports if self._wanted else ():
            target, home = by_key[report.key], report.home
            if home is None or report.error is not None or home.id in projects or not _has_statuses(target):
                continue
            if report.source not in self._stopped and home.id not in self._failed:
                projects[home.id] = self._open(target, report, home)
        by_source: dict[str, list[_StatusProject]] = {}
        for project in projects.values():
            by_source.setdefault(project.source.name, []).append(project)
        await gather([self._source(found, is_over) for found in by_source.values()])
        for project in projects.values():
            self._conclude(project)

    def _open(self, target: ListTarget, report: ScopeReport, home: ProjectRow) -> _StatusProject:
        shop = self._session.shop
        board = StatusWriter(shop.database, home.id, shop.clock.now_ms, self._session.lease, shop.seam)
        child = report.children.setdefault(STATUS_KIND, ChildReport(STATUS_KIND, vital=False))
        if not board.is_paused():
            due, live = board.count()
            child.due += due
            child.unchanged = live - due
        return _StatusProject(target.source, home, board, report, child)

    async def _source(self, projects: Sequence[_StatusProject], is_over: IsOver) -> None:
        batches = self._batches(projects, is_over)
        await self._work(islice(batches, 1))
        workers = self._session.shop.config.sync.dependent_concurrency
        await gather([self._work(batches) for _ in range(workers)])

    def _batches(
        self, projects: Sequence[_StatusProject], is_over: IsOver
    ) -> Iterator[tuple[_StatusProject, Sequence[DueIssue]]]:
        for project in projects:
            while (
                project.child.due and self._refusal(project) is None and (issues := project.board.due(STATUSES_AT_ONCE))
            ):
                if is_over():
                    project.report.children_left = True
                    break
                yield project, issues

    async def _work(self, batches: Iterator[tuple[_StatusProject, Sequence[DueIssue]]]) -> None:
        for project, issues in batches:
            try:
                await self._read(project, issues)
            except (CredentialsRejected, RateLimited) as error:
                self._tell(project.source.name, error, told=project.source.name in self._stopped)
                self._stopped.setdefault(project.source.name, error)
            except RemoteError as error:
                self._tell(project.home.path, error, told=project.home.id in self._failed)
                self._failed.setdefault(project.home.id, error)

    async def _read(self, project: _StatusProject, issues: Sequence[DueIssue]) -> None:
        source, tally, seam = project.source, project.child.tally, self._session.shop.seam
        statuses: Mapping[int, StatusRecord | None] | None = None
        if source.name not in self._without:
            statuses = await source.statuses(project.home.path, [issue.iid for issue in issues])
            tally.pages += 1
            seam(Seam.AFTER_FETCH)
        if statuses is None:
            self._do_without(project)
            return
        # An issue that is not shown may only be hidden: it stays due, with the status that is stored.
        shown = [issue for issue in issues if issue.iid in statuses]
        seam(Seam.BEFORE_COMMIT)
        tally.changed += project.board.write(shown, statuses)
        seam(Seam.AFTER_COMMIT)
        tally.fetched += len(shown)
        tally.settled += len(shown)
        tally.waiting += len(issues) - len(shown)
        project.child.seen["statuses"] += sum(status is not None for status in statuses.values())
        note = page_count(tally.pages)
        self._on_progress(Progress(project.home.path, "issues status", tally.fetched, project.child.due, note))

    def _do_without(self, project: _StatusProject) -> None:
        """Leave the statuses of a project due and try again after a pause: the server may offer them later."""
        name = project.source.name
        project.board.record_refusal(f"{name} has no issue statuses")
        project.child.due = project.child.tally.fetched
        if name not in self._without:
            self._without.add(name)
            warning = f"{name} has no issue statuses; use --no-status to skip the request"
            project.report.warnings.append(warning)
            _LOG.warning("%s", warning)

    def _tell(self, subject: str, error: RemoteError, *, told: bool) -> None:
        if not told:
            _LOG.warning("%s: failed to fetch issue statuses: %s", subject, error.message)

    def _refusal(self, project: _StatusProject) -> RemoteError | None:
        return self._stopped.get(project.source.name) or self._failed.get(project.home.id)

    def _conclude(self, project: _StatusProject) -> None:
        error, child = self._refusal(project), project.child
        if isinstance(error, BudgetSpent):
            project.report.children_left = True
        elif error is not None and child.due > child.tally.fetched:
            child.tally.failed = child.due - child.tally.fetched
            project.report.warnings.append(f"failed to fetch issue statuses: {error.message}")
