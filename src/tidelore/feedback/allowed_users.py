"""Whose comments become events. Owns the meaning of `allowed_users`: logins, `*` and associations.

Pure. Bots are heard only where their login is listed. `*` stands for everybody else, also for accounts that were
deleted since. An association is how GitHub says an author stands to the repository; `@author` is the author of the
pull request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tidelore.core.config import ALLOWED_USERS
from tidelore.core.model import CommentRecord
from tidelore.feedback.commands import is_bot
from tidelore.feedback.context import Context

Reason = Literal["not_allowed", "bot", "deleted_account"]


def why_ignored(record: CommentRecord, context: Context) -> Reason | None:
    """Return why nobody is to act on a comment, by who wrote it; None when somebody is."""
    allowed = {name.casefold() for name in context.settings.allowed_users or ALLOWED_USERS}
    author = record.author
    if author is None:
        return None if "*" in allowed else "deleted_account"
    if author.casefold() in allowed:
        return None
    if is_bot(author, record.is_bot):
        return "bot"
    if "*" in allowed or not allowed.isdisjoint(_associations(record, author, context)):
        return None
    return "not_allowed"


def describe_ignored(reason: str, comments: int, accounts: int) -> str:
    """Return how many comments were left out and why, as a line for people."""
    noun = "comment" if comments == 1 else "comments"
    if reason == "deleted_account":
        return f"{comments:,} {noun} of deleted accounts ignored: not in allowed_users"
    one, many = ("bot", "bots") if reason == "bot" else ("person", "people")
    return f"{comments:,} {noun} by {accounts:,} {one if accounts == 1 else many} ignored: not in allowed_users"


def _associations(record: CommentRecord, author: str, context: Context) -> Iterable[str]:
    """Return how an author stands to the repository and the pull request, as `allowed_users` names it."""
    if record.association is not None:
        yield f"@{record.association.casefold()}"
    # Not every server says how authors stand.
    if author.casefold() == context.owner.casefold():
        yield "@owner"
    pull = context.pulls.get(record.number)
    if pull is not None and pull.author is not None and pull.author.casefold() == author.casefold():
        yield "@author"
