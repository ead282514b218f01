"""Pull requests of the simulated GitHub: lists, files, reviews and review comments as the real ones are.

docs/github-facts.md says which of the sources named here were read and which are memory.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.github_asking import REPO, get, links, new_forge, send, status, walk

from tidelore_world.github import GitHubForge
from tidelore_world.github.files import MOST_FILES
from tidelore_world.github.records import FileChange
from tidelore_world.world import World

PULLS = f"/repos/{REPO}/pulls"
ON_THE_SINGLE_ONLY = {
    "additions",
    "changed_files",
    "comments",
    "commits",
    "deletions",
    "maintainer_can_modify",
    "mergeable",
    "merged",
    "merged_by",
    "review_comments",
}


@pytest.fixture
def world() -> World:
    return new_forge()[0]


@pytest.fixture
def forge(world: World) -> GitHubForge:
    forge: GitHubForge = world.github
    return forge


def files(forge: GitHubForge, number: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = get(forge, f"{PULLS}/{number}/files")
    return rows


def test_counts_are_shown_by_the_address_of_a_pull_request_only(forge: GitHubForge) -> None:
    """Source: the schemas `pull-request-simple` and `pull-request` of github/rest-api-description."""
    number = forge.create_pull(REPO, files=[FileChange("a.py", additions=3, deletions=1)]).number
    (listed,) = get(forge, PULLS)
    shown = get(forge, f"{PULLS}/{number}")
    assert not ON_THE_SINGLE_ONLY & set(listed)
    assert set(shown) >= ON_THE_SINGLE_ONLY | set(listed)
    assert (shown["additions"], shown["deletions"], shown["changed_files"]) == (3, 1, 1)


def test_a_pull_request_shows_its_branch_people_and_milestone(forge: GitHubForge) -> None:
    """Source: the schema `pull-request-simple`."""
    forge.create_milestone(REPO, "2026.1")
    number = forge.create_pull(REPO, branch="fix/rounding", labels=["bug"], draft=True).number
    forge.request_review(REPO, number, "tobias", teams=["ledger-core"])
    forge.assign(REPO, number, "mira")
    forge.set_milestone(REPO, number, 1)
    (row,) = get(forge, PULLS)
    assert (row["head"]["ref"], row["head"]["label"]) == ("fix/rounding", "harborline:fix/rounding")
    assert row["head"]["repo"]["full_name"] == row["base"]["repo"]["full_name"] == REPO
    assert [who["login"] for who in row["requested_reviewers"]] == ["tobias"]
    assert [team["slug"] for team in row["requested_teams"]] == ["ledger-core"]
    assert [who["login"] for who in row["assignees"]] == ["mira"]
    assert (row["draft"], row["milestone"]["title"], row["labels"][0]["name"]) == (True, "2026.1", "bug")


def test_the_head_of_a_deleted_fork_has_no_repository(forge: GitHubForge) -> None:
    """Source: `head.repo` is nullable in github/rest-api-description."""
    number = forge.create_pull(REPO, branch="fix", fork="mira").number
    head = get(forge, f"{PULLS}/{number}")["head"]
    assert (head["label"], head["repo"]["full_name"], head["repo"]["fork"]) == ("mira:fix", "mira/ledger", True)
    forge.delete_fork(REPO, number)
    head = get(forge, f"{PULLS}/{number}")["head"]
    assert (head["label"], head["repo"]) == ("mira:fix", None)


def test_whoever_reviews_is_not_asked_any_more(forge: GitHubForge) -> None:
    """Source: "Get all requested reviewers": once somebody submits a review, they are not considered requested."""
    number = forge.create_pull(REPO).number
    forge.request_review(REPO, number, "tobias", "mira")
    forge.review(REPO, number, "APPROVED", author="tobias")
    assert [who["login"] for who in get(forge, PULLS)[0]["requested_reviewers"]] == ["mira"]


def test_files_of_every_status_have_the_documented_shape(forge: GitHubForge) -> None:
    """Source: the schema `diff-entry`; `patch` is missing for binary and very large files."""
    number = forge.create_pull(
        REPO,
        files=[
            FileChange("a.py", "added", 5, 0),
            FileChange("b.png", "modified", 0, 0, binary=True),
            FileChange("c.py", "renamed", 1, 1, previous_filename="old_c.py"),
            FileChange("d.py", "removed", 0, 7),
            FileChange("e.py", "modified", 1, 1, patch="@@ -1 +1 @@\n-a\n+b"),
        ],
    ).number
    rows = {row["filename"]: row for row in files(forge, number)}
    assert list(rows) == ["a.py", "b.png", "c.py", "d.py", "e.py"]
    assert [row["status"] for row in rows.values()] == ["added", "modified", "renamed", "removed", "modified"]
    assert "patch" not in rows["b.png"]
    assert rows["c.py"]["previous_filename"] == "old_c.py"
    assert "previous_filename" not in rows["a.py"]
    assert rows["e.py"]["patch"].endswith("+b")
    assert rows["d.py"]["patch"].count("\n-") == 7
    assert rows["a.py"]["changes"] == 5
    assert all(len(row["sha"]) == 40 for row in rows.values())


def test_files_change_with_pushes(forge: GitHubForge) -> None:
    """Source: the list is the diff of the present head; a push replaces it."""
    number = forge.create_pull(REPO, files=["a.py"]).number
    before = files(forge, number)
    sha = forge.push(REPO, number, files=[FileChange("a.py", additions=1, deletions=0), "b.py"])
    after = files(forge, number)
    assert [row["filename"] for row in after] == ["a.py", "b.py"]
    assert after[0]["sha"] != before[0]["sha"]
    assert sha in after[0]["blob_url"]
    forge.push(REPO, number, force=True, files=["c.py"])
    assert [row["filename"] for row in files(forge, number)] == ["c.py"]
    assert files(forge, number) == forge.truth_files(REPO, number)


def test_at_most_3000_files_are_shown(forge: GitHubForge) -> None:
    """Source: "List pull requests files": "Responses include a maximum of 3000 files"."""
    number = forge.create_pull(REPO, files=[f"f{index:05}.py" for index in range(MOST_FILES + 20)]).number
    rows = walk(forge, f"{PULLS}/{number}/files?per_page=100")
    assert len(rows) == MOST_FILES
    assert get(forge, f"{PULLS}/{number}")["changed_files"] == MOST_FILES + 20
    assert set(links(send(forge, "GET", f"{PULLS}/{number}/files?per_page=100"))) == {"next", "last"}


def test_a_pending_review_and_its_comments_are_visible_to_their_author_only(world: World, forge: GitHubForge) -> None:
    """Source: "Create a review for a pull request": PENDING has no `submitted_at`; only its author sees it."""
    forge.settings.tokens |= {"one": "mira", "two": "tobias"}
    number = forge.create_pull(REPO).number
    before = get(forge, f"{PULLS}/{number}")["updated_at"]
    world.advance(60)
    review = forge.review(REPO, number, "PENDING", "Wait.", "mira")
    remark = forge.review_comment(REPO, number, author="mira", review_id=review.id)
    for target in (f"{PULLS}/{number}/reviews", f"{PULLS}/{number}/comments", f"{PULLS}/comments"):
        assert get(forge, target, "two") == []
        assert len(get(forge, target, "one")) == 1
    assert "submitted_at" not in get(forge, f"{PULLS}/{number}/reviews", "one")[0]
    assert status(forge, f"{PULLS}/{number}/reviews/{review.id}", "two") == 404
    shown = get(forge, f"{PULLS}/{number}")
    assert (shown["updated_at"], shown["review_comments"]) == (before, 0)
    assert forge.truth_reviews(REPO, number) == forge.truth_review_comments(REPO) == []
    world.advance(60)
    drafted_at = get(forge, f"{PULLS}/{number}/comments", "one")[0]["created_at"]
    forge.submit_review(REPO, number, review.id, "CHANGES_REQUESTED")
    (row,) = get(forge, f"{PULLS}/{number}/comments", "two")
    assert (row["id"], row["created_at"], row["updated_at"]) == (remark.id, drafted_at, world.clock.iso_s())
    assert row["created_at"] < row["updated_at"]
    (row,) = get(forge, f"{PULLS}/{number}/reviews", "two")
    assert (row["state"], row["submitted_at"]) == ("CHANGES_REQUESTED", world.clock.iso_s())
    assert get(forge, f"{PULLS}/{number}")["review_comments"] == 1


def test_a_dismissed_review_keeps_its_time_and_moves_the_pull_request(world: World, forge: GitHubForge) -> None:
    """Source: "Dismiss a review for a pull request"."""
    number = forge.create_pull(REPO).number
    review = forge.review(REPO, number, "CHANGES_REQUESTED", "No.")
    (before,) = get(forge, f"{PULLS}/{number}/reviews")
    world.advance(60)
    forge.dismiss_review(REPO, number, review.id)
    (after,) = get(forge, f"{PULLS}/{number}/reviews")
    assert after == before | {"state": "DISMISSED"}
    assert get(forge, f"{PULLS}/{number}")["updated_at"] == world.clock.iso_s()


def test_a_review_comment_spans_lines_or_a_whole_file(forge: GitHubForge) -> None:
    """Source: the schema `pull-request-review-comment`: `start_line`, `side`, `subject_type` line or file."""
    number = forge.create_pull(REPO).number
    forge.review_comment(REPO, number, path="a.py", line=12, start_line=10, side="LEFT")
    forge.review_comment(REPO, number, path="b.py", subject="file")
    lines, whole = get(forge, f"{PULLS}/{number}/comments")
    assert (lines["start_line"], lines["line"], lines["original_start_line"]) == (10, 12, 10)
    assert (lines["side"], lines["start_side"], lines["subject_type"]) == ("LEFT", "LEFT", "line")
    assert lines["diff_hunk"].startswith("@@ -10,3")
    assert (whole["line"], whole["position"], whole["subject_type"]) == (None, None, "file")


def test_an_outdated_review_comment_loses_its_place_and_keeps_the_original(world: World, forge: GitHubForge) -> None:
    """Source: `line`, `start_line` and `position` are null for outdated comments; `original_*` stay.

    Nothing moves: neither the comment's nor (beyond the push itself) the pull request's `updated_at`.
    """
    number = forge.create_pull(REPO, files=["a.py", "b.py"]).number
    remark = forge.review_comment(REPO, number, path="a.py", line=12, start_line=10)
    forge.review_comment(REPO, number, path="b.py", line=3)
    before = get(forge, f"{PULLS}/comments/{remark.id}")
    world.advance(60)
    sha = forge.push(REPO, number, files=["a.py"])
    outdated, fresh = get(forge, f"{PULLS}/{number}/comments")
    gone = {"line": None, "start_line": None, "position": None}
    assert outdated == before | gone
    assert (outdated["original_line"], outdated["commit_id"]) == (12, before["commit_id"])
    assert (fresh["line"], fresh["commit_id"], fresh["original_commit_id"]) == (3, sha, before["original_commit_id"])


def test_the_commit_of_a_review_comment_follows_the_head(world: World, forge: GitHubForge) -> None:
    """Source: github.com/ProspectOre/matic-home-assistant/pull/62: the current pointer moves, the original stays."""
    number = forge.create_pull(REPO).number
    remark = forge.review_comment(REPO, number)
    before = get(forge, f"{PULLS}/comments/{remark.id}")
    world.advance(60)
    sha = forge.push(REPO, number)
    assert get(forge, f"{PULLS}/comments/{remark.id}") == before | {"commit_id": sha}
    forge.settings.comments_follow_head = False
    forge.push(REPO, number)
    assert get(forge, f"{PULLS}/comments/{remark.id}")["commit_id"] == sha


def test_answers_keep_their_reference_when_the_first_comment_is_deleted(forge: GitHubForge) -> None:
    """Source: threads are flat, every answer names the first comment; that it may be gone is unverified."""
    number = forge.create_pull(REPO).number
    first = forge.review_comment(REPO, number, path="a.py", line=4)
    answer = forge.review_comment(REPO, number, "Done.", in_reply_to=first.id)
    forge.delete_comment(first.id)
    (row,) = get(forge, f"{PULLS}/{number}/comments")
    assert (row["id"], row["in_reply_to_id"], row["path"]) == (answer.id, first.id, "a.py")
    (thread,) = forge.truth_threads(REPO, number)
    assert thread["comments"] == [answer.id]
    forge.delete_comment(answer.id)
    assert forge.truth_threads(REPO, number) == []


def test_resolving_a_thread_moves_nothing(world: World, forge: GitHubForge) -> None:
    """Source: `PullRequestReviewThread` has no time, and REST shows no resolution at all."""
    number = forge.create_pull(REPO).number
    remark = forge.review_comment(REPO, number)
    targets = (f"{PULLS}/{number}", f"{PULLS}/{number}/comments", f"/repos/{REPO}/issues/{number}/timeline")
    before = [get(forge, target) for target in targets]
    world.advance(60)
    forge.resolve_thread(REPO, forge.thread_of(REPO, remark.id).id, "mira")
    assert [get(forge, target) for target in targets] == before
    assert forge.truth_threads(REPO, number)[0]["resolvedBy"] == "mira"
