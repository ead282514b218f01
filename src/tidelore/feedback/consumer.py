"""Derive feedback from the copy: events, commands and answers from stored comments, states from stored pull requests.

A run of the sync calls `stored` in the transaction that stores comments or pull requests (invariant 8), `prepare`
before it reads a project, and `conclude` after the comments and reviews of the project were read. So there is one
request for a comment, one cursor and one proof, for every forge.

Comments that were stored before their thread was followed, or while it was blocked, are judged by `prepare`: without a
request. The status of a pull request changes in `conclude` only, and it ends only when everything that was written up
to its end was read and judged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager

from msgspec import Struct, field

from tidelore.core.clock import Clock
from tidelore.core.config import Config, RepoSettings, feedback_settings
from tidelore.core.errors import CredentialsRejected, RateLimited, RemotePermanent, RemoteTransient, keep_failure
from tidelore.core.model import CommentRecord, MergeRequestRecord, PullRecord, pull_of
from tidelore.engine.cursor import Cursor
from tidelore.engine.intake import Tally
from tidelore.feedback.context import Context, clock_offset_ms, pull_name, read_context
from tidelore.feedback.events import batch_event, interpret, taken_version, why_ignored
from tidelore.feedback.lifecycle import (
    HISTORY_REWRITTEN,
    check_step,
    classify_head,
    classify_pull,
    matches_rule,
    write_rule,
)
from tidelore.feedback.report import (
    COMMANDS_SEEN,
    EVENTS_DEDUPED,
    EVENTS_INGESTED,
    FETCH_PAGES,
    FETCH_REQUESTS,
    FETCHED,
    NEW,
    REPLAYED,
    SHADOW_DIFFERENCES,
    SHADOW_SCANS,
    RepoReport,
)
from tidelore.feedback.tokens import find_markers
from tidelore.sources.ports import FeedbackSource
from tidelore.store.database.port import Database, Transaction
from tidelore.store.mirror.cursors import load_cursor, reset_cursor, thread_scope, transfer_position
from tidelore.store.mirror.projects import ProjectRow, find_project, set_tracking_rule
from tidelore.store.work import followed_issues, tracked_pull_requests
from tidelore.store.work.action_tokens import find_tokens, signing_secret
from tidelore.store.work.effects import (
    IgnoredAuthor,
    JudgedComment,
    StoredComment,
    WrittenEffects,
    ignored_authors,
    thread_comments,
    with_judged,
    write_effects,
)
from tidelore.store.work.events import list_events
from tidelore.store.work.project_members import members_read_at, replace_members
from tidelore.store.work.service_records import add_to_counter
from tidelore.store.work.session import Session
from tidelore.store.work.tracked_pull_requests import (
    AWAITING,
    BLOCKED,
    TERMINAL,
    MirroredPull,
    TrackedPr,
    list_tracked,
    mirrored_pulls,
    move,
    note_compared,
    note_pull,
    open_pulls,
    set_head,
    set_scan_due,
    track,
)

_LOG = logging.getLogger(__name__)
MEMBERS_MS = 86_400_000
"""How long the members of a project count as known."""


Writing = Callable[[], AbstractContextManager[Transaction]]
"""Begins a transaction."""


class FollowedProject(Struct):
    """A project in a run: its settings, and the snapshot by which its comments are judged.

    `opened_since` is the last update of a pull request that was seen before this run; None at the first sync. While a
    thread is read in full only to compare it, `compared_at` is the time up to which everything must be stored already.
    """

    row: ProjectRow
    settings: RepoSettings
    report: RepoReport
    source: FeedbackSource | None = None
    own_login: str | None = None
    opened_since: int | None = None
    operations_from: int = 0
    prepared_at: int = 0
    compared_at: int | None = None
    snapshot: Context | None = field(default=None)

    @property
    def has_rule(self) -> bool:
        """Whether pull requests are tracked by a rule."""
        return bool(self.settings.track_authors or self.settings.track_labels)

    def clock_offset(self) -> int:
        """Return how far the server's clock is ahead of ours, as measured in its last response."""
        return clock_offset_ms(None if self.source is None else self.source.skew_ms)


class FeedbackConsumer:
    """Derives the feedback of all projects of one run. `reports` are by the id of the project's row."""

    def __init__(
        self,
        database: Database,
        config: Config,
        clock: Clock,
        sources: Mapping[str, FeedbackSource],
        logins: Mapping[str, str | None] | None = None,
        is_sampled: Callable[[float], bool] | None = None,
    ) -> None:
        self._database = database
        self._config = config
        self._clock = clock
        self._sources = sources
        self._logins = logins or {}
        self._is_sampled = is_sampled
        self._projects: dict[int, FollowedProject | None] = {}
        self.reports: dict[int, RepoReport] = {}

    def project(self, project_id: int) -> FollowedProject | None:
        """Return a project of this run; None if its host has no settings for feedback."""
        if project_id not in self._projects:
            row = find_project(self._database, project_id)
            settings = None if row is None else feedback_settings(self._config, row.source, row.configured)
            found = None
            if row is not None and settings is not None:
                source = self._sources.get(row.source)
                report = self.reports.setdefault(project_id, RepoReport(row.source, row.path))
                found = FollowedProject(row, settings, report, source)
                found.own_login = self._logins.get(row.source)
                if settings.operations_issue:
                    # Until the operations issue is followed, no command in it counts.
                    begun = self._operations_from(found)
                    found.operations_from = begun or self._clock.now_ms() + found.clock_offset()
            self._projects[project_id] = found
        return self._projects[project_id]

    def _context(self, found: FollowedProject) -> Context:
        if found.snapshot is None:
            found.snapshot = self._ending_context(found, ())
        return found.snapshot

    def selects(self, project_id: int, record: MergeRequestRecord) -> bool:
        """Return whether a pull request is followed, or should be by rule."""
        found = self.project(project_id)
        if found is None:
            return False
        return record.iid in self._context(found).pulls or self._matches(found, pull_of(record))

    def concerns(self, project_id: int, number: int) -> bool:
        """Return whether comments on an issue or merge request with this number may be judged."""
        found = self.project(project_id)
        if found is None:
            return False
        context = self._context(found)
        return any(context.role(number, on) != "none" for on in (None, "issue", "mr"))

    def _matches(self, found: FollowedProject, pull: PullRecord) -> bool:
        return found.has_rule and matches_rule(pull, found.settings, opened_since=found.opened_since)

    def stored(self, tx: Transaction, project_id: int, records: Sequence[object], now_ms: int) -> None:
        """Track pull requests by rule, and judge comments, in the transaction that stores them."""
        found = self.project(project_id)
        if found is None:
            return
        pulls = (pull_of(record) for record in records if isinstance(record, MergeRequestRecord))
        for pull in pulls if found.has_rule else ():
            if pull.number not in self._context(found).pulls and self._matches(found, pull):
                self._track(tx, found, pull, now_ms)
        context = self._context(found)
        comments = [
            record
            for record in records
            if isinstance(record, CommentRecord) and context.role(record.number, record.on) != "none"
        ]
        if comments:
            fresh = [one for one in with_judged(tx, project_id, comments) if not one.is_judged]
            if found.compared_at is not None:
                self._compare(tx, found, fresh)
            self._judge(tx, found, fresh, now_ms)

    def _compare(self, tx: Transaction, found: FollowedProject, fresh: Sequence[StoredComment]) -> None:
        """Count comments that a full scan shows and that the run should have stored before it."""
        missed = [one.record for one in fresh if one.record.updated_at <= (found.compared_at or 0)]
        add_to_counter(tx, SHADOW_DIFFERENCES, {}, len(missed))
        tx.after_commit(lambda: found.report.effects.update(["shadow_differences"] * len(missed)))
        for record in missed:
            extra = {"event": "shadow_difference", "repo": found.row.path, "comment_id": record.remote_id}
            _LOG.warning("shadow_difference: %s#%d %s", found.row.path, record.number, record.kind, extra=extra)

    def _track(self, tx: Transaction, found: FollowedProject, pull: PullRecord, now_ms: int) -> None:
        row = found.row
        known = tracked_pull_requests.find_tracked(self._database, row.id, pull.number)
        if known is not None:
            return
        tracked = track(tx, row.id, row.path, pull.number, issue_number=None, tracked_by="rule", now_ms=now_ms)
        note_pull(tx, tracked, pull, now_ms)
        tx.after_commit(lambda: found.report.tracked.append(pull.number))
        found.snapshot = None

    def _judge(
        self, tx: Transaction, found: FollowedProject, comments: Sequence[StoredComment], now_ms: int
    ) -> WrittenEffects:
        """Judge comments, write what they lead to, and count it."""
        context = self._context(found)
        judged: list[JudgedComment] = []
        for one in comments:
            signed = find_tokens(self._database, found.row.id, find_markers(one.record.body))
            effects = interpret(one.record, one.judged, context, signed)
            if effects is not None:
                judged.append(JudgedComment(one, effects))
        # The repository may have been renamed during the run.
        row = find_project(self._database, found.row.id) or found.row
        written = write_effects(tx, row.id, row.path, judged, now_ms)
        add_to_counter(tx, EVENTS_INGESTED, {}, len(written.events))
        add_to_counter(tx, EVENTS_DEDUPED, {}, written.deduped)
        add_to_counter(tx, COMMANDS_SEEN, {}, len(written.commands))
        tx.after_commit(lambda: self._note(found.report, written))
        return written

    def _note(self, report: RepoReport, written: WrittenEffects) -> None:
        counted = {
            "events": len(written.events),
            "deduped": written.deduped,
            "tokens": len(written.tokens),
            "commands": len(written.commands),
            "followups": written.followups,
            "planned": len(written.planned),
        }
        report.effects.update({name: count for name, count in counted.items() if count})
        for ignored in written.ignored:
            report.ignore(ignored.reason, ignored.record.author)
        for seen in written.tokens:
            extra = {"event": "token_observed", "repo": report.repo, "comment_id": seen.comment_id}
            _LOG.info("token_observed: %s", report.repo, extra=extra)

    def note_mode(self, project_id: int, mode: str) -> None:
        """Take note of how a followed project is read: by its feeds, or thread by thread."""
        found = self.project(project_id)
        if found is not None:
            found.report.mode = mode

    def note_read(self, project_id: int, surface: str, requests: int, tally: Tally) -> None:
        """Add the requests and results of a list to the report and to the stored counters."""
        found = self.project(project_id)
        if found is None:
            return
        name = "pulls" if surface == "merge_requests" else surface
        into, pages = found.report.surface(name), 0 if tally.not_modified else tally.pages
        amounts = {
            FETCH_REQUESTS: requests,
            FETCH_PAGES: pages,
            FETCHED: tally.fetched,
            NEW: tally.created + tally.changed,
            REPLAYED: tally.replayed,
        }
        into.requests += requests
        into.pages += pages
        into.fetched += tally.fetched
        into.new += tally.created + tally.changed
        into.replayed += tally.replayed
        with self._database.transaction() as tx:
            for metric, amount in amounts.items():
                add_to_counter(tx, metric, {"surface": name}, amount)

    def threads_to_scan(self, session: Session, project_id: int, *, full: bool) -> list[int]:
        """Return the threads to read from the beginning: those an operator asked for, or all that are followed."""
        found = self.project(project_id)
        if found is None:
            return []
        pulls = list_tracked(self._database, project_id=project_id, statuses=(AWAITING, BLOCKED))
        if not (full or not found.settings.incremental):
            return [pull.pr_number for pull in pulls if pull.scan_due] or self._sample(session, found, pulls)
        issues = followed_issues.followed_issues(self._database, project_id)
        numbers = {pull.pr_number for pull in pulls}
        numbers |= {one.issue_number for one in issues if one.pr_number is None or one.pr_number in numbers}
        return sorted(numbers | ({found.settings.operations_issue} - {0}))

    def _sample(self, session: Session, found: FollowedProject, pulls: Sequence[TrackedPr]) -> list[int]:
        """Return now and then the thread that was not compared for the longest time, and compare it."""
        share, waiting = found.settings.shadow_sample, [pull for pull in pulls if pull.judge_from is None]
        if self._is_sampled is None or not waiting or not self._is_sampled(share):
            return []
        one = min(waiting, key=lambda pull: (pull.compared_at or 0, pull.pr_number))
        found.compared_at = found.prepared_at + found.clock_offset() - self._context(found).overlap_ms
        with session.writing() as tx:
            note_compared(tx, one.id, self._clock.now_ms())
            add_to_counter(tx, SHADOW_SCANS, {}, 1)
        return [one.pr_number]

    def note_scan(self, session: Session, project_id: int, number: int, error: str | None) -> None:
        """Take note that a thread was read from the beginning, or why that failed."""
        found = self.project(project_id)
        if found is None:
            return
        if error is not None:
            found.report.failures[pull_name(found.settings, number)] = RemoteTransient(error, reason="scan_failed")
            return
        tracked = tracked_pull_requests.find_tracked(self._database, project_id, number)
        if tracked is not None and tracked.scan_due:
            with session.writing() as tx:
                set_scan_due(tx, tracked.id, due=False)

    async def prepare(self, session: Session, project: ProjectRow, pulls: Cursor) -> None:
        """Judge comments that are stored but not judged yet; `pulls` is the position in the list of pull requests."""
        self._projects.pop(project.id, None)
        found = self.project(project.id)
        if found is None:
            return
        found.prepared_at = self._clock.now_ms()
        found.opened_since = None if pulls.watermark is None else pulls.watermark.at
        self._apply_rule(session, found)
        following = list_tracked(self._database, project_id=project.id, statuses=(AWAITING, BLOCKED))
        issues = followed_issues.followed_issues(self._database, project.id)
        if not following and not issues and not found.has_rule and not found.settings.operations_issue:
            if self._config.lockdown:
                await self._refresh_members(session, found)
            return
        # Created before the snapshot, because answers planned during the run are signed with it.
        signing_secret(self._database, self._clock.now_ms())
        if found.source is not None and found.source.skew_ms is None and self._needs_clock(found, following, issues):
            # Our times are compared with the server's, so its clock must be known.
            await found.source.ask_clock()
        await self._refresh_members(session, found)
        self._begin_operations(session, found)
        for pull in following:
            if pull.judge_from is not None:
                self._catch_up(session, found, pull.pr_number, "mr", _pull_judging(found, pull.id))
        for issue in issues:
            if issue.judge_from is not None:
                self._catch_up(session, found, issue.issue_number, "issue", _issue_judging(found, issue))
        self.reconsider(project.id, session.writing)

    def _apply_rule(self, session: Session, found: FollowedProject) -> None:
        """After a change of the rule, track the open pull requests that match it: lists return only updated ones."""
        row, rule = found.row, write_rule(found.settings)
        if rule == (row.tracking_rule or ""):
            return
        now = self._clock.now_ms()
        with session.writing() as tx:
            set_tracking_rule(tx, row.id, rule)
            for pull in open_pulls(self._database, row.id) if rule else ():
                if self._matches(found, pull):
                    self._track(tx, found, pull, now)
            if rule and found.settings.mirror == "followed" and found.source is not None:
                # Only followed ones are stored, so the list is read from its beginning.
                reset_cursor(tx, row.source, f"{found.source.kind}.merge_requests", str(row.remote_id))

    async def _refresh_members(self, session: Session, found: FollowedProject) -> None:
        """Read who has access to a project, at most once a day and only where the forge does not say it otherwise."""
        now, read_at = self._clock.now_ms(), members_read_at(self._database, found.row.id)
        if found.source is None or (read_at is not None and now - read_at < MEMBERS_MS):
            return
        try:
            members = await found.source.members(found.row.remote_id)
            if members is None:
                return
        except (RemotePermanent, RemoteTransient) as error:
            if isinstance(error, CredentialsRejected | RateLimited):
                raise
            found.report.failures["members"] = error
            # A list that is refused is asked for again tomorrow; until then those known before count.
            members = None
            if isinstance(error, RemoteTransient):
                return
        with session.writing() as tx:
            replace_members(tx, found.row.id, members, now)
        found.snapshot = None

    def _needs_clock(
        self, found: FollowedProject, pulls: Sequence[TrackedPr], issues: Sequence[followed_issues.IssueCursor]
    ) -> bool:
        due = any(row.judge_from is not None for row in pulls) or any(row.judge_from is not None for row in issues)
        return due or (bool(found.settings.operations_issue) and not self._operations_from(found))

    def _operations_from(self, found: FollowedProject) -> int:
        row, number = found.row, found.settings.operations_issue
        scope = thread_scope(row.source, row.id, row.remote_id, "issue_operator_commands", number)
        begun = load_cursor(self._database, scope).watermark
        return 0 if begun is None else begun.at

    def _begin_operations(self, session: Session, found: FollowedProject) -> None:
        """Follow the operations issue from now on: commands that were written before are not run."""
        row, number = found.row, found.settings.operations_issue
        if not number:
            return
        found.operations_from = self._operations_from(found)
        if found.operations_from:
            return
        now = self._clock.now_ms()
        found.operations_from = now + found.clock_offset()
        scope = thread_scope(row.source, row.id, row.remote_id, "issue_operator_commands", number)
        with session.writing() as tx:
            transfer_position(tx, scope, found.operations_from, complete=False, now_ms=now)

    def _catch_up(
        self,
        session: Session,
        found: FollowedProject,
        number: int,
        on: str,
        begin: Callable[[Transaction], int | None],
    ) -> None:
        """Judge the comments of one thread that were stored before they counted."""
        now = self._clock.now_ms()
        with session.writing() as tx:
            since = begin(tx)
            if since is None:
                return
            stored = thread_comments(tx.execute, found.row.id, number, on=self._number_space(found, on))
            waiting = [one for one in stored if not one.is_judged]
            from_at = self._context(found).on_server(since) - self._context(found).overlap_ms if since else 0
            late = [one for one in waiting if one.record.updated_at >= from_at]
            self._judge(tx, found, late, now)
            # What was written while the pull request was closed does not count.
            skipped = [JudgedComment(one, ()) for one in waiting if one.record.updated_at < from_at]
            write_effects(tx, found.row.id, found.row.path, skipped, now)

    def _number_space(self, found: FollowedProject, on: str) -> str | None:
        """Return which numbers a thread's number belongs to; None where issues and pull requests share them."""
        return None if found.settings.shares_numbers else on

    def reconsider(self, project_id: int, writing: Writing) -> None:
        """Apply the current list of allowed users to comments that were ignored before; this needs no request."""
        found = self.project(project_id)
        authors = [] if found is None else ignored_authors(self._database, project_id)
        if found is None or not authors:
            return
        # Include merged and closed pull requests: these comments were written before. Blocked ones wait.
        ended = list_tracked(self._database, project_id=found.row.id, statuses=TERMINAL)
        context = self._ending_context(found, {row.pr_number for row in ended} & {one.number for one in authors})
        now, usual = self._clock.now_ms(), found.snapshot
        # Decided by author first, so that a long thread is read only when one of its comments counts now.
        allowed = [one for one in authors if why_ignored(_comment_by(one), context) is None]
        for number, on in sorted({(one.number, one.on or "") for one in allowed}):
            stored = thread_comments(self._database.read, found.row.id, number, on=on or None)
            due = [
                StoredComment(one.note_id, one.record, None)
                for one in stored
                if one.ignored and why_ignored(one.record, context) is None
            ]
            if due:
                found.snapshot = context
                with writing() as tx:
                    self._judge(tx, found, due, now)
        found.snapshot = usual

    def mend(self, session: Session, project: ProjectRow, number: int, missing: Collection[tuple[str, int]]) -> int:
        """Judge stored comments again that lack their event, given by kind and id; return how many events were made."""
        found = self.project(project.id)
        if found is None:
            return 0
        usual, found.snapshot = found.snapshot, self._ending_context(found, {number})
        try:
            with session.writing() as tx:
                stored = thread_comments(tx.execute, project.id, number, on=self._number_space(found, "mr"))
                due = [one for one in stored if (one.record.kind, one.record.remote_id) in missing]
                events = list_events(self._database, project.id, number)
                again = [StoredComment(one.note_id, one.record, taken_version(one.record, events)) for one in due]
                return len(self._judge(tx, found, again, self._clock.now_ms()).events)
        finally:
            found.snapshot = usual

    def _ending_context(self, found: FollowedProject, ending: Collection[int]) -> Context:
        """Return a snapshot in which the comments of these merged or closed pull requests still count."""
        return read_context(
            self._database,
            found.row,
            found.settings,
            own_login=found.own_login,
            operations_from=found.operations_from,
            ending=ending,
            clock_offset=found.clock_offset,
        )

    async def check_heads(self, session: Session, project: ProjectRow) -> None:
        """Block pull requests whose history was rewritten, before their comments are judged."""
        found = self.project(project.id)
        if found is not None:
            for one in mirrored_pulls(self._database, project.id):
                with keep_failure(found.report.failures, pull_name(found.settings, one.tracked.pr_number)):
                    await self._follow_head(session, found, one)

    async def conclude(self, session: Session, project: ProjectRow) -> None:
        """End pull requests that were merged or closed and read to their end; batch comments on source issues."""
        found = self.project(project.id)
        if found is None:
            return
        found.compared_at = None
        for one in mirrored_pulls(self._database, project.id):
            verdict = classify_pull(one.pull, one.tracked.last_seen_head_sha)
            if verdict in TERMINAL and one.is_read:
                with keep_failure(found.report.failures, pull_name(found.settings, one.tracked.pr_number)):
                    self._end(session, found, one, verdict)
        now = self._clock.now_ms()
        for number in followed_issues.waiting_followups(self._database, project.id):
            with session.writing() as tx:
                followed_issues.batch_followups(tx, project.id, number, batch_event, now)

    async def _follow_head(self, session: Session, found: FollowedProject, one: MirroredPull) -> None:
        tracked, pull = one.tracked, one.pull
        verdict, known = classify_pull(pull, tracked.last_seen_head_sha), tracked.last_seen_head_sha
        if verdict in TERMINAL:
            return
        if verdict == "compare" and known and pull.head_sha and tracked.status != BLOCKED and found.source is not None:
            found.report.surface("pulls").requests += 1
            word = await found.source.compare(found.row.remote_id, known, pull.head_sha)
            if classify_head(word) == HISTORY_REWRITTEN:
                detail = f"{pull.head_sha} does not follow {known} ({word})"
                self._move(session, found, one, BLOCKED, HISTORY_REWRITTEN, detail)
                return
            with session.writing() as tx:
                set_head(tx, tracked.id, pull.head_sha, self._clock.now_ms())
        if pull.updated_at != tracked.pull_updated_at:
            with session.writing() as tx:
                note_pull(tx, tracked, pull, self._clock.now_ms())

    def _end(self, session: Session, found: FollowedProject, one: MirroredPull, status: str) -> None:
        """End a merged or closed pull request after judging what was written while it was blocked."""
        number = one.tracked.pr_number
        usual, found.snapshot = found.snapshot, self._ending_context(found, {number})
        try:
            self._catch_up(session, found, number, "mr", lambda _tx: 0)
        finally:
            found.snapshot = usual
        self._move(session, found, one, status, f"{status} on the remote", None)

    def _move(
        self, session: Session, found: FollowedProject, one: MirroredPull, status: str, reason: str, detail: str | None
    ) -> None:
        tracked, now = one.tracked, self._clock.now_ms()
        check_step(tracked.status, status)
        with session.writing() as tx:
            note_pull(tx, tracked, one.pull, now)
            # `move` starts from the status that was checked: another process may have changed it meanwhile.
            move(tx, tracked, status, reason, detail, now)
        found.snapshot = None
        name = pull_name(found.settings, tracked.pr_number)
        found.report.moved.append(f"{name} {tracked.status} -> {status} ({reason})")
        _LOG.info("%s%s is %s: %s", tracked.repo_full_name, name, status, detail or reason)


def _comment_by(one: IgnoredAuthor) -> CommentRecord:
    """Return an empty comment of an author, to find out whether the author counts."""
    return CommentRecord(
        remote_id=0,
        kind="note",
        number=one.number,
        author=one.author,
        is_bot=bool(one.is_bot),
        body="",
        created_at=0,
        updated_at=0,
        association=one.association,
        on=one.on,
    )


def _pull_judging(found: FollowedProject, tracked_id: int) -> Callable[[Transaction], int | None]:
    def begin(tx: Transaction) -> int | None:
        since = tracked_pull_requests.begin_judging(tx, tracked_id)
        # Another process may have unblocked it since the snapshot: its comments must not be passed over now.
        found.snapshot = None
        return since

    return begin


def _issue_judging(found: FollowedProject, issue: followed_issues.IssueCursor) -> Callable[[Transaction], int | None]:
    def begin(tx: Transaction) -> int | None:
        since = followed_issues.begin_judging(tx, found.row.id, issue.issue_number)
        found.snapshot = None
        return since

    return begin
