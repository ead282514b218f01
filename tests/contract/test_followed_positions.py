"""Positions of a followed repository when our clock is wrong, or the position of a feed is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.situations.feedback.bench import REPO, Bench

from tidelore_world.world import World

DAY = 86_400


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    world = World()
    world.github.settings.anonymous_limit = None
    world.github.create_repo(REPO)
    world.github.create_pull(REPO, "Change", author="robin")
    world.advance(60)
    return Bench(world, tmp_path)


@pytest.mark.parametrize("skew_ms", [200_000, -200_000])
def test_feeds_start_at_the_servers_time_whatever_our_clock_shows(bench: Bench, skew_ms: int) -> None:
    bench.skew_ms = skew_ms
    bench.host["fetch"] = "repo"
    bench.track(1)
    bench.poll()
    bench.world.advance(30)
    bench.hub.comment(REPO, 1, "soon after")
    bench.poll()
    assert bench.bodies() == ["soon after"]


def test_a_thread_does_not_take_over_an_impossible_position_of_its_feed(bench: Bench) -> None:
    bench.host["fetch"] = "repo"
    bench.track(1)
    bench.settle(2)
    bench.write(
        "UPDATE cursors SET watermark_at = 9999999999999 WHERE surface LIKE 'github.%' AND scope NOT LIKE '%#%'"
    )
    bench.hub.comment(REPO, 1, "long before the next poll")
    bench.world.advance(3 * DAY)
    bench.host["fetch"] = "thread"
    bench.settle(2)
    assert bench.bodies() == ["long before the next poll"]


def test_a_merge_before_the_feeds_start_is_noticed_however_deep_it_lies_in_the_list(bench: Bench) -> None:
    bench.per_page = 2
    bench.host["fetch"] = "thread"
    bench.track(1)
    bench.settle(2)
    bench.hub.merge(REPO, 1)
    for number in range(5):
        bench.world.advance(60)
        bench.hub.create_pull(REPO, f"Later {number}", author="noor")
    bench.world.advance(60)
    bench.host["fetch"] = "repo"
    bench.settle(2)
    assert bench.row(1).status == "merged"
