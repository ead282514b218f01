"""How long a run may ask. Owns the end of a slice, the part of it that each stage has, and whose turn comes first.

A run that is given no time is one slice without end. Refuses to cut anything off: what is under way is finished, and
the next run goes on at the position that was committed last. Upholds that nobody starves: each stage has a part of the
time that the stages before it cannot take, and a list that had no turn in one slice comes first in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Generic, Literal, Protocol, TypeVar

from tidelore.core.clock import Clock
from tidelore.engine.ports import Lister, ListRequest, Page

R = TypeVar("R")

Stage = Literal["ingest", "dependents", "statuses", "scrub"]
ScopeKey = tuple[str, str, str]
"""A list, from run to run: its source, the name its project is configured by, its surface."""
IsOver = Callable[[], bool]

PARTS: Mapping[Stage, float] = MappingProxyType({"ingest": 0.75, "dependents": 0.15, "statuses": 0.05, "scrub": 0.05})
"""What each stage may take at most when the others need theirs; what one leaves, the next may take too."""
_ENDS = MappingProxyType(dict(zip(PARTS, accumulate(PARTS.values()), strict=True)))


def never() -> bool:
    """Let a stage come to its own end."""
    return False


class Slice:
    """The time of one run, from here on."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._seconds = seconds
        self._began = clock.monotonic()

    def begin(self, stage: Stage) -> IsOver:
        """Begin a stage, and return what tells when it has to stop asking."""
        if self._seconds is None:
            return never
        clock, began = self._clock, self._clock.monotonic()
        # An answer that came late in the stage before takes nothing of what belongs to this one.
        ends = max(self._began + self._seconds * _ENDS[stage], began + self._seconds * PARTS[stage])
        return lambda: clock.monotonic() >= ends


class TimeIsUp(Exception):
    """Nothing more is asked: a signal inside a stage, which its caller never sees."""


class Timed(Generic[R]):
    """A list that is read until time is up. Inside an instant that fills several pages it is read on.

    Such a window begins anew when it is interrupted: cut off again and again, it might never come to its end.
    """

    def __init__(self, lister: Lister[R], is_over: IsOver) -> None:
        self._lister = lister
        self._is_over = is_over

    async def fetch(self, request: ListRequest) -> Page[R]:
        if request.token is None and self._is_over():
            raise TimeIsUp
        return await self._lister.fetch(request)

    async def fetch_one(self, locator: str) -> Page[R]:
        return await self._lister.fetch_one(locator)


class Keyed(Protocol):
    """Something that is done about one list."""

    @property
    def key(self) -> ScopeKey: ...


K = TypeVar("K", bound=Keyed)


def in_turn(lists: Sequence[K], turns: Mapping[ScopeKey, int], polled: Mapping[ScopeKey, int]) -> list[K]:
    """Return lists by how long ago they had a turn, those that had none first; of equals, the longest unheard of.

    `polled` alone would not do: a list that cannot be read stays unheard of, and would be the first for ever.
    """
    return sorted(lists, key=lambda one: (turns.get(one.key, 0), polled.get(one.key, 0)))
