"""`lore feedback track|untrack|list|show|resume|blocked`: what is followed, and how it comes back."""

from __future__ import annotations

import pytest
from tests.faces.following import OTHER, OWNER, REPO, Follower, failed
from tests.faces.test_documented_shapes import compare


def statuses(follower: Follower) -> dict[int, str]:
    return {item["pr_number"]: item["status"] for item in follower.robot("feedback", "list").data["items"]}


def test_a_pull_request_is_named_by_number_reference_or_address(follower: Follower) -> None:
    address = f"{follower.url}/{REPO}/pull/{follower.pr}"
    for name in (str(follower.pr), f"#{follower.pr}", f"{REPO}#{follower.pr}", address, f"{address}/files"):
        done = follower.robot("feedback", "track", "--pr", name)
        assert done.data["pull"]["pr_number"] == follower.pr
    assert statuses(follower) == {follower.pr: "awaiting_feedback"}
    shown = follower.run("feedback", "list").out
    assert f"{REPO}#{follower.pr}" in shown
    assert "Count the containers" in shown


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--pr", "seven"], 2),
        (["--pr", "https://github.com/a/b/issues/7"], 2),
        (["--pr", "https://github.com/harborline/ledger/pull/7"], 6),
        (["--pr", "nobody/nothing#7"], 6),
        (["--pr", "harborline/ledger#7", "--repo", "harborline/console"], 2),
        ([], 2),
    ],
)
def test_an_invalid_pull_request_reference_is_refused_before_any_request(
    follower: Follower, argv: list[str], code: int
) -> None:
    assert not follower.counted(lambda: follower.robot("feedback", "track", *argv))
    assert follower.robot("feedback", "track", *argv).code == code
    assert not follower.db.exists()


def test_with_two_repositories_the_repository_must_be_named(follower: Follower) -> None:
    follower.settle(REPO, OTHER)
    error = failed(follower.robot("feedback", "track", "--pr", str(follower.pr)), 2, "USAGE")
    assert error["details"]["candidates"] == [REPO, OTHER]
    assert follower.robot("feedback", "track", "--pr", str(follower.pr), "--repo", "ledger").code == 0
    assert follower.robot("feedback", "list", "--repo", OTHER).data["total"] == 0
    assert follower.robot("feedback", "list", "--repo", REPO.upper()).data["total"] == 1


def test_a_missing_or_ended_pull_request_cannot_be_tracked(follower: Follower) -> None:
    missing = failed(follower.robot("feedback", "track", "--pr", "404"), 6, "REMOTE_NOT_FOUND")
    assert missing["fix"] == "check the number of the pull request"
    failed(follower.robot("feedback", "track", "--issue", "404"), 6, "REMOTE_NOT_FOUND")
    follower.forge.merge(REPO, follower.pr)
    assert "merged" in failed(follower.robot("feedback", "track", "--pr", str(follower.pr)), 2, "USAGE")["message"]


def test_comments_on_an_issue_before_its_pull_request_give_one_batched_event(follower: Follower) -> None:
    issue = follower.forge.create_issue(REPO, "Count", author=OWNER).number
    done = follower.robot("feedback", "track", "--issue", str(issue)).data
    assert done["pull"] is None
    assert done["issue"]["pr_number"] is None
    follower.say("By weight.", number=issue)
    follower.say("And by size.", number=issue)
    follower.poll()
    event = follower.take()
    assert event is not None
    assert event["kind"] == "issue_followups"
    assert "By weight." in event["body"]
    assert "And by size." in event["body"]
    listed = follower.robot("feedback", "list").data
    assert [found["issue_number"] for found in listed["issues"]] == [issue]
    assert "no pull request yet" in follower.run("feedback", "list").out
    compare("feedback untrack", follower.robot("feedback", "untrack", "--issue", str(issue)).data, untracked(follower))
    failed(follower.robot("feedback", "untrack", "--issue", str(issue)), 6, "NOT_FOUND")


def untracked(follower: Follower) -> object:
    follower.track()
    return follower.robot("feedback", "untrack", "--pr", str(follower.pr)).data


def test_a_source_issue_gets_one_comment_naming_its_pull_request(follower: Follower) -> None:
    issue = follower.forge.create_issue(REPO, "Count", author=OWNER).number
    done = follower.robot("feedback", "track", "--pr", str(follower.pr), "--issue", str(issue)).data
    assert done["issue"]["pr_number"] == follower.pr
    compare("feedback track", done)
    follower.say("Is it done?", number=issue)
    for _ in range(3):
        follower.poll()
    redirects = follower.ours()
    assert len(redirects) == 1
    assert f"#{follower.pr}" in redirects[0]


def test_untracking_sends_no_request_and_keeps_events(follower: Follower) -> None:
    follower.say("First.")
    follower.track()
    follower.poll()
    assert not follower.counted(lambda: follower.robot("feedback", "untrack", "--pr", str(follower.pr)))
    assert statuses(follower) == {}
    assert follower.robot("feedback", "peek").data["total"] == 1
    failed(follower.robot("feedback", "untrack", "--pr", str(follower.pr)), 6, "NOT_FOUND")
    failed(follower.robot("feedback", "untrack", "--pr", "1", "--issue", "2"), 2, "USAGE")
    follower.track()
    follower.poll()
    assert follower.robot("feedback", "peek").data["total"] == 1


def test_feedback_show_lists_history_cursors_replies_and_commands(follower: Follower) -> None:
    follower.settle(REPO, extra=f'operator_logins = ["{OWNER}"]')
    follower.track()
    follower.poll()
    follower.say(f"/lore pause pr={follower.pr}")
    follower.poll()
    data = follower.robot("feedback", "show", "--pr", str(follower.pr)).data
    compare("feedback show", data)
    assert data["pull"]["paused"]
    assert [step["to_status"] for step in data["history"]] == ["awaiting_feedback"]
    assert [(found["command"], found["status"]) for found in data["commands"]] == [("pause", "applied")]
    assert [answer["status"] for answer in data["answers"]] == ["observed"]
    shown = follower.run("feedback", "show", "--pr", f"{REPO}#{follower.pr}").out
    for told in ("awaiting_feedback, paused", "History:", "Positions:", "Answers:", "Commands:"):
        assert told in shown
    failed(follower.robot("feedback", "show", "--pr", "99"), 6, "NOT_FOUND")


def test_feedback_list_has_the_documented_fields_and_filters_by_status(follower: Follower) -> None:
    issue = follower.forge.create_issue(REPO).number
    follower.track("--issue", str(issue))
    compare("feedback list", follower.robot("feedback", "list").data)
    assert follower.robot("feedback", "list", "--status", "merged").data == {
        "items": [],
        "total": 0,
        "next": None,
        "issues": [],
    }
    assert "No pull requests with status merged." in follower.run("feedback", "list", "--status", "merged").out


def test_an_empty_feedback_list_says_how_to_begin(follower: Follower) -> None:
    failed(follower.robot("feedback", "list"), 6, "NOT_FOUND")
    follower.poll()
    assert "No tracked pull requests." in follower.run("feedback", "list").out
    error = failed(follower.robot("feedback", "show", "--pr", "1"), 6, "NOT_FOUND")
    assert "lore feedback track" in error["fix"]


def test_a_force_push_blocks_and_unblocking_ingests_the_comments_made_meanwhile(follower: Follower) -> None:
    follower.say("First.")
    follower.track()
    follower.poll()
    follower.forge.push(REPO, follower.pr, force=True)
    assert any("history_rewritten" in step for step in follower.poll()["repos"][0]["moved"])
    follower.say("Said meanwhile.")
    follower.poll()
    assert follower.robot("feedback", "peek").data["total"] == 1
    listed = follower.robot("feedback", "blocked", "list")
    compare("feedback blocked list", listed.data)
    assert listed.document["meta"]["command"] == "feedback blocked list"
    assert "history_rewritten" in follower.run("feedback", "blocked", "list").out
    failed(follower.robot("feedback", "blocked", "unblock", "--pr", str(follower.pr), "--head-sha", "no"), 2, "USAGE")
    done = follower.robot("feedback", "blocked", "unblock", "--pr", str(follower.pr))
    assert done.data["pull"]["status"] == "awaiting_feedback"
    follower.poll()
    assert follower.robot("feedback", "peek").data["total"] == 2
    failed(follower.robot("feedback", "blocked", "unblock", "--pr", str(follower.pr)), 2, "USAGE")
    assert follower.run("feedback", "blocked", "list").out == "No pull request is blocked.\n"


def test_a_reopened_pull_request_is_tracked_again_only_by_resume(follower: Follower) -> None:
    follower.track()
    follower.poll()
    follower.forge.close(REPO, follower.pr)
    follower.poll()
    assert statuses(follower) == {follower.pr: "closed"}
    error = failed(follower.robot("feedback", "resume", "--pr", str(follower.pr)), 2, "USAGE")
    assert "reopen" in error["fix"]
    follower.forge.reopen(REPO, follower.pr)
    follower.say("Back again.")
    follower.poll()
    assert statuses(follower) == {follower.pr: "closed"}
    assert follower.robot("feedback", "resume", "--pr", str(follower.pr)).data["pull"]["status"] == "awaiting_feedback"
    follower.poll()
    assert follower.robot("feedback", "peek").data["total"] == 1
    failed(follower.robot("feedback", "resume", "--pr", str(follower.pr)), 2, "USAGE")


def test_a_merged_pull_request_cannot_be_resumed(follower: Follower) -> None:
    follower.track()
    follower.poll()
    follower.forge.merge(REPO, follower.pr)
    follower.poll()
    assert statuses(follower) == {follower.pr: "merged"}
    error = failed(follower.robot("feedback", "resume", "--pr", str(follower.pr)), 2, "USAGE")
    assert error["details"]["status"] == "merged"
    failed(follower.robot("feedback", "resume", "--pr", "99"), 6, "NOT_FOUND")
