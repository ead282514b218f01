"""The life of a followed pull request: tracked, blocked, unblocked, closed, resumed, untracked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace
from tests.situations.answers.hub import REPO, Hub

from tidelore.core.config import repo_settings
from tidelore.core.errors import IllegalTransition, NotFound, RemoteNotFound, UserError
from tidelore.feedback.context import read_context
from tidelore.feedback.lifecycle import Lifecycle, block_pull
from tidelore.store.mirror.cursors import list_poll_cursors, thread_scope, transfer_position
from tidelore.store.work.followed_issues import find_issue
from tidelore.store.work.tracked_pull_requests import TrackedPr, begin_judging, find_tracked, history, move

T = TypeVar("T")
DAY = 86_400


def living(hub: Hub, work: Callable[[Lifecycle], Awaitable[T]]) -> T:
    return hub.ask(lambda source: work(Lifecycle(hub.database, source, hub.project(), hub.host, hub.clock)))


def track(hub: Hub, number: int | None = None, issue_number: int | None = None) -> TrackedPr:
    return living(hub, lambda life: life.track(number or hub.pr, issue_number=issue_number))


def step(hub: Hub, row: TrackedPr, status: str) -> TrackedPr:
    with hub.database.transaction() as tx:
        return move(tx, row, status, "seen", None, hub.clock.now_ms())


def standing(hub: Hub, surface: str = "pr_issue_comments") -> tuple[int | None, bool] | None:
    found = [
        (cursor.last_updated_at, cursor.bootstrap_complete)
        for cursor in list_poll_cursors(hub.database, hub.project_id)
        if (cursor.surface, cursor.scope_number) == (surface, hub.pr)
    ]
    return found[0] if found else None


def stand(hub: Hub, surface: str, number: int, at: int) -> None:
    scope = thread_scope("github", hub.project_id, hub.project().remote_id, surface, number)
    with hub.database.transaction() as tx:
        transfer_position(tx, scope, at, complete=True, now_ms=hub.clock.now_ms())


def test_an_open_pull_request_is_tracked_with_its_title_author_and_head(hub: Hub) -> None:
    issue = hub.world.github.create_issue(REPO, "The crane is misnamed")
    row = track(hub, issue_number=issue.number)
    assert (row.status, row.tracked_by, row.title, row.author) == (
        "awaiting_feedback",
        "operator",
        "Rename the crane",
        "robin",
    )
    assert row.last_seen_head_sha == hub.world.github.repository(REPO).thread(hub.pr).require_pull().head_sha
    followed = find_issue(hub.database, hub.project_id, issue.number)
    assert followed is not None
    assert followed.pr_number == hub.pr


def test_tracking_twice_creates_one_row(hub: Hub) -> None:
    first = track(hub)
    hub.let_pass(60)
    second = track(hub)
    assert (second.id, second.entered_at) == (first.id, first.entered_at)
    assert len(history(hub.database, first.id)) == 1


@pytest.mark.parametrize("end", ["close", "merge"])
def test_an_ended_pull_request_cannot_be_tracked(hub: Hub, end: str) -> None:
    getattr(hub.world.github, end)(REPO, hub.pr)
    with pytest.raises(UserError, match="is merged" if end == "merge" else "is closed"):
        track(hub)
    assert find_tracked(hub.database, hub.project_id, hub.pr) is None


def test_a_missing_pull_request_cannot_be_tracked(hub: Hub) -> None:
    with pytest.raises(RemoteNotFound):
        track(hub, 999)


def test_a_reopened_pull_request_is_tracked_again_only_by_resume(hub: Hub) -> None:
    step(hub, track(hub), "closed")
    with pytest.raises(UserError, match="is closed") as refused:
        track(hub)
    assert "lore feedback resume" in (refused.value.fix or "")


def test_resume_updates_the_head_and_reads_back_a_limited_time(hub: Hub) -> None:
    row = track(hub)
    stand(hub, "pr_issue_comments", hub.pr, hub.clock.now_ms())
    step(hub, row, "closed")
    hub.let_pass(30 * DAY)
    head = hub.world.github.push(REPO, hub.pr, force=True)
    resumed = living(hub, lambda life: life.resume(hub.pr))
    assert (resumed.status, resumed.last_seen_head_sha) == ("awaiting_feedback", head)
    assert resumed.judge_from == hub.clock.now_ms() - DAY * 1000
    standing_now = standing(hub)
    assert standing_now is not None
    assert standing_now[1] is False, "the thread is read by itself once more"
    assert [each.to_status for each in history(hub.database, row.id)] == [
        "awaiting_feedback",
        "closed",
        "awaiting_feedback",
    ]


def test_commands_written_while_the_pull_request_was_closed_are_ignored_after_resume(hub: Hub) -> None:
    row = track(hub)
    step(hub, row, "closed")
    hub.let_pass(3600)
    living(hub, lambda life: life.resume(hub.pr))
    settings = replace(repo_settings(hub.host, REPO), comment_fetch_overlap_seconds=0)
    context = read_context(hub.database, hub.project(), settings)
    assert context.followed_from(hub.pr) == hub.clock.now_ms()


def test_resuming_a_merged_pull_request_is_refused(hub: Hub) -> None:
    step(hub, track(hub), "merged")
    with pytest.raises(UserError, match="harbor/cranes#1 is merged"):
        living(hub, lambda life: life.resume(hub.pr))


def test_resuming_a_pull_request_merged_since_the_last_poll_is_refused(hub: Hub) -> None:
    row = step(hub, track(hub), "closed")
    hub.world.github.merge(REPO, hub.pr)
    with pytest.raises(UserError, match="is merged"):
        living(hub, lambda life: life.resume(hub.pr))
    assert find_tracked(hub.database, hub.project_id, hub.pr) == row


def test_resuming_a_pull_request_that_is_still_closed_is_refused(hub: Hub) -> None:
    step(hub, track(hub), "closed")
    hub.world.github.close(REPO, hub.pr)
    with pytest.raises(UserError, match="is closed") as refused:
        living(hub, lambda life: life.resume(hub.pr))
    assert refused.value.fix == "reopen it on the server first"


def test_resuming_a_tracked_pull_request_is_refused(hub: Hub) -> None:
    track(hub)
    with pytest.raises(UserError, match="is already tracked"):
        living(hub, lambda life: life.resume(hub.pr))


def test_blocking_keeps_the_reason_and_its_time(hub: Hub) -> None:
    blocked = block_pull(hub.database, track(hub), "history_rewritten", "abc is gone", hub.clock.now_ms())
    assert (blocked.status, blocked.blocked_reason, blocked.blocked_at) == (
        "blocked",
        "history_rewritten",
        hub.clock.now_ms(),
    )


def test_unblocking_judges_all_stored_comments_and_continues_with_the_current_head(hub: Hub) -> None:
    row = track(hub)
    with hub.database.transaction() as tx:
        begin_judging(tx, row.id)
    block_pull(hub.database, row, "history_rewritten", None, hub.clock.now_ms())
    head = hub.world.github.push(REPO, hub.pr, force=True)
    hub.let_pass(60)
    unblocked = living(hub, lambda life: life.unblock(hub.pr))
    assert (unblocked.status, unblocked.last_seen_head_sha, unblocked.blocked_reason) == (
        "awaiting_feedback",
        head,
        None,
    )
    assert unblocked.judge_from == 0


def test_unblock_expands_a_short_head_sha_and_accepts_an_unknown_one(hub: Hub) -> None:
    block_pull(hub.database, track(hub), "operator", None, hub.clock.now_ms())
    head = hub.world.github.repository(REPO).thread(hub.pr).require_pull().head_sha
    row = living(hub, lambda life: life.unblock(hub.pr, head_sha=head[:9].upper()))
    assert row.last_seen_head_sha == head
    block_pull(hub.database, row, "operator", None, hub.clock.now_ms())
    assert living(hub, lambda life: life.unblock(hub.pr, head_sha="F" * 40)).last_seen_head_sha == "f" * 40


@pytest.mark.parametrize("status", ["merged", "closed"])
def test_unblock_does_not_change_an_ended_pull_request(hub: Hub, status: str) -> None:
    row = step(hub, track(hub), status)
    with pytest.raises(UserError, match=f"is not blocked, it is {status}"):
        living(hub, lambda life: life.unblock(hub.pr))
    assert find_tracked(hub.database, hub.project_id, hub.pr) == row
    with pytest.raises(IllegalTransition):
        block_pull(hub.database, row, "operator", None, hub.clock.now_ms())


def test_untracking_deletes_positions_and_an_untracked_pull_request_is_not_found(hub: Hub) -> None:
    track(hub, issue_number=7)
    stand(hub, "pr_issue_comments", hub.pr, 1_000_000)
    living(hub, _untrack(hub))
    assert find_tracked(hub.database, hub.project_id, hub.pr) is None
    assert find_issue(hub.database, hub.project_id, 7) is None
    assert standing(hub) is None
    with pytest.raises(NotFound, match="is not tracked"):
        living(hub, _untrack(hub))


def _untrack(hub: Hub) -> Callable[[Lifecycle], Awaitable[TrackedPr]]:
    async def work(life: Lifecycle) -> TrackedPr:
        return life.untrack(hub.pr)

    return work
