"""What a run costs: a quiet one four conditional requests, a change little more, whatever the repository's size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.support.deep import gate_cases

from tidelore_world.github.forge import GitHubForge

_REPO = "GET /repos/:owner/:repo"
PULLS, ISSUES = f"{_REPO}/pulls", f"{_REPO}/issues"
TIMELINE, FILES = f"{_REPO}/issues/:n/timeline", f"{_REPO}/pulls/:n/files"
GRAPHQL = "POST /graphql"
QUIET = Counter({PULLS: 1, ISSUES: 1, f"{ISSUES}/comments": 1, f"{PULLS}/comments": 1})

MOVED_ISSUE = Counter({TIMELINE: 1})
"""What an issue that moved costs more than a quiet run."""
MOVED_PULL = Counter({TIMELINE: 1, GRAPHQL: 1})
"""What a pull request that moved costs more than a quiet run: one query for threads, closing issues and reviews."""
MOST_FOR_A_COMMENT = 2


def fill(house: GitHubHouse, pulls: int) -> int:
    """Mirror a repository with some issues and this many pull requests, the first of which is #1; return an issue."""
    house.forge.bulk(REPO, pulls=pulls, issues=3, threads=2, comments=2)
    house.world.advance(3600)
    house.sync()
    # The next run asks with the new positions, so it is the one after it whose answers can be known already.
    house.sync()
    return pulls + 1


def statuses(house: GitHubHouse, act: Callable[[], object]) -> list[int]:
    """The statuses that the world answers meanwhile."""
    before = len(house.world.log)
    act()
    return [status for _, _, status in house.world.log[before:]]


@pytest.mark.parametrize("pulls", [1, 5, 500])
@gate_cases(2)
def test_a_quiet_run_is_four_conditional_requests_for_any_number_of_pull_requests(
    house: GitHubHouse, pulls: int
) -> None:
    fill(house, pulls)
    for _ in range(3):
        house.world.advance(60)
        assert statuses(house, lambda: house.requests_are(QUIET)) == [304] * 4


@pytest.mark.parametrize("pulls", [5, 150])
@pytest.mark.parametrize(
    ("change", "more"),
    [
        pytest.param(lambda hub, issue: hub.comment(REPO, issue, "new"), MOVED_ISSUE, id="comment on an issue"),
        pytest.param(lambda hub, _: hub.comment(REPO, 1, "new"), MOVED_PULL, id="comment on a pull request"),
        pytest.param(lambda hub, _: hub.review_comment(REPO, 1, "new"), MOVED_PULL, id="review comment"),
        pytest.param(lambda hub, _: hub.review(REPO, 1, "APPROVED", "fine"), MOVED_PULL, id="review"),
        pytest.param(lambda hub, _: hub.close(REPO, 1), MOVED_PULL, id="closed pull request"),
        pytest.param(lambda hub, _: hub.create_issue(REPO, "t", "b"), MOVED_ISSUE, id="new issue"),
        pytest.param(lambda hub, _: hub.push(REPO, 1), MOVED_PULL + Counter({FILES: 1}), id="push"),
        pytest.param(lambda hub, _: hub.create_pull(REPO), MOVED_PULL + Counter({FILES: 1}), id="new pull request"),
    ],
)
@gate_cases(4)
def test_one_change_costs_a_fixed_number_of_requests_and_the_next_run_is_quiet(
    house: GitHubHouse, change: Callable[[GitHubForge, int], object], more: Counter[str], pulls: int
) -> None:
    issue = fill(house, pulls)
    change(house.forge, issue)
    house.world.advance(5)
    house.requests_are(QUIET + more)
    assert house.differences() == []
    house.world.advance(60)
    house.requests_are(QUIET)
    house.world.advance(60)
    assert statuses(house, lambda: house.requests_are(QUIET)) == [304] * 4


def test_a_new_comment_costs_at_most_two_more_requests_than_a_quiet_run() -> None:
    assert max(MOVED_ISSUE.total(), MOVED_PULL.total()) <= MOST_FOR_A_COMMENT


def test_new_items_with_comments_cost_no_request_for_the_parents_of_the_comments(house: GitHubHouse) -> None:
    fill(house, 2)
    forge = house.forge
    forge.comment(REPO, forge.create_issue(REPO, "a new one", "text").number, "on it")
    forge.review_comment(REPO, forge.create_pull(REPO).number, "on a line")
    house.world.advance(5)
    house.requests_are(QUIET + MOVED_ISSUE + MOVED_PULL + Counter({FILES: 1}))
    assert house.differences() == []


def test_an_edited_comment_that_moves_nothing_else_costs_no_more_than_a_quiet_run(house: GitHubHouse) -> None:
    issue = fill(house, 2)
    written = house.forge.comment(REPO, issue, "as written")
    house.world.advance(60)
    house.sync()
    house.forge.edit_comment(written.id, "as edited")
    house.world.advance(60)
    house.requests_are(QUIET)
    assert house.column("SELECT body FROM notes WHERE kind = 'issue_comment'") == ["as edited"]


def test_a_change_read_in_its_own_second_is_read_once_more_and_then_never_again(house: GitHubHouse) -> None:
    fill(house, 2)
    house.forge.comment(REPO, 1, "just now")
    house.requests_are(QUIET + MOVED_PULL)
    house.world.advance(30)
    house.requests_are(QUIET + MOVED_PULL)
    house.world.advance(30)
    house.requests_are(QUIET)


def test_issues_alone_of_a_new_repository_cost_the_list_of_pull_requests_and_not_each_of_them(
    house: GitHubHouse,
) -> None:
    house.forge.bulk(REPO, pulls=5, issues=3, threads=1, comments=1)
    house.world.advance(3600)
    spent = house.requests(lambda: house.sync(resources=("issues",)))
    assert {route: count for route, count in spent.items() if "/pulls" in route} == {PULLS: 1}
    house.sync()
    assert house.differences() == []


@pytest.mark.deep
def test_many_changed_pull_requests_share_their_query(house: GitHubHouse) -> None:
    fill(house, 120)
    for number in range(1, 121):
        house.forge.comment(REPO, number, "everywhere")
        house.world.advance(1)
    house.world.advance(5)
    pages = Counter({PULLS: 3, ISSUES: 1, f"{ISSUES}/comments": 1})
    house.requests_are(QUIET + pages + Counter({TIMELINE: 120, GRAPHQL: 2}))
    assert house.differences() == []
