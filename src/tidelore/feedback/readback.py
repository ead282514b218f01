"""Reading back. Owns how we find out whether a write landed whose answer we never had: by the mark in its body.

Bounded: only what was written since the intent was stored is read, and all of that, also beyond the first page. A
comment deleted in mid-walk shifts the pages of this list, so a set of several pages is read until two passes agree.
Refuses to guess: an answer that could not be understood and may be ours is a failure, not an absence. A mark in a
comment of another account proves nothing; who we are is asked before.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from tidelore.core.clock import Clock
from tidelore.core.errors import RemoteTransient
from tidelore.core.model import CommentRecord, RemoteId
from tidelore.engine.ports import Lister, ListRequest
from tidelore.feedback.tokens import find_markers, is_same_login
from tidelore.store.work.outbox import OutboxRow

SKEW_MS = 300_000
"""How far the two clocks may be apart before that is looked at: the intent has our time, the comment the server's."""
_PASSES = 10


class Threads(Protocol):
    """The part of a source that is read here."""

    def thread(self, repo: str | int, kind: str, number: int) -> Lister[CommentRecord]:
        """Return the comments of one kind in one thread: by id, with `since`."""
        ...

    async def login(self) -> str | None:
        """Return whose comments are ours; None where the remote does not say."""
        ...


class Mark(Struct, frozen=True):
    """What our comment is known by: its token, and our login where the remote says who we are."""

    token: str
    login: str | None

    def is_on(self, record: CommentRecord) -> bool:
        ours = self.login is None or is_same_login(record.author, self.login)
        return ours and self.token in find_markers(record.body)


class Reading(Struct, frozen=True):
    """One pass over what was written since an instant."""

    found: CommentRecord | None
    ids: frozenset[RemoteId]
    pages: int
    server_at: int | None


async def find_posted(
    source: Threads, repo: str | int, row: OutboxRow, overlap_ms: int, clock: Clock
) -> CommentRecord | None:
    """Return the comment of ours that carries a row's token, or None when there certainly is none."""
    own = Mark(row.token, await source.login())
    kind = "issue_comment" if row.reply_to is None else "review_comment"
    pages = source.thread(repo, kind, row.scope_number)
    since = max(row.created_at - overlap_ms - SKEW_MS, 1)
    reading = await _read(pages, own, since)
    ahead_ms = 0 if reading.server_at is None else clock.now_ms() - reading.server_at
    if reading.found is None and ahead_ms > SKEW_MS:
        since = max(since - ahead_ms, 1)
        reading = await _read(pages, own, since)
    for _ in range(_PASSES):
        if reading.found is not None or reading.pages == 1:
            return reading.found
        before, reading = reading, await _read(pages, own, since)
        if reading.found is None and reading.ids <= before.ids:
            return None
    raise RemoteTransient("the thread kept changing while it was read", reason="unsettled_thread")


async def _read(pages: Lister[CommentRecord], own: Mark, since: int) -> Reading:
    ids: set[RemoteId] = set()
    request, count, server_at = ListRequest(since=since), 0, None
    while True:
        page = await pages.fetch(request)
        count, server_at = count + 1, server_at or page.server_at
        for item in page.items:
            ids.add(item.version.id)
            if own.is_on(item.record):
                return Reading(item.record, frozenset(ids), count, server_at)
        if any(own.token.encode() in rejected.payload for rejected in page.rejected):
            raise RemoteTransient("could not parse a comment that may be ours", reason="unreadable_comment")
        if page.next_token is None:
            return Reading(None, frozenset(ids), count, server_at)
        request = ListRequest(since=since, token=page.next_token)
