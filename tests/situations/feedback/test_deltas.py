"""What a poll takes in: every version of every comment once, with its body, however the lists are read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.properties.inprocess import Reaper
from tests.situations.feedback.bench import REPO, Bench, instant, key
from tests.support.deep import deep, gate_cases

from tidelore.engine.crashpoint import Seam
from tidelore.feedback.tokens import Intent, action_token, with_marker
from tidelore.store.work.action_tokens import signing_secret
from tidelore.store.work.events import PlannedReply, ack, lease_next, list_events, peek
from tidelore.store.work.outbox import plan

WAYS = pytest.mark.parametrize("way", ["repo", "thread", deep("full"), "all"])


def read_by(bench: Bench, way: str) -> None:
    """Follow single threads by feeds, one by one or by full scans, or mirror the whole repository."""
    ways: dict[str, dict[str, Any]] = {"full": {"fetch": "repo", "incremental": False}, "all": {"mirror": "all"}}
    bench.host |= ways.get(way, {"fetch": way})


@WAYS
def test_several_polls_ingest_only_new_comments(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    said = [bench.hub.comment(REPO, 1, "before the first poll")]
    assert bench.poll().effects["events"] == 1
    for turn in range(3):
        bench.world.advance(60)
        said.append(bench.hub.comment(REPO, 1, f"turn {turn}"))
        said.append(bench.hub.comment(REPO, 1, f"a stranger's, turn {turn}", "somebody"))
        remark = bench.hub.review_comment(REPO, 1, f"remark {turn}")
        assert bench.poll().effects["events"] == 2
        assert key(remark) in bench.event_keys()
        assert bench.poll().effects["events"] == 0
    wanted = {key(one) for one in said if one.author.login == "octo"}
    assert {one for one in bench.event_keys() if ":issue_comment:" in one} == wanted
    assert len(bench.event_keys()) == len(set(bench.event_keys())) == 7


@WAYS
def test_an_edited_comment_is_a_new_event_and_the_old_one_stays(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    first = bench.hub.comment(REPO, 1, "please rename it")
    remark = bench.hub.review_comment(REPO, 1, "this line")
    bench.settle(2)
    second = bench.hub.edit_comment(first.id, "please rename it back")
    again = bench.hub.edit_comment(remark.id, "that line")
    bench.poll()
    assert set(bench.event_keys()) == {key(first), key(remark), key(second), key(again)}
    assert sorted(bench.bodies()) == ["please rename it", "please rename it back", "that line", "this line"]


@WAYS
def test_a_lower_id_edited_in_the_cursors_own_second_is_ingested(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    lower = bench.hub.comment(REPO, 1, "the lower id")
    bench.settle(2)
    newest = bench.hub.comment(REPO, 1, "the higher id")
    bench.poll()
    if way == "repo":
        (mark,) = bench.read("SELECT watermark_at, watermark_id FROM cursors WHERE surface = 'github.issue_comments'")
        assert mark == (newest.updated_s * 1000, str(newest.id))
    edited = bench.hub.edit_comment(lower.id, "edited in the second of the cursor")
    assert (edited.updated_s, edited.id) < (newest.updated_s, newest.id)
    assert edited.updated_s == newest.updated_s
    bench.world.advance(1)
    bench.poll()
    assert set(bench.event_keys()) == {key(lower), key(newest), key(edited)}


@WAYS
def test_a_late_comment_in_the_cursors_second_is_ingested(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    bench.settle(2)
    said = [bench.hub.comment(REPO, 1, "first")]
    for turn in range(3):
        bench.poll()
        said.append(bench.hub.comment(REPO, 1, f"in the same second, after poll {turn}"))
    bench.poll()
    assert len({one.updated_s for one in said}) == 1
    assert set(bench.event_keys()) == {key(one) for one in said}


@WAYS
def test_a_second_edit_within_one_second_is_an_event_with_a_hash_in_its_key(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    said = bench.hub.comment(REPO, 1, "one")
    bench.poll()
    bench.hub.edit_comment(said.id, "two, in the same second")
    bench.poll()
    plain, marked = bench.event_keys()
    assert plain == key(said)
    assert marked.startswith(f"{key(said)}#")
    assert bench.bodies() == ["one", "two, in the same second"]
    bench.world.advance(30)
    assert bench.poll().effects["events"] == 0


@WAYS
def test_an_update_with_the_same_body_is_not_an_event_and_a_later_edit_is(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    said = bench.hub.comment(REPO, 1, "the same words")
    bench.settle(2)
    bench.hub.touch_comment(said.id)
    bench.poll()
    assert bench.event_keys() == [key(said)]
    bench.world.advance(60)
    edited = bench.hub.edit_comment(said.id, "other words")
    bench.poll()
    assert bench.event_keys() == [key(said), key(edited)]


@WAYS
def test_a_review_with_a_body_is_an_event_and_an_empty_one_is_not(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    bench.settle(2)
    remark = bench.hub.review_comment(REPO, 1, "wrapped by a review without words")
    review = bench.hub.review(REPO, 1, "CHANGES_REQUESTED", "not yet")
    bench.poll()
    summary = f"1:review_summary:{review.id}:{instant(review.submitted_s)}"
    assert set(bench.event_keys()) == {key(remark), summary}
    bench.world.advance(60)
    bench.hub.edit_review(REPO, 1, review.id, "not yet, sorry")
    bench.poll()
    assert [one for one in bench.event_keys() if one.startswith(f"{summary}#")]
    assert "not yet, sorry" in bench.bodies()


@WAYS
def test_a_review_in_the_second_of_the_last_read_is_not_lost(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    bench.settle(2)
    bench.hub.review(REPO, 1, "COMMENTED", "the first")
    bench.poll()
    bench.hub.review(REPO, 1, "COMMENTED", "in the same second, after the reviews were read")
    bench.settle(2)
    assert bench.bodies() == ["the first", "in the same second, after the reviews were read"]


@WAYS
def test_the_event_of_a_deleted_comment_stays_and_later_comments_are_found(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    said = [bench.hub.comment(REPO, 1, f"comment {number}") for number in range(3)]
    bench.poll()
    bench.hub.delete_comment(said[1].id)
    late = bench.hub.comment(REPO, 1, "after the deletion")
    bench.settle(2)
    assert set(bench.event_keys()) == {key(one) for one in (*said, late)}


@pytest.mark.parametrize("way", ["repo", "thread"])
def test_bodies_survive_a_failure_after_ingestion(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    bench.settle(2)
    said = bench.hub.comment(REPO, 1, "the words that must not be lost")
    seams = Reaper()
    bench.poll_all(reaper=seams)
    bench.world.advance(60)
    late = bench.hub.comment(REPO, 1, "nor these")
    # Whatever fails once the events are stored, here the process itself: the cursor has passed them.
    last = seams.visits.count(Seam.AFTER_COMMIT) - 1
    assert bench.poll_all(reaper=Reaper(last, of=Seam.AFTER_COMMIT)) is None
    bench.hub.delete_comment(said.id)
    bench.hub.delete_comment(late.id)
    bench.poll()
    assert bench.bodies() == ["the words that must not be lost", "nor these"]
    with bench.database() as database:
        first = lease_next(database, bench.clock.now_ms(), 1000, "a handler")
        assert first is not None
        bench.world.advance(3600)
        again = lease_next(database, bench.clock.now_ms(), 1000, "another handler")
        assert again is not None
        assert (again.id, again.body) == (first.id, "the words that must not be lost")
        ack(database, again.id, bench.clock.now_ms())
        left = [event for event in list_events(database, again.project_id, 1) if event.processed_at is None]
    assert [event.body for event in left] == ["nor these"]


@pytest.mark.parametrize("way", ["repo", "thread"])
def test_a_crash_inside_the_commit_leaves_neither_events_nor_cursor(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    bench.settle(2)
    said = bench.hub.comment(REPO, 1, "half stored is not stored")
    marks = "SELECT watermark_at FROM cursors WHERE surface LIKE 'github.%issue_comments' ORDER BY surface, scope"
    before, deaths = bench.read(marks), 0
    # Lists are read side by side: which of them a visit belongs to is not the same each time.
    while not bench.event_keys():
        if bench.poll_all(reaper=Reaper(deaths, of=Seam.INSIDE_COMMIT)) is None:
            deaths += 1
        assert bool(bench.event_keys()) == (bench.read(marks) != before), deaths
    assert deaths > 0
    bench.poll()
    assert bench.event_keys() == [key(said)]


@pytest.mark.parametrize("way", ["repo", "thread"])
def test_a_command_survives_a_crash_between_commit_and_execution(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.host["operator_logins"] = ["boss"]
    bench.track(1)
    bench.settle(2)
    said = bench.hub.comment(REPO, 1, "/lore pause", "boss")
    visit = 0
    while not bench.read("SELECT 1 FROM operator_commands"):
        assert bench.poll_all(reaper=Reaper(visit)) is None, "the command was never stored"
        visit += 1
    # The cursor is past it and the process is dead; nothing shows the comment again.
    bench.hub.delete_comment(said.id)
    assert bench.row(1).paused == 0
    bench.poll()
    assert bench.apply_commands() == ["pause"]
    assert bench.row(1).paused == 1
    assert bench.apply_commands() == []
    assert bench.read("SELECT COUNT(*) FROM outbox") == [(1,)]
    assert bench.event_keys() == []


@WAYS
@gate_cases(1)
def test_our_own_reply_is_observed_without_an_event_and_a_forged_marker_is_ignored(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.own_login = "octo"
    bench.track(1)
    bench.settle(2)
    project = bench.project()
    intents = [Intent("github", project.remote_id, "pr", 1, None, "reply", word) for word in ("one", "two")]
    with bench.database() as database:
        secret = signing_secret(database, bench.clock.now_ms())
    tokens = [action_token(intent, secret) for intent in intents]
    with bench.database() as database, database.transaction() as tx:
        for token in tokens:
            plan(
                tx,
                project.id,
                REPO,
                PlannedReply("pr", 1, None, token, with_marker("Done.", token), "reply"),
                bench.clock.now_ms(),
            )
    ours = bench.hub.comment(REPO, 1, with_marker("Done.", tokens[0]), "Octo")
    bench.hub.comment(REPO, 1, with_marker("Done.", tokens[1]), "a-forger")
    bench.settle(2)
    rows = dict(bench.read("SELECT token, status || ' ' || COALESCE(observed_comment_id, 0) FROM action_tokens"))
    assert rows == {tokens[0]: f"observed {ours.id}", tokens[1]: "planned 0"}
    assert bench.event_keys() == []


@pytest.mark.parametrize("way", ["repo", "all"])
def test_an_event_carries_its_place_its_author_and_its_pull_request(bench: Bench, way: str) -> None:
    read_by(bench, way)
    bench.track(1)
    remark = bench.hub.review_comment(REPO, 1, "this line")
    bench.poll()
    with bench.database() as database:
        (event,) = peek(database)
    pull = bench.hub.repository(REPO).thread(1)
    assert (event.diff_hunk, event.subject_type, event.association) == (remark.diff_hunk, "line", "OWNER")
    assert event.diff_hunk
    assert (event.pr_title, event.pr_head_sha) == (pull.title, pull.require_pull().head_sha)
    assert event.pr_branch
    assert event.thread_id == f"review_comment:{remark.id}"
