"""Comments and a repository to judge them by, made short."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tidelore.core.config import GitHubHost, RepoSettings, repo_settings
from tidelore.core.model import CommentRecord, PullRecord, Version
from tidelore.feedback.context import Context, FollowedIssue, FollowedPull
from tidelore.store.work.action_tokens import ActionToken
from tidelore.store.work.effects import body_digest

REPO = "harbor/cranes"
REPO_ID = 2_200_000_003
SECRET = b"the secret of a copy in the tests"
START = 1_772_442_000_000
"""2026-03-02T09:00:00Z"""


def comment(body: str = "Please rename this.", **changes: Any) -> CommentRecord:
    """A comment of the repository's owner on pull request 12."""
    record = CommentRecord(
        remote_id=501,
        kind="issue_comment",
        number=12,
        author="harbor",
        is_bot=False,
        body=body,
        path=None,
        line=None,
        side=None,
        commit_sha=None,
        in_reply_to=None,
        review_id=None,
        review_state=None,
        url=None,
        created_at=START,
        updated_at=START,
    )
    return replace(record, **changes)


def held(record: CommentRecord) -> Version:
    """The version of a comment as it was judged."""
    return Version(record.remote_id, record.updated_at, body_digest(record.body))


def settings(**keys: Any) -> RepoSettings:
    return replace(repo_settings(GitHubHost(operator_logins=("Operator",)), REPO), **keys)


def pull(number: int = 12, status: str = "awaiting_feedback", **changes: Any) -> FollowedPull:
    began = START - 3_600_000
    return replace(FollowedPull(number, status, None, None, began, began), **changes)


def issue(number: int = 7, **changes: Any) -> FollowedIssue:
    return replace(FollowedIssue(number, None, 0, 0, START - 7_200_000, START - 7_200_000), **changes)


def context(*followed: FollowedPull | FollowedIssue, **keys: Any) -> Context:
    """A repository in which these threads are followed; pull request 12 if none is named."""
    followed = followed or (pull(),)
    own = {name: keys.pop(name) for name in ("own_login", "operations_from") if name in keys}
    return Context(
        "github",
        REPO,
        REPO_ID,
        settings(**keys),
        {each.number: each for each in followed if isinstance(each, FollowedPull)},
        {each.number: each for each in followed if isinstance(each, FollowedIssue)},
        secret=SECRET,
        **own,
    )


def signed(token: str, **changes: Any) -> dict[str, ActionToken]:
    """A token that we signed for pull request 12, by itself."""
    row = ActionToken(REPO, token, 1, "pr", 12, "reply", "planned", 0, None, None, START, START)
    return {token: replace(row, **changes)}


def remote_pull(**changes: Any) -> PullRecord:
    """An open pull request as the remote shows it."""
    record = PullRecord(
        number=12,
        title="Rename the crane",
        state="open",
        author="Robin",
        head_sha="a" * 40,
        branch="rename",
        labels=("Agent",),
        url=None,
        created_at=START,
        updated_at=START,
    )
    return replace(record, **changes)
