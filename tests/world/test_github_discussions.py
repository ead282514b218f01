"""Discussions of the simulated GitHub, as GraphQL shows them.

docs/github-facts.md says which of the sources named here were read and which are memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.world.github_asking import REPO, ask, errors, get, new_forge

from tidelore_world.github import GitHubForge
from tidelore_world.world import World

OWNER, NAME = REPO.split("/")
DISCUSSIONS = """
query($owner: String!, $name: String!, $first: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    hasDiscussionsEnabled
    discussions(first: $first, after: $after, orderBy: {field: UPDATED_AT, direction: DESC}) {
      totalCount
      pageInfo { hasNextPage endCursor }
      nodes {
        id databaseId number title body author { login } authorAssociation category { name isAnswerable }
        createdAt updatedAt closed closedAt stateReason locked upvoteCount
        isAnswered answerChosenAt answer { id }
        comments(first: 50) { nodes {
          id databaseId body author { login } createdAt updatedAt deletedAt upvoteCount isAnswer
          replies(first: 50) { nodes { id databaseId body author { login } createdAt updatedAt deletedAt upvoteCount } }
        } }
      }
    }
  }
}
"""


@pytest.fixture
def world() -> World:
    return new_forge()[0]


@pytest.fixture
def forge(world: World) -> GitHubForge:
    forge: GitHubForge = world.github
    return forge


def page(forge: GitHubForge, first: int = 50, after: str | None = None) -> Any:
    data = ask(forge, DISCUSSIONS, owner=OWNER, name=NAME, first=first, after=after)
    return data["repository"]["discussions"]


def flat(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """GraphQL's rows in the shape of the truth."""
    made = []
    for row in rows:
        shown = {key: value for key, value in row.items() if key not in ("isAnswer", "authorAssociation")}
        shown["author"] = row["author"] and row["author"]["login"]
        if "category" in row:
            shown |= {"category": row["category"]["name"], "answer": row["answer"] and row["answer"]["id"]}
        for name in ("comments", "replies"):
            if name in row:
                shown[name] = flat(row[name]["nodes"])
        made.append(shown)
    return made


def test_a_discussion_shows_its_comments_replies_and_answer(world: World, forge: GitHubForge) -> None:
    """Source: the types `Discussion` and `DiscussionComment` of the public schema."""
    number = forge.create_discussion(REPO, "How?", "Tell me.", "mira", category="Q&A").number
    first = forge.comment_discussion(REPO, number, "So.", "tobias")
    reply = forge.comment_discussion(REPO, number, "Thanks.", "mira", reply_to=first.id)
    deeper = forge.comment_discussion(REPO, number, "Welcome.", "tobias", reply_to=reply.id)
    assert deeper.reply_to == first.id, "threads have one level"
    world.advance(60)
    forge.choose_answer(REPO, first.id, number, "mira")
    forge.upvote_discussion(REPO, number, 3)
    (row,) = page(forge)["nodes"]
    assert (row["isAnswered"], row["answerChosenAt"]) == (True, world.clock.iso_s())
    assert (row["upvoteCount"], row["databaseId"] is not None) == (4, True)
    (comment,) = row["comments"]["nodes"]
    assert (comment["isAnswer"], len(comment["replies"]["nodes"])) == (True, 2)
    assert flat([row]) == forge.truth_discussions(REPO)


def test_numbers_are_shared_with_issues_and_pull_requests(forge: GitHubForge) -> None:
    """Source: an address `/issues/N` of a discussion redirects to `/discussions/N` on the web: one row of numbers."""
    assert [
        forge.create_issue(REPO).number,
        forge.create_discussion(REPO).number,
        forge.create_pull(REPO).number,
    ] == [1, 2, 3]
    assert [row["number"] for row in get(forge, f"/repos/{REPO}/issues?state=all")] == [3, 1]


def test_only_some_categories_have_answers(forge: GitHubForge) -> None:
    """Source: `DiscussionCategory.isAnswerable`; `isAnswered` is null elsewhere."""
    number = forge.create_discussion(REPO, category="Ideas").number
    said = forge.comment_discussion(REPO, number)
    assert page(forge)["nodes"][0]["isAnswered"] is None
    with pytest.raises(ValueError, match="no answers"):
        forge.choose_answer(REPO, said.id, number)


def test_discussions_are_read_by_update_newest_first(world: World, forge: GitHubForge) -> None:
    """Source: `discussions(orderBy: DiscussionOrder = {field: UPDATED_AT, direction: DESC})`; there is no `since`."""
    made = []
    for _ in range(3):
        world.advance(1)
        made.append(forge.create_discussion(REPO).number)
    world.advance(1)
    forge.comment_discussion(REPO, made[0])
    first = page(forge, 2)
    assert [row["number"] for row in first["nodes"]] == [made[0], made[2]]
    assert (first["totalCount"], first["pageInfo"]["hasNextPage"]) == (3, True)
    second = page(forge, 2, first["pageInfo"]["endCursor"])
    assert [row["number"] for row in second["nodes"]] == [made[1]]


def test_edits_closing_and_locking_move_a_discussion_and_votes_do_not(world: World, forge: GitHubForge) -> None:
    """Source: unverified for votes; the others change the row itself."""
    number = forge.create_discussion(REPO).number

    def updated() -> str:
        shown: str = page(forge)["nodes"][0]["updatedAt"]
        return shown

    begin = updated()
    world.advance(60)
    forge.upvote_discussion(REPO, number)
    assert updated() == begin
    acts: tuple[Callable[[], object], ...] = (
        lambda: forge.edit_discussion(REPO, number, title="Why?", category="Ideas"),
        lambda: forge.close_discussion(REPO, number, "OUTDATED"),
        lambda: forge.lock_discussion(REPO, number),
    )
    for act in acts:
        world.advance(60)
        act()
        assert updated() == world.clock.iso_s()
    (row,) = page(forge)["nodes"]
    assert (row["title"], row["category"]["name"]) == ("Why?", "Ideas")
    assert (row["closed"], row["stateReason"], row["locked"]) == (True, "OUTDATED", True)
    forge.reopen_discussion(REPO, number)
    assert page(forge)["nodes"][0]["stateReason"] == "REOPENED"


def test_a_deleted_comment_with_replies_stays_empty_and_others_are_gone(world: World, forge: GitHubForge) -> None:
    """Source: `DiscussionComment.deletedAt`: "the time when this deleted comment was deleted"."""
    number = forge.create_discussion(REPO, category="Q&A").number
    first = forge.comment_discussion(REPO, number, "So.", "mira")
    reply = forge.comment_discussion(REPO, number, "No.", "tobias", reply_to=first.id)
    forge.choose_answer(REPO, first.id, number)
    before = page(forge)["nodes"][0]["updatedAt"]
    world.advance(60)
    forge.delete_discussion_comment(REPO, first.id)
    (row,) = page(forge)["nodes"]
    (comment,) = row["comments"]["nodes"]
    assert (comment["body"], comment["author"], comment["deletedAt"]) == ("", None, world.clock.iso_s())
    assert (row["isAnswered"], row["updatedAt"]) == (False, before)
    assert flat([row]) == forge.truth_discussions(REPO)
    forge.delete_discussion_comment(REPO, reply.id)
    assert page(forge)["nodes"][0]["comments"]["nodes"][0]["replies"]["nodes"] == []


def test_a_deleted_discussion_is_not_found(forge: GitHubForge) -> None:
    """Source: `discussion(number)` is nullable; the error is NOT_FOUND."""
    number = forge.create_discussion(REPO).number
    forge.comment_discussion(REPO, number)
    forge.delete_discussion(REPO, number)
    assert page(forge)["nodes"] == []
    query = f'{{ repository(owner: "{OWNER}", name: "{NAME}") {{ discussion(number: {number}) {{ id }} }} }}'
    data, (error,) = errors(forge, query)
    assert (data["repository"]["discussion"], error["type"]) == (None, "NOT_FOUND")


def test_switched_off_discussions_are_hidden_and_not_lost(forge: GitHubForge) -> None:
    """Source: `hasDiscussionsEnabled`; that the list is then empty, and not an error, is unverified."""
    number = forge.create_discussion(REPO).number
    forge.switch_discussions(REPO, on=False)
    shown = ask(forge, DISCUSSIONS, owner=OWNER, name=NAME, first=5)["repository"]
    assert (shown["hasDiscussionsEnabled"], shown["discussions"]["nodes"]) == (False, [])
    assert get(forge, f"/repos/{REPO}")["has_discussions"] is False
    assert forge.truth_discussions(REPO) == []
    forge.switch_discussions(REPO, on=True)
    assert [row["number"] for row in page(forge)["nodes"]] == [number]


def test_discussions_are_answered_by_mutations(forge: GitHubForge) -> None:
    """Source: `addDiscussionComment(input: {discussionId, body, replyToId})`; github/accessibility-alt-text-bot#17."""
    forge.settings.tokens["one"] = "mira"
    forge.create_discussion(REPO)
    target = forge.truth_discussions(REPO)[0]["id"]
    query = """mutation($id: ID!, $to: ID, $body: String!) {
      addDiscussionComment(input: {discussionId: $id, replyToId: $to, body: $body}) {
        comment { id body author { login } replyTo { id } } } }"""
    made = ask(forge, query, id=target, body="Hm.")["addDiscussionComment"]["comment"]
    assert (made["author"], made["replyTo"]) == ({"login": "mira"}, None)
    reply = ask(forge, query, id=target, to=made["id"], body="Ah.")["addDiscussionComment"]["comment"]
    assert reply["replyTo"] == {"id": made["id"]}
    _, (refused,) = errors(forge, query, id=target, to=reply["id"], body="Oh.")
    assert (refused["type"], refused["message"]) == (
        "UNPROCESSABLE",
        "Parent comment is already in a thread, cannot reply to it",
    )
    assert len(forge.truth_discussions(REPO)[0]["comments"][0]["replies"]) == 1
