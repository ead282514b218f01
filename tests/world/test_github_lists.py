"""The lists of the simulated GitHub behave as remote-facts.md says the real ones do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tidelore_world.clock import DAY_US, SECOND_US, iso_seconds, parse_iso
from tidelore_world.github import GitHubForge
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

REPO = "harborline/ledger"
ISO_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def world() -> World:
    return World(seed=3)


@pytest.fixture
def forge(world: World) -> GitHubForge:
    forge: GitHubForge = world.github
    forge.create_repo(REPO)
    return forge


def ask(forge: GitHubForge, target: str, **headers: str) -> Response:
    found = forge.route(Request.build("GET", target, headers))
    assert found is not None
    return found[1]()


def rows(response: Response) -> list[dict[str, Any]]:
    assert response.status == 200, response.body
    listed: list[dict[str, Any]] = json.loads(response.body)
    return listed


def ids(response: Response) -> list[int]:
    return [row["id"] for row in rows(response)]


def link(response: Response, rel: str) -> str | None:
    match = re.search(rf'<http://127\.0\.0\.1([^>]+)>; rel="{rel}"', response.headers.get("link", ""))
    return match and match[1]


def walk(forge: GitHubForge, target: str) -> list[int]:
    seen: list[int] = []
    following: str | None = target
    while following:
        response = ask(forge, following)
        seen += ids(response)
        following = link(response, "next")
    return seen


def test_timestamps_are_whole_seconds(world: World, forge: GitHubForge) -> None:
    world.advance(0.75)
    number = forge.create_pull(REPO).number
    forge.comment(REPO, number)
    forge.review_comment(REPO, number)
    for path in ("issues?state=all", "issues/comments", "pulls/comments", "pulls"):
        for row in rows(ask(forge, f"/repos/{REPO}/{path}")):
            assert ISO_SECONDS.fullmatch(row["created_at"])
            assert ISO_SECONDS.fullmatch(row["updated_at"])


def test_a_lower_id_edited_in_the_same_second_sorts_before_the_higher_one(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    low = forge.comment(REPO, number, "low")
    world.advance(10.2)
    high = forge.comment(REPO, number, "high")
    world.advance(0.5)
    forge.edit_comment(low.id, "low, edited")
    listed = rows(ask(forge, f"/repos/{REPO}/issues/comments?sort=updated&direction=asc"))
    assert [row["id"] for row in listed] == [low.id, high.id]
    assert listed[0]["updated_at"] == listed[1]["updated_at"]


def test_since_is_inclusive_unless_switched(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    early = forge.comment(REPO, number)
    world.advance(5)
    late = forge.comment(REPO, number)
    since = iso_seconds(early.updated_s * SECOND_US)
    for path in ("issues/comments", f"issues/{number}/comments"):
        target = f"/repos/{REPO}/{path}?since={since}"
        forge.settings.since_exclusive = False
        assert ids(ask(forge, target)) == [early.id, late.id]
        forge.settings.since_exclusive = True
        assert ids(ask(forge, target)) == [late.id]


def test_repository_wide_comment_lists_accept_since_sort_and_direction(world: World, forge: GitHubForge) -> None:
    number = forge.create_pull(REPO).number
    spoken, remarks = [], []
    for _ in range(4):
        world.advance(60)
        spoken.append(forge.comment(REPO, number).id)
        remarks.append(forge.review_comment(REPO, number).id)
    world.advance(60)
    since = world.clock.iso_s()
    for path, made in (("issues/comments", spoken), ("pulls/comments", remarks)):
        forge.edit_comment(made[1], "edited")
        target = f"/repos/{REPO}/{path}?sort=updated"
        assert ids(ask(forge, f"{target}&direction=asc")) == [made[0], made[2], made[3], made[1]]
        assert ids(ask(forge, f"{target}&direction=desc")) == [made[1], made[3], made[2], made[0]]
        assert ids(ask(forge, f"{target}&since={since}")) == [made[1]]
        assert ids(ask(forge, f"/repos/{REPO}/{path}?sort=created&direction=desc")) == made[::-1]


def test_a_threads_comments_are_in_id_order_and_support_only_since(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    made = []
    for _ in range(3):
        made.append(forge.comment(REPO, number).id)
        world.advance(30)
    since = world.clock.iso_s()
    forge.edit_comment(made[0], "edited")
    target = f"/repos/{REPO}/issues/{number}/comments"
    assert ids(ask(forge, f"{target}?sort=updated&direction=desc")) == made
    assert ids(ask(forge, f"{target}?since={since}")) == made[:1]


def test_reviews_ignore_since(world: World, forge: GitHubForge) -> None:
    number = forge.create_pull(REPO).number
    review = forge.review(REPO, number, "APPROVED", "Looks right.")
    world.advance(3600)
    response = ask(forge, f"/repos/{REPO}/pulls/{number}/reviews?since={world.clock.iso_s()}")
    assert ids(response) == [review.id]


def test_a_single_review_comment_creates_a_review_without_a_body(forge: GitHubForge) -> None:
    number = forge.create_pull(REPO).number
    remark = forge.review_comment(REPO, number)
    (review,) = rows(ask(forge, f"/repos/{REPO}/pulls/{number}/reviews"))
    assert (review["id"], review["body"], review["state"]) == (remark.review_id, "", "COMMENTED")


def test_issues_and_pull_requests_are_mixed_and_pulls_carry_pull_request(forge: GitHubForge) -> None:
    issue, pull = forge.create_issue(REPO), forge.create_pull(REPO)
    listed = {row["number"]: row for row in rows(ask(forge, f"/repos/{REPO}/issues"))}
    assert set(listed) == {issue.number, pull.number}
    assert "pull_request" not in listed[issue.number]
    assert "pull_request" in listed[pull.number]
    (shown,) = rows(ask(forge, f"/repos/{REPO}/pulls"))
    assert shown["id"] != listed[pull.number]["id"]


def test_lists_show_open_threads_by_default(world: World, forge: GitHubForge) -> None:
    opened, closed = forge.create_pull(REPO), forge.create_pull(REPO)
    world.advance(1)
    forge.close(REPO, closed.number)
    for kind in ("issues", "pulls"):
        by_state = {
            state: [row["number"] for row in rows(ask(forge, f"/repos/{REPO}/{kind}?state={state}"))]
            for state in ("open", "closed", "all")
        }
        assert by_state == {
            "open": [opened.number],
            "closed": [closed.number],
            "all": [closed.number, opened.number],
        }


def test_the_default_direction_of_pulls_depends_on_the_sort(world: World, forge: GitHubForge) -> None:
    first = forge.create_pull(REPO).number
    world.advance(1)
    second = forge.create_pull(REPO).number
    numbers = [
        [row["number"] for row in rows(ask(forge, f"/repos/{REPO}/pulls{query}"))] for query in ("", "?sort=updated")
    ]
    assert numbers == [[second, first], [first, second]]


@pytest.mark.parametrize(("asked", "given"), [("", 30), ("?per_page=7", 7), ("?per_page=500", 100)])
def test_a_page_holds_30_rows_by_default_and_100_at_most(forge: GitHubForge, asked: str, given: int) -> None:
    number = forge.create_issue(REPO).number
    for index in range(120):
        forge.comment(REPO, number, f"{index}")
    response = ask(forge, f"/repos/{REPO}/issues/{number}/comments{asked}")
    assert len(rows(response)) == given
    assert link(response, "next") is not None
    last = link(response, "last")
    assert last is not None
    assert len(rows(ask(forge, last))) == 120 % given or given
    assert link(ask(forge, last), "next") is None


def test_next_links_may_switch_to_the_repository_id_during_a_walk(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    made = [forge.comment(REPO, number, f"{index}").id for index in range(7)]
    forge.settings.numeric_links_from_page = 2
    first = ask(forge, f"/repos/{REPO}/issues/comments?per_page=2")
    assert (link(first, "next") or "").startswith(f"/repos/{REPO}/issues/comments?")
    second = ask(forge, link(first, "next") or "")
    repo_id = forge.repository(REPO).id
    assert (link(second, "next") or "").startswith(f"/repositories/{repo_id}/issues/comments?")
    assert walk(forge, f"/repos/{REPO}/issues/comments?per_page=2") == made


def test_offset_pages_shift_when_a_row_is_edited_during_a_walk(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    made = []
    for index in range(4):
        world.advance(1)
        made.append(forge.comment(REPO, number, f"{index}").id)
    world.advance(1)
    target = f"/repos/{REPO}/issues/comments?sort=updated&direction=asc&per_page=2"
    first = ask(forge, target)
    forge.edit_comment(made[0], "edited")
    second = ask(forge, link(first, "next") or "")
    assert ids(first) == made[:2]
    assert ids(second) == [made[3], made[0]], "the third comment slid into the page already read"


def test_a_deletion_during_a_walk_shifts_id_ordered_pages_silently(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    made = [forge.comment(REPO, number, f"{index}").id for index in range(4)]
    before = rows(ask(forge, f"/repos/{REPO}/issues"))[0]["updated_at"]
    world.advance(60)
    target = f"/repos/{REPO}/issues/{number}/comments?per_page=2"
    first = ask(forge, target)
    forge.delete_comment(made[0])
    second = ask(forge, f"{target}&page=2")
    assert ids(first) + ids(second) == [made[0], made[1], made[3]]
    (issue,) = rows(ask(forge, f"/repos/{REPO}/issues"))
    assert (issue["updated_at"], issue["comments"]) == (before, 3)
    assert ask(forge, f"/repos/{REPO}/issues/comments/{made[0]}").status == 404


def test_an_old_since_with_a_large_page_gives_502_and_a_smaller_page_works(world: World, forge: GitHubForge) -> None:
    forge.settings.gateway_since_days = 30
    old = iso_seconds(world.clock.now_us - 31 * DAY_US)
    fresh = iso_seconds(world.clock.now_us - DAY_US)
    target = f"/repos/{REPO}/issues/comments?sort=updated&since="
    assert ask(forge, f"{target}{old}&per_page=100").status == 502
    assert ask(forge, f"{target}{old}&per_page=30").status == 200
    assert ask(forge, f"{target}{fresh}&per_page=100").status == 200


def test_very_deep_offset_pages_are_answered_with_422(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    for index in range(9):
        forge.comment(REPO, number, f"{index}")
    forge.settings.deep_offset = 6
    target = f"/repos/{REPO}/issues/comments?per_page=2"
    assert ask(forge, f"{target}&page=4").status == 422
    assert link(ask(forge, target), "last") == f"{target}&page=3"
    assert link(ask(forge, f"{target}&page=3"), "next") is None


def test_updated_at_may_trail_created_at_by_a_second_without_an_edit(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    forge.comment(REPO, number, "As I said.", trailing=True)
    (row,) = rows(ask(forge, f"/repos/{REPO}/issues/comments"))
    assert parse_iso(row["updated_at"]) - parse_iso(row["created_at"]) == SECOND_US


def test_a_touch_changes_updated_at_and_not_the_body(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    made = forge.comment(REPO, number, "As I said.")
    world.advance(1)
    forge.touch_comment(made.id)
    (row,) = rows(ask(forge, f"/repos/{REPO}/issues/comments"))
    assert (row["updated_at"], row["body"]) == (world.clock.iso_s(), "As I said.")


def test_bots_are_of_type_bot(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    forge.comment(REPO, number, author="ci[bot]")
    forge.comment(REPO, number, author="mira-holt")
    kinds = [row["user"]["type"] for row in rows(ask(forge, f"/repos/{REPO}/issues/comments"))]
    assert kinds == ["Bot", "User"]


def test_ids_do_not_fit_into_32_bits(forge: GitHubForge) -> None:
    assert forge.create_issue(REPO).id > 2**31


def test_a_renamed_repository_redirects_by_its_numeric_address(forge: GitHubForge) -> None:
    forge.create_issue(REPO)
    assert len(rows(ask(forge, f"/repos/{REPO}/issues"))) == 1
    forge.rename_repo(REPO, "harborline/books")
    moved = ask(forge, f"/repos/{REPO}/issues?state=all")
    repo_id = forge.repository("harborline/books").id
    assert moved.status == 301
    assert moved.headers["location"] == f"http://127.0.0.1/repositories/{repo_id}/issues?state=all"
    (row,) = rows(ask(forge, f"/repositories/{repo_id}/issues?state=all"))
    assert row["repository_url"].endswith("/repos/harborline/books")


def test_a_deleted_issue_is_gone_and_a_missing_one_is_not_found(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    forge.comment(REPO, number)
    forge.delete_issue(REPO, number)
    assert ask(forge, f"/repos/{REPO}/issues/{number}").status == 410
    assert ask(forge, f"/repos/{REPO}/issues/{number + 1}").status == 404
    assert rows(ask(forge, f"/repos/{REPO}/issues/comments")) == []


@pytest.mark.deep
def test_walking_a_thread_of_ten_thousand_comments_returns_them_all(forge: GitHubForge) -> None:
    number = forge.create_pull(REPO).number
    for index in range(10_000):
        forge.comment(REPO, number, f"remark {index}")
    walked = walk(forge, f"/repos/{REPO}/issues/{number}/comments?per_page=100")
    assert walked == [row["id"] for row in forge.truth_comments(REPO, number)]


def test_a_cached_page_shows_a_later_edit(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    made = forge.comment(REPO, number, "first")
    target = f"/repos/{REPO}/issues/{number}/comments"
    assert rows(ask(forge, target))[0]["body"] == "first"
    forge.edit_comment(made.id, "second")
    assert rows(ask(forge, target))[0]["body"] == "second"
    assert rows(ask(forge, target)) == forge.truth_comments(REPO, number)


def test_both_forms_of_a_repository_url_count_as_one_route(forge: GitHubForge) -> None:
    repo_id = forge.repository(REPO).id
    names = [
        forge.route(Request.build("GET", f"{place}/issues/12/comments"))
        for place in (f"/repos/{REPO}", f"/repositories/{repo_id}")
    ]
    assert [found and found[0] for found in names] == ["GET /repos/:owner/:repo/issues/:n/comments"] * 2


def test_paths_of_other_forges_are_ignored(forge: GitHubForge) -> None:
    assert forge.route(Request.build("GET", "/api/v4/projects")) is None
    assert forge.route(Request.build("GET", "/xrpc/app.bsky.feed.getAuthorFeed")) is None
