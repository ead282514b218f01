"""What one version of a comment means to us. Owns the shapes that pass from the decision to the transaction.

`feedback` decides them, the store writes them in the cursor's own transaction (invariant 8): an intent is durable,
with its body, before anybody acts on it. Refuses behaviour: these are facts.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tidelore.core.model import CommentRecord


class NewEvent(Struct, frozen=True):
    """A comment that somebody should act on. `event_key` names this version of it, for ever."""

    event_key: str
    pr_number: int | None
    issue_number: int | None
    record: CommentRecord


class TokenSeen(Struct, frozen=True):
    """One of our own markers stands in a remote comment: the write it belongs to has arrived."""

    token: str
    comment_id: int
    updated_at: int


class NewCommand(Struct, frozen=True):
    """A command of an operator, or of somebody who is none: `status` is pending, rejected or expired.

    `number` is the thread in which it was written.
    """

    command_key: str
    number: int
    pr_number: int | None
    record: CommentRecord
    command: str
    args: Mapping[str, str]
    status: str = "pending"
    result: str | None = None


class NewFollowup(Struct, frozen=True):
    """A comment on a source issue that has no pull request yet: it waits to be batched with its neighbours."""

    issue_number: int
    record: CommentRecord


class NewRedirect(Struct, frozen=True):
    """A comment on a source issue whose pull request exists: it is answered once with where to go.

    `scope_number` is the thread in which the answer is posted.
    """

    issue_number: int
    comment_id: int
    token: str
    body: str
    scope_number: int


class PlannedReply(Struct, frozen=True):
    """An answer to be posted. `scope_kind` is pr or issue, `reply_to` the review comment it answers in its thread."""

    scope_kind: str
    scope_number: int
    reply_to: int | None
    token: str
    body: str
    source: str


class IgnoredComment(Struct, frozen=True):
    """A comment on which nobody is to act, because of who wrote it: kept whole, for when that changes."""

    record: CommentRecord
    reason: str


Effect = NewEvent | TokenSeen | IgnoredComment | NewCommand | NewFollowup | NewRedirect | PlannedReply
