"""The rate governor. Owns when a client may send its next request; sends nothing itself.

Pure functions read what the server said about its limits, one small class remembers it for all requests of a
client; a pause from an earlier process is handed in, and one that begins is handed out.
Invariant: no request leaves before the instant a server named, and none waits longer than
`max_wait_seconds`: beyond that the caller is told, with the number of seconds, instead of being kept waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tidelore.core.clock import Clock
from tidelore.core.errors import RateLimited
from tidelore.retry_after import read_retry_after, whole_number

# A server that limits without saying for how long gets a minute, and twice as long each time it repeats it.
SECONDARY_WAIT_SECONDS = 60.0
# A reset that lies in the past by the server's own clock still deserves a breath.
_LEAST_WAIT_SECONDS = 1.0
# A reset is epoch seconds on GitLab, GitHub and Bluesky, and seconds to go (so, smaller) in the IETF draft.
_EARLIEST_EPOCH = 1_000_000_000
_LIMIT_WORDS = (b"rate limit", b"abuse detection", b"retry later", b"too many requests")

Rule = Literal["none", "retry-after", "reset", "secondary"]


@dataclass(frozen=True, slots=True)
class Budget:
    """What the server says is left of what it allows, and when it fills up again (epoch milliseconds of its clock)."""

    remaining: int | None
    reset_at: int | None
    allowed: int | None = None


UNKNOWN = Budget(None, None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How long every request of the client waits, why, and whether this one was refused for its rate."""

    wait_seconds: float
    rule: Rule
    limited: bool


def read_budget(headers: Mapping[str, str], server_ms: int) -> Budget:
    """Read `RateLimit-*` (GitLab, Bluesky) or `x-ratelimit-*` (GitHub)."""
    for prefix in ("ratelimit", "x-ratelimit"):
        remaining = whole_number(headers.get(f"{prefix}-remaining"))
        if remaining is not None:
            allowed = whole_number(headers.get(f"{prefix}-limit"))
            reset = whole_number(headers.get(f"{prefix}-reset"))
            if reset is None:
                return Budget(remaining, None, allowed)
            return Budget(remaining, reset * 1000 if reset >= _EARLIEST_EPOCH else server_ms + reset * 1000, allowed)
    return Budget(None, None)


def judge(
    status: int, headers: Mapping[str, str], body: bytes, budget: Budget, server_ms: int, strikes: int = 0
) -> Verdict:
    """Decide what an answer means for the requests after it. `strikes`: unexplained limits just before it."""
    after = read_retry_after(headers, server_ms) if status in (403, 429, 503) else None
    spent = budget.remaining == 0
    limited = status == 429 or (status == 403 and (after is not None or spent or _speaks_of_limits(body)))
    if after is not None:
        return Verdict(max(after, _LEAST_WAIT_SECONDS), "retry-after", limited)
    if spent and budget.reset_at is not None:
        wait = (budget.reset_at - server_ms) / 1000
        if limited:
            return Verdict(max(wait, _LEAST_WAIT_SECONDS), "reset", limited)
        if wait > 0:
            return Verdict(wait, "reset", limited)
    if limited:
        return Verdict(SECONDARY_WAIT_SECONDS * 2 ** min(strikes, 10), "secondary", limited)
    return Verdict(0.0, "none", limited)


class Governor:
    """Holds back all requests of one client: limits the server named, and a fixed pace when one is set."""

    def __init__(
        self,
        clock: Clock,
        origin: str = "",
        rate_limit_rps: float = 0.0,
        max_wait_seconds: float = 300.0,
        paused_until: int | None = None,
        on_pause: Callable[[int], None] | None = None,
    ) -> None:
        self._clock = clock
        self._origin = origin
        self._max_wait_seconds = max_wait_seconds
        self._interval_seconds = 1.0 / rate_limit_rps if rate_limit_rps > 0 else 0.0
        self._slot_at = 0.0
        self._blocked_until = 0.0
        self._on_pause = on_pause
        if paused_until is not None:
            self._blocked_until = clock.monotonic() + max(paused_until - clock.now_ms(), 0) / 1000
        self._strikes = 0
        self.remaining: int | None = None
        self.reset_at: int | None = None
        self.allowed: int | None = None
        self.skew_ms: int | None = None
        """How far the server's clock is ahead of ours, as its last answer said."""

    @property
    def budget(self) -> Budget:
        """What the server last said is left, and when it fills up again by our own clock."""
        reset_at = None if self.reset_at is None else self.reset_at - (self.skew_ms or 0)
        return Budget(self.remaining, reset_at, self.allowed)

    @property
    def wait_seconds(self) -> float:
        """How long the next request has to wait for the server."""
        return max(0.0, self._blocked_until - self._clock.monotonic())

    def too_long(self, seconds: float) -> bool:
        """Tell whether a wait is longer than a caller may be kept."""
        return seconds > self._max_wait_seconds

    async def admit(self) -> None:
        """Return when a request may leave; raise RateLimited when that is too far away."""
        # The server may close the gate while a request waits for its slot: then the slot is worth nothing.
        while True:
            await self._wait_for_server()
            await self._wait_for_slot()
            if not self.wait_seconds:
                return

    async def _wait_for_server(self) -> None:
        while (wait := self.wait_seconds) > 0:
            if self.too_long(wait):
                raise RateLimited(
                    f"the server asked for a pause of {wait:.0f} s",
                    retry_after_seconds=wait,
                    url=self._origin or None,
                    reason="rate_limit",
                )
            await self._clock.sleep(wait)

    async def _wait_for_slot(self) -> None:
        if not self._interval_seconds:
            return
        now = self._clock.monotonic()
        slot_at = max(now, self._slot_at)
        self._slot_at = slot_at + self._interval_seconds
        if slot_at > now:
            await self._clock.sleep(slot_at - now)

    def observe(self, status: int, headers: Mapping[str, str], body: bytes, server_ms: int | None) -> Verdict:
        """Take an answer into account; a wait it names can only lengthen the one in force."""
        now = self._clock.monotonic()
        measured_ms = self._clock.now_ms() if server_ms is None else server_ms
        budget = read_budget(headers, measured_ms)
        self.skew_ms = measured_ms - self._clock.now_ms()
        if budget.remaining is not None:
            self.remaining, self.reset_at, self.allowed = budget.remaining, budget.reset_at, budget.allowed
        verdict = judge(status, headers, body, budget, measured_ms, self._strikes)
        # Requests that were in flight together are one offence, and their good answers no pardon.
        if now >= self._blocked_until:
            self._strikes = self._strikes + 1 if verdict.rule == "secondary" else 0
        elif verdict.rule == "secondary":
            return Verdict(self.wait_seconds, "secondary", limited=True)
        if verdict.wait_seconds > 0:
            longer = now + verdict.wait_seconds - max(self._blocked_until, now)
            self._blocked_until = max(self._blocked_until, now + verdict.wait_seconds)
            if self._on_pause is not None and longer >= _LEAST_WAIT_SECONDS:
                self._on_pause(self._clock.now_ms() + round(verdict.wait_seconds * 1000))
        return verdict


def _speaks_of_limits(body: bytes) -> bool:
    text = body[:4096].lower()
    return any(word in text for word in _LIMIT_WORDS)
