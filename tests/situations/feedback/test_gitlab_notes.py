"""Notes on followed merge requests of GitLab become events, commands and observed answers."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.properties.inprocess import Reaper, WorldTime
from tests.situations.feedback.lab import PROJECT, Lab, key
from tests.support.deep import deep

from tidelore.app.feedback_tracking import track
from tidelore.core.errors import NotFound
from tidelore.engine.crashpoint import Seam
from tidelore.store.database.opening import open_database
from tidelore.store.work.events import ack, lease_next


@pytest.fixture(params=["sqlite", deep("postgres")])
def lab(request: pytest.FixtureRequest) -> Lab:
    """Merge request 1 is followed, and everything quiet is known to be quiet."""
    made = Lab(request.getfixturevalue(f"migrated_{request.param}_address"))
    made.open()
    made.follow()
    made.settle()
    return made


def test_a_note_is_one_event_and_an_edit_is_another(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    note = lab.lab.add_note(request, "Count twice.", author="mira")
    first = key(1, note)
    lab.settle()
    assert lab.keys() == [first]
    assert first.endswith("Z")
    assert "." in first
    lab.lab.edit_note(request, note, "Count three times.")
    lab.settle()
    assert lab.keys() == [first, key(1, note)]
    assert lab.bodies() == ["Count twice.", "Count three times."]


def test_an_edit_within_the_same_second_is_an_event_although_it_is_read_without_milliseconds(lab: Lab) -> None:
    other = lab.open()[0]
    lab.settle()
    request = lab.lab.merge_request(PROJECT, 1)
    second_us = lab.world.clock.now_us // 1_000_000 * 1_000_000
    note = lab.lab.add_note(request, "Count twice.", author="mira", at_us=second_us + 700_000)
    lab.world.advance(1)
    lab.poll()
    first = key(1, note)
    assert lab.keys() == [first], "alone, it is read by REST"
    lab.lab.edit_note(request, note, "Count three times.", at_us=second_us + 900_000)
    lab.lab.add_note(other, "Elsewhere.", author="mira")
    asked = lab.world.requests["POST /api/graphql"]
    lab.settle()
    assert lab.world.requests["POST /api/graphql"] > asked
    assert lab.bodies() == ["Count three times.", "Count twice."]
    assert len(lab.keys()) == 2


def test_a_note_written_within_the_minute_of_the_last_one_is_found_when_the_thread_is_settled(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    lab.lab.add_note(request, "One.", author="mira")
    lab.poll()
    assert lab.bodies() == ["One."]
    lab.world.advance(20)
    before = request.updated_at_us
    lab.lab.add_note(request, "Two.", author="mira")
    assert request.updated_at_us == before, "the touch is throttled"
    lab.settle()
    assert lab.bodies() == ["One.", "Two."]


def test_the_lower_id_of_two_notes_of_one_instant_is_not_lost(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    low = lab.lab.add_note(request, "Lower.", author="mira")
    high = lab.lab.add_note(request, "Higher.", author="robin", at_us=low.created_at_us)
    home, _ = lab.lab.note(request, low)
    request.discussions.remove(home)
    lab.poll()
    assert lab.keys() == [key(1, high)]
    # It becomes visible late, as on a replica that lags.
    request.discussions.append(home)
    lab.settle()
    assert sorted(lab.keys()) == sorted([key(1, low), key(1, high)])


def test_notes_on_an_issue_with_the_number_of_a_followed_merge_request_are_no_events(lab: Lab) -> None:
    issue = lab.lab.create_issue(PROJECT, title="Not followed")
    assert issue.iid == 1
    lab.lab.add_note(issue, "About the issue.", author="robin")
    lab.settle()
    assert lab.bodies() == []


def test_a_rewritten_history_blocks_a_merge_request_and_its_notes_wait_until_it_is_unblocked(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    lab.lab.push(PROJECT, 1)
    lab.lab.edit_merge_request(PROJECT, 1, title="Straight on", by="robin")
    lab.settle()
    assert lab.status() == "awaiting_feedback"
    lab.lab.push(PROJECT, 1, forced=True)
    lab.lab.edit_merge_request(PROJECT, 1, title="Rewritten", by="robin")
    lab.settle()
    assert lab.status() == "blocked"
    lab.lab.add_note(request, "Still wrong.", author="mira")
    lab.settle()
    assert lab.bodies() == []
    lab.unblock()
    lab.settle()
    assert (lab.status(), lab.bodies()) == ("awaiting_feedback", ["Still wrong."])


def test_a_merged_merge_request_ends_only_after_its_notes_were_read(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    lab.lab.add_note(request, "Last words.", author="mira")
    lab.world.advance(1)
    lab.lab.merge_merge_request(PROJECT, 1, by="robin")
    lab.world.faults.add("status", "GET /projects/:id/merge_requests/:iid/discussions", status=502)
    lab.poll()
    assert (lab.status(), lab.bodies()) == ("awaiting_feedback", [])
    lab.settle()
    assert (lab.status(), lab.bodies()) == ("merged", ["Last words."])


def test_only_notes_of_members_who_may_write_count_by_default(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    bot = "project_7_bot_4ffca233d8298ea1"
    lab.lab.set_member(PROJECT, bot, 40)
    for author in ("mira", "robin", "guest", "stranger", "ghost", bot):
        lab.lab.add_note(request, f"By {author}.", author=author)
        lab.world.advance(1)
    lab.settle()
    assert lab.bodies() == ["By mira.", "By robin."]
    ignored = dict(lab.read("SELECT author_username, ignored FROM notes WHERE ignored IS NOT NULL"))
    told = {"guest": "not_allowed", "stranger": "not_allowed", "ghost": "deleted_account", bot: "bot"}
    assert ignored == told
    # The list of members is read once a day; then stored notes count without being read again.
    lab.lab.set_member(PROJECT, "guest", 30)
    lab.settle()
    assert lab.bodies() == ["By mira.", "By robin."]
    assert lab.world.requests["GET /projects/:id/members/all"] == 1
    lab.world.advance(86_400)
    lab.settle()
    assert lab.bodies() == ["By mira.", "By robin.", "By guest."]
    assert lab.world.requests["GET /projects/:id/members/all"] == 2


def test_with_lockdown_the_members_are_read_although_nothing_is_followed(sqlite_address: str) -> None:
    for lockdown, stored in ((False, []), (True, [("guest", 10), ("mira", 50), ("robin", 30)])):
        lab = Lab(sqlite_address, settings={"lockdown": lockdown})
        lab.open()
        lab.poll()
        found = lab.read("SELECT username, access_level FROM project_members ORDER BY username")
        assert (found, lab.world.requests["GET /projects/:id/members/all"]) == (stored, int(lockdown))


def test_a_refused_list_of_members_is_reported_and_asked_for_again_a_day_later(lab: Lab) -> None:
    lab.world.advance(86_400)
    lab.world.faults.add("status", "GET /projects/:id/members/all", status=403)
    outcome = lab.poll()
    assert outcome is not None
    assert "members" in outcome.report.repos[0].failures
    lab.lab.add_note(lab.lab.merge_request(PROJECT, 1), "Known before.", author="robin")
    lab.settle()
    assert lab.bodies() == ["Known before."]
    assert lab.world.requests["GET /projects/:id/members/all"] == 2


def test_a_list_of_members_refused_to_one_token_is_asked_for_with_another_at_once(sqlite_address: str) -> None:
    lab = Lab(sqlite_address)
    request = lab.open()[0]
    lab.follow()
    lab.world.faults.add("status", "GET /projects/:id/members/all", times=None, status=403)
    lab.lab.add_note(request, "By a developer.", author="robin")
    lab.settle()
    assert lab.bodies() == []
    lab.world.faults.clear()
    lab.token = "with-more-rights"
    lab.poll()
    assert lab.bodies() == ["By a developer."]
    asked = lab.world.requests["GET /projects/:id/members/all"]
    lab.settle()
    assert lab.world.requests["GET /projects/:id/members/all"] == asked


def test_a_rule_that_is_added_later_tracks_the_merge_requests_that_are_open(lab: Lab) -> None:
    theirs = lab.lab.create_merge_request(PROJECT, title="Another author's", author="guest")
    ended = lab.lab.create_merge_request(PROJECT, title="Ended", author="guest")
    lab.lab.add_note(theirs, "Before the rule.", author="mira")
    lab.world.advance(60)
    lab.lab.close_merge_request(PROJECT, ended.iid)
    lab.settle()
    assert lab.bodies() == []
    lab.host = {"track_authors": ["Guest"]}
    lab.settle()
    assert lab.bodies() == ["Before the rule."]
    assert lab.read("SELECT pr_number FROM tracked_prs WHERE tracked_by = 'rule'") == [(theirs.iid,)]


def test_an_operator_command_is_applied_and_answered_once(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    lab.lab.add_note(request, "/lore status", author="mira")
    lab.settle(3)
    (answer,) = lab.ours()
    assert "!1: awaiting_feedback" in answer.body
    assert lab.bodies() == []
    assert lab.read("SELECT status FROM operator_commands") == [("applied",)]
    assert lab.read("SELECT status, scope_kind FROM outbox") == [("observed", "pr")]


def test_a_command_in_an_internal_note_is_answered_in_its_internal_discussion(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    asked = lab.lab.add_note(request, "/lore status", author="mira", internal=True)
    lab.settle(3)
    (answer,) = lab.ours()
    assert answer.internal
    assert lab.lab.note(request, answer)[0] is lab.lab.note(request, asked)[0]


def test_a_command_on_a_source_issue_is_answered_there_although_a_merge_request_has_its_number(lab: Lab) -> None:
    issue = lab.lab.create_issue(PROJECT, title="The source")
    lab.world.advance(120)
    lab.follow(1, issue=issue.iid)
    lab.settle()
    lab.lab.add_note(issue, "/lore help", author="mira")
    lab.settle(3)
    assert len(lab.ours(kind="issues")) == 1
    assert lab.ours() == []
    assert lab.read("SELECT status, scope_kind FROM outbox") == [("observed", "issue")]


def test_a_reply_goes_into_the_discussion_of_its_note_and_is_not_an_event(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    note = lab.lab.add_note(request, "Why?", author="mira", thread=True)
    lab.settle()
    posted = lab.answer("Because.", to=note.id)
    assert posted is not None
    assert posted.error is None
    (ours,) = lab.ours()
    assert lab.lab.note(request, ours)[0] is lab.lab.note(request, note)[0]
    lab.answer("Because.", to=note.id)
    lab.settle()
    assert (lab.posts(), lab.bodies()) == (1, ["Why?"])


def test_a_reply_to_a_note_that_is_not_stored_is_refused(lab: Lab) -> None:
    with pytest.raises(NotFound, match="note 999999 is not stored"):
        lab.answer("Because.", to=999_999)
    assert lab.read("SELECT COUNT(*) FROM outbox") == [(0,)]


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_reply_whose_response_is_lost_is_posted_once(lab: Lab, in_thread: bool) -> None:
    note = lab.lab.add_note(lab.lab.merge_request(PROJECT, 1), "Why?", author="mira")
    lab.settle()
    lab.lab.lost_answers = 1
    posted = lab.answer("Because.", to=note.id if in_thread else None)
    assert posted is not None
    assert (posted.row.status, posted.row.last_error) == ("planned", "unclear_write")
    lab.settle(3)
    (ours,) = lab.ours()
    assert lab.read("SELECT status, comment_id FROM outbox") == [("observed", ours.id)]
    assert lab.posts() == 1


@pytest.mark.parametrize("seam", [Seam.BEFORE_POST, Seam.AFTER_POST])
def test_a_reply_of_a_killed_process_is_posted_once(lab: Lab, seam: Seam) -> None:
    assert lab.answer("Because.", Reaper(0, seam)) is None
    assert len(lab.ours()) == (seam is Seam.AFTER_POST)
    lab.settle(3)
    (ours,) = lab.ours()
    assert lab.read("SELECT status, comment_id FROM outbox") == [("observed", ours.id)]
    assert lab.posts() == 1


def test_a_marker_of_ours_in_another_accounts_note_is_plain_text(lab: Lab) -> None:
    lab.lab.lost_answers = 1
    lab.answer("Because.")
    (ours,) = lab.ours()
    request = lab.lab.merge_request(PROJECT, 1)
    lab.lab.delete_note(request, ours)
    lab.lab.add_note(request, ours.body, author="mira")
    lab.settle(3)
    assert lab.bodies() == [ours.body]
    assert len(lab.ours()) == 1, "it was deleted before it was seen, so it is posted again"


def test_a_reply_to_a_deleted_note_fails_and_is_not_posted_elsewhere(lab: Lab) -> None:
    request = lab.lab.merge_request(PROJECT, 1)
    note = lab.lab.add_note(request, "Why?", author="mira")
    lab.settle()
    lab.lab.delete_note(request, note)
    posted = lab.answer("Because.", to=note.id)
    assert posted is not None
    assert posted.row.status == "failed"
    assert lab.ours() == []


def test_comments_on_a_source_issue_are_redirected_to_its_merge_request(lab: Lab) -> None:
    issue = lab.lab.create_issue(PROJECT, title="The source")
    lab.world.advance(120)
    lab.follow(1, issue=issue.iid)
    lab.settle()
    lab.lab.add_note(issue, "Please hurry.", author="mira")
    lab.settle(3)
    (ours,) = lab.ours(kind="issues")
    assert "continues in !1." in ours.body


def test_notes_on_a_source_issue_without_a_merge_request_become_one_event_although_one_has_its_number(lab: Lab) -> None:
    issue = lab.lab.create_issue(PROJECT, title="The source")
    assert issue.iid == 1, "the number of the followed merge request"
    lab.run(track(lab.app(), lab.place, pr=None, issue=issue.iid))
    lab.settle()
    lab.lab.add_note(issue, "First.", author="mira")
    lab.poll()
    last = lab.lab.add_note(issue, "Second.", author="robin")
    lab.settle()
    with closing(open_database(lab.address)) as database:
        now = WorldTime(lab.world).now_ms()
        event = lease_next(database, now, 60_000, "a handler")
        assert event is not None
        assert (event.kind, event.issue_number, event.pr_number) == ("issue_followups", 1, None)
        assert [word in event.body for word in ("First.", "Second.")] == [True, True]
        ack(database, event.id, now)
        assert lease_next(database, now, 60_000, "a handler") is None
    assert lab.read("SELECT pre_pr_last_consumed_comment_id FROM issue_comment_cursors") == [(last.id,)]
    lab.lab.add_note(issue, "Third.", author="mira")
    lab.settle()
    assert lab.bodies()[-1] == "Third."


def test_commands_on_the_operations_issue_are_run_although_a_merge_request_has_its_number(lab: Lab) -> None:
    room = lab.lab.create_issue(PROJECT, title="Operations")
    lab.lab.add_note(room, "/lore pause", author="mira")
    lab.world.advance(120)
    lab.host["operations_issue"] = room.iid
    lab.settle()
    assert lab.read("SELECT COUNT(*) FROM operator_commands WHERE status = 'applied'") == [(0,)], "from before"
    lab.lab.add_note(room, "/lore pause pr=1", author="mira")
    lab.lab.add_note(room, "Talk in the room.", author="mira")
    lab.settle(3)
    assert lab.read("SELECT paused FROM tracked_prs") == [(1,)]
    (ours,) = lab.ours(kind="issues")
    assert ours.body.startswith("Paused: events of !1 ")
    assert (lab.ours(), lab.bodies()) == ([], [])
