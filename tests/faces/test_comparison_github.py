"""The demo's comparison of a GitHub copy: it sees each kind of difference in each list, and only there."""

from __future__ import annotations

import pytest
from tests.faces.desk import Desk

from tidelore_world.demo.comparison import Difference
from tidelore_world.demo.killed_mirror import mirror_all, open_app
from tidelore_world.demo.truth_github import compare_github
from tidelore_world.world import World

NOTES = "UPDATE notes SET {} WHERE id = (SELECT MAX(id) FROM notes WHERE kind = '{}')"
THREAD = "(SELECT MAX(id) FROM discussions WHERE resolvable = 1)"
FALSIFIED = {
    "github_issues": (
        "UPDATE issues SET title = 'other' WHERE id = 1",
        "UPDATE issues SET state = 'other' WHERE id = 2",
        "UPDATE issues SET description = 'other' WHERE id = 3",
    ),
    "github_pull_requests": (
        "UPDATE merge_requests SET head_sha = 'other' WHERE id = 1",
        "UPDATE merge_requests SET description = 'other' WHERE id = 2",
        "UPDATE merge_requests SET draft = 1 - draft WHERE id = 3",
    ),
    "github_comments": (NOTES.format("body = 'other'", "issue_comment"),),
    "github_review_comments": (NOTES.format("author_username = 'nobody'", "review_comment"),),
    "github_reviews": (NOTES.format("review_state = 'other'", "review_summary"),),
    "github_threads": (f"UPDATE discussions SET resolved = 1 - resolved WHERE id = {THREAD}",),
    "github_files": ("UPDATE mr_file_changes SET old_path = 'other' WHERE id = (SELECT MAX(id) FROM mr_file_changes)",),
    "github_topics": ("UPDATE topics SET upvotes = upvotes + 1 WHERE id = 1",),
    "github_topic_comments": ("UPDATE topic_comments SET body = 'other' WHERE id = 1",),
    "github_state_events": ("UPDATE resource_state_events SET state = 'other' WHERE id = 1",),
    "github_timeline_events": ("UPDATE timeline_events SET action = 'other' WHERE id = 1",),
}
LOST = {
    "github_comments": "DELETE FROM notes WHERE id = (SELECT MAX(id) FROM notes WHERE kind = 'issue_comment')",
    "github_closing_issues": "DELETE FROM mr_closes_issues WHERE id = (SELECT MAX(id) FROM mr_closes_issues)",
    "github_issues": "UPDATE issues SET deleted_at = 1 WHERE id = (SELECT MAX(id) FROM issues)",
}


@pytest.fixture
def world() -> World:
    """Two repositories with something in every list."""
    world = World()
    world.github.populate(0.2)
    world.advance(86_400)
    return world


@pytest.fixture
def mirrored(desk: Desk) -> Desk:
    """A desk whose copy holds everything of GitHub."""
    mirror_all(open_app(desk.url, str(desk.db), [], repos=desk.world.github.truth_repos()))
    return desk


def _compared(desk: Desk) -> dict[str, Difference]:
    database = desk.store()
    try:
        return {found.list: found for found in compare_github(database, desk.world.github)}
    finally:
        database.close()


def _wrong(desk: Desk) -> set[str]:
    return {name for name, found in _compared(desk).items() if found.faults}


def test_a_complete_copy_of_github_has_every_kind_of_row_and_no_difference(mirrored: Desk) -> None:
    found = _compared(mirrored)
    assert all(difference.truth == difference.copy > 0 for difference in found.values()), found
    assert _wrong(mirrored) == set()


def test_a_falsified_github_row_is_a_difference_in_its_list(mirrored: Desk) -> None:
    seen: set[str] = set()
    for name, changes in FALSIFIED.items():
        for place, change in enumerate(changes, 1):
            mirrored.query(change)
            assert _compared(mirrored)[name].different == place, change
        seen.add(name)
        # Files belong to the head of their pull request, and went with it.
        assert _wrong(mirrored) - {"github_files"} == seen - {"github_files"}, name


def test_rows_lost_from_a_github_copy_are_missing(mirrored: Desk) -> None:
    for name, loss in LOST.items():
        before = _compared(mirrored)[name].missing
        mirrored.query(loss)
        assert _compared(mirrored)[name].missing == before + 1, name


def test_what_github_deleted_is_extra_until_it_is_verified(mirrored: Desk) -> None:
    forge = mirrored.world.github
    repo = forge.truth_repos()[0]
    issue = next(row for row in forge.truth_issues(repo) if "pull_request" not in row)
    forge.delete_issue(repo, issue["number"])
    assert _compared(mirrored)["github_issues"].extra == 1


def test_a_row_that_is_stored_twice_is_extra(mirrored: Desk) -> None:
    one = "(SELECT MAX(id) FROM discussions WHERE node_id IS NOT NULL)"
    other = f"(SELECT MIN(id) FROM discussions WHERE node_id IS NOT NULL AND id < {one})"
    mirrored.query(
        f"UPDATE discussions SET node_id = (SELECT node_id FROM discussions WHERE id = {one}) WHERE id = {other}"
    )
    found = _compared(mirrored)["github_threads"]
    assert (found.missing, found.extra) == (1, 1)
