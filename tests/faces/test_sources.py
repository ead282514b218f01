"""`lore sources`: hosts and projects with their ids, and the repository that took over a name."""

from __future__ import annotations

import pytest
from tests.faces.following import OTHER, OWNER, REPO, TOKEN, Follower, failed
from tests.faces.test_documented_shapes import compare

RENAMED = "harborline/books"


@pytest.fixture
def replaced(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> Follower:
    """A repository that was read and renamed, and another one with its name and a pull request of the same number."""
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    follower.say("Before.")
    follower.track()
    follower.poll()
    github = follower.forge
    github.rename_repo(REPO, RENAMED)
    github.create_repo(REPO)
    github.create_pull(REPO, "A pull request of another repository", author=OWNER)
    follower.say("In the other one.")
    return follower


def ids(desk: Follower) -> tuple[int, int]:
    """The ids of the renamed repository and of the one that took its name."""
    github = desk.world.github
    return github.repository(RENAMED).id, github.repository(REPO).id


def test_sources_lists_configured_projects_with_their_ids_before_and_after_they_are_read(follower: Follower) -> None:
    follower.settle(REPO, OTHER)
    before = follower.robot("sources").data
    assert [(item["configured"], item["remote_id"]) for item in before["items"]] == [(OTHER, None), (REPO, None)]
    follower.track("--repo", REPO)
    after = follower.robot("sources").data
    compare("sources", before, after)
    assert {item["configured"]: item["remote_id"] for item in after["items"]} == {
        OTHER: None,
        REPO: follower.world.github.repository(REPO).id,
    }
    assert "not read yet" in follower.run("sources").out


def test_a_replaced_repository_is_refused_by_every_command_that_asks_for_it(replaced: Follower) -> None:
    failed(replaced.robot("poll", "github"), 1, "REPOSITORY_REPLACED")
    failed(replaced.answer("Done."), 1, "REPOSITORY_REPLACED")
    failed(replaced.robot("feedback", "track", "--pr", "1"), 1, "REPOSITORY_REPLACED")
    failed(replaced.robot("audit", "github"), 1, "REPOSITORY_REPLACED")
    assert replaced.ours() == replaced.ours(RENAMED) == []
    assert replaced.query("SELECT body FROM feedback_events") == [("Before.",)]


def test_doctor_names_a_replaced_repository_also_after_its_rename_was_learnt(follower: Follower) -> None:
    follower.track()
    follower.forge.rename_repo(REPO, RENAMED)
    follower.poll()
    assert follower.robot("doctor").code == 0
    follower.forge.create_repo(REPO)
    error = failed(follower.robot("doctor"), 1, "REPOSITORY_REPLACED")
    assert f"lore sources accept github {REPO}" in error["fix"]
    assert f"to {RENAMED};" in error["fix"]
    assert error["message"].endswith(", which had that name before, is still followed")


def test_an_accepted_repository_is_followed_from_its_beginning_and_the_former_one_is_kept(replaced: Follower) -> None:
    old, new = ids(replaced)
    done = replaced.robot("sources", "accept", "github", REPO)
    assert done.data["remote_id"] == new
    assert done.data["former"] == {"path": RENAMED, "remote_id": old}
    again = replaced.robot("sources", "accept", "github", REPO)
    assert again.data["former"] is None
    compare("sources accept", done.data, again.data)
    assert "nothing to accept" in replaced.run("sources", "accept", "github", "ledger").out
    replaced.track()
    replaced.poll()
    assert replaced.query("SELECT body, repo_full_name FROM feedback_events ORDER BY id") == [
        ("Before.", RENAMED),
        ("In the other one.", REPO),
    ]
    assert replaced.answer("Done.").code == 0
    assert (len(replaced.ours()), len(replaced.ours(RENAMED))) == (1, 0)
    assert replaced.run("check").code == 0


def test_the_former_repository_is_followed_on_once_its_new_name_is_configured(replaced: Follower) -> None:
    replaced.run("sources", "accept", "github", REPO)
    replaced.settle(RENAMED, REPO)
    replaced.say("In the renamed one.", repo=RENAMED)
    replaced.poll()
    assert ("In the renamed one.", RENAMED) in replaced.query("SELECT body, repo_full_name FROM feedback_events")


def test_a_former_repository_that_is_gone_is_kept_under_its_number(replaced: Follower) -> None:
    old, _ = ids(replaced)
    replaced.world.faults.add("status", f"GET /repositories/{old}", None, status=404)
    assert replaced.robot("sources", "accept", "github", REPO).data["former"]["path"] == f"{REPO}@{old}"


def test_accepting_in_an_unknown_host_or_repository_is_not_found(follower: Follower) -> None:
    failed(follower.robot("sources", "accept", "gitlab", REPO), 6, "NOT_FOUND")
    failed(follower.robot("sources", "accept", "github", "nobody/nothing"), 6, "NOT_FOUND")


def test_the_same_token_key_after_a_rename_posts_once(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    follower.track()
    assert follower.answer("Done.", "--token-key", "event-1").code == 0
    follower.forge.rename_repo(REPO, RENAMED)
    assert follower.answer("Done.", "--token-key", "event-1").code == 0
    follower.settle(RENAMED)
    assert follower.answer("Done.", "--token-key", "event-1").code == 0
    assert len(follower.ours(RENAMED)) == 1
