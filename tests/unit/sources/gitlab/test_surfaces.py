"""The lists of a project as the engine reads them: how they are asked for, and how the next page is known."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.http.asking import ask
from tests.unit.http.wire_server import Answer, ScriptedServer, Seen, answer

from tidelore.core.errors import FeatureDisabled, RemoteNotFound, RemotePermanent, RemoteTransient
from tidelore.engine.cursor import Validator
from tidelore.engine.ports import ListRequest, Page
from tidelore.http.client import HttpClient
from tidelore.sources.gitlab.client import GitLabClient
from tidelore.sources.gitlab.surfaces import ProjectList, issue_list, merge_request_list

SINCE = 1_772_442_000_123


def item(number: int) -> dict[str, Any]:
    return {
        "id": 100 + number,
        "iid": number,
        "title": "T",
        "state": "opened",
        "created_at": f"2026-03-02T08:00:{number:02d}Z",
        "updated_at": f"2026-03-02T09:00:{number:02d}Z",
    }


def body(*numbers: int) -> bytes:
    return json.dumps([item(number) for number in numbers]).encode()


def with_list(
    do: Callable[[ProjectList[Any]], Awaitable[Any]],
    *script: Answer,
    build: Callable[..., ProjectList[Any]] = issue_list,
    **options: Any,
) -> tuple[Any, ScriptedServer]:
    async def job(http: HttpClient, _: ScriptedServer) -> Any:
        return await do(build(GitLabClient(http), 42, **{"per_page": 2, **options}))

    result, server, _ = ask(*script, do=job, max_retries=0)
    return result, server


def first(surface: ProjectList[Any]) -> Awaitable[Page[Any]]:
    return surface.fetch(ListRequest())


def query(seen: Seen) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(seen.target).query).items()}


@pytest.mark.parametrize(("build", "name"), [(issue_list, "issues"), (merge_request_list, "merge_requests")])
def test_a_walk_requests_all_states_in_order_of_update(build: Callable[..., Any], name: str) -> None:
    _, server = with_list(lambda s: s.fetch(ListRequest(since=SINCE)), answer(body=body(1)), build=build)
    assert urlsplit(server.seen[0].target).path == f"/api/v4/projects/42/{name}"
    assert query(server.seen[0]) == {
        "scope": "all",
        "state": "all",
        "order_by": "updated_at",
        "sort": "asc",
        "per_page": "2",
        "updated_after": "2026-03-02T09:00:00.123Z",
    }


def test_a_first_scan_is_requested_without_updated_after() -> None:
    _, server = with_list(first, answer(body=body(1)))
    assert "updated_after" not in query(server.seen[0])


def test_a_scrub_list_is_requested_and_positioned_by_creation_time() -> None:
    page, server = with_list(lambda s: s.fetch(ListRequest(since=SINCE)), answer(body=body(1)), by_creation=True)
    asked = query(server.seen[0])
    assert (asked["order_by"], asked["created_after"]) == ("created_at", "2026-03-02T09:00:00.123Z")
    assert "updated_after" not in asked
    assert page.items[0].at == page.items[0].record.created_at


def test_the_servers_next_link_is_followed_unchanged() -> None:
    async def do(surface: ProjectList[Any]) -> list[Page[Any]]:
        pages = [await surface.fetch(ListRequest())]
        pages.append(await surface.fetch(ListRequest(token=pages[0].next_token)))
        return pages

    link = '</api/v4/projects/42/issues?page=2&cursor=opaque%2B>; rel="next"'
    (one, two), server = with_list(do, answer(body=body(1, 2), Link=link), answer(body=body(3), X_Next_Page=""))
    assert server.seen[1].target == "/api/v4/projects/42/issues?page=2&cursor=opaque%2B"
    assert [i.version.id for i in (*one.items, *two.items)] == [101, 102, 103]
    assert two.next_token is None


@pytest.mark.parametrize(
    ("headers", "numbers", "page"),
    [
        ({"X_Next_Page": "2"}, (1,), "2"),
        ({"X_Next_Page": ""}, (1, 2), None),
        ({}, (1, 2), "2"),
        ({}, (1,), None),
        ({}, (), None),
    ],
)
def test_without_a_next_link_x_next_page_and_then_a_full_page_decide(
    headers: dict[str, str], numbers: tuple[int, ...], page: str | None
) -> None:
    found, _ = with_list(first, answer(body=body(*numbers), headers=headers))
    told = found.next_token and parse_qs(urlsplit(found.next_token).query)["page"][0]
    assert told == page


@pytest.mark.parametrize("headers", [{}, {"X_Next_Page": "2"}])
def test_a_next_link_to_another_origin_is_ignored_and_the_walk_continues(headers: dict[str, str]) -> None:
    link = '<http://127.0.0.1:9/steal?page=2>; rel="next"'
    found, server = with_list(first, answer(body=body(1, 2), Link=link, headers=headers))
    assert found.next_token is not None
    assert found.next_token.startswith(f"{server.url}/api/v4/projects/42/issues?")
    assert found.next_token.endswith("page=2")


def test_a_next_link_to_another_origin_on_a_short_page_ends_the_walk() -> None:
    link = '<http://127.0.0.1:9/steal?page=2>; rel="next"'
    found, _ = with_list(first, answer(body=body(1), Link=link))
    assert found.next_token is None


def test_rejected_items_count_towards_a_full_page() -> None:
    found, _ = with_list(first, answer(body=b"[null, " + body(1)[1:]))
    assert (len(found.items), len(found.rejected)) == (1, 1)
    assert found.next_token is not None


def test_keyset_pagination_is_requested_and_given_up_permanently_when_refused() -> None:
    async def do(surface: ProjectList[Any]) -> Page[Any]:
        await surface.fetch(ListRequest())
        return await surface.fetch(ListRequest(since=SINCE))

    refusal = answer(405, b'{"error": "no keyset here"}')
    page, server = with_list(do, refusal, answer(body=body(1)), keyset=True)
    assert [query(seen).get("pagination") for seen in server.seen] == ["keyset", None, None]
    assert len(page.items) == 1


def test_other_errors_of_a_keyset_page_are_raised() -> None:
    with pytest.raises(RemotePermanent) as caught:
        with_list(first, answer(403, b"{}"), answer(body=body(1)), keyset=True)
    assert caught.value.status == 403


def test_an_etag_is_sent_only_for_the_url_it_came_from() -> None:
    async def do(surface: ProjectList[Any]) -> list[Page[Any]]:
        page = await surface.fetch(ListRequest())
        same = await surface.fetch(ListRequest(validator=page.validator))
        other = await surface.fetch(ListRequest(since=SINCE, validator=page.validator))
        return [page, same, other]

    script = (answer(body=body(1), ETag='"one"'), answer(304, b""), answer(body=body(1)))
    (page, same, other), server = with_list(do, *script)
    assert page.validator == Validator(f"{server.url}{server.seen[0].target}", '"one"')
    assert [seen.headers.get("if-none-match") for seen in server.seen] == [None, '"one"', None]
    assert same.not_modified
    assert not same.items
    assert not other.not_modified
    assert len(other.items) == 1


def test_an_etag_of_another_url_is_never_sent() -> None:
    stranger = Validator("http://127.0.0.1:9/api/v4/projects/42/issues", '"theirs"')
    _, server = with_list(lambda s: s.fetch(ListRequest(validator=stranger)), answer(body=body(1)))
    assert "if-none-match" not in server.seen[0].headers


def test_a_page_without_an_etag_gives_no_validator() -> None:
    page, _ = with_list(first, answer(body=body(1)))
    assert page.validator is None


def test_a_full_page_gives_no_validator() -> None:
    # Its ETag is blind to the page after it.
    page, _ = with_list(first, answer(body=body(1, 2), ETag='"one"'))
    assert page.validator is None


def test_a_page_carries_the_servers_clock() -> None:
    page, _ = with_list(first, answer(body=body(1), Date="Mon, 02 Mar 2026 09:00:00 GMT"))
    assert page.server_at == 1_772_442_000_000


def test_a_single_item_is_read_through_the_list_endpoint() -> None:
    page, server = with_list(lambda s: s.fetch_one("3"), answer(body=body(3)))
    assert query(server.seen[0]) == {"scope": "all", "state": "all", "iids[]": "3"}
    assert [found.version.id for found in page.items] == [103]
    assert len(server.seen) == 1


def test_an_item_counts_as_deleted_when_missing_from_the_list_and_its_own_url() -> None:
    page, server = with_list(lambda s: s.fetch_one("3"), answer(body=b"[]"), answer(404, b"{}"), answer(body=body(1)))
    assert (list(page.items), list(page.rejected)) == ([], [])
    assert server.seen[1].target == "/api/v4/projects/42/issues/3"
    assert query(server.seen[2]) == {"scope": "all", "state": "all", "per_page": "1"}


@pytest.mark.parametrize(
    ("features", "hidden"),
    [
        ({"issues_enabled": False, "issues_access_level": "disabled"}, True),
        ({"issues_enabled": False, "issues_access_level": "private"}, True),
        ({"issues_enabled": True, "issues_access_level": "private"}, False),
        ({"issues_enabled": True, "merge_requests_enabled": False}, False),
        ({}, True),
    ],
)
def test_an_item_of_a_kind_that_its_project_hides_does_not_count_as_deleted(
    features: dict[str, Any], hidden: bool
) -> None:
    empty = answer(body=b"[]")
    script = empty, answer(404, b"{}"), empty, answer(body=json.dumps(features).encode())
    if not hidden:
        page, _ = with_list(lambda s: s.fetch_one("3"), *script)
        assert not page.items
        return
    with pytest.raises(FeatureDisabled):
        with_list(lambda s: s.fetch_one("3"), *script)


def test_not_found_for_the_whole_project_does_not_count_as_a_deleted_item() -> None:
    with pytest.raises(RemoteNotFound):
        with_list(lambda s: s.fetch_one("3"), answer(404, b"{}"), answer(404, b"{}"))


def test_an_item_missing_from_the_list_but_found_by_url_is_not_deleted() -> None:
    with pytest.raises(RemoteTransient):
        with_list(lambda s: s.fetch_one("3"), answer(body=b"[]"), answer(body=b"{}"))


def test_other_items_returned_by_a_server_that_ignores_the_filter_are_dropped() -> None:
    page, _ = with_list(lambda s: s.fetch_one("3"), answer(body=body(1, 3)))
    assert [found.record.iid for found in page.items] == [3]


@pytest.mark.parametrize("script", [[answer(403, b"{}")], [answer(body=b"[]"), answer(403, b"{}")]])
def test_a_forbidden_item_does_not_count_as_deleted(script: list[bytes]) -> None:
    with pytest.raises(RemotePermanent):
        with_list(lambda s: s.fetch_one("3"), *script)


def test_a_quarantined_item_that_still_cannot_be_parsed_is_rejected_again() -> None:
    page, _ = with_list(lambda s: s.fetch_one("3"), answer(body=b'[{"id": 103, "iid": 3}]'))
    assert [rejected.key for rejected in page.rejected] == ["103"]


def test_a_truncated_list_response_is_not_a_short_page() -> None:
    with pytest.raises(RemoteTransient):
        with_list(first, answer(body=body(1, 2)[:-1]))
