"""Items are split out of a page that cannot be decoded as a whole."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw, Struct

from tidelore.core.errors import RemoteTransient
from tidelore.http.response import Headers, Response, decode, mark_unreadable_items, read_marker
from tidelore.sources.items import reject

GOOD = b'{"id": 1, "text": "a, [b] \\" {c}", "more": [{"x": [1, 2]}]}'
LONE = b'{"id": 2, "iid": 7, "text": "\\ud800"}'
DEEP = b'{"id": 3, "text": ' + b"[" * 5000 + b"]" * 5000 + b"}"


class Feed(Struct):
    feed: list[Raw]
    cursor: str


def reply(body: bytes) -> Response:
    return Response(200, "https://h/list", Headers([]), body)


@pytest.mark.parametrize("bad", [LONE, DEEP], ids=["lone-surrogate", "deep-nesting"])
def test_an_unreadable_item_of_a_list_leaves_its_neighbours_readable(bad: bytes) -> None:
    items = decode(reply(b"[" + GOOD + b" , " + bad + b",\n" + GOOD + b"]\n"), msgspec.json.Decoder(list[Raw]))
    assert [bytes(item) for item in (items[0], items[2])] == [GOOD, GOOD]
    found = read_marker(bytes(items[1]))
    assert found is not None
    assert found[0].strip() == bad


def test_an_unreadable_item_of_a_list_inside_an_object_leaves_its_neighbours_and_fields_readable() -> None:
    body = b'{"cursor": "next", "feed": [' + GOOD + b"," + LONE + b"]}"
    page = decode(reply(body), msgspec.json.Decoder(Feed))
    assert (page.cursor, bytes(page.feed[0])) == ("next", GOOD)
    rejected = reject(bytes(page.feed[1]), "expected object")
    assert (rejected.key, rejected.locator, rejected.payload) == ("2", "7", LONE)
    assert rejected.error == "contains a lone surrogate"


@pytest.mark.parametrize(
    "body",
    [b"[" + LONE, b"[" + LONE + b",", b"[" + LONE + b"}", b"[" + LONE + b'] "', b'["' + LONE, b"", b"[]]", b"<html>"],
)
def test_a_document_that_is_not_whole_is_asked_for_again(body: bytes) -> None:
    assert mark_unreadable_items(body) is None
    with pytest.raises(RemoteTransient):
        decode(reply(body), msgspec.json.Decoder(list[Raw]))


def test_a_text_that_only_looks_like_a_marker_is_an_item_like_any_other() -> None:
    assert read_marker(b'"tidelore:unreadable:***"') is None
    assert read_marker(GOOD) is None


def test_an_item_nested_too_deeply_is_quarantined_under_its_own_id() -> None:
    deep = b"[" * 50_000 + b'"]"' + b"]" * 50_000
    body = b'[{"a": {"id": 1, "iid": 1}, "id": 7, "deep": ' + deep + b', "b": "[{", "iid": 3}, {"id": 8}]'
    spoilt = mark_unreadable_items(body)
    assert spoilt is not None
    first, _ = msgspec.json.decode(spoilt, type=list[Raw])
    rejected = reject(bytes(first), "")
    assert (rejected.key, rejected.locator, rejected.error) == ("7", "3", "nested too deeply")
