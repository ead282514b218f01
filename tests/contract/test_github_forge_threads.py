"""Review threads and closing issues of GitHub, over real GraphQL: they equal the truth, also when queries fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.github_bench import REPO, Bench, pull_children, serving
from tests.contract.github_truth import pull_node, records, repo_id, shown, true_threads

from tidelore.core.errors import AccessRefused, QueryLimited, RemoteTransient
from tidelore.engine.ports import ListRequest
from tidelore.sources.github.source import GitHubSource
from tidelore_world.github.payloads import node_id


@pytest.fixture
def bench() -> Iterator[Bench]:
    with serving() as bench:
        yield bench


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


def test_threads_of_a_server_without_rate_limits_are_read(bench: Bench) -> None:
    bench.forge.settings.rate_limits = False
    assert_threads(bench, reviewed(bench))


def assert_threads(bench: Bench, numbers: list[int]) -> None:
    nodes = {pull_node(bench, number): number for number in numbers}
    found = bench.run(lambda source: pull_children(source, "threads", list(nodes)))
    assert {nodes[node]: shown(page) for node, page in found.items()} == {
        number: true_threads(bench, number) for number in numbers
    }


def test_review_threads_of_many_pull_requests_are_read_with_one_query(bench: Bench) -> None:
    numbers = reviewed(bench)
    assert_threads(bench, numbers)
    assert [metric.route for metric in bench.metrics] == ["graphql/threads"]


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
    assert [metric.route for metric in bench.metrics].count("graphql/threads/more") == 2


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
        await pull_children(source, "threads", [pull_node(bench, number) for number in numbers])
        first = len(bench.metrics)
        await pull_children(source, "threads", nodes)
        return first, len(bench.metrics) - first

    first, second = bench.run(twice)
    assert first == count
    assert second <= 2


def test_query_that_fails_at_the_smallest_size_is_an_error_and_never_partial(bench: Bench) -> None:
    (number,) = reviewed(bench, 1, 3)
    bench.forge.settings.graphql_resources = 2
    with pytest.raises(RemoteTransient) as caught:
        bench.run(lambda source: pull_children(source, "threads", [pull_node(bench, number)]))
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
        bench.run(lambda source: pull_children(source, "threads", [pull_node(bench, number)]))
    assert bench.run(lambda source: pull_children(source, "closes_issues", [pull_node(bench, number)]))


def test_host_without_a_token_asks_nothing_by_graphql(bench: Bench) -> None:
    with pytest.raises(AccessRefused):
        bench.run(lambda source: pull_children(source, "threads", [pull_node(bench, bench.number)]), token="")
    assert bench.metrics == []


def test_pull_requests_that_are_not_there_are_told_from_those_without_threads(bench: Bench) -> None:
    (number,) = reviewed(bench, 1)
    missing, empty = node_id("PR", 77), pull_node(bench, bench.number)
    found = bench.run(lambda source: pull_children(source, "threads", [missing, pull_node(bench, number), empty]))
    assert found[missing] is None
    assert list(found[empty].items) == []
    assert len(found[pull_node(bench, number)].items) == 3


@pytest.mark.parametrize("kind", ["RATE_LIMITED", "RATE_LIMIT"])
def test_exhausted_points_stop_graphql_and_not_rest(bench: Bench, kind: str) -> None:
    bench.forge.settings.graphql_limit, bench.forge.settings.graphql_limited_type = 1, kind

    async def do(source: GitHubSource) -> Any:
        await pull_children(source, "threads", [pull_node(bench, bench.number)])
        assert source.graphql.spent > 0
        assert source.graphql.remaining == 0
        with pytest.raises(QueryLimited) as caught:
            await pull_children(source, "threads", [pull_node(bench, bench.number)])
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
    found = bench.run(lambda source: pull_children(source, "threads", nodes), url=f"{bench.url}/api/v3")
    assert [len(found[node].items) for node in nodes] == [3, 3]


def test_closing_issues_equal_the_truth(bench: Bench) -> None:
    issues = [bench.forge.create_issue(REPO, f"issue {index}") for index in range(25)]
    many = bench.forge.create_pull(REPO, body=" ".join(f"Fixes #{issue.number}." for issue in issues[:23]))
    linked = bench.forge.create_pull(REPO)
    bench.forge.link_issue(REPO, linked.number, issues[24].number)
    numbers = [many.number, linked.number, bench.number]
    nodes = {pull_node(bench, number): number for number in numbers}
    found = bench.run(lambda source: pull_children(source, "closes_issues", list(nodes)))
    assert {nodes[node]: [record.issue_iid for record in records([page])] for node, page in found.items()} == {
        number: bench.forge.truth_closing_issues(REPO, number) for number in numbers
    }
    (record,) = records([found[pull_node(bench, linked.number)]])
    assert (record.issue_remote_id, record.issue_key) == (issues[24].id, str(issues[24].id))
    assert (record.issue_project_remote_id, record.reference) == (repo_id(bench), f"{REPO}#{issues[24].number}")
