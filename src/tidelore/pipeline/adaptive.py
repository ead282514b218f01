"""How often an account is asked. Pure: time and chance are handed in.

Owns the interval: the setting right after a post, then growing with the silence, up to a ceiling. Invariants: a post
waits at most half as long as the silence before it, or one interval; and with cycles an interval apart no account
goes unasked for longer than the staleness bound, whatever the roll.
"""

from __future__ import annotations

from msgspec import Struct

SHARE = 0.5
"""Which part of a silence may pass before the account is asked again: the interval grows by half with every poll."""
SPREAD = 0.1
"""By which part an interval is shortened: at most all of it, so that accounts added together are not asked together for
ever; at least half of it, so that an account asked late in a cycle is due when the next one begins."""


class Pace(Struct, frozen=True):
    """The two bounds of an interval, in seconds."""

    interval_seconds: float
    staleness_seconds: float

    @property
    def shortest(self) -> float:
        return min(self.interval_seconds, self.staleness_seconds)

    @property
    def longest(self) -> float:
        """The ceiling: an account that falls due just after a cycle waits for the next one too."""
        return max(self.shortest, self.staleness_seconds - self.shortest)


def next_interval(pace: Pace, quiet_seconds: float | None, roll: float) -> float:
    """Return how long to leave an account alone that has been quiet so long; None: it never posted.

    `roll` in [0, 1) spreads the result downward, so it never passes the ceiling.
    """
    wanted = pace.longest if quiet_seconds is None else quiet_seconds * SHARE
    bounded = min(max(wanted, pace.shortest), pace.longest)
    return bounded * (1.0 - SPREAD * (0.5 + roll / 2))
