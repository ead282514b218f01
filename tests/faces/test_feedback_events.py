"""`lore feedback next|peek|ack|nack`: one event at a time, each done once; `lore metrics`."""

from __future__ import annotations

import json
import os

import pytest
from tests.faces.following import REPO, TOKEN, Follower, failed
from tests.faces.test_documented_shapes import compare

FLOW = ["--error", "The crane is broken."]


@pytest.fixture
def talk(follower: Follower) -> Follower:
    """A pull request that is followed, on which two things were said."""
    follower.say("First.")
    follower.say("Second.")
    follower.track()
    follower.poll()
    return follower


def test_events_are_handed_out_in_order_and_one_at_a_time(talk: Follower) -> None:
    first = talk.take()
    assert first is not None
    assert first["body"] == "First."
    assert talk.take() is None, "one is out already"
    talk.robot("feedback", "ack", str(first["id"]))
    second = talk.take("--pr", str(talk.pr), "--repo", REPO)
    assert second is not None
    assert second["body"] == "Second."
    assert talk.robot("feedback", "ack", "--lease", second["lease_id"]).data["event"]["processed_at"]
    assert talk.run("feedback", "next").out == "No events ready.\n"
    assert talk.robot("feedback", "peek").data == {"items": [], "total": 0, "next": None}
    assert talk.run("feedback", "peek").out == "No pending events.\n"


def test_feedback_next_gives_the_documented_fields_and_readable_text(talk: Follower) -> None:
    talk.remark("Why 40?")
    talk.poll()
    event = talk.take()
    assert event is not None
    compare("feedback next", {"event": event, "of_closed": 0})
    compare("feedback peek", talk.robot("feedback", "peek").data)
    compare("feedback nack", talk.robot("feedback", "nack", "--lease", event["lease_id"], *FLOW).data)
    compare("feedback ack", talk.robot("feedback", "ack", str(event["id"])).data)
    shown = talk.run("feedback", "next").out
    assert "Second." in shown
    assert "Lease 2-" in shown
    for columns in (60, 80):
        assert f"#{talk.pr} " in talk.terminal("feedback", "peek", columns=columns).out
    listed = talk.run("feedback", "peek").out
    assert "in progress" in listed
    assert "Why 40?" in listed


def test_listing_events_leases_none(talk: Follower) -> None:
    for _ in range(2):
        assert [item["body"] for item in talk.robot("feedback", "peek", "-n", "1").data["items"]] == ["First."]
    assert talk.robot("feedback", "peek", "--pr", str(talk.pr)).data["total"] == 2
    assert talk.robot("feedback", "peek", "--pr", "99").data["total"] == 0
    assert "lease_id" not in talk.robot("feedback", "peek").data["items"][0]
    assert talk.take() is not None


def test_a_failed_event_is_retried_and_blocks_after_the_last_attempt(talk: Follower) -> None:
    talk.settle(REPO, extra="handler_max_attempts = 2")
    for attempt, blocked in ((1, False), (2, True)):
        event = talk.take()
        assert event is not None
        done = talk.robot("feedback", "nack", "--lease", event["lease_id"], *FLOW).data
        assert (done["event"]["attempts"], done["blocked"]) == (attempt, blocked)
    assert talk.take() is None
    assert talk.robot("feedback", "blocked", "list").data["items"][0]["detail"] == FLOW[1]
    assert "is done" in talk.run("feedback", "ack", "1").out
    assert "was already done" in talk.run("feedback", "nack", "1", *FLOW).out


def test_a_failed_event_waits_for_the_configured_back_off(talk: Follower) -> None:
    talk.config.write_text(talk.config.read_text().replace("backoff_seconds = 0", "backoff_seconds = 3600"))
    shown = talk.run("feedback", "nack", str((talk.take() or {})["id"]), *FLOW)
    assert "will be retried" in shown.out
    assert talk.take() is None
    assert "retrying (1 failed)" in talk.run("feedback", "peek").out


def test_an_expired_lease_counts_until_the_event_is_leased_again(talk: Follower) -> None:
    event = talk.take()
    assert event is not None
    talk.query("UPDATE feedback_events SET leased_until = 1 WHERE lease_id IS NOT NULL")
    again = talk.take()
    assert again is not None
    assert again["id"] == event["id"]
    for command in ("ack", "nack"):
        argv = FLOW if command == "nack" else []
        error = failed(talk.robot("feedback", command, "--lease", event["lease_id"], *argv), 3, "LOCK_HELD")
        assert f"pid {os.getpid()}" in error["message"]
    talk.query("UPDATE feedback_events SET leased_until = 1 WHERE lease_id IS NOT NULL")
    assert talk.robot("feedback", "ack", "--lease", again["lease_id"]).code == 0


@pytest.mark.parametrize("command", ["ack", "nack"])
def test_an_invalid_event_id_is_refused(talk: Follower, command: str) -> None:
    argv = FLOW if command == "nack" else []
    failed(talk.robot("feedback", command, *argv), 2, "USAGE")
    failed(talk.robot("feedback", command, "1", "--lease", "1-x", *argv), 2, "USAGE")
    failed(talk.robot("feedback", command, "99", *argv), 6, "NOT_FOUND")
    failed(talk.robot("feedback", command, "--lease", "nonsense", *argv), 6, "NOT_FOUND")
    failed(talk.robot("feedback", "next", "--timeout", "1"), 2, "USAGE")


def test_feedback_next_with_poll_returns_new_events(talk: Follower) -> None:
    for _ in range(2):
        talk.robot("feedback", "ack", str((talk.take() or {})["id"]))
    talk.say("Third.")
    assert talk.take() is None
    event = talk.take("--poll")
    assert event is not None
    assert event["body"] == "Third."


def test_waiting_ends_at_the_timeout_or_with_an_event_of_another_process(talk: Follower) -> None:
    for _ in range(2):
        talk.robot("feedback", "ack", str((talk.take() or {})["id"]))
    assert talk.take("--wait", "--timeout", "0.3") is None
    waiting = talk.start("feedback", "next", "--wait", "--timeout", "30", "--robot")
    try:
        talk.say("Third.")
        talk.poll()
        out, _ = waiting.communicate(timeout=40)
    finally:
        waiting.kill()
        waiting.wait()
    assert json.loads(out)["data"]["event"]["body"] == "Third."


def test_waiting_ends_when_polling_fails_permanently(talk: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        talk.robot("feedback", "ack", str((talk.take() or {})["id"]))
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    talk.world.github.settings.bad_tokens.add(TOKEN)
    done = talk.robot("feedback", "next", "--wait", "--timeout", "60", "--poll")
    failed(done, 4, "CREDENTIALS_REJECTED")


def test_a_paused_pull_request_hands_out_no_event(talk: Follower) -> None:
    talk.query("UPDATE tracked_prs SET paused = 1")
    assert talk.take() is None
    assert talk.robot("feedback", "peek").data["total"] == 2


def test_feedback_metrics_are_printed_as_text_and_as_json(talk: Follower) -> None:
    talk.answer("Done.")
    shown = talk.run("metrics").out
    assert "# TYPE feedback_events_ingested_total counter" in shown
    assert "feedback_events_ingested_total 2.0\n" in shown
    assert 'action_tokens_total{source="reply",status="observed"} 1.0\n' in shown
    assert 'github_comment_cursor_lag_seconds{surface="pr_issue_comments"}' in shown
    data = talk.robot("metrics").data
    compare("metrics", data)
    values = {found["name"]: found["samples"] for found in data["metrics"]}
    assert values["feedback_events_ingested_total"] == [{"labels": {}, "value": 2}]
    assert not talk.counted(lambda: talk.run("metrics"))


def test_json_logs_contain_the_fields_of_an_event(talk: Follower) -> None:
    talk.settle(REPO, tail='[log]\nformat = "json"\n')
    done = talk.run("poll", "github")
    records = [json.loads(line) for line in done.err.splitlines()]
    scans = [record for record in records if record.get("event") == "incremental_scan_completed"]
    number = talk.world.github.repository(REPO).id
    read = {(record["surface"], record["scope"]) for record in scans}
    lists = ("merge_requests", "issue_comments", "review_comments")
    assert read >= {(f"github.{name}", f"{number}") for name in lists}
    assert all({"at", "level", "logger", "message"} <= record.keys() for record in records)


def test_events_of_a_merged_pull_request_are_leased_only_with_include_closed(talk: Follower) -> None:
    talk.forge.merge(REPO, talk.pr)
    talk.poll()
    assert talk.take() is None
    assert [item["pr_status"] for item in talk.robot("feedback", "peek").data["items"]] == ["merged", "merged"]
    assert "pull request merged" in talk.run("feedback", "peek").out
    waiting = talk.robot("status").data["waiting"]
    assert (waiting["events_waiting"], waiting["events_of_closed"]) == (0, 2)
    assert talk.run("feedback", "next").out == (
        "No events ready.\n2 events of merged and closed pull requests: take them with --include-closed.\n"
    )
    event = talk.take("--include-closed")
    assert event is not None
    assert (event["body"], event["pr_status"]) == ("First.", "merged")
