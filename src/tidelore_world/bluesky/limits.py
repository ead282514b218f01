"""The AppView's rate limit: so many requests in a window, told in `ratelimit-*` headers.

Owns the count. Refuses to know routes.
"""

from __future__ import annotations

from tidelore_world.bluesky.settings import BlueskySettings
from tidelore_world.clock import SECOND_US, WorldClock


class Limits:
    """One budget for all callers: they share an address, which is what the real service counts by."""

    def __init__(self, clock: WorldClock, settings: BlueskySettings) -> None:
        self._clock = clock
        self._settings = settings
        self._reset_s = 0
        self._used = 0

    def spend(self, requests: int) -> None:
        """Use up budget without sending the requests."""
        self._roll()
        self._used += requests

    def admit(self) -> bool:
        """Count a request; False when it is one too many."""
        self._roll()
        limit = self._settings.rate_limit
        if limit is not None and self._used >= limit:
            return False
        self._used += 1
        return True

    def headers(self) -> dict[str, str]:
        """The headers of an answer; none when there is no limit."""
        limit = self._settings.rate_limit
        if limit is None:
            return {}
        self._roll()
        return {
            "ratelimit-limit": str(limit),
            "ratelimit-remaining": str(max(0, limit - self._used)),
            "ratelimit-reset": str(self._reset_s),
            "ratelimit-policy": f"{limit};w={self._settings.rate_window_seconds}",
        }

    def _roll(self) -> None:
        now_s = self._clock.now_us // SECOND_US
        if self._reset_s <= now_s:
            self._reset_s, self._used = now_s + self._settings.rate_window_seconds, 0
