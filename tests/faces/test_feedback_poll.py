"""`lore poll github`: what was said becomes events once, at a cost that does not grow."""

from __future__ import annotations

import re

import pytest
from tests.faces.following import OTHER, OWNER, REPO, TOKEN, Follower, failed
from tests.faces.test_documented_shapes import compare


def events(follower: Follower) -> list[tuple[str, str]]:
    return [
        (str(kind), str(body)) for kind, body in follower.query("SELECT kind, body FROM feedback_events ORDER BY id")
    ]


def test_comments_by_the_owner_become_events_once(follower: Follower) -> None:
    follower.say("Please count twice.")
    follower.say("I wonder.", "stranger")
    follower.say("Built.", "builder[bot]")
    follower.remark("Why 40?")
    follower.forge.review(REPO, follower.pr, "CHANGES_REQUESTED", "Not yet.", OWNER)
    follower.track()
    first = follower.poll()
    assert first["repos"][0]["effects"]["events"] == 3
    assert sorted(events(follower)) == [
        ("issue_comment", "Please count twice."),
        ("review_comment", "Why 40?"),
        ("review_summary", "Not yet."),
    ]
    assert follower.poll()["repos"][0]["effects"]["events"] == 0
    compare("poll github", *answers_with_everything(follower, first))


def answers_with_everything(follower: Follower, first: dict[str, object]) -> list[object]:
    """Answers that show every field: a command, an answer, a handled event, trouble and failures."""
    follower.settle(REPO, OTHER, extra=f'operator_logins = ["{OWNER}"]\n{follower.handler("")}')
    follower.say(f"/lore status pr={follower.pr}")
    follower.world.faults.add("status", f"GET /repos/{OTHER}", status=500)
    busy = follower.robot("poll", "github").document["data"]
    assert all(busy[name] for name in ("commands", "sent", "handled"))
    follower.settle(REPO, extra='handler = ["no-such-program"]')
    follower.world.advance(60)
    follower.say("Once more.")
    follower.world.faults.add("status", f"GET /repos/{REPO}/pulls/{follower.pr}/reviews", times=1, status=500)
    follower.forge.review(REPO, follower.pr, "APPROVED", "Yes.", OWNER)
    troubled = follower.robot("poll", "github").document["data"]
    assert troubled["troubles"]
    assert troubled["repos"][0]["failures"]
    return [first, busy, troubled, follower.poll("--dry-run", "--no-handler")]


def test_a_quiet_poll_is_three_requests_and_all_of_them_conditional(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With a token there is somebody we could ask who we are, and with an answer of ours a reason to have asked.
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    follower.settle(REPO, own='fetch = "repo"')
    follower.say("First.")
    follower.track()
    follower.poll()
    assert follower.answer("Done.").code == 0
    # A review within the second of our own comment would not show: until that is over, reviews are read once more.
    follower.world.advance(10)
    for _ in range(3):
        follower.poll()
    cost = follower.counted(follower.poll)
    assert [status for _, _, status in cost] == [304, 304, 304], cost
    by_number = f"/repositories/{follower.world.github.repository(REPO).id}"
    assert {target.partition("?")[0] for _, target, _ in cost} == {
        f"{by_number}/pulls", f"{by_number}/pulls/comments", f"{by_number}/issues/comments",
    }  # fmt: skip


def test_the_current_user_is_requested_only_while_a_reply_is_unconfirmed(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    follower.settle(REPO, extra="settle_write_seconds = 3600")
    follower.track()
    follower.poll()
    follower.world.github.settings.lost_answers = 1
    unclear = follower.answer("Done.")
    assert unclear.code == 7
    token = unclear.document["data"]["answer"]["token"]
    assert follower.world.requests["GET /user"] == 0
    # Somebody else's copy of the mark proves nothing; our own comment does.
    follower.query(f"UPDATE outbox SET next_attempt_at = NULL WHERE token = '{token}'")
    assert follower.poll()["repos"][0]["effects"]["tokens"] == 1
    assert follower.world.requests["GET /user"] == 1
    follower.poll()
    assert follower.world.requests["GET /user"] == 1
    assert len(follower.ours()) == 1


def test_a_forged_marker_does_not_confirm_our_reply(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    follower.settle(REPO, extra="settle_write_seconds = 3600")
    follower.track()
    fault = follower.world.faults.add("disconnect", f"POST /repos/{REPO}/issues")
    unclear = follower.answer("Done.")
    assert fault.fired
    assert unclear.code == 7
    follower.say(f"Mine. <!-- lore-action:{unclear.document['data']['answer']['token']} -->", "stranger")
    assert follower.poll()["repos"][0]["effects"]["tokens"] == 0
    assert follower.query("SELECT status FROM outbox") == [("planned",)]


def test_a_poll_during_another_poll_exits_with_3_and_names_it(follower: Follower) -> None:
    follower.track()
    follower.poll()
    follower.query(
        "UPDATE leases SET holder_host = 'elsewhere', holder_pid = 4711, holder_started = 'x',"
        " heartbeat_at = 9999999999999, command = 'lore service' WHERE name = 'sync'"
    )
    error = failed(follower.robot("poll", "github"), 3, "LOCK_HELD")
    assert "elsewhere" in error["message"]
    assert "lore service" in error["message"]
    assert follower.robot("poll", "github", "--force").code == 0


def test_a_failing_repository_does_not_stop_the_other_and_exits_with_7(follower: Follower) -> None:
    follower.settle(REPO, "harborline/gone")
    follower.say("Still here.")
    follower.track("--repo", REPO)
    done = follower.robot("poll", "github")
    failed(done, 7, "PARTIAL_SUCCESS")
    by_repo = {found["repo"]: found for found in done.document["data"]["repos"]}
    assert by_repo[REPO]["effects"]["events"] == 1
    assert by_repo["harborline/gone"]["error"]["code"] == "REMOTE_NOT_FOUND"
    shown = follower.run("poll", "github")
    assert "harborline/gone: failed:" in shown.out


def test_a_revoked_token_is_reported_as_one_error(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    follower.track()
    follower.world.github.settings.bad_tokens.add(TOKEN)
    failed(follower.robot("poll", "github"), 4, "CREDENTIALS_REJECTED")
    shown = follower.run("poll", "github")
    assert shown.code == 4
    assert TOKEN not in shown.out + shown.err


def test_a_poll_without_a_configured_repository_names_the_fix(follower: Follower) -> None:
    follower.settle()
    assert failed(follower.robot("poll", "github"), 2, "CONFIG_INVALID")["details"]["key"] == "github.repos"
    follower.settle(REPO)
    failed(follower.robot("poll", "github", "--repo", "nobody/nothing"), 6, "NOT_FOUND")


def test_a_full_poll_finds_the_same_events_without_duplicates(follower: Follower) -> None:
    follower.say("First.")
    follower.track()
    follower.poll()
    follower.say("Second.")
    done = follower.poll("--full", "--repo", "ledger")
    assert done["repos"][0]["effects"]["events"] == 1
    assert [body for _, body in events(follower)] == ["First.", "Second."]


def test_a_dry_run_of_a_poll_sends_no_request_and_writes_nothing(follower: Follower) -> None:
    assert not follower.counted(lambda: follower.poll("--dry-run"))
    assert not follower.db.exists()
    assert "Dry run" in follower.run("poll", "github", "--dry-run").out


def test_a_poll_without_tracked_pull_requests_says_how_to_track(follower: Follower) -> None:
    done = follower.run("poll", "github")
    assert done.code == 0
    assert "lore feedback track" in done.out


def test_the_handler_gets_each_event_once_with_its_body(follower: Follower) -> None:
    out = follower.folder / "seen.txt"
    follower.settle(REPO, extra=follower.handler(f"open({str(out)!r}, 'a').write(event['body'] + '\\n')"))
    follower.say("One.")
    follower.say("Two.")
    follower.track()
    assert len(follower.poll()["handled"]) == 2
    assert follower.poll()["handled"] == []
    assert out.read_text() == "One.\nTwo.\n"
    follower.say("Three.")
    assert follower.poll("--no-handler")["handled"] == []
    assert out.read_text() == "One.\nTwo.\n"
    shown = follower.run("poll", "github")
    assert "event 3 of harborline/ledger" in shown.out
    assert out.read_text().endswith("Three.\n")


def test_a_handler_that_keeps_failing_blocks_the_pull_request_with_its_output(follower: Follower) -> None:
    follower.settle(REPO, extra=follower.handler("sys.exit('the crane is broken')") + "\nhandler_max_attempts = 2")
    follower.say("One.")
    follower.track()
    done = follower.poll()
    assert [event["attempts"] for event in done["handled"]] == [1, 2]
    blocked = follower.robot("feedback", "blocked", "list").data["items"]
    assert [found["blocked_reason"] for found in blocked] == ["handler_failed"]
    assert "the crane is broken" in blocked[0]["detail"]


def test_a_handler_may_reply_while_it_runs(follower: Follower) -> None:
    lore = follower.arguments("feedback", "reply", "--pr", str(follower.pr), "--body-file", "-")
    code = (
        "import subprocess\n"
        f"lore = {lore!r} + ['--to', str(event['comment_id']), '--token-key', event['event_key']]\n"
        "sys.exit(subprocess.run(lore, input=b'Seen.', stdout=subprocess.DEVNULL).returncode)"
    )
    follower.settle(REPO, extra=follower.handler(code))
    first = follower.remark("Why 40?")
    follower.track()
    assert [event["processed_at"] is not None for event in follower.poll()["handled"]] == [True]
    follower.query("UPDATE feedback_events SET processed_at = NULL")
    assert len(follower.poll()["handled"]) == 1, "handled twice, as after a crash"
    assert len(follower.ours()) == 1
    assert follower.world.github.truth_review_comments(REPO)[-1]["in_reply_to_id"] == first


def ledger(follower: Follower) -> list[tuple[str, int]]:
    return [(str(command), int(made)) for command, made in follower.query("SELECT command, requests FROM sync_runs")]


def test_the_ledger_row_of_a_poll_counts_every_request_that_it_made(follower: Follower) -> None:
    follower.settle(REPO, OTHER)
    first = follower.poll()
    assert first["requests"] == follower.world.requests.total() > 0, (
        "nothing is tracked, but the repositories are asked"
    )
    assert ledger(follower) == [("lore poll github", first["requests"])]


def test_the_ledger_row_of_a_poll_counts_the_requests_of_its_answers(follower: Follower) -> None:
    follower.settle(REPO, extra=f'operator_logins = ["{OWNER}"]\n')
    follower.track()
    follower.say(f"/lore status pr={follower.pr}")
    before = follower.world.requests.total()
    made = follower.poll()
    assert made["sent"]
    assert made["requests"] == follower.world.requests.total() - before
    assert ledger(follower)[-1] == ("lore poll github", made["requests"])


def test_sync_with_github_alone_polls_it(follower: Follower) -> None:
    follower.settle(REPO)
    follower.say("Please count twice.")
    follower.track()
    done = follower.robot("sync")
    assert done.code == 0
    assert done.data["polled"]["github"]["repos"][0]["effects"]["events"] == 1
    assert "bluesky" not in done.data["polled"]
    assert [body for _, body in events(follower)] == ["Please count twice."]
    said = follower.run("sync")
    assert (said.code, said.err) == (0, "")
    assert f"{REPO}: 0 new events" in said.out
    assert follower.robot("sync", "--dry-run").data["polled"]["github"]["repos"][0]["repo"] == REPO


def everything(follower: Follower) -> None:
    """Configure a GitLab project, a GitHub repository and a Bluesky account, with something to read in each."""
    follower.world.gitlab.create_project("port/quay")
    follower.world.gitlab.create_issue("port/quay", title="The crane stops at night.")
    network = follower.world.bluesky
    network.create_account("alice.test")
    network.post("alice.test", "High tide at noon.")
    follower.settle(
        REPO,
        mirror="all",
        tail=(
            f'[[gitlab]]\nbase_url = "{follower.url}"\nprojects = ["port/quay"]\n'
            f'[bluesky]\nbase_url = "{follower.url}"\nplc_url = "{follower.url}"\naccounts = ["alice.test"]\n'
            '[embedding]\nprovider = "none"\n'
        ),
    )
    follower.say("Please count twice.")
    follower.track()


def test_sync_updates_gitlab_github_and_bluesky(follower: Follower) -> None:
    everything(follower)
    planned = follower.robot("sync", "--dry-run").data
    assert (planned["hosts"][0]["projects"], set(planned["polled"])) == (["port/quay"], {"github", "bluesky"})
    done = follower.robot("sync")
    assert done.code == 0
    assert done.data["polled"]["github"]["repos"][0]["effects"]["events"] == 1
    assert done.data["polled"]["bluesky"]["posts"] == 1
    created = {scope["surface"]: scope["created"] for scope in done.data["scopes"]}
    assert created["gitlab.issues"] == created["github.merge_requests"] == created["github.issue_comments"] == 1
    for words in ("crane", "high tide"):
        assert follower.robot("search", words, "--mode", "lexical").data["total"] == 1, words
    assert [body for _, body in events(follower)] == ["Please count twice."]
    said = follower.run("sync")
    assert (said.code, said.err) == (0, "")
    assert f"{REPO}: 0 new events" in said.out
    assert "lists" in said.out


def test_a_source_that_fails_keeps_sync_from_neither_of_the_others(follower: Follower) -> None:
    everything(follower)
    follower.world.faults.add("status", re.compile("GET /repos/"), None, status=401)
    done = follower.robot("sync")
    assert done.code == 7
    assert "5 of 7 lists failed" in done.error["message"]
    assert done.error["message"].endswith("; the others are stored")
    assert follower.robot("count").data["issues"]["total"] == 1
    assert follower.robot("list", "posts").data["total"] == 1


def test_sync_of_one_project_polls_nothing(follower: Follower) -> None:
    everything(follower)
    done = follower.robot("sync", "--project", "port/quay")
    assert done.code == 0
    assert "polled" not in done.data


def test_sync_without_any_source_says_how_to_begin(follower: Follower) -> None:
    follower.config.write_text("")
    done = follower.robot("sync")
    assert done.code == 2
    assert "lore init" in done.error["fix"]


def test_sync_with_github_out_of_reach_fails_as_the_poll_does(follower: Follower) -> None:
    follower.settle(REPO)
    follower.track()
    follower.world.faults.add("status", f"GET /repos/{REPO}", times=None, status=500)
    done = follower.robot("sync")
    assert done.code == follower.robot("poll", "github").code != 0


def test_poll_and_doctor_say_how_many_comments_were_ignored_and_a_corrected_list_delivers_them(
    follower: Follower,
) -> None:
    follower.settle(REPO, extra='allowed_users = ["somebody-else"]')
    follower.track()
    for author in ("mia", "cole", "mia"):
        follower.say(f"{author} says", author)
    told = follower.run("poll", "github").out
    assert "3 comments by 2 people ignored: not in allowed_users" in told
    told = follower.run("doctor", "--offline").out
    assert f"{REPO}: 3 comments by 2 people ignored: not in allowed_users" in told
    assert follower.take() is None
    follower.settle(REPO, extra='allowed_users = ["*"]')
    requests = follower.counted(follower.take)
    assert requests == []
    assert [item["body"] for item in follower.robot("feedback", "peek").data["items"]] == [
        "mia says",
        "cole says",
        "mia says",
    ]
    assert "ignored" not in follower.run("doctor", "--offline").out
