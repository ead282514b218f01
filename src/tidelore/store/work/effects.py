"""Writes what judged comments lead to, in the transaction that stores the comments.

Invariant 8: events with bodies, tokens, commands, follow-ups and planned answers commit together with the version of
the comment they come from. Which version of a stored comment was judged last is kept with the comment (`judged_at`,
`judged_hash`): the digest of the body distinguishes an edit from a mere change of the update time. A comment that is
ignored because of its author is marked with the reason, so that a changed list of users can be applied to it later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.model import GHOST, NOTE, CommentRecord, RemoteId, Version
from tidelore.store.database.port import Database, Params, Row, Transaction
from tidelore.store.work.action_tokens import observe_in_project
from tidelore.store.work.events import (
    Effect,
    IgnoredComment,
    NewCommand,
    NewEvent,
    NewFollowup,
    NewRedirect,
    PlannedReply,
    TokenSeen,
    insert_events,
)
from tidelore.store.work.followed_issues import add_followups, note_redirected
from tidelore.store.work.operator_commands import insert_command
from tidelore.store.work.outbox import plan

REDIRECT_SOURCE = "issue_redirect"


def body_digest(body: str) -> bytes:
    """Return a digest by which two bodies can be compared."""
    return digest(body.encode())


class StoredComment(Struct, frozen=True):
    """A stored comment, the version of it that was judged last, with the digest of its BODY, and why it is ignored."""

    note_id: int
    record: CommentRecord
    judged: Version | None
    ignored: str | None = None

    @property
    def is_judged(self) -> bool:
        """Whether this version was judged."""
        record, judged = self.record, self.judged
        return (
            judged is not None and judged.updated_at == record.updated_at and judged.digest == body_digest(record.body)
        )


class JudgedComment(Struct, frozen=True):
    """A stored comment and its effects."""

    comment: StoredComment
    effects: Sequence[Effect]


class WrittenEffects(Struct, frozen=True):
    """What a transaction wrote: the new rows, and how many events already existed."""

    events: Sequence[NewEvent] = ()
    deduped: int = 0
    tokens: Sequence[TokenSeen] = ()
    commands: Sequence[NewCommand] = ()
    followups: int = 0
    planned: Sequence[int] = ()
    ignored: Sequence[IgnoredComment] = ()


_THREADS = (
    " FROM notes n JOIN discussions d ON d.id = n.discussion_id LEFT JOIN merge_requests m ON m.id = d.merge_request_id"
    " LEFT JOIN issues i ON i.id = d.issue_id"
)
_NUMBER = "COALESCE(m.iid, i.iid)"
_COLUMNS = (
    f"n.id, n.judged_at, n.judged_hash, n.ignored, n.remote_id, n.kind, {_NUMBER}, n.author_username, n.is_bot, n.body,"
    " COALESCE(n.position_new_path, n.position_old_path), n.position_new_line, n.position_old_line, n.position_side,"
    " n.position_head_sha, n.in_reply_to, n.review_id, n.review_state, n.url, n.created_at, n.updated_at,"
    " n.author_association, n.position_line_range_start, n.subject_type, n.diff_hunk,"
    " CASE WHEN n.kind <> 'note' THEN NULL WHEN m.id IS NULL THEN 'issue' ELSE 'mr' END, n.is_internal"
)
_WORDS = "n.is_system = 0"
Read = Callable[[str, Params], list[Row]]


def thread_comments(read: Read, project_id: int, number: int, *, on: str | None = None) -> list[StoredComment]:
    """Return the stored comments of one thread, oldest first.

    `on` is issue or mr where these have separate numbers; else the number belongs to either.
    """
    found: list[StoredComment] = []
    for name, column in (("issue", "i"), ("mr", "m")):
        if on in (None, name):
            rows = read(
                f"SELECT {_COLUMNS}{_THREADS} WHERE {column}.project_id = :project_id AND {column}.iid = :number"
                f" AND {column}.deleted_at IS NULL AND {_WORDS}",
                {"project_id": project_id, "number": number},
            )
            found += [_comment(row) for row in rows]
    return sorted(found, key=lambda one: (one.record.updated_at, one.record.remote_id))


def with_judged(tx: Transaction, project_id: int, records: Iterable[CommentRecord]) -> list[StoredComment]:
    """Return comments that were just stored with the version that was judged before, oldest first."""
    by_kind: dict[str, dict[int, CommentRecord]] = {}
    for record in records:
        by_kind.setdefault(record.kind, {})[record.remote_id] = record
    found: list[StoredComment] = []
    for kind, wanted in by_kind.items():
        rows = tx.execute(
            "SELECT id, remote_id, judged_at, judged_hash FROM notes WHERE project_id = :project_id AND kind = :kind"
            f" AND remote_id {tx.among('ids')}",
            {"project_id": project_id, "kind": kind, "ids": tx.integers(wanted)},
        )
        found += [StoredComment(row_id, wanted[key], _judged(key, at, was)) for row_id, key, at, was in rows]
    return sorted(found, key=lambda one: (one.record.updated_at, one.record.remote_id))


def find_comment(database: Database, project_id: int, kind: str, remote_id: int) -> CommentRecord | None:
    """Return one stored comment."""
    rows = database.read(
        f"SELECT {_COLUMNS}{_THREADS} WHERE n.project_id = :project_id AND n.kind = :kind AND n.remote_id = :id",
        {"project_id": project_id, "kind": kind, "id": remote_id},
    )
    return _comment(rows[0]).record if rows else None


def discussion_of(database: Database, project_id: int, note_id: int) -> str | None:
    """Return the remote id of the discussion that a stored note belongs to."""
    rows = database.read(
        "SELECT d.remote_id FROM notes n JOIN discussions d ON d.id = n.discussion_id"
        " WHERE n.project_id = :project_id AND n.kind = 'note' AND n.remote_id = :id AND n.is_system = 0",
        {"project_id": project_id, "id": note_id},
    )
    return str(rows[0][0]) if rows else None


def review_thread_of(database: Database, project_id: int, comment_id: int) -> str | None:
    """Return the global id of the thread of a stored review comment, where the forge has one."""
    rows = database.read(
        "SELECT d.node_id FROM notes n JOIN discussions d ON d.id = n.discussion_id"
        " WHERE n.project_id = :project_id AND n.kind = 'review_comment' AND n.remote_id = :id",
        {"project_id": project_id, "id": comment_id},
    )
    return None if not rows or rows[0][0] is None else str(rows[0][0])


_FIELDS = CommentRecord.__struct_fields__


def _comment(row: Row) -> StoredComment:
    note_id, judged_at, judged_hash, ignored, *values = row
    remote_id, kind, number, author, is_bot, body, path, new_line, old_line, side, *rest, internal = values
    if kind == NOTE and author is not None and author.casefold() == GHOST:
        author = None
    line = old_line if side == "LEFT" or new_line is None else new_line
    fields = (remote_id, kind, number, author, bool(is_bot), body, path, line, side, *rest, bool(internal))
    record = CommentRecord(**dict(zip(_FIELDS, fields, strict=True)))
    return StoredComment(note_id, record, _judged(remote_id, judged_at, judged_hash), ignored)


def _judged(key: RemoteId, at: int | None, was: bytes | None) -> Version | None:
    return None if at is None or was is None else Version(key, at, bytes(was))


class IgnoredAuthor(Struct, frozen=True):
    """An author whose comments in one thread were ignored."""

    number: int
    on: str | None
    author: str | None
    association: str | None
    is_bot: int


class IgnoredCount(Struct, frozen=True):
    """How many comments of how many accounts of a project were ignored for one reason."""

    project_id: int
    reason: str
    comments: int
    accounts: int


def ignored_authors(database: Database, project_id: int) -> list[IgnoredAuthor]:
    """Return the authors whose comments were ignored in a project, for each thread."""
    rows = database.read(
        f"SELECT DISTINCT {_NUMBER}, CASE WHEN n.kind <> 'note' THEN NULL WHEN m.id IS NULL THEN 'issue' ELSE 'mr' END,"
        f" n.author_username, n.author_association, n.is_bot{_THREADS}"
        " WHERE n.project_id = :project_id AND n.ignored IS NOT NULL",
        {"project_id": project_id},
    )
    return [IgnoredAuthor(*row) for row in rows]


def count_ignored(database: Database) -> list[IgnoredCount]:
    """Return how many comments were ignored, by project and reason."""
    rows = database.read(
        "SELECT project_id, ignored, COUNT(*), COUNT(DISTINCT LOWER(author_username)) FROM notes"
        " WHERE ignored IS NOT NULL GROUP BY project_id, ignored ORDER BY project_id, ignored"
    )
    return [IgnoredCount(*row) for row in rows]


def write_effects(
    tx: Transaction, project_id: int, repo: str, judged: Sequence[JudgedComment], now_ms: int
) -> WrittenEffects:
    """Write the effects of judged comments, and mark their versions as judged."""
    _mark(tx, judged)
    every = [(one.comment.record, effect) for one in judged for effect in one.effects]
    events = [effect for _, effect in every if isinstance(effect, NewEvent)]
    new_events = insert_events(tx, project_id, repo, events, now_ms)
    commands = [effect for _, effect in every if isinstance(effect, NewCommand)]
    followups = [effect for _, effect in every if isinstance(effect, NewFollowup)]
    tokens = [(record.number, effect) for record, effect in every if isinstance(effect, TokenSeen)]
    planned = {
        _plan(tx, project_id, repo, effect, now_ms)
        for _, effect in every
        if isinstance(effect, NewRedirect | PlannedReply)
    }
    return WrittenEffects(
        events=new_events,
        deduped=len(events) - len(new_events),
        # After the answers: one that is planned and seen on the same page counts as delivered.
        tokens=[
            seen
            for number, seen in tokens
            if observe_in_project(tx, project_id, number, seen.token, seen.comment_id, seen.updated_at, now_ms)
        ],
        commands=[command for command in commands if insert_command(tx, project_id, repo, command, now_ms)],
        followups=add_followups(tx, project_id, followups),
        planned=sorted(planned),
        ignored=[effect for _, effect in every if isinstance(effect, IgnoredComment)],
    )


def _mark(tx: Transaction, judged: Sequence[JudgedComment]) -> None:
    versions = [
        (one.comment.record.updated_at, body_digest(one.comment.record.body), one.comment.note_id) for one in judged
    ]
    tx.execute_rows(
        "UPDATE notes SET judged_at = :at, judged_hash = :hash WHERE id = :id", ("at", "hash", "id"), versions
    )
    # A comment that was only touched stays ignored.
    reasons = [
        (
            next((effect.reason for effect in one.effects if isinstance(effect, IgnoredComment)), None),
            one.comment.note_id,
        )
        for one in judged
        if one.effects
    ]
    tx.execute_rows("UPDATE notes SET ignored = :ignored WHERE id = :id", ("ignored", "id"), reasons)


def _plan(tx: Transaction, project_id: int, repo: str, effect: NewRedirect | PlannedReply, now_ms: int) -> int:
    if isinstance(effect, NewRedirect):
        note_redirected(tx, project_id, effect.issue_number, effect.comment_id, now_ms)
        effect = PlannedReply("issue", effect.scope_number, effect.reply_to, effect.token, effect.body, REDIRECT_SOURCE)
    return plan(tx, project_id, repo, effect, now_ms).id
