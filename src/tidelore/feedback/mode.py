"""How a repository is read: by its feeds, or thread by thread. Owns the choice and what it is made from.

Pure. A feed costs the same whatever is followed, and more where others talk; threads cost the same whatever others
do, and more the more is followed. So the cheaper way follows from what the last polls cost.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Mode = Literal["repo", "thread"]

FEEDS = 3.0
"""Requests of a quiet poll by feeds: two of comments, one of pull requests."""
_MEMORY = 0.7
"""How much of the last estimate stays in the next one."""
_OBLIVION = 0.98
"""How much of what others' talk once cost is still believed, each poll that cannot see it."""


class Following(Struct, frozen=True):
    """How much of a repository is followed."""

    awaiting: int = 0
    blocked: int = 0
    issues: int = 0

    @property
    def requests(self) -> float:
        """What a quiet poll costs thread by thread: two lists and a snapshot for each pull request."""
        return 3.0 * (self.awaiting + self.blocked) + self.issues


def choose_mode(wanted: Literal["auto", "repo", "thread"], following: Following, feed_requests: float | None) -> Mode:
    """Return the way to read; `feed_requests` is what a poll by feeds is expected to cost."""
    if wanted != "auto":
        return wanted
    expected = FEEDS if feed_requests is None else feed_requests
    return "repo" if expected <= following.requests else "thread"


def learn(feed_requests: float | None, mode: Mode, requests: int) -> float:
    """Return what a poll by feeds is expected to cost next time, after one that cost `requests`."""
    known = FEEDS if feed_requests is None else feed_requests
    if mode == "repo":
        return max(FEEDS, _MEMORY * known + (1 - _MEMORY) * requests)
    return FEEDS + (known - FEEDS) * _OBLIVION
