"""Pauses that a server asks for: told as a rate limit, and respected by the next process."""

from __future__ import annotations

from tests.situations.gitlab.bench import DAY, PROJECT, Bench

LISTS = "GET /projects/:id/merge_requests"


def test_the_next_process_keeps_to_a_pause_without_a_request(both: Bench) -> None:
    bench = both
    bench.world.gitlab.bulk(PROJECT, merge_requests=2)
    bench.world.advance(DAY)
    bench.mirror()
    fault = bench.world.faults.add("status", LISTS, times=None, status=429, retry_after=3600)
    assert bench.try_mirror().code == 5
    assert fault.fired == 1
    bench.world.faults.clear()
    before = bench.world.requests.total()
    outcome = bench.try_mirror()
    assert (outcome.code, outcome.error["code"]) == (5, "RATE_LIMITED")
    assert outcome.error["details"]["retry_after_seconds"] > 3000
    assert bench.world.requests.total() == before, "the server asked for an hour"
    bench.query("UPDATE source_pauses SET until_at = until_at - 3600000")
    assert bench.try_mirror().code == 0


def test_a_pause_of_years_is_kept_for_a_day(bench: Bench) -> None:
    bench.world.gitlab.bulk(PROJECT, merge_requests=1)
    bench.world.faults.add("status", LISTS, status=429, retry_after=10**8)
    assert bench.try_mirror().code == 5
    assert bench.one("SELECT until_at - updated_at FROM source_pauses") == DAY * 1000


def test_a_pause_longer_than_a_named_item_may_take_is_a_rate_limit_and_no_timeout(bench: Bench) -> None:
    bench.set_up("surgical_entity_timeout_seconds = 1", retries=1)
    bench.world.gitlab.bulk(PROJECT, merge_requests=1)
    bench.world.advance(DAY)
    bench.mirror()
    bench.world.faults.add("status", LISTS, status=429, retry_after=120)
    outcome = bench.robot("sync", "--mr", f"{PROJECT}!1", "--no-embed")
    assert outcome.code == 5
    assert [failure["code"] for failure in outcome.error["details"]["entity_failures"]] == ["RATE_LIMITED"]
