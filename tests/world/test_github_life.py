"""The simulated GitHub as a whole: its populated past, its everyday life, its truth, many rows, faults and controls."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from tests.world.asking import ask as ask_world
from tests.world.github_asking import REPO, ask, get, new_forge, send, walk

from tidelore_world.clock import parse_iso
from tidelore_world.github import GitHubForge
from tidelore_world.github.churn import DEEDS, EVERYDAY
from tidelore_world.wire import Request
from tidelore_world.world import World

THREADS = """query($ids: [ID!]!) { nodes(ids: $ids) { ... on PullRequest { number
  closingIssuesReferences(first: 20) { nodes { number } }
  reviewThreads(first: 100) { nodes { id isResolved isOutdated resolvedBy { login } path line
    comments(first: 100) { nodes { fullDatabaseId } } } } } } }"""


@pytest.fixture
def lively() -> World:
    """A populated world."""
    world = World(seed=5)
    world.github.populate(0.5)
    return world


def assert_api_shows_the_truth(forge: GitHubForge, repo: str) -> None:
    """Walk every list of a repository and compare it with the truth."""
    base = f"/repos/{repo}"
    by_id = {row["id"]: row for row in walk(forge, f"{base}/issues?state=all&sort=updated&direction=asc&per_page=7")}
    assert by_id == {row["id"]: row for row in forge.truth_issues(repo)}
    pulls = walk(forge, f"{base}/pulls?state=all&sort=updated&direction=desc&per_page=7")
    assert sorted(pulls, key=lambda row: row["number"]) == forge.truth_pulls(repo)
    assert walk(forge, f"{base}/issues/comments?per_page=50") == forge.truth_comments(repo)
    assert walk(forge, f"{base}/pulls/comments?per_page=50") == forge.truth_review_comments(repo)
    for row in forge.truth_issues(repo):
        number = row["number"]
        assert walk(forge, f"{base}/issues/{number}/timeline?per_page=5") == forge.truth_timeline(repo, number)
    shown = ask(forge, THREADS, ids=[row["node_id"] for row in pulls])["nodes"]
    for pull in shown:
        number = pull["number"]
        assert walk(forge, f"{base}/pulls/{number}/files") == forge.truth_files(repo, number)
        assert walk(forge, f"{base}/pulls/{number}/reviews") == forge.truth_reviews(repo, number)
        assert [_flat(node) for node in pull["reviewThreads"]["nodes"]] == forge.truth_threads(repo, number)
        closing = [node["number"] for node in pull["closingIssuesReferences"]["nodes"]]
        assert closing == forge.truth_closing_issues(repo, number)


def _flat(node: dict[str, Any]) -> dict[str, Any]:
    return node | {
        "resolvedBy": node["resolvedBy"] and node["resolvedBy"]["login"],
        "comments": [int(row["fullDatabaseId"]) for row in node["comments"]["nodes"]],
    }


def test_a_populated_repository_is_lively(lively: World) -> None:
    forge = lively.github
    repos = forge.truth_repos()
    issues = [row for repo in repos for row in forge.truth_issues(repo)]
    assert {row["state_reason"] for row in issues} >= {None, "completed"}
    assert any(row["milestone"] for row in issues)
    assert any(row["assignees"] for row in issues)
    assert any(row["author_association"] == "MEMBER" for row in issues)
    pulls = [(repo, row["number"]) for repo in repos for row in forge.truth_pulls(repo)]
    threads = [thread for repo, number in pulls for thread in forge.truth_threads(repo, number)]
    assert {thread["isResolved"] for thread in threads} == {True, False}
    assert any(forge.truth_closing_issues(repo, number) for repo, number in pulls)
    discussions = [row for repo in repos for row in forge.truth_discussions(repo)]
    assert {row["isAnswered"] for row in discussions} >= {True}
    assert all(row["body"] and row["comments"] for row in discussions)
    assert max(parse_iso(row["updatedAt"]) for row in discussions) < lively.clock.now_us
    assert all(any(row["state"] == "open" for row in forge.truth_pulls(repo)) for repo in repos)


def test_the_api_shows_the_truth_of_a_populated_world_that_goes_on_living(lively: World) -> None:
    forge = lively.github
    repo = forge.truth_repos()[0]
    assert_api_shows_the_truth(forge, repo)
    done = forge.change(120, random.Random(4), advance=lively.advance)
    assert len({entry["kind"] for entry in done}) > 12
    forge.change(12, random.Random(5), ["outdate", "force_push", "add_files", "lock", "transfer", "dismiss_review"])
    assert_api_shows_the_truth(forge, repo)


@pytest.mark.parametrize("kind", DEEDS)
def test_every_kind_of_change_can_be_applied(lively: World, kind: str) -> None:
    for repo in lively.github.truth_repos():
        lively.github.close(repo, lively.github.create_issue(repo).number)
    (done,) = lively.github.change(1, random.Random(1), [kind], lively.advance)
    assert done["kind"] == kind


def test_random_changes_hide_and_end_nothing_by_default(lively: World) -> None:
    lively.github.change(150, random.Random(2), advance=lively.advance)
    assert set(EVERYDAY) < set(DEEDS)
    assert not {"delete_issue", "transfer", "switch_issues", "make_private", "archive", "force_push"} & set(EVERYDAY)
    for repo in lively.github.hub.repositories.values():
        assert (repo.has_issues, repo.readers, repo.archived) == (True, None, False)


@pytest.mark.deep
def test_two_thousand_pull_requests_with_threads_are_made_within_seconds() -> None:
    _, forge = new_forge()
    begin = time.process_time()
    forge.bulk(REPO, pulls=2000, issues=100, threads=5, comments=3)
    assert time.process_time() - begin < 15
    assert len(forge.truth_pulls(REPO)) == 2000
    number = forge.truth_pulls(REPO)[1234]["number"]
    threads = forge.truth_threads(REPO, number)
    assert [len(thread["comments"]) for thread in threads] == [3] * 5
    assert len(forge.truth_review_comments(REPO, number)) == len(forge.truth_reviews(REPO, number)) == 15
    assert get(forge, f"/repos/{REPO}/pulls/{number}")["review_comments"] == 15


def test_bulk_rows_are_ordinary_rows() -> None:
    world, forge = new_forge()
    forge.bulk(REPO, pulls=4, issues=3, threads=2, comments=2)
    assert_api_shows_the_truth(forge, REPO)
    world.advance(60)
    forge.push(REPO, 1, files=[forge.truth_threads(REPO, 1)[0]["path"]])
    forge.resolve_thread(REPO, forge.thread_of(REPO, forge.truth_threads(REPO, 1)[1]["comments"][0]).id)
    forge.delete_comment(forge.truth_threads(REPO, 2)[0]["comments"][0])
    assert_api_shows_the_truth(forge, REPO)
    assert forge.truth_threads(REPO, 1)[0]["isOutdated"] is True


NEW_LISTS = ("issues?state=all", "issues/1/timeline", "pulls/1/files")


@pytest.mark.parametrize("path", NEW_LISTS)
@pytest.mark.parametrize("kind", ["status", "truncated", "not_json", "malformed_item"])
def test_faults_strike_the_lists(path: str, kind: Any) -> None:
    world, forge = new_forge()
    forge.comment(REPO, forge.create_pull(REPO).number)
    request = Request.build("GET", f"/repos/{REPO}/{path}")
    good = world.handle(request)
    fault = world.faults.add(kind, f"/repos/{REPO}/{path.partition('?')[0]}")
    answer = world.handle(request)
    assert (answer.status, answer.body) != (good.status, good.body)
    assert fault.fired == 1


def test_a_change_between_two_pages_leaves_timelines_and_files_alone() -> None:
    world, forge = new_forge()
    number = forge.create_pull(REPO, files=["a.py", "b.py"]).number
    forge.label(REPO, number, "bug", "ledger")
    for path in (f"issues/{number}/timeline", f"pulls/{number}/files"):
        for kind in ("edit_between", "delete_between"):
            fault = world.faults.add(kind, f"/repos/{REPO}/{path}", after=1)
            for page in (1, 2):
                request = Request.build("GET", f"/repos/{REPO}/{path}?per_page=1&page={page}")
                assert world.handle(request).status == 200
            assert fault.fired == 0
            world.faults.clear()
    (row,) = get(forge, "/orgs/harborline/repos")
    assert forge.disturb(Request.build("GET", "/orgs/harborline/repos"), row, "edit") is False


def test_an_issue_between_two_pages_is_edited_or_deleted() -> None:
    world, forge = new_forge()
    for _ in range(4):
        forge.create_issue(REPO)
    first = world.handle(Request.build("GET", f"/repos/{REPO}/issues?per_page=2"))
    assert first.status == 200
    fault = world.faults.add("delete_between", f"/repos/{REPO}/issues", after=1)
    for _ in range(2):
        world.handle(Request.build("GET", f"/repos/{REPO}/issues?per_page=2"))
    assert fault.fired == 1
    assert len(forge.truth_issues(REPO)) == 3


def test_the_truth_can_be_read_over_the_control_interface() -> None:
    world, forge = new_forge()
    number = forge.create_pull(REPO).number
    forge.review_comment(REPO, number)
    forge.create_discussion(REPO)
    forge.create_milestone(REPO, "Soon")
    for kind in ("issues", "pulls", "comments", "review_comments", "milestones", "discussions"):
        answered = ask_world(world, f"/_sim/truth/github/{REPO}/{kind}")
        assert json.loads(answered.body) == getattr(forge, f"truth_{kind}")(REPO)
    for kind in ("timeline", "reviews", "files", "threads", "closing_issues"):
        answered = ask_world(world, f"/_sim/truth/github/{REPO}/{number}/{kind}")
        assert json.loads(answered.body) == getattr(forge, f"truth_{kind}")(REPO, number)
    assert ask_world(world, f"/_sim/truth/github/{REPO}/secrets").status == 404


def test_a_fault_by_name_strikes_a_request_by_number() -> None:
    world, forge = new_forge()
    repo_id = forge.repository(REPO).id
    fault = world.faults.add("status", f"/repos/{REPO}/issues", times=2, status=503)
    for prefix in ("", "/api/v3"):
        assert world.handle(Request.build("GET", f"{prefix}/repositories/{repo_id}/issues")).status == 503
    assert fault.fired == 2
    assert send(forge, "GET", f"/repositories/{repo_id}/issues").status == 200
