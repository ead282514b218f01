"""A whole GitHub host, over real HTTP: its repositories, and every list after a random history with failures."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.github_bench import REPO, TOKEN, Bench, pull_children, serving, walked
from tests.contract.github_truth import (
    STORED_ELSEWHERE,
    as_truth,
    by_update,
    discussed,
    mixed,
    payloads,
    records,
    repo_node,
    shown,
    true_threads,
    true_topics,
    without_ghost,
)
from tests.support.deep import gate_cases

from tidelore.core.errors import RemoteNotFound, RemoteTransient
from tidelore.sources.github.source import GitHubSource
from tidelore_world.faults import Kind
from tidelore_world.github.churn import EVERYDAY
from tidelore_world.github.payloads import node_id


@pytest.fixture
def bench() -> Iterator[Bench]:
    with serving() as bench:
        yield bench


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
@gate_cases(1)
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
        threads = await patiently(lambda: pull_children(source, "threads", list(nodes)))
        closing = await patiently(lambda: pull_children(source, "closes_issues", list(nodes)))
        for node, number in nodes.items():
            assert shown(threads[node]) == true_threads(bench, number, name)
            assert [row.issue_iid for row in records([closing[node]])] == forge.truth_closing_issues(name, number)
        for row in forge.truth_issues(name):
            events = await patiently(lambda number=row["number"]: walked(source.timeline(repo.id, number)))
            entries = forge.truth_timeline(name, row["number"], bench.url)
            told = [entry for entry in entries if entry["event"] not in STORED_ELSEWHERE]
            assert payloads(events) == told
        if repo.has_discussions:
            topics = await patiently(lambda: walked(source.topics(node_id("R", repo.id))))
            assert [as_truth(record) for record in records(topics)] == without_ghost(true_topics(bench, name))

    async def do(source: GitHubSource) -> None:
        for name in forge.truth_repos():
            await compare(source, name)

    bench.run(do)
    assert sum(fault.fired for fault in bench.world.faults.faults) > 10
