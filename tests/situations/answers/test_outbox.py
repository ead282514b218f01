"""Posting: each intent becomes one comment, whatever happens on the way."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.databases.feedback_rows import read_action_token
from tests.situations.answers.hub import REPO, Hub

from tidelore.core.errors import CredentialsRejected
from tidelore.feedback.outbox import Outbox
from tidelore.feedback.tokens import marker
from tidelore.store.database.port import Database
from tidelore.store.work.action_tokens import observe_in_project
from tidelore.store.work.outbox import claim, note_attempt
from tidelore_world.wire import Request

REPLIES = "POST /repos/:owner/:repo/issues/:n/comments"
READS = "GET /repos/:owner/:repo/issues/:n/comments"


def test_a_planned_reply_is_posted_and_observed_at_once(hub: Hub) -> None:
    row = hub.send(hub.intend("Done."))
    (comment,) = hub.remarks()
    assert comment.body == f"Done.\n\n{marker(row.token)}"
    assert (row.status, row.comment_id, row.attempts) == ("observed", comment.id, 1)
    token = read_action_token(hub.database, row.token, REPO)
    assert token is not None
    assert (token.status, token.observed_comment_id, token.attempt_count) == ("observed", comment.id, 1)


def test_a_reply_to_a_review_comment_is_posted_in_its_thread(hub: Hub) -> None:
    first = hub.world.github.review_comment(REPO, hub.pr, "Rename this.", "alex")
    row = hub.send(hub.intend("Renamed.", reply_to=first.id))
    (reply,) = hub.remarks()
    assert getattr(reply, "in_reply_to", None) == first.id
    assert row.status == "observed"


def test_the_same_reply_planned_twice_is_posted_once(hub: Hub) -> None:
    first, second = hub.intend("Done."), hub.intend("Done.")
    assert first.id == second.id
    hub.send(first)
    assert hub.send(second).status == "observed"
    assert len(hub.remarks()) == hub.posts() == 1


def test_a_reply_with_a_lost_response_is_found_by_its_marker_and_not_reposted(hub: Hub) -> None:
    hub.host = replace(hub.host, settle_write_seconds=1)
    hub.world.github.settings.lost_answers = 1
    row = hub.send(hub.intend())
    assert (row.status, row.last_error, row.attempts) == ("planned", "unclear_write", 1)
    assert row.next_attempt_at == (row.attempted_at or 0) + 1000
    assert hub.send(row).status == "planned", "too early to know"
    hub.let_pass(1)
    found = hub.send(row)
    assert (found.status, found.attempts, found.last_error) == ("observed", 1, None)
    assert found.comment_id == hub.remarks()[0].id
    assert len(hub.remarks()) == hub.posts() == 1


@pytest.mark.parametrize("status", [500, 502, 503])
def test_after_a_server_error_a_reply_is_reposted_only_if_it_is_absent(hub: Hub, status: int) -> None:
    fault = hub.world.faults.add("status", REPLIES, status=status)
    row = hub.send(hub.intend())
    assert (row.status, row.last_error) == ("planned", "unclear_write")
    hub.let_pass(29.9)
    hub.send(row)
    assert hub.posts() == 1
    hub.let_pass(0.1)
    again = hub.send(row)
    assert fault.fired == 1
    assert (again.status, again.attempts) == ("observed", 2)
    assert len(hub.remarks()) == 1


def test_a_write_that_arrives_late_is_not_duplicated(hub: Hub) -> None:
    hub.world.late_seconds = [0.2]
    row = hub.send(hub.intend())
    assert (row.status, len(hub.remarks())) == ("planned", 0)
    hub.world.wait_for_landings()
    hub.let_pass(30)
    assert hub.send(row).status == "observed"
    assert len(hub.remarks()) == 1


def test_the_marker_is_found_beyond_the_first_page(hub: Hub) -> None:
    hub.world.github.settings.lost_answers = 1
    hub.host = replace(hub.host, settle_write_seconds=1)
    for number in range(205):
        hub.world.github.comment(REPO, hub.pr, f"Before {number}", "alex")
    row = hub.send(hub.intend())
    hub.let_pass(1)
    hub.world.requests.clear()
    assert hub.send(row).status == "observed"
    assert hub.world.requests[READS] == 3
    assert hub.posts() == 0


def test_only_comments_since_the_reply_was_planned_are_read_back(hub: Hub) -> None:
    for number in range(150):
        hub.world.github.comment(REPO, hub.pr, f"Long ago {number}", "alex")
    hub.let_pass(3600)
    hub.world.faults.add("status", REPLIES, status=500)
    row = hub.send(hub.intend())
    hub.let_pass(30)
    hub.world.requests.clear()
    assert hub.send(row).status == "observed"
    assert hub.world.requests[READS] == 1


def test_a_deletion_while_reading_back_does_not_hide_our_comment(hub: Hub) -> None:
    """The last item of page 1 goes while page 1 is out: ours, first on page 2, slides into page 1 unseen."""
    earlier = [hub.world.github.comment(REPO, hub.pr, f"Before {number}", "alex") for number in range(100)]
    hub.world.github.settings.lost_answers = 1
    hub.host = replace(hub.host, settle_write_seconds=1)
    row = hub.send(hub.intend())
    for number in range(30):
        hub.world.github.comment(REPO, hub.pr, f"After {number}", "alex")

    def delete_between(request: Request) -> None:
        if request.method == "GET" and "2" in request.query.get("page", []) and earlier:
            hub.world.github.delete_comment(earlier.pop().id)
            hub.world.before_request.remove(delete_between)

    hub.world.before_request.append(delete_between)
    hub.let_pass(1)
    assert hub.send(row).status == "observed"
    assert delete_between not in hub.world.before_request
    assert len(hub.remarks()) == 1


def test_a_clock_that_is_far_ahead_of_the_server_does_not_hide_our_comment(hub: Hub) -> None:
    hub.manual.advance(40 * 86_400)
    hub.host = replace(hub.host, settle_write_seconds=1)
    hub.world.github.settings.lost_answers = 1
    row = hub.send(hub.intend())
    hub.let_pass(1)
    assert hub.send(row).status == "observed"
    assert len(hub.remarks()) == 1


def test_with_a_clock_far_ahead_only_comments_since_planning_are_read_back(hub: Hub) -> None:
    for number in range(150):
        hub.world.github.comment(REPO, hub.pr, f"Long ago {number}", "alex")
    hub.let_pass(3600)
    hub.manual.advance(40 * 86_400)
    hub.host = replace(hub.host, settle_write_seconds=1)
    hub.world.github.settings.lost_answers = 1
    row = hub.send(hub.intend())
    hub.let_pass(1)
    hub.world.requests.clear()
    assert hub.send(row).status == "observed"
    assert hub.world.requests[READS] == 2, "one page by our clock, one page by the server's"


@pytest.mark.parametrize("status", [403, 404, 410, 422])
def test_a_refused_reply_fails_permanently_with_the_reason(hub: Hub, status: int) -> None:
    hub.world.faults.add("status", REPLIES, status=status, message="no, never")
    row = hub.send(hub.intend())
    assert row.status == "failed"
    assert "no, never" in (row.last_error or "")
    hub.let_pass(3600)
    assert hub.send(row).status == "failed"
    assert hub.posts() == 1


def test_a_rate_limited_reply_is_posted_after_the_wait(hub: Hub) -> None:
    hub.world.github.limits.impose_secondary(1, retry_after=90)
    first, second = hub.intend("One"), hub.intend("Two")
    sent = hub.send_due()
    assert [row.id for row in sent] == [first.id], "the limit is the host's, not the row's"
    assert sent[0].next_attempt_at == hub.clock.now_ms() + 90_000
    hub.let_pass(90)
    assert [row.status for row in hub.send_due()] == ["observed", "observed"]
    assert {comment.body[:3] for comment in hub.remarks()} == {"One", "Two"}
    assert hub.row(second).attempts == 1


def test_rejected_credentials_give_one_error_and_keep_the_replies(hub: Hub) -> None:
    hub.world.faults.add("status", REPLIES, status=401)
    row = hub.intend()
    with pytest.raises(CredentialsRejected):
        hub.send_due()
    assert (hub.row(row).status, hub.row(row).claim_id) == ("planned", None)
    hub.let_pass(30)
    assert hub.send(row).status == "observed"


def test_an_unreachable_host_is_retried_with_back_off(hub: Hub) -> None:
    hub.host = replace(hub.host, base_url="http://127.0.0.1:9")
    row = hub.intend()
    pauses = []
    for _ in range(7):
        row = hub.send(row)
        pauses.append(((row.next_attempt_at or 0) - hub.clock.now_ms()) / 1000)
        hub.manual.advance(pauses[-1])
    assert row.status == "planned"
    assert pauses == [5, 25, 30, 60, 120, 240, 300], "a pause, the rest of the settling time, then doubling"


def test_credentials_rejected_while_reading_back_give_one_error_and_no_post(hub: Hub) -> None:
    hub.world.github.settings.lost_answers = 1
    row = hub.send(hub.intend())
    hub.let_pass(30)
    hub.world.faults.add("status", READS, status=401)
    with pytest.raises(CredentialsRejected):
        hub.send(row)
    assert hub.posts() == 1
    assert hub.send(row).status == "observed"
    assert len(hub.remarks()) == 1


def test_a_failed_read_back_does_not_cause_a_repost(hub: Hub) -> None:
    hub.world.faults.add("status", REPLIES, status=500)
    row = hub.send(hub.intend())
    hub.let_pass(30)
    fault = hub.world.faults.add("status", READS, status=404)
    assert hub.send(row).status == "planned"
    assert (fault.fired, hub.posts()) == (1, 1)


def test_an_unparsable_comment_that_may_be_ours_does_not_cause_a_repost(hub: Hub) -> None:
    hub.host = replace(hub.host, settle_write_seconds=1)
    hub.world.github.settings.lost_answers = 1
    row = hub.send(hub.intend())
    hub.let_pass(1)
    fault = hub.world.faults.add("invalid_timestamp", READS, times=None)
    assert hub.send(row).status == "planned"
    assert (fault.fired, hub.posts()) == (1, 1)
    hub.world.faults.clear()
    hub.let_pass(300)
    assert hub.send(row).status == "observed"
    assert len(hub.remarks()) == 1


def test_writes_to_one_host_are_spaced_across_processes(hub: Hub, connect: Callable[[], Database]) -> None:
    hub.intend("One")
    hub.intend("Two")
    other = Hub(hub.world, hub.url, connect(), hub.clock, hub.host, hub.pr)
    hub.send_due(1)
    before = hub.clock.now_ms()
    other.send_due(1)
    assert len(hub.remarks()) == 2
    assert hub.clock.now_ms() - before >= 1000
    assert hub.manual.slept == [1.0]


def test_a_reply_claimed_by_another_process_is_left_to_it(hub: Hub) -> None:
    row = hub.intend()
    assert claim(hub.database, row.id, hub.clock.now_ms(), 60_000, "another") is not None
    assert hub.send(row).claim_id == "another"
    assert hub.send_due() == []
    assert hub.posts() == 0
    hub.let_pass(61)
    assert hub.send(row).status == "observed"


def test_the_write_of_a_dead_process_gets_time_to_arrive_before_a_repost(hub: Hub) -> None:
    row = hub.intend()
    assert claim(hub.database, row.id, hub.clock.now_ms(), 1, "the dead") is not None
    assert note_attempt(hub.database, row.id, "the dead", hub.clock.now_ms()) == 0
    hub.let_pass(10)
    hub.world.requests.clear()
    waiting = hub.send(row)
    assert hub.world.requests.total() == 0
    assert (waiting.status, waiting.next_attempt_at) == ("planned", (waiting.attempted_at or 0) + 30_000)
    hub.let_pass(20)
    assert hub.send(row).status == "observed"
    assert (hub.world.requests[READS], hub.posts()) == (1, 1)


def test_two_concurrent_senders_post_a_reply_once(hub: Hub, connect: Callable[[], Database]) -> None:
    row = hub.intend()
    other = connect()

    async def both(source: Any) -> None:
        await asyncio.gather(
            *(Outbox(database, source, hub.host, hub.clock).send(row.id) for database in (hub.database, other))
        )

    hub.ask(both)
    assert len(hub.remarks()) == hub.posts() == 1
    assert hub.row(row).status == "observed"


def test_a_reply_already_seen_by_a_poll_is_not_read_back(hub: Hub) -> None:
    hub.host = replace(hub.host, settle_write_seconds=1)
    hub.world.github.settings.lost_answers = 1
    row = hub.send(hub.intend())
    (comment,) = hub.remarks()
    with hub.database.transaction() as tx:
        assert observe_in_project(tx, hub.project_id, hub.pr, row.token, comment.id, 1, hub.clock.now_ms())
    hub.let_pass(1)
    hub.world.requests.clear()
    assert hub.send_due() == []
    assert hub.send(row).status == "observed"
    assert hub.world.requests.total() == 0


def test_replies_to_a_renamed_repository_are_posted_under_its_new_name(hub: Hub) -> None:
    row = hub.intend()
    hub.world.github.rename_repo(REPO, "harbor/lifts")
    assert hub.send(row).status == "observed"
    with hub.world.lock:
        assert [comment.number for comment in hub.world.github.repository("harbor/lifts").comments] == [hub.pr]


def test_only_replies_of_the_given_host_are_sent(hub: Hub) -> None:
    row = hub.intend()
    with hub.database.transaction() as tx:
        tx.execute("UPDATE projects SET source = 'elsewhere'")
    assert hub.send_due() == []
    assert hub.row(row).attempts == 0


def test_a_body_with_control_characters_and_many_scripts_arrives_unchanged(hub: Hub) -> None:
    body = "tab\there, \x07 bell, é 𝄞 עברית\n```\ncode\n```"
    hub.send(hub.intend(body))
    assert re.split(r"\n\n<!--", hub.remarks()[0].body)[0] == body


def test_an_answer_goes_to_the_renamed_repository_and_not_to_one_that_took_over_its_name(hub: Hub) -> None:
    row = hub.intend()
    hub.world.github.rename_repo(REPO, "harbor/lifts")
    hub.world.github.create_repo(REPO)
    hub.world.github.create_pull(REPO, "A pull request of another repository", author="alex")
    assert hub.send(row).status == "observed"
    with hub.world.lock:
        assert [comment.number for comment in hub.world.github.repository("harbor/lifts").comments] == [hub.pr]
        assert list(hub.world.github.repository(REPO).comments) == []
