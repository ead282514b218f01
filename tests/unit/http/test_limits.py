"""When the next request may leave: what the server says about its limits, and a pace of our own."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.manual_clock import ManualClock

from tidelore.core.errors import BudgetSpent, RateLimited
from tidelore.http.limits import (
    SECONDARY_WAIT_SECONDS,
    Budget,
    Governor,
    RequestAllowance,
    Verdict,
    classify_limit,
    read_budget,
)

NOW = 1_772_442_000_000


def _judge(status: int, body: bytes = b"", strikes: int = 0, **headers: str) -> Verdict:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return classify_limit(status, fields, body, read_budget(fields, NOW), NOW, strikes)


def test_retry_after_takes_precedence_over_the_rate_limit_reset() -> None:
    reset = str(NOW // 1000 + 900)
    verdict = _judge(429, retry_after="7", ratelimit_remaining="0", ratelimit_reset=reset)
    assert verdict == Verdict(7.0, "retry-after", limited=True)


@pytest.mark.parametrize("prefix", ["ratelimit", "x-ratelimit"])
@pytest.mark.parametrize("status", [200, 403, 429])
def test_an_exhausted_rate_limit_waits_for_its_reset(prefix: str, status: int) -> None:
    headers = {f"{prefix}-remaining": "0", f"{prefix}-reset": str(NOW // 1000 + 30)}
    verdict = classify_limit(status, headers, b"", read_budget(headers, NOW), NOW)
    assert verdict == Verdict(30.0, "reset", limited=status != 200)


def test_a_reset_given_in_remaining_seconds_is_parsed() -> None:
    assert read_budget({"ratelimit-remaining": "3", "ratelimit-reset": "25"}, NOW) == Budget(3, NOW + 25_000)


def test_a_reset_in_the_past_holds_back_only_a_refused_request() -> None:
    past = str(NOW // 1000 - 30)
    assert _judge(200, x_ratelimit_remaining="0", x_ratelimit_reset=past) == Verdict(0.0, "none", limited=False)
    assert _judge(429, x_ratelimit_remaining="0", x_ratelimit_reset=past) == Verdict(1.0, "reset", limited=True)


def test_a_rate_limit_without_a_time_waits_a_minute_and_doubles() -> None:
    assert _judge(429) == Verdict(SECONDARY_WAIT_SECONDS, "secondary", limited=True)
    assert _judge(403, b'{"message":"You have exceeded a secondary Rate Limit"}', 2).wait_seconds == 240


def test_a_403_with_remaining_requests_is_not_a_rate_limit() -> None:
    verdict = _judge(403, b'{"message":"Must have admin rights"}', x_ratelimit_remaining="4999", x_ratelimit_reset="1")
    assert verdict == Verdict(0.0, "none", limited=False)


def test_a_503_with_retry_after_pauses_without_counting_as_a_rate_limit() -> None:
    assert _judge(503, retry_after="20") == Verdict(20.0, "retry-after", limited=False)


def test_retry_after_on_a_successful_response_is_ignored() -> None:
    assert _judge(202, retry_after="20") == Verdict(0.0, "none", limited=False)


def _blocked(clock: ManualClock, seconds: str, max_wait_seconds: float = 300.0) -> Governor:
    governor = Governor(clock, origin="https://h", max_wait_seconds=max_wait_seconds)
    governor.observe(429, {"retry-after": seconds}, b"", clock.now_ms())
    return governor


def test_every_request_waits_until_the_rate_limit_ends() -> None:
    async def run() -> None:
        clock = ManualClock()
        governor = _blocked(clock, "30")
        await asyncio.gather(governor.admit(), governor.admit())
        assert clock.monotonic() >= 30
        assert governor.wait_seconds == 0

    asyncio.run(run())


def test_a_wait_beyond_the_maximum_is_raised_instead_of_slept() -> None:
    async def run() -> None:
        clock = ManualClock()
        governor = _blocked(clock, "301")
        with pytest.raises(RateLimited) as caught:
            await governor.admit()
        assert caught.value.retry_after_seconds == 301
        assert caught.value.url == "https://h"
        assert "in 6 minutes" in (caught.value.fix or "")
        assert clock.slept == []
        clock.advance(1)
        await governor.admit()
        assert clock.slept == [300]

    asyncio.run(run())


def test_a_later_response_can_only_lengthen_the_wait() -> None:
    clock = ManualClock()
    governor = _blocked(clock, "30")
    governor.observe(429, {"retry-after": "5"}, b"", clock.now_ms())
    governor.observe(200, {}, b"", clock.now_ms())
    assert governor.wait_seconds == 30
    governor.observe(429, {"retry-after": "60"}, b"", clock.now_ms())
    assert governor.wait_seconds == 60


def test_concurrent_refusals_count_as_one_back_off_step() -> None:
    clock = ManualClock()
    governor = Governor(clock)
    waits = [governor.observe(429, {}, b"", None).wait_seconds for _ in range(5)]
    assert waits == [60.0] * 5
    clock.advance(60)
    assert governor.observe(429, {}, b"", None).wait_seconds == 120
    clock.advance(120)
    governor.observe(200, {}, b"", None)
    assert governor.observe(429, {}, b"", None).wait_seconds == 60


def test_the_remaining_budget_can_be_read() -> None:
    clock = ManualClock()
    governor = Governor(clock)
    assert (governor.remaining, governor.reset_at) == (None, None)
    told = {"x-ratelimit-remaining": "41", "x-ratelimit-limit": "60", "x-ratelimit-reset": "1772442100"}
    governor.observe(200, told, b"", NOW)
    governor.observe(200, {}, b"", NOW)
    assert (governor.remaining, governor.reset_at) == (41, 1_772_442_100_000)
    assert governor.budget.allowed == 60
    governor.observe(200, {"ratelimit-remaining": "40", "ratelimit-limit": "100, 100;w=60"}, b"", NOW)
    assert governor.budget.remaining == 40
    assert governor.budget.allowed is None


def test_a_fixed_pace_spreads_requests_evenly() -> None:
    async def run() -> list[float]:
        clock = ManualClock()
        governor = Governor(clock, rate_limit_rps=4)
        starts = []
        for _ in range(4):
            await governor.admit()
            starts.append(clock.monotonic())
        clock.advance(10)
        await governor.admit()
        assert clock.monotonic() == starts[-1] + 10
        return starts

    assert asyncio.run(run()) == [0.0, 0.25, 0.5, 0.75]


def test_a_limit_that_falls_while_a_request_waits_for_its_slot_is_respected() -> None:
    class Interrupting(ManualClock):
        async def sleep(self, seconds: float) -> None:
            if len(self.slept) == 0:
                governor.observe(429, {"retry-after": "30"}, b"", self.now_ms())
            await super().sleep(seconds)

    async def run() -> float:
        await governor.admit()
        await governor.admit()
        return clock.monotonic()

    clock = Interrupting()
    governor = Governor(clock, rate_limit_rps=1)
    assert asyncio.run(run()) >= 30


def test_a_pause_that_begins_is_handed_out_once_and_one_of_an_earlier_process_is_kept() -> None:
    clock = ManualClock()
    told: list[int] = []
    governor = Governor(clock, on_pause=told.append)
    for _ in range(3):
        governor.observe(429, {"retry-after": "60"}, b"", clock.now_ms())
    assert told == [clock.now_ms() + 60_000]
    assert Governor(clock, paused_until=told[0]).wait_seconds == 60


def test_a_reserve_of_points_is_kept_from_the_whole_cost_of_queries_in_flight() -> None:
    async def run() -> None:
        clock = ManualClock()
        governor = Governor(clock, allowance=RequestAllowance(reserve=100))
        told = {"limit": "5000", "remaining": "120", "reset": f"{clock.now_ms() // 1000 + 60}", "resource": "graphql"}
        governor.observe(200, {f"x-ratelimit-{name}": value for name, value in told.items()}, b"", clock.now_ms())
        # An answer that arrives late says what was left before.
        late = {f"x-ratelimit-{name}": value for name, value in (told | {"remaining": "134"}).items()}
        governor.observe(200, late, b"", clock.now_ms())
        assert governor.points.remaining == 120
        with pytest.raises(BudgetSpent):
            await governor.admit(points=21)
        await governor.admit(points=14)
        with pytest.raises(BudgetSpent):
            await governor.admit(points=7)
        await governor.admit(points=6)
        # Other requests have a limit of their own, and the points come back.
        await governor.admit()
        clock.advance(61)
        await governor.admit(points=14)

    asyncio.run(run())
