"""Verification compares the comments of many items by one query; what differs is read by REST, as without GraphQL."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.situations.github.house import REPO, GitHubHouse
from tests.support.deep import gate_cases

from tidelore.sources.github.batches import PullBatches

GRAPHQL = "POST /graphql"
ON_ISSUE = "GET /repos/:owner/:repo/issues/:n/comments"
ON_DIFF = "GET /repos/:owner/:repo/pulls/:n/comments"
WORDS: dict[str, Any] = {"issue_comment": "comment", "review_comment": "review_comment"}
BODIES = "SELECT body FROM notes WHERE kind <> 'review_summary' ORDER BY kind, remote_id"
ROWS = (
    "SELECT n.kind, n.remote_id, n.body, n.author_username, n.author_association, n.is_bot, n.url, n.created_at,"
    " n.updated_at, n.in_reply_to, n.review_id, n.review_state, n.position_new_line, n.position_head_sha, n.diff_hunk,"
    " n.version_hash, n.resolved, p.content_hash, d.remote_id, d.node_id, d.state_hash"
    " FROM notes n JOIN discussions d ON d.id = n.discussion_id LEFT JOIN raw_payloads p ON p.id = n.raw_payload_id"
    " ORDER BY n.kind, n.remote_id"
)


def begin(house: GitHubHouse, pulls: int = 4, issues: int = 3, threads: int = 2, comments: int = 2) -> None:
    """Mirror items with a conversation each, all settled."""
    house.forge.bulk(REPO, pulls=pulls, issues=issues, threads=threads, comments=comments)
    for number in range(1, pulls + issues + 1):
        house.forge.comment(REPO, number, f"said on {number}")
    for _ in range(2):
        house.world.advance(24 * 3600)
        house.sync()


def verify(house: GitHubHouse, budget: int = 50) -> Any:
    house.world.advance(120)
    return house.requests(lambda: house.run(walk=False, scrub_budget=budget))


@contextmanager
def one_by_one() -> Iterator[None]:
    """Let every comment be read by REST."""

    async def glance(*_: object) -> None:
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PullBatches, "glance", glance)
        yield


def test_the_comments_of_all_items_are_compared_by_a_query_for_each_kind_of_item(house: GitHubHouse) -> None:
    begin(house)
    before = house.rows(ROWS)
    spent = verify(house)
    assert (spent[GRAPHQL], spent[ON_ISSUE], spent[ON_DIFF]) == (2, 0, 0)
    assert house.rows(ROWS) == before
    ages = house.column("SELECT MIN(last_attempt_at) FROM child_sync WHERE kind IN ('comments', 'reviews', 'threads')")
    assert ages == [house.clock.now_ms()], "all of them count as verified"


def test_comments_of_copilot_are_compared_by_the_query_although_rest_names_it_differently(house: GitHubHouse) -> None:
    begin(house)
    house.forge.comment(REPO, 1, "done", author="copilot-swe-agent[bot]")
    house.forge.review_comment(REPO, 2, "rename this", author="copilot-pull-request-reviewer[bot]")
    house.forge.review(REPO, 2, body="one remark", author="copilot-pull-request-reviewer[bot]")
    for _ in range(2):
        house.world.advance(24 * 3600)
        house.sync()
    authors = house.rows(
        "SELECT DISTINCT kind, author_username, is_bot FROM notes WHERE author_username LIKE 'copilot%' ORDER BY 1"
    )
    reviewer = ("review_summary", "copilot-pull-request-reviewer[bot]", 1)
    assert [tuple(row) for row in authors] == [
        ("issue_comment", "Copilot", 1),
        ("review_comment", "Copilot", 1),
        reviewer,
    ]
    spent = verify(house)
    assert (spent[GRAPHQL], spent[ON_ISSUE], spent[ON_DIFF]) == (2, 0, 0)
    assert house.differences() == []


@pytest.mark.parametrize("kind", ["issue_comment", "review_comment"])
@pytest.mark.parametrize("change", ["edited", "deleted"])
@gate_cases(2)
def test_a_comment_changed_without_a_trace_is_found_and_only_its_list_is_read(
    both: GitHubHouse, kind: str, change: str
) -> None:
    begin(both)
    repo = both.forge.repository(REPO)
    shelf: Any = repo.comments if kind == "issue_comment" else repo.review_comments
    row = [*shelf.of(2)][-1]
    if change == "edited":
        # Its time moves, but not into the feed of this run, which is not read.
        both.forge.edit_comment(row.id, "other words", kind=WORDS[kind])
    else:
        both.forge.delete_comment(row.id, kind=WORDS[kind])
    spent = verify(both)
    # The list shows that a conversation has lost a comment, and then all comments of that item are read.
    counted = change == "deleted" and kind == "issue_comment"
    assert (spent[ON_ISSUE], spent[ON_DIFF]) == ((1, int(counted)) if kind == "issue_comment" else (0, 1))
    assert ("other words" in both.column(BODIES)) == (change == "edited")
    assert both.differences() == []


@pytest.mark.parametrize("long", ["threads", "thread", "conversation"])
def test_a_pull_request_with_more_comments_than_a_page_is_compared_to_its_end(house: GitHubHouse, long: str) -> None:
    begin(house)
    if long == "conversation":
        for place in range(60):
            house.forge.comment(REPO, 1, f"{place}")
    else:
        root = house.forge.review_comment(REPO, 1, "root").id
        for place in range(30):
            house.forge.review_comment(REPO, 1, f"{place}", in_reply_to=root if long == "thread" else None)
    for _ in range(2):
        house.world.advance(3600)
        house.sync()
    before = house.rows(ROWS)
    spent = verify(house)
    # Lists inside a list are left to REST; the others are read on.
    assert (spent[ON_ISSUE], spent[ON_DIFF]) == (0, 0 if long == "conversation" else 1)
    assert house.rows(ROWS) == before
    rows = house.forge.repository(REPO)
    shelf: Any = rows.comments if long == "conversation" else rows.review_comments
    kind = "issue_comment" if long == "conversation" else "review_comment"
    house.forge.delete_comment([*shelf.of(1)][-1].id, kind=WORDS[kind])
    verify(house)
    assert house.differences() == []


@pytest.mark.parametrize("resources", [400, 60, 25, 8, 3])
@gate_cases(3)
def test_a_partial_answer_never_deletes_a_comment(both: GitHubHouse, resources: int) -> None:
    begin(both, pulls=6)
    before = both.rows(ROWS)
    both.forge.settings.graphql_resources = resources
    verify(both, 200)
    assert both.rows(ROWS) == before


def test_a_query_that_hides_comments_deletes_nothing_because_rest_is_asked(house: GitHubHouse) -> None:
    begin(house)
    before = house.rows(ROWS)
    answer = house.world.handle

    def short(request: Any) -> Any:
        response = answer(request)
        if request.path != "/graphql":
            return response
        shown = json.loads(response.body)
        for node in shown["data"]["nodes"]:
            if "issue_comment" in node:
                node["issue_comment"]["nodes"] = []
            for thread in node.get("threads", {}).get("nodes", []):
                if "diffSide" in thread:
                    del thread["comments"]["nodes"][1:]
        return type(response)(response.status, response.headers, json.dumps(shown).encode())

    house.world.handle = short  # type: ignore[method-assign]
    spent = verify(house)
    assert (spent[ON_ISSUE], spent[ON_DIFF]) == (7, 4)
    assert house.rows(ROWS) == before


@pytest.mark.parametrize("why", ["refused", "no token", "no points", "few points"])
def test_rest_alone_verifies_comments_where_queries_are_not_to_be_had(tmp_path: Path, why: str) -> None:
    house = GitHubHouse(tmp_path, host={"token_env": "NO_TOKEN_HERE"} if why == "no token" else {})
    if why == "no token":
        house.token = None
    begin(house)
    house.forge.delete_comment(next(iter(house.forge.repository(REPO).comments.of(2))).id)
    if why == "refused":
        house.world.faults.add("status", GRAPHQL, None, status=403)
    elif why == "no points":
        house.forge.settings.graphql_limit = 0
    elif why == "few points":
        house.forge.limits.charge_points(house.token or "", 4500)
    for _ in range(4):
        spent = verify(house)
    assert "said on 2" not in house.column(BODIES)
    assert spent[ON_ISSUE] > 0
    assert spent[GRAPHQL] <= {"no token": 0, "refused": 2, "few points": 3}.get(why, 1)


SILENT = (
    *("comment", "remark", "review", "edit", "delete", "push", "resolve", "unresolve", "outdate"),
    *("edit_review", "dismiss_review", "delete_issue"),
)
"""What may happen to conversations; much of it moves nothing that a cursor shows."""


def check_both_paths(seed: int, folder: Path) -> None:
    """Let things happen, and verify two copies, each by one path: every column of every comment must be the same."""
    rng = random.Random(seed)
    (folder / "query").mkdir(parents=True)
    (folder / "one").mkdir()
    by_query = GitHubHouse(folder / "query")
    one = GitHubHouse(folder / "one", by_query.world)
    forge, world = by_query.forge, by_query.world
    forge.bulk(REPO, pulls=4, issues=2, threads=2, comments=2)
    world.advance(24 * 3600)
    for _ in range(4):
        forge.change(rng.randrange(1, 12), rng, SILENT, world.advance)
        world.advance(rng.choice((10, 3600, 24 * 3600)))
        forge.settings.graphql_resources = rng.choice((None, None, 60, 15))
        wanted: dict[str, Any] = {"walk": rng.random() < 0.5, "scrub_budget": 400}
        by_query.run(**wanted)
        with one_by_one():
            one.run(**wanted)
    forge.settings.graphql_resources = None
    by_query.verify(3)
    with one_by_one():
        one.verify(3)
    assert by_query.differences() == []
    assert by_query.rows(ROWS) == one.rows(ROWS)


@pytest.mark.parametrize("seed", range(8))
@gate_cases(2)
def test_both_paths_make_the_same_copy_of_a_random_history(tmp_path: Path, seed: int) -> None:
    check_both_paths(seed, tmp_path)


@pytest.mark.deep
def test_both_paths_make_the_same_copy_of_many_random_histories(tmp_path: Path) -> None:
    for seed in range(100, 160):
        check_both_paths(seed, tmp_path / str(seed))
