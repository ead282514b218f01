"""What polls cost, in requests and in comments: what changed, and not how long people have talked (invariant 9)."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.situations.feedback.bench import REPO, Bench, key, open_pulls
from tests.support.deep import deep, gate_cases

from tidelore.feedback.report import RepoReport

DAY_US = 86_400_000_000
QUIET = Counter({"all": 3, "304": 3})


def talk_for_years(bench: Bench, comments: int) -> None:
    """So many old comments on pull request 1, an hour apart, half of them by people who count."""
    begin = bench.world.clock.now_us - 1500 * DAY_US
    for number in range(comments):
        author = "octo" if number % 2 else "somebody"
        bench.hub.comment(REPO, 1, f"old {number}", author, at_us=begin + number * DAY_US // 24)


def fetched(report: RepoReport) -> int:
    return sum(tally.fetched for surface, tally in report.surfaces.items() if surface != "pulls")


def spent(bench: Bench) -> tuple[Counter[str], RepoReport]:
    found: list[RepoReport] = []
    counted = bench.counted(lambda: found.append(bench.poll()))
    return counted, found[0]


def followed_by_rule(bench: Bench, pulls: int, fetch: str) -> None:
    for _ in range(pulls - 1):
        open_pulls(bench.world)
    bench.host |= {"fetch": fetch, "track_authors": ["robin"]}
    bench.hub.settings.anonymous_limit = None
    bench.settle(3)
    bench.host["track_authors"] = []


@pytest.mark.parametrize("fetch", ["repo", "thread"])
@pytest.mark.parametrize("comments", [100, 1000, deep(10_000)])
@gate_cases(2)
def test_polling_a_long_thread_costs_as_much_as_a_short_one(bench: Bench, comments: int, fetch: str) -> None:
    bench.host |= {"fetch": fetch}
    talk_for_years(bench, comments)
    bench.track(1)
    bench.settle(3)
    assert len(bench.event_keys()) == comments // 2
    for _ in range(3):
        bench.world.advance(60)
        cost, report = spent(bench)
        assert (cost["all"], cost["304"], fetched(report)) == (3, 3, 0)
    said = bench.hub.comment(REPO, 1, "one new comment")
    bench.world.advance(10)
    cost, report = spent(bench)
    # It moved the pull request too, whose reviews are therefore read, once.
    assert (cost["all"], cost["reviews"]) == (4, 1)
    assert fetched(report) <= 2, "the new one, and what the overlap shows again"
    assert key(said) in bench.event_keys()
    bench.world.advance(60)
    cost, report = spent(bench)
    assert (cost["all"], fetched(report)) == (3, 1)
    bench.world.advance(60)
    assert spent(bench)[0]["304"] == 3


@pytest.mark.parametrize("pulls", [1, 10, 100, deep(500)])
@gate_cases(2)
def test_in_repo_mode_a_quiet_poll_is_three_requests_for_any_number_of_threads(bench: Bench, pulls: int) -> None:
    followed_by_rule(bench, pulls, "repo")
    assert bench.read("SELECT COUNT(*) FROM tracked_prs") == [(pulls,)]
    for _ in range(3):
        bench.world.advance(60)
        cost, report = spent(bench)
        assert (cost["all"], cost["304"], report.requests) == (3, 3, 3)
    said = bench.hub.comment(REPO, pulls, "one new comment")
    bench.world.advance(10)
    cost, _ = spent(bench)
    assert (cost["all"], cost["reviews"]) == (4, 1)
    assert bench.event_keys() == [key(said)]


@pytest.mark.parametrize(("awaiting", "blocked"), [(1, 0), (4, 0), (2, 3), (8, 5)])
@gate_cases(2)
def test_in_thread_mode_the_cost_of_a_quiet_poll_is_linear_in_tracked_threads(
    bench: Bench, awaiting: int, blocked: int
) -> None:
    followed_by_rule(bench, awaiting + blocked, "thread")
    for number in range(1, blocked + 1):
        bench.block(number)
    bench.settle(3)
    cost, _ = spent(bench)
    assert cost["all"] == 3 * (awaiting + blocked)
    assert cost["304"] == cost["all"]


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_reviews_of_the_current_second_are_read_again_only_once_it_is_over(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    bench.track(1)
    bench.settle(3)
    bench.hub.review(REPO, 1, "COMMENTED", "the first")
    assert bench.counted(bench.poll)["reviews"] == 1
    assert bench.counted(bench.poll)["reviews"] == 0
    bench.world.advance(60)
    assert bench.counted(bench.poll)["reviews"] == 1
    assert bench.counted(bench.poll)["reviews"] == 0


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_a_poll_reports_the_number_of_requests_the_server_received(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    bench.track(1)
    bench.settle(3)
    bench.hub.comment(REPO, 1, "one new comment")
    for _ in range(2):
        cost, report = spent(bench)
        assert report.requests == cost["all"]
        bench.world.advance(60)


def test_comments_in_untracked_threads_cost_pages_in_repo_mode_and_none_in_thread_mode(bench: Bench) -> None:
    bench.host["fetch"] = "repo"
    bench.per_page = 10
    bench.track(1)
    bench.settle(3)
    crowd = bench.hub.create_issue(REPO).number
    for turn in range(35):
        bench.hub.comment(REPO, crowd, f"chatter {turn}", at_us=bench.world.clock.now_us + turn * 1_000_000)
    bench.world.advance(60)
    assert spent(bench)[0]["all"] <= 3 + 5
    bench.host["fetch"] = "thread"
    bench.settle(3)
    bench.hub.comment(REPO, crowd, "more chatter")
    assert spent(bench)[0]["all"] == 3


def test_after_a_long_outage_a_poll_reads_only_what_changed(bench: Bench) -> None:
    bench.host["fetch"] = "repo"
    bench.per_page = 10
    talk_for_years(bench, 300)
    bench.track(1)
    bench.settle(3)
    bench.world.advance(30 * 86_400)
    for turn in range(25):
        bench.hub.comment(REPO, 1, f"during the outage {turn}")
        bench.world.advance(60)
    cost, report = spent(bench)
    assert report.effects["events"] == 25
    # After a day the repository is looked up again.
    assert cost["all"] <= 3 + 5 + 1


def test_reading_the_database_between_polls_sends_no_requests(followed: Bench) -> None:
    asked = followed.counted(lambda: (followed.event_keys(), followed.row(1), followed.bodies()))
    assert asked["all"] == 0


@pytest.mark.parametrize("host", [{"fetch": "thread"}, {"fetch": "repo"}, {"mirror": "all"}])
def test_a_newly_tracked_pull_request_is_fetched_at_most_once_in_its_first_poll(
    bench: Bench, host: dict[str, str]
) -> None:
    bench.host |= host
    bench.track(1)
    before = len(bench.world.log)
    bench.poll()
    asked = [path for _, path, _ in bench.world.log[before:] if path.endswith("/pulls/1")]
    # The list of a whole repository contains it.
    assert len(asked) == (host.get("mirror") != "all")
