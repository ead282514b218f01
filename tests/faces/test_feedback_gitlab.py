"""`lore feedback` and `lore poll gitlab` with a merge request, as a person or a robot uses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faces.following import Follower

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
    assert desk.robot("feedback", "reply", *where).data["answer"]["status"] == "observed"
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
    again = desk.robot("sync", "--no-embed").data["polled"]["gitlab"]
    assert (again["repos"][0]["effects"]["events"], again["commands"], again["sent"]) == (0, [], [])
