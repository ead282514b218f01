"""Events. Owns what one version of a comment means: an event, a command, an answer of ours that arrived, or nothing.

Pure: `interpret` is all of it, and the store writes what it returns in the cursor's transaction. A version is new by
its body (invariant 3): a touch moves `updated_at` and is no edit, and two edits within one second are two events.
Refuses to judge by order: a version older than the stored one says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tidelore.core.clock import format_instant
from tidelore.core.model import CommentRecord, Item, Version
from tidelore.feedback.allowed_users import why_ignored
from tidelore.feedback.commands import Command, authorise, help_text, is_command, is_expired, parse_command
from tidelore.feedback.context import Context
from tidelore.feedback.routing import route_comment
from tidelore.feedback.tokens import Intent, ScopeKind, action_token, find_markers, is_same_login, with_marker
from tidelore.sources.github.transform import ISSUE_COMMENT
from tidelore.store.mirror.feedback_writer import body_digest
from tidelore.store.work.action_tokens import ActionToken
from tidelore.store.work.events import Effect, IgnoredComment, NewCommand, NewEvent, PlannedReply, TokenSeen

COMMAND_SOURCE = "operator_command"
_LONGEST_COMMAND = 200


def remote_instant(instant_ms: int) -> str:
    """Return an instant as GitHub writes it, in whole seconds."""
    return f"{format_instant(instant_ms)[:19]}Z"


def event_key(record: CommentRecord, stored: Version | None = None) -> str:
    """Return the name of one version; of a second one within the same second, with a mark of its body."""
    return _version_name(f"{record.number}:{record.kind}:{record.remote_id}", record, stored)


def command_key(record: CommentRecord, stored: Version | None = None) -> str:
    """Return the name of one version of a command.

    Comments of the talk and on the diff are numbered apart, so those on the diff are named with their kind. A second
    version within the same second is named with a mark of its body.
    """
    kind = "" if record.kind == ISSUE_COMMENT else f"{record.kind}:"
    return _version_name(f"{record.number}:{kind}{record.remote_id}", record, stored)


def rejection_key(author: str) -> str:
    """Return what makes the reply to unauthorised commands the same one for every command of an author in a thread."""
    return f"unauthorised:{author.casefold()}"


def command_token(host: str, repo_id: int, scope_kind: str, number: int, key: str, secret: bytes) -> str:
    """Return the token of the one answer a command gets."""
    kind: ScopeKind = "pr" if scope_kind == "pr" else "issue"
    return action_token(Intent(host, repo_id, kind, number, None, COMMAND_SOURCE, key), secret)


def own_tokens(record: CommentRecord, context: Context, signed: Mapping[str, ActionToken]) -> list[str]:
    """Return the tokens by which a comment is an answer of ours; `signed` are those of its markers that we signed.

    A marker in anybody else's comment is plain text, also where it is a copy of one of ours.
    """
    return [
        token for token in find_markers(record.body) if token in signed and _is_ours(record, signed[token], context)
    ]


def _is_ours(record: CommentRecord, token: ActionToken, context: Context) -> bool:
    if token.scope_number != record.number:
        return False
    if token.observed_comment_id is not None:
        return token.observed_comment_id == record.remote_id
    # Where the remote does not say who we are, the signature alone must do: nobody else could compute it.
    return context.own_login is None or is_same_login(record.author, context.own_login)


def qualifies(record: CommentRecord, context: Context) -> bool:
    """Return whether somebody should act on a comment that is no answer of ours: by who wrote it, and by what it is."""
    return has_words(record, context) and why_ignored(record, context) is None


def has_words(record: CommentRecord, context: Context) -> bool:
    """Return whether a comment says something to others, whoever wrote it."""
    if is_command(record.body, context.settings.command_prefix):
        return False
    # A review that only wraps its comments has no words; one that is not submitted yet is nobody's but its author's.
    wrapper = record.review_state == "COMMENTED" and not record.body.strip()
    return not (record.kind == "review_summary" and (wrapper or record.review_state == "PENDING"))


def interpret(
    item: Item[CommentRecord],
    stored: Version | None,
    context: Context,
    signed: Mapping[str, ActionToken] = MappingProxyType({}),
) -> Sequence[Effect] | None:
    """Return what a version of a comment leads to; `stored` is the version held, with the digest of its body, and
    `signed` are those of its markers that we signed.

    None: it is not judged, and leaves no row. So is whatever is said while a pull request is blocked and is no
    command: once it is followed again, it is read again, and then it is new.
    """
    record = item.record
    role = context.role(record.number)
    if role == "none":
        return None
    ours = own_tokens(record, context, signed)
    if ours:
        return [TokenSeen(token, record.remote_id, record.updated_at) for token in ours]
    if stored is not None and (stored.digest == body_digest(record.body) or record.updated_at < stored.updated_at):
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


def _command(record: CommentRecord, command: Command, stored: Version | None, context: Context) -> Sequence[Effect]:
    permission = authorise(record.author, record.is_bot, context.settings.operator_logins)
    if permission == "ignored" or record.author is None or record.updated_at < context.followed_from(record.number):
        return ()
    pull = context.pull_of(record.number)
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


def _version_name(name: str, record: CommentRecord, stored: Version | None) -> str:
    named = f"{name}:{remote_instant(record.updated_at)}"
    if stored is not None and stored.updated_at == record.updated_at:
        return f"{named}#{body_digest(record.body).hex()[:8]}"
    return named


def _answer(record: CommentRecord, key: str, result: str, context: Context) -> PlannedReply:
    kind = context.scope_kind(record.number)
    token = command_token(context.host, context.repo_id, kind, record.number, key, context.secret)
    return PlannedReply(kind, record.number, None, token, with_marker(result, token), COMMAND_SOURCE)
