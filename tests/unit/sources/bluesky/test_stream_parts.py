"""The parts of the stream that decide: addresses, messages, and how far everything was told."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.effort import examples
from tests.unit.sources.bluesky.shapes import AT_MS, DID, KEY, POSTS, REPOSTS, URI, post, raw

from tidelore.core.errors import ConfigError
from tidelore.sources.bluesky.stream import Coverage
from tidelore.sources.bluesky.stream_protocol import (
    SECOND_METHOD,
    AccountChanged,
    Frame,
    HandleChanged,
    PostDeleted,
    PostWritten,
    StreamCursor,
    Unreadable,
    connection_url,
    hello,
    protocol_of,
    read_first,
    read_second,
    split_dids,
    stream_url,
)
from tidelore.sources.bluesky.stream_shard import RecentEvents
from tidelore.sources.bluesky.transform import read_records

FIRST = "wss://stream.example/subscribe"
SECOND = f"wss://stream.example/xrpc/{SECOND_METHOD}"
US = AT_MS * 1000 + 7


def commit(operation: str = "create", collection: str = POSTS, **more: Any) -> dict[str, Any]:
    body = {"rev": "r1", "operation": operation, "collection": collection, "rkey": KEY}
    return body | ({"record": post(), "cid": "bafyone"} if operation != "delete" else {}) | more


def first(kind: str = "commit", **more: Any) -> Frame:
    return read_first(json.dumps({"did": DID, "time_us": US, "kind": kind, **more}).encode())


def second(kind: str = "commit", **more: Any) -> Frame:
    payload = {"$type": f"{SECOND_METHOD}#{kind}", "seq": 41, "did": DID, "time": "2026-03-02T09:00:00.000007Z", **more}
    return read_second(json.dumps({"$type": "message", "payload": payload}).encode())


def both(kind: str, body: dict[str, Any]) -> list[Frame]:
    frames = [first(kind, **{kind: body}), second(kind, **(body if kind == "commit" else {kind: body}))]
    assert [frame.position for frame in frames] == [US, 41]
    assert [frame.at for frame in frames] == [AT_MS, AT_MS]
    return frames


def test_a_post_of_the_stream_has_the_version_and_payload_of_its_repository() -> None:
    (listed,) = read_records([raw({"uri": URI, "cid": "bafyone", "value": post()})], None).items
    for frame in both("commit", commit()):
        event = frame.event
        assert isinstance(event, PostWritten)
        assert event.item.version == listed.version
        assert json.loads(event.item.payload) == json.loads(listed.payload)
        assert (event.item.at, event.item.record.indexed_at) == (AT_MS, AT_MS)


def test_edits_deletions_and_reposts_are_parsed() -> None:
    for frame in both("commit", commit("update")):
        assert isinstance(frame.event, PostWritten)
    for frame in both("commit", commit("delete")):
        assert frame.event == PostDeleted(URI, AT_MS)
    value = {"subject": {"uri": URI, "cid": "c"}, "createdAt": "2026-03-02T09:00:00Z"}
    for frame in both("commit", commit("create", REPOSTS, record=value)):
        assert isinstance(frame.event, PostWritten)
        assert (frame.event.item.record.kind, frame.event.item.record.subject_uri) == ("repost", URI)
    for frame in both("commit", commit("delete", REPOSTS)):
        assert frame.event == PostDeleted(f"at://{DID}/{REPOSTS}/{KEY}", AT_MS)


def test_identity_and_account_messages_are_parsed() -> None:
    for frame in both("identity", {"did": DID, "handle": "new.example", "seq": 5}):
        assert frame.event == HandleChanged(DID, "new.example", AT_MS)
    for frame in both("identity", {"did": DID}):
        assert frame.event == HandleChanged(DID, None, AT_MS)
    for frame in both("account", {"did": DID, "active": False, "status": "deleted"}):
        assert frame.event == AccountChanged(DID, False, "deleted", AT_MS)


def test_messages_without_posts_still_move_the_position() -> None:
    assert [frame.event for frame in both("commit", commit("create", "app.bsky.feed.like"))] == [None, None]
    assert first("unknown").position == US
    assert second("sync", sync={}).notice == "sync"


def test_a_post_that_cannot_be_parsed_is_rejected_with_its_uri() -> None:
    for bad in ({"text": "no date"}, None, post() | {"createdAt": "never"}):
        for frame in both("commit", commit(record=bad)):
            assert isinstance(frame.event, Unreadable)
            assert (frame.event.rejected.key, frame.event.rejected.locator) == (URI, URI)


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"{}", b'{"did":"x"}', b"\xff", b'{"did":1,"time_us":2,"kind":"x"}']
)
def test_a_message_without_a_position_is_refused(text: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, ValueError)):
        read_first(text)


def test_notices_of_protocol_2_do_not_move_the_position() -> None:
    info = {"$type": "message", "payload": {"$type": f"{SECOND_METHOD}#info", "name": "OutdatedCursor"}}
    assert read_second(json.dumps(info).encode()) == Frame(notice="OutdatedCursor")
    assert read_second(b'{"$type":"error","name":"ConsumerTooSlow"}') == Frame(notice="ConsumerTooSlow")
    with pytest.raises(ValueError, match="seq"):
        second(seq=0)


def test_the_stream_protocol_is_derived_from_the_url_path() -> None:
    assert (protocol_of(FIRST), protocol_of(SECOND), protocol_of(f"{SECOND}/")) == (1, 2, 2)


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ("wss://s.example", FIRST.replace("stream", "s")),
        ("https://s.example/", "wss://s.example/subscribe"),
        ("http://127.0.0.1:9/subscribe?x=1#y", "ws://127.0.0.1:9/subscribe"),
        (SECOND, SECOND),
    ],
)
def test_stream_urls_are_normalised(given: str, opened: str) -> None:
    assert stream_url(given) == opened


@pytest.mark.parametrize("given", ["", "stream.example", "ftp://stream.example", "wss://"])
def test_an_invalid_stream_url_is_a_config_error(given: str) -> None:
    with pytest.raises(ConfigError):
        stream_url(given)


def test_protocol_1_sends_the_accounts_in_an_options_message() -> None:
    query = parse_qs(urlsplit(connection_url(FIRST, [DID], [POSTS], 5)).query)
    assert query == {"requireHello": ["true"], "wantedCollections": [POSTS], "cursor": ["5"]}
    told = json.loads(hello((DID,), (POSTS,)))
    assert told == {"type": "options_update", "payload": {"wantedCollections": [POSTS], "wantedDids": [DID]}}


def test_protocol_2_sends_the_accounts_in_the_url() -> None:
    url = connection_url(SECOND, [DID, "did:plc:x"], [POSTS], None)
    assert parse_qs(urlsplit(url).query) == {"collections": [POSTS], "dids": [DID, "did:plc:x"]}
    assert len(connection_url(SECOND, [f"{DID[:-3]}{n:03}" for n in range(150)], [POSTS, REPOSTS], 10**12)) < 8000


@given(st.lists(st.integers(0, 60), max_size=60), st.integers(1, 20))
@examples(100, 1000)
def test_accounts_are_split_into_few_parts_of_nearly_one_size(numbers: list[int], most: int) -> None:
    dids = [f"did:plc:{number}" for number in numbers]
    parts = split_dids(dids, most)
    assert sorted(did for part in parts for did in part) == sorted(set(dids))
    assert len(parts) == -(-len(set(dids)) // most)
    sizes = [len(part) for part in parts]
    assert all(size <= most for size in sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("text", ["", "v3:1", "1", "v1:", "v1:-1", "v1:x", "v2:1.5"])
def test_an_unreadable_stored_cursor_is_ignored(text: str) -> None:
    assert StreamCursor.parse(text) is None


def test_a_cursor_is_stored_with_its_protocol() -> None:
    for cursor in (StreamCursor(1, US), StreamCursor(2, 41)):
        assert StreamCursor.parse(str(cursor)) == cursor


def test_with_one_connection_its_position_is_the_cursor() -> None:
    coverage = Coverage(1, None)
    coverage.opened(0, 0.0)
    assert coverage.cursor is None
    coverage.advance(0, 10, 1.0)
    coverage.advance(0, 8, 2.0)
    assert coverage.cursor == 10, "what is replayed moves nothing back"


def test_with_several_connections_the_cursor_is_the_lowest_position() -> None:
    coverage = Coverage(2, 5, silence_seconds=60)
    for index in (0, 1):
        coverage.opened(index, 0.0)
    coverage.advance(0, 100, 1.0)
    assert coverage.cursor == 5
    coverage.advance(1, 50, 2.0)
    assert coverage.cursor == 50
    coverage.advance(1, 120, 3.0)
    assert coverage.cursor == 100


def test_a_silent_connection_follows_the_position_the_others_had_a_minute_ago() -> None:
    coverage = Coverage(2, 5, silence_seconds=60)
    for index in (0, 1):
        coverage.opened(index, 0.0)
    for second_ in range(0, 200, 10):
        coverage.advance(0, 100 + second_, float(second_))
        expected = 5 if second_ < 60 else 100 + second_ - 60
        assert coverage.cursor == expected


def test_a_connection_that_is_down_does_not_move_the_cursor_by_silence() -> None:
    coverage = Coverage(2, 5, silence_seconds=60)
    coverage.opened(0, 0.0)
    coverage.opened(1, 0.0)
    coverage.closed(1)
    for second_ in range(0, 300, 10):
        coverage.advance(0, 100 + second_, float(second_))
    assert coverage.cursor == 5
    coverage.opened(1, 300.0)
    coverage.advance(0, 500, 350.0)
    assert coverage.cursor == 5, "it has only just come back"


def test_a_server_that_restarts_its_positions_resets_the_cursor() -> None:
    coverage = Coverage(1, 1000)
    coverage.restart(0)
    assert coverage.cursor is None
    coverage.advance(0, 7, 1.0)
    assert coverage.cursor == 7


def test_recent_messages_are_recognised_with_bounded_memory() -> None:
    recent = RecentEvents(span=100)
    assert not any(recent.meets((number,), number) for number in range(50_000))
    assert recent.meets((49_999,), 49_999)
    assert recent.meets((49_900,), 49_900)
    assert len(recent._seen) < 5_000
