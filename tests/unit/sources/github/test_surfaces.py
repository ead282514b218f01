"""The lists of a repository as the engine reads them: how they are asked for, and how the next page is known."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.http.asking import ask
from tests.unit.http.wire_server import Answer, ScriptedServer, Seen, answer
from tests.unit.sources.github.test_transform import COMMENT, PULL, REVIEW

from tidelore.core.errors import RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.engine.cursor import Validator
from tidelore.engine.ports import ListRequest, Page
from tidelore.http.client import HttpClient, bearer
from tidelore.sources.github import forge_lists, surfaces
from tidelore.sources.github.client import GitHubClient

SINCE = 1_772_442_000_999


def body(*numbers: int) -> bytes:
    return json.dumps([{**COMMENT, "id": number} for number in numbers]).encode()


def feed(client: GitHubClient, per_page: int = 2) -> surfaces.CommentList:
    return surfaces.comment_feed(client, "o/r", "issue_comment", per_page)


def with_list(
    do: Callable[[Any], Awaitable[Any]], *script: Answer, build: Callable[[GitHubClient], Any] = feed, path: str = ""
) -> tuple[Any, ScriptedServer]:
    async def job(_: HttpClient, server: ScriptedServer) -> Any:
        async with HttpClient(f"{server.url}{path}", token="t-123456", auth=bearer, max_retries=0) as http:
            return await do(build(GitHubClient(http)))

    result, server, _ = ask(*script, do=job)
    return result, server


def first(surface: Any) -> Awaitable[Page[Any]]:
    found: Awaitable[Page[Any]] = surface.fetch(ListRequest())
    return found


def query(seen: Seen) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(seen.target).query).items()}


@pytest.mark.parametrize(
    ("build", "path", "asked"),
    [
        (
            lambda c: surfaces.comment_feed(c, "o/r", "issue_comment", 100),
            "/repos/o/r/issues/comments",
            {"sort": "updated", "direction": "asc", "per_page": "100", "since": "2026-03-02T09:00:00Z"},
        ),
        (
            lambda c: surfaces.comment_feed(c, "o/r", "review_comment", 7),
            "/repos/o/r/pulls/comments",
            {"sort": "updated", "direction": "asc", "per_page": "7", "since": "2026-03-02T09:00:00Z"},
        ),
        (
            lambda c: surfaces.thread(c, "o/r", "issue_comment", 12, 100),
            "/repos/o/r/issues/12/comments",
            {"per_page": "100", "since": "2026-03-02T09:00:00Z"},
        ),
        (
            lambda c: surfaces.thread(c, "o/r", "review_comment", 12, 100),
            "/repos/o/r/pulls/12/comments",
            {"per_page": "100", "since": "2026-03-02T09:00:00Z"},
        ),
        (lambda c: surfaces.reviews(c, "o/r", 12, 100), "/repos/o/r/pulls/12/reviews", {"per_page": "100"}),
        (
            lambda c: forge_lists.pull_list(c, 7, 100),
            "/repositories/7/pulls",
            {"state": "all", "sort": "updated", "direction": "desc", "per_page": "30"},
        ),
        (
            lambda c: forge_lists.pull_list(c, 7, 5),
            "/repositories/7/pulls",
            {"state": "all", "sort": "updated", "direction": "desc", "per_page": "5"},
        ),
    ],
)
def test_each_list_is_requested_with_its_url_and_parameters(build: Any, path: str, asked: dict[str, str]) -> None:
    _, server = with_list(lambda s: s.fetch(ListRequest(since=SINCE)), answer(), build=build)
    assert urlsplit(server.seen[0].target).path == path
    assert query(server.seen[0]) == asked


def test_since_is_rounded_down_to_the_second() -> None:
    _, server = with_list(lambda s: s.fetch(ListRequest(since=SINCE)), answer())
    assert query(server.seen[0])["since"] == "2026-03-02T09:00:00Z"


def test_a_first_scan_is_requested_without_since() -> None:
    _, server = with_list(first, answer())
    assert "since" not in query(server.seen[0])


def test_an_enterprise_host_is_requested_below_its_api_path() -> None:
    _, server = with_list(first, answer(), path="/api/v3")
    assert server.seen[0].target.startswith("/api/v3/repos/o/r/issues/comments?")


@pytest.mark.parametrize("path", ["", "/api/v3"])
def test_a_next_link_with_the_repository_id_is_followed(path: str) -> None:
    async def do(surface: Any) -> list[Page[Any]]:
        pages = [await surface.fetch(ListRequest())]
        pages.append(await surface.fetch(ListRequest(token=pages[0].next_token)))
        return pages

    link = f'<{path}/repositories/42/issues/comments?per_page=2&page=2>; rel="next"'
    (one, two), server = with_list(do, answer(body=body(1, 2), Link=link), answer(body=body(3)), path=path)
    assert server.seen[1].target == f"{path}/repositories/42/issues/comments?per_page=2&page=2"
    assert [item.version.id for item in (*one.items, *two.items)] == [1, 2, 3]
    assert two.next_token is None


def test_a_next_link_to_another_origin_is_ignored_and_the_walk_continues() -> None:
    link = '<http://127.0.0.1:9/steal?page=2>; rel="next"'
    found, server = with_list(first, answer(body=body(1, 2), Link=link))
    assert found.next_token is not None
    assert found.next_token.startswith(f"{server.url}/repos/o/r/issues/comments?")
    assert query(Seen("GET", found.next_token, {}, b"", 0))["page"] == "2"


def test_an_etag_is_sent_only_for_the_url_it_came_from() -> None:
    async def do(surface: Any) -> list[Page[Any]]:
        page = await surface.fetch(ListRequest(since=SINCE))
        same = await surface.fetch(ListRequest(since=SINCE, validator=page.validator))
        other = await surface.fetch(ListRequest(since=SINCE + 1000, validator=page.validator))
        return [page, same, other]

    script = (answer(body=body(1), ETag='W/"one"'), answer(304, b""), answer(body=body(1)))
    (page, same, other), server = with_list(do, *script)
    assert page.validator == Validator(f"{server.url}{server.seen[0].target}", 'W/"one"')
    assert [seen.headers.get("if-none-match") for seen in server.seen] == [None, 'W/"one"', None]
    assert (same.not_modified, list(same.items)) == (True, [])
    assert not other.not_modified


def test_full_pages_of_an_ascending_list_and_later_pages_give_no_validator() -> None:
    async def do(surface: Any) -> list[Page[Any]]:
        return [
            await surface.fetch(ListRequest()),
            await surface.fetch(ListRequest(token="/repos/o/r/issues/comments?page=2")),
        ]

    pages, _ = with_list(do, answer(body=body(1, 2), ETag='"one"'), answer(body=body(3), ETag='"two"'))
    assert [page.validator for page in pages] == [None, None]


def test_a_full_first_page_of_the_newest_pull_requests_gives_a_validator() -> None:
    pulls = json.dumps([{**PULL, "id": number} for number in (1, 2)]).encode()
    link = '</repositories/7/pulls?page=2>; rel="next"'

    async def do(surface: Any) -> list[Page[Any]]:
        page = await surface.fetch(ListRequest())
        return [page, await surface.fetch(ListRequest(validator=page.validator))]

    (page, again), server = with_list(
        do,
        answer(body=pulls, ETag='"one"', Link=link),
        answer(304, b""),
        build=lambda c: forge_lists.pull_list(c, 7, 2),
    )
    assert page.next_token is not None
    assert server.seen[1].headers["if-none-match"] == '"one"'
    assert again.not_modified


def test_the_etag_of_a_renamed_repository_is_kept_for_the_requested_url() -> None:
    async def do(surface: Any) -> list[Page[Any]]:
        page = await surface.fetch(ListRequest())
        return [page, await surface.fetch(ListRequest(validator=page.validator))]

    moved = answer(301, b"{}", Location="/repositories/42/issues/comments?per_page=2")
    (page, again), server = with_list(do, moved, answer(body=body(1), ETag='"one"'), moved, answer(304, b""))
    assert len(page.items) == 1
    assert again.not_modified
    assert [seen.headers.get("if-none-match") for seen in server.seen] == [None, None, '"one"', '"one"']


@pytest.mark.parametrize("status", [502, 504])
def test_a_page_that_fails_is_requested_smaller_and_the_smaller_size_is_kept(status: int) -> None:
    async def do(surface: Any) -> Page[Any]:
        await surface.fetch(ListRequest(since=SINCE))
        page: Page[Any] = await surface.fetch(ListRequest(since=SINCE + 1000))
        return page

    refusal = answer(status, b"{}")
    _, server = with_list(do, refusal, refusal, answer(body=body(1)), build=lambda c: feed(c, 100))
    assert [query(seen)["per_page"] for seen in server.seen] == ["100", "50", "25", "25"]
    assert [query(seen)["since"] for seen in server.seen[:3]] == ["2026-03-02T09:00:00Z"] * 3


def test_a_page_that_fails_at_the_smallest_size_is_an_error() -> None:
    with pytest.raises(RemoteTransient) as caught:
        with_list(first, answer(502, b"{}"), build=lambda c: feed(c, 100))
    assert caught.value.status == 502


@pytest.mark.parametrize("status", [500, 503])
def test_other_server_errors_do_not_reduce_the_page_size(status: int) -> None:
    async def do(surface: Any) -> int:
        with pytest.raises(RemoteTransient):
            await surface.fetch(ListRequest())
        return 0

    _, server = with_list(do, answer(status, b"{}"), answer(body=body(1)), build=lambda c: feed(c, 100))
    assert len(server.seen) == 1


def test_a_smaller_page_in_mid_list_begins_no_later_than_the_one_that_failed() -> None:
    token = "/repositories/42/issues/comments?sort=updated&per_page=100&page=3"
    page, server = with_list(
        lambda s: s.fetch(ListRequest(token=token)),
        answer(502, b"{}"),
        answer(502, b"{}"),
        answer(502, b"{}"),
        answer(body=body(1)),
        build=lambda c: feed(c, 100),
    )
    assert [(query(seen)["per_page"], query(seen)["page"]) for seen in server.seen] == [
        ("100", "3"),
        ("50", "5"),
        ("25", "9"),
        ("10", "21"),
    ]
    assert {query(seen)["sort"] for seen in server.seen} == {"updated"}
    assert len(page.items) == 1


@pytest.mark.parametrize(
    ("page", "size", "smaller", "found"), [(1, 100, 50, 1), (4, 25, 10, 8), (2, 30, 25, 2), (3, 7, 5, 3)]
)
def test_a_resized_page_covers_the_start_of_the_larger_one(page: int, size: int, smaller: int, found: int) -> None:
    address = surfaces.resized(f"http://h/x?per_page={size}&page={page}", smaller)
    assert address == f"http://h/x?per_page={smaller}&page={found}"
    assert (found - 1) * smaller <= (page - 1) * size < found * smaller


@pytest.mark.parametrize("status", [403, 404, 422])
def test_a_refused_page_is_an_error_and_not_the_end_of_the_list(status: int) -> None:
    with pytest.raises(RemotePermanent) as caught:
        with_list(lambda s: s.fetch(ListRequest(token="/repos/o/r/issues/comments?page=400")), answer(status, b"{}"))
    assert caught.value.status == status


def test_a_single_comment_is_requested_by_its_url() -> None:
    page, server = with_list(lambda s: s.fetch_one("7"), answer(body=json.dumps({**COMMENT, "id": 7}).encode()))
    assert server.seen[0].target == "/repos/o/r/issues/comments/7"
    assert [item.version.id for item in page.items] == [7]


def test_a_comment_counts_as_deleted_only_when_its_repository_still_exists() -> None:
    repository = answer(body=b'{"id": 1, "full_name": "o/r", "name": "r"}')
    page, server = with_list(lambda s: s.fetch_one("7"), answer(404, b"{}"), repository)
    assert (list(page.items), list(page.rejected)) == ([], [])
    assert server.seen[1].target == "/repos/o/r"


def test_a_missing_repository_does_not_count_as_a_deleted_comment() -> None:
    with pytest.raises(RemoteNotFound, match="repository o/r does not exist"):
        with_list(lambda s: s.fetch_one("7"), answer(404, b"{}"))


def test_a_quarantined_comment_that_still_cannot_be_parsed_is_rejected_again() -> None:
    page, _ = with_list(lambda s: s.fetch_one("7"), answer(body=b'{"id": 7}'))
    assert [(rejected.key, rejected.locator) for rejected in page.rejected] == [("7", "7")]


def test_rejected_items_and_pending_reviews_count_towards_a_full_page() -> None:
    raws = json.dumps([{"id": 1}, {**REVIEW, "submitted_at": None}]).encode()
    page, _ = with_list(first, answer(body=raws), build=lambda c: surfaces.reviews(c, "o/r", 12, 2))
    assert (len(page.items), len(page.rejected)) == (0, 1)
    assert page.next_token is not None


def test_a_pull_request_snapshot_is_requested_with_its_etag() -> None:
    async def do(surface: Any) -> list[Page[Any]]:
        page = await surface.fetch(ListRequest())
        return [page, await surface.fetch(ListRequest(validator=page.validator))]

    script = (answer(body=json.dumps(PULL).encode(), ETag='"one"'), answer(304, b""))
    (page, again), server = with_list(do, *script, build=lambda c: forge_lists.PullSnapshot(c, 7, 12))
    assert page.items[0].record.iid == 12
    assert again.not_modified
    assert [seen.target for seen in server.seen] == ["/repositories/7/pulls/12"] * 2


def test_a_page_carries_the_servers_clock() -> None:
    page, _ = with_list(first, answer(body=body(1), Date="Mon, 02 Mar 2026 09:00:00 GMT"))
    assert page.server_at == 1_772_442_000_000
