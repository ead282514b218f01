"""The simulated event stream tells what the real one tells, in both of its protocols."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tidelore_world.bluesky import BlueskyForge
from tidelore_world.clock import SECOND_US
from tidelore_world.server import Server, serve
from tidelore_world.world import World

MIRA, TOBIAS = "mira.harborline.example", "tobias.harborline.example"
POSTS, REPOSTS = "app.bsky.feed.post", "app.bsky.feed.repost"
FIRST, SECOND = "/subscribe", "/xrpc/network.bsky.jetstream.subscribeEvents"
PROTOCOLS = pytest.mark.parametrize("path", [FIRST, SECOND])

Open = Callable[..., ClientConnection]


@pytest.fixture
def world() -> World:
    made = World(seed=3)
    for name in (MIRA, TOBIAS):
        made.bluesky.create_account(name)
    return made


@pytest.fixture
def forge(world: World) -> BlueskyForge:
    return world.bluesky


@pytest.fixture
def server(world: World) -> Iterator[Server]:
    with serve(world) as served:
        yield served


@pytest.fixture
def subscribe(server: Server) -> Iterator[Open]:
    opened = ExitStack()

    def open_one(path: str = FIRST, **query: Any) -> ClientConnection:
        url = f"ws://127.0.0.1:{server.port}{path}?{urlencode(query, doseq=True)}"
        wanted = [Subprotocol("xrpc.v1.json")] if path == SECOND else None
        dialled = connect(url, subprotocols=wanted, proxy=None, open_timeout=5, close_timeout=1)
        return opened.enter_context(dialled)

    with opened:
        yield open_one


def did(forge: BlueskyForge, actor: str = MIRA) -> str:
    return forge.network.account(actor).did


def tell(stream: ClientConnection) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(stream.recv(timeout=5))
    if "payload" not in message:
        return message
    payload: dict[str, Any] = message["payload"]
    return payload


def texts(stream: ClientConnection, count: int) -> list[str]:
    told = [tell(stream) for _ in range(count)]
    return [one.get("commit", one)["record"]["text"] for one in told]


def is_silent(stream: ClientConnection) -> bool:
    try:
        stream.recv(timeout=0.15)
    except TimeoutError:
        return True
    return False


def write(world: World, count: int, actor: str = MIRA, start: int = 0) -> None:
    for index in range(start, start + count):
        world.advance(1)
        world.bluesky.post(actor, f"{index}")


@PROTOCOLS
def test_without_a_cursor_only_new_events_are_sent(world: World, subscribe: Open, path: str) -> None:
    write(world, 3)
    stream = subscribe(path)
    write(world, 2, start=3)
    assert texts(stream, 2) == ["3", "4"]
    assert is_silent(stream)


def test_protocol_1_sends_commits_with_microsecond_times(world: World, forge: BlueskyForge, subscribe: Open) -> None:
    stream = subscribe()
    record = forge.post(MIRA, "hello")
    told = tell(stream)
    assert (told["did"], told["kind"]) == (record.did, "commit")
    assert told["time_us"] >= world.clock.now_us
    body = told["commit"]
    assert (body["operation"], body["collection"], body["rkey"]) == ("create", POSTS, record.rkey)
    assert (body["record"], body["cid"]) == (record.value, record.cid)
    assert len(body["rev"]) == 13


def test_protocol_2_sends_commits_with_sequence_numbers(forge: BlueskyForge, subscribe: Open) -> None:
    stream = subscribe(SECOND)
    assert stream.subprotocol == "xrpc.v1.json"
    record = forge.post(MIRA, "hello")
    message = json.loads(stream.recv(timeout=5))
    assert message["$type"] == "message"
    told = message["payload"]
    assert told["$type"] == "network.bsky.jetstream.subscribeEvents#commit"
    assert told["seq"] == forge.stream_log.next_seq - 1
    assert (told["operation"], told["cid"]) == ("create", record.cid)
    assert told["time"].endswith("Z")
    assert told["time"] == told["witnessedAt"]


@PROTOCOLS
def test_edits_deletions_reposts_handles_and_accounts_are_sent(forge: BlueskyForge, subscribe: Open, path: str) -> None:
    stream = subscribe(path)
    post = forge.post(MIRA, "hello")
    forge.edit(post.uri, "better")
    repost = forge.repost(TOBIAS, post.uri)
    forge.delete(repost.uri)
    forge.delete(post.uri)
    forge.change_handle(MIRA, "mira.example")
    forge.deactivate(TOBIAS)
    told = [tell(stream) for _ in range(7)]
    commits = [one.get("commit", one) for one in told[:5]]
    operations = [(one["operation"], one["collection"], "record" in one, "cid" in one) for one in commits]
    assert operations == [
        ("create", POSTS, True, True),
        ("update", POSTS, True, True),
        ("create", REPOSTS, True, True),
        ("delete", REPOSTS, False, False),
        ("delete", POSTS, False, False),
    ]
    assert commits[0]["cid"] != commits[1]["cid"]
    assert told[5]["identity"]["handle"] == "mira.example"
    assert (told[6]["account"]["active"], told[6]["account"]["status"]) == (False, "deactivated")


def test_only_protocol_2_reports_a_rewritten_repository(forge: BlueskyForge, subscribe: Open) -> None:
    first, second = subscribe(), subscribe(SECOND)
    forge.rewrite(MIRA)
    forge.post(MIRA, "later")
    assert texts(first, 1) == ["later"]
    told = tell(second)
    assert (told["$type"].rpartition("#")[2], told["sync"]["did"]) == ("sync", did(forge))
    assert texts(second, 1) == ["later"]


def test_a_backdated_post_is_sent_when_it_is_written(world: World, forge: BlueskyForge, subscribe: Open) -> None:
    stream = subscribe()
    forge.post(MIRA, "old news", created_at="2020-01-01T00:00:00.000Z")
    told = tell(stream)
    assert told["commit"]["record"]["createdAt"].startswith("2020")
    assert told["time_us"] >= world.clock.now_us


def test_stream_times_and_numbers_increase_even_when_the_clock_stands_still(forge: BlueskyForge) -> None:
    for index in range(20):
        forge.post(MIRA, f"{index}", at_us=forge.now_us - index * SECOND_US)
    told = forge.stream_log.read(1, 1000)
    for before, after in pairwise(told):
        assert before.seq + 1 == after.seq
        assert before.time_us < after.time_us


@pytest.mark.parametrize(
    ("path", "dids", "collections"),
    [
        (FIRST, "wantedDids", "wantedCollections"),
        (SECOND, "dids", "collections"),
    ],
)
def test_accounts_and_collections_filter_commits_and_identities_are_always_sent(
    forge: BlueskyForge, subscribe: Open, path: str, dids: str, collections: str
) -> None:
    stream = subscribe(path, **{dids: [did(forge)], collections: [REPOSTS]})
    prefix = subscribe(path, **{collections: ["app.bsky.feed.*"]})
    theirs = forge.post(TOBIAS, "theirs")
    forge.post(MIRA, "mine")
    forge.repost(MIRA, theirs.uri)
    forge.change_handle(TOBIAS, "tobias.example")
    forge.change_handle(MIRA, "mira.example")
    forge.follow("mira.example", "tobias.example")
    told = tell(stream)
    assert told.get("commit", told)["collection"] == REPOSTS
    assert tell(stream)["identity"]["handle"] == "mira.example"
    assert is_silent(stream)
    kinds = [tell(prefix) for _ in range(5)]
    assert ["identity" in one for one in kinds] == [False, False, False, True, True]
    assert is_silent(prefix), "a follow is no part of the feed"


def test_protocol_2_can_exclude_kinds_of_events(forge: BlueskyForge, subscribe: Open) -> None:
    stream = subscribe(SECOND, kinds=["account"])
    forge.post(MIRA, "mine")
    forge.deactivate(MIRA)
    assert tell(stream)["account"]["active"] is False


def test_protocol_1_waits_for_options_and_accepts_new_ones(forge: BlueskyForge, subscribe: Open) -> None:
    stream = subscribe(requireHello="true")
    forge.post(MIRA, "before")
    assert is_silent(stream)
    stream.send(json.dumps({"type": "options_update", "payload": {"wantedDids": [did(forge, TOBIAS)]}}))
    forge.post(TOBIAS, "one")
    assert texts(stream, 1) == ["one"]
    stream.send(json.dumps({"type": "something_else"}))
    stream.send(json.dumps({"type": "options_update", "payload": {"wantedDids": [did(forge)]}}))
    assert is_silent(stream)
    forge.post(TOBIAS, "unwanted")
    forge.post(MIRA, "two")
    assert texts(stream, 1) == ["two"]


@pytest.mark.parametrize("message", ["{", "[]", '{"type": "options_update", "payload": {"wantedDids": ["no did"]}}'])
def test_invalid_options_end_the_connection(subscribe: Open, message: str) -> None:
    stream = subscribe(requireHello="true")
    stream.send(message)
    with pytest.raises(ConnectionClosed) as caught:
        stream.recv(timeout=5)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1008


def test_protocol_2_disconnects_a_client_that_sends_a_message(subscribe: Open) -> None:
    stream = subscribe(SECOND)
    stream.send("{}")
    with pytest.raises(ConnectionClosed):
        stream.recv(timeout=5)


def test_a_protocol_1_cursor_replays_from_that_time_on(world: World, subscribe: Open) -> None:
    write(world, 3)
    middle = tell(subscribe(cursor=world.clock.now_us - SECOND_US))
    assert middle["commit"]["record"]["text"] == "1", "the instant itself is told again"
    assert texts(subscribe(cursor=middle["time_us"] + 1), 1) == ["2"]
    ahead = subscribe(cursor=world.clock.now_us + 3600 * SECOND_US)
    write(world, 1, start=3)
    assert texts(ahead, 1) == ["3"]


def test_a_protocol_2_cursor_replays_from_that_number_on(world: World, subscribe: Open) -> None:
    write(world, 3)
    last = world.bluesky.stream_log.next_seq - 1
    stream = subscribe(SECOND, cursor=last - 1)
    assert texts(stream, 2) == ["1", "2"]
    assert texts(subscribe(SECOND, cursor=world.clock.now_us), 1) == ["2"], "a great number is an instant"
    silent = subscribe(SECOND, cursor=last + 500)
    world.bluesky.settings.stream_tells_future = True
    ahead = subscribe(SECOND, cursor=last + 500)
    assert tell(ahead)["name"] == "FutureCursor"
    write(world, 1, start=3)
    assert texts(ahead, 1) == texts(silent, 1) == ["3"]
    world.bluesky.stream_log.rebuild()
    write(world, 1, start=4)
    assert tell(subscribe(SECOND, cursor=1))["seq"] == 1


def test_events_outside_the_replay_window_are_not_sent(world: World, forge: BlueskyForge, subscribe: Open) -> None:
    start_us = world.clock.now_us
    write(world, 2)
    world.advance(3600)
    write(world, 2, start=2)
    forge.settings.stream_replay_seconds = 600
    assert texts(subscribe(cursor=start_us), 1) == ["2"], "the first protocol begins at the oldest without a word"
    with pytest.raises(InvalidStatus) as caught:
        subscribe(SECOND, cursor=1)
    assert caught.value.response.status_code == 400
    assert json.loads(caught.value.response.body)["error"] == "CursorTooOld"
    stream = subscribe(SECOND, cursor=start_us)
    assert tell(stream)["name"] == "OutdatedCursor"
    assert texts(stream, 2) == ["2", "3"]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (FIRST, {"cursor": "soon"}),
        (FIRST, {"wantedDids": ["nobody"]}),
        (FIRST, {"wantedCollections": [f"a.b.c{number}" for number in range(101)]}),
        (SECOND, {"cursor": "-1"}),
        (SECOND, {"wantedDids": ["did:plc:x"]}),
        (SECOND, {"kinds": ["likes"]}),
        (SECOND, {"kinds": ["account"], "collections": [POSTS]}),
    ],
)
def test_invalid_subscriptions_are_refused_before_the_connection(
    subscribe: Open, path: str, query: dict[str, Any]
) -> None:
    with pytest.raises(InvalidStatus) as caught:
        subscribe(path, **query)
    assert caught.value.response.status_code == 400


def test_the_number_of_accounts_per_connection_is_limited(forge: BlueskyForge, subscribe: Open) -> None:
    assert forge.settings.stream_dids == 10_000
    forge.settings.stream_dids = 3
    dids = [f"did:plc:{number}" for number in range(4)]
    subscribe(wantedDids=dids[:3])
    with pytest.raises(InvalidStatus):
        subscribe(wantedDids=dids)
    stream = subscribe(requireHello="true")
    stream.send(json.dumps({"type": "options_update", "payload": {"wantedDids": dids}}))
    with pytest.raises(ConnectionClosed):
        stream.recv(timeout=5)


@PROTOCOLS
def test_a_fault_disconnects_the_stream_after_some_events(world: World, subscribe: Open, path: str) -> None:
    fault = world.faults.add("disconnect", path, events=2)
    stream = subscribe(path)
    assert fault.fired == 0, "it strikes when the connection breaks, not when it is opened"
    write(world, 3)
    assert texts(stream, 2) == ["0", "1"]
    with pytest.raises(ConnectionClosedError):
        stream.recv(timeout=5)
    assert fault.fired == 1
    again = subscribe(path)
    write(world, 4, start=3)
    assert texts(again, 4) == ["3", "4", "5", "6"]


def test_faults_apply_to_the_websocket_handshake(world: World, subscribe: Open) -> None:
    world.faults.add("status", FIRST, status=503)
    with pytest.raises(InvalidStatus):
        subscribe()
    slow = world.faults.add("slow", FIRST, seconds=9)
    write(world, 1)
    assert tell(subscribe(cursor=1))["kind"] == "identity"
    assert slow.fired == 0
    assert world.requests[f"GET {FIRST}"] == 2


def test_all_stream_connections_can_be_dropped_at_once(forge: BlueskyForge, subscribe: Open) -> None:
    streams = [subscribe(), subscribe(SECOND)]
    assert forge.jetstream.cut() == 2
    for stream in streams:
        with pytest.raises(ConnectionClosedError):
            stream.recv(timeout=5)


def test_a_client_that_does_not_read_is_disconnected_and_the_others_continue(
    world: World, forge: BlueskyForge, subscribe: Open
) -> None:
    forge.settings.stream_patience_seconds = 0.2
    forge.settings.stream_backlog = 100
    slow = subscribe()
    quick = subscribe(wantedDids=[did(forge, TOBIAS)])
    with world.lock:
        for _ in range(4_000):
            forge.post(MIRA, "x" * 3000)
    deadline = time.monotonic() + 10
    while len(forge.jetstream.open) > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(forge.jetstream.open) == 1
    forge.post(TOBIAS, "still here")
    assert texts(quick, 1) == ["still here"]
    with pytest.raises(ConnectionClosed):
        texts(slow, 4_000)


def test_a_disconnected_client_is_removed(forge: BlueskyForge, subscribe: Open) -> None:
    stream = subscribe()
    assert len(forge.jetstream.open) == 1
    stream.close()
    deadline = time.monotonic() + 5
    while forge.jetstream.open and time.monotonic() < deadline:
        time.sleep(0.01)
    assert forge.jetstream.open == set()
    forge.post(MIRA, "to nobody")


def test_the_stream_log_drops_events_outside_the_replay_window(world: World, forge: BlueskyForge) -> None:
    forge.settings.stream_replay_seconds = 60
    write(world, 10_050)
    kept = forge.stream_log.read(1, 100_000)
    assert len(kept) < 1_000
    assert kept[-1].seq == forge.stream_log.next_seq - 1


def test_a_replay_of_many_events_arrives_completely_and_in_order(
    world: World, forge: BlueskyForge, subscribe: Open
) -> None:
    begin = forge.stream_log.next_seq
    with world.lock:
        for index in range(3_000):
            forge.post(MIRA, f"{index}")
    assert texts(subscribe(SECOND, cursor=begin), 3_000) == [str(n) for n in range(3_000)]
