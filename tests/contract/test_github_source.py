"""A GitHub host over real HTTP: every list whole whatever its length, conditional, and failing loudly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.contract.github_bench import KINDS, REPO, TOKEN, Bench, ids, serving, walked
from tests.support.deep import gate_cases

from tidelore.core.clock import parse_instant
from tidelore.core.errors import RemoteError, RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.engine.ports import ListRequest
from tidelore.sources.github.source import GitHubSource


@pytest.fixture
def bench() -> Iterator[Bench]:
    with serving() as bench:
        yield bench


LISTS: dict[str, Callable[[GitHubSource, str, int], Any]] = {
    "feed": lambda source, kind, per_page: source.comment_feed(REPO, kind, per_page),
    "thread": lambda source, kind, per_page: source.thread(REPO, kind, 1, per_page),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "per_page", "requests"), [(0, 100, 1), (99, 100, 1), (250, 100, 3), (1050, 100, 11)])
@gate_cases(8)
def test_a_list_of_any_length_is_read_completely(
    bench: Bench, name: str, kind: str, count: int, per_page: int, requests: int
) -> None:
    bench.talk(count, kind)
    pages = bench.run(lambda source: walked(LISTS[name](source, kind, per_page)))
    assert ids(pages) == [row["id"] for row in bench.truth(kind)]
    assert len(pages) == requests == len(bench.metrics)
    records = [item.record for page in pages for item in page.items]
    assert [record.body for record in records] == [row["body"] for row in bench.truth(kind)]
    assert {record.kind for record in records} <= {kind}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("kind", KINDS)
def test_next_links_that_switch_to_the_repository_id_are_followed(bench: Bench, name: str, kind: str) -> None:
    bench.talk(25, kind)
    bench.forge.settings.numeric_links_from_page = 2
    pages = bench.run(lambda source: walked(LISTS[name](source, kind, 10)))
    assert ids(pages) == [row["id"] for row in bench.truth(kind)]
    assert any("/repositories/" in str(page.next_token) for page in pages)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("kind", KINDS)
def test_since_returns_items_changed_at_or_after_that_second(
    bench: Bench, name: str, kind: str, exclusive: bool
) -> None:
    bench.talk(3, kind)
    bench.world.advance(3600.7)
    low = bench.truth(kind)[0]["id"]
    bench.forge.edit_comment(low, "edited")
    bench.talk(1, kind)
    bench.forge.settings.since_exclusive = exclusive
    edited_at = parse_instant(bench.world.clock.iso_s())
    pages = bench.run(lambda source: walked(LISTS[name](source, kind, 100), since=edited_at - 1000))
    assert sorted(ids(pages)) == [low, bench.truth(kind)[-1]["id"]]


@pytest.mark.parametrize("name", LISTS)
def test_an_unchanged_list_costs_no_rate_limit_and_a_changed_one_is_noticed(bench: Bench, name: str) -> None:
    bench.talk(3)

    async def do(source: GitHubSource) -> list[Any]:
        pages = LISTS[name](source, KINDS[0], 100)
        page = await pages.fetch(ListRequest())
        before = source.remaining
        same = await LISTS[name](source, KINDS[0], 100).fetch(ListRequest(validator=page.validator))
        after = source.remaining
        bench.forge.comment(REPO, bench.number, "new")
        changed = await pages.fetch(ListRequest(validator=page.validator))
        return [same.not_modified, before, after, changed.not_modified, len(changed.items)]

    not_modified, before, after, modified, count = bench.run(do)
    assert not_modified
    assert before == after
    assert (modified, count) == (False, 4)


def test_pull_requests_are_listed_newest_update_first_so_page_one_shows_any_change(bench: Bench) -> None:
    numbers, repo_id = [bench.number], bench.forge.repository(REPO).id
    for _ in range(64):
        bench.world.advance(60)
        numbers.append(bench.forge.create_pull(REPO).number)

    async def do(source: GitHubSource) -> Any:
        pages = await walked(source.pull_list(repo_id))
        validator = pages[0].validator
        same = await source.pull_list(repo_id).fetch(ListRequest(validator=validator))
        bench.world.advance(60)
        bench.forge.merge(REPO, numbers[0])
        changed = await source.pull_list(repo_id).fetch(ListRequest(validator=validator))
        return pages, same, changed

    pages, same, changed = bench.run(do)
    assert [item.record.iid for page in pages for item in page.items] == numbers[::-1]
    assert len(pages) == 3
    assert same.not_modified
    top = changed.items[0].record
    assert (top.iid, top.state, top.merged_at) == (numbers[0], "merged", top.closed_at)
    assert top.merged_at is not None


def test_all_reviews_of_a_pull_request_are_read(bench: Bench) -> None:
    for index in range(120):
        bench.forge.review(REPO, bench.number, "COMMENTED", f"{index}")
    pages = bench.run(lambda source: walked(source.reviews(REPO, bench.number)))
    assert [item.record.body for page in pages for item in page.items] == [f"{index}" for index in range(120)]
    assert {item.record.review_state for page in pages for item in page.items} == {"COMMENTED"}


def test_deleted_users_and_bots_are_distinguished_from_people(bench: Bench) -> None:
    for author in ("ghost", "harborline-ci[bot]", "mira"):
        bench.forge.comment(REPO, bench.number, "x", author)
    (page,) = bench.run(lambda source: walked(source.comment_feed(REPO, KINDS[0])))
    told = [(item.record.author, item.record.is_bot) for item in page.items]
    assert told == [(None, False), ("harborline-ci[bot]", True), ("mira", False)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_since_that_the_server_cannot_serve_is_read_in_smaller_pages(bench: Bench, kind: str) -> None:
    bench.talk(120, kind)
    bench.world.advance(40 * 86_400)
    bench.forge.settings.gateway_since_days, bench.forge.settings.gateway_per_page = 30, 30
    since = parse_instant("2026-03-01T00:00:00Z")
    pages = bench.run(lambda source: walked(source.comment_feed(REPO, kind, 100), since=since))
    assert ids(pages) == [row["id"] for row in bench.truth(kind)]
    assert [len(page.items) for page in pages] == [25, 25, 25, 25, 20]


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 503}, {"status": 429, "retry_after": 9999}])
@pytest.mark.parametrize("name", LISTS)
def test_a_read_that_keeps_failing_is_an_error_and_never_an_empty_list(
    bench: Bench, name: str, fault: dict[str, Any]
) -> None:
    bench.talk(3)
    bench.world.faults.add("status", f"/repos/{REPO}", times=None, **fault)
    with pytest.raises(RemoteTransient):
        bench.run(lambda source: walked(LISTS[name](source, KINDS[0], 100)))


@pytest.mark.parametrize("kind", ["truncated", "not_json", "disconnect"])
def test_a_read_that_fails_once_is_retried(bench: Bench, kind: Any) -> None:
    bench.talk(3)
    fault = bench.world.faults.add(kind, f"/repos/{REPO}/issues/comments")
    (page,) = bench.run(lambda source: walked(source.comment_feed(REPO, KINDS[0])))
    assert fault.fired == 1
    assert len(page.items) == 3


def test_a_page_beyond_the_servers_depth_limit_is_an_error_and_not_the_end(bench: Bench) -> None:
    bench.forge.settings.deep_offset = 200
    token = f"{bench.url}/repos/{REPO}/issues/comments?per_page=100&page=3"
    with pytest.raises(RemotePermanent) as caught:
        bench.run(lambda source: source.comment_feed(REPO, KINDS[0]).fetch(ListRequest(token=token)))
    assert caught.value.status == 422


@pytest.mark.parametrize("kind", ["malformed_item", "invalid_timestamp"])
def test_a_comment_that_cannot_be_parsed_is_rejected_and_can_be_fetched_later(bench: Bench, kind: Any) -> None:
    bench.talk(5)
    bench.world.faults.add(kind, f"/repos/{REPO}/issues/comments")

    async def do(source: GitHubSource) -> Any:
        feed = source.comment_feed(REPO, KINDS[0])
        page = await feed.fetch(ListRequest())
        bench.world.faults.clear()
        locators = [rejected.locator for rejected in page.rejected if rejected.locator]
        return page, [await feed.fetch_one(locator) for locator in locators]

    page, again = bench.run(do)
    assert (len(page.items), len(page.rejected)) == (4, 1)
    truth = [row["id"] for row in bench.truth(KINDS[0])]
    # What has lost its very id can only be met again in the list.
    assert sorted([*ids([page]), *ids(again)]) == (truth if again else ids([page]))
    assert bool(again) == (kind == "invalid_timestamp")


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_comment_counts_as_deleted_and_a_missing_repository_as_an_error(bench: Bench, kind: str) -> None:
    bench.talk(1, kind)
    made = bench.truth(kind)[0]["id"]
    bench.forge.delete_comment(made)
    page = bench.run(lambda source: source.comment_feed(REPO, kind).fetch_one(str(made)))
    assert not page.items
    with pytest.raises(RemoteNotFound):
        bench.run(lambda source: source.comment_feed("harborline/gone", kind).fetch_one(str(made)))


def test_a_renamed_repository_is_read_under_its_old_name_and_written_by_its_number(bench: Bench) -> None:
    bench.talk(25)
    repo_id = bench.forge.repository(REPO).id
    bench.forge.rename_repo(REPO, "harborline/books")

    async def do(source: GitHubSource) -> Any:
        pages = await walked(source.comment_feed(REPO, KINDS[0], 10))
        made = await source.post_comment(repo_id, bench.number, "Still here.")
        return pages, made, (await source.resolve(REPO)).path

    pages, made, path = bench.run(do)
    assert len(ids(pages)) == 25
    assert path == "harborline/books"
    assert [row["id"] for row in bench.forge.truth_comments("harborline/books")][-1] == made.remote_id


def test_a_head_commit_is_compared_with_the_last_seen_one(bench: Bench) -> None:
    forge = bench.forge

    async def do(source: GitHubSource) -> list[str]:
        seen = (await source.pull(forge.repository(REPO).id, bench.number)).head_sha
        pushed = forge.push(REPO, bench.number)
        rewritten = forge.push(REPO, bench.number, force=True)
        pairs = [(seen, seen), (seen, pushed), (pushed, seen), (pushed, rewritten), ("0" * 40, rewritten)]
        return [await source.compare(REPO, *pair) for pair in pairs]

    assert bench.run(do) == ["identical", "ahead", "behind", "diverged", "diverged"]


def test_comments_and_replies_are_posted_with_our_account(bench: Bench) -> None:
    bench.forge.settings.tokens[TOKEN] = "lore-agent"
    first = bench.forge.review_comment(REPO, bench.number, path="src/ledger.py", line=4)

    async def do(source: GitHubSource) -> Any:
        return (
            await source.post_comment(REPO, bench.number, "Done."),
            await source.post_reply(REPO, bench.number, first.id, "Here."),
        )

    said, replied = bench.run(do)
    assert (said.author, said.body, said.number) == ("lore-agent", "Done.", bench.number)
    assert (replied.in_reply_to, replied.path, replied.line) == (first.id, "src/ledger.py", 4)
    assert [row["id"] for row in bench.truth(KINDS[0])] == [said.remote_id]


@pytest.mark.parametrize("setting", ["lost_answers", "late_writes"])
def test_a_post_without_a_response_is_unclear_and_not_retried(bench: Bench, setting: str) -> None:
    setattr(bench.forge.settings, setting, 1)
    with pytest.raises(RemoteError) as caught:
        bench.run(lambda source: source.post_comment(REPO, bench.number, "Once."), timeout=0.2)
    assert caught.value.reason == "unclear_write"
    bench.world.advance(60)
    assert [row["body"] for row in bench.truth(KINDS[0])] == ["Once."]
