"""ETags, rate limits, writes, commits, faults and the populated past of the simulated GitHub."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from tidelore_world.clock import SECOND_US, parse_iso
from tidelore_world.faults import SimulatedTimeout
from tidelore_world.github import GitHubForge
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

REPO = "harborline/ledger"
TOKEN = {"authorization": "Bearer one"}


@pytest.fixture
def world() -> World:
    return World(seed=3)


@pytest.fixture
def forge(world: World) -> GitHubForge:
    forge: GitHubForge = world.github
    forge.create_repo(REPO)
    return forge


def send(
    forge: GitHubForge, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
) -> Response:
    content = b"" if body is None else json.dumps(body).encode()
    found = forge.route(Request.build(method, target, headers, content))
    assert found is not None
    return found[1]()


def get(forge: GitHubForge, target: str, headers: dict[str, str] | None = None) -> Response:
    return send(forge, "GET", target, headers=headers)


def remaining(response: Response) -> int:
    return int(response.headers["x-ratelimit-remaining"])


def test_a_304_with_a_token_costs_no_primary_rate_limit(forge: GitHubForge) -> None:
    target = f"/repos/{REPO}/issues/comments"
    first = get(forge, target, TOKEN)
    conditional = {"if-none-match": first.headers["etag"]}
    second = get(forge, target, TOKEN | conditional)
    assert (second.status, second.body) == (304, b"")
    assert remaining(second) == remaining(first)
    anonymous = get(forge, target)
    charged = get(forge, target, {"if-none-match": anonymous.headers["etag"]})
    assert (charged.status, remaining(charged)) == (304, remaining(anonymous) - 1)


def test_an_etag_belongs_to_the_full_url(forge: GitHubForge) -> None:
    target = f"/repos/{REPO}/issues/comments"
    etag = get(forge, f"{target}?page=1", TOKEN).headers["etag"]
    assert get(forge, f"{target}?page=2", TOKEN | {"if-none-match": etag}).status == 200
    assert get(forge, f"{target}?page=1", TOKEN | {"if-none-match": etag}).status == 304


def test_the_etag_of_a_full_page_does_not_change_with_the_next_page(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    for index in range(2):
        forge.comment(REPO, number, f"{index}")
    target = f"/repos/{REPO}/issues/{number}/comments?per_page=2"
    etag = get(forge, target, TOKEN).headers["etag"]
    forge.comment(REPO, number, "on page two")
    assert get(forge, target, TOKEN | {"if-none-match": etag}).status == 304


def test_a_change_on_the_page_changes_its_etag(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    made = forge.comment(REPO, number, "first")
    target = f"/repos/{REPO}/issues/comments"
    etag = get(forge, target, TOKEN).headers["etag"]
    forge.edit_comment(made.id, "second")
    assert get(forge, target, TOKEN | {"if-none-match": etag}).status == 200


@pytest.mark.parametrize("status", [403, 429])
def test_an_exhausted_primary_limit_refuses_until_reset(world: World, forge: GitHubForge, status: int) -> None:
    forge.settings.primary_limit, forge.settings.primary_status = 2, status
    target = f"/repos/{REPO}/issues"
    assert [remaining(get(forge, target, TOKEN)) for _ in range(2)] == [1, 0]
    refused = get(forge, target, TOKEN)
    assert (refused.status, remaining(refused)) == (status, 0)
    assert "retry-after" not in refused.headers
    reset_us = int(refused.headers["x-ratelimit-reset"]) * SECOND_US
    assert get(forge, target, {"authorization": "Bearer two"}).status == 200
    world.advance((reset_us - world.clock.now_us) / SECOND_US)
    assert get(forge, target, TOKEN).status == 200


def test_the_rate_limit_endpoint_costs_no_rate_limit(forge: GitHubForge) -> None:
    get(forge, f"/repos/{REPO}/issues", TOKEN)
    shown = [json.loads(get(forge, "/rate_limit", TOKEN).body)["rate"]["used"] for _ in range(3)]
    assert shown == [1, 1, 1]


@pytest.mark.parametrize(("status", "retry_after"), [(403, 30), (429, 5), (403, None)])
def test_a_secondary_rate_limit_applies_with_primary_budget_left(
    forge: GitHubForge, status: int, retry_after: int | None
) -> None:
    forge.limits.impose_secondary(2, retry_after, status)
    refused = [get(forge, f"/repos/{REPO}/issues", TOKEN) for _ in range(2)]
    assert [response.status for response in refused] == [status, status]
    wanted = None if retry_after is None else str(retry_after)
    assert {response.headers.get("retry-after") for response in refused} == {wanted}
    assert remaining(refused[0]) > 0
    assert get(forge, f"/repos/{REPO}/issues", TOKEN).status == 200


def test_content_creating_requests_are_limited_to_80_a_minute_and_500_an_hour(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    statuses: list[int] = []
    for _ in range(7):
        for _ in range(81):
            reply = send(forge, "POST", f"/repos/{REPO}/issues/{number}/comments", {"body": "x"}, TOKEN)
            statuses.append(reply.status)
        world.advance(61)
    assert statuses[:81] == [201] * 80 + [403]
    assert statuses.count(201) == 500
    assert reply.headers["retry-after"].isdigit()


def test_a_posted_comment_has_the_author_of_the_token(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    forge.settings.tokens["one"] = "mira-holt"
    made = send(forge, "POST", f"/repos/{REPO}/issues/{number}/comments", {"body": "Agreed."}, TOKEN)
    assert made.status == 201
    assert json.loads(made.body) == forge.truth_comments(REPO, number)[0]
    assert json.loads(made.body)["user"]["login"] == "mira-holt"
    assert json.loads(get(forge, "/user", TOKEN).body)["login"] == "mira-holt"


def test_a_reply_in_a_review_thread_refers_to_its_first_comment(forge: GitHubForge) -> None:
    number = forge.create_pull(REPO).number
    first = forge.review_comment(REPO, number, path="src/ledger.py", line=40)
    target = f"/repos/{REPO}/pulls/{number}/comments"
    one = json.loads(send(forge, "POST", f"{target}/{first.id}/replies", {"body": "Done."}).body)
    two = json.loads(send(forge, "POST", f"{target}/{one['id']}/replies", {"body": "Thanks."}).body)
    assert [row["in_reply_to_id"] for row in (one, two)] == [first.id, first.id]
    assert (two["path"], two["line"]) == ("src/ledger.py", 40)
    assert send(forge, "POST", f"{target}/999/replies", {"body": "Lost."}).status == 404


@pytest.mark.parametrize("kind", ["issues", "pulls"])
def test_comments_of_both_kinds_are_edited_and_deleted(world: World, forge: GitHubForge, kind: str) -> None:
    number = forge.create_pull(REPO).number
    made = forge.comment(REPO, number) if kind == "issues" else forge.review_comment(REPO, number)
    world.advance(5)
    target = f"/repos/{REPO}/{kind}/comments/{made.id}"
    edited = json.loads(send(forge, "PATCH", target, {"body": "Better."}).body)
    assert (edited["body"], edited["updated_at"]) == ("Better.", world.clock.iso_s())
    other = "pulls" if kind == "issues" else "issues"
    assert send(forge, "DELETE", f"/repos/{REPO}/{other}/comments/{made.id}").status == 404
    assert send(forge, "DELETE", target).status == 204
    assert get(forge, target).status == 404


@pytest.mark.parametrize(("content", "status"), [({"body": " "}, 422), ({}, 422), ([], 422)])
def test_an_empty_comment_is_refused(forge: GitHubForge, content: Any, status: int) -> None:
    number = forge.create_issue(REPO).number
    assert send(forge, "POST", f"/repos/{REPO}/issues/{number}/comments", content).status == status
    assert forge.truth_comments(REPO) == []


def test_a_post_that_timed_out_may_have_succeeded(forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    forge.settings.lost_answers = 1
    target = f"/repos/{REPO}/issues/{number}/comments"
    with pytest.raises(SimulatedTimeout):
        send(forge, "POST", target, {"body": "Did you get this?"})
    assert [row["body"] for row in forge.truth_comments(REPO, number)] == ["Did you get this?"]
    assert send(forge, "POST", target, {"body": "Again."}).status == 201


def test_bad_and_missing_tokens_are_answered_with_401(forge: GitHubForge) -> None:
    forge.settings.bad_tokens.add("one")
    assert get(forge, f"/repos/{REPO}", TOKEN).status == 401
    forge.settings.require_token = True
    assert get(forge, "/user").status == 401
    assert get(forge, f"/repos/{REPO}").status == 200


def compare(forge: GitHubForge, base: str, head: str) -> tuple[str, int, int]:
    found = json.loads(get(forge, f"/repos/{REPO}/compare/{base}...{head}").body)
    assert len(found["commits"]) == found["ahead_by"]
    return found["status"], found["ahead_by"], found["behind_by"]


def test_compare_distinguishes_a_push_from_a_force_push(forge: GitHubForge) -> None:
    pull = forge.create_pull(REPO, branch="fix/rounding")
    before = pull.require_pull().head_sha
    pushed = forge.push(REPO, pull.number, commits=2)
    assert compare(forge, before, before) == ("identical", 0, 0)
    assert compare(forge, before, pushed) == ("ahead", 2, 0)
    assert compare(forge, pushed, before) == ("behind", 0, 2)
    rewritten = forge.push(REPO, pull.number, commits=2, force=True)
    assert compare(forge, pushed, rewritten) == ("diverged", 2, 3)
    assert compare(forge, "main", "fix/rounding") == ("ahead", 2, 0)
    shown = json.loads(get(forge, f"/repos/{REPO}/pulls/{pull.number}").body)
    assert (shown["head"]["sha"], shown["commits"]) == (rewritten, 2)
    assert get(forge, f"/repos/{REPO}/compare/{'0' * 40}...main").status == 404


def test_a_merge_adds_the_branch_to_the_default_branch(world: World, forge: GitHubForge) -> None:
    pull = forge.create_pull(REPO)
    world.advance(60)
    forge.merge(REPO, pull.number, "mira-holt")
    shown = json.loads(get(forge, f"/repos/{REPO}/pulls/{pull.number}").body)
    assert (shown["state"], shown["merged"], shown["merged_at"]) == ("closed", True, world.clock.iso_s())
    assert compare(forge, pull.require_pull().head_sha, "main")[0] == "ahead"
    with pytest.raises(ValueError, match="merged"):
        forge.reopen(REPO, pull.number)


def test_a_closed_thread_can_be_reopened(forge: GitHubForge) -> None:
    pull = forge.create_pull(REPO)
    forge.close(REPO, pull.number)
    forge.reopen(REPO, pull.number)
    shown = json.loads(get(forge, f"/repos/{REPO}/issues/{pull.number}").body)
    assert (shown["state"], shown["closed_at"]) == ("open", None)


@pytest.mark.parametrize("event", ["comment", "review_comment", "review", "push", "edit_review"])
def test_comments_reviews_and_pushes_change_the_pull_requests_updated_at(
    world: World, forge: GitHubForge, event: str
) -> None:
    number = forge.create_pull(REPO).number
    review = forge.review(REPO, number, body="Fine.")
    world.advance(90)
    if event == "edit_review":
        forge.edit_review(REPO, number, review.id, "Fine, after all.")
    else:
        getattr(forge, event)(REPO, number)
    shown = json.loads(get(forge, f"/repos/{REPO}/pulls/{number}").body)
    assert shown["updated_at"] == world.clock.iso_s()


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_a_listed_comment_can_be_changed_between_two_pages(forge: GitHubForge, change: Any) -> None:
    number = forge.create_pull(REPO).number
    forge.comment(REPO, number, "Before.")
    request = Request.build("GET", f"/repos/{REPO}/issues/comments")
    (row,) = json.loads(get(forge, f"/repos/{REPO}/issues/comments").body)
    assert forge.disturb(request, row, change)
    left = [row["body"] for row in forge.truth_comments(REPO)]
    assert left == (["Before. (edited)"] if change == "edit" else [])
    (pull,) = forge.truth_pulls(REPO)
    assert forge.disturb(request, pull, change) is (change == "edit")


def test_the_world_counts_a_request_by_its_route_and_dates_the_answer(world: World, forge: GitHubForge) -> None:
    assert forge.route(Request.build("GET", f"/repos/{REPO}")) is not None
    for _ in range(2):
        response = world.handle(Request.build("GET", f"/repos/{REPO}/issues?state=all"))
    assert (response.status, response.headers["date"]) == (200, "Mon, 02 Mar 2026 09:00:00 GMT")
    assert world.requests["GET /repos/:owner/:repo/issues"] == 2


def test_a_fault_between_two_pages_edits_a_listed_row(world: World, forge: GitHubForge) -> None:
    number = forge.create_issue(REPO).number
    for index in range(4):
        forge.comment(REPO, number, f"{index}")
    fault = world.faults.add("edit_between", f"/repos/{REPO}/issues/comments", after=1)
    for page in (1, 2):
        target = f"/repos/{REPO}/issues/comments?per_page=2&page={page}"
        assert world.handle(Request.build("GET", target)).status == 200
    assert fault.fired == 1
    assert sum("(edited)" in row["body"] for row in forge.truth_comments(REPO)) == 1


def test_the_generated_history_lies_in_the_past_and_ids_grow_with_time() -> None:
    world = World(seed=5)
    world.github.populate(1.0)
    assert len(world.github.truth_repos()) == 2
    for repo in world.github.truth_repos():
        threads = world.github.truth_issues(repo)
        assert len([row for row in threads if "pull_request" not in row]) == 25
        assert len([row for row in threads if "pull_request" in row]) == 20
        comments = world.github.truth_comments(repo)
        assert len(comments) > 60
        assert len(world.github.truth_review_comments(repo)) > 20
        dates = [parse_iso(row["updated_at"]) for row in threads + comments]
        assert max(dates) < world.clock.now_us
        created = [parse_iso(row["created_at"]) for row in comments]
        assert all(later >= earlier - SECOND_US for earlier, later in pairwise(created))


def test_the_same_seed_gives_the_same_generated_history() -> None:
    worlds = [World(seed=9), World(seed=9), World(seed=10)]
    for world in worlds:
        world.github.populate(0.2)
    one, two, three = ([world.github.truth_issues(name) for name in world.github.truth_repos()] for world in worlds)
    assert one == two
    assert one != three


def test_an_enterprise_server_without_rate_limits_has_no_rate_limit_page_and_no_headers(forge: GitHubForge) -> None:
    forge.settings.rate_limits = False
    refused, query = get(forge, "/rate_limit", TOKEN), {"query": "{ rateLimit { cost } }"}
    assert (refused.status, json.loads(refused.body)["message"]) == (404, "Rate limiting is not enabled.")
    assert get(forge, "/meta").status == 200
    assert not [name for name in refused.headers if name.startswith("x-ratelimit")]
    assert json.loads(send(forge, "POST", "/graphql", query, TOKEN).body) == {"data": {"rateLimit": None}}
