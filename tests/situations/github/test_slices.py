"""Runs with very few requests: every list of a repository has its turn, however few they are."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace
from tests.situations.github.house import BOTH, REPO, GitHubHouse

from tidelore.app.mirroring import mirror
from tidelore.http.limits import RequestAllowance
from tidelore.sync.mirror import MirrorRequest
from tidelore.sync.report import RunReport

_REPO = "GET /repos/:owner/:repo"
LISTS = Counter(f"{_REPO}/{name}" for name in ("pulls", "issues", "issues/comments", "pulls/comments"))


def sync_with(house: GitHubHouse, requests: int) -> RunReport:
    """Mirror once with at most this many requests, a minute after the last run."""
    house.world.advance(60)
    allowance = RequestAllowance(requests)
    wanted = MirrorRequest(BOTH, allowance=allowance)
    return asyncio.run(mirror(replace(house.app(), allowance=allowance), wanted, "lore sync"))


@pytest.mark.parametrize("requests", [1, 2, 3])
def test_runs_with_fewer_requests_than_lists_read_every_list_in_turn(house: GitHubHouse, requests: int) -> None:
    house.forge.bulk(REPO, pulls=2, issues=2, threads=1, comments=1)
    house.world.advance(3600)
    house.sync()
    house.world.advance(60)
    house.sync()
    spent = house.requests(lambda: [sync_with(house, requests) for _ in range(4)])
    assert spent.keys() == LISTS.keys()
    assert min(spent.values()) >= (requests + 1) // 2


@pytest.mark.parametrize("requests", [1, 2, 3])
def test_new_comments_are_stored_by_runs_with_fewer_requests_than_lists(house: GitHubHouse, requests: int) -> None:
    house.forge.bulk(REPO, pulls=2, issues=2, threads=1, comments=1)
    house.world.advance(3600)
    house.sync()
    house.world.advance(60)
    house.forge.comment(REPO, 3, "on an issue")
    house.forge.review_comment(REPO, 1, "on a diff")
    for _ in range(8):
        sync_with(house, requests)
    assert {"on an issue", "on a diff"} <= set(house.column("SELECT body FROM notes"))


def test_a_list_that_was_left_is_continued_before_the_lists_that_need_it(house: GitHubHouse) -> None:
    house.settings["http"] = {"per_page": 2}
    house.forge.bulk(REPO, pulls=1, issues=1, threads=1, comments=1)
    house.world.advance(3600)
    house.sync()
    for number in range(8):
        house.forge.comment(REPO, house.forge.create_issue(REPO, f"issue {number}", "text").number, "a comment")
        house.world.advance(60)
    spent = house.requests(lambda: [sync_with(house, 3) for _ in range(4)])
    assert spent[f"{_REPO}/issues/:n"] == 0
