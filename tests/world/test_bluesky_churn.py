"""Life on the simulated network over its remote control."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.world.asking import ask, get

from tidelore_world.bluesky.churn import DEEDS
from tidelore_world.world import World


def populated(seed: int = 5) -> World:
    world = World(seed)
    world.bluesky.populate(0.3)
    return world


def change(world: World, query: str) -> Any:
    response = ask(world, f"/_sim/bluesky/change?{query}", "POST")
    assert response.status == 200, response.body
    return json.loads(response.body)


def test_random_bluesky_changes_are_seeded_and_reported() -> None:
    def run(seed: int) -> Any:
        world = populated()
        done = change(world, f"seed={seed}&count=30")
        return done, [world.bluesky.truth_feed(did) for did in world.bluesky.truth_accounts()]

    assert run(3) == run(3)
    assert run(3) != run(4)
    assert len(run(3)[0]) == 30


@pytest.mark.parametrize("kind", list(DEEDS))
def test_each_kind_of_change_reaches_feed_repository_and_stream(kind: str) -> None:
    world = populated()
    before = world.bluesky.stream_log.next_seq
    done = change(world, f"seed=1&count=5&kinds={kind}")
    assert {one["kind"] for one in done} == {kind}
    told = world.bluesky.stream_log.read(before, 100)
    operation = {"edit": "update", "delete": "delete"}.get(kind, "create")
    assert [one.body["operation"] for one in told] == [operation] * 5
    assert [f"at://{one.did}/{one.collection}/{one.body['rkey']}" for one in told] == [one["uri"] for one in done]


def test_unknown_changes_and_accounts_are_answered_with_an_error() -> None:
    world = populated()
    assert ask(world, "/_sim/bluesky/change?kinds=nonsense", "POST").status == 400
    assert ask(World(), "/_sim/bluesky/change", "POST").status == 400
    assert ask(world, "/_sim/truth/bluesky/nobody.example/feed").status == 404
    assert ask(world, "/_sim/bluesky/nonsense", "POST").status == 404


def test_the_control_api_lists_accounts_and_their_true_records() -> None:
    world = populated()
    busiest = max(get(world, "/_sim/accounts"), key=lambda one: one["posts"])
    assert busiest["posts"] > 20
    feed = get(world, f"/_sim/truth/bluesky/{busiest['handle']}/feed")
    posts = get(world, f"/_sim/truth/bluesky/{busiest['did']}/posts")
    reposts = get(world, f"/_sim/truth/bluesky/{busiest['did']}/reposts")
    assert (len(posts), len(reposts)) == (busiest["posts"], busiest["reposts"])
    assert {one["uri"] for one in posts} <= {item["post"]["uri"] for item in feed}


def test_the_control_api_can_disconnect_streams() -> None:
    response = ask(World(), "/_sim/bluesky/cut", "POST")
    assert (response.status, json.loads(response.body)) == (200, {"dropped": 0})


def test_posts_are_read_by_uri_without_hidden_ones() -> None:
    world = populated()
    did = world.bluesky.truth_accounts()[0]
    shown, hidden, gone = (record["uri"] for record in world.bluesky.truth_records(did)[:3])
    world.bluesky.hide(hidden)
    world.bluesky.delete(gone)
    query = "&".join(f"uris={uri}" for uri in (shown, hidden, gone))
    answer = get(world, f"/xrpc/app.bsky.feed.getPosts?{query}")
    assert [post["uri"] for post in answer["posts"]] == [shown]
    assert ask(world, "/xrpc/app.bsky.feed.getPosts").status == 400
    assert ask(world, "/xrpc/app.bsky.feed.getPosts?uris=nonsense").status == 400
