"""Decide the effects of a comment version: an event, a command, an observed answer, a redirect, or nothing.

`interpret` makes the decision from a `Context`; the store writes its effects in the transaction that moves the cursor.
A version is new by its body (invariant 3): a changed `updated_at` alone is not an edit, and two edits within one
second are two events. A version older than the stored one has no effect.

Also decides whose comments count (`allowed_users`) and how comments on source issues are batched or redirected to
their pull request. `reconsider` applies a changed list of allowed users to stored comments without any request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from tidelore.core.clock import format_instant
from tidelore.core.config import ALLOWED_USERS
from tidelore.core.content import digest
from tidelore.core.model import ISSUE_COMMENT, NOTE, CommentRecord, Version
from tidelore.feedback.commands import Command, authorise, help_text, is_bot, is_command, is_expired, parse_command
from tidelore.feedback.context import Context, FollowedIssue, pull_name
from tidelore.feedback.tokens import Intent, ScopeKind, action_token, find_markers, is_same_login, with_marker
from tidelore.store.work.action_tokens import ActionToken
from tidelore.store.work.effects import REDIRECT_SOURCE, body_digest
from tidelore.store.work.events import (
    FOLLOWUPS,
    Effect,
    EventRow,
    IgnoredComment,
    NewCommand,
    NewEvent,
    NewFollowup,
    NewRedirect,
    PlannedReply,
    TokenSeen,
)
from tidelore.store.work.followed_issues import FollowupRow, IssueCursor
from tidelore.store.work.project_members import OWNER_LEVEL, WRITER_LEVEL
from tidelore.store.work.tracked_pull_requests import TERMINAL

IgnoreReason = Literal["not_allowed", "bot", "deleted_account"]


def why_ignored(record: CommentRecord, context: Context) -> IgnoreReason | None:
    """Return why a comment is ignored because of its author; None if it is not."""
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
    """Return a message that says how many comments were ignored and why."""
    noun = "comment" if comments == 1 else "comments"
    if reason == "deleted_account":
        return f"{comments:,} {noun} of deleted accounts ignored: not in allowed_users"
    one, many = ("bot", "bots") if reason == "bot" else ("person", "people")
    return f"{comments:,} {noun} by {accounts:,} {one if accounts == 1 else many} ignored: not in allowed_users"


def _associations(record: CommentRecord, author: str, context: Context) -> Iterable[str]:
    """Yield the author's associations with the repository and the pull request, as written in `allowed_users`."""
    if record.association is not None:
        yield f"@{record.association.casefold()}"
    # Not every server reports the association of authors.
    level = context.members.get(author.casefold(), 0)
    if author.casefold() == context.owner.casefold() or level >= OWNER_LEVEL:
        yield "@owner"
    if level >= WRITER_LEVEL:
        yield from ("@member", "@collaborator")
    pull = context.pulls.get(record.number) if record.on != "issue" else None
    if pull is not None and pull.author is not None and pull.author.casefold() == author.casefold():
        yield "@author"


_LONGEST_BATCH = 1_000_000
"""The most characters in a batched body: as much as a handler can be expected to read at once."""


def route_comment(record: CommentRecord, issue: FollowedIssue, context: Context) -> Sequence[Effect]:
    """Return the effects of a qualifying comment on a source issue."""
    if record.updated_at < context.followed_from(issue.number, record.on):
        return ()
    pull = context.pulls.get(issue.pr_number) if issue.pr_number is not None else None
    if issue.pr_number is None or record.updated_at // 1000 < context.on_server(issue.entered_at) // 1000:
        return (NewFollowup(issue.number, record),) if record.remote_id > issue.consumed_id else ()
    if pull is None or pull.status in TERMINAL or record.remote_id <= issue.redirected_id:
        return ()
    return (_redirect(record, issue.number, issue.pr_number, context),)


def batch_event(issue: IssueCursor, waiting: Sequence[FollowupRow]) -> NewEvent:
    """Return one event with all waiting comments, oldest first; its key depends on their versions."""
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
    name = pull_name(context.settings, pr_number)
    said = f"{who}the work on this issue continues in {name}. Please comment there: comments here are not processed."
    body = with_marker(said, token)
    return NewRedirect(issue_number, record.remote_id, token, body, issue_number, answer_below(record))


def _batched(ordered: Sequence[FollowupRow]) -> str:
    """Join the bodies, each under its author; a single body is returned unchanged."""
    if len(ordered) == 1:
        return ordered[0].body
    parts = [f"@{each.author or 'ghost'}:\n\n{each.body}" for each in ordered]
    return "\n\n---\n\n".join(parts)[:_LONGEST_BATCH]


COMMAND_SOURCE = "operator_command"
_LONGEST_COMMAND = 200


def remote_instant(record: CommentRecord) -> str:
    """Return the update time of a comment as its forge writes it: GitHub in whole seconds, GitLab in milliseconds.

    A note of GitLab that was read by GraphQL has none; its key keeps the instant it was first judged with.
    """
    written = format_instant(record.updated_at)
    return written if record.kind == NOTE else f"{written[:19]}Z"


def event_key(record: CommentRecord, stored: Version | None = None) -> str:
    """Return the key of a comment version; a second version within one second gets a digest of its body appended."""
    return _version_name(f"{record.number}:{record.kind}:{record.remote_id}", record, stored)


def command_key(record: CommentRecord, stored: Version | None = None) -> str:
    """Return the key of a command version.

    Issue comments and review comments are numbered separately, so keys of review comments contain their kind. A second
    version within one second gets a digest of its body appended.
    """
    kind = "" if record.kind == ISSUE_COMMENT else f"{record.kind}:"
    return _version_name(f"{record.number}:{kind}{record.remote_id}", record, stored)


def rejection_key(author: str) -> str:
    """Return the key of the reply to unauthorised commands: the same for all commands of an author in a thread."""
    return f"unauthorised:{author.casefold()}"


def command_token(host: str, repo_id: int, scope_kind: str, number: int, key: str, secret: bytes) -> str:
    """Return the token of the answer to a command."""
    kind: ScopeKind = "pr" if scope_kind == "pr" else "issue"
    return action_token(Intent(host, repo_id, kind, number, None, COMMAND_SOURCE, key), secret)


def answer_below(record: CommentRecord) -> int | None:
    """Return the comment that an answer replies to in its thread: an internal one is not answered in public."""
    return record.remote_id if record.internal else None


def own_tokens(record: CommentRecord, context: Context, signed: Mapping[str, ActionToken]) -> list[str]:
    """Return the tokens that identify a comment as our answer; `signed` has those of its markers that we signed.

    A marker in another account's comment is plain text, even if it is a copy of one of ours.
    """
    return [
        token for token in find_markers(record.body) if token in signed and _is_ours(record, signed[token], context)
    ]


def _is_ours(record: CommentRecord, token: ActionToken, context: Context) -> bool:
    if token.scope_number != record.number or record.on not in (None, "mr" if token.scope_kind == "pr" else "issue"):
        return False
    if token.observed_comment_id is not None:
        return token.observed_comment_id == record.remote_id
    # If the server does not return our login, the signature alone is enough: only we can compute it.
    return context.own_login is None or is_same_login(record.author, context.own_login)


def qualifies(record: CommentRecord, context: Context) -> bool:
    """Return whether a comment that is not our answer should become an event, by its author and its content."""
    return has_words(record, context) and why_ignored(record, context) is None


def has_words(record: CommentRecord, context: Context) -> bool:
    """Return whether a comment has content to act on, whatever its author: no command, empty or pending review."""
    if is_command(record.body, context.settings.command_prefix):
        return False
    # A review that only groups its comments has no text; a pending review is visible only to its author.
    wrapper = record.review_state == "COMMENTED" and not record.body.strip()
    return not (record.kind == "review_summary" and (wrapper or record.review_state == "PENDING"))


def interpret(
    record: CommentRecord,
    stored: Version | None,
    context: Context,
    signed: Mapping[str, ActionToken] = MappingProxyType({}),
) -> Sequence[Effect] | None:
    """Return the effects of a comment version; `stored` is the version that was judged before, with the digest of its
    body, and `signed` has those of its markers that we signed.

    None means that it is not judged. That includes comments on a blocked pull request that are not commands: they are
    judged after it is unblocked.
    """
    role = context.role(record.number, record.on)
    if role == "none":
        return None
    ours = own_tokens(record, context, signed)
    if ours:
        return [TokenSeen(token, record.remote_id, record.updated_at) for token in ours]
    if stored is not None and (stored.digest == body_digest(record.body) or _is_older(record, stored)):
        return ()
    command = parse_command(record.body, context.settings.command_prefix)
    if command is not None:
        return _command(record, command, stored, context)
    if role == "blocked":
        return None
    if role == "operations" or not has_words(record, context):
        return ()
    ignored = why_ignored(record, context)
    if ignored is not None:
        return (IgnoredComment(record, ignored),)
    if role == "source_issue":
        return route_comment(record, context.issues[record.number], context)
    return [NewEvent(event_key(record, stored), record.number, context.pulls[record.number].issue_number, record)]


def _is_older(record: CommentRecord, stored: Version) -> bool:
    """Return whether a version was written before the one judged; not every way to read it shows milliseconds."""
    return record.updated_at // 1000 < stored.updated_at // 1000


def _command(record: CommentRecord, command: Command, stored: Version | None, context: Context) -> Sequence[Effect]:
    permission = authorise(record.author, record.is_bot, context.settings.operator_logins)
    if (
        permission == "ignored"
        or record.author is None
        or record.updated_at < context.followed_from(record.number, record.on)
    ):
        return ()
    pull = context.pull_of(record)
    prefix = context.settings.command_prefix
    blocked_at = None
    if pull is not None and pull.status == "blocked" and pull.blocked_at is not None:
        blocked_at = context.on_server(pull.blocked_at)
    key = command_key(record, stored)
    answer_key: str | None = key
    status, result = "pending", None
    if permission == "refused":
        status, result = "rejected", "Rejected: you are not an operator of this repository."
        # Anyone can write commands: one reply per thread and author, and none to an edit.
        answer_key = rejection_key(record.author) if stored is None else None
    elif command.problem is not None:
        status, result = "rejected", f"Rejected: {command.problem}.\n\n{help_text(prefix)}"
    elif is_expired(record.updated_at, blocked_at):
        status = "expired"
        result = "Expired: this was written before the pull request became blocked, and was not run. Write it again."
    name, number = command.name[:_LONGEST_COMMAND], pull.number if pull is not None else None
    new = NewCommand(key, record.number, number, record, name, command.args, status, result)
    if result is None or answer_key is None:
        return (new,)
    return new, _answer(record, answer_key, result, context)


def taken_version(record: CommentRecord, events: Sequence[EventRow]) -> Version | None:
    """Return the version that already uses the plain event key of this one, if any: two edits within one second."""
    same = [
        event
        for event in events
        if (event.kind, event.comment_id, event.updated_at) == (record.kind, record.remote_id, record.updated_at)
    ]
    return Version(record.remote_id, record.updated_at, body_digest(same[-1].body)) if same else None


def _version_name(name: str, record: CommentRecord, stored: Version | None) -> str:
    named = f"{name}:{remote_instant(record)}"
    if stored is not None and stored.updated_at == record.updated_at:
        return f"{named}#{body_digest(record.body).hex()[:8]}"
    return named


def _answer(record: CommentRecord, key: str, result: str, context: Context) -> PlannedReply:
    kind = context.scope_kind(record)
    token = command_token(context.host, context.repo_id, kind, record.number, key, context.secret)
    return PlannedReply(kind, record.number, answer_below(record), token, with_marker(result, token), COMMAND_SOURCE)
