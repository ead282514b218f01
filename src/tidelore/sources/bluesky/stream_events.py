"""What the event stream tells, in our words: posts written, edited and deleted, accounts renamed, gone or back.

Owns the types that leave this room. A cursor belongs to the protocol that gave it: one counts microseconds, the other
events, and neither understands the other's.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tidelore.core.model import Item, PostRecord, Rejected

Protocol = Literal[1, 2]


class StreamCursor(Struct, frozen=True):
    """A place in the stream: microseconds in the first protocol, a sequence number in the second.

    `at` is the instant of the newest event up to there in milliseconds, where it is known; it is not part of the text.
    """

    protocol: Protocol
    value: int
    at: int | None = None

    def __str__(self) -> str:
        return f"v{self.protocol}:{self.value}"

    @classmethod
    def parse(cls, text: str, at: int | None = None) -> StreamCursor | None:
        """Return a stored cursor, or None when it cannot be read."""
        protocol, _, value = text.partition(":")
        if protocol not in ("v1", "v2") or not (value.isascii() and value.isdecimal()):
            return None
        return cls(1 if protocol == "v1" else 2, int(value), at)


class PostWritten(Struct, frozen=True):
    """A post or repost is new, or was edited."""

    item: Item[PostRecord]


class PostDeleted(Struct, frozen=True):
    """A post or repost is gone."""

    uri: str
    at: int


class HandleChanged(Struct, frozen=True):
    """An account may have another handle; None when the stream does not tell which."""

    did: str
    handle: str | None
    at: int


class AccountChanged(Struct, frozen=True):
    """An account went (`status` says how) or is back."""

    did: str
    active: bool
    status: str | None
    at: int


class Unreadable(Struct, frozen=True):
    """A post that could not be understood."""

    rejected: Rejected


class HoleFound(Struct, frozen=True):
    """Before this place the stream did not tell everything about these accounts: the poller has to."""

    dids: tuple[str, ...]
    reason: str
    since: StreamCursor | None


StreamEvent = PostWritten | PostDeleted | HandleChanged | AccountChanged | Unreadable | HoleFound


class StreamBatch(Struct, frozen=True):
    """Events in order, and the cursor that covers them and everything before. `at` is the newest one's instant."""

    events: tuple[StreamEvent, ...]
    cursor: StreamCursor | None
    at: int | None
