"""The switches of the simulated Bluesky: where servers differ, a test picks one.

Owns the settings only. Each default is what a real local network was seen to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class BlueskySettings:
    """Behaviour a test may change at any moment, also between two pages of one walk."""

    cursor_format: Literal["millis__cid", "iso"] = "millis__cid"
    """The form of feed cursors; one server does not understand the other's."""

    feed_depth: dict[str, int] = field(default_factory=dict)
    """By DID: the feed ends, without a cursor, after this many items although there are more."""

    refused: dict[str, int] = field(default_factory=dict)
    """By DID: requests about this account answer this status (401, 403, 404 or 410)."""

    unlisted: set[str] = field(default_factory=set)
    """DIDs that the AppView has lost: it answers as if there were no such account; their own server has them."""

    rate_limit: int | None = 3000
    """Requests per caller and window; None lifts the limit."""

    rate_window_seconds: int = 300

    stream_replay_seconds: float = 86_400
    """How far back the event stream can be replayed; what is older is gone."""

    stream_dids: int = 10_000
    """How many accounts one connection of the event stream may ask for."""

    stream_tells_future: bool = False
    """Whether the second protocol says that a cursor lies beyond its end; without that it goes live in silence."""

    stream_refuses_old: bool = True
    """Whether the second protocol refuses a number it no longer has; without that it begins with its oldest event."""

    stream_backlog: int = 1_000
    """How many events a client that stands still may be behind before it is cut off."""

    stream_patience_seconds: float = 5.0
    """How long, on the machine's clock, such a client may stand still."""
