"""From the network's payloads to posts: what kind, at which place, in which version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sources.bluesky.shapes import (
    AT,
    AT_MS,
    DID,
    KEY,
    OTHER,
    POSTS,
    REPOSTS,
    URI,
    post,
    raw,
    repost_reason,
    view,
)

from tidelore.core.model import Item, PostRecord
from tidelore.sources.bluesky.payloads import split_uri, tid_instant, web_address
from tidelore.sources.bluesky.transform import read_feed, read_records


def of_feed(item: Any) -> Item[PostRecord]:
    found = read_feed([raw(item)])
    assert not found.rejected, found.rejected
    return found.items[0]


def of_repository(value: Any, uri: str = URI, server_at: int | None = None, cid: str = "bafyone") -> Item[PostRecord]:
    found = read_records([raw({"uri": uri, "cid": cid, "value": value})], server_at)
    assert not found.rejected, found.rejected
    return found.items[0]


def test_a_post_of_a_feed_keeps_all_fields() -> None:
    item = of_feed({"post": view()})
    assert item.record == PostRecord(
        uri=URI,
        cid="bafyone",
        kind="post",
        author_did=DID,
        author_handle="ada.example",
        text="hello",
        langs=("en",),
        reply_parent=None,
        reply_root=None,
        quoted_uri=None,
        subject_uri=None,
        created_at=AT_MS,
        indexed_at=AT_MS,
        sort_at=AT_MS,
        links=(),
        url=f"https://bsky.app/profile/{DID}/post/{KEY}",
        embed_kind=None,
    )


@pytest.mark.parametrize(
    ("created", "indexed", "place"),
    [
        ("2020-01-01T00:00:00.000Z", AT, 1_577_836_800_000),
        ("2099-01-01T00:00:00.000Z", AT, AT_MS),
        (AT, "2026-03-02T09:00:05.000Z", AT_MS),
        ("2026-03-02T10:00:00+01:00", AT, AT_MS),
        ("1969-07-20T20:17:40Z", AT, 0),
        ("0001-01-01T00:00:00.000Z", AT, 0),
    ],
)
def test_a_post_is_dated_by_the_earlier_of_creation_and_indexing(created: str, indexed: str, place: int) -> None:
    item = of_feed({"post": view(post() | {"createdAt": created}, indexedAt=indexed)})
    assert (item.at, item.record.sort_at) == (place, place)


@pytest.mark.parametrize("bad", ["", "yesterday", "2026-03-02", "2026-03-02T09:00:00", "1969-99-99T00:00:00Z", "1969-"])
def test_an_unreadable_date_rejects_only_that_item(bad: str) -> None:
    found = read_feed([raw({"post": view(post() | {"createdAt": bad})}), raw({"post": view()})])
    assert [item.version.id for item in found.items] == [URI]
    (rejected,) = found.rejected
    assert (rejected.key, rejected.locator) == (URI, URI)
    assert "createdAt" in rejected.error


def test_a_repost_has_its_own_uri_and_time() -> None:
    both = read_feed([raw({"post": view(), "reason": repost_reason()}), raw({"post": view()})])
    repost, original = both.items
    assert (repost.version.id, original.version.id) == (f"at://{OTHER}/{REPOSTS}/{KEY}", URI)
    record = repost.record
    assert (record.kind, record.subject_uri, record.cid) == ("repost", URI, "bafytwo")
    assert (record.author_did, record.author_handle) == (OTHER, "bo.example")
    assert record.text == "hello"
    assert repost.at == record.sort_at == AT_MS + 3_600_000
    assert record.url == f"https://bsky.app/profile/{DID}/post/{KEY}"
    assert both.pinned == set()


@pytest.mark.parametrize("missing", ["uri", "by", "indexedAt"])
def test_a_repost_without_its_own_uri_or_time_is_rejected(missing: str) -> None:
    reason = {name: value for name, value in repost_reason().items() if name != missing}
    found = read_feed([raw({"post": view(), "reason": reason})])
    assert found.items == []
    assert "reason" in found.rejected[0].error


def test_a_pinned_post_is_a_post_marked_as_pinned() -> None:
    found = read_feed([raw({"post": view(), "reason": {"$type": "app.bsky.feed.defs#reasonPin"}})])
    assert found.pinned == {URI}
    assert found.items[0].record.kind == "post"


QUOTED = {"uri": f"at://{OTHER}/{POSTS}/3abc", "cid": "c"}


@pytest.mark.parametrize(
    ("more", "kind", "embed_kind"),
    [
        ({}, "post", None),
        ({"reply": {"root": {"uri": "at://r", "cid": "c"}, "parent": {"uri": "at://p", "cid": "c"}}}, "reply", None),
        ({"embed": {"$type": "app.bsky.embed.record", "record": QUOTED}}, "quote", "record"),
        (
            {
                "embed": {
                    "$type": "app.bsky.embed.recordWithMedia",
                    "record": {"$type": "app.bsky.embed.record", "record": QUOTED},
                    "media": {"$type": "app.bsky.embed.images", "images": []},
                }
            },
            "quote",
            "recordWithMedia",
        ),
        (
            {"embed": {"$type": "app.bsky.embed.record", "record": {"uri": f"at://{OTHER}/app.bsky.graph.list/1"}}},
            "post",
            "record",
        ),
        ({"embed": {"$type": "app.bsky.embed.images", "images": []}}, "post", "images"),
        ({"embed": {"$type": "app.bsky.embed.video", "video": {}}}, "post", "video"),
    ],
)
def test_replies_and_quotes_are_distinguished_from_posts(
    more: dict[str, Any], kind: str, embed_kind: str | None
) -> None:
    record = of_feed({"post": view(post(**more))}).record
    assert (record.kind, record.embed_kind) == (kind, embed_kind)
    assert (record.quoted_uri == QUOTED["uri"]) is (kind == "quote")
    assert (record.reply_root, record.reply_parent) == (("at://r", "at://p") if kind == "reply" else (None, None))


def test_a_post_has_the_same_version_from_feed_and_repository_and_an_edit_a_new_one() -> None:
    feed = of_feed({"post": view(indexedAt="2026-03-02T09:30:00Z", likeCount=9)})
    repository = of_repository(post())
    assert feed.version == repository.version
    edited = of_repository(post("changed"), cid="bafyother")
    assert (edited.version.id, edited.version.updated_at) == (feed.version.id, feed.version.updated_at)
    assert edited.version.digest != feed.version.digest
    backdated = of_repository(post() | {"createdAt": "2020-01-01T00:00:00Z"})
    assert backdated.version == feed.version, "only the content tells versions apart"


def test_a_repost_has_the_same_version_from_feed_and_repository() -> None:
    feed = of_feed({"post": view(), "reason": repost_reason()})
    value = {"$type": REPOSTS, "subject": {"uri": URI, "cid": "bafyone"}, "createdAt": "2026-03-02T09:59:58Z"}
    repository = of_repository(value, f"at://{OTHER}/{REPOSTS}/{KEY}", cid="bafytwo")
    assert repository.version == feed.version
    assert (repository.record.kind, repository.record.subject_uri) == ("repost", URI)
    assert (repository.record.text, repository.record.links) == ("", ())


def test_a_record_is_dated_by_its_key_and_not_by_its_claimed_date() -> None:
    written = tid_instant(KEY)
    assert written is not None
    item = of_repository(post() | {"createdAt": "2020-01-01T00:00:00Z"})
    assert item.at == written
    assert item.record.sort_at == 1_577_836_800_000
    assert of_repository(post() | {"createdAt": "2099-01-01T00:00:00Z"}).record.sort_at == written


@pytest.mark.parametrize("key", ["self", "jzzzzzzzzzzzz", "zzzzzzzzzzzzz", "3MF4IV3DM6E22"])
def test_a_key_without_a_plausible_time_falls_back_to_the_records_date(key: str) -> None:
    item = of_repository(post(), f"at://{DID}/{POSTS}/{key}", server_at=AT_MS + 1000)
    assert item.at == AT_MS
    future = of_repository(post() | {"createdAt": "2099-01-01T00:00:00Z"}, f"at://{DID}/{POSTS}/{key}", AT_MS)
    assert future.at == AT_MS, "a place ahead of the server's clock would spoil the watermark"


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (None, False),
        ("text", False),
        ([], False),
        ({}, False),
        ({"post": None}, False),
        ({"post": {"uri": URI}}, True),
        ({"post": view() | {"cid": None}}, True),
        ({"post": view() | {"record": {"text": "no date"}}}, True),
        ({"post": view(post(5))}, True),  # type: ignore[arg-type]
        ({"post": view(post("nul \x00 inside"))}, True),
        ({"post": view(uri="https://example.com/")}, False),
        ({"post": view(uri=f"at://{DID}/{POSTS}")}, True),
    ],
)
def test_an_item_that_cannot_be_parsed_is_rejected_and_the_others_are_kept(bad: Any, named: bool) -> None:
    found = read_feed([raw({"post": view()}), raw(bad), raw({"post": view(uri=f"{URI}x")})])
    assert [item.version.id for item in found.items] == [URI, f"{URI}x"]
    (rejected,) = found.rejected
    assert rejected.payload == bytes(raw(bad))
    assert (rejected.locator is not None) is named
    assert rejected.key == (rejected.locator or rejected.key)
    assert rejected.key.startswith("at://" if named else "content:")


def test_a_nul_character_in_a_link_card_is_refused() -> None:
    card = {"uri": "https://a.example/", "title": "nul \x00", "description": ""}
    shown = {"post": view(post(embed={"$type": "app.bsky.embed.external", "external": card}))}
    assert "NUL" in read_feed([raw(shown)]).rejected[0].error


@pytest.mark.parametrize(
    "odd",
    [
        {"facets": "none"},
        {"facets": [None, {"index": {}}, 7]},
        {"facets": [{"index": {"byteStart": -4, "byteEnd": 9999}, "features": [{"$type": 3}]}]},
        {"embed": 7},
        {"embed": {"$type": 1}},
        {"embed": {"$type": "app.bsky.embed.external", "external": {"uri": 5}}},
        {"langs": "en"},
        {"langs": [1]},
        {"facets": None, "embed": None, "langs": None, "reply": None},
    ],
)
def test_malformed_optional_fields_do_not_reject_the_post(odd: dict[str, Any]) -> None:
    record = of_repository(post("still https://a.example/ here") | odd).record
    assert record.text.startswith("still")
    assert [link.url for link in record.links] == ["https://a.example/"]


def test_a_record_key_decodes_to_its_time() -> None:
    from tidelore_world.bluesky.ids import tid_of

    assert tid_instant(tid_of(AT_MS * 1000 + 999)) == AT_MS
    assert tid_instant("222222222222") is None
    assert tid_instant("k222222222222") is None


@pytest.mark.parametrize("bad", ["", "at://", f"at://{DID}", f"at://ada.example/{POSTS}/1", f"https://{DID}/{POSTS}/1"])
def test_only_record_uris_with_a_did_are_accepted(bad: str) -> None:
    with pytest.raises(ValueError, match="address of a record"):
        split_uri(bad)
    assert web_address(split_uri(f"at://{DID}/{REPOSTS}/1")) is None
