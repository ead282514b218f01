"""A remote and a database that are not as they should be: what is reported, what goes on, and that nothing is lost."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from urllib.parse import unquote

import pytest
from tests.situations.feedback.bench import REPO, Bench, key, open_pulls
from tests.support.deep import gate_cases

from tidelore.core.clock import parse_instant
from tidelore.core.errors import CredentialsRejected, RateLimited, RemoteNotFound
from tidelore.feedback.report import FeedbackPollReport, poll_error
from tidelore_world.github.records import Comment, ReviewComment
from tidelore_world.wire import Request

DAY = 86_400
OTHER = "octo/reef"


def both(bench: Bench) -> None:
    """A second repository, in which pull request 1 is followed too."""
    open_pulls(bench.world, repo=OTHER)
    bench.track(1)
    bench.poll()
    bench.repos = [{"name": OTHER}]
    bench.host |= {"track_authors": ["robin"]}
    bench.poll()
    bench.repos = [{"name": OTHER}, {"name": REPO}]


def test_a_failing_repository_does_not_stop_the_other(bench: Bench) -> None:
    both(bench)
    said = [bench.hub.comment(name, 1, f"in {name}") for name in (OTHER, REPO)]
    fault = bench.world.faults.add("status", f"GET /repos/{OTHER}", None, status=503)
    report = bench.poll_all()
    assert report is not None
    assert fault.fired
    assert [(repo.repo, repo.error is None) for repo in report.repos] == [(OTHER, False), (REPO, True)]
    assert poll_error(report) is not None
    assert bench.event_keys() == [key(said[1])]
    bench.world.faults.clear()
    bench.world.advance(60)
    bench.poll_all()
    assert len(bench.event_keys()) == 2


def test_a_deleted_repository_is_reported_and_does_not_stop_the_other(bench: Bench) -> None:
    both(bench)
    said = bench.hub.comment(REPO, 1, "still here")
    fault = bench.world.faults.add("status", f"GET /repos/{OTHER}", None, status=404)
    report = bench.poll_all()
    assert report is not None
    assert fault.fired
    assert isinstance(report.repos[0].error, RemoteNotFound)
    assert report.repos[1].error is None
    assert bench.event_keys() == [key(said)]


def test_an_exhausted_rate_limit_stops_the_host_with_one_error(bench: Bench) -> None:
    both(bench)
    names = [f"octo/more-{number}" for number in range(6)]
    for name in names:
        open_pulls(bench.world, repo=name)
    bench.repos += [{"name": name} for name in names]
    bench.hub.settings.anonymous_limit = 0
    found: list[FeedbackPollReport | None] = []
    spent = bench.counted(lambda: found.append(bench.poll_all()))
    (report,) = found
    assert report is not None
    assert all(isinstance(repo.error, RateLimited) for repo in report.repos)
    assert isinstance(poll_error(report), RateLimited)
    assert spent["all"] <= 8, "only those that were under way side by side may have asked"
    bench.hub.settings.anonymous_limit = None
    said = bench.hub.comment(REPO, 1, "once it is over")
    bench.world.advance(4000)
    bench.poll_all()
    assert key(said) in bench.event_keys()


def test_rejected_credentials_stop_the_host_and_change_nothing(bench: Bench) -> None:
    both(bench)
    bench.world.faults.add("status", "GET /repos", None, status=401)
    report = bench.poll_all()
    assert report is not None
    assert all(isinstance(repo.error, CredentialsRejected) for repo in report.repos)
    bench.world.faults.clear()
    assert {status for (status,) in bench.read("SELECT status FROM tracked_prs")} == {"awaiting_feedback"}


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_smaller_pages_are_requested_when_the_server_fails_at_an_old_since(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    bench.track(1)
    first = bench.hub.comment(REPO, 1, "before the outage")
    bench.settle(2)
    bench.world.advance(40 * DAY)
    said = [first] + [bench.hub.comment(REPO, 1, f"after the outage {number}") for number in range(60)]
    bench.hub.settings.gateway_since_days, bench.hub.settings.gateway_per_page = 7, 25
    bench.poll()
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)
    assert any(status == 502 for _, _, status in bench.world.log)


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_next_links_with_the_repository_id_are_followed(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    bench.per_page = 3
    bench.hub.settings.numeric_links_from_page = 1
    bench.track(1)
    said = [bench.hub.comment(REPO, 1, f"comment {number}") for number in range(10)]
    bench.poll()
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)
    assert any(target.startswith("/repositories/") for _, target, _ in bench.world.log)


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_a_server_with_exclusive_since_loses_nothing(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    bench.hub.settings.since_exclusive = True
    bench.track(1)
    said = []
    for turn in range(4):
        said += [bench.hub.comment(REPO, 1, f"{turn} before"), bench.hub.comment(REPO, 1, f"{turn} too")]
        bench.poll()
        said.append(bench.hub.comment(REPO, 1, f"{turn} in the second of the cursor"))
        bench.world.advance(1)
    bench.settle(2)
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)


@pytest.mark.parametrize("fetch", ["repo", "thread"])
@pytest.mark.parametrize("damage", ["watermark_at = 9999999999999", "watermark_at = -5"])
@gate_cases(2)
def test_an_impossible_cursor_is_replaced_by_a_bounded_backfill(
    bench: Bench, fetch: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.host |= {"fetch": fetch, "operator_logins": ["boss"]}
    bench.track(1)
    said = [bench.hub.comment(REPO, 1, "long ago")]
    bench.settle(2)
    bench.world.advance(3 * DAY)
    said.append(bench.hub.comment(REPO, 1, "today"))
    bench.hub.comment(REPO, 1, "/lore status", "boss")
    bench.settle(2)
    assert bench.apply_commands() == ["status"]
    said.append(bench.hub.comment(REPO, 1, "while the cursor was damaged"))
    if fetch == "repo":
        bench.hub.push(REPO, 1, force=True)
    bench.write(f"UPDATE cursors SET {damage}, etag = NULL WHERE watermark_at IS NOT NULL")
    begin = bench.clock.now_ms()
    with caplog.at_level(logging.WARNING):
        bench.poll()
    assert "cursor_invalid" in caplog.text
    if fetch == "repo":
        assert bench.row(1).status == "blocked", "the position in the list of pull requests was believed"
        bench.unblock(1)
    bench.settle(2)
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)
    assert bench.apply_commands() == []
    assert bench.read("SELECT COUNT(*) FROM outbox") == [(1,)]
    kept = [json.loads(text) for (text,) in bench.read("SELECT set_aside FROM cursors WHERE set_aside IS NOT NULL")]
    assert kept
    assert all(entry["reason"] for entry in kept)
    sinces = [re.search(r"since=([^&]+)", target) for _, target, _ in bench.world.log[-60:]]
    assert any(found and _ms(found[1]) == (begin - DAY * 1000) // 1000 * 1000 - 5000 for found in sinces)


def test_an_unreadable_cursor_costs_a_full_read_and_no_event(followed: Bench) -> None:
    said = followed.hub.comment(REPO, 1, "before")
    followed.settle(2)
    followed.write("UPDATE cursors SET reading = 'no json', watermark_id = 'no number'")
    late = followed.hub.comment(REPO, 1, "after")
    followed.settle(2)
    assert followed.event_keys() == [key(said), key(late)]


def test_a_renamed_repository_is_followed_although_its_old_name_is_configured(followed: Bench) -> None:
    said = [followed.hub.comment(REPO, 1, "under the old name")]
    followed.settle(1)
    followed.hub.rename_repo(REPO, "octo/harbour")
    said.append(followed.hub.comment("octo/harbour", 1, "under the new name"))
    followed.settle(2)
    assert followed.event_keys() == [key(one) for one in said]
    followed.hub.push("octo/harbour", 1, force=True)
    followed.settle(1)
    assert followed.row(1).status == "blocked"


@pytest.mark.parametrize(
    ("met", "then"), [("repo", "repo"), ("repo", "thread"), ("thread", "thread"), ("thread", "repo")]
)
@pytest.mark.parametrize("bootstrap", [True, False])
@gate_cases(3)
def test_a_comment_that_cannot_be_parsed_becomes_an_event_once_it_can(
    bench: Bench, met: str, then: str, bootstrap: bool
) -> None:
    bench.host["fetch"] = met
    bench.track(1)
    if not bootstrap:
        bench.settle(2)
    bad = bench.hub.comment(REPO, 1, "its date is broken")
    good = bench.hub.comment(REPO, 1, "its neighbour")
    fault = bench.world.faults.add("invalid_timestamp", re.compile(r"^/repos/octo/tide/issues/(1/)?comments"), 1)
    bench.poll()
    assert fault.fired
    assert len(bench.event_keys()) == 1
    bench.world.faults.clear()
    bench.host["fetch"] = then
    bench.settle(3, seconds=3600)
    assert sorted(bench.event_keys()) == sorted((key(bad), key(good)))
    assert bench.read("SELECT remote_key FROM quarantine") == []


def test_a_body_of_a_megabyte_with_control_characters_is_stored_unchanged(followed: Bench) -> None:
    bodies = ["x" * 1_000_000, "bell \x07 escape \x1b[31m 🌊"]
    for body in bodies:
        followed.hub.comment(REPO, 1, body)
    followed.poll()
    assert sorted(followed.bodies()) == sorted(bodies)


def test_a_status_change_by_another_process_does_not_end_the_poll(followed: Bench) -> None:
    followed.hub.push(REPO, 1, force=True)
    said = followed.hub.comment(REPO, 1, "said meanwhile")

    def overtake(request: Request) -> None:
        if "/compare/" in request.path and followed.row(1).status != "blocked":
            followed.block(1)

    followed.world.before_request.append(overtake)
    report = followed.try_poll()
    followed.world.before_request.clear()
    assert report.error is None
    assert list(report.failures) == ["#1"]
    followed.settle(2)
    assert (followed.row(1).status, followed.row(1).blocked_reason) == ("blocked", "handler_failed")
    followed.unblock(1)
    followed.settle(2)
    assert followed.event_keys() == [key(said)]


def test_a_pull_request_dated_in_the_future_does_not_hide_others(bench: Bench) -> None:
    open_pulls(bench.world)
    bench.host["fetch"] = "repo"
    ahead = bench.hub.repository(REPO).thread(2)
    bench.hub.repository(REPO).put_thread(replace(ahead, updated_s=ahead.updated_s + 400 * DAY))
    bench.track(1)
    bench.settle(3)
    bench.hub.merge(REPO, 1)
    bench.poll()
    assert bench.row(1).status == "merged"


def test_a_merge_is_noticed_although_another_pull_request_is_dated_ahead(bench: Bench) -> None:
    """Not far enough ahead for the cursor to count as invalid, so the cursor must not take that date over."""
    open_pulls(bench.world)
    bench.host["fetch"] = "repo"
    bench.track(1)
    bench.settle(2)
    ahead = bench.hub.repository(REPO).thread(2)
    bench.hub.repository(REPO).put_thread(replace(ahead, updated_s=bench.clock.now_ms() // 1000 + 240))
    bench.poll()
    bench.world.advance(60)
    bench.hub.merge(REPO, 1)
    bench.poll()
    assert bench.row(1).status == "merged"


def _ms(text: str) -> int:
    return parse_instant(unquote(text))


@pytest.mark.parametrize("fetch", ["repo", "thread"])
def test_comments_are_not_lost_when_their_pull_request_could_not_be_fetched_at_first(bench: Bench, fetch: str) -> None:
    bench.host["fetch"] = fetch
    bench.track(1)
    said: list[Comment | ReviewComment] = []
    for turn in range(2):
        said += [bench.hub.comment(REPO, 1, f"turn {turn}"), bench.hub.review_comment(REPO, 1, f"on a line, {turn}")]
        bench.world.advance(3600)
    fault = bench.world.faults.add("status", re.compile(r"^/repos/octo/tide/pulls/1$"), None, status=500)
    assert bench.try_poll().failures
    assert fault.fired
    bench.world.faults.clear()
    bench.settle(2)
    assert sorted(bench.event_keys()) == sorted(key(one) for one in said)
