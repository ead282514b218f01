"""A repository is polled by its feeds or by its threads, whichever is cheaper, unless the configuration says."""

from __future__ import annotations

from typing import Literal

import pytest

from tidelore.sync.followed import FEEDS, FollowedCounts, choose_fetch_mode, estimate_feed_requests

MANY, ONE_ISSUE = FollowedCounts(pulls=20), FollowedCounts(issues=1)


@pytest.mark.parametrize("following", [MANY, ONE_ISSUE])
@pytest.mark.parametrize("wanted", ["repo", "thread"])
def test_a_configured_mode_is_used_whatever_it_costs(
    wanted: Literal["repo", "thread"], following: FollowedCounts
) -> None:
    assert choose_fetch_mode(wanted, following, 1000.0) == wanted
    assert choose_fetch_mode(wanted, following, None) == wanted


@pytest.mark.parametrize(
    ("following", "feed_requests", "mode"),
    [
        (MANY, None, "repo"),
        (ONE_ISSUE, None, "thread"),
        (FollowedCounts(pulls=1), None, "repo"),
        (FollowedCounts(pulls=1), 3.0, "repo"),
        (FollowedCounts(pulls=1), 3.1, "thread"),
        (MANY, 60.0, "repo"),
        (MANY, 60.1, "thread"),
    ],
)
def test_the_cheaper_mode_is_chosen_by_itself(
    following: FollowedCounts, feed_requests: float | None, mode: str
) -> None:
    assert choose_fetch_mode("auto", following, feed_requests) == mode


def test_the_expected_cost_of_feeds_follows_their_cost_and_sinks_while_they_are_not_read() -> None:
    costly = estimate_feed_requests(None, "repo", 30)
    assert FEEDS < costly < 30
    assert estimate_feed_requests(costly, "repo", 30) > costly
    assert estimate_feed_requests(costly, "repo", 0) >= FEEDS
    assert FEEDS < estimate_feed_requests(costly, "thread", 3) < costly
    assert estimate_feed_requests(FEEDS, "thread", 3) == FEEDS
