"""`lore feedback reply|comment`: stored before it is sent, posted exactly once."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tests.faces.following import REPO, Follower, failed
from tests.faces.test_documented_shapes import compare


def test_a_repeated_reply_is_posted_once(follower: Follower) -> None:
    first = follower.answer("Done.").data["answer"]
    again = follower.answer("Done.").data["answer"]
    assert first == again
    assert first["status"] == "observed"
    assert len(follower.ours()) == 1
    assert follower.ours()[0].startswith("Done.\n\n<!-- lore-action:")
    compare("feedback reply", {"answer": first})
    follower.answer("Done, too.")
    assert len(follower.ours()) == 2


def test_replies_with_the_same_token_key_are_posted_once_whatever_the_body(follower: Follower) -> None:
    follower.answer("Done.", "--token-key", "event-1")
    follower.answer("Done at last.", "--token-key", "event-1")
    assert len(follower.ours()) == 1
    follower.answer("Done.", "--token-key", "event-2")
    assert len(follower.ours()) == 2


def test_a_reply_to_a_review_comment_goes_to_the_first_comment_of_its_thread(follower: Follower) -> None:
    first = follower.remark("Why 40?")
    second = follower.remark("Why not 41?", in_reply_to=first)
    follower.track()
    follower.poll()
    done = follower.answer("Because.", "--to", str(second)).data["answer"]
    assert done["reply_to"] == first
    made = follower.world.github.truth_review_comments(REPO)[-1]
    assert made["in_reply_to_id"] == first
    assert made["id"] == done["comment_id"]


def test_a_reply_to_a_review_comment_without_an_event_goes_to_its_thread(follower: Follower) -> None:
    first = follower.remark("Why 40?")
    follower.track()
    follower.poll()
    stranger = follower.remark("I wonder as well.", "passer-by", in_reply_to=first)
    for _ in range(2):
        assert follower.answer("Because.", "--to", str(stranger)).data["answer"]["reply_to"] == first
    assert len(follower.ours()) == 1


def test_a_reply_to_an_issue_comment_without_an_event_is_posted_as_a_comment(follower: Follower) -> None:
    stranger = follower.say("I wonder as well.", "passer-by")
    follower.track()
    follower.poll()
    assert follower.answer("Because.", "--to", str(stranger)).data["answer"]["reply_to"] is None
    assert len(follower.ours()) == 1


def test_the_same_text_to_two_comments_gives_two_replies(follower: Follower) -> None:
    first, second = follower.say("One."), follower.say("Two.")
    follower.track()
    follower.poll()
    for comment in (first, second, second):
        assert follower.answer("Done.", "--to", str(comment)).data["answer"]["reply_to"] is None
    assert len(follower.ours()) == 2


def test_a_reply_to_an_issue_is_posted_as_a_comment(follower: Follower, capsys: pytest.CaptureFixture[str]) -> None:
    issue = follower.forge.create_issue(REPO).number
    done = follower.answer("Begun.", "--issue", str(issue), command="comment").data["answer"]
    assert (done["scope_kind"], done["number"], done["source"]) == ("issue", issue, "comment")
    assert follower.answer("Begun.", command="comment").data["answer"]["scope_kind"] == "pr"
    shown = follower.run(
        "feedback", "comment", "--pr", str(follower.pr), "--body-file", str(follower.folder / "body.md")
    )
    assert f"on {REPO}#{follower.pr}: observed, comment " in shown.out
    failed(follower.answer("x", "--pr", "1", "--issue", "2", command="comment"), 2, "USAGE")


def test_a_reply_body_may_come_from_stdin(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Grüße.".encode())))
    done = follower.robot("feedback", "reply", "--pr", str(follower.pr), "--body-file", "-")
    assert done.data["answer"]["status"] == "observed"
    assert follower.ours()[0].startswith("Grüße.\n")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "comment is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * 70_000, "characters"),
        (b"x" * 1_100_000, "too large"),
        (b"forged <!-- lore-action:" + b"0" * 64 + b" -->", "marker"),
    ],
)
def test_an_invalid_reply_body_is_refused_and_nothing_is_sent(follower: Follower, content: bytes, told: str) -> None:
    path = follower.folder / "odd.md"
    path.write_bytes(content)
    done = follower.robot("feedback", "reply", "--pr", str(follower.pr), "--body-file", str(path))
    assert told in failed(done, 2, "USAGE")["message"]
    assert not any(method == "POST" for method, _, _ in follower.world.log)


def test_a_missing_body_file_is_named_in_the_error(follower: Follower) -> None:
    missing = str(Path(follower.folder) / "missing.md")
    done = follower.robot("feedback", "reply", "--pr", str(follower.pr), "--body-file", missing)
    assert missing in failed(done, 2, "USAGE")["message"]


def test_a_reply_with_unclear_outcome_is_completed_by_a_poll_and_posted_once(follower: Follower) -> None:
    follower.settle(REPO, extra="settle_write_seconds = 0.2")
    follower.world.github.settings.lost_answers = 1
    done = follower.answer("Done.")
    error = failed(done, 7, "PARTIAL_SUCCESS")
    assert error["message"].endswith("not confirmed yet: the server did not say whether it was posted")
    assert "the same command again" in error["fix"]
    assert done.document["data"]["answer"]["status"] == "planned"
    follower.query("UPDATE outbox SET next_attempt_at = 1, attempted_at = attempted_at - 60000")
    sent = follower.poll()["sent"]
    assert [answer["status"] for answer in sent] == ["observed"]
    assert len(follower.ours()) == 1
    assert follower.answer("Done.").data["answer"]["status"] == "observed"
    assert len(follower.ours()) == 1


def test_credentials_rejected_while_a_poll_sends_a_reply_fail_the_poll(follower: Follower) -> None:
    follower.settle(REPO, extra="settle_write_seconds = 0.2")
    follower.world.faults.add("status", f"POST /repos/{REPO}/issues", status=500)
    failed(follower.answer("Done."), 7, "PARTIAL_SUCCESS")
    follower.query("UPDATE outbox SET next_attempt_at = 1, attempted_at = attempted_at - 60000")
    follower.world.faults.add("status", f"POST /repos/{REPO}/issues", status=401)
    failed(follower.robot("poll", "github"), 4, "CREDENTIALS_REJECTED")
    assert follower.ours() == []


def test_a_permanently_refused_reply_fails_and_is_not_retried(follower: Follower) -> None:
    fault = follower.world.faults.add("status", f"POST /repos/{REPO}/issues", status=422)
    failed(follower.answer("Done."), 1, "REMOTE_REFUSED")
    assert fault.fired
    failed(follower.answer("Done."), 1, "REMOTE_REFUSED")
    assert sum(method == "POST" for method, _, _ in follower.world.log) == 1
    assert follower.answer("Done.", "--token-key", "again").code == 0


def test_a_reply_to_a_missing_pull_request_fails_with_githubs_message(follower: Follower) -> None:
    error = failed(follower.answer("Done.", "--pr", "404"), 1, "REMOTE_REFUSED")
    assert "refused" in error["message"]
