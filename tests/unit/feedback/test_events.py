"""What one version of a comment means."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.feedback.people import REPO_ID, SECRET, START, comment, context, held, issue, pull, signed

from tidelore.core.model import CommentRecord, Version
from tidelore.feedback.delivery import event_pause_seconds
from tidelore.feedback.events import command_token, event_key, interpret, qualifies, rejection_key, why_ignored
from tidelore.feedback.tokens import find_markers, marker
from tidelore.store.work.effects import body_digest
from tidelore.store.work.events import (
    Effect,
    IgnoredComment,
    NewCommand,
    NewEvent,
    NewFollowup,
    PlannedReply,
    TokenSeen,
)

TOKEN = "5" * 64
BLOCKED = pull(status="blocked", blocked_at=START - 60_000, entered_at=START - 60_000)


def meaning(record: CommentRecord, stored: Version | None = None, **keys: Any) -> list[Effect] | None:
    """What a version leads to; None when it is not judged at all."""
    followed, ours = keys.pop("followed", ()), keys.pop("ours", {})
    effects = interpret(record, stored, context(*followed, **keys), ours)
    return None if effects is None else list(effects)


def the_effect(record: CommentRecord, stored: Version | None = None, **keys: Any) -> Effect:
    found = meaning(record, stored, **keys)
    assert found is not None
    (effect,) = found
    return effect


def the_command(record: CommentRecord, **keys: Any) -> tuple[NewCommand, list[PlannedReply]]:
    effects = meaning(record, **keys)
    assert effects
    found, *replies = effects
    assert isinstance(found, NewCommand)
    assert all(isinstance(reply, PlannedReply) for reply in replies)
    return found, [reply for reply in replies if isinstance(reply, PlannedReply)]


def test_a_comment_by_an_allowed_user_becomes_an_event_with_body_and_source_issue() -> None:
    record = comment()
    event = the_effect(record, followed=(pull(issue_number=7),))
    assert event == NewEvent("12:issue_comment:501:2026-03-02T09:00:00Z", 12, 7, record)


def test_an_edited_comment_becomes_a_second_event() -> None:
    old, new = comment("One"), comment("Two", updated_at=START + 1000)
    event = the_effect(new, held(old))
    assert isinstance(event, NewEvent)
    assert event.event_key == "12:issue_comment:501:2026-03-02T09:00:01Z"


def test_a_newer_timestamp_with_the_same_body_is_not_an_edit() -> None:
    assert meaning(comment(updated_at=START + 1000), held(comment())) == []


def test_an_edit_within_the_same_second_gets_an_event_key_with_its_body_hash() -> None:
    old, new = comment("One"), comment("Two")
    event = the_effect(new, held(old))
    assert isinstance(event, NewEvent)
    assert event.event_key == f"12:issue_comment:501:2026-03-02T09:00:00Z#{body_digest('Two').hex()[:8]}"
    assert event.event_key != event_key(comment("Three"), held(new))


def test_a_version_older_than_the_stored_one_creates_no_event() -> None:
    assert meaning(comment("One"), held(comment("Two", updated_at=START + 1000))) == []


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"author": "HARBOR"}, True),
        ({"author": "stranger"}, False),
        ({"author": None}, False),
        ({"is_bot": True}, False),
        ({"author": "harbor[bot]"}, False),
        ({"body": f"Done {marker(TOKEN)}"}, True),
        ({"body": "/lore status"}, False),
        ({"body": "/lorem ipsum"}, True),
        ({"body": "Say\n/lore status"}, True),
        ({"body": ""}, True),
    ],
)
def test_only_comments_by_allowed_users_qualify_as_feedback(change: dict[str, Any], counts: bool) -> None:
    assert qualifies(comment(**change), context()) is counts


def test_with_an_explicit_user_list_the_owner_is_allowed_only_if_listed() -> None:
    keys = {"allowed_users": ("Alex", "robin")}
    assert qualifies(comment(author="alex"), context(**keys))
    assert qualifies(comment(author="Robin"), context(**keys))
    assert not qualifies(comment(author="harbor"), context(**keys))


@pytest.mark.parametrize(
    ("allowed", "change", "reason"),
    [
        ((), {"author": "someone", "association": "MEMBER"}, None),
        ((), {"author": "someone", "association": "COLLABORATOR"}, None),
        ((), {"author": "someone", "association": "CONTRIBUTOR"}, "not_allowed"),
        ((), {"author": "someone", "association": None}, "not_allowed"),
        ((), {"author": "harbor", "association": None}, None),
        ((), {"author": None}, "deleted_account"),
        (("*",), {"author": None}, None),
        (("*",), {"author": "someone"}, None),
        (("*",), {"author": "ci[bot]"}, "bot"),
        (("@member",), {"author": "ci", "is_bot": True, "association": "MEMBER"}, "bot"),
        (("CI[bot]",), {"author": "ci[bot]", "is_bot": True}, None),
        (("@author",), {"author": "Robin"}, None),
        (("@author",), {"author": "harbor"}, "not_allowed"),
    ],
)
def test_why_a_comment_is_ignored_because_of_who_wrote_it(
    allowed: tuple[str, ...], change: dict[str, Any], reason: str | None
) -> None:
    assert why_ignored(comment(**change), context(pull(author="robin"), allowed_users=allowed)) == reason


@pytest.mark.parametrize(
    ("state", "body", "counts"),
    [
        ("COMMENTED", "", False),
        ("COMMENTED", " \r\n", False),
        ("COMMENTED", "See below", True),
        ("APPROVED", "", True),
        ("CHANGES_REQUESTED", "", True),
        ("PENDING", "Not said yet", False),
    ],
)
def test_a_review_without_a_body_qualifies_only_with_a_verdict(state: str, body: str, counts: bool) -> None:
    record = comment(body, kind="review_summary", review_state=state)
    assert qualifies(record, context()) is counts


def test_an_edited_review_keeps_its_timestamp_and_gets_a_key_with_its_body_hash() -> None:
    old = comment("One", kind="review_summary", review_state="COMMENTED")
    event = the_effect(replace(old, body="Two"), held(old))
    assert isinstance(event, NewEvent)
    assert event.event_key.startswith("12:review_summary:501:2026-03-02T09:00:00Z#")


@pytest.mark.parametrize("author", ["harbor", "tidelore-agent"])
def test_a_marker_with_our_signature_confirms_delivery_and_is_not_an_event(author: str) -> None:
    record, ours = comment(f"Done {marker(TOKEN)}", author=author), signed(TOKEN)
    assert meaning(record, ours=ours) == [TokenSeen(TOKEN, 501, START)]
    assert meaning(record, ours=ours, own_login=author.upper()) == [TokenSeen(TOKEN, 501, START)]
    seen = signed(TOKEN, status="observed", observed_comment_id=501)
    assert meaning(record, ours=seen) == [TokenSeen(TOKEN, 501, START)]


def test_a_marker_in_another_users_comment_is_treated_as_plain_text() -> None:
    record = comment(f"Done {marker(TOKEN)}")
    copied = signed(TOKEN, status="observed", observed_comment_id=500)
    for ours, login in ((signed(TOKEN), "tidelore-agent"), (copied, None), (signed(TOKEN, scope_number=13), None)):
        assert isinstance(the_effect(record, ours=ours, own_login=login), NewEvent)
    assert isinstance(the_effect(record), NewEvent), "nobody signed it"
    stranger = replace(record, author="stranger")
    assert meaning(stranger, ours=copied) == [IgnoredComment(stranger, "not_allowed")]
    ghost = replace(record, author=None)
    effects = meaning(ghost, ours=signed(TOKEN), own_login="tidelore-agent")
    assert effects == [IgnoredComment(ghost, "deleted_account")]


@pytest.mark.parametrize("status", ["merged", "closed"])
@pytest.mark.parametrize("body", ["Please rename", "/lore status", marker(TOKEN)])
def test_comments_on_a_closed_or_merged_pull_request_are_ignored(status: str, body: str) -> None:
    assert meaning(comment(body, author="operator"), followed=(pull(status=status),)) is None


def test_comments_on_an_untracked_thread_are_ignored() -> None:
    assert meaning(comment(number=99)) is None


def test_a_blocked_thread_processes_commands_and_markers_and_defers_other_comments() -> None:
    assert meaning(comment(), followed=(BLOCKED,)) is None
    assert meaning(comment(marker(TOKEN)), followed=(BLOCKED,), ours=signed(TOKEN)) == [TokenSeen(TOKEN, 501, START)]
    command, replies = the_command(comment("/lore unblock", author="operator"), followed=(BLOCKED,))
    assert (command.status, command.pr_number, replies) == ("pending", 12, [])


def test_a_command_is_stored_with_its_comment_and_arguments() -> None:
    record = comment("/lore unblock head_sha=abcdef1", author="operator")
    command, replies = the_command(record)
    assert command == NewCommand(
        "12:501:2026-03-02T09:00:00Z", 12, 12, record, "unblock", {"head_sha": "abcdef1"}, "pending", None
    )
    assert replies == []


def test_an_edited_command_runs_again_and_an_unchanged_body_does_not() -> None:
    old = comment("/lore pause", author="operator")
    assert meaning(replace(old, updated_at=START + 1000), held(old)) == []
    command, _ = the_command(replace(old, body="/lore resume", updated_at=START + 1000))
    assert command.command_key == "12:501:2026-03-02T09:00:01Z"


def test_a_command_by_an_unauthorised_user_is_refused_once_and_not_run() -> None:
    record = comment("/lore unblock", author="stranger")
    command, (reply,) = the_command(record)
    assert command.status == "rejected"
    assert command.result == "Rejected: you are not an operator of this repository."
    assert (reply.scope_kind, reply.scope_number, reply.reply_to, reply.source) == ("pr", 12, None, "operator_command")
    assert reply.body.startswith(command.result)
    assert find_markers(reply.body) == (reply.token,)
    assert reply.token == command_token("github", REPO_ID, "pr", 12, rejection_key("Stranger"), SECRET)
    _, (second,) = the_command(comment("/lore sync", author="stranger", remote_id=502))
    assert second.token == reply.token, "one reply per thread and author"


def test_an_edited_command_by_an_unauthorised_user_is_rejected_without_a_reply() -> None:
    old = comment("/lore pause", author="stranger")
    effects = meaning(replace(old, body="/lore resume", updated_at=START + 1000), held(old))
    assert effects is not None
    assert [type(effect) for effect in effects] == [NewCommand]


def test_an_unknown_command_is_answered_with_help() -> None:
    command, (reply,) = the_command(comment("/lore explode", author="operator"))
    assert (command.command, command.status) == ("explode", "rejected")
    assert "unknown command 'explode'" in reply.body
    assert "/lore unblock" in reply.body


@pytest.mark.parametrize("change", [{"author": "ci[bot]"}, {"author": "operator", "is_bot": True}, {"author": None}])
def test_a_command_by_a_bot_gets_no_reply(change: dict[str, Any]) -> None:
    assert meaning(comment("/lore unblock", **change)) == []


def test_a_command_from_before_the_thread_was_blocked_is_reported_expired_once() -> None:
    record = comment("/lore unblock", author="operator", updated_at=START - 61_000)
    command, (reply,) = the_command(record, followed=(BLOCKED,))
    assert command.status == "expired"
    assert "was not run" in reply.body


def test_a_command_from_before_the_thread_was_tracked_is_ignored() -> None:
    began = START - 3_600_000
    early = comment("/lore pause", author="operator", updated_at=began - 5_001)
    assert meaning(early) == []
    command, _ = the_command(replace(early, updated_at=began - 5_000))
    assert command.status == "pending"


@pytest.mark.parametrize("kind", ["review_comment", "review_summary"])
def test_a_command_in_a_review_is_accepted_with_its_comment_kind(kind: str) -> None:
    record = comment("/lore unblock", author="operator", kind=kind, review_state="COMMENTED")
    command, replies = the_command(record, allowed_users=("operator",))
    assert (command.command_key, command.status) == (f"12:{kind}:501:2026-03-02T09:00:00Z", "pending")
    assert replies == []


def test_a_command_edited_within_the_same_second_is_a_new_command() -> None:
    old = comment("/lore pause", author="operator")
    effects = meaning(replace(old, body="/lore resume"), held(old))
    assert effects is not None
    (command,) = effects
    assert isinstance(command, NewCommand)
    assert (command.command, command.status) == ("resume", "pending")
    assert command.command_key == f"12:501:2026-03-02T09:00:00Z#{body_digest('/lore resume').hex()[:8]}"


def test_comments_on_the_operations_issue_run_commands_and_create_no_events() -> None:
    keys: dict[str, Any] = {"operations_issue": 3, "operations_from": START}
    assert meaning(comment(number=3), **keys) == []
    command, _ = the_command(comment("/lore unblock pr=12", author="operator", number=3), **keys)
    assert (command.number, command.pr_number) == (3, None)
    assert meaning(comment("/lore pause", author="operator", number=3, updated_at=START - 6_000), **keys) == []


def test_a_command_on_a_source_issue_is_about_its_pull_request_and_answered_there() -> None:
    followed = (BLOCKED, issue(pr_number=12))
    record = comment("/lore explode", author="operator", number=7)
    command, (reply,) = the_command(record, followed=followed)
    assert (command.number, command.pr_number) == (7, 12)
    assert (reply.scope_kind, reply.scope_number) == ("issue", 7)
    late, _ = the_command(replace(record, body="/lore unblock", updated_at=START - 61_000), followed=followed)
    assert late.status == "expired"


def test_a_comment_on_a_source_issue_waits_for_its_pull_request() -> None:
    record = comment(number=7)
    assert meaning(record, followed=(issue(),)) == [NewFollowup(7, record)]
    stranger = replace(record, author="stranger")
    assert meaning(stranger, followed=(issue(),)) == [IgnoredComment(stranger, "not_allowed")]


@pytest.mark.parametrize(
    "body",
    ["\x00\x01\x1b[31m", "x" * 1_000_000, "/lore " + "x" * 1_000_000],
    ids=["controls", "a megabyte", "a long command"],
)
def test_unusual_comment_bodies_are_classified_like_any_other(body: str) -> None:
    effects = meaning(comment(body, author="harbor"))
    assert effects is not None
    assert isinstance(effects[0], NewEvent | NewCommand)
    assert effects[0].record.body == body


def test_pauses_of_a_failing_event_double_up_to_an_hour_however_often_it_failed() -> None:
    assert [event_pause_seconds(attempts, 5) for attempts in (1, 2, 3, 20, 5000)] == [5, 10, 20, 3600, 3600]
