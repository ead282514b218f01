"""Share one rate limit between processes: requests are granted in small numbers from a common budget.

`SharedBudget` is the common state of one host and token; `settle` and `grant` change it and are pure. `Grants` is the
part of one process: it spends what it was granted, and asks the pool again with what the server said meanwhile. A
process without a grant waits. Invariant: grants and what the server counted never exceed what the server allows.
Requests that a killed process was granted and did not send are lost until the limit resets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tidelore.core.clock import Clock
from tidelore.core.errors import TideloreError
from tidelore.http.limits import Budget

LARGEST_GRANT = 10
GRANTED_SHARE = 16
"""A grant is at most this part of what is left, so that several processes get a part of little."""
RESET_MARGIN_MS = 1_000
"""How long after its reset a limit counts as reset: clocks of servers are known to the second."""
_SAME_RESET_MS = 2_500
PROBE_MS = 5_000
"""How long others wait for the first response of a server whose limit is unknown."""
ASK_AGAIN_MS = 200
_UNKNOWN_RESET_MS = 60_000
"""After how long a limit without a reset is asked for again when nothing is left of it."""


class SharedBudget(Struct, frozen=True):
    """What is left of a rate limit for all processes. Times are epoch milliseconds of our clock.

    `remaining`: requests that are neither sent nor granted; None if the server reports no limit. `outstanding`:
    granted, and not known to be answered. `is_known`: whether the server has said what it allows. `slot_at`: when the
    next request may be sent by a configured rate.
    """

    remaining: int | None = None
    allowed: int | None = None
    reset_at: int | None = None
    outstanding: int = 0
    pause_until: int = 0
    slot_at: int = 0
    probe_until: int = 0
    is_known: bool = False


class Report(Struct, frozen=True):
    """What a process learnt since its last grant: answered requests, the limit the server reported, and a pause."""

    answered: int = 0
    budget: Budget | None = None
    pause_until: int = 0


class Grant(Struct, frozen=True):
    """A number of requests, valid from `from_at` until `until_at`. Without requests, `from_at` is when to ask again."""

    requests: int
    from_at: int
    until_at: int | None = None


def settle(state: SharedBudget, report: Report, now_ms: int) -> SharedBudget:
    """Apply what a process reported."""
    state = replace(
        state,
        outstanding=max(0, state.outstanding - report.answered),
        pause_until=max(state.pause_until, report.pause_until),
    )
    state = _reset(state, now_ms)
    budget = report.budget
    if budget is None or (budget.reset_at is not None and budget.reset_at <= now_ms):
        return state
    if budget.remaining is None:
        return state if state.is_known else replace(state, is_known=True, probe_until=0)
    same = state.reset_at is None or budget.reset_at is None or abs(budget.reset_at - state.reset_at) < _SAME_RESET_MS
    # Within a window the lowest number is the newest. What was granted is not counted by the server yet.
    left = budget.remaining - (state.outstanding if budget.reset_at is not None else 0)
    lowest = left if state.remaining is None or not same else min(left, state.remaining)
    reset_at = state.reset_at if same and state.reset_at is not None else budget.reset_at
    return replace(state, remaining=lowest, allowed=budget.allowed, reset_at=reset_at, is_known=True, probe_until=0)


def _reset(state: SharedBudget, now_ms: int) -> SharedBudget:
    """Begin a new window if the old one is over; the next response tells when it ends."""
    if state.reset_at is None or now_ms < state.reset_at + RESET_MARGIN_MS:
        return state
    return replace(state, remaining=state.allowed, reset_at=None, outstanding=0, is_known=state.allowed is not None)


def grant(state: SharedBudget, now_ms: int, requests_per_second: float = 0.0) -> tuple[SharedBudget, Grant]:
    """Take some requests from the budget, or return when to ask again."""
    state = _reset(state, now_ms)
    if state.pause_until > now_ms:
        return state, Grant(0, state.pause_until)
    if not state.is_known:
        if state.probe_until > now_ms:
            return state, Grant(0, min(state.probe_until, now_ms + ASK_AGAIN_MS))
        return _paced(replace(state, probe_until=now_ms + PROBE_MS), 1, now_ms, requests_per_second)
    if state.remaining is None:
        return _paced(state, LARGEST_GRANT, now_ms, requests_per_second)
    if state.remaining <= 0:
        if state.reset_at is None:
            # One request after a while shows whether the limit was reset.
            return replace(state, is_known=False, probe_until=now_ms + _UNKNOWN_RESET_MS), Grant(
                0, now_ms + _UNKNOWN_RESET_MS
            )
        return state, Grant(0, state.reset_at + RESET_MARGIN_MS)
    count = max(1, min(LARGEST_GRANT, state.remaining // GRANTED_SHARE))
    return _paced(replace(state, remaining=state.remaining - count), count, now_ms, requests_per_second)


def _paced(state: SharedBudget, count: int, now_ms: int, requests_per_second: float) -> tuple[SharedBudget, Grant]:
    """Grant requests, after those that were granted before if there is a configured rate."""
    begins = now_ms
    if requests_per_second > 0:
        count = max(1, min(count, int(requests_per_second)))
        begins = max(now_ms, state.slot_at)
        state = replace(state, slot_at=begins + round(count * 1000 / requests_per_second))
    return replace(state, outstanding=state.outstanding + count), Grant(count, begins, state.reset_at)


class BudgetPool(Protocol):
    """Stores common budgets."""

    def exchange(self, key: str, report: Report, requests_per_second: float) -> Grant:
        """Apply a report and take a grant, atomically."""
        ...


InThread = Callable[[Callable[[], Grant]], Awaitable[Grant]]


class Grants:
    """The granted requests of one process for one host and token, spent by all of its clients."""

    def __init__(
        self,
        pool: BudgetPool,
        key: str,
        clock: Clock,
        requests_per_second: float = 0.0,
        in_thread: InThread | None = None,
    ) -> None:
        self._pool = pool
        self._key = key
        self._clock = clock
        self._rate = requests_per_second
        self._in_thread = in_thread or asyncio.to_thread
        self._left = 0
        self._until: int | None = None
        self._report = Report()
        self._asking = asyncio.Lock()

    async def take(self) -> float:
        """Spend one granted request and return 0, or return how many seconds to wait before asking again."""
        async with self._asking:
            now = self._clock.now_ms()
            if self._until is not None and now >= self._until:
                self._left = 0
            if self._left == 0:
                wait = await self._ask(now)
                if wait > 0:
                    return wait
            self._left -= 1
            return 0.0

    async def _ask(self, now: int) -> float:
        report, self._report = self._report, Report()
        try:
            granted = await self._in_thread(lambda: self._pool.exchange(self._key, report, self._rate))
        except TideloreError:
            # Without the database nothing can be stored either; the report is sent with the next attempt.
            self._report = _merged(report, self._report)
            raise
        self._left, self._until = granted.requests, granted.until_at
        if granted.requests == 0:
            return max(granted.from_at - now, 1) / 1000
        await self._clock.sleep(max(0, granted.from_at - now) / 1000)
        return 0.0

    def answered(self, budget: Budget) -> None:
        """Note a response, and the limit that it reported."""
        self._report = _merged(self._report, Report(1, budget))

    def lost(self) -> None:
        """Note that a request ended without a response."""
        self._report = _merged(self._report, Report(1))

    def paused(self, until_ms: int) -> None:
        """Note that the server asked for a pause; nothing that was granted is sent before its end."""
        self._left = 0
        self._report = _merged(self._report, Report(0, None, until_ms))


def _merged(older: Report, newer: Report) -> Report:
    """Return two reports as one; of two limits of one window the lower is the newer."""
    budget = newer.budget or older.budget
    if older.budget is not None and newer.budget is not None and older.budget.reset_at == newer.budget.reset_at:
        known = [one for one in (older.budget, newer.budget) if one.remaining is not None]
        budget = min(known, key=lambda one: one.remaining or 0) if known else newer.budget
    return Report(older.answered + newer.answered, budget, max(older.pause_until, newer.pause_until))


class GrantBook:
    """The grants of this process, by host and token."""

    def __init__(self, pool: BudgetPool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._grants: dict[str, Grants] = {}

    def of(self, source: str, token: str | None, requests_per_second: float) -> Grants:
        """Return the grants of a token; the pool gets only a digest of it."""
        key = f"{source} {sha256(token.encode()).hexdigest()[:16]}" if token else source
        if key not in self._grants:
            self._grants[key] = Grants(self._pool, key, self._clock, requests_per_second)
        return self._grants[key]
