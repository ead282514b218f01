"""Source issues. Owns where a comment on one goes: with the others to whoever makes the pull request, or to the pull
request that exists.

Pure. The two id marks gate it: what is at or below them was handed on before, an edit of it too. Each redirect is
tokenised over its comment, so that the same comment seen again plans nothing new (invariant 6).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelore.core.content import digest
from tidelore.core.model import CommentRecord
from tidelore.feedback.context import Context, FollowedIssue
from tidelore.feedback.tokens import Intent, action_token, with_marker
from tidelore.store.mirror.feedback_writer import REDIRECT_SOURCE
from tidelore.store.work.events import FOLLOWUPS, Effect, NewEvent, NewFollowup, NewRedirect
from tidelore.store.work.followed_issues import FollowupRow, IssueCursor
from tidelore.store.work.tracked_pull_requests import TERMINAL

_LONGEST_BATCH = 1_000_000
"""Characters of one batched body: as much as a handler can be expected to read in one go."""


def route_comment(record: CommentRecord, issue: FollowedIssue, context: Context) -> Sequence[Effect]:
    """Return what a qualifying comment on a source issue leads to."""
    if record.updated_at < context.followed_from(issue.number):
        return ()
    pull = context.pulls.get(issue.pr_number) if issue.pr_number is not None else None
    if issue.pr_number is None or record.updated_at // 1000 < context.on_server(issue.entered_at) // 1000:
        return (NewFollowup(issue.number, record),) if record.remote_id > issue.consumed_id else ()
    if pull is None or pull.status in TERMINAL or record.remote_id <= issue.redirected_id:
        return ()
    return (_redirect(record, issue.number, issue.pr_number, context),)


def batch_event(issue: IssueCursor, waiting: Sequence[FollowupRow]) -> NewEvent:
    """Return the one event that carries waiting comments, oldest first, named after what is in it."""
    ordered = sorted(waiting, key=lambda each: each.comment_id)
    last = ordered[-1]
    versions = ",".join(f"{each.comment_id}:{each.updated_at}:{each.body}" for each in ordered)
    record = CommentRecord(
        remote_id=last.comment_id,
        kind=FOLLOWUPS,
        number=issue.issue_number,
        author=last.author,
        is_bot=False,
        body=_batched(ordered),
        path=None,
        line=None,
        side=None,
        commit_sha=None,
        in_reply_to=None,
        review_id=None,
        review_state=None,
        url=None,
        created_at=ordered[0].created_at,
        updated_at=max(each.updated_at for each in ordered),
    )
    key = f"{issue.issue_number}:{FOLLOWUPS}:{last.comment_id}:{digest(versions.encode()).hex()[:16]}"
    return NewEvent(key, issue.pr_number, issue.issue_number, record)


def _redirect(record: CommentRecord, issue_number: int, pr_number: int, context: Context) -> NewRedirect:
    intent = Intent(
        context.host,
        context.repo_id,
        "issue",
        issue_number,
        None,
        REDIRECT_SOURCE,
        f"{issue_number}:{record.remote_id}",
    )
    token = action_token(intent, context.secret)
    who = f"@{record.author} " if record.author else ""
    said = (
        f"{who}the work on this issue continues in #{pr_number}. Please comment there: comments here are not processed."
    )
    return NewRedirect(issue_number, record.remote_id, token, with_marker(said, token), issue_number)


def _batched(ordered: Sequence[FollowupRow]) -> str:
    """Return the bodies under one another; a single one stays as it is."""
    if len(ordered) == 1:
        return ordered[0].body
    parts = [f"@{each.author or 'ghost'}:\n\n{each.body}" for each in ordered]
    return "\n\n---\n\n".join(parts)[:_LONGEST_BATCH]
