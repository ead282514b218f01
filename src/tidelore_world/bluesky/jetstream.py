"""The event stream of the simulated network, in both of its protocols: `/subscribe`, and `subscribeEvents`.

Owns one client's place in the log and the shape of what it is told. Refuses to know sockets. Invariants: a client is
told every event it wants from its start on, once and in order, until it leaves, is cut, or cannot keep up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tidelore_world.bluesky.failure import XrpcFailure
from tidelore_world.bluesky.jetstream_options import (
    FIRST_PATH,
    SECOND_PATH,
    Filter,
    Start,
    as_payload,
    first_filter,
    first_start,
    second_filter,
    second_start,
    updated_filter,
)
from tidelore_world.bluesky.settings import BlueskySettings
from tidelore_world.bluesky.stream_log import StreamEvent, StreamLog
from tidelore_world.streaming import Upgrade
from tidelore_world.websocket import POLICY, accept_headers, wants_websocket
from tidelore_world.wire import Request, Response, json_response

PATHS = (FIRST_PATH, SECOND_PATH)
_NSID = SECOND_PATH.rpartition("/")[2]
_SUBPROTOCOL = "xrpc.v1.json"
_SCANNED_AT_ONCE = 5_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Jetstream:
    """Opens subscriptions, and drops them when told to."""

    def __init__(self, log: StreamLog, settings: BlueskySettings) -> None:
        self._log = log
        self._settings = settings
        self.open: set[Subscriber] = set()

    def subscribe(self, request: Request) -> Response:
        """Agree to a connection, or say why not."""
        second = request.path == SECOND_PATH
        if not wants_websocket(request):
            return json_response({"error": "InvalidRequest", "message": "a WebSocket is expected here"}, 426)
        try:
            chosen = second_filter(request, self._settings) if second else first_filter(request, self._settings)
            start = second_start(request, self._log, self._settings) if second else first_start(request, self._log)
        except XrpcFailure as failure:
            return failure.response()
        headers = accept_headers(request)
        if second and _SUBPROTOCOL in request.headers.get("sec-websocket-protocol", ""):
            headers["sec-websocket-protocol"] = _SUBPROTOCOL
        waiting = not second and request.first("requireHello") == "true"
        render = render_second if second else render_first
        subscriber = Subscriber(self, self._log, self._settings, chosen, start, render, waiting=waiting)
        self.open.add(subscriber)
        return Upgrade(101, headers, b"", subscriber)

    def cut(self) -> int:
        """Drop every connection without a word; return how many."""
        dropped = tuple(self.open)
        for subscriber in dropped:
            subscriber.cut()
        return len(dropped)


class Subscriber:
    """One client's place in the log."""

    def __init__(
        self,
        stream: Jetstream,
        log: StreamLog,
        settings: BlueskySettings,
        chosen: Filter,
        start: Start,
        render: Callable[[StreamEvent], bytes],
        *,
        waiting: bool,
    ) -> None:
        self._stream = stream
        self._log = log
        self._settings = settings
        self._filter = chosen
        self._seq = start.seq
        self._notice = start.notice
        self._render = render
        self._waiting = waiting
        self._wake: Callable[[], None] | None = None
        self._left: int | None = None
        self._on_cut: Callable[[], None] | None = None
        self._cut = False

    @property
    def patience_seconds(self) -> float:
        return self._settings.stream_patience_seconds

    def cut_after(self, events: int, then: Callable[[], None]) -> None:
        """Drop the connection after so many events; `then` hears of it."""
        self._left, self._on_cut = events, then

    def cut(self) -> None:
        """Drop the connection at once."""
        self._cut = True
        if self._wake is not None:
            self._wake()

    def listen(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._log.listen(id(self), wake)

    def take(self, most: int) -> list[bytes]:
        if self._waiting or self._cut:
            return []
        found: list[bytes] = []
        if self._notice is not None:
            found.append(_info(self._notice, self._seq))
            self._notice = None
        limit = most if self._left is None else min(most, self._left)
        while len(found) < limit and (events := self._log.read(self._seq, min(_SCANNED_AT_ONCE, limit))):
            for event in events:
                self._seq = event.seq + 1
                if self._filter.wants(event):
                    found.append(self._render(event))
                    if len(found) >= limit:
                        break
        if self._left is not None:
            self._left -= len(found)
            if self._left <= 0:
                self._cut = True
                if self._on_cut is not None:
                    self._on_cut()
        return found

    def receive(self, text: bytes) -> int | None:
        if self._render is render_second:
            return POLICY
        try:
            chosen = updated_filter(text, self._settings)
        except (ValueError, TypeError, AttributeError):
            return POLICY
        if chosen is not None:
            self._filter, self._waiting = chosen, False
        return None

    def is_overdue(self) -> bool:
        return self._log.next_seq - self._seq > self._settings.stream_backlog

    def is_cut(self) -> bool:
        return self._cut

    def leave(self) -> None:
        self._log.listen(id(self), None)
        self._stream.open.discard(self)


def render_first(event: StreamEvent) -> bytes:
    """An event as the first protocol tells it."""
    return as_payload({"did": event.did, "time_us": event.time_us, "kind": event.kind, event.kind: event.body})


def render_second(event: StreamEvent) -> bytes:
    """An event as the second protocol tells it: in an envelope, with its number and two instants."""
    instant = (_EPOCH + timedelta(microseconds=event.time_us)).isoformat(timespec="microseconds")[:26] + "Z"
    told: dict[str, Any] = {
        "$type": f"{_NSID}#{event.kind}",
        "seq": event.seq,
        "did": event.did,
        "time": instant,
        "witnessedAt": instant,
    }
    told |= event.body if event.kind == "commit" else {event.kind: event.body}
    return as_payload({"$type": "message", "payload": told})


def _info(name: str, seq: int) -> bytes:
    told = {"$type": f"{_NSID}#info", "name": name, "message": f"begins at {seq}"}
    return as_payload({"$type": "message", "payload": told})
