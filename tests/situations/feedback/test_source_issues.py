"""Source issues and the operations issue: what is said before the pull request, after it, and to the operator."""

from __future__ import annotations

import pytest
from tests.situations.feedback.bench import REPO, Bench
from tests.support.deep import gate_cases

from tidelore.store.work.events import EventRow, ack, lease_next

BY = pytest.mark.parametrize("fetch", ["repo", "thread", "full"])


def prepared(bench: Bench, fetch: str) -> int:
    """A source issue that is followed, and was talked about before it was."""
    bench.host |= {"operator_logins": ["boss"]}
    bench.host |= {"incremental": False} if fetch == "full" else {"fetch": fetch}
    issue = bench.hub.create_issue(REPO, "The crane is misnamed").number
    bench.hub.comment(REPO, issue, "said before anybody followed")
    bench.world.advance(3600)
    bench.follow(issue)
    bench.world.advance(60)
    return issue


def marks(bench: Bench) -> tuple[int, int]:
    ((consumed, redirected),) = bench.read(
        "SELECT pre_pr_last_consumed_comment_id, post_pr_last_redirected_comment_id FROM issue_comment_cursors"
    )
    return consumed, redirected


def take(bench: Bench) -> EventRow | None:
    with bench.database() as database:
        event = lease_next(database, bench.clock.now_ms(), 60_000, "a handler")
        if event is not None:
            ack(database, event.id, bench.clock.now_ms())
        return event


@BY
def test_comments_before_the_pull_request_become_one_event_consumed_on_lease(bench: Bench, fetch: str) -> None:
    issue = prepared(bench, fetch)
    bench.hub.comment(REPO, issue, "first")
    bench.poll()
    last = bench.hub.comment(REPO, issue, "second")
    bench.settle(2)
    assert len(bench.event_keys()) == 1
    assert marks(bench) == (0, 0), "stored is not consumed"
    event = take(bench)
    assert event is not None
    assert (event.kind, event.issue_number, event.pr_number) == ("issue_followups", issue, None)
    assert [word in event.body for word in ("first", "second", "before anybody")] == [True, True, False]
    assert marks(bench) == (last.id, 0)
    bench.hub.edit_comment(last.id, "second, edited after it was consumed")
    third = bench.hub.comment(REPO, issue, "third")
    bench.settle(2)
    after = take(bench)
    assert after is not None
    assert after.body == "third"
    assert marks(bench) == (third.id, 0)
    assert take(bench) is None


@BY
@gate_cases(1)
def test_comments_after_the_pull_request_get_one_redirect_each(bench: Bench, fetch: str) -> None:
    issue = prepared(bench, fetch)
    bench.settle(2)
    bench.track(1, issue=issue)
    bench.settle(2)
    said = []
    for turn in range(3):
        said.append(bench.hub.comment(REPO, issue, f"said in the wrong place {turn}"))
        bench.settle(1)
    bench.hub.edit_comment(said[0].id, "said again in the wrong place")
    bench.settle(2)
    rows = bench.read("SELECT scope_kind, scope_number, source FROM outbox ORDER BY id")
    assert rows == [("issue", issue, "issue_redirect")] * 3
    assert marks(bench) == (0, said[-1].id)
    assert bench.event_keys() == []


@BY
def test_comments_from_before_the_pull_request_that_are_read_later_become_events(bench: Bench, fetch: str) -> None:
    issue = prepared(bench, fetch)
    bench.hub.comment(REPO, issue, "read in time")
    bench.settle(2)
    assert take(bench) is not None
    bench.hub.comment(REPO, issue, "written just before the pull request was named")
    bench.world.advance(600)
    bench.track(1, issue=issue)
    bench.world.advance(60)
    bench.hub.comment(REPO, issue, "written after it")
    bench.settle(2)
    event = take(bench)
    assert event is not None
    assert (event.kind, event.body) == ("issue_followups", "written just before the pull request was named")
    assert bench.read("SELECT COUNT(*) FROM outbox") == [(1,)]


@BY
def test_an_issue_whose_pull_request_ended_is_not_polled(bench: Bench, fetch: str) -> None:
    issue = prepared(bench, fetch)
    bench.track(1, issue=issue)
    bench.settle(2)
    bench.hub.merge(REPO, 1)
    bench.settle(1)
    bench.hub.comment(REPO, issue, "too late")
    assert bench.counted(bench.poll)["all"] == 0
    assert bench.read("SELECT COUNT(*) FROM outbox") == [(0,)]


@BY
@gate_cases(1)
def test_the_operations_issue_is_read_from_its_first_poll_on(bench: Bench, fetch: str) -> None:
    issue = prepared(bench, fetch)
    room = bench.hub.create_issue(REPO, "Operations").number
    bench.host["operations_issue"] = room
    bench.hub.comment(REPO, room, "/lore pause", "boss")
    bench.world.advance(3600)
    bench.track(1, issue=issue)
    bench.settle(2)
    bench.hub.comment(REPO, room, "/lore status", "boss")
    bench.hub.comment(REPO, room, "/lore pause pr=1", "a-stranger")
    bench.hub.comment(REPO, room, "/lore pause pr=1", "machine[bot]")
    bench.hub.comment(REPO, room, "talk in the operations room")
    said = bench.hub.comment(REPO, room, "/lore help", "boss")
    bench.settle(2)
    bench.hub.edit_comment(said.id, "/lore resume pr=1")
    bench.settle(2)
    rows = bench.read("SELECT command, author, status FROM operator_commands ORDER BY commented_at, comment_id")
    assert rows == [
        ("status", "boss", "pending"),
        ("pause", "a-stranger", "rejected"),
        ("help", "boss", "pending"),
        ("resume", "boss", "pending"),
    ]
    assert bench.apply_commands() == ["status", "help", "resume"]
    bench.settle(2)
    assert bench.apply_commands() == []
    assert bench.read("SELECT COUNT(*), COUNT(DISTINCT token) FROM outbox") == [(4, 4)]
    assert bench.event_keys() == []
