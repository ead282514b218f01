"""Faults on pages, unreadable items, rate limits: nothing is lost, and what can go on goes on."""

from __future__ import annotations

import re

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.test_comments import later
from tests.situations.github.test_features import begin, live
from tests.support.deep import gate_cases

from tidelore.core.errors import PartialSuccess, RateLimited
from tidelore.sync.report import run_verdict
from tidelore_world.faults import Kind

LISTS = ("pulls", "issues", "issues/comments", "pulls/comments")
CHILDREN = ("timeline", "files", "graphql")
OTHER_FAULTS: tuple[Kind, ...] = ("timeout", "disconnect", "not_json")
HOUR = 3600


def change_everything(house: GitHubHouse) -> None:
    """Let something new stand in every list."""
    forge = house.forge
    forge.comment(REPO, 1, "more on the issue")
    forge.comment(REPO, 4, "more on the pull request")
    forge.review_comment(REPO, 5, "more on a line")
    forge.review(REPO, 5, "APPROVED", "fine")
    forge.push(REPO, 4)
    forge.create_issue(REPO, "one more", "text")
    forge.create_pull(REPO)
    forge.close(REPO, 2)
    house.world.advance(60)


@pytest.mark.parametrize(
    "fault", ["status", "truncated", *(pytest.param(kind, marks=pytest.mark.deep) for kind in OTHER_FAULTS)]
)
@pytest.mark.parametrize("route", [*LISTS, *CHILDREN])
@gate_cases(4)
def test_a_list_that_fails_once_in_every_try_is_complete_after_the_next_run(
    house: GitHubHouse, route: str, fault: Kind
) -> None:
    begin(house)
    change_everything(house)
    house.world.faults.add(fault, re.compile(rf"{route}$"), 4)
    house.run()
    assert house.world.faults.fired() > 0
    house.world.faults.clear()
    for _ in range(2):
        house.world.advance(HOUR)
        house.run()
    assert house.differences() == []


@pytest.mark.parametrize("route", LISTS)
@gate_cases(2)
def test_an_unreadable_item_is_quarantined_alone_and_released_when_it_can_be_read(
    both: GitHubHouse, route: str
) -> None:
    begin(both)
    change_everything(both)
    both.world.faults.add("invalid_timestamp", re.compile(rf"{route}$"), 1)
    both.run()
    assert both.world.faults.fired() > 0
    assert both.column("SELECT COUNT(*) FROM quarantine") == [1]
    both.world.faults.clear()
    for _ in range(4):
        both.world.advance(8 * 24 * HOUR)
        both.sync(scrub_budget=400)
    assert both.column("SELECT COUNT(*) FROM quarantine") == [0]
    assert both.differences() == []


@pytest.mark.parametrize("route", [*LISTS, "timeline", "files"])
@pytest.mark.parametrize(
    "shape", ["no_id", *(pytest.param(kind, marks=pytest.mark.deep) for kind in ("null", "string"))]
)
@gate_cases(2)
def test_a_malformed_item_stops_nothing_and_deletes_nothing(house: GitHubHouse, route: str, shape: str) -> None:
    begin(house)
    before = live(house)
    change_everything(house)
    house.world.faults.add("malformed_item", re.compile(rf"{route}$"), 2, shape=shape)
    house.run()
    assert house.world.faults.fired() > 0
    assert all(now >= then for now, then in zip(live(house), before, strict=True))
    house.world.faults.clear()
    for _ in range(4):
        house.world.advance(8 * 24 * HOUR)
        house.sync(scrub_budget=400)
    assert house.differences() == []


def test_an_exhausted_graphql_limit_does_not_stop_rest(both: GitHubHouse) -> None:
    begin(both)
    change_everything(both)
    both.forge.settings.graphql_limit = 0
    report = both.run()
    assert report is not None
    assert [scope.error for scope in report.scopes] == [None] * len(report.scopes)
    assert live(both) == (4, 3, 10), "all lists were read"
    assert not [found for found in both.differences() if found.startswith(("file", "state event", "comment"))]
    assert isinstance(run_verdict(report.scopes), PartialSuccess), "what is read by queries is missing"
    both.forge.settings.graphql_limit = 5000
    both.world.advance(2 * HOUR)
    both.verify()
    assert both.differences() == []


@pytest.mark.parametrize("status", [403, 429])
def test_an_exhausted_graphql_limit_that_is_answered_by_a_status_does_not_stop_rest(
    house: GitHubHouse, status: int
) -> None:
    begin(house)
    change_everything(house)
    reset = house.world.clock.now_us // 1_000_000 + HOUR
    house.world.faults.add(
        "status",
        "POST /graphql",
        None,
        status=status,
        rate_limited=False,
        headers={
            "x-ratelimit-resource": "graphql",
            "x-ratelimit-limit": "5000",
            "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": str(reset),
        },
        message="API rate limit exceeded for this user.",
    )
    began = house.world.clock.now_us
    report = house.run()
    assert report is not None
    assert house.world.faults.fired() == 1
    assert [scope.error for scope in report.scopes] == [None] * len(report.scopes)
    assert live(house) == (4, 3, 10), "all lists were read"
    assert house.world.clock.now_us - began < 10_000_000, "nothing waited"
    assert isinstance(run_verdict(report.scopes), PartialSuccess)
    house.world.faults.clear()
    house.world.advance(2 * HOUR)
    house.verify()
    assert house.differences() == []


def test_an_exhausted_graphql_limit_asks_for_no_more_queries_in_that_run(house: GitHubHouse) -> None:
    begin(house)
    for _ in range(3):
        house.forge.create_pull(REPO)
    house.forge.settings.graphql_limit = 0
    house.world.advance(60)
    assert house.requests(house.run)["POST /graphql"] == 1


def test_an_exhausted_rest_limit_stops_the_source_and_the_next_process_waits_too(house: GitHubHouse) -> None:
    begin(house)
    change_everything(house)
    house.forge.limits.spend(house.token or "", 10_000)
    report = house.run()
    assert report is not None
    assert all(isinstance(scope.error, RateLimited) for scope in report.scopes)
    assert house.requests(house.run).total() == 0, "the pause is stored"
    house.world.advance(HOUR + 60)
    later(house)
    later(house)
    assert house.differences() == []


def test_a_short_pause_is_waited_for(house: GitHubHouse) -> None:
    begin(house)
    change_everything(house)
    house.forge.limits.impose_secondary(1, retry_after=20)
    house.sync()
    later(house)
    assert house.differences() == []
