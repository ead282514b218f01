"""`lore feedback reply|comment`: stored before it is sent, posted exactly once."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tests.faces.following import REPO, Follower, failed, told_as_documented


def test_an_answer_is_posted_once_however_often_it_is_asked_for(follower: Follower) -> None:
    first = follower.answer("Done.").data["answer"]
    again = follower.answer("Done.").data["answer"]
    assert first == again
    assert first["status"] == "observed"
    assert len(follower.ours()) == 1
    assert follower.ours()[0].startswith("Done.\n\n<!-- lore-action:")
    told_as_documented("feedback reply", {"answer": first})
    follower.answer("Done, too.")
    assert len(follower.ours()) == 2


def test_the_callers_own_word_makes_it_the_same_answer_whatever_the_body(follower: Follower) -> None:
    follower.answer("Done.", "--token-key", "event-1")
    follower.answer("Done at last.", "--token-key", "event-1")
    assert len(follower.ours()) == 1
    follower.answer("Done.", "--token-key", "event-2")
    assert len(follower.ours()) == 2


def test_a_review_comment_is_answered_at_the_head_of_its_own_thread(follower: Follower) -> None:
    first = follower.remark("Why 40?")
    second = follower.remark("Why not 41?", in_reply_to=first)
    follower.track()
    follower.poll()
    done = follower.answer("Because.", "--to", str(second)).data["answer"]
    assert done["reply_to"] == first
    made = follower.world.github.truth_review_comments(REPO)[-1]
    assert made["in_reply_to_id"] == first
    assert made["id"] == done["comment_id"]


def test_a_remark_that_became_no_event_is_answered_at_the_head_of_its_thread_too(follower: Follower) -> None:
    first = follower.remark("Why 40?")
    follower.track()
    follower.poll()
    stranger = follower.remark("I wonder as well.", "passer-by", in_reply_to=first)
    for _ in range(2):
        assert follower.answer("Because.", "--to", str(stranger)).data["answer"]["reply_to"] == first
    assert len(follower.ours()) == 1


def test_a_comment_of_the_talk_that_became_no_event_is_answered_in_the_talk(follower: Follower) -> None:
    stranger = follower.say("I wonder as well.", "passer-by")
    follower.track()
    follower.poll()
    assert follower.answer("Because.", "--to", str(stranger)).data["answer"]["reply_to"] is None
    assert len(follower.ours()) == 1


def test_the_same_words_to_two_comments_of_the_talk_are_two_answers(follower: Follower) -> None:
    first, second = follower.say("One."), follower.say("Two.")
    follower.track()
    follower.poll()
    for comment in (first, second, second):
        assert follower.answer("Done.", "--to", str(comment)).data["answer"]["reply_to"] is None
    assert len(follower.ours()) == 2


def test_an_issue_is_commented_on(follower: Follower, capsys: pytest.CaptureFixture[str]) -> None:
    issue = follower.forge.create_issue(REPO).number
    done = follower.answer("Begun.", "--issue", str(issue), command="comment").data["answer"]
    assert (done["scope_kind"], done["number"], done["source"]) == ("issue", issue, "comment")
    assert follower.answer("Begun.", command="comment").data["answer"]["scope_kind"] == "pr"
    shown = follower.run(
        "feedback", "comment", "--pr", str(follower.pr), "--body-file", str(follower.folder / "body.md")
    )
    assert f"on {REPO}#{follower.pr}: observed, comment " in shown.out
    failed(follower.answer("x", "--pr", "1", "--issue", "2", command="comment"), 2, "USAGE")


def test_a_body_may_come_from_stdin(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_body_that_cannot_be_a_comment_is_refused_and_nothing_is_sent(
    follower: Follower, content: bytes, told: str
) -> None:
    path = follower.folder / "odd.md"
    path.write_bytes(content)
    done = follower.robot("feedback", "reply", "--pr", str(follower.pr), "--body-file", str(path))
    assert told in failed(done, 2, "USAGE")["message"]
    assert not any(method == "POST" for method, _, _ in follower.world.log)


def test_a_file_that_is_not_there_is_named(follower: Follower) -> None:
    missing = str(Path(follower.folder) / "missing.md")
    done = follower.robot("feedback", "reply", "--pr", str(follower.pr), "--body-file", missing)
    assert missing in failed(done, 2, "USAGE")["message"]


def test_an_answer_of_unclear_outcome_is_finished_by_a_poll_and_stands_once(follower: Follower) -> None:
    follower.settle(REPO, extra="settle_write_seconds = 0.2")
    follower.world.github.settings.lost_answers = 1
    done = follower.answer("Done.")
    failed(done, 7, "PARTIAL_SUCCESS")
    assert done.document["data"]["answer"]["status"] == "planned"
    follower.query("UPDATE outbox SET next_attempt_at = 1, attempted_at = attempted_at - 60000")
    sent = follower.poll()["sent"]
    assert [answer["status"] for answer in sent] == ["observed"]
    assert len(follower.ours()) == 1
    assert follower.answer("Done.").data["answer"]["status"] == "observed"
    assert len(follower.ours()) == 1


def test_credentials_rejected_while_a_poll_sends_an_answer_are_the_error_of_the_poll(follower: Follower) -> None:
    follower.settle(REPO, extra="settle_write_seconds = 0.2")
    follower.world.faults.add("status", f"POST /repos/{REPO}/issues", status=500)
    failed(follower.answer("Done."), 7, "PARTIAL_SUCCESS")
    follower.query("UPDATE outbox SET next_attempt_at = 1, attempted_at = attempted_at - 60000")
    follower.world.faults.add("status", f"POST /repos/{REPO}/issues", status=401)
    failed(follower.robot("poll", "github"), 4, "CREDENTIALS_REJECTED")
    assert follower.ours() == []


def test_what_is_refused_for_good_is_a_failure_and_not_tried_again(follower: Follower) -> None:
    fault = follower.world.faults.add("status", f"POST /repos/{REPO}/issues", status=422)
    failed(follower.answer("Done."), 1, "REMOTE_REFUSED")
    assert fault.fired
    failed(follower.answer("Done."), 1, "REMOTE_REFUSED")
    assert sum(method == "POST" for method, _, _ in follower.world.log) == 1
    assert follower.answer("Done.", "--token-key", "again").code == 0


def test_an_answer_where_no_pull_request_is_fails_with_what_github_said(follower: Follower) -> None:
    error = failed(follower.answer("Done.", "--pr", "404"), 1, "REMOTE_REFUSED")
    assert "refused" in error["message"]
