"""Comments of issues and pull requests: new, edited, deleted, moved, and read before or after their parent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.support.deep import gate_cases

from tidelore_world.github.talking import Remark
from tidelore_world.wire import Request, Response

BODIES = "SELECT body FROM notes WHERE kind <> 'review_summary' ORDER BY kind, remote_id"
KINDS = pytest.mark.parametrize("kind", ["issue", "pull", "review"])


def begin(house: GitHubHouse) -> None:
    """Mirror issue #1 and pull request #2, each with a conversation, and a review thread."""
    forge = house.forge
    forge.create_issue(REPO, "a question", "with a text")
    forge.create_pull(REPO)
    forge.comment(REPO, 1, "first on the issue")
    forge.comment(REPO, 2, "first on the pull request")
    forge.review_comment(REPO, 2, "first on a line")
    later(house)


def later(house: GitHubHouse) -> None:
    """Let a while pass, mirror, and let a while pass."""
    house.world.advance(60)
    house.sync()
    house.world.advance(60)


def say(house: GitHubHouse, kind: str, body: str) -> int:
    """Write a comment of a kind; return its id."""
    if kind == "review":
        return house.forge.review_comment(REPO, 2, body).id
    return house.forge.comment(REPO, 1 if kind == "issue" else 2, body).id


def remark(kind: str) -> Remark:
    return "review_comment" if kind == "review" else "comment"


def delete(house: GitHubHouse, kind: str, comment_id: int) -> None:
    house.forge.delete_comment(comment_id, kind=remark(kind))


@KINDS
def test_a_new_comment_is_stored_with_the_next_run(both: GitHubHouse, kind: str) -> None:
    begin(both)
    say(both, kind, "said later")
    later(both)
    assert "said later" in both.column(BODIES)
    assert both.differences() == []


@KINDS
def test_an_edited_comment_is_one_row_with_the_new_text(both: GitHubHouse, kind: str) -> None:
    begin(both)
    comment_id = say(both, kind, "as written")
    later(both)
    both.forge.edit_comment(comment_id, "as edited", kind=remark(kind))
    later(both)
    assert "as edited" in both.column(BODIES)
    assert "as written" not in both.column(BODIES)
    assert both.differences() == []


@KINDS
@pytest.mark.parametrize("moves", [False, True])
@gate_cases(3)
def test_a_deleted_comment_is_removed_with_its_payload(both: GitHubHouse, kind: str, *, moves: bool) -> None:
    both.forge.settings.deletions_move_the_parent = moves
    begin(both)
    comment_id = say(both, kind, "said too soon")
    later(both)
    delete(both, kind, comment_id)
    both.verify()
    assert both.differences() == []
    assert "said too soon" not in both.column(BODIES)
    held = both.rows("SELECT COUNT(*) FROM raw_payloads WHERE resource_type = 'note'")
    assert held == both.rows("SELECT COUNT(*) FROM notes WHERE raw_payload_id IS NOT NULL")


@pytest.mark.parametrize("kind", ["issue", "pull"])
def test_a_deletion_that_changes_the_count_is_found_as_soon_as_the_parent_moves(house: GitHubHouse, kind: str) -> None:
    begin(house)
    gone = say(house, kind, "said too soon")
    later(house)
    delete(house, kind, gone)
    house.forge.edit_thread(REPO, 1 if kind == "issue" else 2, title="another title")
    later(house)
    assert "said too soon" not in house.column(BODIES)
    assert house.differences() == []


@KINDS
@gate_cases(1)
def test_a_comment_deleted_while_another_one_is_written_is_removed_though_the_count_is_equal(
    both: GitHubHouse, kind: str
) -> None:
    begin(both)
    gone = say(both, kind, "said too soon")
    later(both)
    delete(both, kind, gone)
    say(both, kind, "said instead")
    later(both)
    assert "said instead" in both.column(BODIES)
    both.verify()
    assert both.differences() == []


def test_an_answer_stays_in_its_thread_when_the_comment_it_answers_is_deleted(both: GitHubHouse) -> None:
    begin(both)
    root = say(both, "review", "the root")
    both.forge.review_comment(REPO, 2, "an answer", in_reply_to=root)
    later(both)
    delete(both, "review", root)
    both.verify()
    both.forge.review_comment(REPO, 2, "a late answer", in_reply_to=last_review_comment(both))
    later(both)
    both.verify()
    assert both.differences() == []
    threads = both.rows(
        "SELECT n.discussion_id, COUNT(*) FROM notes n WHERE n.body IN ('an answer', 'a late answer')"
        " GROUP BY n.discussion_id"
    )
    assert [count for _, count in threads] == [2]


def last_review_comment(house: GitHubHouse) -> int:
    number: int = house.forge.truth_review_comments(REPO, 2)[-1]["id"]
    return number


def test_an_answer_that_is_the_first_thing_seen_of_its_thread_is_stored(house: GitHubHouse) -> None:
    begin(house)
    root = say(house, "review", "never seen here")
    house.forge.review_comment(REPO, 2, "an answer", in_reply_to=root)
    delete(house, "review", root)
    later(house)
    house.verify()
    assert "an answer" in house.column(BODIES)
    assert house.differences() == []


class BetweenTwoLists:
    """Lets something happen just before the first request of one list is answered."""

    def __init__(self, house: GitHubHouse, path: str, happen: Callable[[], object]) -> None:
        self._path = path
        self._happen: Callable[[], object] | None = happen
        self._handle = house.world.handle
        house.world.handle = self  # type: ignore[method-assign]

    def __call__(self, request: Request) -> Response:
        if request.path.endswith(self._path) and self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        return self._handle(request)


@pytest.mark.parametrize("opens", ["issue", "pull"])
def test_a_comment_of_an_item_opened_between_two_lists_is_stored_with_its_parent(both: GitHubHouse, opens: str) -> None:
    begin(both)

    def happen() -> None:
        forge = both.forge
        number = (forge.create_issue(REPO, "just now") if opens == "issue" else forge.create_pull(REPO)).number
        forge.comment(REPO, number, "on what nobody has seen")

    BetweenTwoLists(both, "/issues/comments", happen)
    both.sync()
    assert "on what nobody has seen" in both.column(BODIES)
    later(both)
    assert both.differences() == []


def test_a_pull_request_opened_between_its_list_and_the_list_of_issues_is_stored(both: GitHubHouse) -> None:
    begin(both)
    BetweenTwoLists(both, "/issues", lambda: both.forge.create_pull(REPO, "just now"))
    both.sync()
    assert "just now" in both.column("SELECT title FROM merge_requests")
    later(both)
    assert both.differences() == []


def test_a_review_comment_of_a_pull_request_opened_between_two_lists_is_stored(house: GitHubHouse) -> None:
    begin(house)

    def happen() -> None:
        house.forge.review_comment(REPO, house.forge.create_pull(REPO).number, "on what nobody has seen")

    BetweenTwoLists(house, "/pulls/comments", happen)
    house.sync()
    assert "on what nobody has seen" in house.column(BODIES)
    later(house)
    assert house.differences() == []


@pytest.mark.parametrize("leaves", ["deleted", "transferred"])
def test_a_comment_of_an_issue_that_left_between_two_lists_does_not_fail_the_run(
    both: GitHubHouse, leaves: str
) -> None:
    forge = both.forge
    begin(both)
    forge.create_repo("octo/elsewhere")
    number = forge.create_issue(REPO, "about to leave").number
    forge.comment(REPO, number, "said before it left")

    def happen() -> None:
        if leaves == "deleted":
            forge.delete_issue(REPO, number)
        else:
            forge.transfer_issue(REPO, number, "octo/elsewhere")

    BetweenTwoLists(both, "/issues/comments", happen)
    both.sync()
    both.verify()
    assert both.differences() == []
    assert both.rows(f"SELECT deleted_at IS NOT NULL FROM issues WHERE iid = {number}") == [(True,)]


def test_an_issue_comment_and_a_review_comment_with_one_id_are_two_rows(both: GitHubHouse) -> None:
    both.forge.hub.separate_sequences = True
    begin(both)
    ids = {
        kind: both.column(f"SELECT remote_id FROM notes WHERE kind = '{kind}_comment'") for kind in ("issue", "review")
    }
    (shared,) = set(ids["issue"]) & set(ids["review"])
    both.forge.edit_comment(shared, "the issue's, edited", kind="comment")
    later(both)
    both.forge.delete_comment(shared, kind="review_comment")
    both.verify()
    assert both.rows(
        "SELECT n.body, r.resource_type FROM notes n JOIN raw_payloads r ON r.id = n.raw_payload_id"
        f" WHERE n.remote_id = {shared} AND n.kind <> 'review_summary'"
    ) == [("the issue's, edited", "note")]
    assert both.differences() == []


def test_a_comment_edited_twice_within_one_second_has_its_last_text(house: GitHubHouse) -> None:
    begin(house)
    comment_id = say(house, "issue", "one")
    house.forge.edit_comment(comment_id, "two")
    house.sync()
    house.forge.edit_comment(comment_id, "three")
    later(house)
    assert house.differences() == []


def test_reading_the_feeds_again_changes_no_row(house: GitHubHouse) -> None:
    begin(house)
    before = house.rows("SELECT id, remote_id, kind, version_hash, discussion_id FROM notes ORDER BY id")
    house.sync(full=True)
    assert house.rows("SELECT id, remote_id, kind, version_hash, discussion_id FROM notes ORDER BY id") == before
