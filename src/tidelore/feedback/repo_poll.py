"""Poll one repository: choose the lists to read, read them, and end pull requests that were merged or closed.

Steps: list the pull requests, read comments, continue first reads as far as the page limit allows, read reviews of
pull requests that changed, and only then end those seen as merged or closed, so no earlier comment is lost. Comments
are read from the repository-wide feeds or thread by thread, whichever is expected to cost fewer requests. With feeds, a
poll without news is three conditional requests, however much is tracked (invariant 9).

The cursor of a thread says up to when that thread is complete. When reading by feeds starts, the feeds start at the
server's present time and every thread is read once by itself from its cursor, so nothing is missed in between.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.concurrency import gather
from tidelore.core.config import RepoSettings
from tidelore.core.model import ISSUE_COMMENT, REVIEW_COMMENT, CommentRecord, Item, Position, Rejected, Scope
from tidelore.engine.cursor import forward, why_invalid
from tidelore.engine.intake import Intake
from tidelore.engine.ports import ListRequest, Page
from tidelore.engine.window import Order
from tidelore.feedback.context import Context, clock_offset_ms, read_context
from tidelore.feedback.events import batch_event, reconsider
from tidelore.feedback.pull_requests import PullListing, PullRequestWatch, are_reviews_due, reviews_read_for
from tidelore.feedback.report import CatchThreadErrors, RepoReport
from tidelore.feedback.repositories import RepositoryIdentity
from tidelore.feedback.scan import Ration, Scanner
from tidelore.sources.github.source import GitHubSource
from tidelore.store.mirror.cursors import load_cursor, poll_scope, save_cursor, upsert_poll_cursor
from tidelore.store.mirror.projects import ProjectRow, rename_repository
from tidelore.store.mirror.quarantine import due_entries
from tidelore.store.work.action_tokens import signing_secret
from tidelore.store.work.followed_issues import IssueCursor, batch_followups, followed_issues, waiting_followups
from tidelore.store.work.service_records import PollCost, load_cost, save_cost
from tidelore.store.work.session import Session
from tidelore.store.work.tracked_pull_requests import (
    AWAITING,
    BLOCKED,
    TERMINAL,
    TrackedPr,
    list_tracked,
    note_reviews_read,
)

FetchMode = Literal["repo", "thread"]

FEEDS = 3.0
"""Requests of a poll by feeds without news: two for comments, one for pull requests."""
_MEMORY = 0.7
"""The weight of the last estimate in the next one."""
_OBLIVION = 0.98
"""The factor by which the extra cost of feeds (comments on untracked threads) decays with each poll by threads."""


class FollowedCounts(Struct, frozen=True):
    """How many pull requests and issues of a repository are followed."""

    awaiting: int = 0
    blocked: int = 0
    issues: int = 0

    @property
    def requests(self) -> float:
        """Requests of a poll by threads without news: two lists and a snapshot per pull request, one list per issue."""
        return 3.0 * (self.awaiting + self.blocked) + self.issues


def choose_fetch_mode(
    wanted: Literal["auto", "repo", "thread"], following: FollowedCounts, feed_requests: float | None
) -> FetchMode:
    """Return the fetch mode; `feed_requests` is the expected cost of a poll by feeds."""
    if wanted != "auto":
        return wanted
    expected = FEEDS if feed_requests is None else feed_requests
    return "repo" if expected <= following.requests else "thread"


def estimate_feed_requests(feed_requests: float | None, mode: FetchMode, requests: int) -> float:
    """Return the expected cost of the next poll by feeds, after a poll that cost `requests`."""
    known = FEEDS if feed_requests is None else feed_requests
    if mode == "repo":
        return max(FEEDS, _MEMORY * known + (1 - _MEMORY) * requests)
    return FEEDS + (known - FEEDS) * _OBLIVION


class WatchedList(Struct, frozen=True):
    """One list of one thread. `from_at` is where its first read begins; None is the beginning of the thread."""

    surface: str
    kind: str
    number: int
    from_at: int | None = None


def watched_lists(
    pulls: Iterable[TrackedPr],
    issues: Iterable[IssueCursor],
    operations_issue: int,
    now_ms: int,
    ending: Collection[int] = (),
) -> list[WatchedList]:
    """Return the lists to read, each once. A pull request in `ending` is fully read, even if it was blocked."""
    found: list[WatchedList] = []
    open_pulls = {pull.pr_number: pull for pull in pulls if pull.status not in TERMINAL}
    for pull in open_pulls.values():
        if pull.status == BLOCKED and pull.pr_number not in ending:
            # Start before the block, so that unread commands from before it are answered as expired.
            found.append(WatchedList("issue_operator_commands", ISSUE_COMMENT, pull.pr_number, pull.created_at))
            found.append(WatchedList("pr_review_operator_commands", REVIEW_COMMENT, pull.pr_number, pull.created_at))
        else:
            found.append(WatchedList("pr_issue_comments", ISSUE_COMMENT, pull.pr_number))
            found.append(WatchedList("pr_review_comments", REVIEW_COMMENT, pull.pr_number))
    for issue in issues:
        if issue.issue_number in open_pulls:
            continue
        if issue.pr_number is None:
            found.append(WatchedList("issue_pre_pr_followups", ISSUE_COMMENT, issue.issue_number, issue.entered_at))
        elif issue.pr_number in open_pulls:
            found.append(WatchedList("issue_post_pr_redirects", ISSUE_COMMENT, issue.issue_number, issue.entered_at))
    if operations_issue and operations_issue not in {watch.number for watch in found}:
        found.append(WatchedList("issue_operator_commands", ISSUE_COMMENT, operations_issue, now_ms))
    return found


def count_followed(pulls: Iterable[TrackedPr], watched: Iterable[WatchedList]) -> FollowedCounts:
    """Return how many pull requests and issues are followed."""
    statuses = [pull.status for pull in pulls if pull.status not in TERMINAL]
    blocked = statuses.count(BLOCKED)
    pull_numbers = {pull.pr_number for pull in pulls}
    return FollowedCounts(len(statuses) - blocked, blocked, sum(watch.number not in pull_numbers for watch in watched))


_LOG = logging.getLogger(__name__)

FEED_OF = {ISSUE_COMMENT: "issue_comments", REVIEW_COMMENT: "review_comments"}
EARLIER = {
    "issue_post_pr_redirects": "issue_pre_pr_followups",
    "issue_operator_commands": "pr_issue_comments",
    "pr_review_operator_commands": "pr_review_comments",
}
"""For each list, the list that was read in the previous state of the thread, and whose position it continues."""


class PullCheck(Struct, frozen=True):
    """The result of checking the pull requests: the server's time, if known, and the listing whose position to keep."""

    server_at: int | None
    look: PullListing | None


class RepoPoll:
    """A poll of one repository."""

    def __init__(
        self,
        session: Session,
        source: GitHubSource,
        project: ProjectRow,
        settings: RepoSettings,
        report: RepoReport,
        *,
        own_login: str | None,
        full: bool,
    ) -> None:
        self._session = session
        self._database = session.shop.database
        self._source = source
        self._project = project
        self._settings = settings
        self._report = report
        self._identity = RepositoryIdentity(project)
        self._own_login = own_login
        self._full = full or not settings.incremental
        self._ration = Ration(settings.bootstrap_pages_per_poll)

    async def run(self) -> None:
        """Bring all followed threads of the repository up to date."""
        self._reconsider()
        pulls, by_rule = self._tracked(), bool(self._settings.track_authors or self._settings.track_labels)
        watched = self._watches(pulls)
        if not watched and not by_rule:
            return
        # Created before the snapshot, because answers planned during the poll are signed with it.
        signing_secret(self._database, self._session.shop.clock.now_ms())
        known = load_cost(self._database, self._project.id)
        mode = self._choose(pulls, watched, known)
        self._report.mode = mode
        picture = self._picture()
        pull_watch = PullRequestWatch(
            self._session, self._source, self._project.id, picture, self._report, self._identity
        )
        sight = await self._look(pull_watch, pulls, by_feed=mode == "repo" or by_rule)
        server_at = sight.server_at
        before, watched = watched, self._watches(self._tracked(), pull_watch.endings)
        if known is not None and known.mode == "repo":
            # The feeds covered newly blocked pull requests up to here; later comments are read after the block.
            self._hand_over([watch for watch in before if watch not in watched])
        await self._seed(watched)
        if mode == "repo":
            self._open_feeds(watched, server_at, known)
        elif known is not None and known.mode == "repo":
            self._hand_over(watched)
        scanner = Scanner(self._session, self._report, self._picture(pull_watch.endings))
        by_feed = mode == "repo"
        # Quarantined comments are fetched again from the feed they came from, also when reading by threads.
        kinds = [kind for kind, surface in FEED_OF.items() if by_feed or self._has_due(self._scope(surface))]
        await gather(self._read_feed(scanner, kind) for kind in kinds)
        self._report.requests = self._spent()
        # The feeds skipped the comments on blocked pull requests.
        blocked = {number for number, ending in pull_watch.endings.items() if ending.tracked.status == BLOCKED}
        every = blocked if by_feed else {watch.number for watch in watched}
        unread = await self._read_threads(scanner, watched, every)
        unread |= await self._read_reviews(scanner, server_at, pull_watch.endings)
        self._end(pull_watch, sight, unread)
        if by_feed:
            self._hand_over([watch for watch in watched if watch.number in pull_watch.endings])
        self._batch_followups()
        self._learn(mode, known)
        self._learn_name()

    def _reconsider(self) -> None:
        """Apply the current list of allowed users to comments that were ignored before; this needs no request."""
        now = self._session.shop.clock.now_ms()
        for written in reconsider(self._database, self._project, self._settings, now, self._session.lease):
            found = {"events": len(written.events), "followups": written.followups, "planned": len(written.planned)}
            self._report.effects.update({name: count for name, count in found.items() if count})

    def _choose(self, pulls: Sequence[TrackedPr], watched: Sequence[WatchedList], known: PollCost | None) -> FetchMode:
        if self._full:
            return "thread"
        expected = None if known is None else known.feed_requests
        return choose_fetch_mode(self._settings.fetch, count_followed(pulls, watched), expected)

    def _tracked(self) -> list[TrackedPr]:
        return list_tracked(self._database, project_id=self._project.id)

    def _watches(self, pulls: Sequence[TrackedPr], ending: Collection[int] = ()) -> list[WatchedList]:
        issues = followed_issues(self._database, self._project.id)
        return watched_lists(pulls, issues, self._settings.operations_issue, self._session.shop.clock.now_ms(), ending)

    def _scope(self, surface: str, number: int = 0) -> Scope:
        return poll_scope(self._source.name, self._project.id, self._project.path, surface, number)

    def _picture(self, ending: Collection[int] = ()) -> Context:
        operations = self._settings.operations_issue
        began = load_cursor(self._database, self._scope("issue_operator_commands", operations)) if operations else None
        return read_context(
            self._database,
            self._project,
            self._settings,
            own_login=self._own_login,
            operations_from=began.watermark.at if began is not None and began.watermark is not None else 0,
            ending=ending,
            clock_offset=self._clock_offset,
        )

    def _clock_offset(self) -> int:
        """Return how far the server's clock is ahead of ours, as measured in its last response."""
        return clock_offset_ms(self._source.skew_ms)

    async def _look(self, pull_watch: PullRequestWatch, pulls: Sequence[TrackedPr], *, by_feed: bool) -> PullCheck:
        """Check the pull requests: by the repository's list, and one by one those that it does not cover."""
        server_at, shown, kept = None, set[int](), None
        if by_feed:
            begun = load_cursor(self._database, pull_watch.scope).watermark is not None
            numbers = {pull.pr_number for pull in pulls if pull.status not in TERMINAL}
            look = await pull_watch.look(numbers)
            Scanner(self._session, self._report, pull_watch.context).count("pulls", look.requests, look.tally)
            # If a pull request could not be processed, do not move the position, so that the next poll lists it again.
            kept = look if await pull_watch.apply_listing(look, {pull.pr_number: pull for pull in pulls}) else None
            server_at = look.server_at
            # A first listing does not cover older pull requests: those are fetched one by one.
            shown = {pull.number for pull in look.pulls} | (numbers if begun else set())
        for tracked in self._tracked():
            if tracked.status in TERMINAL or (tracked.pr_number in shown and tracked.pull_updated_at is not None):
                continue
            with self._catching(f"#{tracked.pr_number}"):
                server_at = await self._snapshot(pull_watch, tracked) or server_at
        if not self._identity.confirmed:
            self._report.surface("pulls").requests += 1
            record = await self._source.resolve(self._project.path)
            self._identity.check(record.remote_id, record.path)
        if kept is not None and not pull_watch.endings:
            pull_watch.keep(kept)
        return PullCheck(server_at, kept)

    def _end(self, pull_watch: PullRequestWatch, sight: PullCheck, unread: Collection[int]) -> None:
        """End merged and closed pull requests that were fully read; if all are ended, keep the position of the listing.

        Those that were not fully read are ended by a later poll: the next listing shows them again.
        """
        waiting = len(pull_watch.endings)
        for number, ending in pull_watch.endings.items():
            if number not in unread:
                with self._catching(f"#{number}") as caught:
                    pull_watch.end(ending)
                waiting -= not caught.failed
        if sight.look is not None and pull_watch.endings and not waiting:
            pull_watch.keep(sight.look)

    async def _snapshot(self, pull_watch: PullRequestWatch, tracked: TrackedPr) -> int | None:
        """Fetch one pull request; its validator is stored in the cursor of its reviews, which depend on it."""
        scope = self._scope("pr_review_summaries", tracked.pr_number)
        cursor = load_cursor(self._database, scope)
        pages = self._source.pull_snapshot(self._project.path, tracked.pr_number)
        page = await pages.fetch(ListRequest(validator=cursor.validator))
        self._report.surface("pulls").requests += 1
        self._identity.look_at(page)
        for item in page.items:
            await pull_watch.take(tracked, item.record)
        # Do not store the validator of one that is ending: it must be returned again until it has ended.
        ending = tracked.pr_number in pull_watch.endings
        if page.validator is not None and page.validator != cursor.validator and not ending:
            with self._session.writing() as tx:
                save_cursor(tx, scope, replace(cursor, validator=page.validator), self._session.shop.clock.now_ms())
        return page.server_at

    async def _seed(self, watched: Sequence[WatchedList]) -> None:
        """Set the start of lists that are read only from a certain time on: when the thread entered its state."""
        for watch in watched:
            scope = self._scope(watch.surface, watch.number)
            if watch.from_at is None or load_cursor(self._database, scope).watermark is not None:
                continue
            earlier = None
            if watch.surface in EARLIER:
                # Comments from the previous state that were not read by then still count.
                earlier = load_cursor(self._database, self._scope(EARLIER[watch.surface], watch.number)).watermark
            if earlier is None and self._source.skew_ms is None:
                # Our times are compared with the server's, so its clock must be known.
                await self._source.ask_clock()
            at = earlier.at if earlier is not None else watch.from_at + self._clock_offset()
            self._hand(scope, at, complete=False)

    def _open_feeds(self, watched: Sequence[WatchedList], server_at: int | None, known: PollCost | None) -> None:
        """Start or restart the feeds at the server's present time, and have every thread catch up by itself."""
        scopes = [self._scope(surface) for surface in FEED_OF.values()]
        begun = all(load_cursor(self._database, scope).watermark is not None for scope in scopes)
        if begun and known is not None and known.mode == "repo":
            return
        now = self._session.shop.clock.now_ms()
        with self._session.writing() as tx:
            for watch in watched:
                scope = self._scope(watch.surface, watch.number)
                cursor = load_cursor(self._database, scope)
                if cursor.complete:
                    # Drop the validator: after a "not modified" response the thread would never become complete again.
                    save_cursor(tx, scope, replace(cursor, complete=False, validator=None), now)
            for scope in scopes:
                at = now if server_at is None else server_at
                upsert_poll_cursor(tx, scope, last_updated_at=at, bootstrap_complete=True, now_ms=now)
            # Store the mode now: otherwise a poll that fails later would restart the feeds.
            save_cost(tx, self._project.id, PollCost("repo", FEEDS if known is None else known.feed_requests), now)

    def _hand_over(self, watched: Sequence[WatchedList]) -> None:
        """Set threads to the position of the feeds that covered them, unless that position is invalid."""
        now = self._session.shop.clock.now_ms()
        for watch in watched:
            scope = self._scope(watch.surface, watch.number)
            feed = load_cursor(self._database, self._scope(FEED_OF[watch.kind]))
            at = None if feed.watermark is None or why_invalid(feed, now) else feed.watermark.at
            if at is not None and load_cursor(self._database, scope).complete:
                self._hand(scope, at, complete=True)

    def _hand(self, scope: Scope, at: int, *, complete: bool) -> None:
        now = self._session.shop.clock.now_ms()
        with self._session.writing() as tx:
            upsert_poll_cursor(tx, scope, last_updated_at=at, bootstrap_complete=complete, now_ms=now)

    async def _read_feed(self, scanner: Scanner, kind: str) -> None:
        scope = self._scope(FEED_OF[kind])
        await scanner.read(scope, kind, self._source.comment_feed(self._project.remote_id, kind), Order.UPDATED)

    async def _read_threads(self, scanner: Scanner, watched: Sequence[WatchedList], every: Collection[int]) -> set[int]:
        """Read single threads: those in `every`, those not complete yet, and those with quarantined comments due.

        Return the threads that were not read to their end.
        """
        unread = set[int]()
        for watch in watched:
            scope = self._scope(watch.surface, watch.number)
            complete = load_cursor(self._database, scope).complete
            if complete and watch.number not in every and not self._has_due(scope):
                continue
            lister = self._source.thread(self._project.remote_id, watch.kind, watch.number)
            finished = False
            with self._catching(f"#{watch.number} {watch.surface}") as caught:
                finished = await scanner.read(
                    scope,
                    watch.kind,
                    lister,
                    Order.ID,
                    ration=None if complete or self._full else self._ration,
                    from_start=self._full,
                )
                self._report.unfinished += not finished
            if not finished or caught.failed:
                unread.add(watch.number)
        return unread

    async def _read_reviews(self, scanner: Scanner, server_at: int | None, ending: Collection[int]) -> set[int]:
        """Read the reviews of pull requests that changed since the last read; return those where that failed."""
        unread = set[int]()
        for tracked in self._tracked():
            moved_at, is_ending = tracked.pull_updated_at, tracked.pr_number in ending
            if moved_at is None or (tracked.status != AWAITING and not is_ending):
                continue
            # One that is ending is not read again later, so do not wait until the second of its last change is over.
            last = is_ending and (tracked.reviews_read_for or 0) < moved_at
            overlap_ms = scanner.context.overlap_ms
            if self._full or last or are_reviews_due(moved_at, tracked.reviews_read_for, server_at, overlap_ms):
                with self._catching(f"#{tracked.pr_number} pr_review_summaries") as caught:
                    await self._read_reviews_of(scanner, tracked, moved_at)
                if caught.failed:
                    unread.add(tracked.pr_number)
        return unread

    async def _read_reviews_of(self, scanner: Scanner, tracked: TrackedPr, moved_at: int) -> None:
        scope = self._scope("pr_review_summaries", tracked.pr_number)
        pages = self._source.reviews(self._project.remote_id, tracked.pr_number)
        found: dict[int, Item[CommentRecord]] = {}
        rejected: list[Rejected] = []
        token, requests, server_at = None, 0, None
        while requests == 0 or token is not None:
            page = await pages.fetch(ListRequest(token=token))
            requests += 1
            server_at = page.server_at if server_at is None else server_at
            found |= {item.record.remote_id: item for item in page.items}
            rejected += page.rejected
            token = page.next_token
        shop = self._session.shop
        read_for = reviews_read_for(moved_at, server_at, scanner.context.overlap_ms)
        # Recorded in the transaction that stores the reviews: for which version of the pull request they were read.
        writer = scanner.writer(
            scope, "review_summary", lambda tx, _written: note_reviews_read(tx, tracked.id, read_for)
        )
        intake = Intake(writer, shop.clock.now_ms, shop.seam)
        top = max((item.position for item in found.values()), default=None)
        mark = None if top is None else Position(top.at, top.id)
        known = writer.load()
        cursor = replace(known, watermark=forward(known.watermark, mark), complete=True)
        intake.take(Page(items=list(found.values()), rejected=rejected), cursor)
        scanner.count("pr_review_summaries", requests, intake.tally)

    def _batch_followups(self) -> None:
        now = self._session.shop.clock.now_ms()
        for number in waiting_followups(self._database, self._project.id):
            with self._session.writing() as tx:
                batch_followups(tx, self._project.id, number, batch_event, now)

    def _learn(self, mode: FetchMode, known: PollCost | None) -> None:
        spent, self._report.requests = self._report.requests, self._spent()
        expected = estimate_feed_requests(None if known is None else known.feed_requests, mode, spent)
        cost = PollCost(mode, expected)
        if self._full or cost == known:
            return
        with self._session.writing() as tx:
            save_cost(tx, self._project.id, cost, self._session.shop.clock.now_ms())

    def _learn_name(self) -> None:
        """Store the new name of a renamed repository; until then the server redirects the old name."""
        if self._identity.name != self._project.path:
            _LOG.info("%s was renamed to %s", self._project.path, self._identity.name)
            with self._session.writing() as tx:
                rename_repository(tx, self._project, self._identity.name)

    def _spent(self) -> int:
        return sum(tally.requests for tally in self._report.surfaces.values())

    def _has_due(self, scope: Scope) -> bool:
        return bool(due_entries(self._database, scope, self._session.shop.clock.now_ms(), 1))

    def _catching(self, what: str) -> CatchThreadErrors:
        return CatchThreadErrors(self._report, what)
