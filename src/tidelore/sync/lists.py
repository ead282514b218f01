"""Read the lists of projects, concurrently and within a time slice.

A list that fails is reported and does not stop the others; a source that refuses all requests, or does not respond
several times in a row, gets no more requests in this run. Local errors (integrity, storage, a lost lease) stop the run.
When the time slice is over, nothing is interrupted: a page being read is stored, and the next run continues at its
cursor. Each stage has a share of the slice that earlier stages cannot take, and a list that had no turn comes first in
the next slice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Generic, Literal, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.config import feedback_settings
from tidelore.core.errors import AccessRefused, FeatureDisabled, RemoteError, RemoteNotFound
from tidelore.core.model import (
    CommentRecord,
    Item,
    ListedRecord,
    MergeRequestRecord,
    PullIssueRecord,
    Scope,
    TopicRecord,
)
from tidelore.core.progress import OnProgress, Progress, page_count
from tidelore.engine.crashpoint import Seam
from tidelore.engine.cursor import move_horizon
from tidelore.engine.intake import Intake, Tally
from tidelore.engine.ledger import Counters
from tidelore.engine.newest_first import NewestFirstPlan, NewestFirstWalk
from tidelore.engine.ports import Batch, Lister, ListRequest, Page
from tidelore.engine.walk import Plan, Walk
from tidelore.sources.ports import FeedSource, TopicSource
from tidelore.store.mirror.child_writer import reset_watermarks
from tidelore.store.mirror.comments import CommentTable
from tidelore.store.mirror.cursors import reset_cursor
from tidelore.store.mirror.issue_sides import IssuesWithSides
from tidelore.store.mirror.page_writer import ItemTable, PageWriter, SelectedItems
from tidelore.store.mirror.projects import ProjectRow, was_renamed
from tidelore.store.mirror.topics import TopicTable
from tidelore.store.work.session import Session
from tidelore.sync.comment_parents import NeedsParents, ParentFetcher
from tidelore.sync.projects import ListTarget, family_of, find_again, horizon_of, refresh_project
from tidelore.sync.report import ScopeReport

_LOG = logging.getLogger(__name__)

R = TypeVar("R")

ListRecord = ListedRecord | TopicRecord | CommentRecord
"""The items in the lists of a project."""

Stage = Literal["ingest", "dependents", "statuses", "scrub"]
IsOver = Callable[[], bool]

PARTS: Mapping[Stage, float] = MappingProxyType({"ingest": 0.75, "dependents": 0.15, "statuses": 0.05, "scrub": 0.05})
"""Each stage's share of the time slice; time that a stage does not use is available to the next ones."""
_ENDS = MappingProxyType(dict(zip(PARTS, accumulate(PARTS.values()), strict=True)))


def never() -> bool:
    """Return False: no time limit."""
    return False


class TimeSlice:
    """The time limit of one run, starting now. `is_spent`: whether the run has used up its requests."""

    def __init__(self, clock: Clock, seconds: float | None, is_spent: IsOver = never) -> None:
        self._clock = clock
        self._is_spent = is_spent
        self._seconds = seconds
        self._began = clock.monotonic()

    def begin(self, stage: Stage) -> IsOver:
        """Start a stage and return a function that says whether it must stop making requests."""
        if self._seconds is None:
            return self._is_spent
        clock, began = self._clock, self._clock.monotonic()
        # A slow response in the previous stage does not shorten the share of this one.
        ends = max(self._began + self._seconds * _ENDS[stage], began + self._seconds * PARTS[stage])
        return lambda: clock.monotonic() >= ends or self._is_spent()


class TimeIsUp(Exception):
    """Stops a walk when its time is up. Used inside a stage; callers never see it."""


class TimedList(Generic[R]):
    """A list that is read until the time is up, but never interrupted within an instant that fills several pages.

    Such a window starts again if it is interrupted; interrupted every time, it might never be finished. A list that is
    `resumable` continues at any page. `opened_at` is the server's time of the first page.
    """

    def __init__(self, lister: Lister[R], is_over: IsOver, *, resumable: bool = False) -> None:
        self._lister = lister
        self._is_over = is_over
        self._resumable = resumable
        self.opened_at: int | None = None
        self.requests = 0

    async def fetch(self, request: ListRequest) -> Page[R]:
        if (request.token is None or self._resumable) and self._is_over():
            raise TimeIsUp
        self.requests += 1
        page = await self._lister.fetch(request)
        if self.opened_at is None:
            self.opened_at = page.server_at
        return page

    async def fetch_one(self, locator: str) -> Page[R]:
        self.requests += 1
        return await self._lister.fetch_one(locator)


SIDE_BY_SIDE = 8


async def follow_rename(session: Session, target: ListTarget, report: ScopeReport) -> None:
    """Fetch the new path of a project if the URL of its newest item has a different path."""
    home = report.home
    if home is None or not target.has_parents:
        return
    if was_renamed(session.shop.database, home.id, target.family.table):
        report.home = await refresh_project(session, target.source, home)
        report.project = report.home.path


SWITCHED_OFF = "Discussions are switched off; stored ones are kept"


def why_unavailable(target: ListTarget, error: RemoteError) -> str | None:
    """Return why a list cannot be read without that being a failure: its items are hidden and not deleted, or None.

    The token of many users may read a repository and not its topics.
    """
    hidden = isinstance(error, FeatureDisabled) or (target.is_topics and isinstance(error, AccessRefused))
    return error.message if hidden else None


def list_of(
    target: ListTarget, project: ProjectRow, *, by_creation: bool = False, keyset: bool = False, backfill: bool = False
) -> Lister[ListRecord]:
    """Return the remote list of a target, in the order in which it is read or `by_creation`."""
    source = target.source
    if target.is_topics:
        assert isinstance(source, TopicSource), "only sources with topics have this list"
        assert project.node_id is not None, "a project with topics has a global id"
        return source.topics(project.node_id, by_creation=by_creation)
    if target.is_feed:
        assert isinstance(source, FeedSource), "only sources with feeds have this list"
        return source.feed(target.resource, project.remote_id)
    return source.listing(target.resource, project.remote_id, by_creation=by_creation, keyset=keyset, backfill=backfill)


async def refresh_topic(session: Session, target: ListTarget, project: ProjectRow, number: int) -> Tally:
    """Read one topic with its comments and store it; the position in the list of topics stays.

    Raises RemoteNotFound if the server has no such topic; the stored one is left to the verification.
    """
    page = await list_of(target, project).fetch_one(str(number))
    if not page.items and not page.rejected:
        raise RemoteNotFound(f"{project.path}#{number} not found, or the token has no access", reason="not_found")
    writer = writer_for(session, target, project)
    intake = Intake(writer, session.shop.clock.now_ms, session.shop.seam)
    intake.take(page, writer.load())
    return intake.tally


def writer_for(session: Session, target: ListTarget, project: ProjectRow) -> PageWriter[ListRecord]:
    """Return the writer that stores the items of a target."""

    def select(record: MergeRequestRecord) -> bool:
        return session.consumer is not None and session.consumer.selects(project.id, record)

    return page_writer(session, target.scope(project), table_of(target, select))


def _everything(_record: MergeRequestRecord) -> bool:
    return True


def table_of(target: ListTarget, select: Callable[[MergeRequestRecord], bool] = _everything) -> ItemTable[ListRecord]:
    """Return the rows that the items of a target become; `select` chooses those of a followed project."""
    # The list of a target contains only the records that its table takes.
    return cast("ItemTable[ListRecord]", _table_of(target, select))


def _table_of(
    target: ListTarget, select: Callable[[MergeRequestRecord], bool]
) -> ItemTable[TopicRecord] | ItemTable[CommentRecord] | ItemTable[ListedRecord]:
    if target.is_topics:
        return TopicTable()
    if target.is_feed:
        return CommentTable(target.source.feeds[target.resource])
    if target.followed:
        return SelectedItems(target.family, select)
    if target.has_sides:
        return IssuesWithSides(target.family, family_of(target.source, "merge_requests"))
    return target.family


def page_writer(session: Session, scope: Scope, table: ItemTable[R]) -> PageWriter[R]:
    """Return the writer that stores pages of a list in this run."""
    shop = session.shop
    return PageWriter(
        shop.database,
        scope,
        table,
        shop.clock.now_ms,
        lease=session.lease,
        compress=shop.config.storage.compress_raw_payloads,
        seam=shop.seam,
        consumer=session.consumer,
    )


ALL_OF_IT = 2**40
"""A limit of pages or milliseconds that no list reaches."""


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
            again = await find_again(self.session, self.target.source, project)
            if again.remote_id == project.remote_id:
                raise
            await self._walk(again)
        if not self.report.list_left:
            self.session.shop.seam(Seam.SCOPE_DONE)

    async def _walk(self, project: ProjectRow) -> None:
        target = self.target
        if self.full:
            with self.session.writing() as tx:
                reset_cursor(tx, target.source.name, target.surface, str(project.remote_id))
                if target.has_parents:
                    reset_watermarks(tx, target.family.kind, project.id)
        writer = self._to_horizon(writer_for(self.session, target, project))
        settings, is_new = target.settings(self.session.shop.config), writer.load().watermark is None
        items = list_of(target, project, keyset=settings.use_keyset_pagination, backfill=is_new)
        parents = ParentFetcher(self.session, target, project)

        async def with_pulls(found: Sequence[Item[ListedRecord]]) -> list[Item[ListedRecord]]:
            if any(isinstance(item.record, PullIssueRecord) for item in found):
                await self._read_unread_pulls(project)
            return await parents.of_sides(found)

        if target.has_sides:
            items = NeedsParents[ListedRecord](cast("Lister[ListedRecord]", items), with_pulls, self.report.horizon)
        elif target.is_feed and not target.followed:
            # Of a followed project only comments with a stored parent are kept.
            items = NeedsParents[CommentRecord](
                cast("Lister[CommentRecord]", items), parents.of_comments, self.report.horizon
            )
        await self._read(project, writer, items)

    async def _read_unread_pulls(self, project: ProjectRow) -> None:
        """Read the list of merge requests if it was never read: that costs far less than fetching each by itself."""
        target = replace(self.target, resource="merge_requests")
        if writer_for(self.session, target, project).load().watermark is not None:
            return
        report = ScopeReport(target.source.name, target.surface, target.configured, project.path)
        await ListReading(self.session, target, report, False, self.on_progress, self.is_over).run(project)
        self.report.requests += report.requests
        if report.list_left:
            raise TimeIsUp

    def _to_horizon(self, writer: PageWriter[R]) -> PageWriter[R]:
        """Adapt the position of a list to the configured horizon, if that was changed."""
        target, shop = self.target, self.session.shop
        cursor = writer.load()
        # Of a followed project the followed items are stored, however old they are.
        wanted = 0 if target.followed else horizon_of(shop.config, target.source.name, target.configured, shop.clock)
        moved = move_horizon(cursor, writer.gaps(), wanted)
        if moved is not None:
            _LOG.info("horizon_moved: %s", writer.scope.title, extra={"event": "horizon_moved", "horizon": wanted})
            cursor, gaps = moved
            writer.commit(Batch((), cursor, gaps=gaps))
        self.report.horizon = cursor.horizon
        return writer

    async def _read(self, project: ProjectRow, writer: PageWriter[R], lister: Lister[R]) -> None:
        shop, target = self.session.shop, self.target
        # A list that needs stored parents is not read ahead: what it requests depends on what is stored.
        thread = None if isinstance(lister, NeedsParents) else self.session.thread
        intake = Intake(writer, shop.clock.now_ms, shop.seam, self._tell, thread)
        self.report.links, self.report.tally, self.counted = writer.links, intake.tally, Tally()
        overlap, backfill = self._span()
        if target.source.feeds:
            is_known = writer.load().complete
            tell_scan("incremental_scan_started" if is_known else "incremental_scan_backfill", writer.scope)
        newest_first = target.is_topics or (
            target.has_parents and target.source.resources[target.resource].newest_first
        )
        timed = TimedList(lister, self.is_over, resumable=newest_first)
        try:
            if newest_first:
                plan = NewestFirstPlan(overlap, ALL_OF_IT, ALL_OF_IT, backfill)
                await NewestFirstWalk(timed, intake, plan).run()
            else:
                await Walk(timed, intake, Plan(overlap_ms=overlap, safe_backfill_ms=backfill)).run()
        except TimeIsUp:
            self.report.list_left = True
        else:
            if target.source.feeds:
                tell_scan("incremental_scan_completed", writer.scope, intake.tally)
        finally:
            self.report.requests += timed.requests
        self.report.home, self.report.server_at, self.report.opened_at = project, intake.server_at, timed.opened_at

    def _span(self) -> tuple[int, int]:
        """Return the overlap with what was read before, and how far to go back if the position is invalid."""
        config, target = self.session.shop.config, self.target
        settings = target.settings(config)
        feedback = feedback_settings(config, target.source.name, target.configured)
        if feedback is None or not target.source.feeds:
            return int(settings.cursor_rewind_seconds * 1000), Plan().safe_backfill_ms
        wanted = max(settings.cursor_rewind_seconds, feedback.comment_fetch_overlap_seconds)
        return int(wanted * 1000), round(feedback.comment_fetch_safe_backfill_seconds * 1000)

    def _tell(self, tally: Tally) -> None:
        count(self.session.counters, self.target.resource, self.counted, tally)
        self.counted = replace(tally)
        found = tally.created + tally.changed
        note = f"{found:,} new or changed, {page_count(tally.pages)}"
        self.on_progress(Progress(self.report.project, self.target.resource, found, None, note))


def tell_scan(event: str, scope: Scope, tally: Tally | None = None) -> None:
    """Log that a list is read, or was read to its end."""
    facts = {} if tally is None else {"pages": tally.pages, "new": tally.created + tally.changed}
    _LOG.info(
        "%s: %s", event, scope.title, extra={"event": event, "scope": scope.key, "surface": scope.surface, **facts}
    )


def count(counters: Counters, resource: str, before: Tally, now: Tally) -> None:
    """Add the difference between two tallies to the counters of a run."""
    fetched = now.fetched - before.fetched
    ingested = now.created + now.changed - before.created - before.changed
    if resource == "issues":
        counters.issues_fetched += fetched
        counters.issues_ingested += ingested
    elif resource == "merge_requests":
        counters.mrs_fetched += fetched
        counters.mrs_ingested += ingested
    counters.skipped_stale += now.stale - before.stale
    counters.quarantined += now.quarantined - before.quarantined
