"""Use-cases of tracking: list, show, track, untrack, unblock and resume pull requests and their source issues."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from tidelore.app.answers import Instant, copy_fields, instant, means
from tidelore.app.sources import find_followed, open_hub
from tidelore.app.wiring import App, run_until_signalled
from tidelore.core.config import Config, feedback_settings
from tidelore.core.errors import NotFound, RemoteNotFound, UserError
from tidelore.feedback.context import pull_name
from tidelore.feedback.lifecycle import Lifecycle
from tidelore.feedback.repositories import ConfiguredRepo, choose_repo, parse_thread
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import PollCursor, list_poll_cursors
from tidelore.store.mirror.projects import ProjectRow, find_configured
from tidelore.store.work import tracked_pull_requests as tracked
from tidelore.store.work.events import EventRow, PendingCount, list_events, pending_counts
from tidelore.store.work.followed_issues import IssueCursor, followed_issues
from tidelore.store.work.operator_commands import CommandRow, list_commands
from tidelore.store.work.outbox import OutboxRow, list_outbox
from tidelore.store.work.tracked_pull_requests import TrackedPr

if TYPE_CHECKING:
    from tidelore.core.model import PullRecord
    from tidelore.sources.ports import ProjectSource

STATUSES = tracked.STATUSES
BLOCKED = tracked.BLOCKED
_SHA = re.compile(r"[0-9a-fA-F]{7,64}")
_LATEST = 20


class TrackedPull(Struct, frozen=True, kw_only=True):
    """A tracked pull request."""

    repo: Annotated[str, means("the repository")]
    pr_number: Annotated[int, means("its number")]
    issue_number: Annotated[int | None, means("its source issue, or null")]
    title: Annotated[str | None, means("its title, or null if not fetched yet", untrusted=True)]
    author: Annotated[str | None, means("who opened it")]
    branch: Annotated[str | None, means("its branch")]
    url: Annotated[str | None, means("its web address")]
    status: Annotated[str, means("awaiting_feedback, blocked, merged or closed")]
    paused: Annotated[bool, means("whether it is paused")]
    head_sha: Annotated[str | None, means("the head that was last seen")]
    blocked_reason: Annotated[str | None, means("why it is blocked, or null")]
    blocked_at: Annotated[Instant | None, means("start of the block, or null")]
    tracked_by: Annotated[str, means("operator or rule")]
    entered_at: Annotated[Instant, means("start of this status")]
    created_at: Annotated[Instant, means("start of tracking")]
    pull_updated_at: Annotated[Instant | None, means("its last known update")]

    @property
    def reference(self) -> str:
        """The pull request as commands accept it."""
        return f"{self.repo}{'!' if '/-/merge_requests/' in (self.url or '') else '#'}{self.pr_number}"


class PendingPull(TrackedPull, frozen=True, kw_only=True):
    """A tracked pull request with its unprocessed events."""

    pending: Annotated[int, means("unprocessed events")]
    in_flight: Annotated[int, means("how many of them are in progress")]


class BlockedPull(TrackedPull, frozen=True, kw_only=True):
    """A blocked pull request."""

    detail: Annotated[str | None, means("details: the error of the handler, or the two heads")]


class SourceIssue(Struct, frozen=True, kw_only=True):
    """A tracked source issue."""

    repo: Annotated[str, means("the repository")]
    issue_number: Annotated[int, means("its number")]
    pr_number: Annotated[int | None, means("its pull request, or null")]
    consumed_comment_id: Annotated[int, means("the last comment before the pull request that became an event")]
    redirected_comment_id: Annotated[int, means("the last comment that was redirected to the pull request")]
    entered_at: Annotated[Instant, means("start of tracking, or of its pull request")]


class Tracking(Struct, frozen=True):
    """The answer of commands that change what is tracked; `lore feedback untrack` shows it as it was before."""

    pull: Annotated[TrackedPull | None, means("null, or the pull request")] = None
    issue: Annotated[SourceIssue | None, means("null, or the source issue")] = None


class PullList(Struct, frozen=True, kw_only=True):
    """The answer of `lore feedback list`."""

    items: Annotated[list[PendingPull], means("the pull requests")]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null: the list is complete")] = None
    issues: Annotated[list[SourceIssue], means("the source issues")]


class BlockedList(Struct, frozen=True):
    """The answer of `lore feedback blocked list`."""

    items: Annotated[list[BlockedPull], means("the pull requests")]
    total: Annotated[int, means("number of items")]
    next: Annotated[None, means("null: the list is complete")] = None


class StatusChange(Struct, frozen=True):
    """A status change of a pull request."""

    from_status: Annotated[str | None, means("the previous status, or null")]
    to_status: Annotated[str, means("the new status")]
    reason: Annotated[str, means("why: tracked, merged, closed, history_rewritten, handler_failed, unblocked, resumed")]
    detail: Annotated[str | None, means("details, or null")]
    at: Annotated[Instant, means("time of the change")]


class ThreadPosition(Struct, frozen=True):
    """How far one list of a thread was read."""

    surface: Annotated[str, means("a list of the thread, such as pr_issue_comments")]
    last_updated_at: Annotated[Instant | None, means("time up to which it is complete, or null")]
    last_comment_id: Annotated[int | None, means("the comment there, or null")]
    bootstrap_complete: Annotated[bool, means("whether its first read is complete")]
    polled_at: Annotated[Instant | None, means("last read, or null")]


class Reply(Struct, frozen=True, kw_only=True):
    """A reply or comment and its status."""

    id: Annotated[int, means("its number here")]
    repo: Annotated[str, means("the repository")]
    scope_kind: Annotated[str, means("pr, issue or topic")]
    number: Annotated[int, means("the number of the thread")]
    thread: Annotated[str, means("the thread, as commands accept it")]
    reply_to: Annotated[int | None, means("the review comment or GitLab note it replies to, or null")]
    source: Annotated[str, means("reply, comment, resolve, unresolve, operator_command or issue_redirect")]
    token: Annotated[str, means("the token in its hidden marker")]
    body: Annotated[str, means("its text")]
    status: Annotated[str, means("planned, posted, observed or failed")]
    attempts: Annotated[int, means("number of attempts")]
    attempted_at: Annotated[Instant | None, means("last attempt, or null")]
    comment_id: Annotated[int | None, means("the posted comment, or null")]
    last_error: Annotated[str | None, means("why it is not confirmed, or null")]
    next_attempt_at: Annotated[Instant | None, means("earliest retry, or null")]
    created_at: Annotated[Instant, means("when it was stored")]


class Event(Struct, frozen=True, kw_only=True):
    """An event: a version of a comment to be processed."""

    id: Annotated[int, means("its number here")]
    repo: Annotated[str, means("the repository")]
    event_key: Annotated[str, means("the version of the comment: thread, kind, id and update time")]
    thread_number: Annotated[int, means("the thread that orders it")]
    pr_number: Annotated[int | None, means("the pull request, or null")]
    issue_number: Annotated[int | None, means("its source issue, or null")]
    kind: Annotated[str, means("issue_comment, review_comment, review_summary, note (GitLab) or issue_followups")]
    comment_id: Annotated[int, means("the comment; of issue_followups the last one")]
    author: Annotated[str | None, means("who wrote it")]
    body: Annotated[str, means("its text", untrusted=True)]
    path: Annotated[str | None, means("review_comment: the file")]
    line: Annotated[int | None, means("review_comment: the line, or null")]
    side: Annotated[str | None, means("review_comment: LEFT or RIGHT")]
    commit_sha: Annotated[str | None, means("the commit it was written for, or null")]
    in_reply_to: Annotated[int | None, means("review_comment: the first comment of its thread, or null")]
    review_id: Annotated[int | None, means("the review it belongs to, or null")]
    review_state: Annotated[str | None, means("review_summary: APPROVED, CHANGES_REQUESTED, COMMENTED or DISMISSED")]
    url: Annotated[str | None, means("its web address")]
    association: Annotated[str | None, means("the author's relation to the repository, as GitHub reports it, or null")]
    start_line: Annotated[int | None, means("review_comment: the first line, if it is on several, or null")]
    subject_type: Annotated[str | None, means("review_comment: line or file")]
    diff_hunk: Annotated[
        str | None, means("review_comment: the lines of the diff it was written below", untrusted=True)
    ]
    thread_id: Annotated[str | None, means("its thread, as in lore threads, or null if it is not stored any more")]
    pr_title: Annotated[str | None, means("title of its pull request, or null", untrusted=True)]
    pr_branch: Annotated[str | None, means("branch of its pull request, or null")]
    pr_head_sha: Annotated[str | None, means("head of its pull request that was last seen, or null")]
    attempts: Annotated[int, means("number of failed attempts")]
    last_error: Annotated[str | None, means("last error, or null")]
    leased_by: Annotated[str | None, means("last consumer, or null")]
    pr_status: Annotated[
        str | None,
        means("status of its pull request: awaiting_feedback, blocked, merged or closed; null without one"),
    ]
    created_at: Annotated[Instant, means("when it was written")]
    updated_at: Annotated[Instant, means("when this version was written")]
    ingested_at: Annotated[Instant, means("when it was stored")]
    processed_at: Annotated[Instant | None, means("when it was done, or null")]
    next_attempt_at: Annotated[Instant | None, means("earliest retry after a failure, or null")]
    leased_until: Annotated[Instant | None, means("end of its lease, or null")]

    @property
    def thread(self) -> str:
        """The thread it belongs to."""
        return f"{self.repo}{'!' if self.kind == 'note' and self.pr_number else '#'}{self.thread_number}"

    @property
    def is_of_closed(self) -> bool:
        """Whether its pull request is merged or closed."""
        return self.pr_status in tracked.TERMINAL


class OperatorCommand(Struct, frozen=True, kw_only=True):
    """A command that an operator wrote in a comment."""

    command_key: Annotated[str, means("the comment's version: thread, id and update time")]
    repo: Annotated[str, means("the repository")]
    number: Annotated[int, means("the number of the thread it was written in")]
    thread: Annotated[str, means("that thread, as commands accept it")]
    pr_number: Annotated[int | None, means("the pull request it is about, or null")]
    author: Annotated[str | None, means("who gave it")]
    command: Annotated[str, means("its name")]
    args: Annotated[dict[str, str], means("its keys with their values")]
    status: Annotated[str, means("pending, applied, rejected, failed or expired")]
    result: Annotated[str | None, means("the reply, or null")]
    commented_at: Annotated[Instant, means("when it was written")]
    applied_at: Annotated[Instant | None, means("when it was applied, or null")]


class ShownPull(Struct, frozen=True, kw_only=True):
    """The answer of `lore feedback show`."""

    pull: Annotated[PendingPull, means("the pull request")]
    events: Annotated[int, means("number of its events")]
    processed: Annotated[int, means("how many of them are done")]
    history: list[StatusChange]
    cursors: list[ThreadPosition]
    answers: Annotated[list[Reply], means("the latest replies in the thread")]
    commands: list[OperatorCommand]


def list_pulls(app: App, repo: str | None = None, status: str | None = None) -> PullList:
    """Return tracked pull requests, and without a status the source issues."""
    with app.reading() as database:
        name = _stored_name(app, database, repo)
        rows = tracked.list_tracked(database, repo=name, statuses=None if status is None else (status,))
        issues = [] if status else [row for row in followed_issues(database) if name in (None, row.repo_full_name)]
        waiting = _pending_by_thread(database, app)
    items = [pending_pull(row, waiting) for row in rows]
    return PullList(items=items, total=len(items), issues=[_issue(row) for row in issues])


def list_blocked(app: App, repo: str | None = None) -> BlockedList:
    """Return blocked pull requests and why they are blocked."""
    with app.reading() as database:
        rows = tracked.list_tracked(database, repo=_stored_name(app, database, repo), statuses=(BLOCKED,))
        details = {row.id: tracked.history(database, row.id)[-1].detail for row in rows}
    items = [copy_fields(BlockedPull, tracked_pull(row), detail=details[row.id]) for row in rows]
    return BlockedList(items, len(items))


def show_pull(app: App, repo: str | None, pr: str) -> ShownPull:
    """Return the state of a tracked pull request."""
    place, number = repo_and_number(app.config, repo, pr)
    with app.reading() as database:
        project = find_followed(database, place)
        row = tracked.find_tracked(database, project.id, number)
        if row is None:
            raise NotFound(
                f"{project.path}{pull_name(place.settings, number)} is not tracked",
                fix=f"follow it with: lore feedback track --repo {project.path} --pr {number}",
                number=number,
            )
        return _shown(app, database, project, row)


def _shown(app: App, database: Database, project: ProjectRow, row: TrackedPr) -> ShownPull:
    number = row.pr_number
    events = list_events(database, project.id, number)
    settings = feedback_settings(app.config, project.source, project.configured)
    kinds = ("pr", "issue") if settings is None or settings.shares_numbers else ("pr",)
    answers = [
        sent
        for sent in list_outbox(database, project_ids=[project.id])
        if sent.scope_number == number and sent.scope_kind in kinds
    ]
    commands = [
        found
        for found in list_commands(database, project_id=project.id, limit=1000)
        if number in (found.issue_number, found.pr_number)
    ]
    cursors = list_poll_cursors(database, project.id)
    return ShownPull(
        pull=pending_pull(row, _pending_by_thread(database, app)),
        events=len(events),
        processed=sum(event.processed_at is not None for event in events),
        history=[copy_fields(StatusChange, step, at=instant(step.at)) for step in tracked.history(database, row.id)],
        cursors=[_thread_position(cursor) for cursor in cursors if cursor.scope_number == number],
        answers=[reply(sent) for sent in answers[-_LATEST:]],
        commands=[operator_command(found) for found in commands[:_LATEST]],
    )


def _stored_name(app: App, database: Database, repo: str | None) -> str | None:
    """Return the stored name of the chosen repository; None for all."""
    if repo is None:
        return None
    place = choose_repo(app.config, repo)
    project = find_configured(database, place.host.name, place.name)
    return place.name if project is None else project.path


Pending = dict[tuple[int, int], PendingCount]


def _pending_by_thread(database: Database, app: App) -> Pending:
    counts = pending_counts(database, app.clock.now_ms())
    return {(count.project_id, count.thread_number): count for count in counts}


def tracked_pull(row: TrackedPr) -> TrackedPull:
    """Return a tracked pull request as an answer."""
    return copy_fields(TrackedPull, row, repo=row.repo_full_name, head_sha=row.last_seen_head_sha)


def pending_pull(row: TrackedPr, waiting: Pending) -> PendingPull:
    """Return a tracked pull request with its unprocessed events."""
    count = waiting.get((row.project_id, row.pr_number))
    numbers = {"pending": count.pending, "in_flight": count.in_flight} if count else {"pending": 0, "in_flight": 0}
    return copy_fields(PendingPull, tracked_pull(row), **numbers)


def reply(row: OutboxRow) -> Reply:
    """Return a reply as an answer."""
    return copy_fields(Reply, row, repo=row.repo_full_name, number=row.scope_number)


def event(row: EventRow) -> Event:
    """Return an event as an answer."""
    return copy_fields(Event, row, repo=row.repo_full_name, leased_until=instant(row.leased_until))


def operator_command(row: CommandRow) -> OperatorCommand:
    """Return a command of an operator as an answer."""
    return copy_fields(OperatorCommand, row, repo=row.repo_full_name, number=row.issue_number, args=row.args)


def _issue(row: IssueCursor) -> SourceIssue:
    return copy_fields(
        SourceIssue,
        row,
        repo=row.repo_full_name,
        consumed_comment_id=row.pre_pr_last_consumed_comment_id,
        redirected_comment_id=row.post_pr_last_redirected_comment_id,
    )


def _thread_position(cursor: PollCursor) -> ThreadPosition:
    return copy_fields(ThreadPosition, cursor)


def repo_and_number(config: Config, repo: str | None, pr: str) -> tuple[ConfiguredRepo, int]:
    """Return the repository and the number of the pull request."""
    thread = parse_thread(pr, "pr")
    return choose_repo(config, repo, thread), thread.number


def repo_of_either(
    config: Config, repo: str | None, pr: str | None, issue: str | None
) -> tuple[ConfiguredRepo, int | None, int | None]:
    """Return the repository, the pull request and the issue; at least one of the two must be given."""
    pull = None if pr is None else parse_thread(pr, "pr")
    found = None if issue is None else parse_thread(issue, "issue")
    named = pull if pull is not None and (pull.repo or found is None) else found
    if named is None:
        raise UserError("no pull request or issue given", fix="pass --pr or --issue")
    place = choose_repo(config, repo, named)
    for thread in (pull, found):
        if thread is not None and thread.repo is not None and choose_repo(config, None, thread) != place:
            raise UserError(
                f"{thread.repo} and {place.name} are different repositories", fix="name threads of one repository"
            )
    return place, None if pull is None else pull.number, None if found is None else found.number


def _parse_head(head_sha: str | None) -> str | None:
    """Return the commit in lower case, or raise UserError."""
    if head_sha is not None and not _SHA.fullmatch(head_sha):
        raise UserError(f"invalid value for --head-sha: {head_sha!r}", fix="use 7 to 64 hexadecimal digits")
    return None if head_sha is None else head_sha.lower()


def start_tracking(app: App, repo: str | None, pr: str | None, issue: str | None) -> Tracking:
    """Track a pull request, its source issue, or both."""
    place, pull, source_issue = repo_of_either(app.config, repo, pr, issue)
    return _tracking(run_until_signalled(track(app, place, pr=pull, issue=source_issue), "nothing was changed"))


def stop_tracking(app: App, repo: str | None, pr: str | None, issue: str | None) -> Tracking:
    """Stop tracking a pull request or a source issue."""
    if pr is not None and issue is not None:
        raise UserError(
            "--pr and --issue cannot be combined",
            fix="remove --issue: untracking a pull request includes its source issue",
        )
    place, pull, source_issue = repo_of_either(app.config, repo, pr, issue)
    with app.reading() as database:
        return _tracking(untrack(app, database, place, pr=pull, issue=source_issue))


def resume_tracking(app: App, repo: str | None, pr: str, head_sha: str | None) -> Tracking:
    """Resume tracking a closed pull request, from a head if given."""
    place, number = repo_and_number(app.config, repo, pr)
    row = run_until_signalled(resume(app, place, number, _parse_head(head_sha)), "nothing was changed")
    return Tracking(tracked_pull(row))


def unblock_pull(app: App, repo: str | None, pr: str, head_sha: str | None) -> Tracking:
    """Unblock a pull request, from a head if given."""
    place, number = repo_and_number(app.config, repo, pr)
    row = run_until_signalled(unblock(app, place, number, _parse_head(head_sha)), "nothing was changed")
    return Tracking(tracked_pull(row))


def _tracking(done: Followed) -> Tracking:
    return Tracking(
        None if done.pull is None else tracked_pull(done.pull), None if done.issue is None else _issue(done.issue)
    )


class Followed(Struct, frozen=True):
    """The result of tracking: a pull request, its source issue, or both."""

    pull: TrackedPr | None
    issue: IssueCursor | None


async def track(app: App, place: ConfiguredRepo, *, pr: int | None, issue: int | None) -> Followed:
    """Track a pull request, optionally with its source issue; or a source issue without a pull request yet."""
    from tidelore.store.work.followed_issues import find_issue, follow_issue

    async with open_hub(app, [place]) as hub:
        project = await hub.project(place)
        if issue is not None:
            await require_issue(hub.source(place), project.remote_id, issue)
        if pr is not None:
            pull = await (await hub.lifecycle(place, project)).track(pr, issue_number=issue)
            kept = None if pull.issue_number is None else find_issue(hub.database, project.id, pull.issue_number)
            return Followed(pull, kept)
        assert issue is not None
        with hub.database.transaction() as tx:
            return Followed(None, follow_issue(tx, project.id, project.path, issue, now_ms=app.clock.now_ms()))


async def require_issue(source: ProjectSource, remote_id: int, number: int) -> None:
    """Raise RemoteNotFound unless an issue, or a pull request where they share their numbers, exists on the server."""
    page = await source.listing("issues", remote_id).fetch_one(str(number))
    if not page.items and not page.rejected:
        raise RemoteNotFound(f"issue #{number} does not exist", fix="check the number of the issue", number=number)


async def resume(app: App, place: ConfiguredRepo, pr: int, head_sha: str | None) -> TrackedPr:
    """Resume tracking a closed pull request that is open again on the remote."""
    async with open_hub(app, [place], create=False) as hub:
        return await (await hub.lifecycle(place)).resume(pr, head_sha=head_sha)


async def unblock(app: App, place: ConfiguredRepo, pr: int, head_sha: str | None) -> TrackedPr:
    """Unblock a pull request and resume tracking it."""
    async with open_hub(app, [place], create=False) as hub:
        return await (await hub.lifecycle(place)).unblock(pr, head_sha=head_sha)


def untrack(app: App, database: Database, place: ConfiguredRepo, *, pr: int | None, issue: int | None) -> Followed:
    """Stop tracking a pull request or a source issue; sends no requests."""
    from tidelore.store.mirror.cursors import forget_thread
    from tidelore.store.work.followed_issues import find_issue, unfollow_issue

    project = find_followed(database, place)
    if pr is not None:
        row = Lifecycle(database, Unasked(place.host.name), project, place.host, app.clock).untrack(pr)
        return Followed(row, None)
    assert issue is not None
    found = find_issue(database, project.id, issue)
    if found is None:
        raise NotFound(
            f"issue {project.path}#{issue} is not tracked",
            fix="`lore feedback list` shows tracked pull requests and issues",
        )
    with database.transaction() as tx:
        unfollow_issue(tx, project.id, issue)
        forget_thread(tx, project.id, project.remote_id, issue)
    return Followed(None, found)


class Unasked:
    """A host without a connection, because untracking needs only its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def pull(self, remote_id: int, number: int) -> PullRecord:
        raise AssertionError(f"{self.name} was asked for {remote_id}#{number}")
