"""Operator commands, applied from their rows: once each, answered once each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.situations.answers.hub import REPO, Hub
from tests.unit.feedback.people import comment

from tidelore.core.errors import CredentialsRejected
from tidelore.feedback.actions import CommandRunner
from tidelore.feedback.commands import COMMANDS
from tidelore.feedback.events import command_key
from tidelore.feedback.lifecycle import Lifecycle, block_pull
from tidelore.feedback.outbox import AnswerRequest, plan_answer
from tidelore.feedback.tokens import find_markers
from tidelore.store.database.port import Database, Transaction
from tidelore.store.work.events import NewCommand, NewEvent, insert_events, lease_next, nack
from tidelore.store.work.followed_issues import follow_issue
from tidelore.store.work.operator_commands import CommandRow, insert_command, list_commands
from tidelore.store.work.outbox import OutboxRow, list_outbox
from tidelore.store.work.service_records import read_counters
from tidelore.store.work.tracked_pull_requests import TrackedPr, find_tracked, history

OPERATIONS_ISSUE = 50


@pytest.fixture
def tracked(hub: Hub) -> TrackedPr:
    """The pull request, followed."""
    return hub.ask(lambda source: Lifecycle(hub.database, source, hub.project(), hub.host, hub.clock).track(hub.pr))


def say(hub: Hub, command: str, *, number: int | None = None, comment_id: int = 501, **args: str) -> None:
    """Store a command as a poll does."""
    number = number or hub.pr
    record = comment(f"/lore {command}", author="olga", number=number, remote_id=comment_id)
    about = hub.pr if number == hub.pr else None
    with hub.database.transaction() as tx:
        new = NewCommand(command_key(record), number, about, record, command, args)
        assert insert_command(tx, hub.project_id, REPO, new, hub.clock.now_ms())


def apply(hub: Hub, database: Database | None = None) -> list[CommandRow]:
    return hub.ask(
        lambda source: CommandRunner(
            database or hub.database, source, hub.project(), hub.host, hub.clock
        ).apply_pending()
    )


def applied(hub: Hub, command: str, *, number: int | None = None, **args: str) -> tuple[CommandRow, OutboxRow]:
    """Store a command, apply it, and return its row and its planned answer."""
    before = {row.id for row in list_outbox(hub.database)}
    say(hub, command, number=number, comment_id=1000 + len(before), **args)
    assert len(apply(hub)) == 1
    (answer,) = [row for row in list_outbox(hub.database) if row.id not in before]
    (row,) = [row for row in list_commands(hub.database) if row.comment_id == 1000 + len(before)]
    assert answer.body.startswith(row.result or "")
    assert find_markers(answer.body) == (answer.token,)
    return row, answer


def now_tracked(hub: Hub) -> TrackedPr:
    row = find_tracked(hub.database, hub.project_id, hub.pr)
    assert row is not None
    return row


def add_event(hub: Hub) -> None:
    record = comment("Please rename this.", number=hub.pr)
    with hub.database.transaction() as tx:
        insert_events(tx, hub.project_id, REPO, [NewEvent("1:one", hub.pr, None, record)], hub.clock.now_ms())


def test_help_lists_the_commands_and_is_answered_once(hub: Hub, tracked: TrackedPr) -> None:
    row, answer = applied(hub, "help")
    assert row.status == "applied"
    assert all(f"/lore {name}" in answer.body for name in COMMANDS)
    assert (answer.scope_kind, answer.scope_number, answer.source) == ("pr", hub.pr, "operator_command")
    hub.send_due()
    hub.send_due()
    (posted,) = hub.remarks()
    assert posted.body == answer.body


def watch_plans(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that notes, for each transaction that plans an answer, whether it is durable."""
    planned_durably: list[bool] = []
    transaction = hub.database.transaction

    @contextmanager
    def watched(*, durable: bool = False) -> Iterator[Transaction]:
        before = len(list_outbox(hub.database))
        with transaction(durable=durable) as tx:
            yield tx
        if len(list_outbox(hub.database)) > before:
            planned_durably.append(durable)

    monkeypatch.setattr(hub.database, "transaction", watched)
    return planned_durably


def test_a_command_and_its_reply_are_stored_before_the_reply_is_sent(
    hub: Hub, tracked: TrackedPr, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned_durably = watch_plans(hub, monkeypatch)
    applied(hub, "status")
    assert any(planned_durably), "a durable transaction opens a plain one inside"


def test_an_answer_is_planned_in_a_durable_transaction(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    planned_durably = watch_plans(hub, monkeypatch)
    plan_answer(hub.database, hub.project(), AnswerRequest("pr", hub.pr, "Done.", "reply"), hub.clock.now_ms())
    assert any(planned_durably)


def test_the_status_command_reports_state_head_and_pending_events(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub)
    row, _ = applied(hub, "status")
    assert row.result is not None
    assert row.result.startswith("- #1: awaiting_feedback since 2026-03-02T09:00:00.000Z, head ")
    assert row.result.endswith("; 1 pending events, 0 in progress")


def test_the_unblock_command_continues_from_the_current_head(hub: Hub, tracked: TrackedPr) -> None:
    block_pull(hub.database, tracked, "history_rewritten", None, hub.clock.now_ms())
    head = hub.world.github.push(REPO, hub.pr, force=True)
    row, _ = applied(hub, "unblock")
    assert (row.status, row.result) == ("applied", f"Unblocked: #1 is tracked again from {head[:12]}.")
    assert (now_tracked(hub).status, now_tracked(hub).last_seen_head_sha) == ("awaiting_feedback", head)


def test_the_unblock_command_accepts_a_head_and_a_pull_request(hub: Hub, tracked: TrackedPr) -> None:
    block_pull(hub.database, tracked, "history_rewritten", None, hub.clock.now_ms())
    row, answer = applied(hub, "unblock", number=OPERATIONS_ISSUE, pr=str(hub.pr), head_sha="a" * 40)
    assert row.status == "applied"
    assert now_tracked(hub).last_seen_head_sha == "a" * 40
    assert (answer.scope_kind, answer.scope_number) == ("issue", OPERATIONS_ISSUE)


def test_a_command_that_cannot_be_applied_fails_with_the_reason(hub: Hub, tracked: TrackedPr) -> None:
    row, answer = applied(hub, "unblock")
    assert (row.status, row.result) == (
        "failed",
        "Failed: harbor/cranes#1 is not blocked, it is awaiting_feedback.",
    )
    assert row.result
    assert row.result in answer.body
    row, _ = applied(hub, "unblock", number=OPERATIONS_ISSUE)
    assert "add pr=NUMBER" in (row.result or "")
    row, _ = applied(hub, "pause", number=OPERATIONS_ISSUE, pr="99")
    assert row.result == "Failed: #99 is not tracked."


def test_the_unblock_command_refuses_a_merged_pull_request(hub: Hub, tracked: TrackedPr) -> None:
    block_pull(hub.database, tracked, "handler_failed", None, hub.clock.now_ms())
    hub.world.github.merge(REPO, hub.pr)
    row, _ = applied(hub, "unblock")
    assert (row.status, row.result) == ("failed", "Failed: harbor/cranes#1 is merged.")
    assert now_tracked(hub).status == "blocked"


def test_the_retry_command_hands_out_failed_events_and_ends_their_block(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub)
    event = lease_next(hub.database, hub.clock.now_ms(), 1000, "me")
    assert event is not None
    nack(hub.database, event.id, error="broken", next_attempt_at=hub.clock.now_ms() + 3_600_000)
    block_pull(hub.database, tracked, "handler_failed", "broken", hub.clock.now_ms())
    row, _ = applied(hub, "retry")
    assert row.status == "applied"
    assert now_tracked(hub).status == "awaiting_feedback"
    assert history(hub.database, tracked.id)[-1].detail == "by olga"
    again = lease_next(hub.database, hub.clock.now_ms(), 1000, "me")
    assert again is not None
    assert again.attempts == 0


def test_the_retry_command_does_not_end_a_block_with_another_reason(hub: Hub, tracked: TrackedPr) -> None:
    block_pull(hub.database, tracked, "history_rewritten", None, hub.clock.now_ms())
    assert applied(hub, "retry")[0].status == "applied"
    assert now_tracked(hub).status == "blocked"


def test_the_retry_command_on_an_issue_applies_to_its_pull_request(hub: Hub, tracked: TrackedPr) -> None:
    with hub.database.transaction() as tx:
        follow_issue(tx, hub.project_id, REPO, 7, pr_number=hub.pr, now_ms=hub.clock.now_ms())
    row, _ = applied(hub, "retry", number=OPERATIONS_ISSUE, issue="7")
    assert row.result == "Retrying: pending events of #7, #1 are delivered again now."
    row, _ = applied(hub, "retry", number=OPERATIONS_ISSUE, issue="8")
    assert row.result == "Failed: issue #8 is not tracked."


def test_pause_keeps_events_waiting_and_resume_releases_them(hub: Hub, tracked: TrackedPr) -> None:
    add_event(hub)
    applied(hub, "pause")
    assert now_tracked(hub).paused == 1
    assert lease_next(hub.database, hub.clock.now_ms(), 1000, "me") is None
    applied(hub, "resume", number=OPERATIONS_ISSUE)
    assert now_tracked(hub).paused == 0
    assert lease_next(hub.database, hub.clock.now_ms(), 1000, "me") is not None


def test_the_sync_command_makes_the_thread_be_read_from_its_beginning(hub: Hub, tracked: TrackedPr) -> None:
    assert applied(hub, "sync")[0].status == "applied"
    asked = find_tracked(hub.database, hub.project_id, hub.pr)
    assert asked is not None
    assert (tracked.scan_due, asked.scan_due) == (0, 1)


def test_a_command_is_applied_once_across_retries(hub: Hub, tracked: TrackedPr) -> None:
    say(hub, "pause")
    assert [row.command for row in apply(hub)] == ["pause"]
    assert apply(hub) == []
    assert len(list_outbox(hub.database)) == 1
    assert [(counter.name, counter.value) for counter in read_counters(hub.database)] == [
        ("operator_commands_applied_total", 1)
    ]


def test_commands_are_applied_in_the_order_they_were_written(hub: Hub, tracked: TrackedPr) -> None:
    say(hub, "resume", comment_id=502)
    say(hub, "pause", comment_id=501)
    assert [row.command for row in apply(hub)] == ["pause", "resume"]
    assert now_tracked(hub).paused == 0


def test_a_crash_between_storing_and_applying_a_command_loses_nothing(hub: Hub, tracked: TrackedPr) -> None:
    """The command is durable with the cursor; whoever comes next applies it from its row."""
    say(hub, "pause")
    assert now_tracked(hub).paused == 0
    assert [row.command for row in apply(hub)] == ["pause"]
    assert now_tracked(hub).paused == 1


def test_a_command_that_fails_half_way_stays_pending_without_a_reply(
    hub: Hub, tracked: TrackedPr, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(hub, "pause")

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("tidelore.store.work.outbox.plan", dies)
        with pytest.raises(KeyboardInterrupt):
            apply(hub)
    assert (now_tracked(hub).paused, list_outbox(hub.database)) == (0, [])
    assert [row.status for row in list_commands(hub.database)] == ["pending"]
    apply(hub)
    assert (now_tracked(hub).paused, len(list_outbox(hub.database))) == (1, 1)


def test_a_temporary_server_error_leaves_the_command_and_later_ones_pending(hub: Hub, tracked: TrackedPr) -> None:
    block_pull(hub.database, tracked, "operator", None, hub.clock.now_ms())
    say(hub, "unblock", comment_id=501)
    say(hub, "pause", comment_id=502)
    fault = hub.world.faults.add("status", "GET /repos/:owner/:repo/pulls/:n", status=503)
    assert apply(hub) == []
    assert fault.fired == 1
    assert [row.command for row in apply(hub)] == ["unblock", "pause"]


def test_rejected_credentials_stop_commands_with_one_error(hub: Hub, tracked: TrackedPr) -> None:
    block_pull(hub.database, tracked, "operator", None, hub.clock.now_ms())
    say(hub, "unblock")
    hub.world.faults.add("status", "GET /repos/:owner/:repo/pulls/:n", status=401)
    with pytest.raises(CredentialsRejected):
        apply(hub)
    assert [row.status for row in list_commands(hub.database)] == ["pending"]
