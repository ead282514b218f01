"""Issues that are gone: tombstones with nothing below them, and none while the server cannot be read."""

from __future__ import annotations

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.situations.github.test_comments import BetweenTwoLists, later
from tests.situations.github.test_features import begin, live
from tests.support.deep import gate_cases

ELSEWHERE = "octo/elsewhere"
BELOW = (
    "SELECT (SELECT COUNT(*) FROM discussions WHERE issue_id = i.id)"
    " + (SELECT COUNT(*) FROM resource_state_events WHERE issue_id = i.id)"
    " + (SELECT COUNT(*) FROM resource_label_events WHERE issue_id = i.id)"
    " + (SELECT COUNT(*) FROM issue_labels WHERE issue_id = i.id)"
    " + (SELECT COUNT(*) FROM child_sync WHERE parent_kind = 'issues' AND parent_id = i.id)"
    " + (SELECT COUNT(*) FROM documents WHERE thread_type = 'issue' AND thread_id = i.id)"
    " FROM issues i WHERE i.deleted_at IS NOT NULL"
)


@pytest.mark.parametrize("leaves", ["deleted", "transferred"])
def test_an_issue_that_left_is_a_tombstone_with_nothing_below_it(both: GitHubHouse, leaves: str) -> None:
    forge = both.forge
    begin(both)
    forge.create_repo(ELSEWHERE)
    forge.label(REPO, 2, "urgent")
    forge.close(REPO, 2)
    both.world.advance(60)
    both.sync(documents=True)
    if leaves == "deleted":
        forge.delete_issue(REPO, 2)
    else:
        forge.transfer_issue(REPO, 2, ELSEWHERE)
    both.verify()
    assert both.rows("SELECT iid, title, description FROM issues WHERE deleted_at IS NOT NULL") == [(2, "", None)]
    assert both.column(BELOW) == [0]
    assert "on issue 2" not in both.column("SELECT body FROM notes")
    assert both.differences() == []
    both.verify()
    assert live(both) == (2, 2, 6)


def test_a_timeline_that_is_not_found_while_its_issue_answers_deletes_nothing(house: GitHubHouse) -> None:
    begin(house)
    house.forge.edit_thread(REPO, 2, title="one more time")
    house.world.faults.add("status", f"GET /repos/{REPO}/issues/2/timeline", 1, status=404)
    house.world.advance(60)
    house.run()
    assert house.world.faults.fired() == 1
    assert live(house) == (3, 2, 7)
    later(house)
    assert house.differences() == []


def test_an_issue_deleted_while_its_children_are_due_is_a_tombstone_after_that_run(house: GitHubHouse) -> None:
    begin(house)
    house.forge.edit_thread(REPO, 2, title="one more time")
    house.world.advance(60)
    BetweenTwoLists(house, "/pulls/comments", lambda: house.forge.delete_issue(REPO, 2))
    house.sync()
    assert live(house)[0] == 2
    assert house.column(BELOW) == [0]


@pytest.mark.parametrize("status", [404, 410, 403, 500, 502])
@gate_cases(2)
def test_nothing_becomes_a_tombstone_while_lists_fail(both: GitHubHouse, status: int) -> None:
    begin(both)
    for path in ("issues", "pulls", "issues/comments", "pulls/comments"):
        both.world.faults.add("status", f"GET /repos/{REPO}/{path}", None, status=status)
    for _ in range(4):
        both.world.advance(3600)
        both.run(scrub_budget=100)
    assert live(both) == (3, 2, 7)
    both.world.faults.clear()
    both.forge.delete_issue(REPO, 1)
    both.verify()
    assert both.differences() == []


@pytest.mark.parametrize("status", [403, 404, 410, 500])
@gate_cases(2)
def test_nothing_becomes_a_tombstone_while_single_items_cannot_be_read(house: GitHubHouse, status: int) -> None:
    """An item is missing in the list and its own address fails: only 404 and 410 say that it is gone."""
    begin(house)
    house.forge.delete_issue(REPO, 1)
    house.world.faults.add("status", f"GET /repos/{REPO}/issues/1", None, status=status)
    for _ in range(3):
        house.world.advance(120)
        house.run(scrub_budget=100)
    assert live(house)[0] == (2 if status in (404, 410) else 3)


def test_an_issue_that_comes_back_is_live_with_all_its_comments(both: GitHubHouse) -> None:
    begin(both)
    both.world.faults.add("status", f"GET /repos/{REPO}/issues/2", None, status=404)
    repo = both.forge.repository(REPO)
    hidden = repo.thread(2)
    repo.threads.remove(hidden.id)
    both.verify()
    assert live(both)[0] == 2
    both.world.faults.clear()
    repo.threads.put(hidden)
    both.forge.comment(REPO, 2, "back again")
    later(both)
    both.verify()
    assert live(both)[0] == 3
    assert both.differences() == []


def test_a_comment_feed_does_not_bring_back_comments_of_a_deleted_issue(house: GitHubHouse) -> None:
    begin(house)
    house.forge.delete_issue(REPO, 2)
    house.verify()
    house.run(full=True)
    assert "on issue 2" not in house.column("SELECT body FROM notes")
    assert house.column(BELOW) == [0]
    assert house.differences() == []
