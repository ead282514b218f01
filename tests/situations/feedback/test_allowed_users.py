"""Whose comments become events: logins, everybody, associations, listed bots; and what is left out is said."""

from __future__ import annotations

import pytest
from tests.situations.feedback.bench import REPO, Bench, open_pulls
from tests.support.deep import gate_cases

BY = pytest.mark.parametrize("fetch", ["repo", "thread"])
ASSOCIATIONS = {"mia": "MEMBER", "cole": "COLLABORATOR", "connie": "CONTRIBUTOR", "fay": "FIRST_TIME_CONTRIBUTOR"}
SPEAKERS = ("octo", *ASSOCIATIONS, "robin", "stranger", "helper[bot]")


def talk(bench: Bench) -> None:
    """Everybody comments on pull request 1 of robin, in an organisation's repository."""
    bench.hub.repository(REPO).associations.update(ASSOCIATIONS)
    bench.hub.hub.user("helper[bot]", "Bot")
    for login in SPEAKERS:
        bench.hub.comment(REPO, 1, f"{login} says", login)
        bench.world.advance(2)


def speakers(bench: Bench) -> set[str]:
    return {author for (author,) in bench.read("SELECT author FROM feedback_events")}


@BY
@pytest.mark.parametrize(
    ("allowed", "heard"),
    [
        ([], {"octo", "mia", "cole"}),
        (["*"], {login for login in SPEAKERS if login != "helper[bot]"}),
        (["@contributor"], {"connie"}),
        (["@author", "Helper[bot]"], {"robin", "helper[bot]"}),
        (["*", "helper[bot]"], set(SPEAKERS)),
        (["@Member", "STRANGER"], {"mia", "stranger"}),
    ],
)
@gate_cases(6)
def test_allowed_users_takes_logins_everybody_associations_and_listed_bots(
    bench: Bench, fetch: str, allowed: list[str], heard: set[str]
) -> None:
    bench.host |= {"fetch": fetch, "allowed_users": allowed}
    bench.track(1)
    talk(bench)
    bench.settle(2)
    assert speakers(bench) == heard


def test_reviews_and_review_comments_are_heard_by_association_too(bench: Bench) -> None:
    bench.hub.repository(REPO).associations.update(ASSOCIATIONS)
    bench.track(1)
    bench.hub.review_comment(REPO, 1, "A line", "mia")
    bench.hub.review(REPO, 1, "CHANGES_REQUESTED", "No", "cole")
    bench.hub.review(REPO, 1, "APPROVED", "Yes", "stranger")
    bench.settle(2)
    assert speakers(bench) == {"mia", "cole"}


def test_a_poll_says_how_many_comments_of_how_many_people_it_left_out_and_why(bench: Bench) -> None:
    bench.host |= {"allowed_users": ["nobody-here"]}
    bench.track(1)
    talk(bench)
    talk(bench)
    told = bench.poll().ignored
    assert {why: (sum(authors.values()), len(authors)) for why, authors in told.items()} == {
        "not_allowed": (14, 7),
        "bot": (2, 1),
    }
    bench.world.advance(60)
    assert bench.poll().ignored == {}


@BY
def test_a_corrected_list_brings_back_what_was_left_out_without_asking_the_server(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch, "allowed_users": ["nobody-here"]}
    bench.track(1)
    talk(bench)
    bench.settle(3)
    assert bench.event_keys() == []
    read = bench.counted(bench.poll)
    bench.host |= {"allowed_users": ["mia", "@contributor"]}
    again = bench.counted(bench.poll)
    assert again == read, "no request more than a quiet poll"
    assert sorted(bench.bodies()) == ["connie says", "mia says"]
    ingested = "SELECT SUM(value) FROM metric_counters WHERE name = 'feedback_events_ingested_total'"
    assert [int(value) for (value,) in bench.read(ingested)] == [2]
    bench.poll()
    assert len(bench.event_keys()) == 2
    assert bench.read("SELECT COUNT(*) FROM notes WHERE ignored IS NOT NULL") == [(len(SPEAKERS) - 2,)]


def test_a_corrected_list_brings_back_the_newest_version_of_an_edited_comment(bench: Bench) -> None:
    bench.host |= {"allowed_users": ["nobody-here"]}
    bench.track(1)
    said = bench.hub.comment(REPO, 1, "First thought", "mia")
    bench.settle(2)
    bench.hub.edit_comment(said.id, "Second thought")
    bench.settle(2)
    bench.host |= {"allowed_users": ["mia"]}
    bench.poll()
    assert bench.bodies() == ["Second thought"]


@pytest.mark.parametrize("ended", ["merge", "close"])
def test_a_corrected_list_brings_back_the_comments_of_an_ended_pull_request(bench: Bench, ended: str) -> None:
    bench.host |= {"allowed_users": ["nobody-here"]}
    open_pulls(bench.world)
    bench.track(1, 2)
    bench.hub.comment(REPO, 1, "Before the end", "mia")
    getattr(bench.hub, ended)(REPO, 1)
    bench.settle(2)
    bench.host |= {"allowed_users": ["mia"]}
    bench.poll()
    assert bench.bodies() == ["Before the end"]


def test_a_corrected_list_brings_back_comments_on_a_source_issue(bench: Bench) -> None:
    bench.host |= {"allowed_users": ["nobody-here"]}
    issue = bench.hub.create_issue(REPO, "Source")
    bench.follow(issue.number)
    bench.world.advance(60)
    bench.hub.comment(REPO, issue.number, "Do it this way", "mia")
    bench.settle(2)
    bench.host |= {"allowed_users": ["mia"]}
    bench.poll()
    assert bench.bodies() == ["Do it this way"]


def test_what_was_left_out_while_blocked_comes_back_after_unblocking(bench: Bench) -> None:
    bench.host |= {"allowed_users": ["nobody-here"]}
    bench.track(1)
    bench.hub.comment(REPO, 1, "Before the block", "mia")
    bench.settle(2)
    bench.block(1)
    bench.host |= {"allowed_users": ["mia"]}
    bench.poll()
    assert bench.bodies() == []
    bench.unblock(1)
    bench.settle(2)
    assert bench.bodies() == ["Before the block"]
