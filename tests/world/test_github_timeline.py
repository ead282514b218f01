"""Timelines of the simulated GitHub: what is recorded, and in which shape each entry is shown.

docs/github-facts.md says which of the sources named here were read and which are memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.world.github_asking import REPO, get, links, new_forge, send, walk

from tidelore_world.github import GitHubForge
from tidelore_world.world import World


@pytest.fixture
def world() -> World:
    return new_forge()[0]


@pytest.fixture
def forge(world: World) -> GitHubForge:
    forge: GitHubForge = world.github
    return forge


def timeline(forge: GitHubForge, number: int, token: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = get(forge, f"/repos/{REPO}/issues/{number}/timeline?per_page=100", token)
    return rows


def entry(forge: GitHubForge, number: int, event: str) -> dict[str, Any]:
    (found,) = [row for row in timeline(forge, number) if row["event"] == event]
    return found


def test_issue_events_have_the_documented_shape(forge: GitHubForge) -> None:
    """Source: content/rest/using-the-rest-api/issue-event-types.md of github/docs, "common properties"."""
    milestone = forge.create_milestone(REPO, "2026.1").number
    number = forge.create_issue(REPO, "Totals differ").number
    forge.label(REPO, number, "bug", actor="mira")
    forge.unlabel(REPO, number, "bug")
    forge.assign(REPO, number, "tobias")
    forge.unassign(REPO, number, "tobias")
    forge.set_milestone(REPO, number, milestone)
    forge.set_milestone(REPO, number, None)
    forge.edit_thread(REPO, number, title="Totals differ by a cent")
    forge.lock(REPO, number, "resolved")
    forge.unlock(REPO, number)
    forge.close(REPO, number, "mira", reason="duplicate")
    forge.reopen(REPO, number)
    names = [row["event"] for row in timeline(forge, number)]
    assert names == [
        "labeled",
        "unlabeled",
        "assigned",
        "unassigned",
        "milestoned",
        "demilestoned",
        "renamed",
        "locked",
        "unlocked",
        "closed",
        "reopened",
    ]
    labeled = entry(forge, number, "labeled")
    assert {"id", "node_id", "url", "actor", "event", "commit_id", "commit_url", "created_at"} <= set(labeled)
    assert labeled["actor"]["login"] == "mira"
    assert labeled["label"] == {"name": "bug", "color": labeled["label"]["color"]}
    assert entry(forge, number, "milestoned")["milestone"] == {"title": "2026.1"}
    assert entry(forge, number, "assigned")["assignee"]["login"] == "tobias"
    assert entry(forge, number, "renamed")["rename"] == {"from": "Totals differ", "to": "Totals differ by a cent"}
    assert entry(forge, number, "locked")["lock_reason"] == "resolved"
    assert entry(forge, number, "closed")["state_reason"] == "duplicate"


def test_labels_given_at_the_opening_are_events_too(forge: GitHubForge) -> None:
    """Source: memory; not looked up."""
    number = forge.create_issue(REPO, labels=["bug", "ledger"]).number
    assert [row["label"]["name"] for row in timeline(forge, number)] == ["bug", "ledger"]


def test_a_comment_and_a_review_look_like_themselves_with_an_event(forge: GitHubForge) -> None:
    """Source: "Properties for commented" in issue-event-types.md; github.com/octokit/routes/issues/598 for `reviewed`.

    The state of a review is in small letters here and in capitals in the list of reviews.
    """
    number = forge.create_pull(REPO).number
    forge.comment(REPO, number, "Why?", "mira")
    forge.review(REPO, number, "CHANGES_REQUESTED", "Not yet.", "tobias")
    said, reviewed = entry(forge, number, "commented"), entry(forge, number, "reviewed")
    (comment,) = get(forge, f"/repos/{REPO}/issues/{number}/comments")
    (review,) = get(forge, f"/repos/{REPO}/pulls/{number}/reviews")
    assert said == comment | {"event": "commented", "actor": comment["user"]}
    assert reviewed == review | {"event": "reviewed", "state": "changes_requested"}
    assert review["state"] == "CHANGES_REQUESTED"


def test_a_commit_has_a_sha_and_no_id(forge: GitHubForge) -> None:
    """Source: "Properties for committed" in issue-event-types.md."""
    number = forge.create_pull(REPO, "Round up").number
    sha = forge.push(REPO, number)
    commits = [row for row in timeline(forge, number) if row["event"] == "committed"]
    assert [row["sha"] for row in commits][-1] == sha
    assert all("id" not in row and {"tree", "parents", "message", "verification"} <= set(row) for row in commits)


def test_a_force_push_is_an_event_and_takes_the_old_commits_away(forge: GitHubForge) -> None:
    """Source: `head_ref_force_pushed` in issue-event-types.md; that old commits vanish is seen on the web."""
    number = forge.create_pull(REPO).number
    forge.push(REPO, number)
    sha = forge.push(REPO, number, force=True)
    assert entry(forge, number, "head_ref_force_pushed")["commit_id"] == sha
    assert [row["sha"] for row in timeline(forge, number) if row["event"] == "committed"] == [sha]


def test_a_cross_reference_has_no_id_and_shows_its_source(world: World, forge: GitHubForge) -> None:
    """Source: "Properties for cross-referenced" in issue-event-types.md: no `id`, no `node_id`, `source[issue]`."""
    number = forge.create_issue(REPO).number
    before = get(forge, f"/repos/{REPO}/issues/{number}")["updated_at"]
    world.advance(60)
    pull = forge.create_pull(REPO, body=f"Fixes #{number}.").number
    forge.comment(REPO, pull, f"As said in #{number}, twice: #{number}.")
    found = entry(forge, number, "cross-referenced")
    assert not {"id", "node_id", "url"} & set(found)
    assert found["source"]["type"] == "issue"
    assert found["source"]["issue"]["number"] == pull
    assert "pull_request" in found["source"]["issue"]
    assert found["source"]["issue"]["repository"]["full_name"] == REPO
    assert get(forge, f"/repos/{REPO}/issues/{number}")["updated_at"] == before


def test_a_deleted_comment_leaves_an_event_and_a_deleted_review_comment_none(world: World, forge: GitHubForge) -> None:
    """Source: github.com/octokit/octokit.net/pull/1818 (`comment_deleted`, undocumented). Of review comments nothing
    is documented; a setting switches them on.
    """
    number = forge.create_pull(REPO).number
    spoken, remark = forge.comment(REPO, number, author="mira"), forge.review_comment(REPO, number)
    world.advance(60)
    forge.delete_comment(spoken.id, actor="tobias")
    forge.delete_comment(remark.id)
    told = entry(forge, number, "comment_deleted")
    assert (told["actor"]["login"], told["created_at"]) == ("tobias", world.clock.iso_s())
    assert "commented" not in [row["event"] for row in timeline(forge, number)]
    forge.settings.review_deletions_in_timeline = True
    forge.delete_comment(forge.review_comment(REPO, number).id)
    assert [row["event"] for row in timeline(forge, number)].count("comment_deleted") == 2


def test_events_of_pull_requests(world: World, forge: GitHubForge) -> None:
    """Source: issue-event-types.md: `convert_to_draft` (not "converted_to_draft"), `ready_for_review`,
    `review_requested`, `review_request_removed`, `review_dismissed`, `merged`, `closed`.
    """
    number = forge.create_pull(REPO, author="mira").number
    steps: tuple[Callable[[], object], ...] = (
        lambda: forge.convert_to_draft(REPO, number),
        lambda: forge.ready_for_review(REPO, number),
        lambda: forge.request_review(REPO, number, "tobias", teams=["ledger-core"]),
        lambda: forge.cancel_review_request(REPO, number, "tobias"),
    )
    for step in steps:
        world.advance(1)
        step()
    world.advance(1)
    review = forge.review(REPO, number, "CHANGES_REQUESTED", author="tobias")
    world.advance(1)
    forge.dismiss_review(REPO, number, review.id, "Done since.")
    world.advance(1)
    forge.merge(REPO, number, "mira")
    assert [row["event"] for row in timeline(forge, number)] == [
        "committed",
        "convert_to_draft",
        "ready_for_review",
        "review_requested",
        "review_requested",
        "review_request_removed",
        "reviewed",
        "review_dismissed",
        "merged",
        "closed",
    ]
    people, team = [row for row in timeline(forge, number) if row["event"] == "review_requested"]
    assert people["requested_reviewer"]["login"] == "tobias"
    assert team["requested_team"]["slug"] == "ledger-core"
    dismissed = entry(forge, number, "review_dismissed")["dismissed_review"]
    assert dismissed == {"state": "changes_requested", "review_id": review.id, "dismissal_message": "Done since."}
    assert entry(forge, number, "merged")["commit_id"] is not None


def test_merging_closes_the_issues_a_pull_request_names(forge: GitHubForge) -> None:
    """Source: "Linking a pull request to an issue using a keyword"."""
    number = forge.create_issue(REPO).number
    pull = forge.create_pull(REPO, body=f"Resolves: #{number}").number
    assert forge.truth_closing_issues(REPO, pull) == [number]
    forge.merge(REPO, pull, "mira")
    shown = get(forge, f"/repos/{REPO}/issues/{number}")
    assert (shown["state"], shown["state_reason"], shown["closed_by"]["login"]) == ("closed", "completed", "mira")
    assert entry(forge, number, "closed")["actor"]["login"] == "mira"


def test_a_pending_review_is_in_the_timeline_of_its_author_only(forge: GitHubForge) -> None:
    """Source: "List reviews": a pending review is visible to its author alone and has no `submitted_at`."""
    forge.settings.tokens["one"] = "mira"
    number = forge.create_pull(REPO).number
    forge.review(REPO, number, "PENDING", author="mira")
    assert "reviewed" not in [row["event"] for row in timeline(forge, number)]
    assert "reviewed" in [row["event"] for row in timeline(forge, number, "one")]


def test_line_comments_can_be_switched_on(forge: GitHubForge) -> None:
    """Source: the schema `timeline-line-commented-event`; rarely seen in recorded timelines."""
    forge.settings.line_comments_in_timeline = True
    number = forge.create_pull(REPO).number
    remark = forge.review_comment(REPO, number)
    forge.review(REPO, number, "APPROVED")
    found = entry(forge, number, "line-commented")
    assert [row["id"] for row in found["comments"]] == [remark.id]


def test_a_timeline_is_paged_by_link_and_oldest_first(world: World, forge: GitHubForge) -> None:
    """Source: "List timeline events for an issue": `per_page`, `page`."""
    number = forge.create_issue(REPO).number
    for index in range(7):
        world.advance(1)
        forge.comment(REPO, number, f"{index}")
    target = f"/repos/{REPO}/issues/{number}/timeline?per_page=3"
    assert set(links(send(forge, "GET", target))) == {"next", "last"}
    rows = walk(forge, target)
    assert [row["body"] for row in rows] == [f"{index}" for index in range(7)]
    assert rows == forge.truth_timeline(REPO, number)
