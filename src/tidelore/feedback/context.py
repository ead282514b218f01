"""A snapshot of one repository: its settings, tracked pull requests and source issues.

A poll takes one snapshot and makes all its decisions from it; later changes are seen by the next poll. Merged and
closed pull requests are not part of it, so they cost nothing (invariant 9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from tidelore.core.config import RepoSettings
from tidelore.core.model import CommentRecord
from tidelore.feedback.tokens import ScopeKind
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.work.action_tokens import find_secret
from tidelore.store.work.followed_issues import IssueCursor, followed_issues
from tidelore.store.work.project_members import access_levels
from tidelore.store.work.tracked_pull_requests import (
    AWAITING,
    BLOCKED,
    CLOSED,
    TERMINAL,
    TrackedPr,
    history,
    list_tracked,
)

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
    were written after it was opened. `followed_at` is when the issue was first followed, `entered_at` also when it got
    its pull request.
    """

    number: int
    pr_number: int | None
    consumed_id: int
    redirected_id: int
    followed_at: int
    entered_at: int


class Context(Struct, frozen=True):
    """One repository at the start of a poll. `own_login` is our account on the server, if known; `secret` signs
    answers, and is empty if none are planned. `members` are access levels by username in lower case, where the forge
    does not send the association of authors.

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
    members: Mapping[str, int] = MappingProxyType({})

    @property
    def owner(self) -> str:
        """The account or organisation the repository belongs to."""
        return self.repo.partition("/")[0]

    @property
    def overlap_ms(self) -> int:
        """The tolerance, in milliseconds, when comparing times with the server's."""
        return round(self.settings.comment_fetch_overlap_seconds * 1000)

    def role(self, number: int, on: str | None = None) -> Role:
        """Return the role of a thread; a merged or closed pull request has none.

        `on` is issue or mr where these have separate numbers.
        """
        pull, operations = self.pulls.get(number) if on != "issue" else None, self.settings.operations_issue
        if pull is not None and (pull.ending or pull.status not in TERMINAL):
            return "blocked" if pull.status == "blocked" and not pull.ending else "awaiting"
        if on == "mr":
            return "none"
        if pull is None and number in self.issues:
            return "source_issue"
        return "operations" if operations and number == operations else "none"

    def pull_of(self, record: CommentRecord) -> FollowedPull | None:
        """Return the pull request of a comment's thread: itself, or the one opened for a source issue."""
        issue = self.issues.get(record.number) if record.on != "mr" else None
        if issue is not None and issue.pr_number is not None:
            return self.pulls.get(issue.pr_number)
        return self.pulls.get(record.number) if record.on != "issue" else None

    def followed_from(self, number: int, on: str | None = None) -> int:
        """Return the time before which comments in a thread are ignored, minus the overlap."""
        pull = self.pulls.get(number) if on != "issue" else None
        if pull is not None:
            return self.on_server(pull.followed_from) - self.overlap_ms
        issue = self.issues.get(number) if on != "mr" else None
        if issue is not None:
            return self.on_server(issue.followed_at) - self.overlap_ms
        return self.operations_from - self.overlap_ms

    def on_server(self, instant_ms: int) -> int:
        """Convert a time of our clock to the server's clock."""
        return instant_ms + self.clock_offset()

    def scope_kind(self, record: CommentRecord) -> ScopeKind:
        """Return the scope kind of answers in the thread of a comment."""
        return "pr" if record.number in self.pulls and record.on != "issue" else "issue"


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
    """Take a snapshot of one repository. `operations_from` is when its operations issue was first followed.

    Pull requests in `ending` are included whatever their status, so that their comments are interpreted once more.
    """
    pulls = list_tracked(database, project_id=project.id, statuses=(AWAITING, BLOCKED))
    if ending:
        ended = list_tracked(database, project_id=project.id, statuses=TERMINAL)
        pulls += [pull for pull in ended if pull.pr_number in ending]
    issues = followed_issues(database, project.id)
    return Context(
        project.source,
        project.path,
        project.remote_id,
        settings,
        {pull.pr_number: _pull(database, pull, ending=pull.pr_number in ending) for pull in pulls},
        {issue.issue_number: _issue(issue) for issue in issues},
        own_login,
        operations_from,
        clock_offset,
        find_secret(database) or b"",
        access_levels(database, project.id),
    )


def pull_name(settings: RepoSettings, number: int) -> str:
    """Return a pull request as its forge writes it: `!12` where merge requests have numbers of their own."""
    return f"{'#' if settings.shares_numbers else '!'}{number}"


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


def _issue(row: IssueCursor) -> FollowedIssue:
    return FollowedIssue(
        row.issue_number,
        row.pr_number,
        row.pre_pr_last_consumed_comment_id,
        row.post_pr_last_redirected_comment_id,
        row.followed_at,
        row.entered_at,
    )
