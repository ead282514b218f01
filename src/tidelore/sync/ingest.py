"""Read the lists of projects: in which order, how many side by side, and what a failure stops.

A list that fails is reported and does not stop the others; a source that refuses all requests, or does not respond
several times in a row, gets no more requests in this run. Local errors (integrity, storage, a lost lease) stop the run.
A list that had no turn in a slice of time or requests comes first in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.core.concurrency import gather
from tidelore.core.errors import RemoteError
from tidelore.core.progress import OnProgress
from tidelore.engine.window import is_open
from tidelore.http.limits import SourceOutages
from tidelore.sources.ports import TOPICS
from tidelore.store.mirror.cursors import load_cursor, load_gaps
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.session import Session
from tidelore.sync.followed import FollowedReading, mirror_whole
from tidelore.sync.lists import (
    SIDE_BY_SIDE,
    SWITCHED_OFF,
    IsOver,
    ListReading,
    follow_rename,
    never,
    why_unavailable,
)
from tidelore.sync.projects import ListTarget, reason_to_skip, resolve_project
from tidelore.sync.report import RunConsumer, ScopeKey, ScopeReport


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


async def ingest(
    session: Session,
    targets: Sequence[ListTarget],
    *,
    full: bool,
    on_progress: OnProgress,
    is_over: IsOver = never,
    consumer: RunConsumer | None = None,
    by_turn: bool = False,
) -> list[ScopeReport]:
    """Read every target to its end, or until the time is up; return reports in the order of the targets.

    The lists of one project are read side by side, unless its source has feeds: then each needs those before it.
    With `by_turn`, the targets are in the order of their turns.
    """
    work = _Ingestion(session, full, on_progress, is_over, consumer)
    groups = in_groups(targets)
    if by_turn and not full:
        turns = {target.key: turn for turn, target in enumerate(targets)}
        groups = [_resumed(session, group, turns) for group in groups]
    found = await gather(work.in_order(group) for group in groups)
    by_key = {
        target.key: report
        for group, reports in zip(groups, found, strict=True)
        for target, report in zip(group, reports, strict=True)
    }
    return [by_key[target.key] for target in targets]


class _Ingestion(Struct):
    """The lists that one run reads. `gates` limit the lists of a source that are read side by side."""

    session: Session
    full: bool
    on_progress: OnProgress
    is_over: IsOver
    consumer: RunConsumer | None
    gates: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    outages: SourceOutages = field(default_factory=SourceOutages)
    resolving: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict)
    prepared: set[int] = field(default_factory=set)

    async def in_order(self, group: Sequence[ListTarget]) -> list[ScopeReport]:
        """Read lists one after another. If one is not read to its end, those after it wait for the next run."""
        if group[0].followed:
            return await self._read_followed(group)
        reports: list[ScopeReport] = []
        for place, target in enumerate(group):
            report = ScopeReport(target.source.name, target.surface, target.configured, target.configured)
            # An item whose parent is not stored yet would be fetched with its parent, one request each. Topics need
            # no other list, only a project that can be read.
            is_free = target.is_topics and any(before.home is not None for before in reports)
            earlier = zip(group[:place], reports, strict=True)
            needed = [] if is_free else [before for other, before in earlier if _rank(other) < _rank(target)]
            report.error = next((before.error for before in needed if before.error is not None), None)
            report.list_left = report.error is None and any(before.list_left for before in needed)
            if report.error is None and not report.list_left:
                await self._read(target, report)
            reports.append(report)
        return reports

    async def _read_followed(self, group: Sequence[ListTarget]) -> list[ScopeReport]:
        """Read the followed items of a project; an error of its lists is that of all of them."""
        reports = [ScopeReport(one.source.name, one.surface, one.configured, one.configured) for one in group]
        name = group[0].source.name

        async def read() -> None:
            project = await self._resolve(group[0])
            for report in reports:
                report.project, report.skipped = project.path, reason_to_skip(self.session.shop.config, project)
            if reports[0].skipped is None and self.consumer is not None:
                work = FollowedReading(self.session, self.consumer, group, reports, project, self.full, self.is_over)
                await work.run(self.on_progress)

        async with self.gates.setdefault(name, asyncio.Semaphore(SIDE_BY_SIDE)):
            error = group[0].failure or self.outages.reason(name)
            if error is None and not self.is_over():
                try:
                    await read()
                    self.outages.answered(name)
                except RemoteError as failure:
                    self.outages.failed(name, failure)
                    error = failure
            for report in reports:
                report.error = error
                report.list_left = report.list_left or (error is None and report.home is None and not report.skipped)
        return reports

    async def _resolve(self, target: ListTarget) -> ProjectRow:
        # Lists of one project may run concurrently; the lock makes them resolve it once.
        async with self.resolving.setdefault((target.source.name, target.configured), asyncio.Lock()):
            project = await resolve_project(self.session, target.source, target.configured, target.listed)
            await self._prepare(target, project)
        return project

    async def _read(self, target: ListTarget, report: ScopeReport) -> None:
        name = target.source.name
        async with self.gates.setdefault(name, asyncio.Semaphore(SIDE_BY_SIDE)):
            report.error = target.failure or self.outages.reason(name)
            report.list_left = report.error is None and self.is_over()
            if report.error is not None or report.list_left:
                return
            try:
                await self._walk(target, report)
            except RemoteError as error:
                report.skipped = why_unavailable(target, error)
                if report.skipped is not None:
                    self.outages.answered(name)
                else:
                    self.outages.failed(name, error)
                    report.error = error

    async def _walk(self, target: ListTarget, report: ScopeReport) -> None:
        project = await self._resolve(target)
        report.project = project.path
        report.skipped = reason_to_skip(self.session.shop.config, project)
        if report.skipped is None and target.is_topics and not project.has_topics:
            report.absent = load_cursor(self.session.shop.database, target.scope(project)).watermark is None
            report.skipped = SWITCHED_OFF
        if report.skipped is not None:
            return
        await ListReading(self.session, target, report, self.full, self.on_progress, self.is_over).run(project)
        if self.consumer is not None and target.source.feeds:
            self.consumer.note_read(project.id, target.resource, report.requests, report.tally)
        if self.consumer is not None and target.resource == "merge_requests":
            await self.consumer.check_heads(self.session, project)
        self.outages.answered(target.source.name)
        async with self.resolving[target.source.name, target.configured]:
            await follow_rename(self.session, target, report)

    async def _prepare(self, target: ListTarget, project: ProjectRow) -> None:
        """Make a project ready before its first list is read in this run, and let the consumer see it."""
        if project.id in self.prepared:
            return
        self.prepared.add(project.id)
        scope = replace(target, resource="merge_requests").scope(project)
        pulls = load_cursor(self.session.shop.database, scope)
        if not target.followed:
            mirror_whole(self.session, target, project)
        if self.consumer is not None:
            await self.consumer.prepare(self.session, project, pulls)


def in_groups(targets: Sequence[ListTarget]) -> list[list[ListTarget]]:
    """Return targets that are read one after another: all lists of a project whose source has feeds."""
    groups: dict[tuple[str, str, str], list[ListTarget]] = {}
    for target in targets:
        apart = "" if target.source.feeds else target.resource
        groups.setdefault((target.source.name, target.configured, apart), []).append(target)
    return [sorted(group, key=_rank) for group in groups.values()]


def _rank(target: ListTarget) -> int:
    """Return the place of a list among those of its project: each needs those before it."""
    order = [*target.source.resources, *target.source.feeds, TOPICS]
    return order.index(target.resource) if target.resource in order else 0


def _resumed(session: Session, group: Sequence[ListTarget], turns: Mapping[ScopeKey, int]) -> list[ListTarget]:
    """Return the lists of a project by turn, except that a list not read to its end comes before those that need it.

    Otherwise runs with fewer requests than a project has lists would never reach the last ones.
    """
    ready = next((place + 1 for place, one in enumerate(group) if not _is_finished(session, one)), len(group))
    return [*sorted(group[:ready], key=lambda one: turns[one.key]), *group[ready:]]


def _is_finished(session: Session, target: ListTarget) -> bool:
    """Return whether the last walk over a list came to its end."""
    database = session.shop.database
    project = target.stored_project(database)
    if project is None or target.followed:
        return False
    scope = target.scope(project)
    cursor = load_cursor(database, scope)
    window, mark = cursor.window, cursor.watermark
    # A window from before the watermark was kept from a walk that is over.
    is_between = window is not None and (is_open(window) or mark is None or window.instant >= mark.at)
    return cursor.complete and not is_between and not load_gaps(database, scope)
