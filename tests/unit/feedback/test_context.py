"""The picture of a repository: who is followed, as what, and since when."""

from __future__ import annotations

import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.feedback.people import REPO, START, context, issue, pull, settings

from tidelore.core.model import ProjectRecord
from tidelore.feedback.context import FollowedIssue, FollowedPull, read_context
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, save_project
from tidelore.store.work.followed_issues import follow_issue
from tidelore.store.work.tracked_pull_requests import move, track


@pytest.fixture
def project(database: Database, clock: ManualClock) -> ProjectRow:
    record = ProjectRecord(1, REPO, "cranes", None, archived=False)
    with database.transaction() as tx:
        return save_project(tx, "github", REPO, record, clock.now_ms())


@pytest.mark.parametrize(
    ("number", "role"),
    [
        (12, "awaiting"),
        (13, "blocked"),
        (14, "none"),
        (7, "source_issue"),
        (3, "operations"),
        (99, "none"),
        (0, "none"),
    ],
)
def test_a_thread_number_resolves_to_one_role(number: int, role: str) -> None:
    picture = context(pull(12), pull(13, "blocked", blocked_at=START), pull(14, "merged"), issue(7), operations_issue=3)
    assert picture.role(number) == role


@pytest.mark.parametrize(
    ("number", "on", "role"),
    [
        (12, "mr", "awaiting"),
        (12, "issue", "none"),
        (7, "issue", "source_issue"),
        (7, "mr", "none"),
        (3, "issue", "operations"),
        (3, "mr", "none"),
    ],
)
def test_a_merge_request_and_an_issue_with_the_same_number_have_separate_roles(number: int, on: str, role: str) -> None:
    assert context(pull(12), issue(7), operations_issue=3).role(number, on) == role


def test_no_thread_is_the_operations_issue_when_none_is_configured() -> None:
    assert context(operations_issue=0).role(0) == "none"


def test_a_pull_request_used_as_operations_issue_keeps_its_role_until_it_ends() -> None:
    assert context(pull(12), operations_issue=12).role(12) == "awaiting"
    assert context(pull(12, "closed"), operations_issue=12).role(12) == "operations"


def test_open_threads_are_loaded_into_the_context_and_ended_ones_are_not(
    database: Database, clock: ManualClock, project: ProjectRow
) -> None:
    began = clock.now_ms()
    with database.transaction() as tx:
        rows = [
            track(tx, project.id, REPO, number, issue_number=7, tracked_by="operator", now_ms=began)
            for number in (11, 12, 13)
        ]
        clock.advance(60)
        move(tx, rows[0], "merged", "seen", None, clock.now_ms())
        move(tx, rows[1], "blocked", "operator", None, clock.now_ms())
        follow_issue(tx, project.id, REPO, 7, now_ms=began)
    picture = read_context(database, project, settings(), own_login="me", operations_from=5)
    assert picture.pulls == {
        12: FollowedPull(12, "blocked", 7, clock.now_ms(), clock.now_ms(), began),
        13: FollowedPull(13, "awaiting_feedback", 7, None, began, began),
    }
    assert picture.issues == {7: FollowedIssue(7, None, 0, 0, began, began)}
    assert (picture.host, picture.repo, picture.owner, picture.own_login) == ("github", REPO, "harbor", "me")
    assert picture.followed_from(12) == began - 5_000
    assert picture.followed_from(99) == 5 - 5_000


def test_an_issue_followed_before_its_pull_request_keeps_the_time_it_was_followed_from(
    database: Database, clock: ManualClock, project: ProjectRow
) -> None:
    began = clock.now_ms()
    with database.transaction() as tx:
        follow_issue(tx, project.id, REPO, 7, now_ms=began)
        clock.advance(60)
        follow_issue(tx, project.id, REPO, 7, pr_number=12, now_ms=clock.now_ms())
        follow_issue(tx, project.id, REPO, 8, pr_number=12, now_ms=clock.now_ms())
    picture = read_context(database, project, settings())
    assert picture.followed_from(7) == began - 5_000
    assert picture.followed_from(8) == clock.now_ms() - 5_000
    assert [picture.issues[number].entered_at for number in (7, 8)] == [clock.now_ms()] * 2
