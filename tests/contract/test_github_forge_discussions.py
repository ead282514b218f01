"""GitHub Discussions, over real GraphQL: they equal the truth, and are never mistaken for deleted ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.github_bench import REPO, Bench, serving, walked
from tests.contract.github_truth import as_truth, discussed, records, rejected, repo_node, true_topics, without_ghost

from tidelore.core.errors import AccessRefused, FeatureDisabled, RemotePermanent
from tidelore.engine.ports import ListRequest, Page
from tidelore.sources.github.source import GitHubSource


@pytest.fixture
def bench() -> Iterator[Bench]:
    with serving() as bench:
        yield bench


def assert_topics(bench: Bench) -> list[Page[Any]]:
    pages: list[Page[Any]] = bench.run(lambda source: walked(source.topics(repo_node(bench))))
    assert [as_truth(record) for record in records(pages)] == without_ghost(true_topics(bench))
    assert rejected(pages) == []
    return pages


def test_discussions_equal_the_truth_newest_update_first(bench: Bench) -> None:
    discussed(bench, 25)
    bench.world.advance(60)
    bench.forge.comment_discussion(REPO, bench.forge.truth_discussions(REPO)[0]["number"], "new")
    pages = assert_topics(bench)
    assert [len(page.items) for page in pages] == [10, 10, 5]


def test_discussions_are_also_listed_by_creation_with_the_oldest_first(bench: Bench) -> None:
    discussed(bench, 12)
    bench.world.advance(60)
    bench.forge.comment_discussion(REPO, bench.forge.truth_discussions(REPO)[0]["number"], "new")
    newest: list[Page[Any]] = bench.run(lambda source: walked(source.topics(repo_node(bench))))
    oldest: list[Page[Any]] = bench.run(lambda source: walked(source.topics(repo_node(bench), by_creation=True)))
    times = [item.at for page in oldest for item in page.items]
    assert times == sorted(record.created_at for record in records(newest))
    # The same versions, so that a verification by this list finds nothing new.
    versions = [{item.version for page in pages for item in page.items} for pages in (newest, oldest)]
    assert versions[0] == versions[1]
    assert not any(page.anchored for page in oldest)


def test_quiet_poll_of_discussions_costs_one_point(bench: Bench) -> None:
    discussed(bench, 12)

    async def do(source: GitHubSource) -> int:
        await source.topics(repo_node(bench)).fetch(ListRequest())
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
    one = bench.run(lambda source: source.topics(repo_node(bench)).fetch_one(str(number)))
    listed = next(item for page in pages for item in page.items if item.record.iid == number)
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
    page = bench.run(lambda source: source.topics(repo_node(bench)).fetch_one(str(number)))
    assert (list(page.items), list(page.rejected)) == ([], [])


def test_switched_off_discussions_never_look_deleted(bench: Bench) -> None:
    discussed(bench, 1)
    number = bench.forge.truth_discussions(REPO)[0]["number"]
    bench.forge.switch_discussions(REPO, on=False)
    with pytest.raises(FeatureDisabled):
        bench.run(lambda source: walked(source.topics(repo_node(bench))))
    with pytest.raises(FeatureDisabled):
        bench.run(lambda source: source.topics(repo_node(bench)).fetch_one(str(number)))


def test_discussions_of_a_repository_that_became_private_are_not_gone(bench: Bench) -> None:
    discussed(bench, 1)
    bench.forge.make_private(REPO, "mira")
    for do in (
        lambda source: source.topics(repo_node(bench)).fetch_one("2"),
        lambda source: walked(source.topics(repo_node(bench))),
    ):
        with pytest.raises(RemotePermanent):
            bench.run(do)


def test_forbidden_discussions_are_a_refusal(bench: Bench) -> None:
    discussed(bench, 1)
    bench.forge.settings.graphql_forbidden = {"Repository.discussions"}
    with pytest.raises(AccessRefused):
        bench.run(lambda source: walked(source.topics(repo_node(bench))))
