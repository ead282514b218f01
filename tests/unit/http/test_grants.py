"""Requests that several processes are granted from one rate limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import RateLimited
from tidelore.http.grants import (
    LARGEST_GRANT,
    PROBE_MS,
    RESET_MARGIN_MS,
    Grant,
    Grants,
    Report,
    SharedBudget,
    grant,
    settle,
)
from tidelore.http.limits import Budget, Governor

NOW = 1_700_000_000_000
RESET = NOW + 60_000
KNOWN = SharedBudget(remaining=100, allowed=100, reset_at=RESET, is_known=True)
T = TypeVar("T")


def test_while_the_limit_is_unknown_one_request_is_granted_and_others_wait_for_its_response() -> None:
    state, first = grant(SharedBudget(), NOW)
    assert (first.requests, first.from_at) == (1, NOW)
    state, second = grant(state, NOW + 10)
    assert second.requests == 0
    assert second.from_at <= NOW + PROBE_MS
    state = settle(state, Report(1, Budget(99, RESET, 100)), NOW + 20)
    state, third = grant(state, NOW + 20)
    assert 0 < third.requests <= LARGEST_GRANT


def test_a_probe_that_was_lost_is_repeated() -> None:
    state, _ = grant(SharedBudget(), NOW)
    _, again = grant(state, NOW + PROBE_MS)
    assert again.requests == 1


def test_a_server_without_limits_gives_full_grants() -> None:
    state = settle(SharedBudget(), Report(1, Budget(None, None)), NOW)
    for _ in range(50):
        state, granted = grant(state, NOW)
        assert granted.requests == LARGEST_GRANT


def test_grants_together_are_what_is_left_and_then_all_wait_for_the_reset() -> None:
    state, total = KNOWN, 0
    while True:
        state, granted = grant(state, NOW)
        if not granted.requests:
            break
        assert granted.until_at == RESET
        total += granted.requests
    assert total == 100
    assert granted.from_at == RESET + RESET_MARGIN_MS


def test_what_was_granted_and_not_sent_yet_is_taken_off_what_the_server_reports() -> None:
    """The server has seen 10 requests of another program; 6 of our own are on their way."""
    state, granted = grant(KNOWN, NOW)
    assert granted.requests == 6
    state = settle(state, Report(0, Budget(90, RESET, 100)), NOW)
    assert state.remaining == 84


def test_an_older_response_does_not_raise_what_is_left() -> None:
    state = settle(replace(KNOWN, remaining=40), Report(1, Budget(90, RESET, 100)), NOW)
    assert state.remaining == 40
    assert settle(state, Report(1, Budget(90, RESET + 1_000, 100)), NOW).remaining == 40, "rounded otherwise"


def test_after_the_reset_the_whole_limit_is_there_again_and_old_responses_do_not_count() -> None:
    spent = replace(KNOWN, remaining=0, outstanding=7)
    _, granted = grant(spent, RESET)
    assert granted.requests == 0, "the clock of the server is known to the second"
    state, granted = grant(spent, RESET + RESET_MARGIN_MS)
    assert granted.requests > 0
    assert (state.remaining, state.outstanding) == (100 - granted.requests, granted.requests)
    late = settle(state, Report(0, Budget(3, RESET, 100)), RESET + RESET_MARGIN_MS)
    assert late.remaining == state.remaining
    confirmed = settle(late, Report(granted.requests, Budget(93, RESET + 60_000, 100)), RESET + 2_000)
    assert confirmed.reset_at == RESET + 60_000
    assert confirmed.remaining == 93


def test_a_pause_of_one_process_holds_for_all() -> None:
    state = settle(KNOWN, Report(1, None, NOW + 30_000), NOW)
    assert grant(state, NOW)[1] == Grant(0, NOW + 30_000)
    assert grant(state, NOW + 30_000)[1].requests > 0


def test_a_configured_rate_is_shared() -> None:
    state, begins = settle(SharedBudget(), Report(1, Budget(None, None)), NOW), []
    for _ in range(3):
        state, granted = grant(state, NOW, 4.0)
        assert granted.requests == 4
        begins.append(granted.from_at - NOW)
    assert begins == [0, 1000, 2000]


class Pool:
    """A shared budget in memory."""

    def __init__(self, clock: ManualClock, state: SharedBudget) -> None:
        self.clock, self.state, self.reports = clock, state, list[Report]()

    def exchange(self, key: str, report: Report, requests_per_second: float) -> Grant:
        self.reports.append(report)
        now = self.clock.now_ms()
        self.state, granted = grant(settle(self.state, report, now), now, requests_per_second)
        return granted


async def at_once(act: Callable[[], T]) -> T:
    return act()


def test_clients_of_several_processes_together_send_no_more_than_the_limit() -> None:
    clock = ManualClock()
    reset_at = clock.now_ms() + 60_000
    pool = Pool(clock, SharedBudget(remaining=50, allowed=50, reset_at=reset_at, is_known=True))
    sent = 0

    async def client() -> None:
        nonlocal sent
        governor = Governor(clock, grants=Grants(pool, "host", clock, in_thread=at_once), max_wait_seconds=10)
        while True:
            try:
                await governor.admit()
            except RateLimited:
                return
            sent += 1
            left = str(50 - sent)
            headers = {"ratelimit-remaining": left, "ratelimit-limit": "50", "ratelimit-reset": str(reset_at // 1000)}
            await asyncio.sleep(0)
            governor.observe(200, headers, b"", clock.now_ms())
            governor.release(answered=True)

    async def all_of_them() -> None:
        await asyncio.gather(*(client() for _ in range(4)))

    asyncio.run(all_of_them())
    assert 40 <= sent <= 50


def test_a_process_tells_with_its_next_grant_what_it_learnt() -> None:
    clock = ManualClock()
    pool = Pool(clock, SharedBudget(remaining=16, allowed=50, reset_at=clock.now_ms() + 60_000, is_known=True))
    grants = Grants(pool, "host", clock, in_thread=at_once)

    async def go() -> list[float]:
        first = await grants.take()
        grants.answered(Budget(12, clock.now_ms() + 60_000, 50))
        grants.lost()
        grants.paused(clock.now_ms() + 5_000)
        return [first, await grants.take()]

    assert asyncio.run(go()) == [0.0, 5.0]
    assert pool.reports[1] == Report(2, Budget(12, clock.now_ms() + 60_000, 50), clock.now_ms() + 5_000)
