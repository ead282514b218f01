"""What is read of a repository. Owns which lists of which threads are watched, and from when.

Pure. A pull request that awaits feedback is read from its beginning; a thread that is read for commands only, or
for what follows an event of ours, from the instant it was first followed: nothing said before was said to us.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from tidelore.feedback.mode import Following
from tidelore.sources.github.transform import ISSUE_COMMENT, REVIEW_COMMENT
from tidelore.store.work.followed_issues import IssueCursor
from tidelore.store.work.tracked_pull_requests import BLOCKED, TERMINAL, TrackedPr


class Watch(Struct, frozen=True):
    """One list of one thread. `from_at` is where its first reading begins; None is the thread's own beginning."""

    surface: str
    kind: str
    number: int
    from_at: int | None = None


def watches(
    pulls: Iterable[TrackedPr],
    issues: Iterable[IssueCursor],
    operations_issue: int,
    now_ms: int,
    ending: Collection[int] = (),
) -> list[Watch]:
    """Return everything that is watched, each list once. One that is ending is read whole, also if it was blocked."""
    found: list[Watch] = []
    open_pulls = {pull.pr_number: pull for pull in pulls if pull.status not in TERMINAL}
    for pull in open_pulls.values():
        if pull.status == BLOCKED and pull.pr_number not in ending:
            # A command from before the block that nobody has read yet is met, and told that it came too early.
            found.append(Watch("issue_operator_commands", ISSUE_COMMENT, pull.pr_number, pull.created_at))
            found.append(Watch("pr_review_operator_commands", REVIEW_COMMENT, pull.pr_number, pull.created_at))
        else:
            found.append(Watch("pr_issue_comments", ISSUE_COMMENT, pull.pr_number))
            found.append(Watch("pr_review_comments", REVIEW_COMMENT, pull.pr_number))
    for issue in issues:
        if issue.issue_number in open_pulls:
            continue
        if issue.pr_number is None:
            found.append(Watch("issue_pre_pr_followups", ISSUE_COMMENT, issue.issue_number, issue.entered_at))
        elif issue.pr_number in open_pulls:
            found.append(Watch("issue_post_pr_redirects", ISSUE_COMMENT, issue.issue_number, issue.entered_at))
    if operations_issue and operations_issue not in {watch.number for watch in found}:
        found.append(Watch("issue_operator_commands", ISSUE_COMMENT, operations_issue, now_ms))
    return found


def following(pulls: Iterable[TrackedPr], watched: Iterable[Watch]) -> Following:
    """Return how much is followed."""
    statuses = [pull.status for pull in pulls if pull.status not in TERMINAL]
    blocked = statuses.count(BLOCKED)
    pull_numbers = {pull.pr_number for pull in pulls}
    return Following(len(statuses) - blocked, blocked, sum(watch.number not in pull_numbers for watch in watched))
