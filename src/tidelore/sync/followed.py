"""Read the followed items of a repository that is not mirrored as a whole (`mirror = "followed"`).

Only followed pull requests and issues are stored, with their children. Their comments are read from the
repository-wide feeds or thread by thread, whichever is expected to cost fewer requests. With feeds, a run without news
is three conditional requests, however much is followed (invariant 9).

The cursor of a thread says up to when that thread is complete. When reading by feeds starts, the feeds start at the
server's present time and every thread is read once by itself from its cursor, so nothing is missed in between.

The positions of the lists cover followed items only. A repository that is mirrored as a whole from now on has its lists
read from the beginning. A stored poll cost shows that only followed items were read before: it is stored before the
first list is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.config import feedback_settings
from tidelore.core.errors import keep_failure
from tidelore.core.model import ISSUE_COMMENT, REVIEW_COMMENT, Scope
from tidelore.core.progress import OnProgress
from tidelore.engine.cursor import why_invalid
from tidelore.engine.intake import Intake, retry_quarantined
from tidelore.engine.walk import Plan, Walk
from tidelore.engine.window import Order
from tidelore.sources.ports import FollowableSource
from tidelore.store.database.port import Database
from tidelore.store.mirror.comments import CommentTable, settle_thread
from tidelore.store.mirror.cursors import load_cursor, reset_cursor, save_cursor, thread_scope, transfer_position
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.mirror.quarantine import due_entries
from tidelore.store.work.followed_issues import IssueCursor, followed_issues
from tidelore.store.work.service_records import PollCost, forget_cost, load_cost, save_cost
from tidelore.store.work.session import Session
from tidelore.store.work.tracked_pull_requests import AWAITING, BLOCKED, TrackedPr, list_tracked
from tidelore.sync.comment_parents import ParentFetcher
from tidelore.sync.lists import IsOver, ListReading, TimedList, TimeIsUp, follow_rename, page_writer, tell_scan
from tidelore.sync.projects import ListTarget
from tidelore.sync.report import RunConsumer, ScopeReport

_LOG = logging.getLogger(__name__)

FetchMode = Literal["repo", "thread"]

FEEDS = 3.0
"""Requests of a run by feeds without news: two for comments, one for pull requests."""
_MEMORY = 0.7
"""The weight of the last estimate in the next one."""
_OBLIVION = 0.98
"""The factor by which the extra cost of feeds (comments on untracked threads) decays with each run by threads."""
_WHOLE_SECONDS_MS = 1000
PROMPT_MS = 2000
"""How long after a change comments are certainly visible: the forge's clock has whole seconds."""
NOTHING_FOLLOWED = "nothing is followed"


class FollowedCounts(Struct, frozen=True):
    """How many pull requests and issues of a repository are followed."""

    pulls: int = 0
    issues: int = 0

    @property
    def requests(self) -> float:
        """Requests of a run by threads without news: two lists and a snapshot per pull request, one list per issue."""
        return 3.0 * self.pulls + self.issues


def choose_fetch_mode(
    wanted: Literal["auto", "repo", "thread"], following: FollowedCounts, feed_requests: float | None
) -> FetchMode:
    """Return the fetch mode; `feed_requests` is the expected cost of a run by feeds."""
    if wanted != "auto":
        return wanted
    expected = FEEDS if feed_requests is None else feed_requests
    return "repo" if expected <= following.requests else "thread"


def estimate_feed_requests(feed_requests: float | None, mode: FetchMode, requests: int) -> float:
    """Return the expected cost of the next run by feeds, after a run that cost `requests`."""
    known = FEEDS if feed_requests is None else feed_requests
    if mode == "repo":
        return max(FEEDS, _MEMORY * known + (1 - _MEMORY) * requests)
    return FEEDS + (known - FEEDS) * _OBLIVION


class WatchedList(Struct, frozen=True):
    """One list of comments of one thread, which is that of a pull request or of an issue."""

    surface: str
    kind: str
    number: int
    is_pull: bool


def watched_lists(
    pulls: Iterable[TrackedPr], issues: Iterable[IssueCursor], operations_issue: int
) -> list[WatchedList]:
    """Return the lists of comments to read, each once."""
    found: list[WatchedList] = []
    numbers = {pull.pr_number for pull in pulls}
    for number in sorted(numbers):
        found.append(WatchedList("pr_issue_comments", ISSUE_COMMENT, number, is_pull=True))
        found.append(WatchedList("pr_review_comments", REVIEW_COMMENT, number, is_pull=True))
    for issue in issues:
        number = issue.issue_number
        if number not in numbers and (issue.pr_number is None or issue.pr_number in numbers):
            surface = "issue_pre_pr_followups" if issue.pr_number is None else "issue_post_pr_redirects"
            found.append(WatchedList(surface, ISSUE_COMMENT, number, is_pull=False))
    if operations_issue and operations_issue not in {watch.number for watch in found}:
        found.append(WatchedList("issue_operator_commands", ISSUE_COMMENT, operations_issue, is_pull=False))
    return found


class FollowedReading:
    """Reads the followed items of one repository; `reports` are those of its lists, the list of pull requests first."""

    def __init__(
        self,
        session: Session,
        consumer: RunConsumer,
        targets: Sequence[ListTarget],
        reports: Sequence[ScopeReport],
        project: ProjectRow,
        full: bool,  # noqa: FBT001 - as the run has it
        is_over: IsOver,
    ) -> None:
        source = targets[0].source
        assert isinstance(source, FollowableSource), "only such a source has followed repositories"
        settings = feedback_settings(session.shop.config, project.source, project.configured)
        assert settings is not None, "only hosts with feedback have followed repositories"
        self._session = session
        self._consumer = consumer
        self._source = source
        self._settings = settings
        self._targets = {target.resource: target for target in targets}
        self._reports = {target.resource: report for target, report in zip(targets, reports, strict=True)}
        self._project = project
        self._full = full or not settings.incremental
        self._is_over = is_over
        self._read_at: dict[WatchedList, int] = {}

    @property
    def _database(self) -> Database:
        return self._session.shop.database

    async def run(self, on_progress: OnProgress) -> None:
        """Bring everything that is followed up to date, except children other than comments."""
        settings, by_rule = self._settings, bool(self._settings.track_authors or self._settings.track_labels)
        watched = self._watched()
        for report in self._reports.values():
            report.home = self._project
        if not watched and not by_rule:
            for report in self._reports.values():
                report.skipped = NOTHING_FOLLOWED
            return
        known = load_cost(self._database, self._project.id)
        if known is None:
            self._save_cost(PollCost("thread", FEEDS))
        numbers = {watch.number: watch.is_pull for watch in watched}
        counts = FollowedCounts(sum(numbers.values()), len(numbers) - sum(numbers.values()))
        expected = None if known is None else known.feed_requests
        mode = "thread" if self._full else choose_fetch_mode(settings.fetch, counts, expected)
        self._consumer.note_mode(self._project.id, mode)
        opening = mode == "repo" and not self._are_feeds_open(known)
        # A list that was read before shows every pull request that changed since.
        listed = by_rule and load_cursor(self._database, self._list_scope("merge_requests")).watermark is not None
        if opening:
            await self._open_feeds(watched, known, pulls=not by_rule)
        if mode == "repo" or by_rule:
            await self._read_list("merge_requests", on_progress)
        watched = self._watched()
        await self._read_parents(watched, snapshots=(mode == "thread" or opening) and not listed)
        await follow_rename(self._session, self._targets["merge_requests"], self._report)
        await self._consumer.check_heads(self._session, self._project)
        if mode == "thread" and known is not None and known.mode == "repo":
            self._hand_over(watched)
        if mode == "repo":
            for name in self._source.feeds:
                await self._read_list(name, on_progress)
        else:
            await self._retry_quarantined()
        if not self._full:
            await self._read_threads(watched, every=mode == "thread")
        self._settle(watched, mode)
        self._learn(mode, known, sum(report.requests for report in self._reports.values()))

    def _watched(self) -> list[WatchedList]:
        pulls = list_tracked(self._database, project_id=self._project.id, statuses=(AWAITING, BLOCKED))
        issues = followed_issues(self._database, self._project.id)
        return watched_lists(pulls, issues, self._settings.operations_issue)

    def _scope(self, watch: WatchedList) -> Scope:
        project = self._project
        return thread_scope(project.source, project.id, project.remote_id, watch.surface, watch.number)

    def _list_scope(self, name: str) -> Scope:
        return self._targets[name].scope(self._project)

    def _are_feeds_open(self, known: PollCost | None) -> bool:
        begun = all(load_cursor(self._database, self._list_scope(name)).watermark for name in self._source.feeds)
        return begun and known is not None and known.mode == "repo"

    async def _open_feeds(self, watched: Sequence[WatchedList], known: PollCost | None, *, pulls: bool) -> None:
        """Start or restart the feeds at the server's present time, and have every thread catch up by itself."""
        if self._source.skew_ms is None:
            await self._source.ask_clock()
        now = self._session.shop.clock.now_ms()
        server_at = now + (self._source.skew_ms or 0)
        lists = [*self._source.feeds, *(["merge_requests"] if pulls else [])]
        with self._session.writing() as tx:
            for watch in watched:
                scope = self._scope(watch)
                cursor = load_cursor(self._database, scope)
                if cursor.complete:
                    # Drop the validator: after a "not modified" response the thread would never become complete again.
                    save_cursor(tx, scope, replace(cursor, complete=False, validator=None), now)
            for name in lists:
                transfer_position(tx, self._list_scope(name), server_at, complete=True, now_ms=now)
            # Store the mode now: otherwise a run that fails later would restart the feeds.
            save_cost(tx, self._project.id, PollCost("repo", FEEDS if known is None else known.feed_requests), now)

    def _hand_over(self, watched: Sequence[WatchedList]) -> None:
        """Set threads to the position of the feeds that covered them, unless that position is invalid."""
        now = self._session.shop.clock.now_ms()
        feeds = {kind: load_cursor(self._database, self._list_scope(name)) for name, kind in self._source.feeds.items()}
        for watch in watched:
            feed, scope = feeds[watch.kind], self._scope(watch)
            if (
                feed.watermark is not None
                and not why_invalid(feed, now)
                and load_cursor(self._database, scope).complete
            ):
                with self._session.writing() as tx:
                    transfer_position(tx, scope, feed.watermark.at, complete=True, now_ms=now)

    async def _read_list(self, name: str, on_progress: OnProgress) -> None:
        """Read the list of pull requests, or a feed; of both only what is followed is stored."""
        target, report = self._targets[name], self._reports[name]
        await ListReading(self._session, target, report, False, on_progress, self._is_over).run(self._project)
        self._consumer.note_read(self._project.id, name, report.requests, report.tally)

    async def _retry_quarantined(self) -> None:
        """Fetch comments again that could not be parsed when the feeds were read."""
        shop = self._session.shop
        for name, kind in self._source.feeds.items():
            scope = self._list_scope(name)
            if due_entries(self._database, scope, shop.clock.now_ms(), 1):
                intake = Intake(page_writer(self._session, scope, CommentTable(kind)), shop.clock.now_ms, shop.seam)
                intake.load(self._plan(Order.UPDATED).safe_backfill_ms)
                timed = TimedList(self._source.feed(name, self._project.remote_id), self._is_over)
                await retry_quarantined(timed, intake)
                self._consumer.note_read(self._project.id, name, timed.requests, intake.tally)

    async def _read_parents(self, watched: Sequence[WatchedList], *, snapshots: bool) -> None:
        """Fetch followed items that are not stored yet; with `snapshots`, every pull request that may have changed."""
        parents = self._parents()
        missing = {watch.number for watch in watched} - parents.stored({watch.number for watch in watched})
        for number in sorted({watch.number for watch in watched}):
            is_pull = any(watch.number == number and watch.is_pull for watch in watched)
            with self._catching(f"#{number}"):
                if is_pull and (snapshots or number in missing):
                    await self._snapshot(number)
                elif number in missing:
                    await parents.fetch(number)

    def _parents(self) -> ParentFetcher:
        return ParentFetcher(self._session, self._targets["merge_requests"], self._project)

    async def _snapshot(self, number: int) -> None:
        """Fetch one pull request, if it changed."""
        project = self._project
        scope = thread_scope(project.source, project.id, project.remote_id, "pr_snapshot", number)
        writer = page_writer(self._session, scope, self._targets["merge_requests"].family)
        intake = Intake(writer, self._session.shop.clock.now_ms, self._session.shop.seam)
        lister = self._source.snapshot(project.remote_id, number)
        timed = TimedList(lister, self._is_over)
        await Walk(timed, intake, self._plan(Order.ID)).run()
        self._report.server_at = intake.server_at
        self._consumer.note_read(project.id, "merge_requests", timed.requests, intake.tally)

    def _plan(self, order: Order) -> Plan:
        settings = self._settings
        return Plan(
            order=order,
            overlap_ms=round(settings.comment_fetch_overlap_seconds * 1000),
            margin_ms=_WHOLE_SECONDS_MS,
            safe_backfill_ms=round(settings.comment_fetch_safe_backfill_seconds * 1000),
        )

    async def _read_threads(self, watched: Sequence[WatchedList], *, every: bool) -> None:
        """Read single threads: every one, or those not complete yet and those with quarantined comments due."""
        # Without its pull request or issue a comment cannot be stored, and its thread must not count as read.
        stored = self._parents().stored({watch.number for watch in watched})
        for watch in (watch for watch in watched if watch.number in stored):
            scope, now = self._scope(watch), self._session.shop.clock.now_ms()
            if every or not load_cursor(self._database, scope).complete or due_entries(self._database, scope, now, 1):
                with self._catching(f"#{watch.number} {watch.surface}"):
                    await self._read_thread(watch, scope)

    async def _read_thread(self, watch: WatchedList, scope: Scope) -> None:
        writer = page_writer(self._session, scope, CommentTable(watch.kind))
        intake = Intake(writer, self._session.shop.clock.now_ms, self._session.shop.seam)
        timed = TimedList(self._source.thread(self._project.remote_id, watch.kind, watch.number), self._is_over)
        tell_scan("incremental_scan_started" if writer.load().complete else "incremental_scan_backfill", scope)
        try:
            await Walk(timed, intake, self._plan(Order.ID)).run()
        except TimeIsUp:
            self._report.list_left = True
            return
        finally:
            self._consumer.note_read(self._project.id, watch.surface, timed.requests, intake.tally)
        tell_scan("incremental_scan_completed", scope, intake.tally)
        if timed.opened_at is not None:
            self._read_at[watch] = timed.opened_at

    @property
    def _report(self) -> ScopeReport:
        return self._reports["merge_requests"]

    def _settle(self, watched: Sequence[WatchedList], mode: FetchMode) -> None:
        """Count the comments of threads as read that were read to their end, or are covered by the feeds."""
        fed = [self._reports[name].opened_at for name in self._source.feeds] if mode == "repo" else [None]
        fed_at = None if any(at is None for at in fed) else min(at for at in fed if at is not None)
        read_at: dict[tuple[bool, int], list[int | None]] = {}
        for watch in watched:
            complete = load_cursor(self._database, self._scope(watch)).complete
            at = self._read_at.get(watch, fed_at if complete else None)
            read_at.setdefault((watch.is_pull, watch.number), []).append(at)
        now = self._session.shop.clock.now_ms()
        for (is_pull, number), instants in read_at.items():
            if all(at is not None for at in instants):
                with self._session.writing() as tx:
                    settle_thread(
                        tx,
                        MERGE_REQUEST if is_pull else ISSUE,
                        self._project.id,
                        number,
                        read_at=min(at for at in instants if at is not None),
                        settle_ms=PROMPT_MS,
                        now_ms=now,
                    )

    def _learn(self, mode: FetchMode, known: PollCost | None, spent: int) -> None:
        expected = estimate_feed_requests(None if known is None else known.feed_requests, mode, spent)
        cost = PollCost(mode, expected)
        if not self._full and cost != known:
            self._save_cost(cost)

    def _save_cost(self, cost: PollCost) -> None:
        with self._session.writing() as tx:
            save_cost(tx, self._project.id, cost, self._session.shop.clock.now_ms())

    @contextmanager
    def _catching(self, what: str) -> Iterator[None]:
        """Record the error of one thread, so that the others continue; errors of the host or repository pass."""
        try:
            with keep_failure(self._report.failures, what):
                yield
        except TimeIsUp:
            self._report.list_left = True


def mirror_whole(session: Session, target: ListTarget, project: ProjectRow) -> None:
    """Have the lists of a project start over if only its followed items were read until now."""
    if load_cost(session.shop.database, project.id) is None:
        return
    with session.writing() as tx:
        for name in ("merge_requests", *target.source.feeds):
            reset_cursor(tx, target.source.name, replace(target, resource=name).surface, str(project.remote_id))
        forget_cost(tx, project.id)
    _LOG.info("lists_restarted: %s", project.path, extra={"event": "lists_restarted", "project": project.path})
