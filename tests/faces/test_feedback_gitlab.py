"""`lore feedback` and `lore poll gitlab` with a merge request, as a person or a robot uses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faces.following import Follower
from tests.faces.test_documented_shapes import compare

from tidelore.core.clock import SystemClock
from tidelore_world.server import serve
from tidelore_world.world import World

PROJECT = "harbor/cranes"


@pytest.fixture
def desk(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Follower]:
    world = World()
    world.advance(SystemClock().now_ms() / 1000 - world.clock.now_us / 1_000_000)
    world.gitlab.create_project(PROJECT)
    world.gitlab.set_member(PROJECT, "mira", 40)
    world.gitlab.create_merge_request(PROJECT, title="Rename the crane", author="robin")
    with serve(world) as server:
        made = Follower(tmp_path, server.url, world, capfd.readouterr, {"GITLAB_TOKEN": "a-token-of-the-tests"})
        made.config.write_text(
            f'[[gitlab]]\nbase_url = "{server.url}"\nprojects = ["{PROJECT}"]\nwrite_interval_seconds = 0\n'
            "[http]\nmax_retries = 0\n"
        )
        yield made


def test_a_note_is_taken_answered_and_acknowledged(desk: Follower) -> None:
    request = desk.world.gitlab.merge_request(PROJECT, 1)
    tracked = desk.robot("feedback", "track", "--repo", PROJECT, "--pr", "1").data
    assert tracked["pull"]["status"] == "awaiting_feedback"
    note = desk.world.gitlab.add_note(request, "Why?", author="mira", thread=True)
    polled = desk.robot("poll", "gitlab").data
    assert polled["repos"][0]["effects"]["events"] == 1
    event = desk.robot("feedback", "next", "--pr", f"{PROJECT}!1").data["event"]
    assert (event["kind"], event["comment_id"], event["pr_number"]) == ("note", note.id, 1)
    body = desk.folder / "body.md"
    body.write_text("Because.")
    where = ("--repo", "cranes", "--pr", "1", "--to", str(note.id), "--body-file", str(body))
    answer = desk.robot("feedback", "reply", *where).data["answer"]
    assert (answer["status"], answer["thread"]) == ("observed", f"{PROJECT}!1")
    assert [found.body.partition("\n")[0] for found in desk.world.gitlab.note(request, note)[0].notes] == [
        "Why?",
        "Because.",
    ]
    assert desk.robot("feedback", "ack", str(event["id"])).data["event"]["processed_at"]
    shown = desk.robot("feedback", "show", "--pr", "1").data
    assert (shown["events"], shown["processed"], len(shown["answers"])) == (1, 1, 1)
    assert desk.robot("feedback", "list").data["total"] == 1


def test_a_dry_run_says_which_projects_would_be_read(desk: Follower) -> None:
    plan = desk.robot("poll", "gitlab", "--dry-run").data
    assert [one["repo"] for one in plan["repos"]] == [PROJECT]


def test_sync_derives_events_of_gitlab_and_answers_commands_where_feedback_is_configured(desk: Follower) -> None:
    assert desk.robot("feedback", "track", "--repo", PROJECT, "--pr", "1").code == 0
    request = desk.world.gitlab.merge_request(PROJECT, 1)
    desk.world.gitlab.add_note(request, "Why?", author="mira")
    desk.config.write_text(desk.config.read_text().replace("[http]", 'operator_logins = ["mira"]\n[http]'))
    desk.world.gitlab.add_note(request, "/lore status", author="mira")
    done = desk.robot("sync", "--no-embed").data["polled"]["gitlab"]
    assert (done["repos"][0]["effects"]["events"], [one["status"] for one in done["commands"]]) == (1, ["applied"])
    assert [one["status"] for one in done["sent"]] == ["observed"]
    assert {one["thread"] for one in (*done["commands"], *done["sent"])} == {f"{PROJECT}!1"}
    again = desk.robot("sync", "--no-embed").data["polled"]["gitlab"]
    assert (again["repos"][0]["effects"]["events"], again["commands"], again["sent"]) == (0, [], [])


def follow(desk: Follower) -> None:
    """Merge request 1 is tracked, and a note on it is an event."""
    assert desk.robot("feedback", "track", "--repo", PROJECT, "--pr", "1").code == 0
    desk.world.gitlab.add_note(desk.world.gitlab.merge_request(PROJECT, 1), "Why?", author="mira")
    assert desk.robot("poll", "gitlab").data["repos"][0]["effects"]["events"] == 1


def test_an_audit_finds_and_repairs_a_note_without_an_event(desk: Follower) -> None:
    # The issue has the number of the merge request, and says nothing about it.
    desk.world.gitlab.add_note(desk.world.gitlab.create_issue(PROJECT), "Elsewhere.", author="mira")
    assert desk.robot("poll", "gitlab").code == 0
    assert desk.robot("audit", "gitlab").data["events"] is None, "nothing is tracked"
    # What GitLab writes in her name is not said by her.
    desk.world.gitlab.edit_merge_request(PROJECT, 1, title="Rename it again", by="mira")
    follow(desk)
    fine = desk.robot("audit", "gitlab").data
    (surface,) = fine["events"]["threads"][0]["surfaces"]
    assert (surface["surface"], surface["qualifying"], surface["missing"]) == ("mr_notes", 1, 0)
    desk.query("DELETE FROM feedback_events")
    lost = desk.robot("audit", "gitlab")
    assert (lost.code, lost.document["error"]["code"]) == (8, "INTEGRITY")
    assert "lore audit gitlab --repair" in lost.document["error"]["fix"]
    assert [line.split()[1] for line in desk.run("audit", "gitlab").out.splitlines() if line.startswith("missing")] == [
        f"{PROJECT}!1"
    ]
    mended = desk.robot("audit", "gitlab", "--repair").data
    assert mended["events"]["repair"] == {"found": 1, "mended": 1}
    assert desk.query("SELECT body FROM feedback_events") == [("Why?",)]
    compare("audit", fine, lost.document["data"], mended)


def test_a_rejected_event_is_handed_out_again_and_blocks_in_the_end(desk: Follower) -> None:
    desk.config.write_text(
        desk.config.read_text().replace("[http]", "handler_backoff_seconds = 0\nhandler_max_attempts = 2\n[http]")
    )
    follow(desk)
    for attempt in (1, 2):
        event = desk.robot("feedback", "next", "--pr", f"{PROJECT}!1").data["event"]
        rejected = desk.robot("feedback", "nack", str(event["id"]), "--error", "cannot answer that").data["event"]
        assert (rejected["attempts"], rejected["last_error"]) == (attempt, "cannot answer that")
    shown = desk.robot("feedback", "show", "--pr", "1").data
    assert shown["pull"]["status"] == "blocked"
    assert f"{PROJECT}!1" in desk.run("feedback", "blocked", "list").out


def test_a_closed_merge_request_is_resumed_when_it_was_reopened(desk: Follower) -> None:
    follow(desk)
    gitlab = desk.world.gitlab
    assert desk.robot("feedback", "resume", "--pr", "1").document["error"]["message"].startswith(f"{PROJECT}!1 is ")
    gitlab.close_merge_request(PROJECT, 1, by="mira")
    assert desk.robot("poll", "gitlab").data["repos"][0]["moved"] == [
        "!1 awaiting_feedback -> closed (closed on the remote)"
    ]
    refused = desk.robot("feedback", "resume", "--pr", "1")
    assert (refused.code, refused.document["error"]["message"]) == (2, f"{PROJECT}!1 is closed")
    gitlab.add_note(gitlab.merge_request(PROJECT, 1), "While it was closed.", author="mira")
    gitlab.reopen_merge_request(PROJECT, 1, by="mira")
    resumed = desk.robot("feedback", "resume", "--pr", "1").data
    assert resumed["pull"]["status"] == "awaiting_feedback"
    gitlab.add_note(gitlab.merge_request(PROJECT, 1), "Go on.", author="mira")
    assert desk.robot("poll", "gitlab").code == 0
    assert [body for (body,) in desk.query("SELECT body FROM feedback_events ORDER BY id")] == [
        "Why?",
        "While it was closed.",
        "Go on.",
    ]
    gitlab.merge_merge_request(PROJECT, 1, by="mira")
    assert desk.robot("poll", "gitlab").code == 0
    ended = desk.robot("feedback", "resume", "--pr", "1")
    assert (ended.code, ended.document["error"]["message"]) == (2, f"{PROJECT}!1 is merged")


def test_a_full_poll_reads_every_tracked_thread_from_the_beginning(desk: Follower) -> None:
    follow(desk)
    desk.query("DELETE FROM discussions")
    assert desk.robot("poll", "gitlab").data["repos"][0]["effects"]["events"] == 0
    assert desk.query("SELECT COUNT(*) FROM notes") == [(0,)]
    full = desk.robot("poll", "gitlab", "--full").data["repos"][0]
    assert (full["effects"]["events"], full["failures"]) == (0, []), "its event is stored already"
    assert desk.query("SELECT body FROM notes WHERE is_system = 0") == [("Why?",)]


def test_retry_in_a_note_names_merge_requests_and_issues_as_gitlab_does(desk: Follower) -> None:
    desk.config.write_text(desk.config.read_text().replace("[http]", 'operator_logins = ["mira"]\n[http]'))
    issue = desk.world.gitlab.create_issue(PROJECT)
    desk.world.gitlab.create_merge_request(PROJECT, author="robin")
    assert desk.robot("feedback", "track", "--repo", PROJECT, "--pr", "2", "--issue", str(issue.iid)).code == 0
    request = desk.world.gitlab.merge_request(PROJECT, 2)
    desk.world.gitlab.add_note(request, f"/lore retry issue={issue.iid}", author="mira")
    (done,) = desk.robot("poll", "gitlab").data["commands"]
    assert done["status"] == "applied"
    assert "pending events of #1, !2 are delivered" in [n for home in request.discussions for n in home.notes][-1].body
