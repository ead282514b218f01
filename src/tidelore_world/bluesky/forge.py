"""The simulated Bluesky as the world sees it: events, requests, and the truth to compare with.

Owns the wiring of network, limits and handlers. Truth methods give what the API would show at this moment, in
the same shape, without paging, limits or faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tidelore_world.bluesky.churn import change
from tidelore_world.bluesky.disturbance import disturb
from tidelore_world.bluesky.events import Events
from tidelore_world.bluesky.failure import XrpcFailure
from tidelore_world.bluesky.history import write_history
from tidelore_world.bluesky.jetstream import PATHS, Jetstream
from tidelore_world.bluesky.limits import Limits
from tidelore_world.bluesky.records import FOLLOW, POST
from tidelore_world.bluesky.views import View, Views
from tidelore_world.bluesky.xrpc import Xrpc
from tidelore_world.wire import Request, Response, json_response

if TYPE_CHECKING:
    from tidelore_world.world import World

_ORIGIN = "http://127.0.0.1"


class BlueskyForge(Events):
    """A network of accounts with an AppView, a PDS, a PLC directory and an event stream."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._world = world
        self.limits = Limits(world.clock, self.settings)
        self._xrpc = Xrpc(self.network, self.settings)
        self._views = Views(self.network)
        self.jetstream = Jetstream(self.stream_log, self.settings)

    def route(self, request: Request) -> tuple[str, Callable[[], Response]] | None:
        """Name the route and give its handler; None when the path belongs to somebody else."""
        if request.path in PATHS:
            return f"{request.method} {request.path}", lambda: self.jetstream.subscribe(request)
        segments = request.segments
        if segments[0] == "xrpc" and len(segments) == 2:
            return f"{request.method} /xrpc/{segments[1]}", lambda: self._serve(request, segments[1])
        did = segments[-1]
        if did.startswith("did:") and segments[:-1] in ((), ("did",)):
            return f"{request.method} /:did", lambda: self._xrpc.did_document(did, request.origin)
        return None

    def disturb(self, request: Request, row: Mapping[str, Any], change: Literal["edit", "delete"]) -> bool:  # noqa: ARG002
        """Edit or delete what a list row shows, for the faults that strike between two pages."""
        return disturb(self, row, change)

    def populate(self, scale: float = 1.0) -> None:
        """Fill the network with accounts and the months of posts before the world's present."""
        write_history(self, self._world.prose, self._world.rng, self._world.clock.now_us, scale)

    def change(
        self,
        count: int,
        rng: random.Random,
        kinds: Sequence[str] | None = None,
        advance: Callable[[float], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Let a seeded mix of things happen; answers what was done."""
        return change(self, self._world.prose, count, rng, kinds, advance)

    def truth_accounts(self) -> list[str]:
        """The DIDs of all accounts, oldest first."""
        return list(self.network.accounts)

    def truth_feed(self, actor: str, origin: str = _ORIGIN) -> list[View]:
        """Every item the author feed can show, newest first, without pins and without an early end."""
        feed = self.network.account(actor).feed
        items = (self._views.feed_item(feed.at(index), origin) for index in reversed(range(len(feed.places))))
        return [item for item in items if item is not None]

    def truth_records(self, actor: str, collection: str = POST) -> list[dict[str, Any]]:
        """Every record of a collection as the PDS lists it, in the order of writing."""
        rows = self.network.account(actor).shelf(collection).rows()
        return [{"uri": row.uri, "cid": row.cid, "value": row.value} for row in rows]

    def truth_profile(self, actor: str, origin: str = _ORIGIN) -> View:
        """An account's profile."""
        return self._views.profile(self.network.account(actor), origin)

    def truth_follows(self, actor: str) -> list[str]:
        """The DIDs an account follows, in the order of following."""
        return [str(row.value["subject"]) for row in self.network.account(actor).shelf(FOLLOW).rows()]

    def _serve(self, request: Request, method: str) -> Response:
        if not self.limits.admit():
            body = {"error": "RateLimitExceeded", "message": "Rate Limit Exceeded"}
            return json_response(body, 429, self.limits.headers())
        handler = self._xrpc.methods.get(method)
        try:
            if handler is None:
                raise XrpcFailure(501, "MethodNotImplemented", "Method Not Implemented")
            response = handler(request)
        except XrpcFailure as failure:
            response = failure.response()
        response.headers |= self.limits.headers()
        return response
