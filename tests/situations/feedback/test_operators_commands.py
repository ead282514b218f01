"""Commands of operators: wherever and whenever they are written, they are run once."""

from __future__ import annotations

import pytest
from tests.situations.feedback.bench import REPO, Bench

from tidelore.feedback.consumer import FeedbackConsumer
from tidelore.store.work.effects import thread_comments

BY = pytest.mark.parametrize("fetch", ["repo", "thread"])
CLOCKS = pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000], ids=["behind", "ahead"])


def followed_by(bench: Bench, fetch: str) -> None:
    bench.host |= {"fetch": fetch, "operator_logins": ["boss"]}
    bench.track(1)
    bench.settle(2)


def commands(bench: Bench) -> list[tuple[str, str]]:
    return bench.read("SELECT command, status FROM operator_commands ORDER BY commented_at, ingested_at, command_key")


@BY
def test_a_command_in_a_review_comment_is_applied_and_answered(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.hub.review_comment(REPO, 1, "/lore pause", author="boss")
    bench.poll()
    seen = "SELECT value FROM metric_counters WHERE name = 'operator_commands_seen_total'"
    assert bench.read(seen) == [(1,)]
    assert bench.apply_commands() == ["pause"]
    assert bench.row(1).paused
    assert bench.read("SELECT scope_number, reply_to FROM outbox") == [(1, None)]
    assert bench.event_keys() == []


@BY
def test_unblock_in_a_review_comment_of_a_blocked_pull_request_unblocks_it(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    bench.block(1)
    bench.world.advance(60)
    said = bench.hub.review_comment(REPO, 1, "While it was blocked", author="octo")
    bench.hub.review_comment(REPO, 1, "/lore unblock", author="boss")
    bench.poll()
    assert bench.apply_commands() == ["unblock"]
    assert bench.row(1).status == "awaiting_feedback"
    bench.settle(2)
    assert [key.split(":")[2] for key in bench.event_keys()] == [str(said.id)]


@BY
def test_a_command_edited_within_the_second_it_was_posted_is_run(bench: Bench, fetch: str) -> None:
    followed_by(bench, fetch)
    said = bench.hub.comment(REPO, 1, "/lore status", "boss")
    bench.poll()
    bench.hub.edit_comment(said.id, "/lore pause")
    bench.poll()
    assert bench.apply_commands() == ["status", "pause"]
    assert bench.row(1).paused


@CLOCKS
@BY
def test_with_a_wrong_local_clock_a_command_after_the_block_is_run_and_one_before_it_expires(
    bench: Bench, fetch: str, skew_ms: int
) -> None:
    bench.skew_ms = skew_ms
    followed_by(bench, fetch)
    bench.hub.comment(REPO, 1, "/lore unblock", "boss")
    bench.world.advance(10)
    bench.block(1)
    bench.world.advance(10)
    bench.hub.comment(REPO, 1, "/lore unblock head_sha=abcdef1", "boss")
    bench.world.advance(10)
    bench.poll()
    assert commands(bench) == [("unblock", "expired"), ("unblock", "pending")]


@CLOCKS
@BY
def test_with_a_wrong_local_clock_a_command_before_tracking_is_ignored_and_one_after_it_is_run(
    bench: Bench, fetch: str, skew_ms: int
) -> None:
    bench.skew_ms = skew_ms
    bench.hub.comment(REPO, 1, "/lore sync", "boss")
    bench.world.advance(60)
    followed_by(bench, fetch)
    bench.hub.comment(REPO, 1, "/lore pause", "boss")
    bench.settle(2)
    assert commands(bench) == [("pause", "pending")]


@CLOCKS
def test_with_a_wrong_local_clock_commands_on_the_operations_issue_are_run(bench: Bench, skew_ms: int) -> None:
    bench.skew_ms = skew_ms
    issue = bench.hub.create_issue(REPO, "Operations")
    bench.host |= {"operator_logins": ["boss"], "operations_issue": issue.number}
    bench.hub.comment(REPO, issue.number, "/lore sync", "boss")
    bench.world.advance(60)
    bench.poll()
    bench.world.advance(60)
    bench.hub.comment(REPO, issue.number, "/lore status", "boss")
    bench.settle(2)
    assert commands(bench) == [("status", "pending")]


@CLOCKS
def test_with_a_wrong_local_clock_a_comment_on_a_source_issue_is_a_follow_up(bench: Bench, skew_ms: int) -> None:
    bench.skew_ms = skew_ms
    issue = bench.hub.create_issue(REPO, "Source")
    bench.hub.comment(REPO, issue.number, "Before it was followed", "octo")
    bench.world.advance(60)
    bench.follow(issue.number)
    bench.world.advance(60)
    bench.hub.comment(REPO, issue.number, "Do it this way", "octo")
    bench.settle(2)
    assert bench.bodies() == ["Do it this way"]


def test_an_old_command_in_the_operations_issue_is_not_run_when_the_issue_is_stored_before_it_is_followed(
    bench: Bench,
) -> None:
    """As by `lore sync --issue`, which follows nothing."""
    bench.host |= {"mirror": "all", "operator_logins": ["boss"]}
    number = bench.hub.create_issue(REPO, "Operations").number
    bench.hub.comment(REPO, number, "/lore pause", "boss")
    bench.settle(2)
    bench.host["operations_issue"] = number
    project = bench.project()
    with bench.database() as database:
        consumer = FeedbackConsumer(database, bench.config, bench.clock, {})
        records = [one.record for one in thread_comments(database.read, project.id, number)]
        assert [record.body for record in records] == ["/lore pause"]
        with database.transaction() as tx:
            consumer.stored(tx, project.id, records, bench.clock.now_ms())
    bench.settle(2)
    assert commands(bench) == []
    bench.hub.comment(REPO, number, "/lore status", "boss")
    bench.settle(2)
    assert commands(bench) == [("status", "pending")]
