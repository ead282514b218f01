"""The statuses of a tracked pull request, the allowed changes between them, and the operations that make them.

The operations are track, untrack, block, unblock and resume. Requests are made first, outside any transaction; the new
status and its history are then written in one transaction. A merged pull request cannot be tracked; a closed one only
after it was reopened. After a block the comments that were stored meanwhile are judged (`judge_from`); after a closure
only as far back as the safe backfill. A transport error never changes a status.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, Protocol

import msgspec

from tidelore.core.clock import Clock
from tidelore.core.config import FeedbackHost, RepoSettings, repo_settings
from tidelore.core.errors import IllegalTransition, NotFound, UserError
from tidelore.core.model import PullRecord
from tidelore.feedback.context import pull_name
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.cursors import forget_thread, reread_thread
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work import tracked_pull_requests as store
from tidelore.store.work.events import retry_now
from tidelore.store.work.followed_issues import follow_issue, unfollow_issue
from tidelore.store.work.tracked_pull_requests import AWAITING, BLOCKED, CLOSED, MERGED, TERMINAL, TrackedPr

Status = Literal["awaiting_feedback", "blocked", "merged", "closed"]
PullVerdict = Literal["merged", "closed", "compare", "same"]
HeadVerdict = Literal["follow", "history_rewritten"]

HISTORY_REWRITTEN: Final = "history_rewritten"
HANDLER_FAILED: Final = "handler_failed"

STEPS: Mapping[str | None, frozenset[str]] = MappingProxyType(
    {
        None: frozenset({"awaiting_feedback"}),
        "awaiting_feedback": frozenset({"blocked", "merged", "closed"}),
        "blocked": frozenset({"awaiting_feedback", "merged", "closed"}),
        "closed": frozenset({"awaiting_feedback"}),
        "merged": frozenset(),
    }
)
"""The allowed next statuses of each status (None: not tracked yet). Only an operator may resume a `closed` one."""


def check_step(before: str | None, after: str) -> None:
    """Raise IllegalTransition for a change that is not in `STEPS`."""
    if after not in STEPS.get(before, frozenset()):
        raise IllegalTransition(
            f"invalid pull request state change from {before or 'nothing'} to {after}", before=before, after=after
        )


def classify_pull(pull: PullRecord, last_seen_head_sha: str | None) -> PullVerdict:
    """Return the state of a pull request; 'compare' if its head differs from the one last seen."""
    if pull.state == MERGED:
        return "merged"
    if pull.state == CLOSED:
        return "closed"
    return "same" if pull.head_sha == last_seen_head_sha else "compare"


def classify_head(word: str) -> HeadVerdict:
    """Return whether to follow the branch, given the status from the compare endpoint for (last seen, new head).

    A new head is followed only if the last one is its ancestor; an unknown status does not prove that.
    """
    return "follow" if word in {"ahead", "identical"} else HISTORY_REWRITTEN


def matches_rule(pull: PullRecord, settings: RepoSettings, *, opened_since: int | None = None) -> bool:
    """Return whether to track a pull request automatically, because of its author or one of its labels.

    A merged or closed one matches only if it was opened since the last poll, and so ended between two polls.
    """
    if classify_pull(pull, None) in TERMINAL and (opened_since is None or pull.created_at < opened_since):
        return False
    authors, labels = _rule(settings)
    return (pull.author is not None and pull.author.casefold() in authors) or any(
        label.casefold() in labels for label in pull.labels
    )


def write_rule(settings: RepoSettings) -> str:
    """Return the rule of a repository as a text that is equal for equal rules; empty without a rule."""
    authors, labels = _rule(settings)
    if not authors and not labels:
        return ""
    return msgspec.json.encode({"authors": sorted(authors), "labels": sorted(labels)}).decode()


def _rule(settings: RepoSettings) -> tuple[set[str], set[str]]:
    """Return the authors and labels of a rule, which are compared ignoring case."""
    return {name.casefold() for name in settings.track_authors}, {name.casefold() for name in settings.track_labels}


class PullSource(Protocol):
    """The part of a source that is used here."""

    name: str

    async def pull(self, remote_id: int, number: int, /) -> PullRecord:
        """Return the current state of a pull request."""
        ...


class Lifecycle:
    """Operations on the pull requests of one repository."""

    def __init__(
        self, database: Database, source: PullSource, project: ProjectRow, settings: FeedbackHost, clock: Clock
    ) -> None:
        self._database = database
        self._source = source
        self._project = project
        self._settings = repo_settings(settings, project.configured)
        self._clock = clock

    async def track(self, number: int, *, issue_number: int | None = None, tracked_by: str = "operator") -> TrackedPr:
        """Track an open pull request, and its source issue if given. One that is already tracked keeps its status."""
        known = store.find_tracked(self._database, self._project.id, number)
        if known is not None and known.status in TERMINAL:
            raise self._ended(known)
        pull = await self.open_pull(number)
        now = self._clock.now_ms()
        with self._database.transaction() as tx:
            row = store.track(
                tx,
                self._project.id,
                self._project.path,
                number,
                issue_number=issue_number,
                tracked_by=tracked_by,
                now_ms=now,
            )
            if issue_number is not None:
                follow_issue(tx, self._project.id, self._project.path, issue_number, pr_number=number, now_ms=now)
            return store.note_pull(tx, row, pull, now)

    def untrack(self, number: int) -> TrackedPr:
        """Stop tracking a pull request. Stored events are kept; if tracked again, it is read from the beginning."""
        row = self.find(number)
        with self._database.transaction() as tx:
            store.untrack(tx, row.id)
            forget_thread(tx, self._project.id, self._project.remote_id, number)
            if row.issue_number is not None:
                unfollow_issue(tx, row.project_id, row.issue_number)
        return row

    async def unblock(self, number: int, *, head_sha: str | None = None) -> TrackedPr:
        """Unblock a pull request, at its current head or at `head_sha`."""
        row = self.find(number)
        head = await self.head_for_unblock(row, head_sha)
        with self._database.transaction() as tx:
            return self.unblock_in(tx, row, head, "operator")

    async def head_for_unblock(self, row: TrackedPr, head_sha: str | None) -> str:
        """Return the head from which to unblock a pull request, or raise UserError if it cannot be unblocked."""
        if row.status != BLOCKED:
            raise UserError(
                f"{self._name(row.pr_number)} is not blocked, it is {row.status}",
                fix="use `lore feedback resume` for a closed pull request" if row.status == CLOSED else None,
                status=row.status,
            )
        pull = await self.open_pull(row.pr_number)
        return _chosen_head(pull, head_sha)

    def unblock_in(self, tx: Transaction, row: TrackedPr, head_sha: str | None, by: str) -> TrackedPr:
        """Write an unblock; without a head, keep the one last seen. Pending events become ready at once."""
        check_step(row.status, AWAITING)
        now = self._clock.now_ms()
        columns = {} if head_sha is None else {"last_seen_head_sha": head_sha}
        moved = store.move(tx, row, AWAITING, "unblocked", f"by {by}", now, **columns, judge_from=0)
        retry_now(tx, row.project_id, row.pr_number)
        return moved

    async def resume(self, number: int, *, head_sha: str | None = None) -> TrackedPr:
        """Track a closed pull request again after it was reopened on the server; refuse a merged one."""
        row = self.find(number)
        if row.status == MERGED:
            raise self._ended(row)
        if row.status != CLOSED:
            raise UserError(f"{self._name(number)} is already tracked, its status is {row.status}", status=row.status)
        pull = await self.open_pull(number)
        check_step(row.status, AWAITING)
        now = self._clock.now_ms()
        backfill_at = now - round(self._settings.comment_fetch_safe_backfill_seconds * 1000)
        with self._database.transaction() as tx:
            head = _chosen_head(pull, head_sha)
            moved = store.move(
                tx, row, AWAITING, "resumed", "by operator", now, last_seen_head_sha=head, judge_from=backfill_at
            )
            reread_thread(tx, self._project.id, self._project.remote_id, number)
            return store.note_pull(tx, moved, pull, now)

    async def open_pull(self, number: int) -> PullRecord:
        """Fetch an open pull request, or raise UserError if it is merged or closed on the server."""
        pull = await self._source.pull(self._project.remote_id, number)
        verdict = classify_pull(pull, None)
        if verdict in TERMINAL:
            raise UserError(
                f"{self._name(number)} is {verdict}",
                fix="a merged pull request cannot be tracked" if verdict == MERGED else "reopen it on the server first",
                status=verdict,
            )
        return pull

    def find(self, number: int) -> TrackedPr:
        """Return a tracked pull request, or raise NotFound."""
        row = store.find_tracked(self._database, self._project.id, number)
        if row is None:
            raise NotFound(
                f"{self._name(number)} is not tracked",
                fix=f"follow it with: lore feedback track --repo {self._project.path} --pr {number}",
                number=number,
            )
        return row

    def _ended(self, row: TrackedPr) -> UserError:
        fix = "a merged pull request cannot be tracked again"
        if row.status == CLOSED:
            fix = f"resume it with: lore feedback resume --repo {row.repo_full_name} --pr {row.pr_number}"
        return UserError(f"{self._name(row.pr_number)} is {row.status}", fix=fix, status=row.status)

    def _name(self, number: int) -> str:
        return f"{self._project.path}{pull_name(self._settings, number)}"


def block_pull(database: Database, row: TrackedPr, reason: str, detail: str | None, now_ms: int) -> TrackedPr:
    """Stop deriving events of a pull request until it is unblocked; commands are still applied."""
    check_step(row.status, BLOCKED)
    with database.transaction() as tx:
        return store.move(tx, row, BLOCKED, reason, detail, now_ms)


def _chosen_head(pull: PullRecord, head_sha: str | None) -> str:
    """Return the head to continue from: the server's full SHA if `head_sha` is missing or a prefix of it."""
    return pull.head_sha if head_sha is None or pull.head_sha.startswith(head_sha.lower()) else head_sha.lower()
