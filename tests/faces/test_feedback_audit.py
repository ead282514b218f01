"""`lore audit github`: a full scan whose qualifying comments must be events, all of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.faces.following import OWNER, REPO, TOKEN, Follower, failed
from tests.faces.test_documented_shapes import compare


@pytest.fixture
def talk(follower: Follower) -> Follower:
    """Something of every kind was said and ingested."""
    follower.say("First.")
    follower.say("Not for us.", "stranger")
    follower.say("/lore help")
    follower.remark("Why 40?")
    follower.forge.review(REPO, follower.pr, "APPROVED", "Good.", OWNER)
    follower.track()
    follower.poll()
    return follower


def keys(done: Any, name: str = "missing") -> list[str]:
    return [entry["event_key"] for entry in done.document["data"][name]]


def test_an_audit_after_a_poll_finds_nothing_missing_and_changes_nothing(talk: Follower) -> None:
    before = talk.query("SELECT * FROM feedback_events ORDER BY id"), talk.query("SELECT * FROM cursors ORDER BY scope")
    done = talk.robot("audit", "github")
    surfaces = {one["surface"]: one for one in done.data["threads"][0]["surfaces"]}
    assert {name: (one["comments"], one["ingested"]) for name, one in surfaces.items()} == {
        "pr_issue_comments": (4, 1),
        "pr_review_comments": (1, 1),
        "pr_review_summaries": (2, 1),
    }
    assert before == (
        talk.query("SELECT * FROM feedback_events ORDER BY id"),
        talk.query("SELECT * FROM cursors ORDER BY scope"),
    )
    shown = talk.run("audit", "github", "--shadow")
    assert "pr_review_summaries" in shown.out
    assert "QUALIFYING" in shown.out
    assert "0 without an event" in shown.out


def test_comments_since_the_last_poll_are_missing_until_the_next(talk: Follower) -> None:
    made = talk.say("Second.")
    done = talk.robot("audit", "github", "ledger")
    error = failed(done, 8, "INTEGRITY")
    assert error["details"]["missing"] == 1
    assert [key.split(":")[2] for key in keys(done)] == [str(made)]
    assert f"{REPO}#{talk.pr}" in talk.run("audit", "github").out
    talk.poll()
    assert talk.robot("audit", "github").code == 0


def test_a_lost_event_is_found_and_repaired_once(talk: Follower) -> None:
    talk.query("DELETE FROM feedback_events WHERE kind = 'review_comment'")
    assert talk.poll()["repos"][0]["effects"]["events"] == 0, "its version is held: a poll does not look again"
    failed(talk.robot("audit", "github"), 8, "INTEGRITY")
    done = talk.robot("audit", "github", "--repair")
    assert done.data["repair"] == {"found": 1, "mended": 1}
    assert talk.robot("audit", "github", "--repair").data["repair"] is None
    assert sorted(body for (body,) in talk.query("SELECT body FROM feedback_events")) == ["First.", "Good.", "Why 40?"]
    assert talk.run("check").code == 0


def test_an_edit_within_the_second_of_the_stored_version_is_missing_and_repaired(talk: Follower) -> None:
    made = talk.forge.comment(REPO, talk.pr, "Seven.", OWNER)
    talk.poll()
    talk.world.github.edit_comment(made.id, "Eight.", at_us=made.updated_s * 1_000_000)
    done = talk.robot("audit", "github", "--repair")
    assert done.data["repair"] == {"found": 1, "mended": 1}
    assert ("Eight.",) in talk.query("SELECT body FROM feedback_events")


def test_an_update_with_the_same_body_is_not_a_difference(talk: Follower) -> None:
    first = talk.world.github.truth_comments(REPO)[0]["id"]
    talk.forge.touch_comment(first)
    talk.poll()
    assert talk.robot("audit", "github").code == 0


def test_a_deleted_comment_is_reported_as_gone_without_failing(talk: Follower) -> None:
    first = talk.world.github.truth_comments(REPO)[0]["id"]
    talk.forge.delete_comment(first)
    done = talk.robot("audit", "github")
    assert done.code == 0
    assert [key.split(":")[2] for key in keys(done, "gone")] == [str(first)]
    assert "gone" in talk.run("audit", "github").out


def test_an_unreadable_thread_is_reported_and_the_others_are_compared(talk: Follower) -> None:
    other = talk.forge.create_pull(REPO, author=OWNER).number
    assert talk.run("feedback", "track", "--pr", str(other)).code == 0
    talk.poll()
    fault = talk.world.faults.add("status", f"GET /repos/{REPO}/pulls/{other}/reviews", status=500)
    done = talk.robot("audit", "github")
    failed(done, 7, "PARTIAL_SUCCESS")
    assert fault.fired
    talk.say("Second.")
    talk.world.github.delete_comment(talk.world.github.truth_comments(REPO)[0]["id"])
    listed = talk.robot("audit", "github").document["data"]
    talk.query("DELETE FROM feedback_events WHERE kind = 'review_comment'")
    mended = talk.robot("audit", "github", "--repair").document["data"]
    talk.settle(REPO)
    compare("audit", done.document["data"], listed, mended, rejected(talk))


def rejected(talk: Follower) -> Any:
    talk.world.faults.add("status", f"GET /repos/{REPO}/issues", status=401)
    done = talk.robot("audit", "github")
    failed(done, 4, "CREDENTIALS_REJECTED")
    return done.document["data"]


def test_a_resumed_pull_request_is_compared_from_its_resumed_position(talk: Follower) -> None:
    talk.settle(REPO, extra="comment_fetch_safe_backfill_seconds = 1")
    talk.forge.close(REPO, talk.pr)
    talk.poll()
    talk.forge.comment(REPO, talk.pr, "Said to nobody.", OWNER, at_us=talk.world.clock.now_us - 30_000_000)
    talk.forge.reopen(REPO, talk.pr)
    talk.query("UPDATE tracked_pr_history SET at = at - 10")
    assert talk.run("feedback", "resume", "--pr", str(talk.pr)).code == 0
    assert talk.robot("audit", "github").code == 0


def test_an_audit_without_tracked_pull_requests_compares_nothing(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    failed(follower.robot("audit", "github"), 6, "NOT_FOUND")
    assert not follower.db.exists()
    follower.poll()
    assert follower.robot("audit", "github").data["threads"] == []
    failed(follower.robot("audit", "gitlab", "--shadow"), 2, "USAGE")


def test_comments_lost_before_a_merge_are_found_and_repaired_by_an_audit(talk: Follower) -> None:
    talk.say("Just before the merge.")
    talk.forge.merge(REPO, talk.pr)
    talk.poll()
    assert talk.robot("audit", "github").code == 0
    talk.query("DELETE FROM feedback_events WHERE body = 'Just before the merge.'")
    talk.world.advance(5)
    talk.say("After the merge.")
    done = talk.robot("audit", "github", "--repair")
    assert done.data["repair"] == {"found": 1, "mended": 1}
    assert ("Just before the merge.",) in talk.query("SELECT body FROM feedback_events")


def test_a_pull_request_that_ended_longer_ago_than_the_backfill_is_not_compared(talk: Follower) -> None:
    talk.forge.merge(REPO, talk.pr)
    talk.poll()
    talk.query("DELETE FROM feedback_events")
    assert talk.robot("audit", "github").code == 8
    talk.query("UPDATE tracked_prs SET entered_at = entered_at - 86401000")
    assert talk.robot("audit", "github").code == 0
