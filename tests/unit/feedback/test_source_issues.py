"""Source issues: waiting for the pull request, or sent to it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.feedback.people import START, comment, context, issue, pull

from tidelore.feedback.events import batch_event, route_comment
from tidelore.feedback.tokens import find_markers
from tidelore.store.work.events import NewFollowup, NewRedirect
from tidelore.store.work.followed_issues import FollowupRow, IssueCursor

RECORD = comment("And a test, please.", number=7, author="harbor")
PULL = pull(followed_from=START - 10_000)
AFTER = issue(pr_number=12, entered_at=START - 10_000)
CURSOR = IssueCursor("harbor/cranes", 7, 1, None, 0, 0, None, START, START, START)


def waiting(comment_id: int, author: str | None, body: str, created_at: int, updated_at: int) -> FollowupRow:
    return FollowupRow(1, 7, comment_id, author, body, created_at, updated_at)


def test_issue_comments_newer_than_the_consumed_one_wait_until_a_pull_request_exists() -> None:
    assert route_comment(RECORD, issue(consumed_id=500), context()) == (NewFollowup(7, RECORD),)
    assert route_comment(RECORD, issue(consumed_id=501), context()) == ()


def test_new_issue_comments_are_redirected_once_to_the_existing_pull_request() -> None:
    (redirect,) = route_comment(RECORD, replace(AFTER, redirected_id=500), context(PULL, AFTER))
    assert isinstance(redirect, NewRedirect)
    assert (redirect.issue_number, redirect.comment_id, redirect.scope_number) == (7, 501, 7)
    assert "@harbor" in redirect.body
    assert "#12" in redirect.body
    assert find_markers(redirect.body) == (redirect.token,)
    assert route_comment(RECORD, replace(AFTER, redirected_id=501), context(PULL, AFTER)) == ()


def test_a_redirect_token_depends_on_the_comment_and_not_on_its_version() -> None:
    (first,) = route_comment(RECORD, AFTER, context(PULL, AFTER))
    (edited,) = route_comment(replace(RECORD, body="Edited", updated_at=START + 5_000), AFTER, context(PULL, AFTER))
    (other,) = route_comment(replace(RECORD, remote_id=502), AFTER, context(PULL, AFTER))
    assert isinstance(first, NewRedirect)
    assert isinstance(edited, NewRedirect)
    assert isinstance(other, NewRedirect)
    assert first.token == edited.token != other.token


def test_a_comment_older_than_the_pull_request_still_waits_when_read_after_it() -> None:
    early = replace(RECORD, updated_at=START - 11_000)
    assert route_comment(early, AFTER, context(PULL, AFTER)) == (NewFollowup(7, early),)


def test_comments_from_before_the_issue_was_tracked_are_ignored() -> None:
    early = replace(RECORD, updated_at=START - 7_200_000 - 5_001)
    assert route_comment(early, issue(), context(issue())) == ()


@pytest.mark.parametrize("status", ["merged", "closed"])
def test_comments_are_not_redirected_to_an_ended_pull_request(status: str) -> None:
    assert route_comment(RECORD, AFTER, context(replace(PULL, status=status), AFTER)) == ()


def test_comments_are_not_redirected_to_an_untracked_pull_request() -> None:
    assert route_comment(RECORD, AFTER, context(AFTER)) == ()


def test_waiting_comments_become_one_event_in_order() -> None:
    batch = [waiting(9, None, "Second", START + 1, START + 9), waiting(3, "alex", "First", START, START)]
    event = batch_event(CURSOR, batch)
    assert (event.pr_number, event.issue_number, event.record.kind) == (None, 7, "issue_followups")
    assert event.record.body == "@alex:\n\nFirst\n\n---\n\n@ghost:\n\nSecond"
    assert (event.record.remote_id, event.record.created_at, event.record.updated_at) == (9, START, START + 9)


def test_a_single_waiting_comment_keeps_its_body_and_is_assigned_to_the_pull_request() -> None:
    event = batch_event(replace(CURSOR, pr_number=12), [waiting(3, "alex", "Only", START, START)])
    assert (event.record.body, event.pr_number) == ("Only", 12)


def test_the_key_of_a_comment_batch_is_derived_from_its_comments() -> None:
    one, two = waiting(3, "alex", "First", START, START), waiting(9, "alex", "Second", START, START)
    batches = ([one], [two], [one, two], [two, one], [one, replace(two, body="Edited in the same second")])
    assert len({batch_event(CURSOR, batch).event_key for batch in batches}) == 4
