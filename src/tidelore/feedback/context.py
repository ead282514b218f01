"""A snapshot of one repository: its settings, tracked pull requests and source issues.

A poll takes one snapshot and makes all its decisions from it; later changes are seen by the next poll. Merged and
closed pull requests are not part of it, so they cost nothing (invariant 9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from msgspec import Struct

from tidelore.core.config import RepoSettings
from tidelore.feedback.tokens import ScopeKind
from tidelore.store.database.port import Database
from tidelore.store.mirror.cursors import get_poll_cursor
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.action_tokens import find_secret
from tidelore.store.work.followed_issues import IssueCursor, followed_issues
from tidelore.store.work.tracked_pull_requests import CLOSED, TERMINAL, TrackedPr, history, list_tracked

_SAME_CLOCK_MS = 2000
"""How far behind ours a correct server clock may appear: it has whole seconds, and responses take time."""

Role = Literal["awaiting", "blocked", "source_issue", "operations", "none"]


class FollowedPull(Struct, frozen=True):
    """A tracked pull request. `entered_at` is when its status last changed; comments before `followed_from` are
    not commands. If it is `ending`, it was seen as merged or closed and is read for the last time.
    """

    number: int
    status: str
    issue_number: int | None
    blocked_at: int | None
    entered_at: int
    followed_from: int
    ending: bool = False
    author: str | None = None


class FollowedIssue(Struct, frozen=True):
    """A source issue. Comments with ids above `consumed_id` wait for its pull request; those above `redirected_id`
    were written after it was opened. `entered_at` is when the issue was first followed, or got its pull request.
    `read_to`, on the server's clock, is up to when it was read before it got its pull request.
    """

    number: int
    pr_number: int | None
    consumed_id: int
    redirected_id: int
    entered_at: int
    read_to: int | None = None


class Context(Struct, frozen=True):
    """One repository at the start of a poll. `own_login` is our account on the server, if known; `secret` signs
    answers, and is empty if none are planned.

    Stored times of pull requests and issues are from our clock, those of comments from the server's. They are compared
    on the server's clock, which was `clock_offset` milliseconds ahead of ours in its last response.
    """

    host: str
    repo: str
    repo_id: int
    settings: RepoSettings
    pulls: Mapping[int, FollowedPull]
    issues: Mapping[int, FollowedIssue]
    own_login: str | None = None
    operations_from: int = 0
    clock_offset: Callable[[], int] = int
    secret: bytes = b""

    @property
    def owner(self) -> str:
        """The account or organisation the repository belongs to."""
        return self.repo.partition("/")[0]

    @property
    def overlap_ms(self) -> int:
        """The tolerance, in milliseconds, when comparing times with the server's."""
        return round(self.settings.comment_fetch_overlap_seconds * 1000)

    def role(self, number: int) -> Role:
        """Return the role of a thread; a merged or closed pull request has none."""
        pull, operations = self.pulls.get(number), self.settings.operations_issue
        if pull is not None and (pull.ending or pull.status not in TERMINAL):
            return "blocked" if pull.status == "blocked" and not pull.ending else "awaiting"
        if pull is None and number in self.issues:
            return "source_issue"
        return "operations" if operations and number == operations else "none"

    def pull_of(self, number: int) -> FollowedPull | None:
        """Return the pull request of a thread: itself, or the one opened for a source issue."""
        issue = self.issues.get(number)
        return self.pulls.get(number if issue is None or issue.pr_number is None else issue.pr_number)

    def followed_from(self, number: int) -> int:
        """Return the time before which comments in a thread are ignored, minus the overlap."""
        followed = self.pulls.get(number) or self.issues.get(number)
        if followed is None:
            return self.operations_from - self.overlap_ms
        if isinstance(followed, FollowedPull):
            return self.on_server(followed.followed_from) - self.overlap_ms
        entered_at = self.on_server(followed.entered_at)
        return min(entered_at, entered_at if followed.read_to is None else followed.read_to) - self.overlap_ms

    def on_server(self, instant_ms: int) -> int:
        """Convert a time of our clock to the server's clock."""
        return instant_ms + self.clock_offset()

    def scope_kind(self, number: int) -> ScopeKind:
        """Return the scope kind of answers in a thread."""
        return "pr" if number in self.pulls else "issue"


def read_context(
    database: Database,
    project: ProjectRow,
    settings: RepoSettings,
    *,
    own_login: str | None = None,
    operations_from: int = 0,
    ending: Collection[int] = (),
    clock_offset: Callable[[], int] = int,
) -> Context:
    """Take a snapshot of one repository. `operations_from` is when reading of its operations issue began.

    Pull requests in `ending` are included whatever their status, so that their comments are interpreted once more.
    """
    tracked = list_tracked(database, project_id=project.id)
    pulls = [pull for pull in tracked if pull.status not in TERMINAL or pull.pr_number in ending]
    issues = followed_issues(database, project.id)
    return Context(
        project.source,
        project.path,
        project.remote_id,
        settings,
        {pull.pr_number: _pull(database, pull, ending=pull.pr_number in ending) for pull in pulls},
        {issue.issue_number: _issue(database, project, issue) for issue in issues},
        own_login,
        operations_from,
        clock_offset,
        find_secret(database) or b"",
    )


def clock_offset_ms(skew_ms: int | None) -> int:
    """Return how far the server's clock is ahead of ours, as measured in its last response; 0 if they agree."""
    return 0 if skew_ms is None or -_SAME_CLOCK_MS <= skew_ms <= 0 else skew_ms


def _pull(database: Database, row: TrackedPr, *, ending: bool) -> FollowedPull:
    followed_from = row.created_at
    if row.entered_at != row.created_at:
        # Comments written while it was closed are ignored.
        resumed = [step.at for step in history(database, row.id) if step.from_status == CLOSED]
        followed_from = max([row.created_at, *resumed])
    return FollowedPull(
        row.pr_number, row.status, row.issue_number, row.blocked_at, row.entered_at, followed_from, ending, row.author
    )


def _issue(database: Database, project: ProjectRow, row: IssueCursor) -> FollowedIssue:
    read_to = None
    if row.pr_number is not None:
        # Followed before it had a pull request: comments from then that were not read yet must still be delivered.
        earlier = get_poll_cursor(
            database, "issue_pre_pr_followups", row.issue_number, project.path, source=project.source
        )
        if earlier is not None:
            read_to = earlier.last_updated_at or 0
    return FollowedIssue(
        row.issue_number,
        row.pr_number,
        row.pre_pr_last_consumed_comment_id,
        row.post_pr_last_redirected_comment_id,
        row.entered_at,
        read_to,
    )
