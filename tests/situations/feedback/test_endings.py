"""What is said just before a pull request is merged or closed: it is read to its end first, and only then ends."""

from __future__ import annotations

import re

import pytest
from tests.situations.feedback.bench import REPO, Bench, open_pulls

BY = pytest.mark.parametrize("fetch", ["repo", "thread"])
ENDS = pytest.mark.parametrize("ends", ["merged", "closed"])


def followed_by(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch, "operator_logins": ["boss"]}
    bench.track(1)
    bench.settle(3)


def end(bench: Bench, ends: str, number: int = 1) -> None:
    if ends == "merged":
        bench.hub.merge(REPO, number)
    else:
        bench.hub.close(REPO, number)


@BY
@ENDS
def test_comments_between_two_polls_just_before_the_merge_become_events(bench: Bench, fetch: str, ends: str) -> None:
    followed_by(bench, fetch)
    bench.hub.comment(REPO, 1, "a comment")
    bench.hub.review_comment(REPO, 1, "a remark on the diff")
    bench.hub.review(REPO, 1, "APPROVED", "an approving review")
    end(bench, ends)
    bench.poll()
    assert bench.row(1).status == ends
    assert sorted(bench.bodies()) == ["a comment", "a remark on the diff", "an approving review"]


@BY
@ENDS
def test_comments_before_the_first_poll_and_the_merge_become_events(bench: Bench, fetch: str, ends: str) -> None:
    bench.host |= {"fetch": fetch}
    bench.track(1)
    bench.hub.comment(REPO, 1, "a comment")
    bench.hub.review(REPO, 1, "APPROVED", "an approving review")
    end(bench, ends)
    bench.poll()
    assert bench.row(1).status == ends
    assert sorted(bench.bodies()) == ["a comment", "an approving review"]


@BY
def test_a_review_in_the_second_of_read_and_merge_becomes_an_event(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.comment(REPO, 1, "a comment")
    bench.poll()
    bench.hub.review(REPO, 1, "APPROVED", "in the same second")
    bench.hub.merge(REPO, 1)
    bench.poll()
    assert bench.row(1).status == "merged"
    assert sorted(bench.bodies()) == ["a comment", "in the same second"]


@BY
def test_comments_on_a_blocked_pull_request_become_events_when_it_is_merged(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.push(REPO, 1, force=True)
    bench.poll()
    assert bench.row(1).status == "blocked"
    for number in range(2):
        bench.world.advance(60)
        bench.hub.comment(REPO, 1, f"while blocked, {number}")
        bench.hub.review_comment(REPO, 1, f"a remark while blocked, {number}")
        bench.poll()
    bench.hub.review(REPO, 1, "APPROVED", "a review while blocked")
    bench.hub.merge(REPO, 1)
    bench.poll()
    assert bench.row(1).status == "merged"
    remarks = [f"a remark while blocked, {number}" for number in range(2)]
    assert sorted(bench.bodies()) == [*remarks, "a review while blocked", "while blocked, 0", "while blocked, 1"]


@BY
@pytest.mark.parametrize("route", ["pulls/1/reviews", "issues"])
def test_a_merged_pull_request_ends_only_after_its_threads_were_read(bench: Bench, fetch: str, route: str) -> None:
    followed_by(bench, fetch)
    bench.hub.comment(REPO, 1, "a comment")
    bench.hub.review(REPO, 1, "APPROVED", "an approving review")
    bench.hub.merge(REPO, 1)
    fault = bench.world.faults.add("status", f"GET /repos/octo/tide/{route}", None, status=500)
    report = bench.try_poll()
    assert fault.fired
    assert report.error is not None or report.failures
    assert bench.row(1).status == "awaiting_feedback"
    bench.world.faults.clear()
    bench.world.advance(60)
    bench.poll()
    assert bench.row(1).status == "merged"
    assert sorted(bench.bodies()) == ["a comment", "an approving review"]


@BY
def test_a_long_thread_is_read_to_its_end_before_its_pull_request_ends(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch}
    bench.per_page = 2
    for number in range(9):
        bench.hub.comment(REPO, 1, f"comment {number}")
    bench.track(1)
    bench.hub.merge(REPO, 1)
    fault = bench.world.faults.add(
        "status", re.compile(r"^/repos/octo/tide/issues/1/comments"), None, after=2, status=500
    )
    bench.try_poll()
    assert fault.fired
    assert bench.row(1).status == "awaiting_feedback"
    bench.world.faults.clear()
    bench.settle(2)
    assert bench.row(1).status == "merged"
    assert sorted(bench.bodies()) == [f"comment {number}" for number in range(9)]


@BY
def test_a_pull_request_opened_and_merged_between_two_polls_is_tracked_by_its_rule(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch, "track_authors": ["robin"]}
    bench.settle(2)
    bench.world.advance(60)
    open_pulls(bench.world)
    bench.hub.comment(REPO, 2, "a comment")
    bench.hub.merge(REPO, 2)
    bench.poll()
    assert bench.row(2).status == "merged"
    assert bench.bodies() == ["a comment"]


def test_a_pull_request_that_ended_before_its_rule_was_applied_is_not_tracked(bench: Bench) -> None:
    open_pulls(bench.world)
    bench.hub.merge(REPO, 2)
    bench.world.advance(60)
    bench.host |= {"track_authors": ["robin"]}
    bench.settle(2)
    assert bench.read("SELECT pr_number FROM tracked_prs") == [(1,)]
