"""The lists that mirror a GitHub repository, over real HTTP: each equals the world's truth, also when things fail."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.github_bench import REPO, TOKEN, Bench, ids, serving, walked

from tidelore.core.clock import format_instant, parse_instant
from tidelore.core.errors import (
    AccessRefused,
    FeatureDisabled,
    RateLimited,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
)
from tidelore.core.model import IssueRecord, PullIssueRecord
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.github.source import GitHubSource
from tidelore_world.faults import Kind
from tidelore_world.github.churn import EVERYDAY
from tidelore_world.github.payloads import node_id
from tidelore_world.github.records import FileChange


@pytest.fixture
def bench() -> Iterator[Bench]:
    with serving() as bench:
        yield bench


def repo_id(bench: Bench) -> int:
    return bench.forge.repository(REPO).id


def repo_node(bench: Bench) -> str:
    return node_id("R", repo_id(bench))


def pull_node(bench: Bench, number: int) -> str:
    return node_id("PR", bench.forge.repository(REPO).thread(number).require_pull().id)


def payloads(pages: list[Page[Any]]) -> list[Any]:
    return [json.loads(item.payload) for page in pages for item in page.items]


def records(pages: list[Page[Any]]) -> list[Any]:
    return [item.record for page in pages for item in page.items]


def rejected(pages: list[Page[Any]]) -> list[Any]:
    return [entry for page in pages for entry in page.rejected]


def by_update(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["updated_at"], row["id"]))


def fetch_one(bench: Bench, surface: Any, number: int) -> Page[Any]:
    page: Page[Any] = bench.run(lambda source: surface(source, repo_id(bench)).fetch_one(str(number)))
    return page


def mixed(bench: Bench, count: int = 12) -> None:
    """Issues and pull requests in turn, each a minute later, some changed since."""
    forge = bench.forge
    for index in range(count):
        bench.world.advance(60)
        made = forge.create_issue(REPO, f"issue {index}", f"text {index}", labels=("bug",))
        bench.world.advance(60)
        pull = forge.create_pull(REPO, f"pull {index}", draft=index % 2 == 0)
        if index % 3 == 0:
            forge.comment(REPO, pull.number, "hello")
            forge.close(REPO, made.number, reason="not_planned")
        if index % 3 == 1:
            forge.merge(REPO, pull.number)
            forge.assign(REPO, made.number, "mira")


# Issues


@pytest.mark.parametrize("cursors", [True, False])
@pytest.mark.parametrize("by_creation", [False, True])
def test_issue_list_contains_every_issue_and_pull_request_as_the_world_shows_them(
    bench: Bench, by_creation: bool, cursors: bool
) -> None:
    mixed(bench)
    bench.forge.settings.issues_cursor_links = cursors
    pages = bench.run(lambda source: walked(source.issue_list(repo_id(bench), 5, by_creation=by_creation)))
    truth = bench.forge.truth_issues(REPO, bench.url)
    assert payloads(pages) == (truth if by_creation else by_update(truth))
    assert len(pages) == 5
    assert rejected(pages) == []
    for record, row in zip(records(pages), payloads(pages), strict=True):
        assert record.remote_id == row["id"]
        assert record.updated_at == parse_instant(row["updated_at"])
        if "pull_request" in row:
            assert isinstance(record, PullIssueRecord)
            assert (record.iid, record.comments, record.node_id) == (row["number"], row["comments"], row["node_id"])
        else:
            assert isinstance(record, IssueRecord)
            assert record.state == {"open": "opened"}.get(row["state"], row["state"])
            assert (record.iid, record.title, record.description) == (row["number"], row["title"], row["body"])
            assert record.references_full == f"{REPO}#{row['number']}"
            assert record.assignees == tuple(user["login"] for user in row["assignees"])
            assert record.labels == tuple(label["name"] for label in row["labels"])


def test_issue_list_by_creation_is_resumed_by_its_token_in_another_process(bench: Bench) -> None:
    mixed(bench)
    first = bench.run(lambda source: source.issue_list(repo_id(bench), 5, by_creation=True).fetch(ListRequest()))
    token = first.next_token
    assert "after=" in token
    bench.forge.delete_issue(REPO, bench.forge.truth_issues(REPO)[1]["number"])

    async def rest(source: GitHubSource) -> list[Page[Any]]:
        pages = source.issue_list(repo_id(bench), 5, by_creation=True)
        found = [await pages.fetch(ListRequest(token=token))]
        while found[-1].next_token is not None:
            found.append(await pages.fetch(ListRequest(token=found[-1].next_token)))
        return found

    assert ids(bench.run(rest)) == [row["id"] for row in bench.forge.truth_issues(REPO)][4:]


def test_issue_list_longer_than_a_thousand_rows_is_read_by_cursors(bench: Bench) -> None:
    bench.forge.bulk(REPO, issues=1100, pulls=0, threads=0, comments=0)
    pages = bench.run(lambda source: walked(source.issue_list(repo_id(bench), 100)))
    assert ids(pages) == [row["id"] for row in by_update(bench.forge.truth_issues(REPO))]
    assert len(bench.metrics) == 12


def test_issue_list_asks_since_a_second_and_is_conditional(bench: Bench) -> None:
    mixed(bench, 3)
    bench.world.advance(3600)
    changed = bench.forge.create_issue(REPO, "late")
    since = parse_instant(bench.world.clock.iso_s())

    async def do(source: GitHubSource) -> list[Page[Any]]:
        page = await source.issue_list(repo_id(bench)).fetch(ListRequest(since=since))
        request = ListRequest(since=since, validator=page.validator)
        return [page, await source.issue_list(repo_id(bench)).fetch(request)]

    page, same = bench.run(do)
    assert ids([page]) == [changed.id]
    assert same.not_modified


def test_malformed_issue_is_rejected_alone(bench: Bench) -> None:
    mixed(bench, 4)
    fault = bench.world.faults.add("malformed_item", re.compile(r"/issues$"), shape="no_id")
    (page,) = bench.run(lambda source: walked(source.issue_list(repo_id(bench))))
    assert fault.fired
    assert len(page.items) == len(bench.forge.truth_issues(REPO)) - 1
    (entry,) = page.rejected
    assert entry.locator is not None
    again = bench.run(lambda source: source.issue_list(repo_id(bench)).fetch_one(entry.locator))
    assert [json.loads(item.payload)["number"] for item in again.items] == [int(entry.locator)]


def test_page_that_answers_502_is_read_in_smaller_pages_from_the_same_cursor(bench: Bench) -> None:
    mixed(bench, 60)

    async def do(source: GitHubSource) -> list[Page[Any]]:
        pages = source.issue_list(repo_id(bench), 50)
        found = [await pages.fetch(ListRequest())]
        bench.world.faults.add("status", re.compile(r"/issues$"), times=2, status=502)
        while found[-1].next_token is not None:
            found.append(await pages.fetch(ListRequest(token=found[-1].next_token)))
        return found

    pages = bench.run(do)
    assert ids(pages) == [row["id"] for row in by_update(bench.forge.truth_issues(REPO))]
    assert [len(page.items) for page in pages][:2] == [50, 25]


def test_one_issue_has_the_same_version_alone_and_in_the_list(bench: Bench) -> None:
    mixed(bench, 3)

    async def do(source: GitHubSource) -> list[Any]:
        pages = await walked(source.issue_list(repo_id(bench)))
        alone = [
            await source.issue_list(repo_id(bench)).fetch_one(str(row["number"]))
            for row in by_update(bench.forge.truth_issues(REPO))
        ]
        return [[item.version for page in found for item in page.items] for found in (pages, alone)]

    listed, alone = bench.run(do)
    assert listed == alone


def test_deleted_and_transferred_issues_are_gone(bench: Bench) -> None:
    bench.forge.create_repo("harborline/other")
    for _ in range(3):
        bench.forge.create_issue("harborline/other")
    deleted, moved = bench.forge.create_issue(REPO), bench.forge.create_issue(REPO)
    bench.forge.delete_issue(REPO, deleted.number)
    bench.forge.transfer_issue(REPO, moved.number, "harborline/other")

    async def do(source: GitHubSource) -> list[Page[Any]]:
        pages = source.issue_list(repo_id(bench))
        return [await pages.fetch_one(str(number)) for number in (deleted.number, moved.number, 9999, bench.number)]

    *gone, there = bench.run(do)
    assert [(len(page.items), len(page.rejected)) for page in gone] == [(0, 0)] * 3
    assert len(there.items) == 1


def test_switched_off_issues_never_look_deleted(bench: Bench) -> None:
    made = bench.forge.create_issue(REPO)
    bench.forge.switch_issues(REPO, on=False)
    for locator in (made.number, bench.number, 9999):
        with pytest.raises(FeatureDisabled):
            fetch_one(bench, GitHubSource.issue_list, locator)
    with pytest.raises(FeatureDisabled):
        bench.run(lambda source: walked(source.issue_list(repo_id(bench))))
    assert len(records(bench.run(lambda source: walked(source.pull_list(repo_id(bench)))))) == 1


def test_issue_of_a_repository_that_became_private_is_not_gone(bench: Bench) -> None:
    made = bench.forge.create_issue(REPO)
    bench.forge.make_private(REPO, "mira")
    for surface in (GitHubSource.issue_list, GitHubSource.pull_list):
        with pytest.raises(RemoteNotFound):
            fetch_one(bench, surface, made.number)


# Pull requests


def test_pull_list_contains_every_pull_request_newest_update_first(bench: Bench) -> None:
    mixed(bench)
    bench.world.advance(60)
    bench.forge.request_review(REPO, bench.number, "mira")
    pages = bench.run(lambda source: walked(source.pull_list(repo_id(bench), 5)))
    truth = sorted(bench.forge.truth_pulls(REPO, bench.url), key=lambda row: (row["updated_at"], row["id"]))[::-1]
    assert payloads(pages) == truth
    for record, row in zip(records(pages), truth, strict=True):
        state = "merged" if row["merged_at"] else {"open": "opened"}.get(row["state"], row["state"])
        assert (record.remote_id, record.iid, record.state) == (row["id"], row["number"], state)
        assert (record.source_branch, record.head_sha) == (row["head"]["ref"], row["head"]["sha"])
        assert (record.target_branch, record.draft) == (row["base"]["ref"], row["draft"])
        assert record.reviewers == tuple(user["login"] for user in row["requested_reviewers"])
    assert "mira" in records(pages)[0].reviewers


def test_pull_list_is_conditional_and_its_items_have_one_version(bench: Bench) -> None:
    mixed(bench, 4)

    async def do(source: GitHubSource) -> list[Any]:
        pages = source.pull_list(repo_id(bench), 3)
        first = await pages.fetch(ListRequest())
        same = await source.pull_list(repo_id(bench), 3).fetch(ListRequest(validator=first.validator))
        alone = [await pages.fetch_one(str(item.record.iid)) for item in first.items]
        bench.world.advance(60)
        bench.forge.comment(REPO, bench.number, "new")
        moved = await pages.fetch(ListRequest(validator=first.validator))
        return [first, same, alone, moved]

    first, same, alone, moved = bench.run(do)
    assert same.not_modified
    assert [item.version for item in first.items] == [item.version for page in alone for item in page.items]
    assert moved.items[0].record.iid == bench.number
    merged = [page.items[0].record for page in alone if page.items[0].record.state == "merged"]
    assert [record.merge_user_username for record in merged] == ["octo"] * len(merged)


# Children

EVENTS = ("labeled", "unlabeled", "milestoned", "demilestoned", "closed", "reopened", "merged")


def test_timeline_yields_the_state_label_and_milestone_events(bench: Bench) -> None:
    forge, number = bench.forge, bench.number
    milestone = forge.create_milestone(REPO, "1.0")
    for index in range(60):
        forge.label(REPO, number, f"label-{index}")
        forge.comment(REPO, number, f"see #{number}")
    forge.unlabel(REPO, number, "label-3")
    forge.set_milestone(REPO, number, milestone.number)
    forge.set_milestone(REPO, number, None)
    forge.push(REPO, number, force=True)
    forge.assign(REPO, number, "mira")
    forge.close(REPO, number)
    forge.reopen(REPO, number)
    forge.review(REPO, number, "APPROVED", "fine")
    forge.merge(REPO, number)
    pages = bench.run(lambda source: walked(source.timeline(repo_id(bench), number)))
    truth = [row for row in forge.truth_timeline(REPO, number, bench.url) if row["event"] in EVENTS]
    assert payloads(pages) == truth
    assert [record.remote_id for record in records(pages)] == [row["id"] for row in truth]
    assert {row["event"] for row in truth} == set(EVENTS)
    assert rejected(pages) == []


def test_malformed_timeline_entry_is_rejected_alone(bench: Bench) -> None:
    bench.forge.label(REPO, bench.number, "bug")
    fault = bench.world.faults.add("malformed_item", re.compile(r"/timeline$"), shape="string")
    (page,) = bench.run(lambda source: walked(source.timeline(repo_id(bench), bench.number)))
    assert fault.fired
    assert len(page.rejected) == 1


def test_files_are_read_with_their_old_and_new_paths(bench: Bench) -> None:
    changes: list[FileChange | str] = [
        FileChange("new.py", "added"),
        FileChange("gone.py", "removed"),
        FileChange("after.py", "renamed", previous_filename="before.py"),
        *(f"src/{index}.py" for index in range(120)),
    ]
    number = bench.forge.create_pull(REPO, files=changes).number
    pages = bench.run(lambda source: walked(source.files(repo_id(bench), number)))
    truth = bench.forge.truth_files(REPO, number, bench.url)
    assert payloads(pages) == truth
    found = {record.new_path: record for record in records(pages)}
    assert found["new.py"].new_file
    assert found["gone.py"].deleted_file
    assert (found["after.py"].old_path, found["after.py"].renamed_file) == ("before.py", True)
    assert found["src/7.py"].old_path == "src/7.py"


# Review threads and closing issues


def reviewed(bench: Bench, pulls: int = 7, threads: int = 3) -> list[int]:
    bench.forge.hub.separate_sequences = True
    numbers = []
    for index in range(pulls):
        number = bench.forge.create_pull(REPO).number
        numbers.append(number)
        for place in range(threads):
            row = bench.forge.review_comment(REPO, number, "why?", line=place + 1, path=f"src/{place}.py")
            bench.forge.review_comment(REPO, number, "so", in_reply_to=row.id)
            thread = bench.forge.thread_of(REPO, row.id)
            if (index + place) % 2:
                bench.forge.resolve_thread(REPO, thread.id, "mira" if place else "harborline-ci[bot]")
            if place == 2:
                bench.forge.outdate_thread(REPO, thread.id)
    return numbers


def shown(page: Page[Any]) -> list[dict[str, Any]]:
    return [
        {
            "id": record.remote_id,
            "isResolved": record.is_resolved,
            "isOutdated": record.is_outdated,
            "resolvedBy": record.resolved_by,
            "path": record.path,
            "line": record.line,
            "root": record.root_comment_id,
        }
        for record in records([page])
    ]


def true_threads(bench: Bench, number: int, name: str = REPO) -> list[dict[str, Any]]:
    rows = bench.forge.truth_threads(name, number)
    return [{**{k: v for k, v in row.items() if k != "comments"}, "root": row["comments"][0]} for row in rows]


def assert_threads(bench: Bench, numbers: list[int]) -> None:
    nodes = {pull_node(bench, number): number for number in numbers}
    found = bench.run(lambda source: source.review_threads(list(nodes)))
    assert {nodes[node]: shown(page) for node, page in found.items()} == {
        number: true_threads(bench, number) for number in numbers
    }


def test_review_threads_of_many_pull_requests_are_read_with_one_query(bench: Bench) -> None:
    numbers = reviewed(bench)
    assert_threads(bench, numbers)
    assert [metric.route for metric in bench.metrics] == ["graphql/review-threads"]


def test_resolving_a_thread_is_seen_although_nothing_moves(bench: Bench) -> None:
    (number,) = reviewed(bench, 1, 1)
    before = bench.forge.truth_pulls(REPO)
    bench.forge.resolve_thread(REPO, bench.forge.repository(REPO).threads_of(number)[0].id)
    assert bench.forge.truth_pulls(REPO) == before
    assert_threads(bench, [number])
    assert bench.forge.truth_threads(REPO, number)[0]["isResolved"]


def test_pull_requests_with_more_threads_than_a_page_are_read_to_the_end(bench: Bench) -> None:
    numbers = [*reviewed(bench, 2, 1), *reviewed(bench, 1, 115)]
    assert_threads(bench, numbers)
    assert [metric.route for metric in bench.metrics].count("graphql/review-threads/more") == 2


@pytest.mark.parametrize("setting", [{"graphql_resources": 40}, {"graphql_slow_nodes": 150}])
def test_query_that_is_too_large_is_repeated_in_smaller_batches_that_are_remembered(
    bench: Bench, setting: dict[str, int]
) -> None:
    numbers = reviewed(bench, 30, 2)
    for name, value in setting.items():
        setattr(bench.forge.settings, name, value)
    assert_threads(bench, numbers)
    count = len(bench.metrics)

    async def twice(source: GitHubSource) -> tuple[int, int]:
        nodes = [pull_node(bench, number) for number in numbers[:4]]
        bench.metrics.clear()
        await source.review_threads([pull_node(bench, number) for number in numbers])
        first = len(bench.metrics)
        await source.review_threads(nodes)
        return first, len(bench.metrics) - first

    first, second = bench.run(twice)
    assert first == count
    assert second <= 2


def test_query_that_fails_at_the_smallest_size_is_an_error_and_never_partial(bench: Bench) -> None:
    (number,) = reviewed(bench, 1, 3)
    bench.forge.settings.graphql_resources = 2
    with pytest.raises(RemoteTransient) as caught:
        bench.run(lambda source: source.review_threads([pull_node(bench, number)]))
    assert caught.value.reason == "graphql_partial"


@pytest.mark.parametrize("status", [502, 504])
def test_gateway_errors_reduce_the_batch_without_waiting(bench: Bench, status: int) -> None:
    numbers = reviewed(bench, 5, 1)
    bench.world.faults.add("status", "/graphql", times=2, status=status)
    assert_threads(bench, numbers)
    assert [metric.status for metric in bench.metrics] == [status, status, 200]


def test_token_without_rights_is_a_refusal_and_not_an_empty_answer(bench: Bench) -> None:
    (number,) = reviewed(bench, 1)
    bench.forge.settings.graphql_forbidden = {"PullRequest.reviewThreads"}
    with pytest.raises(AccessRefused):
        bench.run(lambda source: source.review_threads([pull_node(bench, number)]))
    assert bench.run(lambda source: source.closing_issues([pull_node(bench, number)]))


def test_host_without_a_token_asks_nothing_by_graphql(bench: Bench) -> None:
    with pytest.raises(AccessRefused):
        bench.run(lambda source: source.review_threads([pull_node(bench, bench.number)]), token="")
    assert bench.metrics == []


def test_pull_requests_that_are_not_there_are_told_from_those_without_threads(bench: Bench) -> None:
    (number,) = reviewed(bench, 1)
    missing, empty = node_id("PR", 77), pull_node(bench, bench.number)
    found = bench.run(lambda source: source.review_threads([missing, pull_node(bench, number), empty]))
    assert found[missing] is None
    assert list(found[empty].items) == []
    assert len(found[pull_node(bench, number)].items) == 3


@pytest.mark.parametrize("kind", ["RATE_LIMITED", "RATE_LIMIT"])
def test_exhausted_points_stop_graphql_and_not_rest(bench: Bench, kind: str) -> None:
    bench.forge.settings.graphql_limit, bench.forge.settings.graphql_limited_type = 1, kind

    async def do(source: GitHubSource) -> Any:
        await source.review_threads([pull_node(bench, bench.number)])
        assert source.graphql.spent > 0
        assert source.graphql.remaining == 0
        with pytest.raises(RateLimited) as caught:
            await source.review_threads([pull_node(bench, bench.number)])
        await source.pull_list(repo_id(bench)).fetch(ListRequest())
        return caught.value.retry_after_seconds, source.remaining

    wait, remaining = bench.run(do)
    assert wait is not None
    assert 0 < wait <= 3600
    assert remaining == 4999


def test_enterprise_server_is_asked_below_api(bench: Bench) -> None:
    bench.forge.settings.enterprise = True
    numbers = reviewed(bench, 2)
    nodes = [pull_node(bench, number) for number in numbers]
    found = bench.run(lambda source: source.review_threads(nodes), url=f"{bench.url}/api/v3")
    assert [len(found[node].items) for node in nodes] == [3, 3]


def test_closing_issues_equal_the_truth(bench: Bench) -> None:
    issues = [bench.forge.create_issue(REPO, f"issue {index}") for index in range(25)]
    many = bench.forge.create_pull(REPO, body=" ".join(f"Fixes #{issue.number}." for issue in issues[:23]))
    linked = bench.forge.create_pull(REPO)
    bench.forge.link_issue(REPO, linked.number, issues[24].number)
    numbers = [many.number, linked.number, bench.number]
    nodes = {pull_node(bench, number): number for number in numbers}
    found = bench.run(lambda source: source.closing_issues(list(nodes)))
    assert {nodes[node]: [record.issue_iid for record in records([page])] for node, page in found.items()} == {
        number: bench.forge.truth_closing_issues(REPO, number) for number in numbers
    }
    (record,) = records([found[pull_node(bench, linked.number)]])
    assert (record.issue_remote_id, record.issue_key) == (issues[24].id, str(issues[24].id))
    assert (record.issue_project_remote_id, record.reference) == (repo_id(bench), f"{REPO}#{issues[24].number}")


# Discussions


def discussed(bench: Bench, count: int = 3) -> None:
    forge = bench.forge
    forge.hub.separate_sequences = True
    for index in range(count):
        bench.world.advance(60)
        row = forge.create_discussion(
            REPO, f"topic {index}", "text", "mira", category="Q&A" if index % 2 else "General"
        )
        first = forge.comment_discussion(REPO, row.number, "one", "dependabot[bot]")
        reply = forge.comment_discussion(REPO, row.number, "re", reply_to=first.id)
        gone = forge.comment_discussion(REPO, row.number, "two")
        forge.comment_discussion(REPO, row.number, "re two", "ghost", reply_to=gone.id)
        forge.delete_discussion_comment(REPO, gone.id)
        if index % 2:
            forge.choose_answer(REPO, first.id, row.number)
        forge.upvote_discussion(REPO, row.number, index)
        if index % 3 == 0:
            forge.close_discussion(REPO, row.number)
            forge.lock_discussion(REPO, row.number)
        assert reply.id != first.id


def true_topics(bench: Bench, name: str = REPO) -> list[dict[str, Any]]:
    rows = sorted(bench.forge.truth_discussions(name), key=lambda row: (row["updatedAt"], row["databaseId"]))
    return rows[::-1]


def as_truth(record: Any) -> dict[str, Any]:
    """A record in the words of the truth."""

    def text(at: int | None) -> str | None:
        return None if at is None else f"{format_instant(at)[:19]}Z"

    def comment(row: Any) -> dict[str, Any]:
        return {
            "id": row.node_id,
            "databaseId": row.remote_id,
            "body": row.body,
            "author": row.author,
            "createdAt": text(row.created_at),
            "updatedAt": text(row.updated_at),
            "deletedAt": text(row.deleted_at),
            "upvoteCount": row.upvotes,
        }

    rows = record.comments
    answer = next((row.node_id for row in rows if row.is_answer), None)
    assert record.answer_id == next((row.remote_id for row in rows if row.is_answer), None)
    return {
        "id": record.node_id,
        "databaseId": record.remote_id,
        "number": record.number,
        "title": record.title,
        "body": record.body,
        "author": record.author,
        "category": record.category,
        "createdAt": text(record.created_at),
        "updatedAt": text(record.updated_at),
        "closed": record.state == "closed",
        "closedAt": text(record.closed_at),
        "stateReason": record.state_reason and record.state_reason.upper(),
        "locked": record.locked,
        "isAnswered": record.is_answered,
        "answerChosenAt": text(record.answer_chosen_at),
        "answer": answer,
        "upvoteCount": record.upvotes,
        "comments": [
            comment(row) | {"replies": [comment(reply) for reply in rows if reply.parent_id == row.remote_id]}
            for row in rows
            if row.parent_id is None
        ],
    }


def without_ghost(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The truth names the ghost; GraphQL shows no author at all."""
    loaded: list[dict[str, Any]] = json.loads(json.dumps(rows).replace('"ghost"', "null"))
    return loaded


def assert_topics(bench: Bench) -> list[Page[Any]]:
    pages: list[Page[Any]] = bench.run(lambda source: walked(source.discussions(repo_node(bench))))
    assert [as_truth(record) for record in records(pages)] == without_ghost(true_topics(bench))
    assert rejected(pages) == []
    return pages


def test_discussions_equal_the_truth_newest_update_first(bench: Bench) -> None:
    discussed(bench, 25)
    bench.world.advance(60)
    bench.forge.comment_discussion(REPO, bench.forge.truth_discussions(REPO)[0]["number"], "new")
    pages = assert_topics(bench)
    assert [len(page.items) for page in pages] == [10, 10, 5]


def test_quiet_poll_of_discussions_costs_one_point(bench: Bench) -> None:
    discussed(bench, 12)

    async def do(source: GitHubSource) -> int:
        await source.discussions(repo_node(bench)).fetch(ListRequest())
        return source.graphql.spent

    assert bench.run(do) == 1


def test_long_discussions_are_read_to_the_end(bench: Bench) -> None:
    discussed(bench, 2)
    number = bench.forge.truth_discussions(REPO)[0]["number"]
    for index in range(130):
        first = bench.forge.comment_discussion(REPO, number, f"{index}")
        for place in range(115 if index in (3, 60) else index % 25):
            bench.forge.comment_discussion(REPO, number, f"{index}.{place}", reply_to=first.id)
    pages = assert_topics(bench)
    one = bench.run(lambda source: source.discussions(repo_node(bench)).fetch_one(str(number)))
    listed = next(item for page in pages for item in page.items if item.record.number == number)
    assert [item.version for item in one.items] == [listed.version]


@pytest.mark.parametrize("setting", [{"graphql_resources": 30}, {"graphql_slow_nodes": 300}])
def test_discussions_that_are_too_much_for_one_query_are_read_in_smaller_pages(
    bench: Bench, setting: dict[str, int]
) -> None:
    discussed(bench, 23)
    for name, value in setting.items():
        setattr(bench.forge.settings, name, value)
    pages = assert_topics(bench)
    assert max(len(page.items) for page in pages) < 10


def test_deleted_discussion_is_gone(bench: Bench) -> None:
    discussed(bench, 2)
    number = bench.forge.truth_discussions(REPO)[0]["number"]
    bench.forge.delete_discussion(REPO, number)
    page = bench.run(lambda source: source.discussions(repo_node(bench)).fetch_one(str(number)))
    assert (list(page.items), list(page.rejected)) == ([], [])


def test_switched_off_discussions_never_look_deleted(bench: Bench) -> None:
    discussed(bench, 1)
    number = bench.forge.truth_discussions(REPO)[0]["number"]
    bench.forge.switch_discussions(REPO, on=False)
    with pytest.raises(FeatureDisabled):
        bench.run(lambda source: walked(source.discussions(repo_node(bench))))
    with pytest.raises(FeatureDisabled):
        bench.run(lambda source: source.discussions(repo_node(bench)).fetch_one(str(number)))


def test_discussions_of_a_repository_that_became_private_are_not_gone(bench: Bench) -> None:
    discussed(bench, 1)
    bench.forge.make_private(REPO, "mira")
    for do in (
        lambda source: source.discussions(repo_node(bench)).fetch_one("2"),
        lambda source: walked(source.discussions(repo_node(bench))),
    ):
        with pytest.raises(RemotePermanent):
            bench.run(do)


def test_forbidden_discussions_are_a_refusal(bench: Bench) -> None:
    discussed(bench, 1)
    bench.forge.settings.graphql_forbidden = {"Repository.discussions"}
    with pytest.raises(AccessRefused):
        bench.run(lambda source: walked(source.discussions(repo_node(bench))))


# Repositories


def test_repositories_of_an_organisation_come_with_their_features(bench: Bench) -> None:
    for index in range(120):
        bench.forge.create_repo(f"harborline/repo-{index}")
    bench.forge.archive_repo("harborline/repo-3")
    bench.forge.switch_issues("harborline/repo-4", on=False)
    bench.forge.create_discussion("harborline/repo-5")
    bench.forge.create_repo("elsewhere/repo")
    found = bench.run(lambda source: source.repositories("harborline"))
    names = [name for name in bench.forge.truth_repos() if name.startswith("harborline/")]
    assert [record.project.path for record in found] == names
    by_name = {record.project.path: record for record in found}
    assert by_name["harborline/repo-3"].project.archived
    assert by_name["harborline/repo-4"].has_issues is False
    assert by_name["harborline/repo-5"].has_discussions is True
    assert by_name[REPO].node_id == repo_node(bench)


def test_unknown_organisation_is_named_in_the_error(bench: Bench) -> None:
    with pytest.raises(RemoteNotFound, match="nobody"):
        bench.run(lambda source: source.repositories("nobody"), token=TOKEN)


# Everything at once


ON_REQUEST = ("close_pull", "delete_issue", "transfer", "dismiss_review", "delete_discussion_comment")


async def patiently(ask: Any) -> Any:
    """Ask until it succeeds: a failure may be raised, an incomplete answer may not be returned."""
    for _ in range(60):
        try:
            return await ask()
        except RemoteTransient:
            continue
    raise AssertionError("it never succeeded")


@pytest.mark.parametrize("seed", range(4))
def test_after_a_random_history_every_list_equals_the_truth_although_requests_fail(bench: Bench, seed: int) -> None:
    forge, rng = bench.forge, random.Random(seed)
    forge.hub.separate_sequences = seed % 2 == 0
    mixed(bench, 20)
    discussed(bench, 12)
    forge.create_repo("harborline/other")
    done = forge.change(400, rng, [*EVERYDAY, *ON_REQUEST], bench.world.advance)
    assert len(done) > 300
    plan: tuple[Kind, ...] = ("status", "truncated", "not_json", "disconnect")
    for kind in plan:
        bench.world.faults.add(kind, None, None, chance=0.1, status=(500, 502, 504), mode="json")

    async def compare(source: GitHubSource, name: str) -> None:
        repo = forge.repository(name)
        found = await patiently(lambda: walked(source.issue_list(repo.id, 10)))
        assert payloads(found) == by_update(forge.truth_issues(name, bench.url))
        found = await patiently(lambda: walked(source.pull_list(repo.id, 10)))
        assert payloads(found) == by_update(forge.truth_pulls(name, bench.url))[::-1]
        nodes = {node_id("PR", row["id"]): row["number"] for row in forge.truth_pulls(name)}
        threads = await patiently(lambda: source.review_threads(list(nodes)))
        closing = await patiently(lambda: source.closing_issues(list(nodes)))
        for node, number in nodes.items():
            assert shown(threads[node]) == true_threads(bench, number, name)
            assert [row.issue_iid for row in records([closing[node]])] == forge.truth_closing_issues(name, number)
        for row in forge.truth_issues(name):
            events = await patiently(lambda number=row["number"]: walked(source.timeline(repo.id, number)))
            told = [entry for entry in forge.truth_timeline(name, row["number"], bench.url) if entry["event"] in EVENTS]
            assert payloads(events) == told
        if repo.has_discussions:
            topics = await patiently(lambda: walked(source.discussions(node_id("R", repo.id))))
            assert [as_truth(record) for record in records(topics)] == without_ghost(true_topics(bench, name))

    async def do(source: GitHubSource) -> None:
        for name in forge.truth_repos():
            await compare(source, name)

    bench.run(do)
    assert sum(fault.fired for fault in bench.world.faults.faults) > 10
