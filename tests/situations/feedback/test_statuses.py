"""What becomes of a followed pull request: merged, closed, rewritten, blocked, back; and what is said meanwhile."""

from __future__ import annotations

import pytest
from tests.situations.feedback.bench import REPO, Bench, key, open_pulls
from tests.support.deep import gate_cases

from tidelore.core.errors import RemoteError, UserError
from tidelore.store.database.port import Transaction
from tidelore.store.work import tracked_pull_requests
from tidelore.store.work.tracked_pull_requests import history
from tidelore_world.github.records import Comment, ReviewComment

BY = pytest.mark.parametrize("fetch", ["repo", "thread"])


def steps(bench: Bench, number: int = 1) -> list[tuple[str, str]]:
    row = bench.row(number)
    with bench.database() as database:
        return [(step.to_status, step.reason) for step in history(database, row.id)]


def followed_by(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch, "operator_logins": ["boss"]}
    bench.track(1)
    bench.settle(3)


@BY
def test_a_merged_pull_request_gets_status_merged_and_is_not_polled_again(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.merge(REPO, 1)
    assert bench.poll().moved == ["#1 awaiting_feedback -> merged (merged on the remote)"]
    bench.world.advance(60)
    bench.hub.comment(REPO, 1, "too late")
    assert bench.counted(bench.poll)["all"] == 0
    assert bench.event_keys() == []


@BY
def test_a_closed_pull_request_stays_closed_when_it_is_reopened(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.close(REPO, 1)
    bench.poll()
    bench.hub.reopen(REPO, 1)
    bench.hub.comment(REPO, 1, "said after it was reopened")
    bench.settle(2)
    assert bench.row(1).status == "closed"
    assert bench.event_keys() == []


@BY
def test_a_resumed_pull_request_gets_the_comments_made_while_it_was_closed(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.close(REPO, 1)
    bench.poll()
    bench.world.advance(600)
    said = bench.hub.comment(REPO, 1, "while it was closed")
    bench.hub.comment(REPO, 1, "/lore pause", "boss")
    bench.world.advance(600)
    bench.hub.reopen(REPO, 1)
    assert bench.live(lambda life: life.resume(1)).status == "awaiting_feedback"
    bench.settle(2)
    late = bench.hub.comment(REPO, 1, "after it was resumed")
    bench.settle(2)
    assert bench.event_keys() == [key(said), key(late)]
    assert bench.read("SELECT command FROM operator_commands") == [], "what was said to nobody is no command"


def test_a_merged_pull_request_cannot_be_resumed(followed: Bench) -> None:
    followed.hub.merge(REPO, 1)
    followed.poll()
    with pytest.raises(UserError, match="merged"):
        followed.live(lambda life: life.resume(1))


@BY
def test_a_pull_request_ended_before_the_first_poll_and_beyond_page_one_is_noticed(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    bench.track(1)
    bench.world.advance(60)
    bench.hub.merge(REPO, 1)
    bench.world.advance(60)
    open_pulls(bench.world, 40)
    bench.poll()
    assert bench.row(1).status == "merged"


@BY
def test_a_descendant_head_is_accepted_and_a_force_push_blocks(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    quiet = bench.poll().surfaces
    ahead = bench.hub.push(REPO, 1)
    pushed = bench.poll().surfaces
    assert (bench.row(1).status, bench.row(1).last_seen_head_sha) == ("awaiting_feedback", ahead)
    assert pushed["pulls"].requests == quiet["pulls"].requests + 1, "the comparison of the heads counts"
    bench.world.advance(60)
    bench.hub.push(REPO, 1, force=True)
    bench.poll()
    row = bench.row(1)
    assert (row.status, row.blocked_reason, row.last_seen_head_sha) == ("blocked", "history_rewritten", ahead)
    assert steps(bench)[-1] == ("blocked", "history_rewritten")


@BY
def test_comments_made_while_blocked_are_ingested_once_after_unblocking(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    old = bench.hub.comment(REPO, 1, "before")
    bench.settle(2)
    bench.hub.push(REPO, 1, force=True)
    between = bench.hub.comment(REPO, 1, "after the last poll, before anybody knew")
    bench.poll()
    said: list[Comment | ReviewComment] = []
    for turn in range(3):
        bench.world.advance(60)
        said.append(bench.hub.comment(REPO, 1, f"while blocked, {turn}"))
        said.append(bench.hub.review_comment(REPO, 1, f"a remark while blocked, {turn}"))
        bench.poll()
    edited = bench.hub.edit_comment(old.id, "edited while blocked")
    review = bench.hub.review(REPO, 1, "APPROVED", "a review while blocked")
    bench.settle(2)
    assert bench.event_keys() == [key(old)]
    bench.unblock(1)
    bench.settle(2)
    wanted = {key(one) for one in (old, between, edited, *said)}
    assert {one for one in bench.event_keys() if ":review_summary:" not in one} == wanted
    assert sum(f":review_summary:{review.id}:" in one for one in bench.event_keys()) == 1
    after = bench.hub.comment(REPO, 1, "and it goes on")
    bench.settle(2)
    assert key(after) in bench.event_keys()
    assert len(bench.event_keys()) == len(wanted) + 2


@BY
def test_a_blocked_pull_request_accepts_commands_and_expires_earlier_ones(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.comment(REPO, 1, "/lore unblock", "boss")
    bench.world.advance(10)
    bench.hub.push(REPO, 1, force=True)
    bench.poll()
    bench.world.advance(60)
    bench.poll()
    bench.hub.comment(REPO, 1, "/lore status", "boss")
    bench.hub.comment(REPO, 1, "/lore unblock", "nobody-we-know")
    bench.poll()
    bench.world.advance(60)
    bench.hub.comment(REPO, 1, "/lore unblock", "boss")
    bench.poll()
    rows = bench.read("SELECT command, author, status FROM operator_commands ORDER BY commented_at, comment_id")
    assert rows == [
        ("unblock", "boss", "expired"),
        ("status", "boss", "pending"),
        ("unblock", "nobody-we-know", "rejected"),
        ("unblock", "boss", "pending"),
    ]
    assert bench.apply_commands() == ["status", "unblock"]
    assert bench.row(1).status == "awaiting_feedback"


@BY
def test_a_block_and_unblock_between_two_polls_lose_no_comment(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    said = [bench.hub.comment(REPO, 1, "before")]
    bench.poll()
    said.append(bench.hub.comment(REPO, 1, "not read yet"))
    bench.block(1)
    bench.world.advance(30)
    said.append(bench.hub.comment(REPO, 1, "while blocked"))
    bench.unblock(1)
    bench.settle(2)
    assert bench.event_keys() == [key(one) for one in said]


@BY
@pytest.mark.parametrize("trouble", ["status", "timeout", "disconnect", "truncated", "not_json"])
@gate_cases(3)
def test_a_transport_error_blocks_no_pull_request_and_loses_nothing(bench: Bench, fetch: str, trouble: str) -> None:
    followed_by(bench, fetch)
    bench.hub.push(REPO, 1)
    said = bench.hub.comment(REPO, 1, "during the outage")
    options = {"status": (500, 502, 503)} if trouble == "status" else {"seconds": 0} if trouble == "timeout" else {}
    fault = bench.world.faults.add(trouble, None, None, **options)  # type: ignore[arg-type]
    report = bench.try_poll()
    assert report.error is not None or report.failures
    assert fault.fired
    bench.world.faults.clear()
    assert steps(bench) == [("awaiting_feedback", "tracked")]
    bench.settle(2)
    assert bench.row(1).status == "awaiting_feedback"
    assert bench.event_keys() == [key(said)]


@BY
def test_a_failed_head_comparison_delays_neither_comments_nor_other_pull_requests(bench: Bench, fetch: str) -> None:
    open_pulls(bench.world, 2)
    bench.track(2, 3)
    followed_by(bench, fetch)
    bench.hub.push(REPO, 1)
    bench.hub.merge(REPO, 2)
    said = bench.hub.comment(REPO, 3, "meanwhile elsewhere")
    fault = bench.world.faults.add("status", "GET /repos/octo/tide/compare", None, status=500)
    report = bench.try_poll()
    assert fault.fired
    assert report.error is None
    assert [(what, isinstance(error, RemoteError)) for what, error in report.failures.items()] == [("#1", True)]
    assert bench.row(2).status == "merged"
    assert bench.event_keys() == [key(said)]
    bench.world.faults.clear()
    bench.world.advance(60)
    bench.poll()
    head = bench.hub.repository(REPO).thread(1).require_pull().head_sha
    assert (bench.row(1).status, bench.row(1).last_seen_head_sha) == ("awaiting_feedback", head)


def test_a_force_push_beyond_a_full_page_of_one_second_is_noticed(bench: Bench) -> None:
    """The first page of the list answers the same as before: what changed within that second stands behind it."""
    bench.host |= {"fetch": "repo"}
    bench.per_page = 2
    bench.track(1)
    bench.settle(2)
    bench.world.advance(60)
    for number in range(2):
        bench.hub.create_pull(REPO, f"somebody's {number}", author="sam")
    bench.poll()
    bench.hub.push(REPO, 1, force=True)
    bench.poll()
    assert bench.row(1).status == "blocked"


def test_a_pull_request_unblocked_while_stored_comments_are_judged_loses_none_of_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_pulls(bench.world)
    bench.host["fetch"] = "repo"
    bench.track(1, 2)
    bench.settle(2)
    bench.block(2)
    said = bench.hub.comment(REPO, 2, "while it is blocked")
    bench.settle(2)
    bench.write("UPDATE tracked_prs SET judge_from = 0")
    begin = tracked_pull_requests.begin_judging

    def overtaken(tx: Transaction, tracked_id: int) -> int | None:
        if tracked_id == bench.row(2).id:
            tx.execute(
                "UPDATE tracked_prs SET status = 'awaiting_feedback', blocked_reason = NULL, blocked_at = NULL"
                " WHERE pr_number = 2"
            )
        return begin(tx, tracked_id)

    monkeypatch.setattr(tracked_pull_requests, "begin_judging", overtaken)
    bench.poll()
    assert bench.event_keys() == [key(said)]
