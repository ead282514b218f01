"""The links of a post: from facets, which count bytes, from cards, and from plain text."""

from __future__ import annotations

from typing import Any

from tests.unit.sources.bluesky.shapes import link_facet, post, raw, view

from tidelore.core.model import LinkRecord
from tidelore.sources.bluesky.transform import read_feed


def links(record: dict[str, Any], **more: Any) -> tuple[LinkRecord, ...]:
    (item,) = read_feed([raw({"post": view(record, **more)})]).items
    return item.record.links


def external(uri: str, **more: Any) -> dict[str, Any]:
    return {"$type": "app.bsky.embed.external", "external": {"uri": uri, "title": "T", "description": "D", **more}}


def test_a_facet_gives_the_full_link_and_its_shortened_caption_is_not_a_link() -> None:
    text = "Größe 🚢 https://a.example/a-very-lo... und https://b.example/x"
    facet = link_facet(text, "https://a.example/a-very-lo...", "https://a.example/a-very-long-page")
    found = links(post(text, facets=[facet]))
    assert [link.url for link in found] == ["https://a.example/a-very-long-page", "https://b.example/x"]
    assert found[0].raw == "https://a.example/a-very-long-page"


def test_facet_offsets_are_bytes_and_not_characters() -> None:
    # By characters the span would end inside the second address and leave a false third one.
    text = "ääääääääää https://a.example/1 https://b.example/2"
    found = links(post(text, facets=[link_facet(text, "https://a.example/1", "https://real.example/1")]))
    assert [link.url for link in found] == ["https://real.example/1", "https://b.example/2"]


def test_mentions_and_tags_are_not_links() -> None:
    text = "hi @ada.example #tag"
    features = [
        {"$type": "app.bsky.richtext.facet#mention", "did": "did:plc:x"},
        {"$type": "app.bsky.richtext.facet#tag", "tag": "tag"},
    ]
    facets = [{"index": {"byteStart": 0, "byteEnd": 5}, "features": [feature]} for feature in features]
    assert links(post(text, facets=facets)) == ()


def test_the_same_address_in_text_facet_and_card_is_one_link_with_the_cards_title() -> None:
    text = "https://A.example/x?utm_source=me and https://a.example/x#part"
    facet = link_facet(text, "https://A.example/x?utm_source=me", "https://A.example/x?utm_source=me")
    record = post(text, facets=[facet], embed=external("https://a.example/x?fbclid=1"))
    shown = {"$type": "app.bsky.embed.external#view"} | {
        "external": external("https://a.example/x?fbclid=1", thumb="https://cdn.example/1.jpg")["external"]
    }
    assert links(record, embed=shown) == (
        LinkRecord("https://a.example/x", "https://A.example/x?utm_source=me", "T", "D", "https://cdn.example/1.jpg"),
    )


def test_a_card_beside_a_quoted_post_is_a_link_too() -> None:
    quoted = {"$type": "app.bsky.embed.record", "record": {"uri": "at://did:plc:x/app.bsky.feed.post/1", "cid": "c"}}
    both = {"$type": "app.bsky.embed.recordWithMedia", "record": quoted, "media": external("https://a.example/")}
    assert [(link.url, link.title) for link in links(post(embed=both))] == [("https://a.example/", "T")]


def test_the_thumbnail_blob_of_a_card_is_not_a_link() -> None:
    blob = {"$type": "blob", "ref": {"$link": "bafk"}, "mimeType": "image/jpeg", "size": 1}
    (link,) = links(post(embed=external("https://a.example/", thumb=blob, title="", description="")))
    assert (link.thumb, link.title, link.description) == (None, None, None)


def test_text_that_is_not_a_web_address_is_not_a_link() -> None:
    text = "mail me"
    facet = link_facet(text, "mail", "mailto:ada@example.com")
    assert links(post(text, facets=[facet], embed=external("at://did:plc:x/app.bsky.feed.post/1"))) == ()


def test_links_of_a_quoted_post_are_not_counted() -> None:
    quoted = {"$type": "app.bsky.embed.record", "record": {"uri": "at://did:plc:x/app.bsky.feed.post/1", "cid": "c"}}
    shown = {
        "$type": "app.bsky.embed.record#view",
        "record": {"$type": "x", "uri": "at://x", "value": post("https://theirs.example/")},
    }
    assert links(post("mine", embed=quoted), embed=shown) == ()
