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

    rate_limit: int | None = 3000
    """Requests per caller and window; None lifts the limit."""

    rate_window_seconds: int = 300
