"""Accounts, records, limits, faults and the populated past of the simulated Bluesky."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tidelore_world.bluesky import BlueskyForge
from tidelore_world.bluesky.ids import tid_of
from tidelore_world.clock import SECOND_US, parse_iso
from tidelore_world.wire import Request, Response
from tidelore_world.world import World

MIRA, TOBIAS = "mira.harborline.example", "tobias.harborline.example"
POSTS = "app.bsky.feed.post"
FEED = "app.bsky.feed.getAuthorFeed"
LIST = "com.atproto.repo.listRecords"


@pytest.fixture
def world() -> World:
    return World(seed=3)


@pytest.fixture
def forge(world: World) -> BlueskyForge:
    forge: BlueskyForge = world.bluesky
    for name in ("mira", "tobias"):
        forge.create_account(f"{name}.harborline.example", name.title())
    return forge


def did(forge: BlueskyForge, actor: str = MIRA) -> str:
    return forge.network.account(actor).did


def ask(forge: BlueskyForge, target: str) -> Response:
    found = forge.route(Request.build("GET", target, {"host": "127.0.0.1:9999"}))
    assert found is not None
    return found[1]()


def call(forge: BlueskyForge, method: str, **params: Any) -> Response:
    return ask(forge, f"/xrpc/{method}?{urlencode(params, doseq=True)}")


def read(forge: BlueskyForge, method: str, **params: Any) -> Any:
    response = call(forge, method, **params)
    assert response.status == 200, response.body
    return json.loads(response.body)


def uris(answer: Any) -> list[str]:
    return [record["uri"] for record in answer["records"]]


def test_list_records_in_reverse_resumes_exactly_after_the_last_rkey(forge: BlueskyForge) -> None:
    made = [forge.post(MIRA, f"{index}").uri for index in range(5)]
    params = {"repo": did(forge), "collection": POSTS, "reverse": "true"}
    first = read(forge, LIST, **params, limit=3)
    assert uris(first) == made[:3]
    assert first["cursor"] == made[2].rpartition("/")[2]
    second = read(forge, LIST, **params, cursor=first["cursor"])
    assert uris(second) == made[3:]
    assert read(forge, LIST, **params, cursor=second["cursor"]) == {"records": []}
    newer = forge.post(MIRA, "newer").uri
    assert uris(read(forge, LIST, **params, cursor=second["cursor"])) == [newer]


def test_list_records_is_newest_first_without_reverse(forge: BlueskyForge) -> None:
    made = [forge.post(MIRA, f"{index}").uri for index in range(5)]
    first = read(forge, LIST, repo=MIRA, collection=POSTS, limit=2)
    second = read(forge, LIST, repo=MIRA, collection=POSTS, limit=2, cursor=first["cursor"])
    assert uris(first) + uris(second) == made[:0:-1]


def test_list_records_finds_backdated_posts_in_write_order(world: World, forge: BlueskyForge) -> None:
    known = forge.post(MIRA, "known").uri
    world.advance(60)
    backdated = forge.post(MIRA, "old news", created_at="2020-01-01T00:00:00.000Z").uri
    params = {"repo": MIRA, "collection": POSTS, "reverse": "true", "cursor": known.rpartition("/")[2]}
    assert uris(read(forge, LIST, **params)) == [backdated]


def test_list_records_shows_no_edit_or_deletion_before_the_cursor_and_no_reposts(
    forge: BlueskyForge,
) -> None:
    first, second = (forge.post(MIRA, text).uri for text in ("one", "two"))
    reposted = forge.repost(MIRA, first).uri
    params = {"repo": MIRA, "reverse": "true", "cursor": second.rpartition("/")[2]}
    forge.edit(first, "changed")
    forge.delete(second)
    assert uris(read(forge, LIST, **params, collection=POSTS)) == []
    assert uris(read(forge, LIST, repo=MIRA, collection="app.bsky.feed.repost")) == [reposted]
    assert uris(read(forge, LIST, repo=MIRA, collection=POSTS)) == [first]


def test_record_keys_are_increasing_tids(world: World, forge: BlueskyForge) -> None:
    same_instant = [forge.post(MIRA, f"{index}").rkey for index in range(3)]
    world.advance(1)
    later = forge.post(MIRA, "later").rkey
    keys = [*same_instant, later]
    assert keys == sorted(set(keys))
    assert {len(key) for key in keys} == {13}
    assert keys[0] == tid_of(world.clock.now_us - SECOND_US)


def test_the_did_document_names_this_origin_as_the_pds(forge: BlueskyForge) -> None:
    for target in (f"/{did(forge)}", f"/did/{did(forge)}"):
        document = json.loads(ask(forge, target).body)
        assert document["id"] == did(forge)
        assert document["alsoKnownAs"] == [f"at://{MIRA}"]
        assert document["service"][0]["serviceEndpoint"] == "http://127.0.0.1:9999"
    assert ask(forge, "/did:plc:aaaaaaaaaaaaaaaaaaaaaaaa").status == 404


def test_a_changed_handle_keeps_the_did_and_its_history(forge: BlueskyForge) -> None:
    made, before = forge.post(MIRA, "hello").uri, did(forge)
    forge.change_handle(MIRA, "mira.example")
    assert read(forge, "com.atproto.identity.resolveHandle", handle="mira.example") == {"did": before}
    gone = call(forge, "com.atproto.identity.resolveHandle", handle=MIRA)
    assert (gone.status, json.loads(gone.body)["error"]) == (400, "InvalidRequest")
    feed = read(forge, FEED, actor="mira.example")["feed"]
    assert (feed[0]["post"]["uri"], feed[0]["post"]["author"]["handle"]) == (made, "mira.example")
    assert call(forge, FEED, actor=MIRA).status == 400


@pytest.mark.parametrize(
    ("status", "appview", "server"),
    [
        ("deactivated", "AccountDeactivated", "RepoDeactivated"),
        ("suspended", "AccountTakedown", "RepoSuspended"),
        ("takendown", "AccountTakedown", "RepoTakendown"),
        ("deleted", "InvalidRequest", "InvalidRequest"),
    ],
)
def test_hidden_accounts_are_answered_with_400_and_their_state(
    forge: BlueskyForge, status: str, appview: str, server: str
) -> None:
    forge.post(MIRA, "hello")
    forge.suspend(MIRA, status)
    for actor, name in ((MIRA, appview), (did(forge), appview), ("nobody.example", "InvalidRequest")):
        for method in (FEED, "app.bsky.actor.getProfile"):
            response = call(forge, method, actor=actor)
            assert (response.status, json.loads(response.body)["error"]) == (400, name)
    assert json.loads(call(forge, LIST, repo=MIRA, collection=POSTS).body)["error"] == server
    told = json.loads(call(forge, "com.atproto.sync.getRepoStatus", did=did(forge)).body)
    assert told.get("status", told.get("error")) == ("RepoNotFound" if status == "deleted" else status)
    forge.reactivate(MIRA)
    assert len(read(forge, FEED, actor=MIRA)["feed"]) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_an_account_can_be_set_to_fail_permanently(forge: BlueskyForge, status: int) -> None:
    forge.settings.refused[did(forge)] = status
    assert call(forge, FEED, actor=MIRA).status == status
    assert call(forge, LIST, repo=MIRA, collection=POSTS).status == status
    assert call(forge, FEED, actor=TOBIAS).status == 200


def test_too_many_requests_are_answered_with_429_until_the_window_ends(world: World, forge: BlueskyForge) -> None:
    forge.settings.rate_limit = 2
    shown = [call(forge, FEED, actor=MIRA).headers["ratelimit-remaining"] for _ in range(2)]
    assert shown == ["1", "0"]
    refused = call(forge, FEED, actor=MIRA)
    assert (refused.status, refused.headers["ratelimit-remaining"]) == (429, "0")
    assert refused.headers["ratelimit-policy"] == "2;w=300"
    world.advance(int(refused.headers["ratelimit-reset"]) - world.clock.now_us // SECOND_US)
    assert call(forge, FEED, actor=MIRA).status == 200


def test_profiles_show_counts_and_the_pinned_post(forge: BlueskyForge) -> None:
    post = forge.post(MIRA, "hello")
    forge.pin(MIRA, post.uri)
    forge.follow(TOBIAS, MIRA)
    profile = read(forge, "app.bsky.actor.getProfile", actor=MIRA)
    assert (profile["postsCount"], profile["followersCount"], profile["followsCount"]) == (1, 1, 0)
    assert profile["pinnedPost"] == {"uri": post.uri, "cid": post.cid}
    both = read(forge, "app.bsky.actor.getProfiles", actors=[MIRA, "nobody.example", did(forge, TOBIAS)])
    assert [one["handle"] for one in both["profiles"]] == [MIRA, TOBIAS]


def test_follows_are_paged_newest_first(world: World, forge: BlueskyForge) -> None:
    names = [f"friend{index}.example" for index in range(5)]
    for name in names:
        world.advance(1)
        forge.create_account(name)
        forge.follow(MIRA, name)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = read(forge, "app.bsky.graph.getFollows", actor=MIRA, limit=2, **cursor)
        seen += [one["handle"] for one in answer["follows"]]
        if "cursor" not in answer:
            break
        cursor = {"cursor": answer["cursor"]}
    assert seen == names[::-1]


def test_a_single_record_is_read_by_its_key(forge: BlueskyForge) -> None:
    record = forge.post(MIRA, "hello")
    params = {"repo": MIRA, "collection": POSTS}
    found = read(forge, "com.atproto.repo.getRecord", **params, rkey=record.rkey)
    assert found == forge.truth_records(MIRA)[0]
    forge.delete(record.uri)
    missing = call(forge, "com.atproto.repo.getRecord", **params, rkey=record.rkey)
    assert (missing.status, json.loads(missing.body)["error"]) == (400, "RecordNotFound")


def test_an_unknown_xrpc_method_is_not_implemented_and_other_paths_are_ignored(forge: BlueskyForge) -> None:
    assert call(forge, "app.bsky.feed.getEverything").status == 501
    assert forge.route(Request.build("GET", f"/repos/{MIRA}/x")) is None
    assert forge.route(Request.build("GET", "/api/v4/projects")) is None


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_a_listed_post_can_be_changed_between_two_pages(forge: BlueskyForge, change: Any) -> None:
    post = forge.post(MIRA, "hello")
    forge.repost(TOBIAS, post.uri)
    request = Request.build("GET", f"/xrpc/{FEED}?actor={TOBIAS}")
    (reposted,) = forge.truth_feed(TOBIAS)
    assert forge.disturb(request, reposted, change) is (change == "delete")
    (shown,) = forge.truth_feed(MIRA)
    assert forge.disturb(request, shown, change)
    texts = [item["post"]["record"]["text"] for item in forge.truth_feed(MIRA)]
    assert texts == (["hello (edited)"] if change == "edit" else [])


def test_the_world_counts_a_request_by_its_method(world: World, forge: BlueskyForge) -> None:
    forge.post(MIRA, "hello")
    response = world.handle(Request.build("GET", f"/xrpc/{FEED}?actor={MIRA}"))
    assert (response.status, response.headers["date"]) == (200, "Mon, 02 Mar 2026 09:00:00 GMT")
    world.handle(Request.build("GET", f"/{did(forge)}"))
    assert world.requests[f"GET /xrpc/{FEED}"] == 1
    assert world.requests["GET /:did"] == 1


def test_a_fault_between_two_pages_deletes_a_listed_post(world: World, forge: BlueskyForge) -> None:
    for index in range(4):
        forge.post(MIRA, f"{index}")
    fault = world.faults.add("delete_between", f"/xrpc/{FEED}", after=1)
    first = json.loads(world.handle(Request.build("GET", f"/xrpc/{FEED}?actor={MIRA}&limit=2")).body)
    query = urlencode({"actor": MIRA, "limit": 2, "cursor": first["cursor"]})
    second = json.loads(world.handle(Request.build("GET", f"/xrpc/{FEED}?{query}")).body)
    assert fault.fired == 1
    assert (len(second["feed"]), len(forge.truth_feed(MIRA))) == (2, 3)


def test_the_generated_history_has_few_busy_and_many_quiet_accounts() -> None:
    world = World(seed=5)
    world.bluesky.populate(1.0)
    feeds = [world.bluesky.truth_feed(did) for did in world.bluesky.truth_accounts()]
    sizes = sorted((len(feed) for feed in feeds), reverse=True)
    assert len(sizes) == 20
    assert sizes[1] > 80
    assert sum(1 for size in sizes if size <= 8) >= 12
    items = [item for feed in feeds for item in feed]
    assert any(item.get("reason") for item in items)
    assert any("reply" in item for item in items)
    assert any("facets" in item["post"]["record"] for item in items)
    kinds = {item["post"].get("embed", {}).get("$type") for item in items}
    assert {f"app.bsky.embed.{kind}#view" for kind in ("external", "images")} <= kinds
    assert max(parse_iso(item["post"]["indexedAt"]) for item in items) < world.clock.now_us


def test_the_same_seed_gives_the_same_network() -> None:
    worlds = [World(seed=9), World(seed=9), World(seed=10)]
    for world in worlds:
        world.bluesky.populate(0.3)
    one, two, three = ([world.bluesky.truth_feed(did) for did in world.bluesky.truth_accounts()] for world in worlds)
    assert one == two
    assert one != three
