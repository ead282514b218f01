"""WebSocket (RFC 6455), the server's side: the handshake's proof, and frames as bytes.

Owns the format. Refuses to know sockets: bytes go in, messages come out. Invariants: a fragmented message is given
once and whole, a control frame between its fragments at once; a client that breaks the rules is told by which code.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

from tidelore_world.wire import Request

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL, PROTOCOL_ERROR, NOT_TEXT, POLICY, TOO_BIG = 1000, 1002, 1007, 1008, 1009
MAX_MESSAGE_BYTES = 10_000_000

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KNOWN = frozenset({CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})


class ProtocolError(Exception):
    """The client broke the protocol; `code` is what the closing frame tells it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Message:
    """A whole message or a control frame."""

    opcode: int
    payload: bytes

    @property
    def close_code(self) -> int:
        """The code of a closing frame; 1005 when it carries none."""
        return int.from_bytes(self.payload[:2]) if len(self.payload) >= 2 else 1005


def wants_websocket(request: Request) -> bool:
    """Whether a request asks for an upgrade as the protocol demands."""
    tokens = {part.strip().lower() for part in request.headers.get("connection", "").split(",")}
    return (
        request.method == "GET"
        and request.headers.get("upgrade", "").lower() == "websocket"
        and "upgrade" in tokens
        and request.headers.get("sec-websocket-version") == "13"
        and _is_key(request.headers.get("sec-websocket-key", ""))
    )


def accept_headers(request: Request) -> dict[str, str]:
    """The headers of the answer that agrees to an upgrade."""
    key = request.headers["sec-websocket-key"]
    proof = hashlib.sha1(f"{key}{_GUID}".encode(), usedforsecurity=False).digest()
    return {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": base64.b64encode(proof).decode(),
    }


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """One whole, unmasked frame, as servers send them."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | opcode, size)) + payload
    if size < 65_536:
        return bytes((0x80 | opcode, 126)) + size.to_bytes(2) + payload
    return bytes((0x80 | opcode, 127)) + size.to_bytes(8) + payload


def encode_close(code: int, reason: str = "") -> bytes:
    """A closing frame; the reason is cut to what a control frame may carry."""
    return encode_frame(CLOSE, code.to_bytes(2) + reason.encode()[:123])


class FrameReader:
    """Collects a client's bytes and gives its messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._kind: int | None = None
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Message]:
        """Take bytes; return the messages they complete, or raise ProtocolError."""
        self._buffer += data
        found = []
        while (frame := self._take_frame()) is not None:
            message = self._join(*frame)
            if message is not None:
                found.append(message)
        return found

    def _take_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        final, opcode, size = bool(first & 0x80), first & 0x0F, second & 0x7F
        _check(final=final, reserved=first & 0x70, opcode=opcode, masked=bool(second & 0x80), size=size)
        extra = {126: 2, 127: 8}.get(size, 0)
        start = 2 + extra + 4
        if len(buffer) < start:
            return None
        if extra:
            size = int.from_bytes(buffer[2 : 2 + extra])
        if size > MAX_MESSAGE_BYTES:
            raise ProtocolError(TOO_BIG, "message too big")
        if len(buffer) < start + size:
            return None
        payload = _unmask(bytes(buffer[start : start + size]), bytes(buffer[start - 4 : start]))
        del buffer[: start + size]
        return final, opcode, payload

    def _join(self, final: bool, opcode: int, payload: bytes) -> Message | None:  # noqa: FBT001
        if opcode >= CLOSE:
            return Message(opcode, payload)
        if (opcode == CONTINUATION) == (self._kind is None):
            raise ProtocolError(PROTOCOL_ERROR, "fragments out of order")
        if opcode != CONTINUATION:
            self._kind = opcode
        self._parts.append(payload)
        self._size += len(payload)
        if self._size > MAX_MESSAGE_BYTES:
            raise ProtocolError(TOO_BIG, "message too big")
        if not final:
            return None
        whole, kind = b"".join(self._parts), self._kind
        self._parts, self._size, self._kind = [], 0, None
        if kind == TEXT:
            _check_text(whole)
        return Message(kind or TEXT, whole)


def _check(*, final: bool, reserved: int, opcode: int, masked: bool, size: int) -> None:
    if reserved or opcode not in _KNOWN:
        raise ProtocolError(PROTOCOL_ERROR, "unknown frame")
    if not masked:
        raise ProtocolError(PROTOCOL_ERROR, "a client's frame is masked")
    if opcode >= CLOSE and (not final or size > 125):
        raise ProtocolError(PROTOCOL_ERROR, "a control frame is short and whole")


def _check_text(payload: bytes) -> None:
    try:
        payload.decode()
    except UnicodeDecodeError:
        raise ProtocolError(NOT_TEXT, "not UTF-8") from None


def _unmask(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    key = int.from_bytes((mask * (size // 4 + 1))[:size])
    return (int.from_bytes(payload) ^ key).to_bytes(size)


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except ValueError:
        return False
