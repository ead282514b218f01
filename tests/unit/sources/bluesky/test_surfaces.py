"""The lists of an account as the engine reads them: where they go on, where they end, what is gone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.http.asking import ask
from tests.unit.http.wire_server import Answer, ScriptedServer, answer
from tests.unit.sources.bluesky.shapes import DID, KEY, OTHER, POSTS, REPOSTS, URI, post, view

from tidelore.core.errors import RemotePermanent
from tidelore.core.model import RemoteId
from tidelore.engine.ports import ListRequest, Page
from tidelore.engine.whole import REPEATED, read_all
from tidelore.http.client import HttpClient
from tidelore.sources.bluesky.client import XrpcClient
from tidelore.sources.bluesky.surfaces import AuthorFeed, ProfileList, RecordList


def encoded(value: Any, status: int = 200) -> bytes:
    return answer(status, json.dumps(value).encode())


def feed(*keys: str, cursor: str | None = None) -> bytes:
    items = [{"post": view(uri=f"at://{DID}/{POSTS}/{key}")} for key in keys]
    return encoded({"feed": items} | ({"cursor": cursor} if cursor is not None else {}))


def records(*keys: str, cursor: str | None = None) -> bytes:
    rows = [{"uri": f"at://{DID}/{POSTS}/{key}", "cid": "c", "value": post()} for key in keys]
    return encoded({"records": rows} | ({"cursor": cursor} if cursor is not None else {}))


def missing() -> bytes:
    return encoded({"error": "RecordNotFound", "message": "Could not locate record"}, 400)


def with_client(do: Callable[[XrpcClient], Awaitable[Any]], *script: Answer) -> tuple[Any, list[dict[str, list[str]]]]:
    async def job(http: HttpClient, _: ScriptedServer) -> Any:
        return await do(XrpcClient(http))

    result, server, _ = ask(*script, do=job, max_retries=0)
    return result, [parse_qs(urlsplit(seen.target).query) for seen in server.seen]


def lent(client: XrpcClient) -> Callable[..., Any]:
    @asynccontextmanager
    async def lend(*_: str) -> AsyncIterator[XrpcClient]:
        yield client

    return lend


def from_feed(*script: Answer, token: str | None = None, pins: bool = False) -> tuple[Page[Any], dict[str, list[str]]]:
    async def do(client: XrpcClient) -> Page[Any]:
        listed = AuthorFeed(client, lent(client), DID, per_page=7, pins=pins)
        return await listed.fetch(ListRequest(token=token))

    page, asked = with_client(do, *script)
    return page, asked[0]


def from_records(*script: Answer, token: str | None = None) -> tuple[Page[Any], dict[str, list[str]]]:
    async def do(client: XrpcClient) -> Page[Any]:
        return await RecordList(lent(client), DID, POSTS, per_page=7).fetch(ListRequest(token=token))

    page, asked = with_client(do, *script)
    return page, asked[0]


def fetch_one(locator: str, *script: Answer, repository: bool = False) -> tuple[Page[Any], list[dict[str, list[str]]]]:
    async def do(client: XrpcClient) -> Page[Any]:
        if repository:
            return await RecordList(lent(client), DID, POSTS, per_page=7).fetch_one(locator)
        return await AuthorFeed(client, lent(client), DID, per_page=7).fetch_one(locator)

    return with_client(do, *script)


def test_a_feed_is_requested_with_the_default_filter_and_without_pins() -> None:
    page, asked = from_feed(feed("a", "b", cursor="c1"))
    assert asked == {"actor": [DID], "limit": ["7"]}
    assert [item.record.uri.rpartition("/")[2] for item in page.items] == ["a", "b"]
    assert page.next_token == "c1"
    assert from_feed(feed("a"), token="opaque__ü")[1]["cursor"] == ["opaque__ü"]
    assert from_feed(feed("a"), pins=True)[1]["includePins"] == ["true"]


def test_an_empty_page_with_a_cursor_is_not_the_end() -> None:
    assert from_feed(feed(cursor="c1"))[0].next_token == "c1"
    assert from_feed(feed("a"))[0].next_token is None
    assert from_feed(feed("a", cursor=""))[0].next_token is None


def test_a_cursor_that_does_not_move_on_is_the_end() -> None:
    assert from_feed(feed("a", cursor="same"), token="same")[0].next_token is None
    assert from_records(records(*"abcdefg", cursor="same"), token="same")[0].next_token is None


def test_records_are_requested_in_creation_order_after_the_last_key() -> None:
    page, asked = from_records(records(*"bcdefgh", cursor="h"), token="a")
    assert asked == {"repo": [DID], "collection": [POSTS], "limit": ["7"], "cursor": ["a"], "reverse": ["true"]}
    assert page.next_token == "h"
    assert from_records(records(*"bcdefg", cursor="g"), token="a")[0].next_token is None, "a short page is the end"
    assert from_records(records(cursor="z"), token="a")[0].next_token is None, "an empty page of records is the end"


def test_a_visible_post_is_read_from_the_appview() -> None:
    page, asked = fetch_one(URI, encoded({"posts": [view()]}))
    assert [item.version.id for item in page.items] == [URI]
    assert asked == [{"uris": [URI]}]


def test_a_post_the_appview_hides_is_still_there_when_its_repository_has_it() -> None:
    stored = encoded({"uri": URI, "cid": "bafyone", "value": post()})
    page, asked = fetch_one(URI, encoded({"posts": []}), stored)
    assert [item.version.id for item in page.items] == [URI]
    assert asked[1] == {"repo": [DID], "collection": [POSTS], "rkey": [KEY]}


def test_a_post_counts_as_deleted_when_its_repository_does_not_have_it() -> None:
    page, _ = fetch_one(URI, encoded({"posts": []}), missing())
    assert (page.items, page.rejected) == ((), ())
    assert fetch_one(URI, missing(), repository=True)[0].items == ()


def test_a_repost_is_looked_up_in_the_repository_only() -> None:
    uri = f"at://{OTHER}/{REPOSTS}/{KEY}"
    value = {"subject": {"uri": URI, "cid": "c"}, "createdAt": "2026-03-02T09:00:00Z"}
    page, asked = fetch_one(uri, encoded({"uri": uri, "cid": "bafytwo", "value": value}))
    assert page.items[0].record.kind == "repost"
    assert asked == [{"repo": [OTHER], "collection": [REPOSTS], "rkey": [KEY]}]


@pytest.mark.parametrize("error", ["RepoNotFound", "RepoDeactivated", "RepoTakendown", "InvalidRequest"])
def test_other_errors_do_not_count_as_a_deleted_post(error: str) -> None:
    refused = encoded({"error": error, "message": "no"}, 400)
    with pytest.raises(RemotePermanent):
        fetch_one(URI, refused, repository=True)


def read_follows(*pages: dict[str, Any]) -> tuple[list[RemoteId], list[str | None]]:
    async def do(client: XrpcClient) -> list[RemoteId]:
        found = await read_all(ProfileList(partial(client.follows, DID)))
        return [item.version.id for item in found.items]

    found, asked = with_client(do, *(encoded(page) for page in pages))
    return found, [one.get("cursor", [None])[0] for one in asked]


def accounts(*names: str, cursor: str | None = None) -> dict[str, Any]:
    rows = [{"did": f"did:plc:{name}", "handle": f"{name}.test"} for name in names]
    return {"follows": rows} | ({"cursor": cursor} if cursor else {})


def test_follows_are_read_to_their_end_over_an_empty_page_until_two_passes_agree() -> None:
    one_pass = (accounts("a", "b", cursor="1"), accounts(cursor="2"), accounts("c"))
    found, asked = read_follows(*one_pass, *one_pass)
    assert found == ["did:plc:a", "did:plc:b", "did:plc:c"]
    assert asked == [None, "1", "2"] * 2
    assert read_follows(accounts("a")) == (["did:plc:a"], [None])


def test_follows_whose_pages_form_a_cycle_are_refused_and_not_read_for_ever() -> None:
    with pytest.raises(RemotePermanent) as caught:
        read_follows(accounts("a", cursor="1"), accounts("b", cursor="2"), accounts("c", cursor="1"))
    assert caught.value.reason == REPEATED


def test_an_account_that_cannot_be_parsed_is_left_out_of_its_list() -> None:
    assert read_follows({"follows": [{"did": 5}, {"did": "did:plc:a", "handle": "a.test"}]})[0] == ["did:plc:a"]


def test_a_response_of_the_wrong_shape_is_an_error_and_not_an_empty_page() -> None:
    with pytest.raises(RemotePermanent):
        from_feed(encoded({"message": "no"}))
