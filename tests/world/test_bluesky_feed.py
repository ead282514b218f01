"""The author feed of the simulated Bluesky behaves as remote-facts.md says the real one does."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from tidelore_world.bluesky import BlueskyForge
from tidelore_world.clock import SECOND_US, iso_millis
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

FORMS = pytest.mark.parametrize("form", ["millis__cid", "iso"])


@pytest.fixture
def world() -> World:
    return World(seed=3)


@pytest.fixture
def forge(world: World) -> BlueskyForge:
    forge: BlueskyForge = world.bluesky
    for name in ("mira", "tobias"):
        forge.create_account(f"{name}.harborline.example", name.title())
    return forge


MIRA, TOBIAS = "mira.harborline.example", "tobias.harborline.example"


def call(forge: BlueskyForge, method: str, **params: Any) -> Response:
    found = forge.route(Request.build("GET", f"/xrpc/{method}?{urlencode(params)}"))
    assert found is not None
    return found[1]()


def page(forge: BlueskyForge, actor: str = MIRA, **params: Any) -> dict[str, Any]:
    response = call(forge, "app.bsky.feed.getAuthorFeed", actor=actor, **params)
    assert response.status == 200, response.body
    answer: dict[str, Any] = json.loads(response.body)
    return answer


def uris(answer: dict[str, Any]) -> list[str]:
    return [item["post"]["uri"] for item in answer["feed"]]


def walk(forge: BlueskyForge, actor: str = MIRA, **params: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = page(forge, actor, **params, **cursor)
        items += answer["feed"]
        if "cursor" not in answer:
            return items
        cursor = {"cursor": answer["cursor"]}


def write(world: World, forge: BlueskyForge, count: int, actor: str = MIRA) -> list[str]:
    made = []
    for index in range(count):
        world.advance(60)
        made.append(forge.post(actor, f"post {index}").uri)
    return made


def test_the_feed_is_newest_first_and_holds_50_items_by_default(world: World, forge: BlueskyForge) -> None:
    made = write(world, forge, 60)
    assert uris(page(forge)) == made[:9:-1]
    assert uris(page(forge, limit=2)) == [made[59], made[58]]


@pytest.mark.parametrize("limit", ["0", "101", "many"])
def test_limits_outside_1_to_100_are_invalid(forge: BlueskyForge, limit: str) -> None:
    response = call(forge, "app.bsky.feed.getAuthorFeed", actor=MIRA, limit=limit)
    assert (response.status, json.loads(response.body)["error"]) == (400, "InvalidRequest")


@FORMS
def test_the_cursor_pages_only_into_the_past(world: World, forge: BlueskyForge, form: Any) -> None:
    forge.settings.cursor_format = form
    old = write(world, forge, 4)
    cursor = page(forge, limit=2)["cursor"]
    write(world, forge, 3)
    assert uris(page(forge, cursor=cursor)) == [old[1], old[0]]


def test_cursors_have_the_two_known_forms(world: World, forge: BlueskyForge) -> None:
    write(world, forge, 2)
    assert re.fullmatch(r"\d{13}__bafyrei[a-z2-7]+", page(forge, limit=1)["cursor"])
    forge.settings.cursor_format = "iso"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", page(forge, limit=1)["cursor"])


@FORMS
@pytest.mark.parametrize("cursor", ["nonsense", "12__", "2026-13-40"])
def test_a_malformed_cursor_answers_500(forge: BlueskyForge, form: Any, cursor: str) -> None:
    forge.settings.cursor_format = form
    response = call(forge, "app.bsky.feed.getAuthorFeed", actor=MIRA, cursor=cursor)
    assert response.status == 500


def test_a_cursor_of_the_other_format_is_malformed(world: World, forge: BlueskyForge) -> None:
    write(world, forge, 2)
    cursor = page(forge, limit=1)["cursor"]
    forge.settings.cursor_format = "iso"
    assert call(forge, "app.bsky.feed.getAuthorFeed", actor=MIRA, cursor=cursor).status == 500


@FORMS
@pytest.mark.parametrize("limit", [1, 3, 7])
def test_20_posts_with_one_createdat_are_paged_without_loss(
    world: World, forge: BlueskyForge, form: Any, limit: int
) -> None:
    forge.settings.cursor_format = form
    before = forge.post(MIRA, "before").uri
    world.advance(1)
    made = {forge.post(MIRA, f"post {index}", created_at="2026-03-02T08:59:59.500Z").uri for index in range(20)}
    walked = [item["post"]["uri"] for item in walk(forge, limit=limit)]
    assert len(walked) == 21
    assert set(walked) == made | {before}


def test_a_post_dated_2020_sinks_to_the_bottom(world: World, forge: BlueskyForge) -> None:
    made = write(world, forge, 3)
    backdated = forge.post(MIRA, "I wrote this long ago", created_at="2020-01-01T00:00:00.000Z").uri
    assert uris(page(forge)) == [*made[::-1], backdated]


def test_a_post_dated_2099_sits_at_its_index_time(world: World, forge: BlueskyForge) -> None:
    dated = forge.post(MIRA, "From tomorrow", created_at="2099-01-01T00:00:00.000Z")
    later = write(world, forge, 2)
    answer = page(forge)
    assert uris(answer) == [*later[::-1], dated.uri]
    assert answer["feed"][2]["post"]["record"]["createdAt"] == "2099-01-01T00:00:00.000Z"
    assert answer["feed"][2]["post"]["indexedAt"] == iso_millis(dated.indexed_us)


def test_reposts_are_ordered_by_their_own_time_and_show_the_original_post(world: World, forge: BlueskyForge) -> None:
    (theirs,) = write(world, forge, 1, TOBIAS)
    first, second = write(world, forge, 2)
    world.advance(1)
    reposted = forge.repost(MIRA, theirs)
    world.advance(60)
    third = forge.post(MIRA, "later").uri
    answer = page(forge)
    assert uris(answer) == [third, theirs, second, first]
    item = answer["feed"][1]
    assert item["post"]["author"]["handle"] == TOBIAS
    assert item["reason"]["$type"] == "app.bsky.feed.defs#reasonRepost"
    assert item["reason"]["uri"] == reposted.uri
    assert item["reason"]["indexedAt"] == iso_millis(reposted.indexed_us)
    assert item["reason"]["by"]["handle"] == MIRA


def test_reposting_ones_own_post_shows_one_uri_twice(world: World, forge: BlueskyForge) -> None:
    (mine,) = write(world, forge, 1)
    world.advance(60)
    forge.repost(MIRA, mine)
    answer = page(forge)
    assert uris(answer) == [mine, mine]
    assert ["reason" in item for item in answer["feed"]] == [True, False]


def test_an_empty_page_with_a_cursor_is_not_the_end(world: World, forge: BlueskyForge) -> None:
    made = write(world, forge, 6)
    for uri in made[2:4]:
        forge.hide(uri)
    first = page(forge, limit=2)
    second = page(forge, limit=2, cursor=first["cursor"])
    assert second["feed"] == []
    third = page(forge, limit=2, cursor=second["cursor"])
    assert uris(third) == [made[1], made[0]]
    assert page(forge, limit=2, cursor=third["cursor"]) == {"feed": []}


def test_a_feed_may_end_early_without_a_cursor(world: World, forge: BlueskyForge) -> None:
    made = write(world, forge, 8)
    forge.settings.feed_depth[forge.network.account(MIRA).did] = 5
    first = page(forge, limit=3)
    assert uris(first) == made[:4:-1]
    last = page(forge, limit=3, cursor=first["cursor"])
    assert uris(last) == [made[4], made[3]]
    assert "cursor" not in last
    forge.settings.feed_depth.clear()
    assert [item["post"]["uri"] for item in walk(forge, limit=2)] == made[::-1]


def test_pins_are_included_only_on_request_on_the_first_page_above_the_limit(world: World, forge: BlueskyForge) -> None:
    made = write(world, forge, 5)
    forge.pin(MIRA, made[0])
    assert uris(page(forge, limit=2)) == [made[4], made[3]]
    first = page(forge, limit=2, includePins="true")
    assert uris(first) == [made[0], made[4], made[3]]
    assert first["feed"][0]["reason"] == {"$type": "app.bsky.feed.defs#reasonPin"}
    second = page(forge, limit=2, includePins="true", cursor=first["cursor"])
    assert uris(second) == [made[2], made[1]]


def test_author_threads_drop_a_self_reply_whose_parent_is_on_another_page(world: World, forge: BlueskyForge) -> None:
    (root,) = write(world, forge, 1)
    write(world, forge, 2)
    world.advance(60)
    answer = forge.post(MIRA, "and one more thing", reply_to=root).uri
    everything = [item["post"]["uri"] for item in walk(forge, limit=2)]
    threads = [item["post"]["uri"] for item in walk(forge, limit=2, filter="posts_and_author_threads")]
    assert answer in everything
    assert answer not in threads
    assert answer in uris(page(forge, filter="posts_and_author_threads")), "with its parent on the same page"


def test_filters_exclude_replies_and_posts_without_media(world: World, forge: BlueskyForge) -> None:
    (root,) = write(world, forge, 1)
    world.advance(1)
    reply = forge.post(MIRA, "a reply", reply_to=root).uri
    world.advance(1)
    picture = forge.post(MIRA, "a picture", images=("A crane at dusk",)).uri
    assert uris(page(forge)) == [picture, reply, root]
    assert uris(page(forge, filter="posts_no_replies")) == [picture, root]
    assert uris(page(forge, filter="posts_with_media")) == [picture]
    assert call(forge, "app.bsky.feed.getAuthorFeed", actor=MIRA, filter="other").status == 400


def test_deleted_posts_disappear_from_the_feed(world: World, forge: BlueskyForge) -> None:
    first, second = write(world, forge, 2)
    forge.repost(TOBIAS, second)
    forge.delete(second)
    assert uris(page(forge)) == [first]
    assert uris(page(forge, TOBIAS)) == [], "a repost of nothing is not shown"


def test_an_edit_keeps_uri_and_position_with_a_new_cid(world: World, forge: BlueskyForge) -> None:
    made = write(world, forge, 3)
    before = page(forge)["feed"][1]["post"]
    forge.edit(made[1], "Corrected, see https://harborline.example/log")
    after = page(forge)["feed"][1]["post"]
    assert (after["uri"], after["record"]["text"][:9]) == (before["uri"], "Corrected")
    assert after["cid"] != before["cid"]
    assert after["record"]["facets"][0]["features"][0]["uri"] == "https://harborline.example/log"


def test_walking_the_feed_returns_every_post(world: World, forge: BlueskyForge) -> None:
    theirs = write(world, forge, 3, TOBIAS)
    write(world, forge, 20)
    for uri in theirs:
        forge.repost(MIRA, uri)
    assert walk(forge, limit=7) == forge.truth_feed(MIRA)


def test_facet_offsets_are_in_bytes(forge: BlueskyForge) -> None:
    text = "Größe zählt 🚢 https://harborline.example/größe. cc @tobias.harborline.example #schiff"
    record = forge.post(MIRA, text)
    encoded = text.encode()
    found = {
        facet["features"][0]["$type"].partition("#")[2]: encoded[
            facet["index"]["byteStart"] : facet["index"]["byteEnd"]
        ].decode()
        for facet in record.value["facets"]
    }
    assert found == {
        "link": "https://harborline.example/größe",
        "mention": "@tobias.harborline.example",
        "tag": "#schiff",
    }


def test_posts_carry_embeds_replies_quotes_languages_and_labels(world: World, forge: BlueskyForge) -> None:
    from tidelore_world.bluesky.records import Card

    (root,) = write(world, forge, 1, TOBIAS)
    middle = forge.post(TOBIAS, "middle", reply_to=root).uri
    card = Card("https://harborline.example/log", "The log", "What we decided.")
    forge.post(MIRA, "all of it", reply_to=middle, quote=root, external=card, langs=("en", "de"), labels=("spoiler",))
    (item,) = page(forge)["feed"]
    post = item["post"]
    assert item["reply"]["root"]["uri"] == root
    assert item["reply"]["parent"]["uri"] == middle
    assert post["record"]["reply"]["root"]["uri"] == root
    assert post["record"]["langs"] == ["en", "de"]
    assert [label["val"] for label in post["labels"]] == ["spoiler"]
    assert post["embed"]["$type"] == "app.bsky.embed.recordWithMedia#view"
    assert post["embed"]["record"]["record"]["uri"] == root
    assert post["embed"]["media"]["external"]["uri"] == card.url
    forge.delete(middle)
    assert page(forge)["feed"][0]["reply"]["parent"]["notFound"] is True


@FORMS
def test_a_deletion_during_a_walk_hides_no_post_of_the_same_millisecond(
    world: World, forge: BlueskyForge, form: Any
) -> None:
    """A post deleted in mid-walk among posts of one instant does not hide another."""
    forge.settings.cursor_format = form
    for index in range(6):
        forge.post(MIRA, f"{index}", at_us=world.clock.now_us - SECOND_US)
    first = page(forge, limit=3)
    left = [item["post"]["uri"] for item in forge.truth_feed(MIRA)][3:]
    forge.delete(uris(first)[0])
    assert uris(page(forge, limit=3, cursor=first["cursor"])) == left
