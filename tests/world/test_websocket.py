"""The simulator's WebSocket: frames as RFC 6455 has them, and what becomes of a client that breaks the rules."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.effort import examples

from tidelore_world.server import Server, serve
from tidelore_world.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    FrameReader,
    Message,
    ProtocolError,
    accept_headers,
    encode_close,
    encode_frame,
    wants_websocket,
)
from tidelore_world.wire import Request
from tidelore_world.world import World

HEAD = {
    "host": "x",
    "upgrade": "websocket",
    "connection": "keep-alive, Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def masked(opcode: int, payload: bytes = b"", *, final: bool = True, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    size = len(payload)
    extra = b"" if size < 126 else size.to_bytes(2) if size < 65_536 else size.to_bytes(8)
    length = size if size < 126 else 126 if size < 65_536 else 127
    hidden = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bytes(((0x80 if final else 0) | opcode, 0x80 | length)) + extra + mask + hidden


def test_the_accept_header_matches_the_rfc_example() -> None:
    request = Request.build("GET", "/subscribe", HEAD)
    assert wants_websocket(request)
    assert accept_headers(request)["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize("missing", [name for name in HEAD if name != "host"])
def test_a_request_with_an_incomplete_handshake_is_not_a_websocket(missing: str) -> None:
    assert not wants_websocket(Request.build("GET", "/", {k: v for k, v in HEAD.items() if k != missing}))
    assert not wants_websocket(Request.build("GET", "/", HEAD | {"sec-websocket-key": "short"}))


@pytest.mark.parametrize(("size", "head"), [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)])
def test_frames_of_every_size_have_their_shortest_form(size: int, head: int) -> None:
    frame = encode_frame(TEXT, b"x" * size)
    assert len(frame) == head + size
    assert frame[0] == 0x81
    (message,) = FrameReader().feed(masked(TEXT, b"x" * size))
    assert message == Message(TEXT, b"x" * size)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.integers(1, 50))
@examples(60, 1000)
def test_a_message_in_any_fragments_and_packets_is_delivered_once_and_complete(parts: list[bytes], step: int) -> None:
    frames = [
        masked(BINARY if number == 0 else CONTINUATION, part, final=number == len(parts) - 1)
        for number, part in enumerate(parts)
    ]
    stream = masked(PING, b"before") + frames[0] + b"".join(masked(PING, b"between") + one for one in frames[1:])
    reader, found = FrameReader(), []
    for start in range(0, len(stream), step):
        found += reader.feed(stream[start : start + step])
    assert [one for one in found if one.opcode == BINARY] == [Message(BINARY, b"".join(parts))]
    assert sum(one.opcode == PING for one in found) == len(parts)
    assert found[-1].opcode == BINARY


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (encode_frame(TEXT, b"not masked"), 1002),
        (masked(0x3), 1002),
        (bytes((0xC1, 0x80)) + b"\x00" * 4, 1002),
        (masked(PING, b"x", final=False), 1002),
        (bytes((0x89, 0x80 | 126)) + b"\x00" * 8, 1002),
        (masked(CONTINUATION, b"x"), 1002),
        (masked(TEXT, b"x", final=False) + masked(TEXT, b"y"), 1002),
        (masked(TEXT, b"\xff"), 1007),
        (bytes((0x82, 0xFF)) + (1 << 40).to_bytes(8) + b"\x00" * 4, 1009),
    ],
)
def test_a_protocol_violation_has_its_close_code(data: bytes, code: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        FrameReader().feed(data)
    assert caught.value.code == code


def test_a_utf_8_character_may_be_split_between_two_fragments() -> None:
    ship = "🚢".encode()
    stream = masked(TEXT, ship[:2], final=False) + masked(CONTINUATION, ship[2:])
    assert FrameReader().feed(stream) == [Message(TEXT, ship)]


def test_a_close_reason_is_cut_to_the_size_of_a_control_frame() -> None:
    assert len(encode_close(1002, "x" * 500)) == 2 + 125


@pytest.fixture
def served() -> Iterator[Server]:
    with serve(World()) as server:
        yield server


def connect(server: Server, target: str = "/subscribe") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=5)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [f"GET {target} HTTP/1.1", *(f"{k}: {v}" for k, v in (HEAD | {"sec-websocket-key": key}).items())]
    client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += client.recv(1)
    assert head.startswith(b"HTTP/1.1 101"), head
    return client


def receive(client: socket.socket) -> tuple[int, bytes]:
    first, size = client.recv(2)
    return first & 0x0F, client.recv(size) if size else b""


def test_a_ping_is_answered_with_its_own_payload(served: Server) -> None:
    with connect(served) as client:
        client.sendall(masked(PING, b"still there?"))
        assert receive(client) == (PONG, b"still there?")
        client.sendall(masked(PONG, b"unasked"))
        client.sendall(masked(PING, b"again"))
        assert receive(client) == (PONG, b"again")


def test_a_close_frame_is_answered_and_the_connection_ends(served: Server) -> None:
    with connect(served) as client:
        client.sendall(masked(CLOSE, (1000).to_bytes(2)))
        assert receive(client) == (CLOSE, (1000).to_bytes(2))
        assert client.recv(1) == b""
    assert served.world.bluesky.jetstream.open == set()


def test_a_protocol_violation_closes_the_connection_with_its_code(served: Server) -> None:
    with connect(served) as client:
        client.sendall(encode_frame(TEXT, b"not masked"))
        opcode, payload = receive(client)
        assert (opcode, int.from_bytes(payload[:2])) == (CLOSE, 1002)
        assert client.recv(1) == b""


def test_a_plain_http_request_to_the_stream_is_refused_and_the_connection_kept(served: Server) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as client:
        for _ in range(2):
            client.sendall(b"GET /subscribe HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = client.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 426")
