"""Review threads and reviews: their states, who set them, and what is known without GraphQL."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.test_comments import later
from tests.support.deep import gate_cases

STATES = "SELECT resolved, resolved_by, is_outdated FROM discussions WHERE resolvable = 1 ORDER BY id"
NOTES = "SELECT resolved FROM notes WHERE kind = 'review_comment' ORDER BY id"
REVIEWS = "SELECT review_state, body FROM notes WHERE kind = 'review_summary' AND body <> '' ORDER BY remote_id"
UNKNOWN = (None, None, None)
OPEN = (0, None, 0)


def begin(house: GitHubHouse, threads: int = 1) -> list[int]:
    """Mirror pull request #1 with review threads of two comments; return the threads."""
    forge = house.forge
    forge.create_pull(REPO)
    found = []
    for place in range(threads):
        root = forge.review_comment(REPO, 1, f"thread {place}")
        forge.review_comment(REPO, 1, f"answer {place}", in_reply_to=root.id)
        found.append(forge.thread_of(REPO, root.id).id)
    later(house)
    return found


def move(house: GitHubHouse) -> None:
    """Change the pull request, so that its children are read again."""
    house.forge.edit_thread(REPO, 1, title=f"title {house.world.clock.now_us}")
    later(house)


def test_a_resolved_thread_is_stored_when_its_pull_request_moved(both: GitHubHouse) -> None:
    thread, _ = begin(both, 2)
    assert both.rows(STATES) == [OPEN, OPEN]
    both.forge.resolve_thread(REPO, thread, "mira")
    move(both)
    assert both.rows(STATES) == [(1, "mira", 0), OPEN]
    assert both.column(NOTES) == [1, 1, 0, 0]
    both.forge.unresolve_thread(REPO, thread)
    move(both)
    assert both.rows(STATES) == [OPEN, OPEN]
    assert both.column(NOTES) == [0, 0, 0, 0]
    assert both.differences() == []


def test_a_resolution_that_moves_nothing_is_found_by_verification(both: GitHubHouse) -> None:
    (thread,) = begin(both)
    both.forge.resolve_thread(REPO, thread, "mira")
    later(both)
    assert both.rows(STATES) == [OPEN], "nothing shows it"
    both.verify()
    assert both.rows(STATES) == [(1, "mira", 0)]
    assert both.column(NOTES) == [1, 1]


def test_an_outdated_thread_is_stored_as_outdated(both: GitHubHouse) -> None:
    (thread,) = begin(both)
    both.forge.outdate_thread(REPO, thread)
    both.verify()
    assert both.rows(STATES) == [(0, None, 1)]
    assert both.differences() == []


def test_a_thread_resolved_by_a_deleted_account_is_resolved_by_nobody(house: GitHubHouse) -> None:
    (thread,) = begin(house)
    house.forge.resolve_thread(REPO, thread, "mira")
    repo = house.forge.repository(REPO)
    repo.put_review_thread(replace(repo.review_threads[thread], resolved_by=None))
    move(house)
    assert house.rows(STATES) == [(1, None, 0)]


@pytest.mark.parametrize("kind", ["edited", "answered", "deleted answer"])
@gate_cases(2)
def test_a_thread_keeps_its_state_when_its_comments_change(both: GitHubHouse, kind: str) -> None:
    (thread,) = begin(both)
    both.forge.resolve_thread(REPO, thread, "mira")
    both.verify()
    root, answer = both.forge.repository(REPO).review_threads[thread].comments
    if kind == "edited":
        both.forge.edit_comment(root, "other words", kind="review_comment")
    elif kind == "answered":
        both.forge.review_comment(REPO, 1, "one more", in_reply_to=root)
    else:
        both.forge.delete_comment(answer, kind="review_comment")
    # Without GraphQL nothing could restore a state that was lost.
    both.world.faults.add("status", "POST /graphql", None, status=502)
    both.run()
    both.run(scrub_budget=50)
    assert both.rows(STATES) == [(1, "mira", 0)]
    assert set(both.column(NOTES)) == {1}


def test_a_thread_whose_root_was_deleted_keeps_its_state(both: GitHubHouse) -> None:
    (thread,) = begin(both)
    both.forge.resolve_thread(REPO, thread, "mira")
    both.verify()
    root, _ = both.forge.repository(REPO).review_threads[thread].comments
    both.forge.delete_comment(root, kind="review_comment")
    both.verify()
    assert both.rows(STATES) == [(1, "mira", 0)]
    both.forge.unresolve_thread(REPO, thread)
    both.verify()
    assert both.rows(STATES) == [OPEN]
    assert both.differences() == []


def test_a_thread_whose_comments_arrive_after_its_state_gets_the_state_with_the_next_run(both: GitHubHouse) -> None:
    begin(both, 0)
    root = both.forge.review_comment(REPO, 1, "late to arrive")
    both.forge.resolve_thread(REPO, both.forge.thread_of(REPO, root.id).id, "mira")
    both.world.advance(60)
    both.world.faults.add("invalid_timestamp", re.compile("pulls/comments$"), 1)
    both.run()
    assert both.world.faults.fired() == 1
    assert both.rows(STATES) == []
    both.world.faults.clear()
    for _ in range(2):
        both.world.advance(3600)
        both.sync()
    assert both.rows(STATES) == [(1, "mira", 0)]


def test_without_a_token_a_resolution_is_unknown_and_the_run_succeeds(tmp_path: Path) -> None:
    house = GitHubHouse(tmp_path, host={"token_env": "NO_TOKEN_HERE"})
    house.token = None
    (thread,) = begin(house)
    house.forge.resolve_thread(REPO, thread)
    house.verify()
    assert house.rows(STATES) == [UNKNOWN]
    assert house.column(NOTES) == [None, None]
    assert house.rows(REVIEWS) == []
    assert house.column("SELECT COUNT(*) FROM notes WHERE kind = 'review_summary'") == [2]
    assert house.requests(house.sync)["POST /graphql"] == 0


REFUSALS: list[Any] = [
    pytest.param(lambda house: house.world.faults.add("status", "POST /graphql", None, status=403), id="403"),
    pytest.param(
        lambda house: house.forge.settings.graphql_forbidden.add("PullRequest.reviewThreads"), id="threads forbidden"
    ),
    pytest.param(
        lambda house: house.forge.settings.graphql_lacks.add("PullRequestReviewComment.fullDatabaseId"), id="old server"
    ),
]


@pytest.mark.parametrize("refuse", REFUSALS)
def test_a_token_without_rights_leaves_resolutions_unknown_until_it_gets_them(both: GitHubHouse, refuse: Any) -> None:
    refuse(both)
    (thread,) = begin(both)
    both.forge.resolve_thread(REPO, thread, "mira")
    both.forge.review(REPO, 1, body="please")
    for _ in range(3):
        move(both)
    assert both.rows(STATES) == [UNKNOWN]
    assert both.column("SELECT COUNT(*) FROM notes WHERE kind = 'review_comment'") == [2]
    assert both.rows(REVIEWS) == [("COMMENTED", "please")]
    both.world.faults.clear()
    both.forge.settings.graphql_forbidden.clear()
    both.forge.settings.graphql_lacks.clear()
    both.world.advance(8 * 86_400)
    both.verify()
    assert both.rows(STATES) == [(1, "mira", 0)]
    assert both.differences() == []


def test_a_token_that_loses_its_rights_keeps_what_is_stored(house: GitHubHouse) -> None:
    (thread,) = begin(house)
    house.forge.resolve_thread(REPO, thread, "mira")
    house.verify()
    house.world.faults.add("status", "POST /graphql", None, status=403)
    for _ in range(3):
        move(house)
    assert house.rows(STATES) == [(1, "mira", 0)]


def test_a_submitted_review_is_stored_and_an_edited_one_is_one_row(both: GitHubHouse) -> None:
    begin(both)
    review = both.forge.review(REPO, 1, "APPROVED", "looks right", "mira")
    later(both)
    assert both.rows(REVIEWS) == [("APPROVED", "looks right")]
    both.forge.edit_review(REPO, 1, review.id, "looks right now")
    later(both)
    assert both.rows(REVIEWS) == [("APPROVED", "looks right now")]
    assert both.differences() == []


def test_a_dismissed_review_is_stored_as_dismissed(both: GitHubHouse) -> None:
    begin(both)
    review = both.forge.review(REPO, 1, "CHANGES_REQUESTED", "not yet", "mira")
    later(both)
    both.forge.dismiss_review(REPO, 1, review.id, "done since")
    later(both)
    assert both.rows(REVIEWS) == [("DISMISSED", "not yet")]
    assert both.differences() == []


@pytest.mark.parametrize("by_graphql", ["graphql", "rest"])
@pytest.mark.parametrize("author", ["mira", "tidelore-agent"])
@gate_cases(2)
def test_a_pending_review_is_stored_only_after_it_is_submitted(
    house: GitHubHouse, author: str, by_graphql: str
) -> None:
    if by_graphql == "rest":
        house.world.faults.add("status", "POST /graphql", None, status=403)
    begin(house)
    review = house.forge.review(REPO, 1, "PENDING", "half a thought", author)
    move(house)
    house.verify()
    assert house.rows(REVIEWS) == []
    house.forge.submit_review(REPO, 1, review.id, "COMMENTED")
    later(house)
    assert house.rows(REVIEWS) == [("COMMENTED", "half a thought")]
    house.world.faults.clear()
    house.world.advance(8 * 86_400)
    house.verify()
    assert house.differences() == []


def test_the_comments_of_somebodys_pending_review_are_stored_only_after_it_is_submitted(house: GitHubHouse) -> None:
    begin(house)
    review = house.forge.review(REPO, 1, "PENDING", "half a thought", "mira")
    house.forge.review_comment(REPO, 1, "half a remark", author="mira", review_id=review.id)
    move(house)
    assert "half a remark" not in house.column("SELECT body FROM notes")
    house.forge.comment(REPO, 1, "said after it was drafted")
    move(house)
    house.forge.submit_review(REPO, 1, review.id, "COMMENTED")
    later(house)
    assert "half a remark" in house.column("SELECT body FROM notes")
    assert house.differences() == []
