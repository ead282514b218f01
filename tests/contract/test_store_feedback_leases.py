"""Events are handed out in order, one of a thread at a time, each to one holder, and count as done once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
from tests.databases.feedback_rows import followup_comments
from tests.databases.feedback_samples import NOW, REPO, add_events, comment, everything, followed, repository
from tests.databases.racing import race
from tests.support.deep import gate_cases

from tidelore.core.errors import LockHeld, NotFound
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow
from tidelore.store.reading.totals import read_totals
from tidelore.store.work.events import (
    EventRow,
    NewEvent,
    NewFollowup,
    ack,
    find_event,
    lease_next,
    list_events,
    nack,
    peek,
    pending_counts,
    retry_now,
)
from tidelore.store.work.followed_issues import (
    FollowupRow,
    IssueCursor,
    add_followups,
    batch_followups,
    find_issue,
    follow_issue,
    followed_issues,
    note_redirected,
    unfollow_issue,
    waiting_followups,
)
from tidelore.store.work.tracked_pull_requests import move, set_paused

LEASE = 600_000


@pytest.fixture
def project(database: Database) -> ProjectRow:
    return repository(database)


def lease(database: Database, now_ms: int = NOW, holder: str = "mira", **narrowed: object) -> EventRow | None:
    return lease_next(database, now_ms, LEASE, holder, **narrowed)  # type: ignore[arg-type]


def taken(database: Database, now_ms: int = NOW, holder: str = "mira") -> EventRow:
    found = lease(database, now_ms, holder)
    assert found is not None
    return found


def test_events_are_leased_oldest_first_and_ties_in_row_order(database: Database, project: ProjectRow) -> None:
    records = [comment(3, 1, NOW + 2), comment(2, 2, NOW + 1), comment(1, 3, NOW + 1)]
    add_events(database, project, records)
    order = []
    while event := lease(database):
        order.append(event.comment_id)
    assert order == [2, 1, 3]


def test_a_thread_has_one_event_in_flight_at_a_time(database: Database, project: ProjectRow) -> None:
    add_events(database, project, [comment(1), comment(2, updated_at=NOW + 1)])
    first = taken(database)
    assert lease(database) is None
    ack(database, str(first.lease_id), NOW)
    assert taken(database).comment_id == 2


def test_a_failed_event_delays_only_its_own_thread_until_its_next_attempt(
    database: Database, project: ProjectRow
) -> None:
    add_events(database, project, [comment(1), comment(2, updated_at=NOW + 1), comment(3, 13, NOW + 2)])
    failed = nack(database, taken(database).id, error="exit 1", next_attempt_at=NOW + 50)
    assert (failed.attempts, failed.last_error, failed.leased_until) == (1, "exit 1", None)
    assert taken(database).comment_id == 3
    assert lease(database) is None
    assert taken(database, NOW + 50).comment_id == 1


@pytest.mark.parametrize("held", ["blocked", "paused"])
def test_events_of_blocked_or_paused_threads_wait(database: Database, project: ProjectRow, held: str) -> None:
    tracked = followed(database, project, 12)[0]
    add_events(database, project, [comment(1)])
    with database.transaction() as tx:
        blocked = move(tx, tracked, "blocked", "operator", None, NOW) if held == "blocked" else tracked
        set_paused(tx, tracked.id, held == "paused", NOW)
    assert lease(database) is None
    assert len(peek(database)) == 1
    with database.transaction() as tx:
        if held == "blocked":
            move(tx, blocked, "awaiting_feedback", "unblocked", None, NOW)
        set_paused(tx, tracked.id, False, NOW)
    assert taken(database).comment_id == 1


@pytest.mark.parametrize("status", ["merged", "closed"])
def test_waiting_events_of_an_ended_pull_request_are_leased_only_on_request(
    database: Database, project: ProjectRow, status: str
) -> None:
    ended, _ = followed(database, project, 12, 13)
    add_events(database, project, [comment(1), comment(2, 13, NOW + 1)])
    with database.transaction() as tx:
        move(tx, ended, status, f"{status} on the remote", None, NOW)
    assert [(event.comment_id, event.pr_status) for event in peek(database)] == [(1, status), (2, "awaiting_feedback")]
    assert taken(database).comment_id == 2
    assert lease(database) is None
    late = lease(database, include_closed=True)
    assert late is not None
    assert (late.comment_id, late.pr_status) == (1, status)
    totals = read_totals(database, NOW)
    assert (totals.events_waiting, totals.events_of_closed) == (1, 1)


def test_events_can_be_leased_by_project_and_by_pull_request(database: Database, project: ProjectRow) -> None:
    other = repository(database, 2, "port/quay")
    add_events(database, project, [comment(1, 12)])
    add_events(database, other, [comment(2, 12), comment(3, 13)])
    assert lease(database, pr=99) is None
    assert lease(database, project_ids=[]) is None
    found = lease(database, project_ids=[other.id], pr=13)
    assert found is not None
    assert (found.comment_id, found.repo_full_name) == (3, "port/quay")
    within = lease(database, project_ids=[other.id])
    assert within is not None
    assert within.comment_id == 2
    assert [event.comment_id for event in peek(database, project_ids=[project.id])] == [1]


def test_an_event_with_an_expired_lease_is_leased_again_and_counts_an_attempt(
    database: Database, project: ProjectRow
) -> None:
    add_events(database, project, [comment(1)])
    first = taken(database)
    assert lease(database, NOW + LEASE - 1) is None
    second = taken(database, NOW + LEASE, "noor")
    assert (second.id, second.leased_by, second.attempts) == (first.id, "noor", 1)
    assert "mira" in str(second.last_error)
    for late in (ack, lambda db, handle, _: nack(db, handle, error="x", next_attempt_at=None)):
        with pytest.raises(LockHeld) as caught:
            late(database, str(first.lease_id), NOW)
        assert (caught.value.exit_code, caught.value.details["holder"]) == (3, "noor")
    assert ack(database, str(second.lease_id), NOW + LEASE).processed_at == NOW + LEASE


def test_an_expired_lease_without_a_new_lease_still_counts_an_attempt(database: Database, project: ProjectRow) -> None:
    add_events(database, project, [comment(1)])
    first = taken(database)
    assert ack(database, str(first.lease_id), NOW + 2 * LEASE).processed_at == NOW + 2 * LEASE
    assert lease(database, NOW + 3 * LEASE) is None


def test_a_second_ack_and_a_late_nack_change_nothing(database: Database, project: ProjectRow) -> None:
    add_events(database, project, [comment(1)])
    first = taken(database)
    done = ack(database, str(first.lease_id), NOW + 1)
    assert ack(database, str(first.lease_id), NOW + 9) == done
    assert ack(database, first.id, NOW + 9) == done
    assert nack(database, first.id, error="late", next_attempt_at=None) == done


def test_one_lease_counts_one_failure_and_may_still_be_acked(database: Database, project: ProjectRow) -> None:
    add_events(database, project, [comment(1)])
    handle = str(taken(database).lease_id)
    assert nack(database, handle, error="one", next_attempt_at=NOW + 5).attempts == 1
    assert nack(database, handle, error="two", next_attempt_at=NOW + 9).attempts == 1
    assert ack(database, handle, NOW + 1).processed_at == NOW + 1


@pytest.mark.parametrize("handle", [4711, "4711-ab", "no lease", "", "٣-ab"])
def test_an_event_that_does_not_exist_is_not_found(database: Database, handle: int | str) -> None:
    with pytest.raises(NotFound):
        ack(database, handle, NOW)


def test_waiting_events_are_counted_per_thread(database: Database, project: ProjectRow) -> None:
    add_events(database, project, [comment(1), comment(2, updated_at=NOW + 1), comment(3, 13, NOW + 2)])
    taken(database)
    found = [(row.thread_number, row.pending, row.in_flight) for row in pending_counts(database, NOW)]
    assert found == [(12, 2, 1), (13, 1, 0)]


def test_a_retry_resets_attempts_and_pause(database: Database, project: ProjectRow) -> None:
    add_events(database, project, [comment(1)])
    nack(database, taken(database).id, error="x", next_attempt_at=NOW + 10**9)
    with database.transaction() as tx:
        assert retry_now(tx, project.id, 12) == 1
    assert taken(database).attempts == 0
    assert [event.comment_id for event in list_events(database, project.id, 12)] == [1]


PREPARE = """
from tidelore.store.database.opening import open_database
from tidelore.store.work.events import ack, lease_next, peek
database = open_database(sys.argv[1])
"""
ALL_AT_ONCE = """
while event := lease_next(database, 1, 600_000, 'runner'):
    print(event.id, event.thread_number)
database.close()
"""
UNTIL_ALL_IS_DONE = """
while peek(database):
    event = lease_next(database, 1, 600_000, 'runner')
    if event is not None:
        print(event.id, event.thread_number)
        ack(database, event.lease_id, 2)
database.close()
"""


@gate_cases(1)
def test_concurrent_processes_never_lease_two_events_of_one_thread(
    database: Database, project: ProjectRow, address: str
) -> None:
    add_events(database, project, [comment(number * 10 + n, number, 1 + n) for number in range(20) for n in range(5)])
    found = [line for output in race(4, PREPARE, ALL_AT_ONCE, [address]) for line in output.splitlines()]
    assert Counter(line.split()[1] for line in found) == Counter(map(str, range(20)))


@gate_cases(1)
def test_concurrent_processes_handle_every_event_once(database: Database, project: ProjectRow, address: str) -> None:
    add_events(database, project, [comment(number * 10 + n, number, 1 + n) for number in range(8) for n in range(10)])
    found = [line for output in race(3, PREPARE, UNTIL_ALL_IS_DONE, [address]) for line in output.splitlines()]
    assert len(found) == len(set(found)) == 80
    assert peek(database) == []


def test_a_second_connection_leases_an_event_of_another_thread_or_none(
    database: Database, project: ProjectRow, connect: Callable[[], Database]
) -> None:
    other = connect()
    add_events(database, project, [comment(1), comment(2, updated_at=NOW + 1), comment(3, 13, NOW + 2)])
    assert (taken(database).comment_id, taken(other).comment_id) == (1, 3)
    assert lease(database) is lease(other) is None


def compose(cursor: IssueCursor, waiting: Sequence[FollowupRow]) -> NewEvent:
    bodies = " / ".join(row.body for row in waiting)
    versions = ",".join(f"{row.comment_id}:{row.updated_at}" for row in waiting)
    last = comment(waiting[-1].comment_id, cursor.issue_number, waiting[-1].updated_at, body=bodies)
    return NewEvent(f"7:{versions}", None, cursor.issue_number, replace(last, kind="issue_followups"))


def wait_at_issue(database: Database, project: ProjectRow, *ids: int, **changes: object) -> int:
    with database.transaction() as tx:
        follow_issue(tx, project.id, REPO, 7, now_ms=NOW)
        return add_followups(tx, project.id, [NewFollowup(7, comment(key, 7, **changes)) for key in ids])  # type: ignore[arg-type]


def batch(database: Database, project: ProjectRow) -> NewEvent | None:
    with database.transaction() as tx:
        return batch_followups(tx, project.id, 7, compose, NOW)


def consumed(database: Database, project: ProjectRow) -> int:
    found = find_issue(database, project.id, 7)
    assert found is not None
    return found.pre_pr_last_consumed_comment_id


def test_waiting_issue_comments_become_one_event_consumed_when_leased(database: Database, project: ProjectRow) -> None:
    assert wait_at_issue(database, project, 5, 4) == 2
    assert waiting_followups(database, project.id) == [7]
    assert batch(database, project) is not None
    assert (batch(database, project), waiting_followups(database, project.id)) == (None, [])
    assert consumed(database, project) == 0
    event = taken(database)
    assert (event.kind, event.thread_number, event.comment_id) == ("issue_followups", 7, 5)
    assert event.body == "The crane stops at 4 %. / The crane stops at 5 %."
    assert consumed(database, project) == 5
    assert followup_comments(database, event.id) == [4, 5]


def test_an_unleased_batch_includes_new_comments_and_edits(database: Database, project: ProjectRow) -> None:
    wait_at_issue(database, project, 4)
    batch(database, project)
    assert wait_at_issue(database, project, 4) == 0
    assert wait_at_issue(database, project, 4, updated_at=NOW + 1, body="Edited.") == 1
    assert wait_at_issue(database, project, 6) == 1
    batch(database, project)
    assert [event.body for event in peek(database)] == ["Edited. / The crane stops at 6 %."]


def test_later_comments_go_into_the_next_batch_after_a_lease(database: Database, project: ProjectRow) -> None:
    wait_at_issue(database, project, 4)
    batch(database, project)
    first = taken(database)
    assert wait_at_issue(database, project, 4, updated_at=NOW + 1, body="Edited.") == 0
    wait_at_issue(database, project, 3, updated_at=NOW + 2)
    batch(database, project)
    ack(database, first.id, NOW)
    assert taken(database).body == "The crane stops at 3 %."
    assert consumed(database, project) == 4
    assert find_event(database, first.id).body == "The crane stops at 4 %."


def test_an_issue_tracked_again_keeps_its_marks_and_gets_its_pull_request(
    database: Database, project: ProjectRow
) -> None:
    with database.transaction() as tx:
        follow_issue(tx, project.id, REPO, 7, now_ms=NOW)
        note_redirected(tx, project.id, 7, 9, NOW)
        note_redirected(tx, project.id, 7, 8, NOW)
        same = follow_issue(tx, project.id, REPO, 7, now_ms=NOW + 5)
        assert (same.pr_number, same.entered_at) == (None, NOW)
        known = follow_issue(tx, project.id, REPO, 7, pr_number=12, now_ms=NOW + 9)
    assert (known.pr_number, known.entered_at, known.post_pr_last_redirected_comment_id) == (12, NOW + 9, 9)
    assert followed_issues(database) == followed_issues(database, project.id) == [known]
    with database.transaction() as tx:
        assert follow_issue(tx, project.id, REPO, 7, now_ms=NOW + 20).entered_at == NOW + 9
        assert unfollow_issue(tx, project.id, 7)
        assert not unfollow_issue(tx, project.id, 7)
    assert everything(database)["issue_comment_cursors"] == []
