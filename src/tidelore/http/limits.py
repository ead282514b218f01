"""Limits: when the next request may be sent, how long to wait before a retry, and which sources to skip.

Pure functions read `Retry-After` and the rate limit headers; `Governor` applies them to all requests of a client, and
`SourceOutages` records which sources the current run no longer requests. A pause from an earlier process is passed in,
and a new one is reported to the caller. Sends no requests. Invariant: no request is sent before the time given by the
server, and none waits longer than `max_wait_seconds`: for a longer wait the caller gets an error with its duration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal, Protocol

from tidelore.core.clock import Clock
from tidelore.core.errors import (
    BudgetSpent,
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemoteTransient,
    TideloreError,
    retry_advice,
)

_MOST_DIGITS = 12


def backoff_seconds(attempt: int, first_seconds: float, roll: float, longest_seconds: float = 60.0) -> float:
    """Return the pause after attempt 1, 2, …: doubled each time, with jitter in its upper half by `roll` in [0, 1)."""
    full = min(longest_seconds, first_seconds * 2.0 ** min(attempt - 1, 30))
    return full * (0.5 + roll / 2)


def read_retry_after(headers: Mapping[str, str], server_ms: int) -> float | None:
    """Return the seconds of `Retry-After`: a number, or a date relative to the server's clock."""
    text = (headers.get("retry-after") or "").strip()
    seconds = whole_number(text)
    if seconds is not None:
        return float(seconds)
    moment = parse_http_date(text)
    return None if moment is None else max(0.0, (moment - server_ms) / 1000)


def parse_http_date(text: str | None) -> int | None:
    """Return epoch milliseconds of an HTTP date, or None if it is missing or invalid."""
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
        # RFC 9110: a date without a usable zone is GMT.
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def whole_number(text: str | None) -> int | None:
    """Return the number in a header, or None if it is not a number or implausibly large."""
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


# The pause after a rate limit without a duration; doubled each time the server repeats it.
SECONDARY_WAIT_SECONDS = 60.0
# The shortest pause after a rate limit, for a reset that is in the past by the server's clock.
_LEAST_WAIT_SECONDS = 1.0
# A reset is epoch seconds on GitLab, GitHub and Bluesky, but remaining seconds (so, smaller) in the IETF draft.
_EARLIEST_EPOCH = 1_000_000_000
_LIMIT_WORDS = (b"rate limit", b"abuse detection", b"retry later", b"too many requests")

LimitRule = Literal["none", "retry-after", "reset", "secondary", "queries"]


@dataclass(frozen=True, slots=True)
class Budget:
    """A rate limit: remaining and allowed requests, and its reset in epoch milliseconds of the server's clock."""

    remaining: int | None
    reset_at: int | None
    allowed: int | None = None


UNKNOWN = Budget(None, None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How long all requests of the client must wait, why, and whether this one was refused by a rate limit."""

    wait_seconds: float
    rule: LimitRule
    limited: bool


def read_budget(headers: Mapping[str, str], server_ms: int) -> Budget:
    """Read `RateLimit-*` (GitLab, Bluesky) or `x-ratelimit-*` (GitHub).

    GitHub counts GraphQL apart from everything else: an exhausted GraphQL budget must not delay other requests.
    """
    return UNKNOWN if _counts_queries(headers) else _read_budget(headers, server_ms)


def _counts_queries(headers: Mapping[str, str]) -> bool:
    return headers.get("x-ratelimit-resource") == "graphql"


def _read_budget(headers: Mapping[str, str], server_ms: int) -> Budget:
    for prefix in ("ratelimit", "x-ratelimit"):
        remaining = whole_number(headers.get(f"{prefix}-remaining"))
        if remaining is not None:
            allowed = whole_number(headers.get(f"{prefix}-limit"))
            reset = whole_number(headers.get(f"{prefix}-reset"))
            if reset is None:
                return Budget(remaining, None, allowed)
            return Budget(remaining, reset * 1000 if reset >= _EARLIEST_EPOCH else server_ms + reset * 1000, allowed)
    return Budget(None, None)


def classify_limit(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    budget: Budget,
    server_ms: int,
    strikes: int = 0,
    unexplained_wait_seconds: float = SECONDARY_WAIT_SECONDS,
) -> Verdict:
    """Return how a response limits later requests. `strikes`: rate limits without a duration just before it.

    The rule `queries` limits only requests that count against the budget of GraphQL.
    """
    after = read_retry_after(headers, server_ms) if status in (403, 429, 503) else None
    spent = budget.remaining == 0
    limited = status == 429 or (status == 403 and (after is not None or spent or _speaks_of_limits(body)))
    if after is not None:
        return Verdict(max(after, _LEAST_WAIT_SECONDS), "retry-after", limited)
    if limited and _counts_queries(headers):
        queries = _read_budget(headers, server_ms)
        if queries.remaining == 0 and queries.reset_at is not None:
            return Verdict(max((queries.reset_at - server_ms) / 1000, _LEAST_WAIT_SECONDS), "queries", limited)
    if spent and budget.reset_at is not None:
        wait = (budget.reset_at - server_ms) / 1000
        if limited:
            return Verdict(max(wait, _LEAST_WAIT_SECONDS), "reset", limited)
        if wait > 0:
            return Verdict(wait, "reset", limited)
    if limited:
        return Verdict(unexplained_wait_seconds * 2 ** min(strikes, 10), "secondary", limited)
    return Verdict(0.0, "none", limited)


class RequestAllowance:
    """The requests that a run may send: at most `max_requests`, and `reserve` of each rate limit are left to others.

    Requests are counted before they are sent, so that concurrent ones cannot exceed it. `refusals` are by origin.
    """

    def __init__(self, max_requests: int | None = None, reserve: int | None = None) -> None:
        self.max_requests = max_requests
        self.reserve = reserve
        self.sent = 0
        self.refusals: dict[str, BudgetSpent] = {}

    @property
    def is_spent(self) -> bool:
        """Whether no more requests may be sent to any server."""
        return self.max_requests is not None and self.sent >= self.max_requests

    def take(self, origin: str, left: int | None) -> None:
        """Count a request, or raise BudgetSpent. `left`: what the rate limit of the server allows, if that is known."""
        if self.is_spent:
            raise self._refuse(origin, "the requests of --max-requests are used up")
        if self.reserve is not None and left is not None and left <= self.reserve:
            said = f"{left:,} requests are left of the rate limit, and --reserve-rate-limit keeps {self.reserve:,}"
            raise self._refuse(origin, said)
        self.sent += 1

    def _refuse(self, origin: str, message: str) -> BudgetSpent:
        fix = "run the command again: it continues there"
        error = BudgetSpent(message, fix=fix, url=origin or None, reason="budget")
        self.refusals.setdefault(origin, error)
        return error


class SharedLimit(Protocol):
    """A rate limit that several processes share (`grants.py`)."""

    async def take(self) -> float:
        """Count a request and return 0, or return how many seconds to wait before asking again."""
        ...

    def answered(self, budget: Budget) -> None:
        """Note a response, and the limit that it reported."""
        ...

    def lost(self) -> None:
        """Note that a request ended without a response."""
        ...

    def paused(self, until_ms: int) -> None:
        """Note that the server asked for a pause."""
        ...


class Governor:
    """Delays the requests of one client: by the server's limits, and by a fixed rate if one is configured."""

    def __init__(
        self,
        clock: Clock,
        origin: str = "",
        rate_limit_rps: float = 0.0,
        max_wait_seconds: float = 300.0,
        paused_until: int | None = None,
        on_pause: Callable[[int], None] | None = None,
        unexplained_wait_seconds: float = SECONDARY_WAIT_SECONDS,
        allowance: RequestAllowance | None = None,
        grants: SharedLimit | None = None,
    ) -> None:
        self._allowance = allowance
        self._grants = grants
        self._in_flight = 0
        self._points_in_flight = 0
        self._queries = UNKNOWN
        self._least: int | None = None
        self._clock = clock
        self._origin = origin
        self._max_wait_seconds = max_wait_seconds
        self._interval_seconds = 1.0 / rate_limit_rps if rate_limit_rps > 0 else 0.0
        self._slot_at = 0.0
        self._blocked_until = 0.0
        self._on_pause = on_pause
        self._unexplained_wait_seconds = unexplained_wait_seconds
        if paused_until is not None:
            self._blocked_until = clock.monotonic() + max(paused_until - clock.now_ms(), 0) / 1000
        self._strikes = 0
        self.remaining: int | None = None
        self.reset_at: int | None = None
        self.allowed: int | None = None
        self.skew_ms: int | None = None
        """How far the server's clock is ahead of ours, according to its last response."""

    @property
    def budget(self) -> Budget:
        """The rate limit that the server last reported, with its reset converted to our clock."""
        reset_at = None if self.reset_at is None else self.reset_at - (self.skew_ms or 0)
        return Budget(self.remaining, reset_at, self.allowed)

    @property
    def points(self) -> Budget:
        """The limit of GraphQL, where it is counted apart, with its reset converted to our clock."""
        left = self._queries
        reset_at = None if left.reset_at is None else left.reset_at - (self.skew_ms or 0)
        return Budget(left.remaining, reset_at, left.allowed)

    @property
    def wait_seconds(self) -> float:
        """How long the server's limits delay the next request."""
        return max(0.0, self._blocked_until - self._clock.monotonic())

    def too_long(self, seconds: float) -> bool:
        """Return whether a wait is longer than `max_wait_seconds`."""
        return seconds > self._max_wait_seconds

    async def admit(self, *, points: int = 0) -> None:
        """Wait until a request may be sent; raise RateLimited if the wait would be too long, or no request is left.

        A request that was admitted must be given back with `release` after its response. A query of GraphQL says what
        it will probably cost.
        """
        await self._admit()
        if self._allowance is not None:
            self._allowance.take(self._origin, self._left(points))
        self._in_flight += 1
        self._points_in_flight += points

    def release(self, *, answered: bool, points: int = 0) -> None:
        """Say that an admitted request has ended, with a response or without."""
        self._in_flight -= 1
        self._points_in_flight -= points
        if not answered:
            self._spend_unseen()
            if self._grants is not None:
                self._grants.lost()

    def _spend_unseen(self) -> None:
        """Count a request against the limit although its response did not say what is left."""
        self._least = None if self._least is None else self._least - 1

    def _left(self, points: int) -> int | None:
        """Return how many requests the server still allows, those in flight deducted; None if that is unknown.

        For a query, the points that are left when all but the last of its own points are spent.
        """
        remaining, reset_at, used = self._least, self.budget.reset_at, self._in_flight
        if points and self._queries.remaining is not None:
            remaining, reset_at = self._queries.remaining, self.points.reset_at
            used = self._points_in_flight + points - 1
        is_over = reset_at is not None and reset_at <= self._clock.now_ms()
        return None if remaining is None or is_over else remaining - used

    async def _admit(self) -> None:
        # The server may set a limit while a request waits for its slot; then it has to wait again.
        while True:
            await self._wait_for_server()
            await self._wait_for_slot()
            if not self.wait_seconds and not await self._wait_for_grant():
                return

    async def _wait_for_grant(self) -> bool:
        """Take a request from the limit that is shared with other processes; return whether there was none yet."""
        if self._grants is None:
            return False
        wait = await self._grants.take()
        self._blocked_until = max(self._blocked_until, self._clock.monotonic() + wait) if wait else self._blocked_until
        return wait > 0

    async def _wait_for_server(self) -> None:
        while (wait := self.wait_seconds) > 0:
            if self.too_long(wait):
                raise RateLimited(
                    f"the server asked for a pause of {wait:.0f} s",
                    retry_after_seconds=wait,
                    url=self._origin or None,
                    reason="rate_limit",
                    fix=retry_advice(wait),
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
        """Update the limits from a response; the wait it asks for can only extend the current one."""
        now = self._clock.monotonic()
        measured_ms = self._clock.now_ms() if server_ms is None else server_ms
        budget = read_budget(headers, measured_ms)
        self.skew_ms = measured_ms - self._clock.now_ms()
        if budget.remaining is not None:
            # Responses arrive in any order, and within a window the lowest number is the newest.
            is_known = self._least is not None and budget.reset_at == self.reset_at
            self._least = min(budget.remaining, self._least or 0) if is_known else budget.remaining
            self.remaining, self.reset_at, self.allowed = budget.remaining, budget.reset_at, budget.allowed
        elif _counts_queries(headers):
            self._queries = _newer(self._queries, _read_budget(headers, measured_ms))
        else:
            self._spend_unseen()
        if self._grants is not None:
            # The limit of GraphQL queries is counted apart; it is not shared.
            self._grants.answered(self.budget if budget.remaining is not None else UNKNOWN)
        verdict = classify_limit(
            status, headers, body, budget, measured_ms, self._strikes, self._unexplained_wait_seconds
        )
        if verdict.rule == "queries":
            return verdict
        # Requests that were in flight together count as one violation, and successful ones among them do not clear it.
        if now >= self._blocked_until:
            self._strikes = self._strikes + 1 if verdict.rule == "secondary" else 0
        elif verdict.rule == "secondary":
            return Verdict(self.wait_seconds, "secondary", limited=True)
        if verdict.wait_seconds > 0:
            longer = now + verdict.wait_seconds - max(self._blocked_until, now)
            self._blocked_until = max(self._blocked_until, now + verdict.wait_seconds)
            until_ms = self._clock.now_ms() + round(verdict.wait_seconds * 1000)
            if self._on_pause is not None and longer >= _LEAST_WAIT_SECONDS:
                self._on_pause(until_ms)
            if self._grants is not None:
                self._grants.paused(until_ms)
        return verdict


def _newer(known: Budget, told: Budget) -> Budget:
    """Return what is left after another answer: within a window the lowest number is the newest."""
    if told.remaining is None or known.remaining is None or told.reset_at != known.reset_at:
        return told
    return told if told.remaining <= known.remaining else known


def _speaks_of_limits(body: bytes) -> bool:
    text = body[:4096].lower()
    return any(word in text for word in _LIMIT_WORDS)


SILENCES_UNTIL_OUT = 2


def got_no_response(error: BaseException | None) -> bool:
    """Return whether an error means that the server sent no response at all."""
    return isinstance(error, RemoteTransient) and not isinstance(error, RateLimited) and error.status is None


def stops_source(error: RemoteError) -> bool:
    """Return whether an error concerns every request to its source: rejected credentials or a used up rate limit."""
    return isinstance(error, CredentialsRejected | RateLimited)


class SourceOutages:
    """The sources, or servers of a source, that the current run no longer requests, and why (`out`).

    One is out after so many scopes in a row whose errors count as `counts` says; with `most` None, never for that.
    """

    def __init__(
        self,
        most: int | None = SILENCES_UNTIL_OUT,
        counts: Callable[[RemoteError], bool] = got_no_response,
        out: dict[str, TideloreError] | None = None,
    ) -> None:
        self.out: dict[str, TideloreError] = {} if out is None else out
        self._most = most
        self._counts = counts
        self._failures: dict[str, int] = {}
        self._heard: set[str] = set()

    def reason(self, source: str) -> TideloreError | None:
        """Return why a source is no longer requested, or None."""
        return self.out.get(source)

    def answered(self, source: str) -> None:
        """Record that a scope was read."""
        self._heard.add(source)
        self._failures.pop(source, None)

    def failed(self, source: str, error: RemoteError) -> None:
        """Record that a scope could not be read.

        Rejected credentials and an exhausted rate limit stop the source at once. By default a source that sends no
        response is stopped after two scopes in a row: one list that never responds does not stop the others, and a
        host that is down costs one round of waiting however many scopes it has.
        """
        if stops_source(error):
            self.out[source] = error
        elif self._counts(error):
            self._count(source, error)

    def refused(self, source: str, error: RemoteError) -> None:
        """Record a refusal. If the source has answered for another scope, it concerns the scope, not the source."""
        if source not in self._heard:
            self._count(source, error)

    def _count(self, source: str, error: RemoteError) -> None:
        self._failures[source] = self._failures.get(source, 0) + 1
        if self._most is not None and self._failures[source] >= self._most:
            self.out[source] = error
