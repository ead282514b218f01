"""Read the list of pull requests of a repository and update those that are tracked.

The list is ordered newest update first and read down to the last update seen. Its pull requests are stored before its
cursor, so after a crash the same page is read again. A pull request seen as merged or closed is only recorded here:
`RepoPoll` ends it after its comments were read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from tidelore.core.model import Item, Position, PullRecord, Rejected, Scope
from tidelore.engine.cursor import Cursor, backfilled, forward, why_invalid
from tidelore.engine.intake import Tally
from tidelore.engine.ports import ListRequest, Page
from tidelore.engine.window import bounded
from tidelore.feedback.context import Context
from tidelore.feedback.lifecycle import HISTORY_REWRITTEN, check_step, classify_head, classify_pull, matches_rule
from tidelore.feedback.report import CatchThreadErrors, RepoReport
from tidelore.feedback.repositories import RepositoryIdentity
from tidelore.sources.github.source import GitHubSource
from tidelore.store.mirror.cursors import load_cursor, poll_scope, save_cursor, set_aside
from tidelore.store.mirror.quarantine import admit
from tidelore.store.work.session import Session
from tidelore.store.work.tracked_pull_requests import BLOCKED, TERMINAL, TrackedPr, move, note_pull, set_head, track

_LOG = logging.getLogger(__name__)
_WHOLE_SECOND_MS = 1000
_MOST_PAGES = 100
"""The most pages to read; pull requests further down were updated before any that we follow."""


class PullListing(Struct, frozen=True):
    """The pull requests listed, and the cursor to store once all of them are processed.

    `since` is the last update seen before; None at the first listing.
    """

    pulls: list[PullRecord]
    since: int | None
    rejected: list[Rejected]
    cursor: Cursor
    server_at: int | None
    tally: Tally
    requests: int


class EndedPull(Struct, frozen=True):
    """A tracked pull request that was seen as merged or closed. Its status changes once it is fully read."""

    tracked: TrackedPr
    pull: PullRecord
    status: str


class PullRequestWatch(Struct, frozen=True):
    """Lists and updates the pull requests of one repository. `endings` are those seen as merged or closed."""

    session: Session
    source: GitHubSource
    project_id: int
    context: Context
    report: RepoReport
    identity: RepositoryIdentity
    endings: dict[int, EndedPull] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        return poll_scope(self.source.name, self.project_id, self.context.repo, "pulls")

    async def look(self, followed: Collection[int]) -> PullListing:
        """Read the list down to the last update seen.

        The first listing continues while a rule may match, or while that is cheaper than fetching each followed pull
        request by itself.
        """
        known = self._known()
        feed = self.source.pull_feed(self.context.repo)
        floor = None if known.watermark is None else known.watermark.at - self.context.overlap_ms
        found: dict[int, Item[PullRecord]] = {}
        rejected: list[Rejected] = []
        tally, token, requests = Tally(), None, 0
        cursor, server_at = replace(known, complete=True), None
        while requests < _MOST_PAGES:
            page = await feed.fetch(ListRequest(token=token, validator=known.validator))
            requests += 1
            self.identity.look_at(page)
            server_at = page.server_at if server_at is None else server_at
            if page.not_modified:
                tally.not_modified = True
                break
            tally.pages += 1
            tally.fetched += len(page.items)
            if token is None:
                top = max((item.at for item in page.items), default=None)
                mark = None if top is None else Position(top, 0)
                # A time in the server's future must not become the position: it would hide changes until then.
                mark = forward(known.watermark, bounded(mark, page.server_at))
                shows = shows_what_comes(page, max(self.context.overlap_ms, _WHOLE_SECOND_MS))
                cursor = replace(cursor, watermark=mark, validator=page.validator if shows else None)
            for item in page.items:
                found.setdefault(item.record.number, item)
            rejected += page.rejected
            token = page.next_token
            if token is None or self._is_deep_enough([item.at for item in page.items], floor):
                break
            if floor is None and not self._has_rule and len(set(followed) - found.keys()) <= requests:
                break
        fresh = [item.record for item in found.values() if floor is None or item.at >= floor]
        tally.created = len(fresh)
        since = None if known.watermark is None else known.watermark.at
        return PullListing(fresh, since, rejected, cursor, server_at, tally, requests)

    def _is_deep_enough(self, instants: list[int], floor: int | None) -> bool:
        return floor is not None and bool(instants) and instants[-1] < floor

    @property
    def _has_rule(self) -> bool:
        return bool(self.context.settings.track_authors or self.context.settings.track_labels)

    def _known(self) -> Cursor:
        """Return the cursor; an invalid one is set aside and replaced by a bounded backfill."""
        shop = self.session.shop
        cursor = load_cursor(shop.database, self.scope)
        reason = why_invalid(cursor, shop.clock.now_ms())
        if reason is None:
            return cursor
        _LOG.warning("cursor_invalid: %s", reason, extra={"event": "cursor_invalid", "scope": self.scope.key})
        with self.session.writing() as tx:
            set_aside(tx, self.scope, reason, shop.clock.now_ms())
        backfill_ms = round(self.context.settings.comment_fetch_safe_backfill_seconds * 1000)
        return backfilled(shop.clock.now_ms(), backfill_ms)

    async def apply_listing(self, look: PullListing, followed: Mapping[int, TrackedPr]) -> bool:
        """Process the listed pull requests one by one; return whether all succeeded."""
        failed = False
        for pull in look.pulls:
            tracked = followed.get(pull.number)
            if tracked is None and matches_rule(pull, self.context.settings, opened_since=look.since):
                tracked = self._track(pull)
            if tracked is None:
                continue
            with CatchThreadErrors(self.report, f"#{pull.number}") as caught:
                await self.take(tracked, pull)
            failed = failed or caught.failed
        return not failed

    def keep(self, look: PullListing) -> None:
        """Store the cursor of a listing. Until then the next listing returns the same again."""
        now = self.session.shop.clock.now_ms()
        with self.session.writing() as tx:
            if look.rejected:
                admit(tx, self.scope, look.rejected, now)
            save_cursor(tx, self.scope, look.cursor, now)

    async def take(self, tracked: TrackedPr, pull: PullRecord) -> TrackedPr:
        """Update a tracked pull request from a record; a record older than the stored one changes nothing."""
        if tracked.status in TERMINAL or pull.updated_at < (tracked.pull_updated_at or 0):
            return tracked
        verdict = classify_pull(pull, tracked.last_seen_head_sha)
        if verdict in TERMINAL:
            self.endings[tracked.pr_number] = EndedPull(tracked, pull, verdict)
            return self._note(tracked, pull)
        if verdict == "compare" and tracked.last_seen_head_sha and pull.head_sha and tracked.status != BLOCKED:
            self.report.surface("pulls").requests += 1
            word = await self.source.compare(self.context.repo_id, tracked.last_seen_head_sha, pull.head_sha)
            if classify_head(word) == HISTORY_REWRITTEN:
                detail = f"{pull.head_sha} does not follow {tracked.last_seen_head_sha} ({word})"
                return self._move(tracked, pull, BLOCKED, HISTORY_REWRITTEN, detail)
            return self._note(tracked, pull, head=pull.head_sha)
        return self._note(tracked, pull)

    def end(self, ending: EndedPull) -> None:
        """End a merged or closed pull request; call it only after its threads and reviews were fully read."""
        self._move(ending.tracked, ending.pull, ending.status, f"{ending.status} on the remote", None)

    def _track(self, pull: PullRecord) -> TrackedPr:
        now = self.session.shop.clock.now_ms()
        with self.session.writing() as tx:
            tracked = track(
                tx, self.project_id, self.context.repo, pull.number, issue_number=None, tracked_by="rule", now_ms=now
            )
        self.report.tracked.append(pull.number)
        return tracked

    def _note(self, tracked: TrackedPr, pull: PullRecord, head: str | None = None) -> TrackedPr:
        now = self.session.shop.clock.now_ms()
        with self.session.writing() as tx:
            if head is not None:
                set_head(tx, tracked.id, head, now)
            return note_pull(tx, tracked, pull, now)

    def _move(self, tracked: TrackedPr, pull: PullRecord, status: str, reason: str, detail: str | None) -> TrackedPr:
        check_step(tracked.status, status)
        now = self.session.shop.clock.now_ms()
        with self.session.writing() as tx:
            note_pull(tx, tracked, pull, now)
            # `move` starts from the status that was checked: another process may have changed it meanwhile.
            moved = move(tx, tracked, status, reason, detail, now)
        self.report.moved.append(f"#{tracked.pr_number} {tracked.status} -> {status} ({reason})")
        _LOG.info("%s#%d is %s: %s", tracked.repo_full_name, tracked.pr_number, status, detail or reason)
        return moved


def shows_what_comes(page: Page[PullRecord], overlap_ms: int) -> bool:
    """Return whether every later change will appear on the first page, so that "not modified" means no change.

    That is not so while a full page has only updates of the present second: further ones may be sorted after them.
    """
    if page.next_token is None:
        return True
    return page.server_at is not None and any(item.at < page.server_at - overlap_ms for item in page.items)


def reviews_read_for(moved_at: int, server_at: int | None, overlap_ms: int) -> int:
    """Return for which update time of a pull request its reviews count as read, if they were read at `server_at`.

    A review in the same second as the update does not change the update time again. So until that second is certainly
    over, they count as read for the time just before, and are read once more when it is over.
    """
    over = server_at is None or server_at >= moved_at + max(overlap_ms, _WHOLE_SECOND_MS)
    return moved_at if over else moved_at - 1


def are_reviews_due(moved_at: int, read_for: int | None, server_at: int | None, overlap_ms: int) -> bool:
    """Return whether to read reviews: not read since `moved_at`, or read before that second was over and it is now."""
    if read_for is None or read_for < moved_at - 1:
        return True
    return read_for < moved_at and reviews_read_for(moved_at, server_at, overlap_ms) == moved_at
